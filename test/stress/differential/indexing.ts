// Cases of operators that take elements by index and put them by index, and of those that choose elements.
import { sizeOf } from '../../../src/tensor/shape.js';
import { Tensor } from '../../../src/tensor/tensor.js';
import type { DataType } from '../../../src/tensor/types.js';
import { ALL, attributes, type Family, type Generator, int64, NUMBERS } from './generator.js';

/** Indices into a dimension, some counted from its end. */
function into(g: Generator, d: number, dims: readonly number[], negative = true): Tensor {
  const type = g.pick(['int64', 'int32'] as const);
  return new Tensor(
    type,
    g.list(sizeOf(dims), () => g.int(negative ? -d : 0, d - 1)),
    dims,
  );
}

function reductions(opset: number): readonly string[] {
  if (opset >= 18) return ['none', 'add', 'mul', 'min', 'max'];
  return opset >= 16 ? ['none', 'add', 'mul'] : ['none'];
}

/** Each index at most once along the axis, unless elements are reduced. */
function scatterElements(g: Generator, opset: number, reduction: string | undefined) {
  const reduces = reduction !== undefined && reduction !== 'none';
  const type: DataType = reduces ? g.pick(NUMBERS) : g.pick(ALL);
  const dims = g.dims(1, 4, 4, false);
  const axis = opset >= 11 ? g.axis(dims.length) : g.int(0, dims.length - 1);
  const at = (axis + dims.length) % dims.length;
  const upTo = dims.map((d, i) => g.int(i === at ? 0 : 1, d));
  const d = dims[at]!;
  const n = upTo[at]!;
  const inner = sizeOf(upTo.slice(at + 1));
  const values = new Array<number>(sizeOf(upTo));
  const outer = sizeOf(upTo.slice(0, at));
  for (let o = 0; o < outer; o++)
    for (let i = 0; i < inner; i++) {
      const line = g.shuffled(g.list(d, (k) => k));
      for (let k = 0; k < n; k++) {
        const x = reduces ? g.int(0, d - 1) : line[k]!;
        values[(o * n + k) * inner + i] = opset >= 11 && g.chance(0.3) ? x - d : x;
      }
    }
  return {
    inputs: [g.tensor(type, dims), new Tensor(g.pick(['int64', 'int32'] as const), values, upTo), g.tensor(type, upTo)],
    attributes: attributes({ axis: axis === 0 && g.chance(0.5) ? undefined : axis, reduction }),
    constants: g.constants(3),
  };
}

