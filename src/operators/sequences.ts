// Values that are not tensors: sequences (plain lists) and optionals (a value, or null for an empty one). Kinds and
// lengths depend on data, so every `infer` says 'dynamic', except where the result is a tensor of known shape.
import { decode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { stridesOf } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import { int, required } from './attributes.js';
import { join, joinedDims } from './joining.js';
import { type HostValue, type Operator, operator, type ReferenceCall } from './operator.js';
import { axisOf, outputOf, pickStrided, reshaped } from './pick.js';

function sequenceOf(call: ReferenceCall<unknown>, i: number): readonly HostValue[] {
  const v = call.host(i);
  if (v === undefined || v === null || v instanceof Tensor) throw call.error(`input ${i} must be a sequence`);
  return v;
}

function tensorsOf(call: ReferenceCall<unknown>, i: number): readonly Tensor[] {
  return sequenceOf(call, i).map((v, k) => {
    if (!(v instanceof Tensor)) throw call.error(`element ${k} of input ${i} must be a tensor`);
    return v;
  });
}

/** Position input `i` in a sequence, negative from the end; `fallback` when it is not given. */
function positionOf(call: ReferenceCall<unknown>, i: number, most: number, fallback: number): number {
  if (!call.has(i)) return fallback;
  const t = call.tensor(i);
  const p = t.size === 1 ? decode(t)[0]! : Number.NaN;
  const length = sequenceOf(call, 0).length;
  if (!(p >= -length && p <= most))
    throw call.error(`position ${p} is outside a sequence of length ${length}`, 'INVALID_INPUT');
  return p < 0 ? p + length : p;
}

const SequenceConstruct = operator({
  name: 'SequenceConstruct',
  since: [11],
  inputs: [1, 0x7fffffff],
  attributes: {},
  infer: () => 'dynamic',
  reference: (call) => [Array.from({ length: call.inputCount }, (_, i) => call.tensor(i))],
});

const SequenceEmpty = operator({
  name: 'SequenceEmpty',
  since: [11],
  inputs: [0, 0],
  attributes: {},
  infer: () => 'dynamic',
  reference: () => [[]],
});

const SequenceAt = operator({
  name: 'SequenceAt',
  since: [11],
  inputs: [2, 2],
  attributes: {},
  infer: () => 'dynamic',
  reference(call) {
    const s = sequenceOf(call, 0);
    return [s[positionOf(call, 1, s.length - 1, 0)]!];
  },
});

const SequenceInsert = operator({
  name: 'SequenceInsert',
  since: [11],
  inputs: [2, 3],
  attributes: {},
  infer: () => 'dynamic',
  reference(call) {
    const s = sequenceOf(call, 0);
    return [s.toSpliced(positionOf(call, 2, s.length, s.length), 0, call.tensor(1))];
  },
});

const SequenceErase = operator({
  name: 'SequenceErase',
  since: [11],
  inputs: [1, 2],
  attributes: {},
  infer: () => 'dynamic',
  reference(call) {
    const s = sequenceOf(call, 0);
    if (s.length === 0) throw call.error('the sequence is empty', 'INVALID_INPUT');
    return [s.toSpliced(positionOf(call, 1, s.length - 1, s.length - 1), 1)];
  },
});

const SequenceLength = operator({
  name: 'SequenceLength',
  since: [11],
  inputs: [1, 1],
  attributes: {},
  infer: () => 'dynamic',
  reference: (call) => [new Tensor('int64', [sequenceOf(call, 0).length], [])],
});

const SplitToSequence = operator({
  name: 'SplitToSequence',
  since: [11, 24],
  inputs: [1, 2],
  attributes: { axis: int(0), keepdims: int(1) },
  infer: () => 'dynamic',
  reference(call) {
    const t = call.tensor(0);
    const axis = axisOf(call, call.attributes.axis, t.dims.length);
    const n = t.dims[axis]!;
    const sizes = partSizes(call, n);
    const strides = stridesOf(t.dims);
    // keepdims counts only where no sizes are given: parts of one element each.
    const drop = !call.has(1) && call.attributes.keepdims === 0;
    let start = 0;
    const parts = sizes.map((s) => {
      const part = pickStrided(t, t.dims.with(axis, s), strides, start * strides[axis]!);
      start += s;
      return drop ? reshaped(part, part.dims.toSpliced(axis, 1)) : part;
    });
    return [parts];
  },
});

function partSizes(call: ReferenceCall<unknown>, n: number): number[] {
  if (!call.has(1)) return new Array<number>(n).fill(1);
  const given = call.ints(1)!;
  if (call.tensor(1).dims.length === 0) {
    const size = given[0]!;
    if (!(size > 0)) throw call.error(`split size must be positive, got ${size}`, 'INVALID_INPUT');
    return Array.from({ length: Math.ceil(n / size) }, (_, i) => Math.min(size, n - i * size));
  }
  if (given.some((s) => s < 0) || given.reduce((a, b) => a + b, 0) !== n)
    throw call.error(`split sizes ${formatShape(given)} do not add up to ${n}`, 'INVALID_INPUT');
  return given;
}

const ConcatFromSequence = operator({
  name: 'ConcatFromSequence',
  since: [11],
  inputs: [1, 1],
  attributes: { axis: required(int()), new_axis: int(0) },
  infer: () => 'dynamic',
  reference(call) {
    const given = tensorsOf(call, 0);
    if (given.length === 0) throw call.error('the sequence is empty', 'INVALID_INPUT');
    const isNew = call.attributes.new_axis !== 0;
    const axis = axisOf(call, call.attributes.axis, given[0]!.dims.length + (isNew ? 1 : 0));
    const tensors = isNew ? given.map((t) => reshaped(t, t.dims.toSpliced(axis, 0, 1))) : given;
    const dims = joinedDims(call, tensors, axis);
    outputOf(call, tensors[0]!.type, dims);
    return [join(tensors, dims, axis)];
  },
});

const Optional = operator({
  name: 'Optional',
  since: [15],
  inputs: [0, 1],
  attributes: {},
  infer: () => 'dynamic',
  reference: (call) => [call.host(0) ?? null],
});

const OptionalHasElement = operator({
  name: 'OptionalHasElement',
  since: [15, 18],
  inputs: [0, 1],
  attributes: {},
  infer: () => 'dynamic',
  reference(call) {
    const v = call.host(0);
    return [new Tensor('bool', Uint8Array.of(v === undefined || v === null ? 0 : 1), [])];
  },
});

const OptionalGetElement = operator({
  name: 'OptionalGetElement',
  since: [15, 18],
  inputs: [1, 1],
  attributes: {},
  infer: () => 'dynamic',
  reference(call) {
    const v = call.host(0);
    if (v === undefined || v === null) throw call.error('the optional is empty', 'INVALID_INPUT');
    return [v];
  },
});

export const sequences: readonly Operator[] = [
  SequenceConstruct,
  SequenceEmpty,
  SequenceAt,
  SequenceInsert,
  SequenceErase,
  SequenceLength,
  SplitToSequence,
  ConcatFromSequence,
  Optional,
  OptionalHasElement,
  OptionalGetElement,
];
