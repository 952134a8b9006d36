// Between stored elements and JavaScript numbers. `decode` gives the values of any numeric tensor as numbers, `encode`
// rounds numbers to a type (to nearest, ties to even, as IEEE 754 and the ONNX float8 rules say). 64-bit integers have
// their own pair so that no bit is lost. Cast's saturation and string rules are the operator's, not here.
import { SkepError } from './errors.js';
import type { Tensor } from './tensor.js';
import { type DataType, type TypedArray, typeInfo } from './types.js';

const f32 = new Float32Array(1);
const u32 = new Uint32Array(f32.buffer);

/** The float16 with these bits. */
export function float16ToNumber(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** The bits of the float16 nearest to `x`, ties to even; beyond 65504 it is an infinity. */
export function numberToFloat16(x: number): number {
  if (Number.isNaN(x)) return 0x7e00;
  const sign = x < 0 || Object.is(x, -0) ? 0x8000 : 0;
  const a = Math.abs(x);
  if (a >= 65520) return sign | 0x7c00;
  if (a < 2 ** -14) return sign | roundEven(a * 2 ** 24);
  const e = exponentOf(a);
  // A fraction that rounds up to 1024 carries into the exponent by itself.
  return sign | (((e + 15) << 10) + roundEven((a / 2 ** e - 1) * 1024));
}

/** The bfloat16 with these bits. */
export function bfloat16ToNumber(bits: number): number {
  u32[0] = bits << 16;
  return f32[0]!;
}

/** The bits of the bfloat16 nearest to `x` (by way of float32, as hardware does), ties to even. */
export function numberToBfloat16(x: number): number {
  if (Number.isNaN(x)) return 0x7fc0;
  f32[0] = x;
  const b = u32[0]!;
  return ((b + 0x7fff + ((b >>> 16) & 1)) >>> 16) & 0xffff;
}

/** Rounds a non-negative number to an integer, ties to even. */
export function roundEven(x: number): number {
  const floor = Math.floor(x);
  const rest = x - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
}

function exponentOf(a: number): number {
  let e = Math.floor(Math.log2(a));
  if (2 ** e > a) e--;
  else if (2 ** (e + 1) <= a) e++;
  return e;
}

/**
 * The elements of a numeric tensor as numbers: its own array where that holds numbers already, a new one otherwise.
 * 64-bit integers become the nearest double: use `decodeBig` where every bit counts.
 */
export function decode(tensor: Tensor): ArrayLike<number> {
  const data = tensor.data as TypedArray;
  switch (tensor.type) {
    case 'float16':
      return Float32Array.from(data as Uint16Array, float16ToNumber);
    case 'bfloat16':
      return Float32Array.from(data as Uint16Array, bfloat16ToNumber);
    case 'int64':
    case 'uint64':
      return Float64Array.from(data as BigInt64Array, Number);
    case 'string':
      throw new SkepError('INTERNAL', 'a string tensor has no numbers');
    default:
      if (
        typeInfo(tensor.type).bits < 8 ||
        (typeInfo(tensor.type).kind === 'float' && typeInfo(tensor.type).bits === 8)
      )
        throw new SkepError('UNSUPPORTED', `${tensor.type} elements`);
      return data as Float64Array;
  }
}

/** The elements of an integer tensor as BigInts. */
export function decodeBig(tensor: Tensor): ArrayLike<bigint> {
  if (tensor.type === 'int64' || tensor.type === 'uint64') return tensor.data as BigInt64Array;
  return BigInt64Array.from(decode(tensor) as unknown as number[], BigInt);
}

/** Numbers as the stored elements of a type: floats rounded, integers as typed arrays wrap them, bool x ≠ 0. */
export function encode(type: DataType, values: ArrayLike<number>): TypedArray {
  const { array, kind, bits } = typeInfo(type);
  switch (type) {
    case 'float16':
      return Uint16Array.from(values, numberToFloat16);
    case 'bfloat16':
      return Uint16Array.from(values, numberToBfloat16);
    case 'bool':
      return Uint8Array.from(values, (x) => (x === 0 ? 0 : 1));
    case 'int64':
      return BigInt64Array.from(values as unknown as number[], (x) => BigInt(Math.trunc(x)));
    case 'uint64':
      return BigUint64Array.from(values as unknown as number[], (x) => BigInt(Math.trunc(x)));
    case 'string':
      throw new SkepError('INTERNAL', 'numbers are not strings');
    default: {
      if (bits < 8 || (kind === 'float' && bits === 8)) throw new SkepError('UNSUPPORTED', `${type} elements`);
      const out = new array(values.length);
      for (let i = 0; i < values.length; i++) out[i] = values[i]!;
      return out;
    }
  }
}
