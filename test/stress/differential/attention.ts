// Cases of attention in every layout, rotary embeddings, attention with a state, and deformable convolutions.
import type { Tensor } from '../../../src/tensor/tensor.js';
import { attributes, type Family, FLOATS, f, type Generator, int64 } from './generator.js';

const close = { rtol: 1e-4, atol: 1e-4 };

export const attention: Family = {
  Attention: (g, opset) => {
    const type = g.pick(FLOATS);
    const [batch, keyHeads, queries, keys] = [g.int(1, 3), g.int(1, 2), g.int(1, 4), g.int(1, 6)];
    const [size, valueSize] = [g.pick([1, 2, 4, 8]), g.pick([1, 3, 4, 8])];
    const heads = keyHeads * g.int(1, 3);
    const beside = g.chance(0.5);
    const rows = (n: number, count: number, each: number) =>
      g.tensor(type, beside ? [batch, count, n * each] : [batch, n, count, each]);
    const past = g.maybe(() => g.int(0, 3), 0.4);
    const total = keys + (past ?? 0);
    const held = (each: number) => (past === undefined ? undefined : g.tensor(type, [batch, keyHeads, past, each]));
    const maskDims = g.pick([
      [queries, total],
      [1, 1, queries, total],
      [batch, heads, queries, total],
    ]);
    // A row that may see nothing is left open by the specification: every row sees the first key.
    const mask = g.maybe(() => {
      if (g.chance(0.5)) return g.tensor(type, maskDims);
      const t = g.tensor('bool', maskDims);
      (t.data as Uint8Array).forEach((_, i, all) => {
        if (i % total === 0) all[i] = 1;
      });
      return t;
    });
    const lengths =
      opset >= 24 && past === undefined && g.chance(0.3)
        ? int64(g.ints(batch, queries, total + queries).map((n) => Math.min(n, total)))
        : undefined;
    const inputs = [rows(heads, queries, size), rows(keyHeads, keys, size), rows(keyHeads, keys, valueSize), mask];
    return {
      inputs: [...inputs, held(size), held(valueSize), ...(lengths ? [lengths] : [])],
      attributes: attributes({
        q_num_heads: beside ? heads : undefined,
        kv_num_heads: beside ? keyHeads : undefined,
        is_causal: g.maybe(() => (queries <= keys || past !== undefined ? g.int(0, 1) : 0)),
        scale: g.maybe(() => f(0.3), 0.3),
        softcap: g.maybe(() => f(0.7), 0.2),
      }),
      outputs: past === undefined ? 1 : 3,
      ...close,
    };
  },
  RotaryEmbedding: (g) => {
    const type = g.pick(FLOATS);
    const [batch, heads, rows, size] = [g.int(1, 3), g.int(1, 3), g.int(1, 4), 2 * g.int(1, 6)];
    const rotated = g.maybe(() => 2 * g.int(1, size / 2), 0.3);
    const half = (rotated ?? size) / 2;
    const fourD = g.chance(0.5);
    const most = g.int(rows, 8);
    const positions = g.maybe(() => int64(g.ints(batch * rows, 0, most - 1), [batch, rows]));
    const table = () => g.tensor(type, positions === undefined ? [batch, rows, half] : [most, half], -1, 1);
    const x = g.tensor(type, fourD ? [batch, heads, rows, size] : [batch, rows, heads * size]);
    return {
      inputs: [x, table(), table(), ...(positions ? [positions] : [])],
      attributes: attributes({
        interleaved: g.maybe(() => g.int(0, 1)),
        num_heads: fourD ? undefined : heads,
        rotary_embedding_dim: rotated,
      }),
      ...close,
    };
  },
  LinearAttention: (g) => {
    const rule = g.pick(['linear', 'gated', 'delta', 'gated_delta']);
    const [batch, time, keyHeads, size, values] = [g.int(1, 2), g.int(1, 4), g.int(1, 2), g.int(1, 4), g.int(1, 4)];
    const heads = keyHeads * g.int(1, 2);
    const t = (n: number) => g.tensor('float32', [batch, time, n], -1, 1);
    const past = g.maybe(() => g.tensor('float32', [batch, keyHeads, size, values], -1, 1));
    const decay = rule.startsWith('gated') ? t(g.pick([keyHeads, keyHeads * size])) : undefined;
    const beta = rule.endsWith('delta') ? t(g.pick([keyHeads, 1])) : undefined;
    return {
      inputs: [t(heads * size), t(keyHeads * size), t(keyHeads * values), past, decay, beta],
      attributes: attributes({ q_num_heads: heads, kv_num_heads: keyHeads, update_rule: rule }),
      outputs: 2,
      ...close,
    };
  },
  CausalConvWithState: (g) => {
    const [batch, channels, time, k] = [g.int(1, 2), g.int(1, 3), g.int(1, 5), g.int(1, 4)];
    const t = (...dims: number[]) => g.tensor('float32', dims);
    return {
      inputs: [
        t(batch, channels, time),
        t(channels, 1, k),
        g.maybe(() => t(channels)),
        g.maybe(() => t(batch, channels, k - 1)),
      ],
      attributes: attributes({ activation: g.maybe(() => g.pick(['none', 'silu', 'swish'])) }),
      outputs: 2,
      ...close,
    };
  },
  DeformConv: (g) => deformConv(g),
};

function deformConv(g: Generator) {
  const type = g.pick(['float32', 'float64'] as const);
  const group = g.pick([1, 1, 2]);
  const offsetGroups = g.pick([1, group]);
  const [c, m] = [group * g.int(1, 2), group * g.int(1, 2)];
  const kernel = g.ints(2, 1, 3);
  const strides = g.ints(2, 1, 2);
  const pads = g.ints(4, 0, 1);
  const spatial = kernel.map((k) => k + g.int(0, 3));
  const out = spatial.map((d, i) => Math.floor((d + pads[i]! + pads[i + 2]! - kernel[i]!) / strides[i]!) + 1);
  const taps = kernel[0]! * kernel[1]!;
  const batch = g.int(1, 2);
  return {
    inputs: [
      g.tensor(type, [batch, c, ...spatial]),
      g.tensor(type, [m, c / group, ...kernel]),
      g.tensor(type, [batch, 2 * offsetGroups * taps, ...out], -1, 1),
      g.maybe(() => g.tensor(type, [m])),
      g.maybe(() => g.tensor(type, [batch, offsetGroups * taps, ...out], 0, 1)),
    ] as (Tensor | undefined)[],
    attributes: attributes({
      group: group === 1 ? undefined : group,
      offset_group: offsetGroups === 1 ? undefined : offsetGroups,
      kernel_shape: g.maybe(() => kernel),
      strides,
      pads,
    }),
    ...close,
  };
}
