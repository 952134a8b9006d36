// Moving elements without looking at them: the reference semantics of every operator that only selects, repeats or
// rearranges. Picture an index list: output element i is input element `source[i]`, or a fill value where that is −1.
// Works for every element type: complex elements are two array entries, sub-byte types are unpacked to one a byte and
// packed again. Also the size check that every shape rule here ends with. Arithmetic on elements is not here.
import { formatShape } from '../tensor/errors.js';
import { forEachOffset, sizeOf, stridesOf } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import { arrayLength, byteLength, type DataType, type TypedArray, typeInfo } from '../tensor/types.js';
import type { Call, OutputInfo } from './operator.js';

/** Most bytes of one tensor that an operator makes: offsets within it stay exact in 31 bits. */
const maxBytes = 0x7fffffff;

/** Type and shape of an output, checked: dimensions are whole, not negative, and the tensor is below 2 GiB. */
export function outputOf(call: Call<unknown>, type: DataType, dims: readonly number[]): OutputInfo {
  for (const d of dims)
    if (!Number.isInteger(d) || d < 0)
      throw call.error(`output shape ${formatShape(dims)}: dimensions must be non-negative integers`);
  const size = sizeOf(dims);
  if (size > maxBytes || byteLength(type, size) > maxBytes)
    throw call.error(`output shape ${formatShape(dims)} of ${type} is larger than 2 GiB`, 'UNSUPPORTED');
  return { type, dims };
}

/** An axis counted from the front; an error that names the node when it is outside [−rank, rank). */
export function axisOf(call: Call<unknown>, axis: number, rank: number, what = 'axis'): number {
  if (!Number.isInteger(axis) || axis < -rank || axis >= rank)
    throw call.error(`${what} ${axis} is outside [${-rank}, ${rank - 1}]`);
  return axis < 0 ? axis + rank : axis;
}

/** Axes counted from the front, each at most once. */
export function axesOf(call: Call<unknown>, axes: readonly number[], rank: number): number[] {
  const normal = axes.map((a) => axisOf(call, a, rank));
  if (new Set(normal).size !== normal.length) throw call.error(`axes ${formatShape(axes)} name an axis twice`);
  return normal;
}

/** Elements one by one: entry i·width is element i. Strings and numbers alike. */
export interface Elements {
  readonly items: TypedArray | string[];
  readonly width: number;
}

/** The elements of any tensor; its own array unless the type is packed. */
export function elementsOf(t: Tensor): Elements {
  const { bits, kind } = typeInfo(t.type);
  if (kind === 'string' || bits >= 8) return { items: t.data as TypedArray, width: kind === 'complex' ? 2 : 1 };
  const packed = t.data as Uint8Array;
  const perByte = 8 / bits;
  const items = new Uint8Array(t.size);
  for (let i = 0; i < t.size; i++)
    items[i] = (packed[Math.floor(i / perByte)]! >> ((i % perByte) * bits)) & ((1 << bits) - 1);
  return { items, width: 1 };
}

/** Room for the elements of a shape: zeros or empty strings. */
export function roomFor(type: DataType, size: number): Elements {
  const { bits, kind, array } = typeInfo(type);
  if (kind === 'string') return { items: new Array<string>(size).fill(''), width: 1 };
  if (bits < 8) return { items: new Uint8Array(size), width: 1 };
  return { items: new array(arrayLength(type, size)), width: kind === 'complex' ? 2 : 1 };
}

/** A tensor of these elements. */
export function fromElements(type: DataType, dims: readonly number[], elements: Elements): Tensor {
  const { bits, kind } = typeInfo(type);
  if (kind === 'string' || bits >= 8) return new Tensor(type, elements.items, dims);
  const perByte = 8 / bits;
  const size = sizeOf(dims);
  const packed = new Uint8Array(arrayLength(type, size));
  for (let i = 0; i < size; i++)
    packed[Math.floor(i / perByte)]! |= (elements.items[i] as number) << ((i % perByte) * bits);
  return new Tensor(type, packed, dims);
}

/** Copies element `i` of `from` to place `j` of `to`; both of one type. */
export function move(to: Elements, j: number, from: Elements, i: number): void {
  const w = to.width;
  for (let k = 0; k < w; k++) to.items[j * w + k] = from.items[i * w + k]!;
}

/** The tensor of shape `dims` whose element i is `t[source(i)]`, or `fill[0]` (default zero) where that is −1. */
export function pick(t: Tensor, dims: readonly number[], source: (i: number) => number, fill?: Tensor): Tensor {
  const from = elementsOf(t);
  const size = sizeOf(dims);
  const to = roomFor(t.type, size);
  const filler = fill === undefined ? undefined : elementsOf(fill);
  for (let i = 0; i < size; i++) {
    const s = source(i);
    if (s >= 0) move(to, i, from, s);
    else if (filler !== undefined) move(to, i, filler, 0);
  }
  return fromElements(t.type, dims, to);
}

/** `pick` where the source is a strided view: element [i…] is `t[start + Σ i·stride]`. */
export function pickStrided(t: Tensor, dims: readonly number[], strides: readonly number[], start = 0): Tensor {
  const source = new Int32Array(sizeOf(dims));
  forEachOffset(dims, [strides], ([offset], i) => {
    source[i] = start + offset!;
  });
  return pick(t, dims, (i) => source[i]!);
}

/** `pick` where every axis has its own list of source coordinates (−1: outside, take `fill`). */
export function pickByAxis(t: Tensor, coordinates: readonly ArrayLike<number>[], fill?: Tensor): Tensor {
  const dims = coordinates.map((c) => c.length);
  const strides = stridesOf(t.dims);
  const own = stridesOf(dims);
  return pick(
    t,
    dims,
    (i) => {
      let s = 0;
      for (let a = 0; a < dims.length; a++) {
        const c = coordinates[a]![Math.floor(i / own[a]!) % dims[a]!]!;
        if (c < 0) return -1;
        s += c * strides[a]!;
      }
      return s;
    },
    fill,
  );
}

/** The same elements under another shape. */
export function reshaped(t: Tensor, dims: readonly number[]): Tensor {
  return new Tensor(t.type, t.data as TypedArray, dims);
}

/** Coordinates [start, start + step, …], `count` of them. */
export function ramp(start: number, step: number, count: number): Int32Array {
  return Int32Array.from({ length: count }, (_, i) => start + i * step);
}
