// Lowering of matrix products, shared by MatMul, Gemm, convolutions that are products and recurrent layers. How to
// picture it: pack what is not constant, then one gemm step over (batch, chunk of rows, B panel). Constant matrices are
// packed once a model. Also the reference product, in double precision.
import { packColumnPanels, packedSizeB, packRowPanels } from '../kernels/gemm.js';
import { halfExponent, halfFactor, halfSize, MOST_HALF_TERMS, packHalf } from '../kernels/half.js';
import { activationLimit, int8Sizes, MOST_TERMS, packInt8 } from '../kernels/int8.js';
import { heightFor } from '../kernels/tile.js';
import { decode } from '../tensor/convert.js';
import { type Epilogue, epilogueParams } from './epilogue.js';
import { type Address, type LowerCall, offsetBy } from './operator.js';

/** A stack of equal matrices, `stride` floats apart; `row` and `column` are strides in floats, one of them 1. */
export interface Stack {
  readonly matrices: number;
  readonly stride: number;
  readonly row: number;
  readonly column: number;
}

/** A stack of matrices that is an input. */
export interface Operand extends Stack {
  readonly input: number;
}

export interface Product {
  readonly a: Operand;
  readonly b: Operand;
  readonly c: Address;
  readonly m: number;
  readonly n: number;
  readonly k: number;
  /** How many products; which matrix of `a` and `b` each takes. Default: one product, of the first matrices. */
  readonly batches?: number;
  readonly aIndex?: readonly number[];
  readonly bIndex?: readonly number[];
  readonly epilogue: Epilogue;
}

/** Operations below which a claim costs more than it brings. */
const CLAIM_FLOPS = 250_000;

/** Rows of A whose packed form stays in a level-2 cache beside the panels of B; whole panels of any height. */
export function chunkRows(k: number): number {
  const rows = Math.floor(65_536 / Math.max(k, 1) / 12) * 12;
  return Math.max(36, Math.min(516, rows));
}

/** Least units a claim when a unit takes `flops`. */
export function grainOf(flops: number): number {
  return Math.max(1, Math.ceil(CLAIM_FLOPS / Math.max(flops, 1)));
}

const asKey = (name: string, o: Operand, rows: number, columns: number) =>
  `${name} ${o.input}: ${o.matrices}×${rows}×${columns} by ${o.stride}, ${o.row}, ${o.column}`;

/** Where A lies packed, in panels of `height` rows: packs it now, or once a model. */
export function placeA(
  call: LowerCall<unknown>,
  a: Operand,
  m: number,
  k: number,
  height: number = heightFor(call.tile, m),
): Address {
  const { value } = call.input(a.input);
  const size = a.matrices * m * k;
  if (value !== undefined && !isPacked(a, m, k))
    return call.constant(asKey(`panels of ${height} rows`, a, m, k), size * 4, (bytes) => {
      const into = new Float32Array(bytes.buffer, bytes.byteOffset, size);
      const data = decode(value);
      for (let i = 0; i < a.matrices; i++)
        packRowPanels(into, i * m * k, { data, offset: i * a.stride, ...a }, m, k, height);
    });
  return packRows(call, call.in(a.input), a, m, k, height);
}

/** A single row is its own packed form. */
const isPacked = (a: Stack, m: number, k: number) => m === 1 && a.column === 1 && a.stride === k;

/** Packs A from where it lies. */
export function packRows(
  call: LowerCall<unknown>,
  from: Address,
  a: Stack,
  m: number,
  k: number,
  height: number = heightFor(call.tile, m),
): Address {
  if (isPacked(a, m, k)) return from;
  const packed = call.scratch(a.matrices * m * k * 4);
  call.step(
    'packA',
    { a: from, packed, matrices: a.matrices, stride: a.stride, m, k, row: a.row, column: a.column, height },
    { units: a.matrices * Math.ceil(m / height), grain: Math.ceil(8192 / Math.max(1, height * k)) },
  );
  return packed;
}

/** Where B lies packed: packs it now, or once a model. */
export function placeB(call: LowerCall<unknown>, b: Operand, k: number, n: number): Address {
  const { value } = call.input(b.input);
  const each = packedSizeB(k, n);
  const size = b.matrices * each;
  if (value !== undefined)
    return call.constant(asKey('column panels', b, k, n), size * 4, (bytes) => {
      const into = new Float32Array(bytes.buffer, bytes.byteOffset, size);
      const data = decode(value);
      for (let i = 0; i < b.matrices; i++) packColumnPanels(into, i * each, { data, offset: i * b.stride, ...b }, k, n);
    });
  return packColumns(call, call.in(b.input), b, k, n);
}

