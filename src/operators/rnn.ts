// RNN: Ht = f(Xt · Wᵀ + Ht−1 · Rᵀ + Wb + Rb).
import { type Operator, operator } from './operator.js';
import { lowerRecurrent, walk } from './recurrent.js';
import {
  type Form,
  INITIAL_H,
  type Layer,
  layerForm,
  recurrentAttributes,
  recurrentOutputs,
  stepsForm,
} from './recurrent-shape.js';

const layer: Layer = { gates: 1, activations: ['Tanh'] };

const rnn = ({ domain, suffix, shapeOf }: Form) =>
  operator({
    name: `RNN${suffix}`,
    domain,
    since: domain === '' ? [1, 7, 14, 22] : [1],
    inputs: [3, 6],
    attributes: recurrentAttributes,
    infer: (call) => recurrentOutputs(call, shapeOf(call, layer), 1),
    reference: (call) =>
      walk(call, shapeOf(call, layer), [INITIAL_H], (at, states) => {
        const h = states[0]!;
        const next = h.map((_, j) =>
          at.activate(0, at.clip(at.input(j) + at.recurrent(h, j) + at.inputBias(j) + at.stateBias(j))),
        );
        h.set(next);
      }),
    lower: (call) => lowerRecurrent(call, shapeOf(call, layer), (params, work) => call.step('rnnStep', params, work)),
  });

export const rnnOperators: readonly Operator[] = [rnn(layerForm), rnn(stepsForm)];
