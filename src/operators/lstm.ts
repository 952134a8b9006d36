// LSTM, gates i (input), o (output), f (forget), c (cell), with peepholes P of i, o, f:
//
//   i = f(X · Wiᵀ + H · Riᵀ + Pi ⊙ C + Wbi + Rbi)      f likewise, or 1 − i with input_forget
//   c = g(X · Wcᵀ + H · Rcᵀ + Wbc + Rbc)               C' = f ⊙ C + i ⊙ c
//   o = f(X · Woᵀ + H · Roᵀ + Po ⊙ C' + Wbo + Rbo)     H' = o ⊙ h(C')
import { decode } from '../tensor/convert.js';
import { int } from './attributes.js';
import { type Operator, operator } from './operator.js';
import { lowerRecurrent, placeZeros, walk } from './recurrent.js';
import {
  type Form,
  INITIAL_C,
  INITIAL_H,
  type Layer,
  layerForm,
  P,
  recurrentAttributes,
  recurrentOutputs,
  stepsForm,
} from './recurrent-shape.js';

const layer: Layer = { gates: 4, activations: ['Sigmoid', 'Tanh', 'Tanh'] };

const lstm = ({ domain, suffix, shapeOf }: Form) =>
  operator({
    name: `LSTM${suffix}`,
    domain,
    since: domain === '' ? [1, 7, 14, 22] : [1],
    inputs: [3, 8],
    attributes: { ...recurrentAttributes, input_forget: int(0) },
    infer: (call) => recurrentOutputs(call, shapeOf(call, layer), 2),
    reference(call) {
      const shape = shapeOf(call, layer);
      const { hidden } = shape;
      const p = call.has(P) ? decode(call.tensor(P)) : undefined;
      return walk(call, shape, [INITIAL_H, INITIAL_C], (at, [h, c]) => {
        const sum = (gate: number, j: number) => {
          const i = gate * hidden + j;
          return at.input(i) + at.recurrent(h!, i) + at.inputBias(i) + at.stateBias(i);
        };
        const peephole = (gate: number, j: number) => p?.[at.direction * 3 * hidden + gate * hidden + j] ?? 0;
        const gates = Array.from({ length: hidden }, (_, j) => [0, 1, 2, 3].map((gate) => sum(gate, j)));
        for (const [j, [si, so, sf, sc]] of gates.entries()) {
          const before = c![j]!;
          const i = at.activate(0, at.clip(si! + peephole(0, j) * before));
          const f = call.attributes.input_forget ? 1 - i : at.activate(0, at.clip(sf! + peephole(2, j) * before));
          c![j] = f * before + i * at.activate(1, at.clip(sc!));
          const o = at.activate(0, at.clip(so! + peephole(1, j) * c![j]!));
          h![j] = o * at.activate(2, c![j]!);
        }
      });
    },
    lower(call) {
      const shape = shapeOf(call, layer);
      const { directions, batch, hidden, times } = shape;
      const size = directions * batch * hidden;
      if (size === 0) return false;
      const cOut = call.scratch(size * 4);
      const given = call.has(INITIAL_C);
      const first = given ? call.in(INITIAL_C) : placeZeros(call, size);
      const strides = given ? shape.strides : { row: hidden, direction: batch * hidden };
      return lowerRecurrent(call, shape, (params, work, t) =>
        call.step(
          'lstmStep',
          {
            ...params,
            cIn: t === 0 ? first : cOut,
            cInRow: t === 0 ? strides.row : hidden,
            cInDirection: t === 0 ? strides.direction : batch * hidden,
            cOut,
            cLast: (shape.projected || t === times - 1) && call.wants(2) ? call.out(2) : 0,
            peephole: call.has(P) ? call.in(P) : 0,
            inputForget: call.attributes.input_forget,
          },
          work,
        ),
      );
    },
  });

export const lstmOperators: readonly Operator[] = [lstm(layerForm), lstm(stepsForm)];
