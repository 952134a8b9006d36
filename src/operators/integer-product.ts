// What the operators on 8-bit integers share: how zero points and scales lie over the rows or columns of a factor, the
// lowering of a product (pack what is not constant, then one step), and the reference sums, which are exact.
import {
  type IntegerLines,
  type integerResultFields,
  integerResults,
  packedIntegers,
  packIntegers,
} from '../kernels/integer.js';
import { decode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { sameShape, sizeOf } from '../tensor/shape.js';
import type { DataType } from '../tensor/types.js';
import { type MatMulShape, matrixIndices } from './matmul.js';
import type { Address, Call, InferCall, LowerCall, TensorInfo } from './operator.js';
import { grainOf } from './product.js';

/** Strides, in elements, of a value that a factor has one of, or one a row (column), or one a row of every matrix. */
export interface LineStrides {
  readonly matrix: 0 | number;
  readonly line: 0 | 1;
}

/**
 * How a zero point or scale of rows (`rows`: [M] or […, M, 1]) or columns ([N] or […, 1, N]) lies over matrices with
 * these leading dimensions.
 */
export function lineStrides(
  call: Call<unknown>,
  name: string,
  t: TensorInfo | undefined,
  batch: readonly number[],
  lines: number,
  rows: boolean,
): LineStrides {
  if (t === undefined || sizeOf(t.dims) === 1) return { matrix: 0, line: 0 };
  const { dims } = t;
  if (sameShape(dims, [lines])) return { matrix: 0, line: 1 };
  const last = rows ? [lines, 1] : [1, lines];
  if (sameShape(dims.slice(-2), last)) {
    const leading = dims.slice(0, -2);
    if (sizeOf(leading) === 1) return { matrix: 0, line: 1 };
    if (sameShape(leading, batch)) return { matrix: lines, line: 1 };
  }
  const each = `[${lines}] or ${formatShape([...batch, ...last])}`;
  throw call.error(`${name} must be one value or of shape ${each}, got ${formatShape(dims)}`);
}

/** True for the types that integer kernels multiply. */
export function isByte(type: DataType): boolean {
  return type === 'int8' || type === 'uint8';
}

/** What becomes of the sums. */
export interface IntegerResult {
  /** Of the result: int32, int8, uint8 or float32. */
  readonly type: keyof typeof integerResults;
  readonly bias?: { readonly at: Address; readonly row: 0 | 1; readonly column: 0 | 1 };
  readonly scaleA?: { readonly at: Address } & LineStrides;
  readonly scaleB?: { readonly at: Address } & LineStrides;
  readonly scaleY?: Address;
  readonly zeroY?: Address;
}

type ResultParams = {
  readonly [F in keyof typeof integerResultFields]: (typeof integerResultFields)[F] extends 'ptr'
    ? Address | 0
    : number;
};

/** The first fields of the kernels' parameters. */
export function integerResultParams(r: IntegerResult): ResultParams {
  return {
    kind: integerResults[r.type],
    bias: r.bias?.at ?? 0,
    biasRow: r.bias?.row ?? 0,
    biasColumn: r.bias?.column ?? 0,
    scaleA: r.scaleA?.at ?? 0,
    scaleAMatrix: r.scaleA?.matrix ?? 0,
    scaleARow: r.scaleA?.line ?? 0,
    scaleB: r.scaleB?.at ?? 0,
    scaleBMatrix: r.scaleB?.matrix ?? 0,
    scaleBColumn: r.scaleB?.line ?? 0,
    scaleY: r.scaleY ?? 0,
    zeroY: r.zeroY ?? 0,
  };
}

/** A factor: an input (or bytes computed before) and its zero points. */
export interface Factor {
  readonly type: DataType;
  readonly at: Address;
  readonly zero: Address | 0;
  readonly lines: IntegerLines;
  /** Elements, where they and the zero points are constant. */
  readonly value?: ArrayLike<number>;
  readonly zeros?: ArrayLike<number>;
  /** What the constant is called. */
  readonly key: string;
}

/** A factor that is input `i` with zero point input `zero`. */
export function factorOf(call: LowerCall<unknown>, i: number, zero: number, lines: IntegerLines): Factor {
  const info = call.input(i);
  const zeroInfo = call.optional(zero);
  const constant = info.value !== undefined && (zeroInfo === undefined || zeroInfo.value !== undefined);
  return {
    type: info.type,
    at: call.in(i),
    zero: zeroInfo === undefined ? 0 : call.in(zero),
    lines,
    ...(constant && { value: decode(info.value!) }),
    ...(constant && zeroInfo !== undefined && { zeros: decode(zeroInfo.value!) }),
    key: `${i}, ${zero}`,
  };
}

/** Where a factor lies packed: packs it now, or once a model. */
export function placeIntegers(call: LowerCall<unknown>, f: Factor): Address {
  const bytes = packedIntegers(f.lines);
  const { value, zeros, lines } = f;
  if (value !== undefined)
    return call.constant(`integers ${f.key}: ${Object.values(lines).join()}`, bytes, (into) => {
      packIntegers(new Int16Array(into.buffer, into.byteOffset, bytes / 2), value, zeros, lines);
    });
  const packed = call.scratch(bytes);
  const signed = f.type === 'int8' ? 1 : 0;
  call.step(
    'packIntegers',
    { x: f.at, zero: f.zero, packed, signed, ...lines },
    {
      units: lines.matrices * Math.ceil(lines.lines / lines.panel),
      grain: Math.ceil(8192 / Math.max(1, lines.panel * lines.k)),
    },
  );
  return packed;
}

/** Rows of A whose packed form stays in a level-2 cache. */
function chunkRows(pairs: number): number {
  return Math.max(32, Math.min(512, Math.floor(65_536 / Math.max(pairs, 1) / 4) * 4));
}

/** A product of A and B, with the zero points' strides. */
export interface IntegerMatMul {
  readonly shape: MatMulShape;
  readonly zeroA: LineStrides;
  readonly zeroB: LineStrides;
}

/** The rows of A and the columns of B, and how many products there are. */
export function matMulLines({ shape, zeroA, zeroB }: IntegerMatMul, scaleA: LineStrides = { matrix: 0, line: 0 }) {
  const { m, n, k } = shape;
  const aCount = sizeOf(shape.aBatch);
  const bCount = sizeOf(shape.bBatch);
  const b: IntegerLines = {
    matrices: bCount,
    lines: n,
    k,
    stride: k * n,
    line: 1,
    step: n,
    zeroMatrix: zeroB.matrix,
    zeroLine: zeroB.line,
    panel: 8,
  };
  // One B for all: the matrices of A are one tall matrix, unless rows of different matrices share a value.
  const merges = (s: LineStrides) => s.line === 0 || s.matrix !== 0;
  const tall = bCount === 1 && merges(zeroA) && merges(scaleA);
  const a: IntegerLines = {
    matrices: tall ? 1 : aCount,
    lines: tall ? aCount * m : m,
    k,
    stride: m * k,
    line: k,
    step: 1,
    zeroMatrix: zeroA.matrix,
    zeroLine: zeroA.line,
    panel: 4,
  };
  const at = tall ? { a: [0], b: [0] } : matrixIndices(shape);
  return { a, b, at };
}

/** Appends the steps of a product. */
export function lowerIntegerProduct(
  call: LowerCall<unknown>,
  a: Factor,
  b: Factor,
  at: { readonly a: readonly number[]; readonly b: readonly number[] },
  y: Address,
  result: IntegerResult,
): void {
  const m = a.lines.lines;
  const n = b.lines.lines;
  const { k } = a.lines;
  const batches = at.a.length;
  if (m * n * batches === 0) return;
  const packedA = placeIntegers(call, a);
  const packedB = placeIntegers(call, b);
  const pairs = Math.ceil(k / 2);
  const chunk = chunkRows(pairs);
  call.threadScratch(64 * 32);
  call.step(
    'integerProduct',
    {
      ...integerResultParams(result),
      a: packedA,
      b: packedB,
      y,
      batches,
      aIndex: at.a,
      bIndex: at.b,
      m,
      n,
      pairs,
      chunk,
    },
    {
      units: batches * Math.ceil(m / chunk) * Math.ceil(n / 8),
      grain: grainOf(Math.min(m, chunk) * 8 * k),
      flops: 2 * batches * m * n * k,
    },
  );
}

/** The reference: exact sums of products of differences. */
export function integerSums(
  { shape, zeroA, zeroB }: IntegerMatMul,
  a: ArrayLike<number>,
  b: ArrayLike<number>,
  zerosA: ArrayLike<number> | undefined,
  zerosB: ArrayLike<number> | undefined,
): Float64Array {
  const { m, n, k } = shape;
  const y = new Float64Array(sizeOf(shape.dims));
  const at = matrixIndices(shape);
  at.a.forEach((ai, batch) => {
    const bi = at.b[batch]!;
    for (let i = 0; i < m; i++) {
      const za = zerosA === undefined ? 0 : zerosA[ai * zeroA.matrix + i * zeroA.line]!;
      for (let l = 0; l < k; l++) {
        const left = a[(ai * m + i) * k + l]! - za;
        for (let j = 0; j < n; j++) {
          const zb = zerosB === undefined ? 0 : zerosB[bi * zeroB.matrix + j * zeroB.line]!;
          y[(batch * m + i) * n + j]! += left * (b[(bi * k + l) * n + j]! - zb);
        }
      }
    }
  });
  return y;
}

/** The zero points of an optional input, checked to be of the factor's type. */
export function zeroOf(call: InferCall<unknown>, name: string, factor: number, zero: number): TensorInfo | undefined {
  const z = call.optional(zero);
  const { type } = call.input(factor);
  if (z !== undefined && z.type !== type) throw call.error(`${name} must be ${type} as its factor is, got ${z.type}`);
  return z;
}
