// QuantizeLinear, DequantizeLinear (versions 10 to 25, and the same of domain com.microsoft) and DynamicQuantizeLinear.
// One scale for the tensor, one a slice along an axis, or one for every block of elements along an axis:
//
//   x [outer…, axis, inner…]   scale [] or [1] · [axis] · [outer…, ceil(axis / block), inner…]
//
// Results are exact: division and product are rounded once to the scale's (or the asked) precision, ties go to even.
import { integerCodes, quantizeChunk } from '../kernels/quantize.js';
import { decode, encode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { sameShape, sizeOf } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import { type DataType, dataTypeOf, typeInfo } from '../tensor/types.js';
import { type AttributesOf, int } from './attributes.js';
import {
  type Address,
  type Call,
  type InferCall,
  type LowerCall,
  type Operator,
  operator,
  type ReferenceCall,
  type TensorInfo,
} from './operator.js';
import { fromNumbers, isFloat, isInteger } from './reference.js';
import { rangeOf, rounderOf, saturate } from './rounding.js';

/** x seen as [outer, axis, inner] and how scales lie over it. */
interface Scales {
  readonly kind: 'tensor' | 'axis' | 'blocks';
  readonly outer: number;
  readonly axis: number;
  readonly inner: number;
  /** Elements along the axis that share a scale. */
  readonly block: number;
}

interface Granularity {
  readonly axis: number;
  readonly block_size: number;
}

function scalesOf(call: InferCall<Granularity>): Scales {
  const { dims } = call.input(0);
  const scale = call.input(1).dims;
  const zero = call.optional(2);
  const { axis: written, block_size: block } = call.attributes;
  const names = `x ${formatShape(dims)}, scale ${formatShape(scale)}`;
  if (zero !== undefined && !sameShape(zero.dims, scale) && !(sizeOf(zero.dims) === 1 && sizeOf(scale) === 1))
    throw call.error(`expected a zero point of the scale's shape ${formatShape(scale)}, got ${formatShape(zero.dims)}`);
  if (block < 0) throw call.error(`block_size must not be negative, got ${block}`);
  const blocked = block > 0 && scale.length > 0;
  if (!blocked && (scale.length === 0 || sameShape(scale, [1])))
    return { kind: 'tensor', outer: 1, axis: 1, inner: sizeOf(dims), block: 1 };
  const axis = written < 0 ? written + dims.length : written;
  if (axis < 0 || axis >= dims.length) throw call.error(`axis ${written} is outside x ${formatShape(dims)}`);
  const outer = sizeOf(dims.slice(0, axis));
  const size = dims[axis]!;
  const inner = sizeOf(dims.slice(axis + 1));
  if (!blocked) {
    if (!sameShape(scale, [size])) throw call.error(`a scale for axis ${axis} must have shape [${size}]: ${names}`);
    return { kind: 'axis', outer, axis: size, inner, block: 1 };
  }
  const expected = dims.map((d, i) => (i === axis ? Math.ceil(d / block) : d));
  if (!sameShape(scale, expected))
    throw call.error(`blocks of ${block} along axis ${axis} need a scale of shape ${formatShape(expected)}: ${names}`);
  return { kind: 'blocks', outer, axis: size, inner, block };
}

/** Calls `visit` with every element of x and its scale's, in row-major order. */
function forEachScaled({ kind, outer, axis, inner, block }: Scales, visit: (i: number, scale: number) => void): void {
  const blocks = Math.ceil(axis / block);
  let i = 0;
  for (let o = 0; o < outer; o++)
    for (let a = 0; a < axis; a++)
      for (let n = 0; n < inner; n++, i++) {
        if (kind === 'tensor') visit(i, 0);
        else visit(i, kind === 'axis' ? a : (o * blocks + Math.floor(a / block)) * inner + n);
      }
}

/** The fields of the kernels that say which scale an element has, and the number of rows; undefined: no kernel. */
function rowsOf({ kind, outer, axis, inner, block }: Scales) {
  const one = { width: inner, vector: 0, rows: 1, block: 1, outerStride: 0, axisStride: 0 };
  if (kind === 'tensor') return { count: 1, fields: one };
  if (kind === 'axis') {
    if (inner === 1) return { count: outer, fields: { ...one, width: axis, vector: 1 } };
    return { count: outer * axis, fields: { ...one, rows: axis, axisStride: 1 } };
  }
  const blocks = Math.ceil(axis / block);
  if (inner > 1) {
    const fields = { ...one, vector: 1, rows: axis, block, outerStride: blocks * inner, axisStride: inner };
    return { count: outer * axis, fields };
  }
  if (axis % block !== 0) return undefined;
  return { count: outer * blocks, fields: { ...one, width: block, outerStride: 1 } };
}

function lowerRows(call: LowerCall<Granularity>, kernel: 'quantize' | 'dequantize', type: DataType): boolean {
  const code = integerCodes[type];
  const scales = scalesOf(call);
  const rows = rowsOf(scales);
  if (code === undefined || rows === undefined) return false;
  const size = sizeOf(call.input(0).dims);
  if (size === 0) return true;
  const { width } = rows.fields;
  const zero: Address | 0 = call.has(2) ? call.in(2) : 0;
  const params = { x: call.in(0), scale: call.in(1), zero, y: call.out(0), type: code, ...rows.fields };
  const units = rows.count * Math.ceil(width / quantizeChunk);
  call.step(kernel, params, { units, grain: Math.max(1, Math.ceil(16_384 / width)), flops: 2 * size });
  return true;
}

/** The type an attribute names; 0: none. */
function typeAttribute(call: Call<unknown>, name: string, code: number): DataType | undefined {
  if (code === 0) return undefined;
  const type = dataTypeOf(code);
  if (type === undefined) throw call.error(`${name} ${code} is no element type`);
  return type;
}

const quantizeAttributes = {
  axis: int(1),
  block_size: int(0),
  output_dtype: int(0),
  precision: int(0),
  saturate: int(1),
};

type QuantizeAttributes = AttributesOf<typeof quantizeAttributes>;

/** Types that are a result of QuantizeLinear. */
function isQuantized(type: DataType): boolean {
  return (isInteger(type) && typeInfo(type).bits <= 16) || (isFloat(type) && typeInfo(type).bits <= 8);
}

/** The type of the result. */
function quantizedType(call: InferCall<QuantizeAttributes>): DataType {
  const asked = typeAttribute(call, 'output_dtype', call.attributes.output_dtype);
  const zero = call.optional(2)?.type;
  if (asked !== undefined && zero !== undefined && asked !== zero)
    throw call.error(`output_dtype ${asked} differs from the zero point's type ${zero}`);
  const type = zero ?? asked ?? 'uint8';
  if (!isQuantized(type)) throw call.error(`cannot quantize to ${type}`);
  checkReal(call, call.input(0), 'x');
  checkReal(call, call.input(1), 'the scale');
  return type;
}

function checkReal(call: Call<unknown>, { type }: TensorInfo, what: string): void {
  if (!isFloat(type) && type !== 'int32') throw call.error(`${what} must be of a floating-point type, got ${type}`);
}

function quantizeReference(call: ReferenceCall<QuantizeAttributes>): Tensor {
  const type = quantizedType(call);
  const scales = scalesOf(call);
  const x = call.tensor(0);
  const scale = call.tensor(1);
  const values = decode(x);
  const divisors = decode(scale);
  const zeros = call.has(2) ? decode(call.tensor(2)) : undefined;
  const precision = typeAttribute(call, 'precision', call.attributes.precision) ?? scale.type;
  const round = rounderOf(isFloat(precision) ? precision : 'float32');
  const integer = isInteger(type);
  const range = rangeOf(type);
  const y = new Float64Array(x.size);
  forEachScaled(scales, (i, s) => {
    const quotient = round(round(values[i]!) / round(divisors[s]!));
    const zero = zeros === undefined ? 0 : zeros[s]!;
    y[i] = integer ? saturate(quotient, zero, range) : quotient + zero;
  });
  return new Tensor(type, encode(type, y, { saturate: call.attributes.saturate !== 0 }), x.dims);
}

function quantizeLinear(domain: string, since: readonly number[]) {
  return operator({
    name: 'QuantizeLinear',
    domain,
    since,
    inputs: [2, 3],
    attributes: quantizeAttributes,
    infer(call) {
      scalesOf(call);
      return [{ type: quantizedType(call), dims: call.input(0).dims }];
    },
    reference: (call) => [quantizeReference(call)],
    lower(call) {
      const type = quantizedType(call);
      const { precision } = call.attributes;
      if (call.input(0).type !== 'float32' || call.input(1).type !== 'float32') return false;
      if ((precision !== 0 && precision !== 1) || !isInteger(type) || typeInfo(type).bits < 8) return false;
      return lowerRows(call, 'quantize', type);
    },
  });
}

const dequantizeAttributes = { axis: int(1), block_size: int(0), output_dtype: int(0) };

type DequantizeAttributes = AttributesOf<typeof dequantizeAttributes>;

function dequantizedType(call: InferCall<DequantizeAttributes>): DataType {
  const x = call.input(0).type;
  const zero = call.optional(2)?.type;
  if (!isQuantized(x) && x !== 'int32') throw call.error(`cannot dequantize ${x}`);
  if (zero !== undefined && zero !== x) throw call.error(`x is ${x}, but the zero point ${zero}`);
  const scale = call.input(1).type;
  if (!isFloat(scale)) throw call.error(`the scale must be of a floating-point type, got ${scale}`);
  const type = typeAttribute(call, 'output_dtype', call.attributes.output_dtype) ?? scale;
  // float8e8m0 is a type of scales only.
  const result = type === 'float8e8m0' ? 'float32' : type;
  if (!isFloat(result)) throw call.error(`output_dtype must be a floating-point type, got ${result}`);
  return result;
}

function dequantizeReference(call: ReferenceCall<DequantizeAttributes>): Tensor {
  const type = dequantizedType(call);
  const x = call.tensor(0);
  const values = decode(x);
  const factors = decode(call.tensor(1));
  const zeros = call.has(2) ? decode(call.tensor(2)) : undefined;
  const y = new Float64Array(x.size);
  forEachScaled(scalesOf(call), (i, s) => {
    const difference = Math.fround(values[i]! - (zeros === undefined ? 0 : zeros[s]!));
    y[i] = Math.fround(difference * factors[s]!);
  });
  return fromNumbers(type, x.dims, y);
}

function dequantizeLinear(domain: string, since: readonly number[]) {
  return operator({
    name: 'DequantizeLinear',
    domain,
    since,
    inputs: [2, 3],
    attributes: dequantizeAttributes,
    infer(call) {
      scalesOf(call);
      return [{ type: dequantizedType(call), dims: call.input(0).dims }];
    },
    reference: (call) => [dequantizeReference(call)],
    lower(call) {
      if (dequantizedType(call) !== 'float32' || call.input(1).type !== 'float32') return false;
      return lowerRows(call, 'dequantize', call.input(0).type);
    },
  });
}

/** The scale and zero point (uint8) that cover the values and zero. NaN is left out. */
export function dynamicScaleOf(x: ArrayLike<number>): { readonly scale: number; readonly zero: number } {
  let low = 0;
  let high = 0;
  for (let i = 0; i < x.length; i++) {
    if (x[i]! < low) low = x[i]!;
    if (x[i]! > high) high = x[i]!;
  }
  const scale = low === high ? 1 : Math.fround(Math.fround(high - low) / 255);
  const zero = Math.fround(-low / scale);
  return { scale, zero: Number.isNaN(zero) ? 0 : saturate(zero, 0, [0, 255]) };
}

/** x quantized to uint8 with such a scale. */
export function quantizeWith(x: ArrayLike<number>, scale: number, zero: number): Uint8Array {
  return Uint8Array.from(x, (v) => saturate(Math.fround(v / scale), zero, [0, 255]));
}

/** x → y (uint8), its scale and its zero point. The scale is of the whole tensor: rows are not independent. */
const dynamicQuantizeLinear = operator({
  name: 'DynamicQuantizeLinear',
  since: [11],
  inputs: [1, 1],
  attributes: {},
  infer(call) {
    const { type, dims } = call.input(0);
    if (type !== 'float32') throw call.error(`x must be float32, got ${type}`);
    return [
      { type: 'uint8', dims },
      { type: 'float32', dims: [] },
      { type: 'uint8', dims: [] },
    ];
  },
  reference(call) {
    const x = call.tensor(0);
    const values = decode(x);
    const { scale, zero } = dynamicScaleOf(values);
    return [
      new Tensor('uint8', quantizeWith(values, scale, zero), x.dims),
      fromNumbers('float32', [], [scale]),
      fromNumbers('uint8', [], [zero]),
    ];
  },
  lower(call) {
    const size = sizeOf(call.input(0).dims);
    const scale = call.wants(1) ? call.out(1) : call.scratch(4);
    const zero = call.wants(2) ? call.out(2) : call.scratch(1);
    const y = call.wants(0) ? call.out(0) : undefined;
    lowerDynamic(call, call.in(0), size, y, scale, zero);
    return true;
  },
});

/** Appends the steps of dynamic quantization of `size` floats at `x`. */
export function lowerDynamic(
  call: LowerCall<unknown>,
  x: Address,
  size: number,
  y: Address | undefined,
  scale: Address,
  zero: Address,
): void {
  const count = Math.ceil(size / quantizeChunk);
  const ranges = call.scratch(Math.max(1, count) * 8);
  if (count > 0) call.step('dynamicRange', { x, ranges, size }, { units: count, grain: 4, flops: 2 * size });
  call.step('dynamicScale', { ranges, count, scale, zero }, { units: 1 });
  if (y === undefined || size === 0) return;
  const fields = { width: size, vector: 0, rows: 1, block: 1, outerStride: 0, axisStride: 0 };
  const params = { x, scale, zero, y, type: integerCodes.uint8!, ...fields };
  call.step('quantize', params, { units: count, grain: 4, flops: 2 * size });
}

export const quantizeOperators: readonly Operator[] = [
  quantizeLinear('', [10, 13, 19, 21, 23, 24, 25]),
  dequantizeLinear('', [10, 13, 19, 21, 23, 24, 25]),
  quantizeLinear('com.microsoft', [1]),
  dequantizeLinear('com.microsoft', [1]),
  dynamicQuantizeLinear,
];