export const indexing: Family = {
  Gather: (g, opset) => {
    const dims = g.dims(1, 4, 4, false);
    const axis = g.axis(dims.length);
    const d = dims[(axis + dims.length) % dims.length]!;
    return {
      inputs: [g.tensor(g.pick(ALL), dims), into(g, d, g.dims(0, 3), opset >= 11)],
      attributes: attributes({ axis: axis === 0 ? g.maybe(() => 0) : axis }),
      constants: g.constants(2),
    };
  },
  GatherElements: (g) => {
    const dims = g.dims(1, 4, 4, false);
    const axis = g.axis(dims.length);
    const at = (axis + dims.length) % dims.length;
    const to = dims.map((d, i) => (i === at ? g.int(0, 5) : g.int(1, d)));
    return {
      inputs: [g.tensor(g.pick(ALL), dims), into(g, dims[at]!, to)],
      attributes: attributes({ axis: axis === 0 ? g.maybe(() => 0) : axis }),
      constants: g.constants(2),
    };
  },
  GatherND: (g, opset) => {
    const dims = g.dims(1, 5, 4, false);
    const b = opset >= 12 ? g.int(0, Math.min(2, dims.length - 1)) : 0;
    const k = g.int(1, dims.length - b);
    const outer = [...dims.slice(0, b), ...g.ints(g.int(b === 0 ? 0 : 0, 2), 1, 3)];
    const n = sizeOf(outer);
    const values = g.list(n * k, (i) => {
      const d = dims[b + (i % k)]!;
      return g.int(-d, d - 1);
    });
    return {
      inputs: [g.tensor(g.pick(ALL), dims), int64(values, [...outer, k])],
      attributes: attributes({ batch_dims: b === 0 ? undefined : b }),
      constants: g.constants(2),
    };
  },
  Scatter: (g) => scatterElements(g, 9, undefined),
  ScatterElements: (g, opset) =>
    scatterElements(
      g,
      opset,
      g.maybe(() => g.pick(reductions(opset)), opset >= 16 ? 0.7 : 0),
    ),
  ScatterND: (g, opset) => {
    const reduction = g.maybe(() => g.pick(reductions(opset)), opset >= 16 ? 0.7 : 0);
    const reduces = reduction !== undefined && reduction !== 'none';
    const dims = g.dims(1, 4, 4, false);
    const k = g.int(1, dims.length);
    const whole = sizeOf(dims.slice(0, k));
    const count = reduces ? g.int(0, 5) : g.int(0, whole);
    const rows = reduces
      ? g.list(count, () => g.int(0, whole - 1))
      : g.shuffled(g.list(whole, (i) => i)).slice(0, count);
    const values = rows.flatMap((row) => {
      const at: number[] = [];
      let rest = row;
      for (let i = k - 1; i >= 0; i--) {
        at.unshift(rest % dims[i]!);
        rest = Math.floor(rest / dims[i]!);
      }
      return at.map((x, i) => (g.chance(0.2) ? x - dims[i]! : x));
    });
    const type: DataType = reduces ? g.pick(NUMBERS) : g.pick(ALL);
    return {
      inputs: [g.tensor(type, dims), int64(values, [count, k]), g.tensor(type, [count, ...dims.slice(k)])],
      attributes: attributes({ reduction }),
      constants: g.constants(3),
    };
  },
  OneHot: (g) => {
    const x = g.tensor(g.pick(['int64', 'int32', 'float32', 'uint8'] as const), g.dims(0, 3), -4, 5);
    const type = g.pick(['float32', 'int64', 'int32', 'string'] as const);
    const depth = new Tensor(g.pick(['int64', 'int32', 'float32'] as const), [g.int(1, 4)], g.pick([[], [1]]));
    const r = x.dims.length + 1;
    return {
      inputs: [x, depth, g.tensor(type, [2])],
      attributes: attributes({ axis: g.maybe(() => g.axis(r)) }),
      constants: g.constants(3),
    };
  },
  TopK: (g, opset) => {
    const x = g.tensor(
      opset >= 11 ? g.pick(['float32', 'float64', 'int32', 'int64'] as const) : g.pick(['float32', 'float64'] as const),
      g.dims(1, 4, 6, false),
      -4,
      4,
    );
    const axis = opset >= 11 ? g.axis(x.dims.length) : g.int(0, x.dims.length - 1);
    const k = g.int(opset >= 10 ? 0 : 1, x.dims[(axis + x.dims.length) % x.dims.length]!);
    // Unsorted results come in any order.
    const attrs = {
      axis: axis === x.dims.length - 1 ? g.maybe(() => axis) : axis,
      largest: opset >= 11 ? g.maybe(() => g.int(0, 1)) : undefined,
    };
    if (opset < 10) return { inputs: [x], attributes: attributes({ ...attrs, k }), outputs: 2 };
    return { inputs: [x, int64([k])], attributes: attributes(attrs), outputs: 2, constants: g.constants(2) };
  },
  NonZero: (g) => ({
    inputs: [g.tensor(g.pick(['float32', 'int32', 'int64', 'uint8', 'bool'] as const), g.dims(0, 4), -1, 1)],
  }),
  Compress: (g) => {
    const x = g.tensor(g.pick(ALL), g.dims(1, 4, 4, false));
    const axis = g.maybe(() => g.axis(x.dims.length));
    const n = axis === undefined ? x.size : x.dims[(axis + x.dims.length) % x.dims.length]!;
    return {
      inputs: [x, g.tensor('bool', [g.int(0, n)])],
      attributes: attributes({ axis }),
      constants: g.constants(2),
    };
  },
  Unique: (g) => {
    const x = g.tensor(g.pick(['float32', 'float64', 'int8', 'int64', 'string'] as const), g.dims(1, 3, 5), -2, 2);
    if (x.type !== 'string' && x.type.startsWith('f'))
      for (let i = 0; i < x.size; i++) (x.data as Float32Array)[i] = Math.round((x.data as Float32Array)[i]!);
    return {
      inputs: [x],
      attributes: attributes({ axis: g.maybe(() => g.axis(x.dims.length)), sorted: g.maybe(() => g.int(0, 1)) }),
      outputs: g.int(1, 4),
    };
  },
  NonMaxSuppression: (g, opset) => {
    const [batch, boxes, classes] = [g.int(1, 2), g.int(1, 7), g.int(1, 3)];
    const b = g.tensor('float32', [batch, boxes, 4], 0, 4);
    const inputs = [
      b,
      g.tensor('float32', [batch, classes, boxes], 0, 1),
      g.maybe(() => int64([g.int(0, 5)], g.pick([[], [1]])), 0.8),
      g.maybe(() => g.tensor('float32', g.pick([[], [1]]), 0, 1)),
      g.maybe(() => g.tensor('float32', g.pick([[], [1]]), 0, 1)),
    ];
    while (inputs.at(-1) === undefined) inputs.pop();
    void opset;
    return {
      inputs,
      attributes: attributes({ center_point_box: g.maybe(() => g.int(0, 1)) }),
      constants: g.constants(5).filter((i) => inputs[i] !== undefined),
    };
  },
};
