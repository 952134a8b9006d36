// Floats of 8 and 4 bits, and the packing of elements smaller than a byte. How to picture a minifloat: without its sign
// its codes count up through the values it can hold, evenly spaced between powers of two, so rounding is finding the
// nearest code. ONNX: docs "Float stored in 8 bits", "Float stored in 4 bits", Cast (saturate, round_mode).
import { exponentOf, roundEven } from './rounding.js';

/** How numbers become minifloats: Cast's attributes. */
export interface RoundingOptions {
  /** Beyond the largest value: that value (true), or infinity, or NaN where there is none. Default true. */
  readonly saturate?: boolean;
  /** float8e8m0 only: to the power of two above, below, or nearest. Default 'up', as Cast has it. */
  readonly roundMode?: 'up' | 'down' | 'nearest';
}

/** The layout of a minifloat with a sign. */
interface Layout {
  /** Bits of the fraction. */
  readonly fraction: number;
  readonly bias: number;
  /** Code of the largest finite value. */
  readonly max: number;
  /** Code of infinity; undefined: none. */
  readonly infinity?: number;
  /** Code of NaN; undefined: none (float4 turns NaN into its largest value). */
  readonly nan?: number;
  /** Bit of the sign. */
  readonly sign: number;
  /** No negative zero: its code is the NaN. */
  readonly unsignedZero?: boolean;
}

const layouts = {
  float8e4m3fn: { fraction: 3, bias: 7, max: 0x7e, nan: 0x7f, sign: 0x80 },
  float8e4m3fnuz: { fraction: 3, bias: 8, max: 0x7f, nan: 0x80, sign: 0x80, unsignedZero: true },
  float8e5m2: { fraction: 2, bias: 15, max: 0x7b, infinity: 0x7c, nan: 0x7e, sign: 0x80 },
  float8e5m2fnuz: { fraction: 2, bias: 16, max: 0x7f, nan: 0x80, sign: 0x80, unsignedZero: true },
  float4e2m1: { fraction: 1, bias: 1, max: 0x7, sign: 0x8 },
} as const satisfies Record<string, Layout>;

/** The types of this file. */
export type MinifloatType = keyof typeof layouts | 'float8e8m0';

/** True for a type of this file. */
export function isMinifloat(type: string): type is MinifloatType {
  return type === 'float8e8m0' || Object.hasOwn(layouts, type);
}

const tables = new Map<MinifloatType, Float32Array>();

/** The value of every code, by code. All are exact in float32. */
export function minifloatTable(type: MinifloatType): Float32Array {
  let table = tables.get(type);
  if (table === undefined) {
    table = Float32Array.from({ length: type === 'float4e2m1' ? 16 : 256 }, (_, code) => valueOfCode(type, code));
    tables.set(type, table);
  }
  return table;
}

function valueOfCode(type: MinifloatType, code: number): number {
  if (type === 'float8e8m0') return code === 255 ? Number.NaN : 2 ** (code - 127);
  const { fraction, bias, max, infinity, nan, sign, unsignedZero }: Layout = layouts[type];
  if (unsignedZero && code === nan) return Number.NaN;
  const s = code & sign ? -1 : 1;
  const magnitude = code & (sign - 1);
  if (magnitude === infinity) return s * Number.POSITIVE_INFINITY;
  if (magnitude > max) return Number.NaN;
  const exponent = magnitude >> fraction;
  const part = magnitude & ((1 << fraction) - 1);
  return exponent === 0
    ? s * part * 2 ** (1 - bias - fraction)
    : s * (1 + part / (1 << fraction)) * 2 ** (exponent - bias);
}

/**
 * The code nearest to `x`, ties to even. Infinities are out of range like any large number; ONNX's table has them become
 * NaN in the two fnuz types even when saturating, its reference and its test data do not: we follow the latter.
 */
export function numberToMinifloat(type: MinifloatType, x: number, options: RoundingOptions = {}): number {
  if (type === 'float8e8m0') return numberToFloat8e8m0(x, options);
  const { fraction, bias, max, infinity, nan, sign, unsignedZero }: Layout = layouts[type];
  const s = x < 0 || Object.is(x, -0) ? sign : 0;
  if (Number.isNaN(x)) return nan ?? max;
  const a = Math.abs(x);
  let code: number;
  if (a === Number.POSITIVE_INFINITY) code = max + 1;
  else if (a < 2 ** (1 - bias)) code = roundEven(a / 2 ** (1 - bias - fraction));
  else {
    const e = Math.min(exponentOf(a), 64);
    // A fraction that rounds up to its end carries into the exponent by itself.
    code = ((e + bias) << fraction) + Math.min(roundEven((a / 2 ** e - 1) * (1 << fraction)), 1 << fraction);
  }
  if (code > max) {
    if (options.saturate !== false || nan === undefined) return s | max;
    if (infinity !== undefined) return s | infinity;
    return unsignedZero ? nan : s | nan;
  }
  return code === 0 && unsignedZero ? 0 : s | code;
}

/** A power of two and no sign. NaN and infinities are 255 (onnx.numpy_helper.to_float8e8m0). */
function numberToFloat8e8m0(x: number, options: RoundingOptions): number {
  const a = Math.fround(Math.abs(x));
  if (!(a < Number.POSITIVE_INFINITY)) return 255;
  // Below 2^-126 the exponent is 0, like float32's own.
  const exponent = a < 2 ** -126 ? 0 : exponentOf(a) + 127;
  const rest = a < 2 ** -126 ? a / 2 ** -126 : a / 2 ** (exponent - 127) - 1;
  let up = rest > 0;
  if (options.roundMode === 'down') up = false;
  // A tie goes up, but from exponent 0 it stays.
  else if (options.roundMode === 'nearest') up = rest > 0.5 || (rest === 0.5 && exponent > 0);
  if (up && exponent === 254 && options.saturate !== false) return 254;
  return exponent + (up ? 1 : 0);
}

/** Codes of `bits` bits, low bits of each byte first, as bytes. */
export function pack(codes: ArrayLike<number>, bits: number): Uint8Array {
  const per = 8 / bits;
  const mask = (1 << bits) - 1;
  const out = new Uint8Array(Math.ceil(codes.length / per));
  for (let i = 0; i < codes.length; i++) out[Math.floor(i / per)]! |= (codes[i]! & mask) << ((i % per) * bits);
  return out;
}

/** The first `size` codes of `bits` bits in packed bytes. */
export function unpack(bytes: Uint8Array, bits: number, size: number): Uint8Array {
  const per = 8 / bits;
  const mask = (1 << bits) - 1;
  const out = new Uint8Array(size);
  for (let i = 0; i < size; i++) out[i] = (bytes[Math.floor(i / per)]! >> ((i % per) * bits)) & mask;
  return out;
}