/** Packs B from where it lies. */
export function packColumns(call: LowerCall<unknown>, from: Address, b: Stack, k: number, n: number): Address {
  const packed = call.scratch(b.matrices * packedSizeB(k, n) * 4);
  call.step(
    'packB',
    { b: from, packed, matrices: b.matrices, stride: b.stride, k, n, row: b.row, column: b.column },
    { units: b.matrices * Math.ceil(n / 8), grain: Math.ceil(8192 / Math.max(1, 8 * k)) },
  );
  return packed;
}

/** Appends the steps of a product of float32 matrices. */
export function lowerProduct(call: LowerCall<unknown>, p: Product): void {
  const { m, n, k, batches = 1 } = p;
  if (m * n * batches === 0) return;
  const rounded = placeInt8(call, p.b, k, n);
  if (rounded !== undefined) {
    lowerInt8(call, p, rounded);
    return;
  }
  const halved = placeHalf(call, p.b, k, n);
  if (halved !== undefined) {
    lowerHalf(call, p, halved);
    return;
  }
  lowerPacked(call, { ...p, a: placeA(call, p.a, m, k), b: placeB(call, p.b, k, n) });
}

/** A product whose matrices lie packed already. */
export interface PackedProduct extends Omit<Product, 'a' | 'b'> {
  readonly a: Address;
  readonly b: Address;
}

/** Appends the step of a product of packed matrices. */
export function lowerPacked(call: LowerCall<unknown>, p: PackedProduct): void {
  const { a, b, m, n, k, batches = 1 } = p;
  if (m * n * batches === 0) return;
  const chunk = chunkRows(k);
  const panels = Math.ceil(n / 8);
  const grain = grainOf(2 * Math.min(m, chunk) * 8 * k);
  const { width } = call.tile;
  const height = heightFor(call.tile, m);
  // Blocks of 60 rows of two panels that are not the result yet.
  call.threadScratch(60 * 2 * 32);
  call.step(
    'gemm',
    {
      ...epilogueParams(p.epilogue),
      a,
      b,
      c: p.c,
      batches,
      aIndex: p.aIndex ?? [0],
      bIndex: p.bIndex ?? [0],
      m,
      n,
      k,
      chunk,
      height,
      width,
    },
    // Few rows are computed four panels at a time, more of them perhaps two.
    {
      units: batches * Math.ceil(m / chunk) * panels,
      grain: Math.ceil(grain / (m < 3 ? 4 : width)) * (m < 3 ? 4 : width),
      flops: 2 * batches * m * n * k,
    },
  );
}

/** Weights fewer than these stay as they are: nothing would be gained. */
const LEAST_ROUNDED = 1024;

/** Weights rounded to int8, and the scales of their columns. */
export interface Int8Weights {
  readonly weights: Address;
  readonly scales: Address;
}

/** Where B lies packed as int8, if it is a weight, large enough, and the model is to be compiled so. */
export function placeInt8(call: LowerCall<unknown>, b: Operand, k: number, n: number): Int8Weights | undefined {
  const { value } = call.input(b.input);
  if (call.weights !== 'int8' || value === undefined || k * n < LEAST_ROUNDED || k > MOST_TERMS) return undefined;
  const each = int8Sizes(k, n);
  const scalesAt = b.matrices * each.weights;
  const both = call.constant(asKey('int8', b, k, n), scalesAt + b.matrices * each.scales, (bytes) => {
    const data = decode(value);
    let most = 0;
    let sum = 0;
    for (let i = 0; i < b.matrices; i++) {
      const weights = new Int8Array(bytes.buffer, bytes.byteOffset + i * each.weights, each.weights);
      const scales = new Float32Array(bytes.buffer, bytes.byteOffset + scalesAt + i * each.scales, each.scales / 4);
      const error = packInt8(weights, scales, { data, offset: i * b.stride, row: b.row, column: b.column }, k, n);
      most = Math.max(most, error.max);
      sum += error.mean;
    }
    call.rounded(b.input, { max: most, mean: sum / b.matrices });
  });
  return { weights: both, scales: offsetBy(both, scalesAt) };
}

/** Weights rounded to float16, and what makes their bits floats again. */
export interface HalfWeights {
  readonly weights: Address;
  readonly factor: number;
}

