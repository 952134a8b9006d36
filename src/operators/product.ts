// Lowering of matrix products, shared by MatMul, Gemm, convolutions that are products and recurrent layers. How to
// picture it: pack what is not constant, then one gemm step over (batch, chunk of rows, B panel). Constant matrices are
// packed once a model. Also the reference product, in double precision.
import { packColumnPanels, packedSizeB, packRowPanels } from '../kernels/gemm.js';
import { heightFor } from '../kernels/tile.js';
import { decode } from '../tensor/convert.js';
import { type Epilogue, epilogueParams } from './epilogue.js';
import type { Address, LowerCall } from './operator.js';

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
