// Shape rules of the builder: what a built graph can declare of its values, symbols kept. Only to give the written model
// types that other runtimes check and to size weights; what a plan runs with is the operators' own rule, on real shapes.
import { formatShape, SkepError } from '../tensor/errors.js';
import type { Dim } from './graph.js';

/** Dimensions, or undefined when not even the rank is known. */
export type Dims = readonly Dim[] | undefined;

function bad(message: string): SkepError {
  return new SkepError('INVALID_INPUT', message);
}

/** Broadcasts two shapes; throws when known sizes contradict. */
export function broadcastDims(a: Dims, b: Dims, op: string): Dims {
  if (a === undefined || b === undefined) return undefined;
  const rank = Math.max(a.length, b.length);
  return Array.from({ length: rank }, (_, i): Dim => {
    const x = i < rank - a.length ? 1 : a[i - rank + a.length]!;
    const y = i < rank - b.length ? 1 : b[i - rank + b.length]!;
    if (x === 1) return y;
    if (y === 1 || x === y) return x;
    if (typeof x === 'number' && typeof y === 'number')
      throw bad(`${op}: shapes ${formatShape(a)} and ${formatShape(b)} do not broadcast`);
    return typeof x === 'number' ? x : typeof y === 'number' ? y : null;
  });
}

/** Matrix product of stacked matrices. */
export function matmulDims(a: Dims, b: Dims): Dims {
  if (a === undefined || b === undefined || a.length < 1 || b.length < 1) return undefined;
  const inner = a[a.length - 1]!;
  const other = b[Math.max(b.length - 2, 0)]!;
  if (typeof inner === 'number' && typeof other === 'number' && inner !== other)
    throw bad(`MatMul: shapes ${formatShape(a)} and ${formatShape(b)} do not multiply`);
  const stack = broadcastDims(a.slice(0, -2), b.slice(0, -2), 'MatMul')!;
  return [...stack, ...(a.length > 1 ? [a[a.length - 2]!] : []), ...(b.length > 1 ? [b[b.length - 1]!] : [])];
}

/** What a sliding window over the spatial axes is made of. */
export interface WindowOptions {
  /** A stride an axis. Default 1. */
  readonly strides?: readonly number[];
  /** All begins, then all ends, as ONNX has it. Default 0. */
  readonly pads?: readonly number[];
  /** Default 1. */
  readonly dilations?: readonly number[];
  /** Pads such that the output has ceil(input / stride) elements, the odd one at the end. Instead of `pads`. */
  readonly autoPad?: 'SAME_UPPER' | 'SAME_LOWER' | 'VALID';
  /** Rounds sizes up (pooling only). */
  readonly ceilMode?: boolean;
}

/** Spatial sizes after a window (ONNX Conv, MaxPool). */
export function windowDims(spatial: readonly Dim[], kernel: readonly number[], options: WindowOptions): Dim[] {
  return spatial.map((size, i) => {
    if (typeof size !== 'number') return null;
    const stride = options.strides?.[i] ?? 1;
    const reach = (kernel[i]! - 1) * (options.dilations?.[i] ?? 1) + 1;
    if (options.autoPad?.startsWith('SAME')) return Math.ceil(size / stride);
    const before = options.pads?.[i] ?? 0;
    const padded = size + before + (options.pads?.[i + spatial.length] ?? 0);
    const steps = (padded - reach) / stride;
    if (steps < 0) throw bad(`a window of ${reach} does not fit into ${padded} elements`);
    if (!options.ceilMode) return Math.floor(steps) + 1;
    const out = Math.ceil(steps) + 1;
    // A window may not begin in the padding at the end.
    return (out - 1) * stride >= size + before ? out - 1 : out;
  });
}

/** ONNX Reshape: 0 keeps a dimension, −1 takes what is left. */
export function reshapeDims(from: Dims, to: readonly number[]): Dim[] {
  const dims = to.map((d, i): Dim => (d === 0 ? (from?.[i] ?? null) : d === -1 ? null : d));
  const free = to.indexOf(-1);
  if (free >= 0 && from !== undefined) {
    // Kept dimensions cancel, known or not.
    const rest = (list: readonly Dim[], keep: (i: number) => boolean) => list.filter((_, i) => !keep(i));
    const kept = (i: number) => i < to.length && to[i] === 0;
    const above = rest(from, kept);
    const below = rest(dims, (i) => to[i] === 0 || i === free);
    if (below.length === 0 && above.length === 1) dims[free] = above[0]!;
    else if (above.every((d) => typeof d === 'number') && below.every((d) => typeof d === 'number')) {
      const size = above.reduce((p: number, d) => p * (d as number), 1);
      const part = below.reduce((p: number, d) => p * (d as number), 1);
      if (part === 0 || size % part !== 0)
        throw bad(`Reshape: ${formatShape(from)} does not fit ${formatShape([...to])}`);
      dims[free] = size / part;
    }
  }
  return dims;
}

/** Axis counted from the front. */
export function axisOf(axis: number, rank: number, op: string): number {
  const a = axis < 0 ? axis + rank : axis;
  if (!Number.isInteger(axis) || a < 0 || a >= rank) throw bad(`${op}: axis ${axis} is outside rank ${rank}`);
  return a;
}

/** Joins along an axis. */
export function concatDims(shapes: readonly Dims[], axis: number): Dims {
  const first = shapes[0];
  if (first === undefined || shapes.some((s) => s === undefined)) return undefined;
  const a = axisOf(axis, first.length, 'Concat');
  const out = [...first];
  for (const s of shapes.slice(1))
    for (let i = 0; i < out.length; i++) {
      const x = out[i]!;
      const y = s![i]!;
      if (i === a) out[i] = typeof x === 'number' && typeof y === 'number' ? x + y : null;
      else if (typeof x !== 'number') out[i] = typeof y === 'number' ? y : x;
      else if (typeof y === 'number' && x !== y)
        throw bad(`Concat: shapes ${shapes.map((d) => formatShape(d!)).join(', ')} differ beside axis ${axis}`);
    }
  return out;
}

/** Size after `start:end:step` on an axis. */
export function sliceDim(size: Dim, start: number, end: number, step: number): Dim {
  if (typeof size !== 'number') return null;
  const clamp = (x: number, low: number, high: number) => Math.min(Math.max(x < 0 ? x + size : x, low), high);
  const from = step > 0 ? clamp(start, 0, size) : clamp(start, 0, size - 1);
  const to = step > 0 ? clamp(end, 0, size) : clamp(end, -1, size - 1);
  return Math.max(0, Math.ceil((to - from) / step));
}

/** Removes or collapses reduced axes. */
export function reduceDims(dims: Dims, axes: readonly number[], keep: boolean, op: string): Dims {
  if (dims === undefined) return undefined;
  const gone = new Set(axes.length === 0 ? dims.keys() : axes.map((a) => axisOf(a, dims.length, op)));
  return keep ? dims.map((d, i) => (gone.has(i) ? 1 : d)) : dims.filter((_, i) => !gone.has(i));
}
