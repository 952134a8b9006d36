// Cases of values that are no tensors (sequences, optionals), of random numbers, and of bits seen as another type.
import type { HostValue } from '../../../src/operators/operator.js';
import { Tensor } from '../../../src/tensor/tensor.js';
import { type DataType, dataTypes } from '../../../src/tensor/types.js';
import { ALL, attributes, type Family, f, type Generator, int64, type Made } from './generator.js';

/** A sequence of tensors of one type, perhaps empty. */
function sequence(g: Generator, least = 0): Tensor[] {
  const type = g.pick(ALL);
  return g.list(g.int(least, 4), () => g.tensor(type, g.dims(0, 3)));
}

/** A position in a list, from either end. */
function position(g: Generator, length: number, most = length - 1): Tensor {
  const type = g.pick(['int64', 'int32'] as const);
  return new Tensor(type, [g.int(-length, most)], []);
}

/** Parts that fit together along an axis; `equal`: all of one shape. */
function parts(g: Generator, equal: boolean): { parts: Tensor[]; axis: number } {
  const type = g.pick(ALL);
  const dims = g.dims(equal ? 0 : 1, 3);
  const axis = g.axis(dims.length + (equal ? 1 : 0));
  const list = g.list(g.int(1, 4), () => g.tensor(type, equal ? dims : dims.with(axis, g.int(0, 3))));
  return { parts: list, axis };
}

const distribution = (g: Generator) => ({
  dtype: g.maybe(() => g.pick([1, 10, 11])),
  seed: g.maybe(() => f(g.int(0, 9))),
});

const shapeOnly = { shapeOnly: true };
const normal = (g: Generator) => ({ mean: g.maybe(() => f(2)), scale: g.maybe(() => f(0.5)), ...distribution(g) });
const uniform = (g: Generator) => ({ low: g.maybe(() => f(-2)), high: g.maybe(() => f(0.5)), ...distribution(g) });
const likeType = (g: Generator) => g.pick(['float32', 'float64', 'float16'] as const);

function optional(g: Generator): HostValue {
  return g.chance(0.5) ? g.tensor(g.pick(['float32', 'int64', 'bool'] as const), g.dims(0, 3)) : sequence(g, 1);
}

export const values: Family = {
  SequenceConstruct: (g) => ({ inputs: sequence(g, 1) }),
  SequenceEmpty: (g) => ({ inputs: [], attributes: attributes({ dtype: g.maybe(() => g.pick([1, 7, 9])) }) }),
  SequenceAt: (g) => {
    const s = sequence(g, 1);
    return { inputs: [s, position(g, s.length)] };
  },
  SequenceInsert: (g) => {
    const s = sequence(g, 1);
    const x = g.tensor(s[0]!.type, g.dims(0, 3));
    return { inputs: [s, x, ...(g.chance(0.7) ? [position(g, s.length, s.length)] : [])] };
  },
  SequenceErase: (g) => {
    const s = sequence(g, 1);
    return { inputs: [s, ...(g.chance(0.7) ? [position(g, s.length)] : [])] };
  },
  SequenceLength: (g) => ({ inputs: [sequence(g)] }),
  SplitToSequence: (g) => {
    const dims = g.dims(1, 3, 5, false);
    const axis = g.axis(dims.length);
    const n = dims.at(axis)!;
    const type = g.pick(['float32', 'float64', 'int32', 'int64', 'string'] as const);
    const size = g.int(1, n);
    const split = g.maybe(() =>
      g.chance(0.5) ? new Tensor('int64', [size], []) : int64([size, n - size].filter((k, i) => i === 0 || k > 0)),
    );
    return {
      inputs: [g.tensor(type, dims), ...(split ? [split] : [])],
      attributes: attributes({
        axis: g.maybe(() => axis) === undefined && dims.at(axis) === dims[0] ? undefined : axis,
        keepdims: g.maybe(() => g.int(0, 1)),
      }),
    };
  },
  ConcatFromSequence: (g) => {
    const stack = g.chance(0.4);
    const { parts: list, axis } = parts(g, stack);
    return { inputs: [list], attributes: attributes({ axis, new_axis: stack ? 1 : g.maybe(() => 0) }) };
  },
  Optional: (g) => ({ inputs: [optional(g)] }),
  OptionalHasElement: (g, opset) => ({
    inputs: opset >= 18 && g.chance(0.2) ? [] : [g.chance(0.3) ? null : optional(g)],
  }),
  OptionalGetElement: (g) => ({ inputs: [optional(g)] }),
  SequenceMap: (g, opset) => {
    const x = { name: 'x', type: { kind: 'tensor' as const, type: 'float32' as const } };
    const y = { name: 'y', type: { kind: 'tensor' as const, type: 'float32' as const } };
    const node = { op: 'Neg', domain: '', opset, name: '', inputs: ['x'], outputs: ['y'], attributes: {} };
    const body = { name: 'body', inputs: [x], outputs: [y], nodes: [node], initializers: new Map() };
    return {
      inputs: [g.list(g.int(1, 3), () => g.tensor('float32', g.dims(0, 3)))],
      attributes: attributes({ body: { kind: 'graph', value: body } }),
    };
  },
  RandomNormal: (g) => ({ inputs: [], attributes: attributes({ shape: g.dims(1, 3), ...normal(g) }), ...shapeOnly }),
  RandomUniform: (g) => ({ inputs: [], attributes: attributes({ shape: g.dims(1, 3), ...uniform(g) }), ...shapeOnly }),
  RandomNormalLike: (g) => like(g, normal(g)),
  RandomUniformLike: (g) => like(g, uniform(g)),
  // Probabilities of 0 and 1 leave no choice.
  Bernoulli: (g) => ({
    inputs: [new Tensor('float32', g.ints(6, 0, 1), [2, 3])],
    attributes: attributes({ dtype: g.maybe(() => g.pick([1, 6, 7, 9, 11])), seed: g.maybe(() => f(3)) }),
  }),
  Multinomial: (g) => {
    const [batch, classes] = [g.int(1, 3), g.int(1, 5)];
    // All but one class have no chance.
    const logits = g.tensor('float32', [batch, classes]);
    const data = logits.data as Float32Array;
    for (let b = 0; b < batch; b++) {
      const sure = g.int(0, classes - 1);
      for (let c = 0; c < classes; c++) if (c !== sure) data[b * classes + c] = -1e4;
    }
    return {
      inputs: [logits],
      attributes: attributes({ sample_size: g.maybe(() => g.int(1, 4)), dtype: g.maybe(() => g.pick([6, 7])) }),
    };
  },
  BitCast: (g) => {
    const groups: readonly (readonly DataType[])[] = [
      ['float32', 'int32', 'uint32'],
      ['float64', 'int64', 'uint64'],
      ['float16', 'bfloat16', 'int16', 'uint16'],
      ['int8', 'uint8', 'bool'],
    ];
    const types = g.pick(groups);
    const from = g.pick(types);
    const x = from === 'bfloat16' ? g.tensor(from, g.dims()) : g.oddTensor(from, g.dims());
    return { inputs: [x], attributes: attributes({ to: dataTypes[g.pick(types.filter((t) => t !== 'bool'))].onnx }) };
  },
};

function like(g: Generator, attrs: Parameters<typeof attributes>[0]): Made {
  return { inputs: [g.tensor(likeType(g), g.dims(0, 3))], attributes: attributes(attrs), ...shapeOnly };
}
