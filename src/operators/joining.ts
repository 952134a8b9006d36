// Concat and Split: tensors laid one after the other along an axis, and taken apart again. Picture both as copies between
// a whole and its parts, where a part starts some way along the axis. Sequences of tensors are in sequences.ts.
import { formatShape } from '../tensor/errors.js';
import { sizeOf, stridesOf } from '../tensor/shape.js';
import type { Tensor } from '../tensor/tensor.js';
import { int, ints } from './attributes.js';
import { byteStrides, copyView, elementBytes } from './copy.js';
import {
  type Address,
  type Call,
  type InferCall,
  type LowerCall,
  type Operator,
  offsetBy,
  operator,
} from './operator.js';
import { axisOf, elementsOf, fromElements, move, outputOf, pickStrided, roomFor } from './pick.js';

/** The shape of tensors joined along an axis; names the one that does not fit. */
export function joinedDims(
  call: Call<unknown>,
  inputs: readonly { readonly type: string; readonly dims: readonly number[] }[],
  axis: number,
): number[] {
  const first = inputs[0]!;
  const dims = [...first.dims];
  inputs.slice(1).forEach((x, i) => {
    if (x.type !== first.type) throw call.error(`input ${i + 1} is ${x.type}, input 0 ${first.type}`);
    if (x.dims.length !== dims.length || x.dims.some((d, a) => a !== axis && d !== first.dims[a]))
      throw call.error(
        `input ${i + 1} of shape ${formatShape(x.dims)} does not fit input 0 of shape ${formatShape(first.dims)} along axis ${axis}`,
      );
    dims[axis]! += x.dims[axis]!;
  });
  return dims;
}

/** Joins tensors along an axis. */
export function join(tensors: readonly Tensor[], dims: readonly number[], axis: number): Tensor {
  const { type } = tensors[0]!;
  const to = roomFor(type, sizeOf(dims));
  const inner = sizeOf(dims.slice(axis + 1));
  const row = dims[axis]! * inner;
  let start = 0;
  for (const t of tensors) {
    const from = elementsOf(t);
    const run = t.dims[axis]! * inner;
    for (let i = 0; i < t.size; i++) move(to, Math.floor(i / run) * row + start + (i % run), from, i);
    start += run;
  }
  return fromElements(type, dims, to);
}

/** Copies between a whole and a part of it that starts `start` along the axis. */
function copyPart(
  call: LowerCall<unknown>,
  from: Address,
  to: Address,
  sides: {
    readonly part: readonly number[];
    readonly whole: readonly number[];
    readonly start: number;
    readonly into: boolean;
  },
  axis: number,
  size: number,
): void {
  const { part, whole, start, into } = sides;
  const wholeStrides = byteStrides(whole, size);
  const partStrides = byteStrides(part, size);
  const ahead = start * wholeStrides[axis]!;
  copyView(
    call,
    into ? from : offsetBy(from, ahead),
    into ? offsetBy(to, ahead) : to,
    {
      dims: part,
      inStrides: into ? partStrides : wholeStrides,
      outStrides: into ? wholeStrides : partStrides,
    },
    size,
  );
}

function concatAxis(call: InferCall<{ readonly axis: number | undefined }>): number {
  const { axis } = call.attributes;
  if (axis === undefined && call.opset >= 4) throw call.error("attribute 'axis' is missing");
  return axisOf(call, axis ?? 1, call.input(0).dims.length);
}

const Concat = operator({
  name: 'Concat',
  since: [1, 4, 11, 13],
  inputs: [1, 0x7fffffff],
  attributes: { axis: int() },
  infer(call) {
    const inputs = Array.from({ length: call.inputCount }, (_, i) => call.input(i));
    return [outputOf(call, inputs[0]!.type, joinedDims(call, inputs, concatAxis(call)))];
  },
  reference(call) {
    const axis = concatAxis(call);
    const inputs = Array.from({ length: call.inputCount }, (_, i) => call.tensor(i));
    const dims = joinedDims(call, inputs, axis);
    outputOf(call, inputs[0]!.type, dims);
    return [join(inputs, dims, axis)];
  },
  lower(call) {
    const { type, dims: whole } = call.output(0);
    const size = elementBytes(type);
    if (size === 0) return false;
    const axis = concatAxis(call);
    let start = 0;
    for (let i = 0; i < call.inputCount; i++) {
      const part = call.input(i).dims;
      copyPart(call, call.in(i), call.out(0), { part, whole, start, into: true }, axis, size);
      start += part[axis]!;
    }
    return true;
  },
});

type SplitAttributes = {
  readonly axis: number;
  readonly split: readonly number[] | undefined;
  readonly num_outputs: number | undefined;
};

/** Sizes of the parts along the axis. */
function splitSizes(call: InferCall<SplitAttributes>, axis: number): readonly number[] {
  const n = call.input(0).dims[axis]!;
  const given = call.ints(1) ?? call.attributes.split;
  if (given !== undefined) {
    if (given.length !== call.outputCount)
      throw call.error(`${given.length} sizes are given for ${call.outputCount} outputs`);
    if (given.some((s) => s < 0) || given.reduce((a, b) => a + b, 0) !== n)
      throw call.error(`sizes ${formatShape(given)} do not add up to ${n}, the size of axis ${axis}`);
    return given;
  }
  const count = call.attributes.num_outputs ?? call.outputCount;
  if (count !== call.outputCount)
    throw call.error(`num_outputs is ${count}, but there are ${call.outputCount} outputs`);
  if (call.opset < 18 && n % count !== 0)
    throw call.error(`axis ${axis} of size ${n} does not divide into ${count} parts`);
  const part = Math.ceil(n / count);
  return Array.from({ length: count }, (_, i) => Math.max(0, Math.min(part, n - i * part)));
}

const Split = operator({
  name: 'Split',
  since: [1, 2, 11, 13, 18],
  inputs: [1, 2],
  attributes: { axis: int(0), split: ints(), num_outputs: int() },
  infer(call) {
    const { type, dims } = call.input(0);
    const axis = axisOf(call, call.attributes.axis, dims.length);
    return splitSizes(call, axis).map((s) => ({ type, dims: dims.with(axis, s) }));
  },
  reference(call) {
    const t = call.tensor(0);
    const axis = axisOf(call, call.attributes.axis, t.dims.length);
    const strides = stridesOf(t.dims);
    let start = 0;
    return splitSizes(call, axis).map((s) => {
      const part = pickStrided(t, t.dims.with(axis, s), strides, start * strides[axis]!);
      start += s;
      return part;
    });
  },
  lower(call) {
    const { type, dims: whole } = call.input(0);
    const size = elementBytes(type);
    if (size === 0) return false;
    const axis = axisOf(call, call.attributes.axis, whole.length);
    let start = 0;
    splitSizes(call, axis).forEach((s, i) => {
      const part = whole.with(axis, s);
      if (call.wants(i)) copyPart(call, call.in(0), call.out(i), { part, whole, start, into: false }, axis, size);
      start += s;
    });
    return true;
  },
});

export const joining: readonly Operator[] = [Concat, Split];