/** Where B lies packed as float16, if it is a weight, finite, large enough, and the model is to be compiled so. */
export function placeHalf(call: LowerCall<unknown>, b: Operand, k: number, n: number): HalfWeights | undefined {
  const { value } = call.input(b.input);
  if (call.weights !== 'float16' || value === undefined || k * n < LEAST_ROUNDED || k > MOST_HALF_TERMS)
    return undefined;
  const data = decode(value);
  let peak = 0;
  for (let i = 0; i < data.length; i++) peak = Math.max(peak, Math.abs(data[i]!));
  const exponent = halfExponent(peak);
  if (exponent === undefined) return undefined;
  const each = halfSize(k, n);
  const weights = call.constant(asKey('float16', b, k, n), b.matrices * each, (bytes) => {
    let most = 0;
    let sum = 0;
    for (let i = 0; i < b.matrices; i++) {
      const into = new Uint16Array(bytes.buffer, bytes.byteOffset + i * each, each / 2);
      const error = packHalf(into, { data, offset: i * b.stride, row: b.row, column: b.column }, k, n, exponent);
      most = Math.max(most, error.max);
      sum += error.mean;
    }
    call.rounded(b.input, { max: most, mean: sum / b.matrices });
  });
  return { weights, factor: halfFactor(exponent) };
}

function lowerHalf(call: LowerCall<unknown>, p: Product, { weights, factor }: HalfWeights): void {
  const { m, n, k, batches = 1 } = p;
  const chunk = chunkRows(k);
  const height = heightFor(call.tile, m);
  // Blocks of 60 rows of products, and a panel of weights as floats.
  call.threadScratch(60 * 32 + k * 32);
  call.step(
    'gemmHalf',
    {
      ...epilogueParams(p.epilogue),
      a: placeA(call, p.a, m, k, height),
      b: weights,
      c: p.c,
      batches,
      aIndex: p.aIndex ?? [0],
      bIndex: p.bIndex ?? [0],
      m,
      n,
      k,
      chunk,
      height,
      factor,
    },
    {
      units: batches * Math.ceil(m / chunk) * Math.ceil(n / 8),
      grain: Math.ceil(grainOf(2 * Math.min(m, chunk) * 8 * k) / 4) * 4,
      flops: 2 * batches * m * n * k,
    },
  );
}

/** Rows as integers, packed, and their scales. */
export interface QuantizedRows {
  readonly packed: Address;
  readonly scales: Address;
}

/** Memory for `quantizeRows`. */
export function quantizedRows(call: LowerCall<unknown>, rows: number, k: number): QuantizedRows {
  return { packed: call.scratch(rows * Math.ceil(k / 2) * 4), scales: call.scratch(rows * 4) };
}

/** Appends the step that rounds rows to integers. */
export function quantizeRows(
  call: LowerCall<unknown>,
  x: Address,
  a: Stack,
  m: number,
  k: number,
  to: QuantizedRows,
): void {
  const { matrices, stride, row, column } = a;
  call.step(
    'quantizeRows',
    { x, ...to, matrices, stride, m, k, row, column, limit: activationLimit(k) },
    { units: matrices * Math.ceil(m / 4), grain: Math.ceil(16_384 / Math.max(1, 4 * k)) },
  );
}

function lowerInt8(call: LowerCall<unknown>, p: Product, { weights, scales }: Int8Weights): void {
  const { m, n, k, batches = 1 } = p;
  const rows = quantizedRows(call, p.a.matrices * m, k);
  quantizeRows(call, call.in(p.a.input), p.a, m, k, rows);
  const chunk = chunkRows(k);
  call.threadScratch(64 * 32);
  call.step(
    'gemmInt8',
    {
      ...epilogueParams(p.epilogue),
      a: rows.packed,
      rows: rows.scales,
      b: weights,
      columns: scales,
      c: p.c,
      batches,
      aIndex: p.aIndex ?? [0],
      bIndex: p.bIndex ?? [0],
      m,
      n,
      k,
      chunk,
    },
    {
      units: batches * Math.ceil(m / chunk) * Math.ceil(n / 8),
      grain: grainOf(Math.min(m, chunk) * 8 * k),
      flops: 2 * batches * m * n * k,
    },
  );
}

/** Reference: adds the m×n product of two matrix views to `y` at `at`, in double precision, k in order. */
export function multiplyInto(
  y: Float64Array,
  at: number,
  a: { readonly data: ArrayLike<number>; readonly offset: number; readonly row: number; readonly column: number },
  b: { readonly data: ArrayLike<number>; readonly offset: number; readonly row: number; readonly column: number },
  m: number,
  n: number,
  k: number,
): void {
  for (let i = 0; i < m; i++)
    for (let l = 0; l < k; l++) {
      const x = a.data[a.offset + i * a.row + l * a.column]!;
      const from = b.offset + l * b.row;
      for (let j = 0; j < n; j++) y[at + i * n + j]! += x * b.data[from + j * b.column]!;
    }
}
