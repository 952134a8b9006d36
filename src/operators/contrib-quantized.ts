// QLinear operators of com.microsoft: a plain operator on 8-bit tensors, each with a scale and a zero point of its own.
// How to picture one:
//
//   x, scale, zero ── (x − zero) · scale ──┐
//                                          ├── the plain operator, float32 ── round(y / scale) + zero ── y
//   x, scale, zero ── (x − zero) · scale ──┘
//
// That is their definition, and how they are computed: conversions round once, so reference and kernels agree to the last
// bit wherever the plain operator's do. onnxruntime joins the scales of sums and means first, which may round the other
// way at a tie: one step apart. Products are in quantized-matmul.ts.
import { integerCodes, quantizeChunk } from '../kernels/quantize.js';
import { decode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { sizeOf } from '../tensor/shape.js';
import type { DataType } from '../tensor/types.js';
import { activationOperators } from './activations.js';
import { arithmeticOperators } from './arithmetic.js';
import { type AttributeSpecs, type AttributesOf, float, int, ints, required, string } from './attributes.js';
import { isByte } from './integer-product.js';
import { joining } from './joining.js';
import { logicOperators } from './logic.js';
import { type Inner, inferInner, lowerInner, type Placed, referInner } from './nested.js';
import {
  type Address,
  type InferCall,
  type LowerCall,
  type Operator,
  type OutputInfo,
  operator,
  type TensorInfo,
} from './operator.js';
import { poolOperators } from './pool.js';
import { reduceOperators } from './reduce.js';
import { fromNumbers } from './reference.js';
import { rangeOf, saturate } from './rounding.js';
import { softmaxOperators } from './softmax.js';
import { unaryOperators } from './unary.js';

const plain = new Map(
  [
    ...activationOperators,
    ...arithmeticOperators,
    ...joining,
    ...logicOperators,
    ...poolOperators,
    ...reduceOperators,
    ...softmaxOperators,
    ...unaryOperators,
  ]
    .filter((o) => o.domain === '')
    .map((o) => [o.name, o]),
);

/** The operator set version of the plain operators unless a node says another. */
const OPSET = 13;

const inner = (name: string, attributes: Readonly<Record<string, unknown>> = {}, opset = OPSET): Inner => ({
  operator: plain.get(name)!,
  opset,
  attributes,
});

/** Inputs that are a quantized tensor, its scale and its zero point. */
interface Quantized {
  readonly x: number;
  readonly scale: number;
  readonly zero: number;
}

/** What a node is made of: operands (a number: an input as it is), the plain operator, the result's scale and zero point. */
interface Parts {
  readonly operands: readonly (Quantized | number)[];
  readonly inner: Inner;
  readonly scale: number;
  readonly zero: number;
}

const triple = (x: number): Quantized => ({ x, scale: x + 1, zero: x + 2 });

/** The 8-bit type of a triple, checked: one scale and one zero point for the whole tensor. */
function typeOf(call: InferCall<unknown>, { x, scale, zero }: Quantized): DataType {
  const { type } = call.input(x);
  if (!isByte(type)) throw call.error(`input ${x} must be int8 or uint8, got ${type}`);
  checkScalar(call, scale, zero, type);
  return type;
}

function checkScalar(call: InferCall<unknown>, scale: number, zero: number, type: DataType): void {
  const s = call.input(scale);
  if (s.type !== 'float32' || sizeOf(s.dims) !== 1)
    throw call.error(`input ${scale} must be one float32 scale, got ${s.type} ${formatShape(s.dims)}`);
  const z = call.optional(zero);
  if (z !== undefined && (z.type !== type || sizeOf(z.dims) !== 1))
    throw call.error(`input ${zero} must be one ${type} zero point, got ${z.type} ${formatShape(z.dims)}`);
}

function inputInfos(call: InferCall<unknown>, p: Parts): TensorInfo[] {
  return p.operands.map((o) =>
    typeof o === 'number' ? call.input(o) : { type: 'float32', dims: call.input(o.x).dims },
  );
}

function ruleOf(call: InferCall<unknown>, p: Parts): OutputInfo {
  const types = p.operands.flatMap((o) => (typeof o === 'number' ? [] : [typeOf(call, o)]));
  const zero = call.optional(p.zero)?.type;
  const type = zero ?? types[0]!;
  if (!isByte(type)) throw call.error(`input ${p.zero} must be int8 or uint8, got ${type}`);
  checkScalar(call, p.scale, p.zero, type);
  return { type, dims: inferInner(call, p.inner, inputInfos(call, p)).dims };
}

const row = { vector: 0, rows: 1, block: 1, outerStride: 0, axisStride: 0 };

/** Appends the step from 8 bits to float32, of one scale. */
function lowerFrom(call: LowerCall<unknown>, q: Quantized): Address {
  const { type, dims } = call.input(q.x);
  const size = sizeOf(dims);
  const y = call.scratch(Math.max(4, size * 4));
  const zero: Address | 0 = call.has(q.zero) ? call.in(q.zero) : 0;
  const params = { x: call.in(q.x), scale: call.in(q.scale), zero, y, type: integerCodes[type]!, width: size, ...row };
  call.step('dequantize', params, { units: Math.ceil(size / quantizeChunk), grain: 4, flops: 2 * size });
  return y;
}

/** How an operator is written down: `parts` says of a node what it is made of. */
interface Linear<S extends AttributeSpecs> {
  readonly name: string;
  readonly inputs: readonly [number, number];
  readonly attributes: S;
  parts(call: InferCall<AttributesOf<S>>): Parts;
}

function linear<const S extends AttributeSpecs>({ name, inputs, attributes, parts }: Linear<S>): Operator {
  return operator({
    name,
    domain: 'com.microsoft',
    since: [1],
    inputs,
    attributes,
    infer: (call) => [ruleOf(call, parts(call))],
    reference(call) {
      const p = parts(call);
      const { type } = ruleOf(call, p);
      const zeroOf = (i: number) => (call.has(i) ? decode(call.tensor(i))[0]! : 0);
      const operands = p.operands.map((o) => {
        if (typeof o === 'number') return call.tensor(o);
        const [x, scale, zero] = [call.tensor(o.x), decode(call.tensor(o.scale))[0]!, zeroOf(o.zero)];
        const data = Float64Array.from(decode(x), (v) => (v - zero) * scale);
        return fromNumbers('float32', x.dims, data);
      });
      const y = referInner(call, p.inner, operands);
      const [scale, zero] = [decode(call.tensor(p.scale))[0]!, zeroOf(p.zero)];
      const range = rangeOf(type);
      const data = Float64Array.from(decode(y), (v) => saturate(Math.fround(v / scale), zero, range));
      return [fromNumbers(type, y.dims, data)];
    },
    lower(call) {
      const p = parts(call);
      const { type, dims } = call.output(0);
      const size = sizeOf(dims);
      if (size === 0) return true;
      const infos = inputInfos(call, p);
      const placed = p.operands.map((o, i): Placed => {
        const at = typeof o === 'number' ? call.in(o) : lowerFrom(call, o);
        return { ...infos[i]!, at };
      });
      const y = call.scratch(size * 4);
      if (!lowerInner(call, p.inner, placed, { type: 'float32', dims }, y))
        throw call.error(`${p.inner.operator.name} has no kernel for float32`, 'INTERNAL');
      const zero: Address | 0 = call.has(p.zero) ? call.in(p.zero) : 0;
      const params = { x: y, scale: call.in(p.scale), zero, y: call.out(0), type: integerCodes[type]!, width: size };
      const work = { units: Math.ceil(size / quantizeChunk), grain: 4, flops: 2 * size };
      call.step('quantize', { ...params, ...row }, work);
      return true;
    },
  });
}

/** x, scale, zero?, y_scale, y_zero? → f(x). */
const unary = (name: string, of: string, alpha?: number) =>
  linear({
    name,
    inputs: [4, 5],
    attributes: alpha === undefined ? {} : { alpha: float(alpha) },
    parts: (call) => ({ operands: [triple(0)], inner: inner(of, call.attributes), scale: 3, zero: 4 }),
  });

/** a, scale, zero?, b, scale, zero?, y_scale, y_zero? → op(a, b). */
const binary = (name: string, of: string) =>
  linear({
    name,
    inputs: [7, 8],
    attributes: {},
    parts: () => ({ operands: [triple(0), triple(3)], inner: inner(of), scale: 6, zero: 7 }),
  });

/** y_scale, y_zero, then triples → the tensors joined along the axis. */
const concat = linear({
  name: 'QLinearConcat',
  inputs: [5, 0x7fffffff],
  attributes: { axis: required(int()) },
  parts(call) {
    const count = (call.inputCount - 2) / 3;
    if (!Number.isInteger(count)) throw call.error(`expected 2 inputs and triples, got ${call.inputCount} inputs`);
    const operands = Array.from({ length: count }, (_, i) => triple(2 + 3 * i));
    return { operands, inner: inner('Concat', call.attributes), scale: 0, zero: 1 };
  },
});

/** condition, x, scale, zero, y, scale, zero, z_scale, z_zero → condition ? x : y. */
const where = linear({
  name: 'QLinearWhere',
  inputs: [9, 9],
  attributes: {},
  parts: () => ({ operands: [0, triple(1), triple(4)], inner: inner('Where'), scale: 7, zero: 8 }),
});

const globalAveragePool = linear({
  name: 'QLinearGlobalAveragePool',
  inputs: [5, 5],
  attributes: { channels_last: int(0) },
  parts(call) {
    const rank = call.input(0).dims.length;
    if (rank < 3) throw call.error(`input 0 must have at least 3 axes, got ${formatShape(call.input(0).dims)}`);
    const first = call.attributes.channels_last !== 0 ? 1 : 2;
    const axes = Array.from({ length: rank - 2 }, (_, i) => first + i);
    return { operands: [triple(0)], inner: inner('ReduceMean', { axes }), scale: 3, zero: 4 };
  },
});

const averagePool = linear({
  name: 'QLinearAveragePool',
  inputs: [4, 5],
  attributes: {
    auto_pad: string('NOTSET'),
    ceil_mode: int(0),
    channels_last: int(0),
    count_include_pad: int(0),
    kernel_shape: required(ints()),
    pads: ints([]),
    strides: ints([]),
  },
  parts(call) {
    const { channels_last: last, ...attributes } = call.attributes;
    if (last !== 0) throw call.error('channels_last is not supported', 'UNSUPPORTED');
    return { operands: [triple(0)], inner: inner('AveragePool', attributes, 11), scale: 3, zero: 4 };
  },
});

/** x, scale, zero?, y_scale, y_zero → softmax. `opset` says which softmax: before 13 the rest of the axes is one. */
const softmax = linear({
  name: 'QLinearSoftmax',
  inputs: [5, 5],
  attributes: { axis: int(-1), opset: required(int()) },
  parts(call) {
    const { axis, opset } = call.attributes;
    return { operands: [triple(0)], inner: inner('Softmax', { axis }, opset), scale: 3, zero: 4 };
  },
});

const reduceMean = linear({
  name: 'QLinearReduceMean',
  inputs: [4, 5],
  attributes: { axes: required(ints()), keepdims: required(int()) },
  parts: (call) => ({ operands: [triple(0)], inner: inner('ReduceMean', call.attributes), scale: 3, zero: 4 }),
});

export const contribQuantizedOperators: readonly Operator[] = [
  binary('QLinearAdd', 'Add'),
  binary('QLinearMul', 'Mul'),
  unary('QLinearSigmoid', 'Sigmoid'),
  unary('QLinearLeakyRelu', 'LeakyRelu', 0.01),
  concat,
  where,
  globalAveragePool,
  averagePool,
  softmax,
  reduceMean,
];
