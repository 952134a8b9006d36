// QGemm of com.microsoft: alpha · A · B + C on 8-bit matrices, either transposed. C is int32 on the scale of the sums. With
// y_scale the result is requantized, without it float32. Sums are exact; scales are joined first, as onnxruntime does.
import { decode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { sizeOf } from '../tensor/shape.js';
import { type AttributesOf, float, int } from './attributes.js';
import { factorOf, isByte, lineStrides, lowerIntegerProduct, zeroOf } from './integer-product.js';
import { type InferCall, type Operator, operator } from './operator.js';
import { fromNumbers } from './reference.js';
import { rangeOf, saturate } from './rounding.js';

const specs = { alpha: float(1), transA: int(0), transB: int(0) };

/** Strides of C along rows and columns, which broadcasts to [m, n]. */
function addendOf(call: InferCall<unknown>, m: number, n: number): { row: number; column: 0 | 1 } | undefined {
  const c = call.optional(6);
  if (c === undefined) return undefined;
  const [rows, columns] = [c.dims.at(-2) ?? 1, c.dims.at(-1) ?? 1];
  const fits = c.dims.length <= 2 && (rows === m || rows === 1) && (columns === n || columns === 1);
  if (!fits || c.type !== 'int32')
    throw call.error(`expected C to be int32 and to broadcast to [${m}, ${n}], got ${c.type} ${formatShape(c.dims)}`);
  return { row: rows === 1 ? 0 : columns, column: columns === 1 ? 0 : 1 };
}

function gemmOf(call: InferCall<AttributesOf<typeof specs>>) {
  const { transA, transB } = call.attributes;
  const [a, b] = [call.input(0), call.input(3)];
  if (a.dims.length !== 2 || b.dims.length !== 2)
    throw call.error(`A and B must be matrices, got ${formatShape(a.dims)} and ${formatShape(b.dims)}`);
  if (!isByte(a.type) || !isByte(b.type)) throw call.error(`A and B must be of 8 bits, got ${a.type} and ${b.type}`);
  const [m, k] = (transA ? [a.dims[1], a.dims[0]] : a.dims) as [number, number];
  const [inner, n] = (transB ? [b.dims[1], b.dims[0]] : b.dims) as [number, number];
  if (k !== inner)
    throw call.error(`inner dimensions differ: A ${formatShape(a.dims)}, B ${formatShape(b.dims)} with transposes`);
  const one = (i: number) => {
    const t = call.optional(i);
    if (t !== undefined && sizeOf(t.dims) !== 1)
      throw call.error(`input ${i} must be one value, got ${formatShape(t.dims)}`);
    return t;
  };
  for (const i of [1, 4, 7]) {
    const t = call.optional(i);
    if (t !== undefined && t.type !== 'float32') throw call.error(`input ${i} must be float32, got ${t.type}`);
  }
  one(1);
  one(2);
  one(7);
  zeroOf(call, 'a_zero_point', 0, 2);
  zeroOf(call, 'b_zero_point', 3, 5);
  const lines = (name: string, i: number) => lineStrides(call, name, call.optional(i), [], n, false);
  const zeroY = one(8)?.type ?? a.type;
  const requantized = call.has(7);
  if (requantized && !isByte(zeroY)) throw call.error(`y_zero_point must be of 8 bits, got ${zeroY}`);
  return {
    m,
    n,
    k,
    a: { row: transA ? 1 : k, column: transA ? m : 1 },
    b: { row: transB ? 1 : n, column: transB ? k : 1 },
    scaleB: lines('b_scale', 4),
    zeroB: lines('b_zero_point', 5),
    c: addendOf(call, m, n),
    requantized,
    type: requantized ? (zeroY as 'int8' | 'uint8') : ('float32' as const),
  };
}

/** A, a_scale, a_zero_point, B, b_scale, b_zero_point, C?, y_scale?, y_zero_point? → y. */
const qGemm = operator({
  name: 'QGemm',
  domain: 'com.microsoft',
  since: [1],
  inputs: [6, 9],
  attributes: specs,
  infer(call) {
    const { m, n, type } = gemmOf(call);
    return [{ type, dims: [m, n] }];
  },
  reference(call) {
    const g = gemmOf(call);
    const { m, n, k } = g;
    const numbers = (i: number) => (call.has(i) ? decode(call.tensor(i)) : undefined);
    const [a, b, c] = [numbers(0)!, numbers(3)!, numbers(6)];
    const [scaleA, scaleB, scaleY] = [numbers(1)![0]!, numbers(4)!, numbers(7)?.[0]];
    const [zeroA, zeroB, zeroY] = [numbers(2)?.[0] ?? 0, numbers(5), numbers(8)?.[0] ?? 0];
    const range = g.requantized ? rangeOf(g.type) : ([0, 0] as const);
    const alpha = Math.fround(call.attributes.alpha);
    const y = new Float64Array(m * n);
    for (let i = 0; i < m; i++)
      for (let j = 0; j < n; j++) {
        const zb = zeroB === undefined ? 0 : zeroB[j * g.zeroB.line]!;
        let sum = g.c === undefined ? 0 : c![i * g.c.row + j * g.c.column]!;
        for (let l = 0; l < k; l++)
          sum += (a[i * g.a.row + l * g.a.column]! - zeroA) * (b[l * g.b.row + j * g.b.column]! - zb);
        const scale = Math.fround(Math.fround(alpha * scaleA) * scaleB[j * g.scaleB.line]!);
        const product = (s: number) => Math.fround(Math.fround(sum) * s);
        y[i * n + j] =
          scaleY === undefined ? product(scale) : saturate(product(Math.fround(scale / scaleY)), zeroY, range);
      }
    return [fromNumbers(g.type, [m, n], y)];
  },
  lower(call) {
    const g = gemmOf(call);
    const { m, n, k, c } = g;
    // The kernel adds a whole row or column of integers, and integers only to a requantized result.
    if (call.attributes.alpha !== 1 || (c !== undefined && (!g.requantized || c.row > 1))) return false;
    const line = { matrices: 1, k, stride: 0, zeroMatrix: 0 };
    const rows = { ...line, lines: m, line: g.a.row, step: g.a.column, zeroLine: 0, panel: 4 as const };
    const columns = { ...line, lines: n, line: g.b.column, step: g.b.row, zeroLine: g.zeroB.line, panel: 8 as const };
    const factors = [factorOf(call, 0, 2, rows), factorOf(call, 3, 5, columns)] as const;
    lowerIntegerProduct(call, ...factors, { a: [0], b: [0] }, call.out(0), {
      type: g.type,
      scaleA: { at: call.in(1), matrix: 0, line: 0 },
      scaleB: { at: call.in(4), ...g.scaleB },
      ...(c !== undefined && { bias: { at: call.in(6), row: c.row as 0 | 1, column: c.column } }),
      ...(g.requantized && { scaleY: call.in(7) }),
      ...(call.has(8) && { zeroY: call.in(8) }),
    });
    return true;
  },
});

export const quantizedGemmOperators: readonly Operator[] = [qGemm];
