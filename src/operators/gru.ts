// GRU, gates z (update), r (reset), h (new state):
//
//   z = f(X · Wzᵀ + H · Rzᵀ + Wbz + Rbz)          r = f(X · Wrᵀ + H · Rrᵀ + Wbr + Rbr)
//   h = g(X · Whᵀ + (r ⊙ H) · Rhᵀ + Wbh + Rbh)    or, with linear_before_reset, g(X · Whᵀ + r ⊙ (H · Rhᵀ + Rbh) + Wbh)
//   H' = (1 − z) ⊙ h + z ⊙ H
//
// Without linear_before_reset the product needs all of r ⊙ H: a time step is two kernel steps.
import { int } from './attributes.js';
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

const layer: Layer = { gates: 3, activations: ['Sigmoid', 'Tanh'] };

const gru = ({ domain, suffix, shapeOf }: Form) =>
  operator({
    name: `GRU${suffix}`,
    domain,
    since: domain === '' ? [1, 3, 7, 14, 22] : [1],
    inputs: [3, 6],
    attributes: { ...recurrentAttributes, linear_before_reset: int(0) },
    infer: (call) => recurrentOutputs(call, shapeOf(call, layer), 1),
    reference(call) {
      const shape = shapeOf(call, layer);
      const { hidden } = shape;
      const after = call.attributes.linear_before_reset !== 0;
      return walk(call, shape, [INITIAL_H], (at, states) => {
        const h = states[0]!;
        const gate = (first: number) =>
          h.map((_, j) => {
            const i = first * hidden + j;
            return at.activate(0, at.clip(at.input(i) + at.recurrent(h, i) + at.inputBias(i) + at.stateBias(i)));
          });
        const z = gate(0);
        const r = gate(1);
        const reset = h.map((x, j) => r[j]! * x);
        const next = h.map((x, j) => {
          const i = 2 * hidden + j;
          const state = after
            ? r[j]! * (at.recurrent(h, i) + at.stateBias(i))
            : at.recurrent(reset, i) + at.stateBias(i);
          const candidate = at.activate(1, at.clip(at.input(i) + state + at.inputBias(i)));
          return (1 - z[j]!) * candidate + z[j]! * x;
        });
        h.set(next);
      });
    },
    lower(call) {
      const shape = shapeOf(call, layer);
      const size = shape.directions * shape.batch * shape.hidden * 4;
      if (call.attributes.linear_before_reset !== 0)
        return lowerRecurrent(call, shape, (params, work) =>
          call.step('gruStep', { ...params, z: 0, resetState: 0, phase: 0 }, work),
        );
      if (size === 0) return false;
      const z = call.scratch(size);
      const resetState = call.scratch(size);
      return lowerRecurrent(call, shape, (params, work, _, multiplied) => {
        call.step('gruStep', { ...params, z, resetState, phase: 1 }, { ...work, flops: (2 / 3) * (work.flops ?? 0) });
        multiplied(resetState);
        call.step('gruStep', { ...params, z, resetState, phase: 2 }, { ...work, flops: (1 / 3) * (work.flops ?? 0) });
      });
    },
  });

export const gruOperators: readonly Operator[] = [gru(layerForm), gru(stepsForm)];
