// Parameter blocks of products with float16 weights (assembly/half.ts pictures them), and rounding weights on this side.
import type { Fields } from './abi.js';
import { epilogueFields, type MatrixView } from './gemm.js';
import type { RoundingError } from './int8.js';

export const half = {
  gemmHalf: {
    ...epilogueFields,
    a: 'ptr',
    b: 'ptr',
    c: 'ptr',
    batches: 'i32',
    aIndex: 'i32s',
    bIndex: 'i32s',
    m: 'i32',
    n: 'i32',
    k: 'i32',
    chunk: 'i32',
    height: 'i32',
    factor: 'f32',
  },
} as const satisfies Record<string, Fields>;

/** Bytes of a packed k×n matrix. */
export function halfSize(k: number, n: number): number {
  return Math.ceil(n / 8) * k * 16;
}

/** The longest sums: beyond, a panel as floats would not stay in a cache. */
export const MOST_HALF_TERMS = 1 << 16;

const LARGEST = 15;
const BIAS = 112;

/**
 * The power of two that weights are multiplied by so that the largest is just below 2^15: then none is too large for a
 * float16, and those too small for a normal one are 2^-29 of the largest. undefined: they are not finite, or too large.
 */
export function halfExponent(peak: number): number | undefined {
  if (!(peak < 2 ** 30)) return undefined;
  if (peak === 0) return 0;
  // The factor that undoes it must be a normal float32.
  return Math.min(LARGEST - 1 - Math.floor(Math.log2(peak)), 200);
}

/** What a kernel multiplies a float16's bits by, in a float32's place, to get the weight. */
export function halfFactor(exponent: number): number {
  return 2 ** (BIAS - exponent);
}

const f32 = new Float32Array(1);
const u32 = new Uint32Array(f32.buffer);

/** The bits of the float16 nearest to x, ties to even; without subnormal ones. |x| ≤ 2^15. */
function halfBits(x: number): number {
  f32[0] = x;
  const bits = u32[0]!;
  const sign = (bits >>> 16) & 0x8000;
  const size = bits & 0x7fffffff;
  // Below 2^-14: the nearer of it and zero.
  if (size < 0x38800000) return size <= 0x38000000 ? sign : sign | 0x400;
  return sign | ((size + 0xfff + ((size >>> 13) & 1) - 0x38000000) >>> 13);
}

/** The value of such bits. */
function halfValue(bits: number): number {
  u32[0] = (bits & 0x7fff) === 0 ? 0 : ((bits & 0x7fff) << 13) + 0x38000000;
  return bits & 0x8000 ? -f32[0]! : f32[0]!;
}

/** A weight as it will be after rounding. */
export function roundHalf(w: number, exponent: number): number {
  return halfValue(halfBits(w * 2 ** exponent)) / 2 ** exponent;
}

/** Rounds and packs a k×n matrix; `into` is where it starts, zero before. */
export function packHalf(
  into: Uint16Array,
  { data, offset, row, column }: MatrixView,
  k: number,
  n: number,
  exponent: number,
): RoundingError {
  const scale = 2 ** exponent;
  let most = 0;
  let sum = 0;
  let squares = 0;
  for (let j = 0; j < n; j++) {
    const from = offset + j * column;
    const to = (j >> 3) * k * 8 + (j & 7);
    for (let i = 0; i < k; i++) {
      const w = data[from + i * row]!;
      const bits = halfBits(w * scale);
      into[to + i * 8] = bits;
      const error = Math.abs(halfValue(bits) / scale - w);
      if (error > most) most = error;
      sum += error;
      squares += w * w;
    }
  }
  const size = Math.sqrt(squares / (k * n));
  return size === 0 ? { max: 0, mean: 0 } : { max: most / size, mean: sum / (k * n) / size };
}
