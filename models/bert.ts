// BERT (Devlin, Chang, Lee, Toutanova: Pre-training of deep bidirectional transformers, 2018): an encoder of transformer
// layers, normalized behind each sum, with an attention mask and token types; the pooler looks at the first token.
// BERT-base: 109,482,240 parameters, 85.5 M multiply-adds a token and 18,432 a pair of tokens.
import type { Value } from '../src/graph/builder.js';
import type { Layers } from './layers.js';
import { network } from './network.js';
import { transformerOptions } from './transformer.js';

export const bert = network({
  name: 'bert-base',
  summary: 'BERT-base: text encoder with attention mask and token types',
  options: transformerOptions,
  sizes: {
    tiny: { vocabulary: 61, positions: 32, hidden: 16, layers: 2, heads: 2 },
    small: { vocabulary: 2000, positions: 128, hidden: 128, layers: 2, heads: 2 },
    paper: { vocabulary: 30522, positions: 512, hidden: 768, layers: 12, heads: 12 },
  },
  ranges: ({ vocabulary }) => ({ input_ids: [0, vocabulary], attention_mask: [0, 2], token_type_ids: [0, 2] }),
  build(g, { vocabulary, positions, hidden, layers, heads }) {
    const ids = g.input('input_ids', 'int64', ['batch', 'sequence']);
    const mask = g.input('attention_mask', 'int64', ['batch', 'sequence']);
    const types = g.input('token_type_ids', 'int64', ['batch', 'sequence']);
    let x = g.scope('embeddings', () => {
      const table = (rows: number, name: string) => g.weights([rows, hidden], { scale: 0.05, name });
      const words = g.embedding(ids, table(vocabulary, 'words'));
      const kinds = g.embedding(types, table(2, 'types'));
      const length = g.gather(g.shape(ids), g.ints([1]));
      const places = g.op('Slice', [table(positions, 'positions'), g.ints([0]), length, g.ints([0])], {}, [
        { dims: ['sequence', hidden] },
      ])[0]!;
      return g.layerNormalization(g.add(g.add(words, kinds), places), 1e-12);
    });
    // 0 where a token may be looked at, very negative where not: [batch, 1, 1, sequence].
    const hide = g.mul(g.sub(1, g.cast(g.unsqueeze(mask, [1, 2]), 'float32')), -10000);
    for (let i = 0; i < layers; i++) x = g.scope(`layer${i}`, () => layer(g, x, hide, heads));
    g.output('last_hidden_state', x);
    const first = g.squeeze(g.slice(x, [0], [1], [1]), [1]);
    g.output(
      'pooler_output',
      g.scope('pooler', () => g.tanh(g.dense(first, hidden))),
    );
  },
});

function layer(g: Layers, x: Value, mask: Value, heads: number): Value {
  const hidden = x.dims![2] as number;
  const attended = g.scope('attention', () => {
    const project = (name: string) => g.scope(name, () => g.dense(x, hidden));
    const mixed = g.attention(project('query'), project('key'), project('value'), { heads, mask });
    return g.layerNormalization(
      g.add(
        g.scope('output', () => g.dense(mixed, hidden)),
        x,
      ),
      1e-12,
    );
  });
  return g.scope('feedforward', () => {
    const wide = g.gelu(g.scope('in', () => g.dense(attended, 4 * hidden)));
    return g.layerNormalization(
      g.add(
        g.scope('out', () => g.dense(wide, hidden, { gain: Math.SQRT2 })),
        attended,
      ),
      1e-12,
    );
  });
}
