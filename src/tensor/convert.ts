// Between stored elements and JavaScript numbers. `decode` gives the values of any numeric tensor as numbers, `encode`
// rounds numbers to a type (to nearest, ties to even, as IEEE 754 and the ONNX float8 rules say). 64-bit integers have
// their own pair so that no bit is lost. Strings are Cast's, not here; the smallest floats are minifloat.ts.
import { SkepError } from './errors.js';
import { isMinifloat, minifloatTable, numberToMinifloat, pack, type RoundingOptions, unpack } from './minifloat.js';
import { exponentOf, roundEven } from './rounding.js';
import type { Tensor } from './tensor.js';
import { type DataType, type TypedArray, typeInfo } from './types.js';

export { roundEven } from './rounding.js';

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

/**
 * The elements of a numeric tensor as numbers: its own array where that holds numbers already, a new one otherwise.
 * 64-bit integers become the nearest double: use `decodeBig` where every bit counts.
 */
export function decode(tensor: Tensor): ArrayLike<number> {
  const data = tensor.data as TypedArray;
  switch (tensor.type) {
    case 'float16':
      return lookUp(data as Uint16Array, float16Table());
    case 'bfloat16':
      return widen(data as Uint16Array);
    case 'int64':
    case 'uint64':
      return Float64Array.from(data as BigInt64Array, Number);
    case 'string':
      throw new SkepError('INTERNAL', 'a string tensor has no numbers');
    default:
      return decodeSmall(tensor) ?? (data as Float64Array);
  }
}

let halves: Float32Array | undefined;

/** All 65,536 values: weights come by the million. */
function float16Table(): Float32Array {
  halves ??= Float32Array.from({ length: 65536 }, (_, bits) => float16ToNumber(bits));
  return halves;
}

function lookUp(codes: Uint8Array | Uint16Array, table: Float32Array): Float32Array {
  const out = new Float32Array(codes.length);
  for (let i = 0; i < out.length; i++) out[i] = table[codes[i]!]!;
  return out;
}

/** A bfloat16 is the upper half of a float32. */
function widen(codes: Uint16Array): Float32Array {
  const out = new Uint32Array(codes.length);
  for (let i = 0; i < out.length; i++) out[i] = codes[i]! << 16;
  return new Float32Array(out.buffer);
}

/** Elements of minifloats and of types smaller than a byte; undefined for other types. */
function decodeSmall(tensor: Tensor): ArrayLike<number> | undefined {
  const { type, size } = tensor;
  const { bits, kind } = typeInfo(type);
  const data = tensor.data as Uint8Array;
  if (bits >= 8 && !isMinifloat(type)) return undefined;
  const codes = bits < 8 ? unpack(data, bits, size) : data;
  if (isMinifloat(type)) {
    const table = minifloatTable(type);
    return lookUp(codes, table);
  }
  if (kind === 'unsigned') return codes;
  return Int8Array.from(codes, (code) => (code << (32 - bits)) >> (32 - bits));
}

/** The elements of an integer tensor as BigInts. */
export function decodeBig(tensor: Tensor): ArrayLike<bigint> {
  if (tensor.type === 'int64' || tensor.type === 'uint64') return tensor.data as BigInt64Array;
  return BigInt64Array.from(decode(tensor) as unknown as number[], BigInt);
}

/**
 * Numbers as the stored elements of a type: floats rounded to nearest even (`options` for the smallest of them), integers
 * wrapped as typed arrays do after dropping the fraction, bool x ≠ 0. Elements smaller than a byte come packed.
 */
export function encode(type: DataType, values: ArrayLike<number>, options: RoundingOptions = {}): TypedArray {
  const { array, bits } = typeInfo(type);
  switch (type) {
    case 'float16':
      return Uint16Array.from(values, numberToFloat16);
    case 'bfloat16':
      return Uint16Array.from(values, numberToBfloat16);
    case 'bool':
      return Uint8Array.from(values, (x) => (x === 0 ? 0 : 1));
    case 'int64':
      return BigInt64Array.from(values as unknown as number[], (x) => toBig(x, -(2n ** 63n), 2n ** 63n - 1n));
    case 'uint64':
      return BigUint64Array.from(values as unknown as number[], (x) => toBig(x, 0n, 2n ** 64n - 1n));
    case 'string':
      throw new SkepError('INTERNAL', 'numbers are not strings');
    default: {
      if (isMinifloat(type)) {
        const codes = Uint8Array.from(values, (x) => numberToMinifloat(type, x, options));
        return bits < 8 ? pack(codes, bits) : codes;
      }
      if (bits < 8) return pack(values, bits);
      const out = new array(values.length);
      for (let i = 0; i < values.length; i++) out[i] = values[i]!;
      return out;
    }
  }
}

/** BigInts as the stored elements of a type: integers wrapped, floats rounded. */
export function encodeBig(type: DataType, values: ArrayLike<bigint>): TypedArray {
  const { kind } = typeInfo(type);
  if (type === 'int64') return BigInt64Array.from(values as unknown as bigint[]);
  if (type === 'uint64') return BigUint64Array.from(values as unknown as bigint[]);
  const number = kind === 'signed' || kind === 'unsigned' ? (x: bigint) => Number(BigInt.asIntN(32, x)) : Number;
  return encode(type, Array.from(values, number));
}

/** No BigInt is an infinity or NaN: the ends of the range, and 0. */
function toBig(x: number, low: bigint, high: bigint): bigint {
  if (Number.isFinite(x)) return BigInt(Math.trunc(x));
  return x > 0 ? high : x < 0 ? low : 0n;
}
