// Operators whose output is a strided view of their input, written out: Transpose, Slice, Expand, Tile, DepthToSpace,
// SpaceToDepth. Each is one rule that says the view (dims, strides, where it starts); reference and kernel follow from it.
import { formatShape } from '../tensor/errors.js';
import { broadcastShapes, broadcastStrides, sizeOf, stridesOf } from '../tensor/shape.js';
import { type AttributeSpecs, type AttributesOf, int, ints, required, string } from './attributes.js';
import { byteStrides, copyView, elementBytes } from './copy.js';
import { type Call, type InferCall, type Operator, offsetBy, operator } from './operator.js';
import { axesOf, axisOf, outputOf, pickStrided, reshaped } from './pick.js';

/** The view: element [i…] of `view` is input element `start + Σ i·strides`; `dims` is the output's shape. */
interface Rule {
  readonly dims: readonly number[];
  readonly view: readonly number[];
  readonly strides: readonly number[];
  readonly start?: number;
}

function viewing<const S extends AttributeSpecs>(
  name: string,
  since: readonly number[],
  inputs: readonly [number, number],
  attributes: S,
  rule: (call: InferCall<AttributesOf<S>>) => Rule,
): Operator {
  return operator({
    name,
    since,
    inputs,
    attributes,
    infer: (call) => [outputOf(call, call.input(0).type, rule(call).dims)],
    reference(call) {
      const { dims, view, strides, start } = rule(call);
      outputOf(call, call.input(0).type, dims);
      return [reshaped(pickStrided(call.tensor(0), view, strides, start), dims)];
    },
    lower(call) {
      const size = elementBytes(call.output(0).type);
      if (size === 0) return false;
      const { view, strides, start = 0 } = rule(call);
      const inStrides = strides.map((s) => s * size);
      const from = offsetBy(call.in(0), start * size);
      copyView(call, from, call.out(0), { dims: view, inStrides, outStrides: byteStrides(view, size) }, size);
      return true;
    },
  });
}

/** The view of a dense tensor with its axes in another order. */
function permuted(dims: readonly number[], perm: readonly number[]): { view: number[]; strides: number[] } {
  const strides = stridesOf(dims);
  return { view: perm.map((p) => dims[p]!), strides: perm.map((p) => strides[p]!) };
}

const Transpose = viewing('Transpose', [1, 13, 21, 23, 24, 25], [1, 1], { perm: ints() }, (call) => {
  const { dims } = call.input(0);
  const perm = call.attributes.perm ?? dims.map((_, i) => dims.length - 1 - i);
  if (perm.length !== dims.length || dims.some((_, i) => !perm.includes(i)))
    throw call.error(`perm ${formatShape(perm)} is not a permutation of the axes of ${formatShape(dims)}`);
  const { view, strides } = permuted(dims, perm);
  return { dims: view, view, strides };
});

/**
 * First index and number of indices that [start, end) with `step` selects of an axis of size n: the specification clamps,
 * unlike numpy, the start of a negative step to 0.
 */
function sliceRange(n: number, start: number, end: number, step: number): { first: number; count: number } {
  const clamp = (x: number, least: number, most: number) => Math.min(Math.max(x < 0 ? x + n : x, least), most);
  const first = step > 0 ? clamp(start, 0, n) : clamp(start, 0, n - 1);
  const last = step > 0 ? clamp(end, 0, n) : clamp(end, -1, n - 1);
  return { first: Math.max(first, 0), count: n === 0 ? 0 : Math.max(0, Math.ceil((last - first) / step)) };
}

const Slice = viewing('Slice', [1, 10, 11, 13], [1, 5], { axes: ints(), starts: ints(), ends: ints() }, (call) => {
  const { dims } = call.input(0);
  const starts = call.ints(1) ?? call.attributes.starts;
  const ends = call.ints(2) ?? call.attributes.ends;
  if (starts === undefined || ends === undefined) throw call.error('starts and ends must be given');
  const axes = axesOf(call, call.ints(3) ?? call.attributes.axes ?? starts.map((_, i) => i), dims.length);
  const steps = call.ints(4) ?? starts.map(() => 1);
  if (ends.length !== starts.length || axes.length !== starts.length || steps.length !== starts.length)
    throw call.error(
      `starts, ends, axes and steps must be of one length, got ${starts.length}, ${ends.length}, ${axes.length}, ${steps.length}`,
    );
  const view = [...dims];
  const strides = stridesOf(dims);
  let from = 0;
  axes.forEach((axis, i) => {
    const step = steps[i]!;
    if (step === 0) throw call.error(`step ${i} is 0`);
    const { first, count } = sliceRange(dims[axis]!, starts[i]!, ends[i]!, step);
    view[axis] = count;
    from += first * strides[axis]!;
    // With one element the step does not matter; a huge one would not fit an address.
    strides[axis]! *= count > 1 ? step : 1;
  });
  return { dims: view, view, strides, start: sizeOf(view) === 0 ? 0 : from };
});

