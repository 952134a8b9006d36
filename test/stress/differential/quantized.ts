// Cases of quantized operators, asymmetric and per channel: exact to the last bit wherever the specification is.
import { Tensor } from '../../../src/tensor/tensor.js';
import { attributes, type Family, type Generator, type Made } from './generator.js';

export type Byte = 'uint8' | 'int8';

export const byte = (g: Generator): Byte => g.pick(['uint8', 'int8'] as const);

export function bytes(g: Generator, type: Byte, dims: readonly number[]): Tensor {
  return type === 'uint8' ? g.tensor(type, dims, 0, 255) : g.tensor(type, dims, -128, 127);
}

/** A scale of a power of two and a half, so that rounding ties occur. */
export function scale(g: Generator, dims: readonly number[] = []): Tensor {
  const n = dims.reduce((a, b) => a * b, 1);
  return new Tensor(
    'float32',
    g.list(n, () => g.pick([0.5, 0.25, 0.013, 1, 0.0078125])),
    dims,
  );
}

export function trimmed(inputs: (Tensor | undefined)[]): (Tensor | undefined)[] {
  while (inputs.at(-1) === undefined) inputs.pop();
  return inputs;
}

function geometry(g: Generator) {
  const group = g.pick([1, 1, 2]);
  const [c, m] = [group * g.int(1, 3), group * g.int(1, 3)];
  const n = g.pick([1, 2, 2]);
  const kernel = g.ints(n, 1, 3);
  return {
    c,
    m,
    x: [g.int(1, 2), c, ...kernel.map((k) => 2 * k + g.int(0, 3))],
    w: [m, c / group, ...kernel],
    attrs: {
      group: group === 1 ? undefined : group,
      strides: g.maybe(() => g.ints(n, 1, 2)),
      dilations: g.maybe(() => g.ints(n, 1, 2)),
      pads: g.maybe(() => g.ints(2 * n, 0, 2)),
    },
  };
}

export function matrices(g: Generator) {
  const [m, k, n] = [g.int(1, 9), g.int(1, 9), g.int(1, 20)];
  const batch = g.dims(0, 2, 3, false);
  return { a: [...batch, m, k], b: g.chance(0.5) ? [k, n] : [...batch, k, n], n };
}

/** Integers of 4 bits, one scale for all, one a slice, or one a block. Only inside: they are constants of the model. */
function small(g: Generator, quantize: boolean): Made {
  const type = g.pick(['int4', 'uint4'] as const);
  const dims = g.dims(1, 3, 6, false);
  const axis = g.int(0, dims.length - 1);
  const block = g.maybe(() => g.int(1, dims[axis]!), 0.4);
  const per = g.chance(0.4) ? [dims[axis]!] : [];
  const scales = block === undefined ? per : dims.with(axis, Math.ceil(dims[axis]! / block));
  const codes = (d: readonly number[]) => (type === 'int4' ? g.tensor(type, d, -8, 7) : g.tensor(type, d, 0, 15));
  const zero = quantize || g.chance(0.5) ? codes(scales) : undefined;
  const x = quantize ? g.tensor('float32', dims, -9, 9) : codes(dims);
  return {
    inputs: trimmed([x, scale(g, scales), zero]),
    attributes: attributes({ axis, block_size: block }),
    constants: quantize ? [2] : [0, ...(zero ? [2] : [])],
  };
}

export const quantized: Family = {
  ConvInteger: (g) => {
    const { x, w, attrs, m } = geometry(g);
    const [xt, wt] = [byte(g), byte(g)];
    const inputs = [
      bytes(g, xt, x),
      bytes(g, wt, w),
      g.maybe(() => bytes(g, xt, [])),
      g.maybe(() => bytes(g, wt, g.chance(0.5) ? [] : [m])),
    ];
    return { inputs: trimmed(inputs), attributes: attributes(attrs), constants: g.chance(0.5) ? [1] : [] };
  },
  QLinearConv: (g) => {
    const { x, w, attrs, m } = geometry(g);
    const [xt, wt, yt] = [byte(g), byte(g), byte(g)];
    const per = g.chance(0.5) ? [m] : [];
    const inputs = [
      bytes(g, xt, x),
      scale(g),
      bytes(g, xt, []),
      bytes(g, wt, w),
      scale(g, per),
      bytes(g, wt, per),
      scale(g),
      bytes(g, yt, []),
    ];
    if (g.chance(0.5)) inputs.push(g.tensor('int32', [m], -500, 500));
    return { inputs, attributes: attributes(attrs), constants: g.constants(inputs.length, [1, 2, 4, 5, 6, 7]) };
  },
  MatMulInteger: (g) => {
    const { a, b, n } = matrices(g);
    const [at, bt] = [byte(g), byte(g)];
    const inputs = [
      bytes(g, at, a),
      bytes(g, bt, b),
      g.maybe(() => bytes(g, at, [])),
      g.maybe(() => bytes(g, bt, b.length === 2 && g.chance(0.5) ? [n] : [])),
    ];
    return { inputs: trimmed(inputs), constants: g.chance(0.5) ? [1] : [] };
  },
  QLinearMatMul: (g) => {
    const { a, b, n } = matrices(g);
    const [at, bt, yt] = [byte(g), byte(g), byte(g)];
    const per = b.length === 2 && g.chance(0.4) ? [n] : [];
    return {
      inputs: [
        bytes(g, at, a),
        scale(g),
        bytes(g, at, []),
        bytes(g, bt, b),
        scale(g, per),
        bytes(g, bt, per),
        scale(g),
        bytes(g, yt, []),
      ],
      constants: g.chance(0.5) ? [1, 2, 3, 4, 5, 6, 7] : [],
    };
  },
  DynamicQuantizeLinear: (g) => ({
    inputs: [g.tensor('float32', g.dims(1, 3, 5, false), g.pick([-3, 0, 1]), 3)],
    outputs: 3,
  }),
  QuantizeLinear: (g, opset) => {
    if (opset >= 21 && g.chance(0.4)) return small(g, true);
    const x = g.tensor('float32', g.dims(1, 4), -100, 100);
    const axis = g.axis(x.dims.length);
    const per = opset >= 13 && g.chance(0.5) ? [x.dims.at(axis)!] : [];
    const zero = g.maybe(() => bytes(g, byte(g), per));
    return {
      inputs: trimmed([x, scale(g, per), zero]),
      attributes: attributes({ axis: opset >= 13 ? axis : undefined }),
    };
  },
  DequantizeLinear: (g, opset) => {
    if (opset >= 21 && g.chance(0.4)) return small(g, false);
    const type = g.pick(['uint8', 'int8', 'int32'] as const);
    const dims = g.dims(1, 4);
    const make = (d: readonly number[]) => (type === 'int32' ? g.tensor(type, d, -999, 999) : bytes(g, type, d));
    const axis = g.axis(dims.length);
    const per = opset >= 13 && g.chance(0.5) ? [dims.at(axis)!] : [];
    return {
      inputs: trimmed([make(dims), scale(g, per), type === 'int32' ? undefined : g.maybe(() => make(per))]),
      attributes: attributes({ axis: opset >= 13 ? axis : undefined }),
    };
  },
};
