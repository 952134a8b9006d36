// Attention with a state instead of a cache (27): LinearAttention, whose state per key head is a matrix [size, values]
// updated by every token, and CausalConvWithState, a depthwise convolution along time that carries its last inputs.
// Both run by the reference; LinearAttention computes in double precision and rounds at the end.
import { decode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { sameShape } from '../tensor/shape.js';
import { type AttributesOf, float, int, string } from './attributes.js';
import { type InferCall, type Operator, operator } from './operator.js';
import { fromNumbers } from './reference.js';

const linearSpecs = {
  chunk_size: int(64),
  kv_num_heads: int(0),
  q_num_heads: int(0),
  scale: float(0),
  update_rule: string('gated_delta'),
};

function linearShape(call: InferCall<AttributesOf<typeof linearSpecs>>) {
  const { kv_num_heads: keyHeads, q_num_heads: heads, update_rule: rule, scale } = call.attributes;
  if (!['linear', 'gated', 'delta', 'gated_delta'].includes(rule))
    throw call.error(`update_rule must be linear, gated, delta or gated_delta, got '${rule}'`);
  if (keyHeads < 1 || heads < 1 || heads % keyHeads !== 0)
    throw call.error(`q_num_heads ${heads} must be a positive multiple of kv_num_heads ${keyHeads}`);
  const [q, k, v] = [call.input(0).dims, call.input(1).dims, call.input(2).dims];
  const bad = (why: string) =>
    call.error(`${why}: query ${formatShape(q)}, key ${formatShape(k)}, value ${formatShape(v)}`);
  for (const d of [q, k, v])
    if (d.length !== 3 || d[0] !== q[0] || d[1] !== q[1]) throw bad('expected three of [batch, time, heads · size]');
  const [batch, time, hidden] = q as [number, number, number];
  const size = hidden / heads;
  const values = v[2]! / keyHeads;
  if (!Number.isInteger(size) || !Number.isInteger(values) || k[2] !== keyHeads * size)
    throw bad('sizes do not fit the heads');
  const gated = rule === 'gated' || rule === 'gated_delta';
  const delta = rule === 'delta' || rule === 'gated_delta';
  const optional = (i: number, name: string, wanted: boolean, last: readonly number[]) => {
    const t = call.optional(i);
    if ((t !== undefined) !== wanted) throw call.error(`update_rule '${rule}' ${wanted ? 'needs' : 'has no'} ${name}`);
    if (t !== undefined && !last.some((n) => sameShape(t.dims, [batch, time, n])))
      throw call.error(
        `expected ${name} of shape [${batch}, ${time}, ${last.join(' or ')}], got ${formatShape(t.dims)}`,
      );
  };
  optional(4, 'decay', gated, [keyHeads, keyHeads * size]);
  optional(5, 'beta', delta, [keyHeads, 1]);
  if (call.has(6)) optional(6, 'erase_gate', delta, [keyHeads * size]);
  const state = [batch, keyHeads, size, values];
  const past = call.optional(3);
  if (past !== undefined && !sameShape(past.dims, state))
    throw call.error(`expected past_state of shape ${formatShape(state)}, got ${formatShape(past.dims)}`);
  return { batch, time, heads, keyHeads, size, values, gated, delta, state, scale: scale || 1 / Math.sqrt(size) };
}

/** query, key, value, past_state?, decay?, beta?, erase_gate? → output, present_state. */
const linearAttention = operator({
  name: 'LinearAttention',
  since: [27],
  inputs: [3, 7],
  attributes: linearSpecs,
  infer(call) {
    const s = linearShape(call);
    const { type } = call.input(0);
    return [
      { type, dims: [s.batch, s.time, s.heads * s.values] },
      { type: call.optional(3)?.type ?? type, dims: s.state },
    ];
  },
  reference(call) {
    const s = linearShape(call);
    const { batch, time, heads, keyHeads, size, values } = s;
    const [q, k, v, past, decay, beta, erase] = [0, 1, 2, 3, 4, 5, 6].map((i) =>
      call.has(i) ? decode(call.tensor(i)) : undefined,
    );
    const state = past === undefined ? new Float64Array(batch * keyHeads * size * values) : Float64Array.from(past);
    const y = new Float64Array(batch * time * heads * values);
    const perKey = decay !== undefined && decay.length === batch * time * keyHeads * size && size !== 1;
    const betas = beta === undefined ? 0 : beta.length / (batch * time);
    for (let b = 0; b < batch; b++)
      for (let h = 0; h < keyHeads; h++) {
        const m = state.subarray((b * keyHeads + h) * size * values, (b * keyHeads + h + 1) * size * values);
        for (let t = 0; t < time; t++) {
          const token = b * time + t;
          const key = (i: number) => k![(token * keyHeads + h) * size + i]!;
          if (decay !== undefined)
            for (let i = 0; i < size; i++) {
              const g = Math.exp(perKey ? decay[(token * keyHeads + h) * size + i]! : decay[token * keyHeads + h]!);
              for (let j = 0; j < values; j++) m[i * values + j]! *= g;
            }
          const added = Float64Array.from({ length: values }, (_, j) => v![(token * keyHeads + h) * values + j]!);
          if (beta !== undefined) {
            const rate = beta[betas === 1 ? token : token * keyHeads + h]!;
            for (let j = 0; j < values; j++) {
              let held = 0;
              for (let i = 0; i < size; i++) {
                const gate = erase === undefined ? 1 : erase[(token * keyHeads + h) * size + i]!;
                held += m[i * values + j]! * key(i) * gate;
              }
              added[j] = rate * (added[j]! - held);
            }
          }
          for (let i = 0; i < size; i++) for (let j = 0; j < values; j++) m[i * values + j]! += key(i) * added[j]!;
          const group = heads / keyHeads;
          for (let n = h * group; n < (h + 1) * group; n++)
            for (let i = 0; i < size; i++) {
              const w = s.scale * q![(token * heads + n) * size + i]!;
              for (let j = 0; j < values; j++) y[(token * heads + n) * values + j]! += w * m[i * values + j]!;
            }
        }
      }
    const { type } = call.tensor(0);
    return [
      fromNumbers(type, [batch, time, heads * values], y),
      fromNumbers(call.has(3) ? call.tensor(3).type : type, s.state, state),
    ];
  },
});

const convSpecs = { activation: string('none') };

function convShape(call: InferCall<AttributesOf<typeof convSpecs>>) {
  const { activation } = call.attributes;
  if (!['none', 'silu', 'swish'].includes(activation))
    throw call.error(`activation must be none, silu or swish, got '${activation}'`);
  const [x, w] = [call.input(0).dims, call.input(1).dims];
  if (x.length !== 3 || w.length !== 3 || w[0] !== x[1] || w[1] !== 1 || w[2]! < 1)
    throw call.error(
      `expected input [batch, channels, time] and weight [channels, 1, k], got ${formatShape(x)} and ${formatShape(w)}`,
    );
  const [batch, channels, time] = x as [number, number, number];
  const held = w[2]! - 1;
  const bias = call.optional(2);
  if (bias !== undefined && !sameShape(bias.dims, [channels]))
    throw call.error(`expected bias of shape [${channels}], got ${formatShape(bias.dims)}`);
  const past = call.optional(3);
  if (past !== undefined && !sameShape(past.dims, [batch, channels, held]))
    throw call.error(
      `expected past_state of shape ${formatShape([batch, channels, held])}, got ${formatShape(past.dims)}`,
    );
  return { batch, channels, time, held, silu: activation !== 'none' };
}

/** input, weight, bias?, past_state? → output, present_state: the last k − 1 inputs, the past's included. */
const causalConvWithState = operator({
  name: 'CausalConvWithState',
  since: [27],
  inputs: [2, 4],
  attributes: convSpecs,
  infer(call) {
    const s = convShape(call);
    const { type } = call.input(0);
    return [
      { type, dims: call.input(0).dims },
      { type, dims: [s.batch, s.channels, s.held] },
    ];
  },
  reference(call) {
    const { batch, channels, time, held, silu } = convShape(call);
    const [x, w, bias, past] = [0, 1, 2, 3].map((i) => (call.has(i) ? decode(call.tensor(i)) : undefined));
    const y = new Float64Array(batch * channels * time);
    const state = new Float64Array(batch * channels * held);
    for (let row = 0; row < batch * channels; row++) {
      const c = row % channels;
      // Input i of the row, the past before 0.
      const at = (i: number) => (i >= 0 ? x![row * time + i]! : past === undefined ? 0 : past[row * held + held + i]!);
      for (let t = 0; t < time; t++) {
        let sum = bias === undefined ? 0 : bias[c]!;
        for (let i = 0; i <= held; i++) sum += w![c * (held + 1) + i]! * at(t - held + i);
        y[row * time + t] = silu ? sum / (1 + Math.exp(-sum)) : sum;
      }
      for (let i = 0; i < held; i++) state[row * held + i] = at(time - held + i);
    }
    const { type, dims } = call.tensor(0);
    return [fromNumbers(type, dims, y), fromNumbers(type, [batch, channels, held], state)];
  },
});

export const linearAttentionOperators: readonly Operator[] = [linearAttention, causalConvWithState];
