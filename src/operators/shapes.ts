// Operators that only look at or change shapes: Reshape, Flatten, Squeeze, Unsqueeze, Shape, Size. The bytes stay where they
// are: outputs of the first four are aliases. Identity is with the element-wise family.
import { formatShape } from '../tensor/errors.js';
import { sizeOf } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import { type AttributeSpecs, type AttributesOf, int, ints } from './attributes.js';
import { bytesConstant, copyDense } from './copy.js';
import { type Call, type InferCall, type LowerCall, type Operator, operator } from './operator.js';
import { axesOf, outputOf, reshaped } from './pick.js';

/** An operator that gives input 0 another shape. Its output is an alias. */
function reshaping<const S extends AttributeSpecs>(
  name: string,
  since: readonly number[],
  inputs: readonly [number, number],
  attributes: S,
  rule: (call: InferCall<AttributesOf<S>>) => number[],
): Operator {
  return operator({
    name,
    since,
    inputs,
    attributes,
    infer: (call) => [outputOf(call, call.input(0).type, rule(call))],
    reference: (call) => [reshaped(call.tensor(0), rule(call))],
    lower(call) {
      if (call.output(0).type === 'string') return false;
      call.alias(0, 0);
      return true;
    },
  });
}

function reshapeDims(
  call: Call<unknown>,
  from: readonly number[],
  target: readonly number[],
  allowzero: boolean,
): number[] {
  const wanted = () => `${formatShape(from)} to ${formatShape(target)}`;
  const dims = target.map((d, i) => {
    if (d < -1) throw call.error(`cannot reshape ${wanted()}: dimension ${i} is ${d}`);
    if (d !== 0 || allowzero) return d;
    if (i >= from.length)
      throw call.error(`cannot reshape ${wanted()}: 0 at ${i} copies a dimension that is not there`);
    return from[i]!;
  });
  const free = dims.indexOf(-1);
  const size = sizeOf(from);
  if (free >= 0) {
    if (dims.indexOf(-1, free + 1) >= 0) throw call.error(`cannot reshape ${wanted()}: more than one -1`);
    const rest = sizeOf(dims.filter((_, i) => i !== free));
    if (rest === 0) {
      if (size !== 0 || allowzero) throw call.error(`cannot reshape ${wanted()}: -1 beside a 0 is not defined`);
      dims[free] = 0;
    } else dims[free] = size / rest;
  }
  if (sizeOf(dims) !== size || !Number.isInteger(dims[free] ?? 0))
    throw call.error(`cannot reshape ${wanted()}: ${size} elements do not fit`);
  return dims;
}

const Reshape = reshaping(
  'Reshape',
  [1, 5, 13, 14, 19, 21, 23, 24, 25],
  [1, 2],
  { shape: ints(), allowzero: int(0) },
  (call) => {
    const { shape, allowzero } = call.attributes;
    const target = call.ints(1) ?? shape;
    if (target === undefined) throw call.error("neither an input nor an attribute 'shape' is given");
    return reshapeDims(call, call.input(0).dims, target, allowzero !== 0);
  },
);

const Flatten = reshaping('Flatten', [1, 9, 11, 13, 21, 23, 24, 25], [1, 1], { axis: int(1) }, (call) => {
  const { dims } = call.input(0);
  const { axis } = call.attributes;
  if (axis < -dims.length || axis > Math.max(dims.length, 1))
    throw call.error(`axis ${axis} is outside [${-dims.length}, ${dims.length}]`);
  const a = axis < 0 ? axis + dims.length : axis;
  return [sizeOf(dims.slice(0, a)), sizeOf(dims.slice(a))];
});

const Squeeze = reshaping('Squeeze', [1, 11, 13, 21, 23, 24, 25], [1, 2], { axes: ints() }, (call) => {
  const { dims } = call.input(0);
  const axes = call.ints(1) ?? call.attributes.axes;
  if (axes === undefined) return dims.filter((d) => d !== 1);
  const drop = new Set(axesOf(call, axes, dims.length));
  for (const a of drop)
    if (dims[a] !== 1)
      throw call.error(`axis ${a} of ${formatShape(dims)} is ${dims[a]}, not 1: it cannot be squeezed`);
  return dims.filter((_, i) => !drop.has(i));
});

const Unsqueeze = reshaping('Unsqueeze', [1, 11, 13, 21, 23, 24, 25], [1, 2], { axes: ints() }, (call) => {
  const { dims } = call.input(0);
  const axes = call.ints(1) ?? call.attributes.axes;
  if (axes === undefined) throw call.error("neither an input nor an attribute 'axes' is given");
  const rank = dims.length + axes.length;
  const added = new Set(axesOf(call, axes, rank));
  let next = 0;
  return Array.from({ length: rank }, (_, i) => (added.has(i) ? 1 : dims[next++]!));
});

/** Output 0 is known when the plan is made: placed as a constant and copied. */
function lowerKnown(call: LowerCall<unknown>, values: readonly number[]): boolean {
  const bytes = new Uint8Array(BigInt64Array.from(values, BigInt).buffer);
  copyDense(call, bytesConstant(call, `values [${values}]`, bytes), call.out(0), bytes.length);
  return true;
}

function shapeOf(call: InferCall<{ readonly start: number; readonly end: number | undefined }>): number[] {
  const { dims } = call.input(0);
  const { start, end } = call.attributes;
  // slice() counts negative ends from the back and clamps, as the specification does.
  return end === undefined ? dims.slice(start) : dims.slice(start, end);
}

const Shape = operator({
  name: 'Shape',
  since: [1, 13, 15, 19, 21, 23, 24, 25],
  inputs: [1, 1],
  attributes: { start: int(0), end: int() },
  infer(call) {
    const dims = shapeOf(call);
    return [{ type: 'int64', dims: [dims.length] }];
  },
  foldShape: (call) => new Tensor('int64', shapeOf(call)),
  reference: (call) => [new Tensor('int64', shapeOf(call))],
  lower: (call) => lowerKnown(call, shapeOf(call)),
});

const Size = operator({
  name: 'Size',
  since: [1, 13, 19, 21, 23, 24, 25],
  inputs: [1, 1],
  attributes: {},
  infer: () => [{ type: 'int64', dims: [] }],
  foldShape: (call) => new Tensor('int64', [sizeOf(call.input(0).dims)], []),
  reference: (call) => [new Tensor('int64', [sizeOf(call.input(0).dims)], [])],
  lower: (call) => lowerKnown(call, [sizeOf(call.input(0).dims)]),
});

export const shapes: readonly Operator[] = [Reshape, Flatten, Squeeze, Unsqueeze, Shape, Size];
