// Cases of operators that move elements without computing: views, slices, joins, pads.

import { Tensor } from '../../../src/tensor/tensor.js';
import { ALL, attributes, type Family, FLOATS, f, type Generator, int64, NUMBERS } from './generator.js';

/** int64 or int32 indices. */
export function indices(g: Generator, values: readonly number[], dims?: readonly number[]): Tensor {
  return new Tensor(g.pick(['int64', 'int32'] as const), values, dims ?? [values.length]);
}

/** A shape with the same number of elements. */
function reshaped(g: Generator, size: number): number[] {
  const out: number[] = [];
  let rest = size;
  while (rest > 1) {
    const divisors = g.list(rest, (i) => i + 1).filter((d) => rest % d === 0);
    const d = g.pick(divisors);
    out.push(d);
    rest /= d;
    if (out.length > 4) break;
  }
  if (rest > 1) out.push(rest);
  return out;
}

export const movement: Family = {
  Reshape: (g, opset) => {
    const x = g.tensor(g.pick(ALL), g.dims(0, 4));
    if (x.size === 0) {
      if (opset >= 14 && g.chance(0.5))
        return {
          inputs: [x, int64(g.shuffled(x.dims))],
          attributes: attributes({ allowzero: 1 }),
          constants: g.constants(2),
        };
      return { inputs: [x, int64(x.dims.map(() => 0))], constants: g.constants(2) };
    }
    const to = reshaped(g, x.size);
    const target = [...to];
    if (g.chance(0.4) && to.length > 0) target[g.int(0, to.length - 1)] = -1;
    target.forEach((d, i) => {
      if (d > 0 && d === x.dims[i] && g.chance(0.4)) target[i] = 0;
    });
    return { inputs: [x, int64(target)], constants: g.constants(2) };
  },
  Flatten: (g, opset) => {
    const x = g.tensor(g.pick(ALL), g.dims(opset >= 9 ? 0 : 1, 5));
    const r = x.dims.length;
    return {
      inputs: [x],
      attributes: attributes({
        axis: r === 0 ? 0 : (g.maybe(() => g.int(opset >= 11 ? -r : 0, r)) ?? (r === 0 ? 0 : undefined)),
      }),
    };
  },
  Squeeze: (g, opset) => {
    const dims = g.dims(0, 5).map((d) => (g.chance(0.5) ? 1 : d));
    const ones = dims.flatMap((d, i) => (d === 1 ? [g.chance(0.3) && opset >= 11 ? i - dims.length : i] : []));
    const axes = g.maybe(() => g.shuffled(ones).slice(0, g.int(1, 3)));
    const x = g.tensor(g.pick(ALL), dims);
    if (opset < 13) return { inputs: [x], attributes: attributes({ axes: axes?.length ? axes : undefined }) };
    return { inputs: axes === undefined ? [x] : [x, int64(axes)], constants: g.constants(axes ? 2 : 1) };
  },
  Unsqueeze: (g, opset) => {
    const x = g.tensor(g.pick(ALL), g.dims(0, 3));
    const n = g.int(1, 3);
    const rank = x.dims.length + n;
    const axes = g
      .shuffled(g.list(rank, (i) => i))
      .slice(0, n)
      .map((a) => (opset >= 11 && g.chance(0.3) ? a - rank : a));
    if (opset < 13) return { inputs: [x], attributes: attributes({ axes }) };
    return { inputs: [x, int64(axes)], constants: g.constants(2) };
  },
  Shape: (g, opset) => {
    const x = g.tensor(g.pick(ALL), g.dims(0, 5));
    const attrs = opset >= 15 ? { start: g.maybe(() => g.int(-7, 7)), end: g.maybe(() => g.int(-7, 7)) } : {};
    return { inputs: [x], attributes: attributes(attrs) };
  },
  Size: (g) => ({ inputs: [g.tensor(g.pick(ALL), g.dims(0, 5))] }),
  Transpose: (g) => {
    const x = g.tensor(g.pick(ALL), g.dims(0, 5));
    return {
      inputs: [x],
      attributes: attributes({
        perm: x.dims.length === 0 ? undefined : g.maybe(() => g.shuffled(x.dims.map((_, i) => i)), 0.8),
      }),
    };
  },
  Slice: (g, opset) => {
    const x = g.tensor(g.pick(ALL), g.dims(1, 4, 6));
    const r = x.dims.length;
    const given = g.chance(0.7);
    const axes = given ? g.axes(r, 1).map((a) => (opset >= 10 ? a : (a + r) % r)) : g.list(g.int(1, r), (i) => i);
    const starts = axes.map(() => g.pick([0, 1, 2, -1, -2, -100, 100, g.int(-8, 8)]));
    const ends = axes.map(() => g.pick([0, 3, -1, 2 ** 31 - 1, -100, 100, g.int(-8, 8)]));
    if (opset < 10) return { inputs: [x], attributes: attributes({ starts, ends, axes: given ? axes : undefined }) };
    const type = g.pick(['int64', 'int32'] as const);
    const t = (v: number[]) => new Tensor(type, v, [v.length]);
    const steps = g.maybe(() => axes.map(() => g.pick([1, 2, -1, -2, 3, 100, -100])));
    const inputs = [x, t(starts), t(ends), given ? t(axes) : undefined, steps && t(steps)];
    while (inputs.at(-1) === undefined) inputs.pop();
    return { inputs, constants: g.constants(5).filter((i) => inputs[i] !== undefined) };
  },
  Expand: (g) => {
    const dims = g.dims(0, 4);
    const from = g.broadcast(dims);
    const to = g.chance(0.3) ? g.broadcast(dims) : dims;
    return { inputs: [g.tensor(g.pick(ALL), from), int64(to)], constants: g.constants(2) };
  },
  Tile: (g) => {
    const x = g.tensor(g.pick(ALL), g.dims(1, 4));
    return { inputs: [x, int64(x.dims.map(() => g.pick([1, 1, 2, 3, 0])))], constants: g.constants(2) };
  },
  DepthToSpace: (g, opset) => {
    const b = g.int(1, 3);
    const type = opset >= 13 ? g.pick(ALL) : 'float32';
    return {
      inputs: [g.tensor(type, [g.int(1, 2), b * b * g.int(1, 3), g.int(1, 3), g.int(1, 3)])],
      attributes: attributes({ blocksize: b, mode: opset >= 11 ? g.maybe(() => g.pick(['DCR', 'CRD'])) : undefined }),
    };
  },
  SpaceToDepth: (g) => {
    const b = g.int(1, 3);
    return {
      inputs: [g.tensor(g.pick(ALL), [g.int(1, 2), g.int(1, 3), b * g.int(1, 3), b * g.int(1, 3)])],
      attributes: attributes({ blocksize: b }),
    };
  },
  Concat: (g, opset) => {
    const dims = g.dims(1, 4);
    const axis = g.axis(dims.length);
    const at = (axis + dims.length) % dims.length;
    const type = g.pick(ALL);
    const n = g.int(1, 4);
    return {
      inputs: g.list(n, () =>
        g.tensor(
          type,
          dims.map((d, i) => (i === at ? g.int(0, 3) : d)),
        ),
      ),
      attributes: attributes({ axis: opset >= 11 ? axis : at }),
      constants: g.constants(n),
    };
  },
  Split: (g, opset) => {
    const dims = g.dims(1, 4);
    const axis = g.axis(dims.length);
    const at = (axis + dims.length) % dims.length;
    const n = g.int(1, 4);
    const type = g.pick(ALL);
    const attrs = { axis: opset >= 11 ? axis : at };
    if (g.chance(0.5)) {
      const sizes = g.ints(n, 0, 3);
      dims[at] = sizes.reduce((a, b) => a + b, 0);
      const x = g.tensor(type, dims);
      if (opset < 13) return { inputs: [x], attributes: attributes({ ...attrs, split: sizes }), outputs: n };
      return { inputs: [x, int64(sizes)], attributes: attributes(attrs), outputs: n, constants: g.constants(2) };
    }
    dims[at] = opset >= 18 ? g.int(n, 9) : n * g.int(1, 3);
    if (opset >= 18 && Math.ceil(dims[at] / n) * (n - 1) > dims[at]) dims[at] = n * 2;
    return {
      inputs: [g.tensor(type, dims)],
      attributes: attributes({ ...attrs, num_outputs: opset >= 18 ? n : undefined }),
      outputs: n,
    };
  },
  Pad: (g, opset) => {
    const x = g.tensor(
      opset >= 13 ? g.pick([...NUMBERS, 'bool'] as const) : opset >= 11 ? g.pick(NUMBERS) : g.pick(FLOATS),
      g.dims(1, 4),
    );
    const r = x.dims.length;
    const mode = g.maybe(() =>
      g.pick(opset >= 19 ? ['constant', 'reflect', 'edge', 'wrap'] : ['constant', 'reflect', 'edge']),
    );
    const axes = opset >= 18 ? g.maybe(() => g.axes(r, 1)) : undefined;
    const n = axes?.length ?? r;
    const pads = g.list(2 * n, (i) => {
      const d = x.dims[axes ? (axes[i % n]! + r) % r : i % n]!;
      if (mode === 'reflect') return g.int(0, Math.max(0, d - 1));
      if (mode === 'wrap' || mode === 'edge') return d === 0 ? 0 : g.int(0, d);
      return g.int(i < n ? 0 : -Math.min(1, d), 3);
    });
    if (opset < 11) return { inputs: [x], attributes: attributes({ pads, mode, value: g.maybe(() => f(1.5)) }) };
    const inputs = [x, int64(pads), g.maybe(() => g.tensor(x.type, [])), axes && indices(g, axes)];
    while (inputs.at(-1) === undefined) inputs.pop();
    return {
      inputs,
      attributes: attributes({ mode }),
      constants: g.constants(4).filter((i) => inputs[i] !== undefined),
    };
  },
  CenterCropPad: (g) => {
    const x = g.tensor(g.pick(NUMBERS), g.dims(1, 4, 5, false));
    const axes = g.maybe(() => g.axes(x.dims.length, 1));
    const n = axes?.length ?? x.dims.length;
    return { inputs: [x, indices(g, g.ints(n, 1, 6))], attributes: attributes({ axes }), constants: g.constants(2) };
  },
  ReverseSequence: (g) => {
    const dims = g.dims(2, 4, 4, false);
    const batch = g.int(0, 1);
    return {
      inputs: [g.tensor(g.pick(ALL), dims), int64(g.ints(dims[batch]!, 1, dims[1 - batch]!))],
      attributes: attributes({
        batch_axis: batch === 1 && g.chance(0.5) ? undefined : batch,
        time_axis: batch === 1 && g.chance(0.5) ? undefined : 1 - batch,
      }),
      constants: g.constants(2),
    };
  },
  Trilu: (g) => {
    const x = g.tensor(g.pick(NUMBERS), g.dims(2, 4));
    const k = g.maybe(() => int64([g.int(-5, 5)], []));
    return {
      inputs: k ? [x, k] : [x],
      attributes: attributes({ upper: g.maybe(() => g.int(0, 1)) }),
      constants: g.constants(k ? 2 : 1),
    };
  },
  ConstantOfShape: (g) => {
    const dims = g.dims(0, 4);
    return {
      inputs: [int64(dims)],
      attributes: attributes({
        value: g.maybe(() => ({
          kind: 'tensor' as const,
          value: g.tensor(g.pick([...NUMBERS, 'bool'] as const), [1]),
        })),
      }),
      constants: g.constants(1),
    };
  },
  EyeLike: (g) => ({
    inputs: [g.tensor(g.pick([...FLOATS, 'int32', 'int64'] as const), g.dims(2, 2, 5))],
    attributes: attributes({ k: g.maybe(() => g.int(-6, 6)), dtype: g.maybe(() => g.pick([1, 6, 7, 11])) }),
  }),
  Range: (g) => {
    const type = g.pick(['float32', 'float64', 'int16', 'int32', 'int64'] as const);
    const step = g.pick([1, 2, -1, -2, 3]);
    const one = (x: number) => new Tensor(type, [x], []);
    return {
      inputs: [one(g.int(-5, 5)), one(g.int(-5, 5)), one(type.startsWith('f') && g.chance(0.5) ? step / 4 : step)],
      constants: g.constants(3),
    };
  },
};
