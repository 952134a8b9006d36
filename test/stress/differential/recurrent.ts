// Cases of LSTM, GRU and RNN in all directions, layouts and options.
import { Tensor } from '../../../src/tensor/tensor.js';
import { attributes, type Family, f, fs, type Generator } from './generator.js';

const FUNCTIONS: readonly string[] = [
  'Relu',
  'Tanh',
  'Sigmoid',
  'Affine',
  'LeakyRelu',
  'ThresholdedRelu',
  'ScaledTanh',
  'HardSigmoid',
  'Elu',
  'Softsign',
  'Softplus',
];

function recurrent(g: Generator, opset: number, gates: number, functions: number, cell: boolean) {
  const direction = g.pick([undefined, 'forward', 'reverse', 'bidirectional']);
  const d = direction === 'bidirectional' ? 2 : 1;
  const [seq, batch, size, hidden] = [g.int(1, 5), g.int(1, 3), g.int(1, 5), g.int(1, 5)];
  const layout = opset >= 14 ? g.maybe(() => g.int(0, 1)) : undefined;
  const first = layout === 1;
  const t = (dims: number[]) => g.tensor('float32', dims, -1, 1);
  const state = () => t(first ? [batch, d, hidden] : [d, batch, hidden]);
  const inputs: (Tensor | undefined)[] = [
    t(first ? [batch, seq, size] : [seq, batch, size]),
    t([d, gates * hidden, size]),
    t([d, gates * hidden, hidden]),
    g.maybe(() => t([d, 2 * gates * hidden])),
    g.maybe(() => new Tensor('int32', g.ints(batch, 1, seq), [batch]), 0.4),
    g.maybe(state),
  ];
  if (cell)
    inputs.push(
      g.maybe(state),
      g.maybe(() => t([d, 3 * hidden]), 0.4),
    );
  while (inputs.at(-1) === undefined) inputs.pop();
  const activations = g.maybe(() => g.list(functions * d, () => g.pick(FUNCTIONS)), 0.3);
  return {
    inputs,
    attributes: {
      direction,
      layout,
      hidden_size: hidden,
      clip: g.maybe(() => f(g.pick([0.5, 1])), 0.3),
      activations,
    },
    activations,
    constants: g.constants(4).filter((i) => i > 0 && inputs[i] !== undefined),
  };
}

/** Values for the activations that take them, as the engines consume them: one list, in order. */
function parameters(activations: readonly string[] | undefined) {
  if (activations === undefined) return {};
  const alpha: number[] = [];
  const beta: number[] = [];
  for (const a of activations) {
    if (['Affine', 'LeakyRelu', 'ThresholdedRelu', 'ScaledTanh', 'HardSigmoid', 'Elu'].includes(a)) alpha.push(0.3);
    if (['Affine', 'ScaledTanh', 'HardSigmoid'].includes(a)) beta.push(0.6);
  }
  return {
    activation_alpha: alpha.length ? fs(alpha) : undefined,
    activation_beta: beta.length ? fs(beta) : undefined,
  };
}

const close = { rtol: 1e-4, atol: 1e-5 };

export const recurrentFamily: Family = {
  LSTM: (g, opset) => {
    const m = recurrent(g, opset, 4, 3, true);
    return {
      ...m,
      attributes: attributes({
        ...m.attributes,
        ...parameters(m.activations),
        input_forget: g.maybe(() => g.int(0, 1), 0.3),
      }),
      outputs: g.int(1, 3),
      ...close,
    };
  },
  GRU: (g, opset) => {
    const m = recurrent(g, opset, 3, 2, false);
    return {
      ...m,
      attributes: attributes({
        ...m.attributes,
        ...parameters(m.activations),
        linear_before_reset: g.maybe(() => g.int(0, 1)),
      }),
      outputs: g.int(1, 2),
      ...close,
    };
  },
  RNN: (g, opset) => {
    const m = recurrent(g, opset, 1, 1, false);
    return {
      ...m,
      attributes: attributes({ ...m.attributes, ...parameters(m.activations) }),
      outputs: g.int(1, 2),
      ...close,
    };
  },
};
