// Arithmetic on shapes: sizes, strides, broadcasting, axes. A shape is a plain array of non-negative integers, row-major;
// [] is a scalar. Sizes are checked against 2^31 − 1 elements where tensors are made, so that index arithmetic in kernels
// is exact in 32 bits.
import { formatShape, SkepError } from './errors.js';

/** Elements of a shape. */
export function sizeOf(dims: readonly number[]): number {
  let size = 1;
  for (const d of dims) size *= d;
  return size;
}

/** Row-major strides in elements. */
export function stridesOf(dims: readonly number[]): number[] {
  const strides = new Array<number>(dims.length);
  let s = 1;
  for (let i = dims.length - 1; i >= 0; i--) {
    strides[i] = s;
    s *= dims[i]!;
  }
  return strides;
}

/** Same rank and dimensions. */
export function sameShape(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((d, i) => d === b[i]);
}

/** The shape that all of `shapes` broadcast to (ONNX multidirectional broadcasting), or undefined when they do not. */
export function broadcastShapes(...shapes: readonly (readonly number[])[]): number[] | undefined {
  const rank = Math.max(0, ...shapes.map((s) => s.length));
  const out = new Array<number>(rank).fill(1);
  for (const s of shapes) {
    for (let i = 0; i < s.length; i++) {
      const o = rank - s.length + i;
      if (s[i] === 1) continue;
      if (out[o] !== 1 && out[o] !== s[i]) return undefined;
      out[o] = s[i]!;
    }
  }
  return out;
}

/** Strides that read an array of shape `from` as if it had shape `to`: 0 along broadcast axes. */
export function broadcastStrides(from: readonly number[], to: readonly number[]): number[] {
  const own = stridesOf(from);
  const lead = to.length - from.length;
  return to.map((_, i) => (i < lead || from[i - lead] === 1 ? 0 : own[i - lead]!));
}

/** `axis` counted from the front; throws when it is outside [−rank, rank). */
export function normalizeAxis(axis: number, rank: number, what = 'axis'): number {
  if (!Number.isInteger(axis) || axis < -rank || axis >= Math.max(rank, 1))
    throw new SkepError('INVALID_MODEL', `${what} ${axis} is outside [${-rank}, ${rank - 1}]`);
  return axis < 0 ? axis + rank : axis;
}

/** Throws unless every dimension is a non-negative integer and the size fits 32-bit index arithmetic. */
export function checkShape(dims: readonly number[], what = 'shape'): void {
  let size = 1;
  for (const d of dims) {
    if (!Number.isInteger(d) || d < 0)
      throw new SkepError('INVALID_INPUT', `${what} ${formatShape(dims)}: dimensions must be non-negative integers`);
    // Also beside a dimension of 0: strides are products of the others.
    if (d > 0x7fffffff)
      throw new SkepError('INVALID_INPUT', `${what} ${formatShape(dims)}: a dimension may be at most 2147483647`);
    size *= d;
  }
  if (size > 0x7fffffff)
    throw new SkepError('INVALID_INPUT', `${what} ${formatShape(dims)} has ${size} elements; the limit is 2147483647`);
}

/** Calls `visit(offsets)` for each index of `dims` in row-major order, with one running offset per stride list. */
export function forEachOffset(
  dims: readonly number[],
  strides: readonly (readonly number[])[],
  visit: (offsets: readonly number[], linear: number) => void,
): void {
  const n = sizeOf(dims);
  const rank = dims.length;
  const index = new Array<number>(rank).fill(0);
  const offsets = strides.map(() => 0);
  for (let linear = 0; linear < n; linear++) {
    visit(offsets, linear);
    for (let axis = rank - 1; axis >= 0; axis--) {
      index[axis]!++;
      for (let k = 0; k < offsets.length; k++) offsets[k]! += strides[k]![axis]!;
      if (index[axis]! < dims[axis]!) break;
      for (let k = 0; k < offsets.length; k++) offsets[k]! -= strides[k]![axis]! * dims[axis]!;
      index[axis] = 0;
    }
  }
}
