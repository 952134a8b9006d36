// Parameter blocks of products with int8 weights (assembly/int8.ts pictures them), and rounding weights to int8 on this side.
import type { Fields } from './abi.js';
import { epilogueFields, type MatrixView } from './gemm.js';

/** How the weights of matrix products and recurrent layers may be kept. */
export type WeightType = 'float32' | 'float16' | 'int8';

export const weightTypes: readonly WeightType[] = ['float32', 'float16', 'int8'];

export const int8 = {
  quantizeRows: {
    x: 'ptr',
    packed: 'ptr',
    scales: 'ptr',
    matrices: 'i32',
    stride: 'i32',
    m: 'i32',
    k: 'i32',
    row: 'i32',
    column: 'i32',
    limit: 'f32',
  },
  gemmInt8: {
    ...epilogueFields,
    a: 'ptr',
    rows: 'ptr',
    b: 'ptr',
    columns: 'ptr',
    c: 'ptr',
    batches: 'i32',
    aIndex: 'i32s',
    bIndex: 'i32s',
    m: 'i32',
    n: 'i32',
    k: 'i32',
    chunk: 'i32',
  },
} as const satisfies Record<string, Fields>;

/** The longest sums: beyond, too few bits would be left for the activations. */
export const MOST_TERMS = 8192;

/** The largest integer activations are rounded to, such that no sum of k products leaves 32 bits. */
export function activationLimit(k: number): number {
  return Math.min(32_767, Math.floor((2 ** 31 - 1) / (127 * Math.max(1, k))));
}

/** Bytes of a packed k×n matrix and of its scales. */
export function int8Sizes(k: number, n: number): { readonly weights: number; readonly scales: number } {
  const panels = Math.ceil(n / 8);
  return { weights: panels * Math.ceil(k / 2) * 16, scales: panels * 32 };
}

/** How far rounding moved a matrix, relative to its root mean square. */
export interface RoundingError {
  readonly max: number;
  readonly mean: number;
}

/**
 * Rounds and packs a k×n matrix, a scale a column. A weight that is not finite leaves its column NaN. `weights` and
 * `scales` are where the matrix starts; both are zero before.
 */
export function packInt8(
  weights: Int8Array,
  scales: Float32Array,
  { data, offset, row, column }: MatrixView,
  k: number,
  n: number,
): RoundingError {
  const pairs = Math.ceil(k / 2);
  let most = 0;
  let sum = 0;
  let squares = 0;
  for (let j = 0; j < n; j++) {
    const from = offset + j * column;
    let peak = 0;
    for (let i = 0; i < k; i++) peak = Math.max(peak, Math.abs(data[from + i * row]!));
    const scale = Math.fround(peak / 127);
    scales[j] = Number.isFinite(scale) ? scale : Number.NaN;
    if (!(scale > 0 && scale < Number.POSITIVE_INFINITY)) continue;
    const to = (j >> 3) * pairs * 16 + (j & 7) * 2;
    for (let i = 0; i < k; i++) {
      const w = data[from + i * row]!;
      const q = Math.max(-127, Math.min(127, Math.round(w / scale)));
      weights[to + (i >> 1) * 16 + (i & 1)] = q;
      const error = Math.abs(q * scale - w);
      most = Math.max(most, error);
      sum += error;
      squares += w * w;
    }
  }
  const size = Math.sqrt(squares / (k * n));
  return size === 0 ? { max: 0, mean: 0 } : { max: most / size, mean: sum / (k * n) / size };
}
