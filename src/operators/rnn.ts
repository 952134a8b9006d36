// RNN: Ht = f(Xt · Wᵀ + Ht−1 · Rᵀ + Wb + Rb).
import { type Operator, operator } from './operator.js';
import {
  INITIAL_H,
  type Layer,
  lowerRecurrent,
  recurrentAttributes,
  recurrentOutputs,
  recurrentShape,
  walk,
} from './recurrent.js';

const layer: Layer = { gates: 1, activations: ['Tanh'] };

const rnn = operator({
  name: 'RNN',
  since: [1, 7, 14, 22],
  inputs: [3, 6],
  attributes: recurrentAttributes,
  infer: (call) => recurrentOutputs(call, layer, 1),
  reference: (call) =>
    walk(call, recurrentShape(call, layer), [INITIAL_H], (at, states) => {
      const h = states[0]!;
      const next = h.map((_, j) =>
        at.activate(0, at.clip(at.input(j) + at.recurrent(h, j) + at.inputBias(j) + at.stateBias(j))),
      );
      h.set(next);
    }),
  lower: (call) =>
    lowerRecurrent(call, recurrentShape(call, layer), (params, work) => call.step('rnnStep', params, work)),
});

export const rnnOperators: readonly Operator[] = [rnn];
