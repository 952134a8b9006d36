// Changing the element type: Cast, CastLike, BitCast. Floats become integers by truncation (what does not fit saturates
// at 32 or 64 bits, NaN is 0), integers wrap around, anything becomes bool by x ≠ 0, and the float8 and smaller types
// saturate when the attribute says so. Strings are parsed and printed as numpy does.
import { castCodes, unaryBlock } from '../kernels/unary.js';
import { decode, decodeBig, encode } from '../tensor/convert.js';
import type { RoundingOptions } from '../tensor/minifloat.js';
import { sizeOf } from '../tensor/shape.js';
import { bytesOf, Tensor, tensorFromBytes } from '../tensor/tensor.js';
import { type DataType, dataTypeOf, dataTypes, typeInfo } from '../tensor/types.js';
import { type AttributesOf, either, int, required, string } from './attributes.js';
import {
  type Address,
  type InferCall,
  type LowerCall,
  type Operator,
  type OutputInfo,
  operator,
  type ReferenceCall,
} from './operator.js';
import { fromBigInts, fromBools, fromNumbers, isFloat, isInteger } from './reference.js';

/** The tensor as another type. */
function castTo(call: ReferenceCall<unknown>, x: Tensor, type: DataType, options: RoundingOptions): Tensor {
  if (x.type === type) return x;
  if (typeInfo(x.type).kind === 'complex' || typeInfo(type).kind === 'complex')
    throw call.error(`casting ${x.type} to ${type} is not supported`, 'UNSUPPORTED');
  if (x.type === 'string') return fromStrings(call, x as Tensor<'string'>, type, options);
  if (type === 'string') return new Tensor('string', toStrings(x), x.dims);
  if (type === 'bool')
    return fromBools(
      x.dims,
      Array.from(decode(x), (v) => v !== 0),
    );
  if (isInteger(x.type) && isInteger(type)) return fromBigInts(type, x.dims, decodeBig(x));
  return fromFloats(x.dims, decode(x), type, options);
}

function fromFloats(
  dims: readonly number[],
  values: ArrayLike<number>,
  type: DataType,
  options: RoundingOptions,
): Tensor {
  const { bits } = typeInfo(type);
  if (isFloat(type)) return new Tensor(type, encode(type, values, options), dims);
  if (bits === 64)
    return fromBigInts(
      type,
      dims,
      Array.from(values, (x) => saturated64(x, type)),
    );
  // As C compilers do it: to a 32-bit integer, which the small types are cut from.
  const [low, high] = type === 'uint32' ? [0, 0xffffffff] : [-0x80000000, 0x7fffffff];
  return fromNumbers(
    type,
    dims,
    Float64Array.from(values, (x) => (Number.isNaN(x) ? 0 : Math.trunc(Math.min(Math.max(x, low), high)))),
  );
}

function saturated64(x: number, type: DataType): bigint {
  if (Number.isNaN(x)) return 0n;
  const [low, high] = type === 'int64' ? [-(2n ** 63n), 2n ** 63n - 1n] : [0n, 2n ** 64n - 1n];
  if (x <= Number(low)) return low;
  return x >= Number(high) ? high : BigInt(Math.trunc(x));
}

function fromStrings(
  call: ReferenceCall<unknown>,
  x: Tensor<'string'>,
  type: DataType,
  options: RoundingOptions,
): Tensor {
  if (isInteger(type) && typeInfo(type).bits === 64 && x.data.every((s) => /^\s*[+-]?\d{1,20}\s*$/.test(s)))
    return fromBigInts(
      type,
      x.dims,
      x.data.map((s) => BigInt(s.trim().replace(/^\+/, ''))),
    );
  const values = x.data.map((s) => parse(call, s));
  if (type === 'bool')
    return fromBools(
      x.dims,
      values.map((v) => v !== 0),
    );
  return fromFloats(x.dims, values, type, options);
}

function parse(call: ReferenceCall<unknown>, text: string): number {
  const s = text.trim();
  if (/^[+-]?inf(inity)?$/i.test(s)) return s.startsWith('-') ? -Infinity : Infinity;
  if (/^[+-]?nan$/i.test(s)) return Number.NaN;
  if (!/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(s))
    throw call.error(`'${text.slice(0, 40)}' is not a number`, 'INVALID_INPUT');
  return Number(s);
}

function toStrings(x: Tensor): string[] {
  if (x.type === 'bool') return Array.from(decode(x), (v) => (v !== 0 ? 'True' : 'False'));
  if (isInteger(x.type)) return Array.from(decodeBig(x), String);
  const digits = x.type === 'float64' ? 17 : x.type === 'float32' ? 9 : 5;
  return Array.from(decode(x), (v) => printed(x.type, v, digits));
}