const Expand = viewing('Expand', [8, 13], [2, 2], {}, (call) => {
  const { dims } = call.input(0);
  const shape = call.ints(1)!;
  if (shape.some((d) => d < 0)) throw call.error(`shape ${formatShape(shape)} has a negative dimension`);
  const view = broadcastShapes(dims, shape);
  if (view === undefined) throw call.error(`${formatShape(dims)} does not broadcast with ${formatShape(shape)}`);
  return { dims: view, view, strides: broadcastStrides(dims, view) };
});

/** Repeats of every axis; version 1 says them as one count and one axis. */
function repeatsOf(call: InferCall<unknown>, rank: number): number[] {
  if (call.opset >= 6) return call.ints(1)!;
  const repeats = new Array<number>(rank).fill(1);
  const axis = call.ints(2)?.[0];
  if (axis === undefined) throw call.error('axis must be given');
  repeats[axisOf(call, axis, rank)] = call.ints(1)?.[0] ?? 1;
  return repeats;
}

const Tile = viewing('Tile', [1, 6, 13], [2, 3], {}, (call) => {
  const { dims } = call.input(0);
  const repeats = repeatsOf(call, dims.length);
  if (repeats.length !== dims.length)
    throw call.error(`expected a repeat for each axis of ${formatShape(dims)}, got ${formatShape(repeats)}`);
  if (repeats.some((r) => r < 0)) throw call.error(`repeats ${formatShape(repeats)} must not be negative`);
  const strides = stridesOf(dims);
  return {
    dims: dims.map((d, i) => d * repeats[i]!),
    view: dims.flatMap((d, i) => [repeats[i]!, d]),
    strides: strides.flatMap((s) => [0, s]),
  };
});

/** N, C, H, W of an image and its block size, checked. */
function blocked(call: Call<{ readonly blocksize: number }>, dims: readonly number[]) {
  const { blocksize: b } = call.attributes;
  if (dims.length !== 4) throw call.error(`expected an input of shape [N, C, H, W], got ${formatShape(dims)}`);
  if (b < 1) throw call.error(`blocksize must be positive, got ${b}`);
  const [n, c, h, w] = dims as [number, number, number, number];
  return { b, n, c, h, w };
}

const DepthToSpace = viewing(
  'DepthToSpace',
  [1, 11, 13],
  [1, 1],
  { blocksize: required(int()), mode: string('DCR') },
  (call) => {
    const { dims } = call.input(0);
    const { b, n, c, h, w } = blocked(call, dims);
    if (c % (b * b) !== 0) throw call.error(`${c} channels are not a multiple of blocksize² = ${b * b}`);
    const { mode } = call.attributes;
    if (mode !== 'DCR' && mode !== 'CRD') throw call.error(`mode must be DCR or CRD, got '${mode}'`);
    const depth = c / (b * b);
    const { view, strides } =
      mode === 'DCR'
        ? permuted([n, b, b, depth, h, w], [0, 3, 4, 1, 5, 2])
        : permuted([n, depth, b, b, h, w], [0, 1, 4, 2, 5, 3]);
    return { dims: [n, depth, h * b, w * b], view, strides };
  },
);

const SpaceToDepth = viewing('SpaceToDepth', [1, 13], [1, 1], { blocksize: required(int()) }, (call) => {
  const { dims } = call.input(0);
  const { b, n, c, h, w } = blocked(call, dims);
  if (h % b !== 0 || w % b !== 0) throw call.error(`height ${h} and width ${w} must be multiples of blocksize ${b}`);
  const { view, strides } = permuted([n, c, h / b, b, w / b, b], [0, 3, 5, 1, 2, 4]);
  return { dims: [n, c * b * b, h / b, w / b], view, strides };
});

export const views: readonly Operator[] = [Transpose, Slice, Expand, Tile, DepthToSpace, SpaceToDepth];
