// Cases of reductions, of functions along an axis, and of normalizations.
import { Tensor } from '../../../src/tensor/tensor.js';
import { attributes, type Family, FLOATS, f, type Generator, int64 } from './generator.js';

const float = (g: Generator, dims: readonly number[], low = -3, high = 3) => g.tensor(g.pick(FLOATS), dims, low, high);

function reduce(low: number, high: number, integers = true) {
  return (g: Generator, opset: number, withAxes: number) => {
    const type = integers
      ? g.pick(['float32', 'float32', 'float64', 'int32', 'int64', 'float16'] as const)
      : g.pick(FLOATS);
    const x = g.tensor(type, g.dims(0, 5), low, high);
    const r = x.dims.length;
    const axes = r === 0 ? undefined : g.maybe(() => g.axes(r, 1).map((a) => (opset >= 11 ? a : (a + r) % r)), 0.7);
    const keepdims = g.maybe(() => g.int(0, 1));
    if (opset < withAxes) return { inputs: [x], attributes: attributes({ axes, keepdims }), rtol: 1e-4, atol: 1e-5 };
    const none = g.chance(0.2);
    const inputs = none ? [x, int64([])] : axes === undefined ? [x] : [x, int64(axes)];
    return {
      inputs,
      attributes: attributes({ keepdims, noop_with_empty_axes: g.maybe(() => g.int(0, 1)) }),
      constants: g.constants(inputs.length),
      rtol: 1e-4,
      atol: 1e-5,
    };
  };
}

const reduction =
  (low: number, high: number, withAxes = 18, integers = true) =>
  (g: Generator, opset: number) =>
    reduce(low, high, integers)(g, opset, withAxes);

const arg = (g: Generator, opset: number) => {
  const x = g.tensor(
    g.pick(['float32', 'float64', 'int8', 'uint8', 'int32', 'int64'] as const),
    g.dims(1, 4, 4, false),
    -2,
    2,
  );
  const axis = g.axis(x.dims.length);
  return {
    inputs: [x],
    attributes: attributes({
      axis: g.maybe(() => (opset >= 11 ? axis : (axis + x.dims.length) % x.dims.length)),
      keepdims: g.maybe(() => g.int(0, 1)),
      select_last_index: opset >= 12 ? g.maybe(() => g.int(0, 1)) : undefined,
    }),
  };
};

const softmax = (g: Generator, opset: number) => {
  const x = float(g, g.dims(1, 4), -8, 8);
  const r = x.dims.length;
  const axis = g.maybe(() => (opset >= 11 ? g.axis(r) : g.int(0, r - 1))) ?? (opset < 13 && r === 1 ? 0 : undefined);
  return { inputs: [x], attributes: attributes({ axis }) };
};

