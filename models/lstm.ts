// An LSTM language model (Hochreiter and Schmidhuber: Long short-term memory, 1997; Zaremba, Sutskever, Vinyals: Recurrent
// neural network regularization, 2014): embedding, LSTM layers, a projection to the vocabulary at every step. The hidden
// size is that of cellular batching's experiments (Gao et al., 2018). A layer holds 4·h·(e + h) + 8·h numbers:
// 28,886,800 parameters, 18,628,608 multiply-adds a token.
import type { Value } from '../src/graph/builder.js';
import type { Layers } from './layers.js';
import { network } from './network.js';

export const lstmLanguageModel = network({
  name: 'lstm-lm',
  summary: 'LSTM language model, hidden 1024',
  options: {
    vocabulary: 'tokens',
    embedding: 'numbers a token is embedded in',
    hidden: 'units of a layer',
    layers: 'LSTM layers',
  },
  sizes: {
    tiny: { vocabulary: 37, embedding: 12, hidden: 16, layers: 2 },
    small: { vocabulary: 1000, embedding: 256, hidden: 256, layers: 1 },
    paper: { vocabulary: 10000, embedding: 1024, hidden: 1024, layers: 1 },
  },
  ranges: ({ vocabulary }) => ({ tokens: [0, vocabulary] }),
  build(g, { vocabulary, embedding, hidden, layers }) {
    const tokens = g.input('tokens', 'int64', ['batch', 'sequence']);
    const table = g.weights([vocabulary, embedding], { scale: 1, name: 'embedding' });
    // LSTM wants steps first.
    let y = g.transpose(g.embedding(tokens, table), [1, 0, 2]);
    for (let i = 0; i < layers; i++) y = g.scope(`lstm${i}`, () => g.squeeze(lstmLayer(g, y, hidden).y, [1]));
    y = g.transpose(y, [1, 0, 2]);
    g.output(
      'logits',
      g.scope('projection', () => g.dense(y, vocabulary, { gain: 2 })),
    );
  },
});

/** An LSTM over x [steps, batch, in] with weights of its own. */
export function lstmLayer(
  g: Layers,
  x: Value,
  hidden: number,
  options: { lengths?: Value; h0?: Value; c0?: Value } = {},
): { y: Value; h: Value; c: Value } {
  const { w, r, b } = lstmWeights(g, x.dims![2] as number, hidden);
  return g.lstm(x, w, r, b, options);
}

/** w [1, 4·hidden, in], r [1, 4·hidden, hidden], b [1, 8·hidden]. */
export function lstmWeights(g: Layers, inputs: number, hidden: number): { w: Value; r: Value; b: Value } {
  return {
    w: g.weights([1, 4 * hidden, inputs], { scale: Math.sqrt(3 / inputs), name: 'input' }),
    r: g.weights([1, 4 * hidden, hidden], { scale: Math.sqrt(3 / hidden), name: 'recurrent' }),
    b: g.weights([1, 8 * hidden], { scale: 0.1, name: 'bias' }),
  };
}