/** The shortest decimal that reads back as the same element; whole numbers keep `.0`. */
function printed(type: DataType, v: number, digits: number): string {
  if (Number.isNaN(v)) return 'nan';
  if (!Number.isFinite(v)) return v > 0 ? 'inf' : '-inf';
  let text = String(v);
  for (let d = 1; d <= digits; d++) {
    const s = v.toPrecision(d);
    if (decode(fromNumbers(type, [], [Number(s)]))[0] === v) {
      text = String(Number(s));
      break;
    }
  }
  return /^-?\d+$/.test(text) ? `${text}.0` : text;
}

function lowerCast(call: LowerCall<unknown>, to: DataType): boolean {
  const { type, dims } = call.input(0);
  if (type === to) {
    call.alias(0, 0);
    return true;
  }
  if (!Object.hasOwn(castCodes, type) || !Object.hasOwn(castCodes, to)) return false;
  const size = sizeOf(dims);
  const step = (x: Address, y: Address, a: DataType, b: DataType) => {
    const code = (t: DataType) => castCodes[t as keyof typeof castCodes];
    const params = { x, y, size, from: code(a), to: code(b) };
    call.step('cast', params, { units: Math.ceil(size / unaryBlock), grain: 4 });
  };
  const half = (t: DataType) => t === 'float16' || t === 'bfloat16';
  if ((!half(type) && !half(to)) || type === 'float32' || to === 'float32') {
    step(call.in(0), call.out(0), type, to);
    return true;
  }
  // By way of float32. That rounds wide integers, which matters to bfloat16 alone: beyond 2^24 float16 is infinite.
  if (to === 'bfloat16' && (type === 'int32' || type === 'int64')) return false;
  const between = call.scratch(Math.max(4, size * 4));
  step(call.in(0), between, type, 'float32');
  step(between, call.out(0), 'float32', to);
  return true;
}

/** Names of TensorProto.DataType that differ from Skep's. */
const protoNames: Readonly<Record<string, DataType>> = { FLOAT: 'float32', DOUBLE: 'float64' };

function targetOf(call: InferCall<{ readonly to: number | string }>): DataType {
  const { to } = call.attributes;
  // Versions 1 to 5 wrote the type's name.
  if ((typeof to === 'string') !== call.opset < 6)
    throw call.error(`attribute 'to' must be ${call.opset < 6 ? "a type's name" : 'an int'} in version ${call.opset}`);
  const type = typeof to === 'number' ? dataTypeOf(to) : typeNamed(to.toUpperCase());
  if (type === undefined) throw call.error(`unknown element type ${to}`);
  return type;
}

function typeNamed(name: string): DataType | undefined {
  if (Object.hasOwn(protoNames, name)) return protoNames[name];
  const lower = name.toLowerCase();
  return Object.hasOwn(dataTypes, lower) ? (lower as DataType) : undefined;
}

const specs = { saturate: int(1), round_mode: string('up') };

function optionsOf(call: InferCall<AttributesOf<typeof specs>>): RoundingOptions {
  const { saturate, round_mode: roundMode } = call.attributes;
  if (roundMode !== 'up' && roundMode !== 'down' && roundMode !== 'nearest')
    throw call.error(`round_mode must be up, down or nearest, got '${roundMode}'`);
  return { saturate: saturate !== 0, roundMode };
}

const Cast = operator({
  name: 'Cast',
  since: [1, 6, 9, 13, 19, 21, 23, 24, 25],
  inputs: [1, 1],
  attributes: { to: required(either(int(), string())), ...specs },
  infer: (call) => [{ type: targetOf(call), dims: call.input(0).dims }],
  reference(call) {
    return [castTo(call, call.tensor(0), targetOf(call), optionsOf(call))];
  },
  lower: (call) => lowerCast(call, targetOf(call)),
});

/** Cast to the type of the second input. */
const CastLike = operator({
  name: 'CastLike',
  since: [15, 19, 21, 23, 24, 25],
  inputs: [2, 2],
  attributes: specs,
  infer: (call) => [{ type: call.input(1).type, dims: call.input(0).dims }],
  reference(call) {
    const to = call.tensor(1).type;
    return [castTo(call, call.tensor(0), to, optionsOf(call))];
  },
  lower: (call) => lowerCast(call, call.input(1).type),
});

function bitCastRule(call: InferCall<{ readonly to: number }>): OutputInfo[] {
  const to = targetOf(call);
  const { type, dims } = call.input(0);
  if (type === 'string' || to === 'string' || typeInfo(type).bits !== typeInfo(to).bits)
    throw call.error(`${type} and ${to} have elements of different sizes`);
  return [{ type: to, dims }];
}

/** The same bits seen as another type of the same size. */
const BitCast = operator({
  name: 'BitCast',
  since: [26],
  inputs: [1, 1],
  attributes: { to: required(int()) },
  infer: bitCastRule,
  reference(call) {
    const [{ type, dims }] = bitCastRule(call) as [OutputInfo];
    return [tensorFromBytes(type, dims, bytesOf(call.tensor(0)))];
  },
  lower(call) {
    call.alias(0, 0);
    return true;
  },
});

export const castOperators: readonly Operator[] = [Cast, CastLike, BitCast];