export const reductions: Family = {
  ReduceSum: reduction(-3, 3, 13),
  ReduceMean: reduction(-3, 3),
  ReduceMax: reduction(-3, 3),
  ReduceMin: reduction(-3, 3),
  ReduceProd: reduction(-2, 2),
  ReduceSumSquare: reduction(-3, 3),
  ReduceL1: reduction(-3, 3),
  ReduceL2: reduction(-3, 3),
  ReduceLogSum: reduction(0.1, 3, 18, false),
  ReduceLogSumExp: reduction(-3, 3, 18, false),
  ArgMax: arg,
  ArgMin: arg,
  Softmax: softmax,
  LogSoftmax: softmax,
  Hardmax: softmax,
  CumSum: (g) => {
    const x = g.tensor(g.pick(['float32', 'float64', 'int32', 'int64'] as const), g.dims(1, 4));
    return {
      inputs: [x, new Tensor(g.pick(['int32', 'int64'] as const), [g.axis(x.dims.length)], g.pick([[], [1]]))],
      attributes: attributes({ exclusive: g.maybe(() => g.int(0, 1)), reverse: g.maybe(() => g.int(0, 1)) }),
      constants: g.constants(2),
    };
  },
  CumProd: (g) => {
    const x = g.tensor(g.pick(['float32', 'float64', 'int32', 'int64'] as const), g.dims(1, 4));
    return {
      inputs: [x, new Tensor(g.pick(['int32', 'int64'] as const), [g.axis(x.dims.length)], [])],
      attributes: attributes({ exclusive: g.maybe(() => g.int(0, 1)), reverse: g.maybe(() => g.int(0, 1)) }),
    };
  },
  BatchNormalization: (g, opset) => {
    const dims = g.dims(2, 5, 4, false);
    const type = g.pick(['float32', 'float64'] as const);
    const c = [dims[1]!];
    const training = opset >= 14 ? g.maybe(() => g.int(0, 1)) : undefined;
    return {
      inputs: [
        g.tensor(type, dims),
        g.tensor(type, c),
        g.tensor(type, c),
        g.tensor(type, c),
        g.tensor(type, c, 0.1, 2),
      ],
      attributes: attributes({
        epsilon: g.maybe(() => f(1e-3)),
        momentum: g.maybe(() => f(0.7)),
        training_mode: training,
      }),
      outputs: training === 1 ? 3 : 1,
      constants: g.constants(5),
      rtol: 1e-3,
      atol: 1e-4,
    };
  },
  InstanceNormalization: (g) => {
    const dims = g.dims(3, 5, 4, false);
    return {
      inputs: [g.tensor('float32', dims), g.tensor('float32', [dims[1]!]), g.tensor('float32', [dims[1]!])],
      attributes: attributes({ epsilon: g.maybe(() => f(1e-2)) }),
      rtol: 1e-3,
      atol: 1e-3,
    };
  },
  GroupNormalization: (g, opset) => {
    const groups = g.int(1, 3);
    const c = groups * g.int(1, 3);
    const type = g.pick(FLOATS);
    const n = opset >= 21 ? c : groups;
    return {
      inputs: [g.tensor(type, [g.int(1, 2), c, ...g.dims(1, 3, 4, false)]), g.tensor(type, [n]), g.tensor(type, [n])],
      attributes: attributes({ num_groups: groups, epsilon: g.maybe(() => f(1e-2)) }),
      rtol: 1e-3,
      atol: type === 'float16' ? 1e-2 : 1e-3,
    };
  },
  LayerNormalization: (g) => {
    const dims = g.dims(1, 4, 5, false);
    const axis = g.axis(dims.length);
    const type = g.pick(FLOATS);
    const over = dims.slice(axis < 0 ? dims.length + axis : axis);
    const inputs = [g.tensor(type, dims), g.tensor(type, over)];
    if (g.chance(0.6)) inputs.push(g.tensor(type, over));
    return {
      inputs,
      attributes: attributes({ axis: axis === -1 ? undefined : axis, epsilon: g.maybe(() => f(1e-2)) }),
      outputs: type === 'float32' ? g.int(1, 3) : 1,
      constants: g.constants(inputs.length),
      rtol: 1e-3,
      atol: type === 'float16' ? 1e-2 : 1e-3,
    };
  },
  RMSNormalization: (g) => {
    const dims = g.dims(1, 4, 5, false);
    const axis = g.axis(dims.length);
    const type = g.pick(FLOATS);
    return {
      inputs: [g.tensor(type, dims), g.tensor(type, dims.slice(axis < 0 ? dims.length + axis : axis))],
      attributes: attributes({ axis: axis === -1 ? undefined : axis, epsilon: g.maybe(() => f(1e-2)) }),
      rtol: 1e-3,
      atol: type === 'float16' ? 1e-2 : 1e-4,
    };
  },
  LRN: (g) => ({
    inputs: [float(g, g.dims(4, 4, 6, false))],
    attributes: attributes({
      size: g.pick([1, 3, 5, 7]),
      alpha: g.maybe(() => f(0.1)),
      beta: g.maybe(() => f(0.5)),
      bias: g.maybe(() => f(2)),
    }),
    rtol: 1e-4,
  }),
  LpNormalization: (g) => {
    const x = float(g, g.dims(1, 4, 4, false));
    return {
      inputs: [x],
      attributes: attributes({ axis: g.maybe(() => g.axis(x.dims.length)), p: g.maybe(() => g.int(1, 2)) }),
      rtol: 1e-4,
    };
  },
  MeanVarianceNormalization: (g) => ({
    inputs: [g.tensor('float32', g.dims(4, 4, 4, false))],
    attributes: attributes({
      axes: g.maybe(() =>
        g.pick([
          [0, 2, 3],
          [0, 1, 2, 3],
        ]),
      ),
    }),
    rtol: 1e-2,
    atol: 1e-2,
  }),
};
