// How an axis is resampled: for every output coordinate, which input coordinates it takes with which weights. Picture a
// sparse matrix of `count` rows with `taps` entries each; Resize multiplies along each axis by one. All coordinate
// transformations, interpolation modes and the antialiasing filter of ONNX Resize are here; applying them is resize.ts.

/** What decides the coordinates of one axis. */
export interface AxisOptions {
  readonly mode: 'nearest' | 'linear' | 'cubic';
  readonly transform: string;
  readonly nearest: string;
  readonly cubicA: number;
  readonly antialias: boolean;
  readonly excludeOutside: boolean;
  /** Start and end of the region of interest, as fractions of the axis. */
  readonly roi: readonly [number, number];
}

/** Weights of one axis: output i is Σ_t weights[i·taps + t] · input[indices[i·taps + t]], or the extrapolation value. */
export interface Taps {
  readonly count: number;
  readonly taps: number;
  readonly indices: Int32Array;
  readonly weights: Float64Array;
  /** 1 where the coordinate is outside the input and takes the extrapolation value (tf_crop_and_resize only). */
  readonly outside: Uint8Array;
}

/**
 * The input coordinate of output coordinate `x`: n inputs, `count` outputs, `scale` as given (not count / n). Every step is
 * rounded to float32, as onnxruntime and the specification's reference do: which pixel is the nearest at a tie, and whether
 * a coordinate is past the edge, depends on it.
 */
function coordinate(x: number, n: number, count: number, given: number, { transform, roi }: AxisOptions): number {
  const f = Math.fround;
  const scale = f(given);
  const length = f(scale * n);
  switch (transform) {
    case 'asymmetric':
      return f(x / scale);
    case 'align_corners':
      return length === 1 ? 0 : f(f(x * (n - 1)) / f(length - 1));
    case 'pytorch_half_pixel':
      return count === 1 ? 0 : f(f((x + 0.5) / scale) - 0.5);
    case 'half_pixel_symmetric':
      return f(f(f((n / 2) * f(1 - f(count / length))) + f((x + 0.5) / scale)) - 0.5);
    case 'tf_half_pixel_for_nn':
      return f((x + 0.5) / scale);
    case 'tf_crop_and_resize': {
      const [start, end] = [f(roi[0]), f(roi[1])];
      if (count === 1) return f(f(0.5 * f(start + end)) * (n - 1));
      return f(f(start * (n - 1)) + f(f(f(x * f(end - start)) * (n - 1)) / (count - 1)));
    }
    default:
      return f(f((x + 0.5) / scale) - 0.5);
  }
}

function nearestOf(x: number, how: string, scale: number): number {
  switch (how) {
    case 'floor':
      return Math.floor(x);
    case 'ceil':
      return Math.ceil(x);
    case 'round_prefer_ceil':
      return Math.floor(x + 0.5);
    case 'simple': // Version 10: floor where the axis grows, ceil where it shrinks.
      return scale < 1 ? Math.ceil(x) : Math.floor(x);
    default:
      return Math.ceil(x - 0.5);
  }
}

/** The cubic convolution kernel (Keys) at distance x. */
function cubic(x: number, a: number): number {
  const d = Math.abs(x);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return 0;
}

/** Indices and weights along an axis of n inputs, resampled to `count` by `scale`. */
export function tapsOf(n: number, count: number, scale: number, options: AxisOptions): Taps {
  const { mode, antialias, cubicA, excludeOutside } = options;
  const outside = new Uint8Array(count);
  const clamp = (i: number) => Math.min(Math.max(i, 0), n - 1);
  const at = (x: number) => {
    const c = coordinate(x, n, count, scale, options);
    if (options.transform === 'tf_crop_and_resize' && (c < 0 || c > n - 1)) outside[x] = 1;
    return Number.isFinite(c) ? c : 0;
  };
  if (mode === 'nearest') {
    const indices = Int32Array.from({ length: count }, (_, x) => clamp(nearestOf(at(x), options.nearest, scale)));
    return { count, taps: 1, indices, weights: new Float64Array(count).fill(1), outside };
  }
  const shrink = antialias ? Math.min(scale, 1) : 1;
  const reach = mode === 'linear' ? 1 : 2;
  // Where the filter is longer than the axis every further tap would meet a border: enough to cover the axis.
  const before = Math.min(Math.ceil(reach / shrink) - 1, 2 * n + 1);
  const taps = 2 * before + 2;
  const indices = new Int32Array(count * taps);
  const weights = new Float64Array(count * taps);
  for (let x = 0; x < count; x++) {
    const c = at(x);
    // The left neighbour; a whole coordinate is the right neighbour of the one before.
    const left = Math.ceil(c) - 1;
    let sum = 0;
    for (let t = 0; t < taps; t++) {
      const i = left + t - before;
      const d = (i - c) * shrink;
      let w = mode === 'linear' ? Math.max(0, 1 - Math.abs(d)) : cubic(d, cubicA);
      if (excludeOutside && (i < 0 || i >= n)) w = 0;
      indices[x * taps + t] = clamp(i);
      weights[x * taps + t] = w;
      sum += w;
    }
    if (excludeOutside || antialias) for (let t = 0; t < taps; t++) weights[x * taps + t]! /= sum;
  }
  return { count, taps, indices, weights, outside };
}

/** True when the axis stays as it is. */
export function isIdentity({ count, taps, indices, weights, outside }: Taps, n: number): boolean {
  if (count !== n) return false;
  for (let x = 0; x < count; x++) {
    if (outside[x]) return false;
    for (let t = 0; t < taps; t++) if (weights[x * taps + t] !== 0 && indices[x * taps + t] !== x) return false;
  }
  return true;
}
