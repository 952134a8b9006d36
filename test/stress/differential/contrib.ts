// Cases of com.microsoft and ai.onnx.ml operators, by `domain:operator`. Where onnxruntime joins scales before it rounds,
// a quantized result may be one step off at a tie.
import type { Tensor } from '../../../src/tensor/tensor.js';
import { attributes, type Family, f, type Generator, type Made } from './generator.js';
import { type Byte, byte, bytes, scale, trimmed } from './quantized.js';

type Inputs = (Tensor | undefined)[];

/** A quantized tensor, its scale and, perhaps, its zero point. */
function triple(g: Generator, type: Byte, dims: readonly number[], zero = g.chance(0.7)): Inputs {
  return [bytes(g, type, dims), scale(g), zero ? bytes(g, type, []) : undefined];
}

const pair = (g: Generator, type: Byte): Inputs => [scale(g), bytes(g, type, [])];

/** A quantized result may be one step from onnxruntime's. */
const linear = (g: Generator, inputs: Inputs, rest: Partial<Made> = {}): Made => ({
  inputs: trimmed(inputs),
  atol: 1,
  constants: g.constants(inputs.length).filter((i) => inputs[i] !== undefined),
  ...rest,
});

function binary(g: Generator): Made {
  const dims = g.dims(1, 4);
  const type = byte(g);
  const [a, b] = g.chance(0.5) ? [dims, g.broadcast(dims)] : [g.broadcast(dims), dims];
  return linear(g, [...triple(g, type, a), ...triple(g, type, b), ...pair(g, type)]);
}

function unary(g: Generator, rest: Partial<Made> = {}): Made {
  const type = byte(g);
  return linear(g, [...triple(g, type, g.dims(1, 4)), ...pair(g, type)], rest);
}

function image(g: Generator): number[] {
  return [g.int(1, 2), g.int(1, 4), g.int(3, 7), g.int(3, 7)];
}

const quantized: Family = {
  QLinearAdd: binary,
  QLinearMul: binary,
  QLinearSigmoid: (g) => unary(g),
  QLinearLeakyRelu: (g) => unary(g, { attributes: { alpha: f(g.pick([0.01, 0.2, 1.5])) } }),
  QLinearConcat(g) {
    const dims = g.dims(1, 4);
    const axis = g.axis(dims.length);
    const type = byte(g);
    const at = axis < 0 ? axis + dims.length : axis;
    const each = g.list(g.int(1, 3), () => triple(g, type, dims.with(at, g.int(1, 4)), true));
    return linear(g, [...pair(g, type), ...each.flat()], { attributes: attributes({ axis }) });
  },
  QLinearWhere(g) {
    const dims = g.dims(1, 3);
    const type = byte(g);
    const operands = [...triple(g, type, dims, true), ...triple(g, type, g.broadcast(dims), true)];
    return linear(g, [g.tensor('bool', g.broadcast(dims)), ...operands, ...pair(g, type)]);
  },
  QLinearGlobalAveragePool(g) {
    const type = byte(g);
    const attrs = attributes({ channels_last: g.int(0, 1) });
    return linear(g, [...triple(g, type, image(g), true), ...pair(g, type)], { attributes: attrs });
  },
  QLinearAveragePool(g) {
    const type = byte(g);
    const attrs = attributes({
      kernel_shape: g.ints(2, 2, 3),
      strides: g.maybe(() => g.ints(2, 1, 2)),
      pads: g.maybe(() => g.ints(4, 0, 1)),
      // With both, onnxruntime divides by positions beyond the padding, as versions before 19 did.
      ...(g.chance(0.5) ? { count_include_pad: 1 } : { ceil_mode: g.maybe(() => 1) }),
    });
    return linear(g, [...triple(g, type, image(g), true), ...pair(g, type)], { attributes: attrs });
  },
  QGemm(g) {
    const [m, k, n] = [g.int(1, 9), g.int(1, 9), g.int(1, 20)];
    const [at, bt] = [byte(g), byte(g)];
    const [ta, tb] = [g.int(0, 1), g.int(0, 1)];
    const per = g.chance(0.4) ? [n] : [];
    const inputs = [
      bytes(g, at, ta ? [k, m] : [m, k]),
      scale(g),
      bytes(g, at, []),
      bytes(g, bt, tb ? [n, k] : [k, n]),
      scale(g, per),
      bytes(g, bt, per),
      g.maybe(() => g.tensor('int32', g.pick([[n], [m, n], [1, n], [m, 1]]), -500, 500)),
      ...(g.chance(0.6) ? pair(g, at) : []),
    ];
    const alpha = g.pick([1, 1, 0.5]);
    const fallback = alpha !== 1 || inputs[6] !== undefined;
    return linear(g, inputs, { attributes: attributes({ transA: ta, transB: tb, alpha: f(alpha) }), fallback });
  },
  QLinearSoftmax(g) {
    const type = byte(g);
    const dims = g.dims(1, 3, 5, false);
    const attrs = attributes({ axis: g.axis(dims.length), opset: g.pick([11, 13]) });
    return linear(g, [...triple(g, type, dims, true), ...pair(g, type)], { attributes: attrs });
  },
  QLinearReduceMean(g) {
    const type = byte(g);
    const dims = g.dims(1, 4, 4, false);
    const attrs = attributes({ axes: [g.axis(dims.length)], keepdims: g.int(0, 1) });
    return linear(g, [...triple(g, type, dims), ...pair(g, type)], { attributes: attrs });
  },
};

export const contrib: Family = Object.fromEntries(
  Object.entries({ ...quantized }).map(([name, make]) => [`com.microsoft:${name}`, make]),
);
