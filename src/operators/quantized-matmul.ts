// Matrix products of quantized tensors: MatMulInteger (int32 sums), QLinearMatMul (requantized), and com.microsoft's
// MatMulIntegerToFloat and DynamicQuantizeMatMul (scaled to float32). Zero points and scales are of the tensor, of rows
// of A, or of columns of B. Sums are exact; scaling is in float32, in onnxruntime's order: scales first, then one product.
import { decode, encode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { sameShape, sizeOf } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import type { DataType } from '../tensor/types.js';
import {
  factorOf,
  type IntegerMatMul,
  integerSums,
  isByte,
  type LineStrides,
  lineStrides,
  lowerIntegerProduct,
  matMulLines,
  zeroOf,
} from './integer-product.js';
import { matMulShape, matrixIndices } from './matmul.js';
import { type InferCall, type Operator, operator, type ReferenceCall } from './operator.js';
import { dynamicScaleOf, lowerDynamic, quantizeWith } from './quantize.js';
import { fromNumbers, isFloat } from './reference.js';
import { rangeOf, rounderOf, saturate } from './rounding.js';

/** Where an operator has its inputs; -1: nowhere. */
interface Places {
  readonly a: number;
  readonly b: number;
  readonly zeroA: number;
  readonly zeroB: number;
}

function matMulOf(call: InferCall<unknown>, p: Places): IntegerMatMul {
  const a = call.input(p.a);
  const b = call.input(p.b);
  const shape = matMulShape(call, a.dims, b.dims);
  return {
    shape,
    zeroA: lineStrides(call, 'a_zero_point', zeroOf(call, 'a_zero_point', p.a, p.zeroA), shape.aBatch, shape.m, true),
    zeroB: lineStrides(call, 'b_zero_point', zeroOf(call, 'b_zero_point', p.b, p.zeroB), shape.bBatch, shape.n, false),
  };
}

function optionalNumbers(call: ReferenceCall<unknown>, i: number): ArrayLike<number> | undefined {
  return call.has(i) ? decode(call.tensor(i)) : undefined;
}

function sumsOf(call: ReferenceCall<unknown>, p: Places, product: IntegerMatMul): Float64Array {
  const [a, b] = [decode(call.tensor(p.a)), decode(call.tensor(p.b))];
  return integerSums(product, a, b, optionalNumbers(call, p.zeroA), optionalNumbers(call, p.zeroB));
}

const integerPlaces: Places = { a: 0, b: 1, zeroA: 2, zeroB: 3 };

function checkBytes(call: InferCall<unknown>, p: Places): void {
  for (const [name, i] of [
    ['A', p.a],
    ['B', p.b],
  ] as const) {
    const { type } = call.input(i);
    if (!isByte(type)) throw call.error(`${name} must be int8 or uint8, got ${type}`);
  }
}

/** A, B, a_zero_point?, b_zero_point? → int32. */
const matMulInteger = operator({
  name: 'MatMulInteger',
  since: [10],
  inputs: [2, 4],
  attributes: {},
  infer(call) {
    checkBytes(call, integerPlaces);
    return [{ type: 'int32', dims: matMulOf(call, integerPlaces).shape.dims }];
  },
  reference(call) {
    checkBytes(call, integerPlaces);
    const product = matMulOf(call, integerPlaces);
    return [fromNumbers('int32', product.shape.dims, sumsOf(call, integerPlaces, product))];
  },
  lower(call) {
    const lines = matMulLines(matMulOf(call, integerPlaces));
    const a = factorOf(call, 0, 2, lines.a);
    const b = factorOf(call, 1, 3, lines.b);
    lowerIntegerProduct(call, a, b, lines.at, call.out(0), { type: 'int32' });
    return true;
  },
});

/** The scale of element i of a product's result, as the operators that scale have it. */
function scaleAt(
  { shape }: IntegerMatMul,
  a: ArrayLike<number>,
  b: ArrayLike<number>,
  strideA: LineStrides,
  strideB: LineStrides,
  round: (x: number) => number,
): (i: number) => number {
  const { m, n } = shape;
  const at = matrixIndices(shape);
  return (i) => {
    const batch = Math.floor(i / (m * n));
    const row = Math.floor(i / n) % m;
    const left = a[at.a[batch]! * strideA.matrix + row * strideA.line]!;
    return round(left * b[at.b[batch]! * strideB.matrix + (i % n) * strideB.line]!);
  };
}

const linearPlaces: Places = { a: 0, b: 3, zeroA: 2, zeroB: 5 };

function linearOf(call: InferCall<unknown>) {
  const product = matMulOf(call, linearPlaces);
  const { shape } = product;
  const type = call.input(7).type;
  const [a, b, y] = [call.input(1), call.input(4), call.input(6)];
  for (const s of [a, b, y]) if (!isFloat(s.type)) throw call.error(`scales must be floating-point, got ${s.type}`);
  if (sizeOf(y.dims) !== 1 || sizeOf(call.input(7).dims) !== 1)
    throw call.error(`y_scale and y_zero_point must be one value, got shape ${formatShape(y.dims)}`);
  const scaleA = lineStrides(call, 'a_scale', a, shape.aBatch, shape.m, true);
  const scaleB = lineStrides(call, 'b_scale', b, shape.bBatch, shape.n, false);
  return { product, type, scaleA, scaleB, scaleType: a.type };
}

/** a, its scale, its zero point, b, …, y_scale, y_zero_point → y. */
const qLinearMatMul = operator({
  name: 'QLinearMatMul',
  since: [10, 21],
  inputs: [8, 8],
  attributes: {},
  infer(call) {
    const { product, type } = linearOf(call);
    return [{ type, dims: product.shape.dims }];
  },
  reference(call) {
    const { product, type, scaleA, scaleB, scaleType } = linearOf(call);
    const sums = sumsOf(call, linearPlaces, product);
    const round = rounderOf(scaleType);
    const scales = [1, 4, 6].map((i) => decode(call.tensor(i))) as [
      ArrayLike<number>,
      ArrayLike<number>,
      ArrayLike<number>,
    ];
    const scale = scaleAt(product, scales[0], scales[1], scaleA, scaleB, round);
    const zero = decode(call.tensor(7))[0]!;
    const integer = !isFloat(type);
    const range = rangeOf(type);
    const single = scaleType === 'float32';
    const y = Float64Array.from(sums, (sum, i) => {
      const s = round(scale(i) / scales[2][0]!);
      const v = single ? Math.fround(Math.fround(sum) * s) : sum * s;
      return integer ? saturate(v, zero, range) : v + zero;
    });
    return [new Tensor(type, encode(type, y), product.shape.dims)];
  },
  lower(call) {
    const { product, type, scaleA, scaleB } = linearOf(call);
    if (![0, 3].every((i) => isByte(call.input(i).type)) || (type !== 'int8' && type !== 'uint8')) return false;
    if (![1, 4, 6].every((i) => call.input(i).type === 'float32')) return false;
    const lines = matMulLines(product, scaleA);
    const a = factorOf(call, 0, 2, lines.a);
    const b = factorOf(call, 3, 5, lines.b);
    lowerIntegerProduct(call, a, b, lines.at, call.out(0), {
      type,
      scaleA: { at: call.in(1), ...scaleA },
      scaleB: { at: call.in(4), ...scaleB },
      scaleY: call.in(6),
      zeroY: call.in(7),
    });
    return true;
  },
});

function checkBias(call: InferCall<unknown>, i: number, n: number): void {
  const bias = call.optional(i);
  if (bias !== undefined && !sameShape(bias.dims, [n]))
    throw call.error(`expected bias of shape [${n}], got ${formatShape(bias.dims)}`);
}

const toFloatPlaces: Places = { a: 0, b: 1, zeroA: 4, zeroB: 5 };

function toFloatOf(call: InferCall<unknown>) {
  checkBytes(call, toFloatPlaces);
  const product = matMulOf(call, toFloatPlaces);
  const { shape } = product;
  const scaleA = lineStrides(call, 'a_scale', call.input(2), shape.aBatch, shape.m, true);
  const scaleB = lineStrides(call, 'b_scale', call.input(3), shape.bBatch, shape.n, false);
  checkBias(call, 6, shape.n);
  return { product, scaleA, scaleB };
}

function scaled(
  type: DataType,
  { shape }: IntegerMatMul,
  sums: Float64Array,
  scale: (i: number) => number,
  bias: ArrayLike<number> | undefined,
): Tensor {
  const y = sums.map((sum, i) => {
    const v = Math.fround(Math.fround(sum) * scale(i));
    return bias === undefined ? v : Math.fround(v + bias[i % shape.n]!);
  });
  return fromNumbers(type, shape.dims, y);
}

/** A, B, a_scale, b_scale, a_zero_point?, b_zero_point?, bias? → floats. */
const matMulIntegerToFloat = operator({
  name: 'MatMulIntegerToFloat',
  domain: 'com.microsoft',
  since: [1],
  inputs: [4, 7],
  attributes: {},
  infer(call) {
    return [{ type: call.input(2).type, dims: toFloatOf(call).product.shape.dims }];
  },
  reference(call) {
    const { product, scaleA, scaleB } = toFloatOf(call);
    const [a, b] = [decode(call.tensor(2)), decode(call.tensor(3))];
    const scale = scaleAt(product, a, b, scaleA, scaleB, Math.fround);
    const sums = sumsOf(call, toFloatPlaces, product);
    return [scaled(call.tensor(2).type, product, sums, scale, optionalNumbers(call, 6))];
  },
  lower(call) {
    if (call.input(2).type !== 'float32' || call.input(3).type !== 'float32') return false;
    const { product, scaleA, scaleB } = toFloatOf(call);
    const lines = matMulLines(product, scaleA);
    const a = factorOf(call, 0, 4, lines.a);
    const b = factorOf(call, 1, 5, lines.b);
    lowerIntegerProduct(call, a, b, lines.at, call.out(0), {
      type: 'float32',
      scaleA: { at: call.in(2), ...scaleA },
      scaleB: { at: call.in(3), ...scaleB },
      ...(call.has(6) && { bias: { at: call.in(6), row: 0, column: 1 } }),
    });
    return true;
  },
});

const one: LineStrides = { matrix: 0, line: 0 };

function dynamicOf(call: InferCall<unknown>) {
  const [a, b] = [call.input(0), call.input(1)];
  if (a.type !== 'float32') throw call.error(`A must be float32, got ${a.type}`);
  if (!isByte(b.type)) throw call.error(`B must be int8 or uint8, got ${b.type}`);
  const shape = matMulShape(call, a.dims, b.dims);
  const zeroB = lineStrides(call, 'b_zero_point', zeroOf(call, 'b_zero_point', 1, 3), shape.bBatch, shape.n, false);
  const scaleB = lineStrides(call, 'b_scale', call.input(2), shape.bBatch, shape.n, false);
  checkBias(call, 4, shape.n);
  return { product: { shape, zeroA: one, zeroB }, scaleB };
}

/** A (floats, quantized to uint8 as one tensor), B, b_scale, b_zero_point?, bias? → floats. */
const dynamicQuantizeMatMul = operator({
  name: 'DynamicQuantizeMatMul',
  domain: 'com.microsoft',
  since: [1],
  inputs: [3, 5],
  attributes: {},
  infer: (call) => [{ type: 'float32', dims: dynamicOf(call).product.shape.dims }],
  reference(call) {
    const { product, scaleB } = dynamicOf(call);
    const x = decode(call.tensor(0));
    const { scale, zero } = dynamicScaleOf(x);
    const a = quantizeWith(x, scale, zero);
    const sums = integerSums(product, a, decode(call.tensor(1)), [zero], optionalNumbers(call, 3));
    const at = scaleAt(product, [scale], decode(call.tensor(2)), one, scaleB, Math.fround);
    return [scaled('float32', product, sums, at, optionalNumbers(call, 4))];
  },
  lower(call) {
    const { product, scaleB } = dynamicOf(call);
    if (call.input(2).type !== 'float32') return false;
    const size = sizeOf(call.input(0).dims);
    const quantized = call.scratch(Math.max(1, size));
    const scale = call.scratch(4);
    const zero = call.scratch(1);
    lowerDynamic(call, call.in(0), size, quantized, scale, zero);
    const lines = matMulLines(product);
    const a = { type: 'uint8' as const, at: quantized, zero, lines: lines.a, key: 'A' };
    lowerIntegerProduct(call, a, factorOf(call, 1, 3, lines.b), lines.at, call.out(0), {
      type: 'float32',
      scaleA: { at: scale, ...one },
      scaleB: { at: call.in(2), ...scaleB },
      ...(call.has(4) && { bias: { at: call.in(4), row: 0, column: 1 } }),
    });
    return true;
  },
});

export const quantizedMatMulOperators: readonly Operator[] = [
  matMulInteger,
  qLinearMatMul,
  matMulIntegerToFloat,
  dynamicQuantizeMatMul,
];
