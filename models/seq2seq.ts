// Sequence to sequence (Sutskever, Vinyals, Le: Sequence to sequence learning with neural networks, 2014): an LSTM reads the
// source and leaves its state, another writes greedily from that state, fed what it wrote last. Sizes of cellular batching's
// experiments (Gao et al., 2018). Three models with the same weights for the same seed:
//
//   seq2seq-encoder   source, lengths → h, c                    39,116,800 parameters
//   seq2seq-decoder   token, h, c → next, logits, h, c          69,866,800 parameters, a step
//   seq2seq           both, the steps in a Loop until every row has ended or `limit` steps were made
//
// The first two are what a scheduler of cells runs; the third is for runtimes that know no cells. Token 0 ends a
// sentence, 1 begins one; rows that have ended go on with 0.
import type { GraphBuilder, Value } from '../src/graph/builder.js';
import { Tensor } from '../src/tensor/tensor.js';
import type { Layers } from './layers.js';
import { lstmWeights } from './lstm.js';
import { network } from './network.js';

const END = 0;
const START = 1;

const options = {
  vocabulary: 'tokens of either language',
  embedding: 'numbers a token is embedded in',
  hidden: 'units of the encoder and of the decoder',
};

const sizes = {
  tiny: { vocabulary: 23, embedding: 12, hidden: 16 },
  small: { vocabulary: 1000, embedding: 256, hidden: 256 },
  paper: { vocabulary: 30000, embedding: 1024, hidden: 1024 },
};

type Numbers = (typeof sizes)['paper'];

interface State {
  readonly h: Value;
  readonly c: Value;
}

/** Sources may be shorter than the batch's longest: `lengths` int32 [batch]. */
function encode(g: Layers, { vocabulary, embedding, hidden }: Numbers): State {
  const source = g.input('source', 'int64', ['batch', 'source']);
  const lengths = g.input('lengths', 'int32', ['batch']);
  return g.part('encoder', () => {
    const table = g.weights([vocabulary, embedding], { scale: 1, name: 'embedding' });
    const { w, r, b } = lstmWeights(g, embedding, hidden);
    const { h, c } = g.lstm(g.transpose(g.embedding(source, table), [1, 0, 2]), w, r, b, { lengths });
    return { h: g.squeeze(h, [0]), c: g.squeeze(c, [0]) };
  });
}

interface DecoderWeights {
  readonly table: Value;
  readonly lstm: { w: Value; r: Value; b: Value };
  readonly projection: Value;
  readonly bias: Value;
}

function decoderWeights(g: Layers, { vocabulary, embedding, hidden }: Numbers): DecoderWeights {
  return g.part('decoder', () => ({
    table: g.weights([vocabulary, embedding], { scale: 1, name: 'embedding' }),
    lstm: lstmWeights(g, embedding, hidden),
    projection: g.matrix(hidden, vocabulary, 4, 'projection'),
    bias: g.bias(vocabulary),
  }));
}

/** One step: the most probable token after `token` [batch], given the state [batch, hidden]. */
function decode(g: GraphBuilder, weights: DecoderWeights, token: Value, state: State) {
  const { w, r, b } = weights.lstm;
  const x = g.unsqueeze(g.embedding(token, weights.table), [0]);
  const next = g.lstm(x, w, r, b, { h0: g.unsqueeze(state.h, [0]), c0: g.unsqueeze(state.c, [0]) });
  const h = g.squeeze(next.h, [0]);
  const logits = g.linear(h, weights.projection, weights.bias);
  return { logits, token: g.argMax(logits, 1, false), h, c: g.squeeze(next.c, [0]) };
}

export const seq2seqEncoder = network({
  name: 'seq2seq-encoder',
  summary: 'encoder of Seq2Seq: a sentence to a state',
  options,
  sizes,
  ranges: ({ vocabulary }, { source = 1 }) => ({ source: [2, vocabulary], lengths: [1, source + 1] }),
  build(g, numbers) {
    const { h, c } = encode(g, numbers);
    g.output('h', h);
    g.output('c', c);
  },
});

export const seq2seqDecoder = network({
  name: 'seq2seq-decoder',
  summary: 'decoder of Seq2Seq: one greedy step',
  options,
  sizes,
  ranges: ({ vocabulary }) => ({ token: [0, vocabulary] }),
  build(g, numbers) {
    const { hidden } = numbers;
    const token = g.input('token', 'int64', ['batch']);
    const state = { h: g.input('h', 'float32', ['batch', hidden]), c: g.input('c', 'float32', ['batch', hidden]) };
    const next = decode(g, decoderWeights(g, numbers), token, state);
    g.output('next', next.token);
    g.output('logits', next.logits);
    g.output('next_h', next.h);
    g.output('next_c', next.c);
  },
});

export const seq2seq = network({
  name: 'seq2seq',
  summary: 'Seq2Seq with a greedy decoder, hidden 1024, the whole in one model',
  options,
  sizes,
  ranges: ({ vocabulary }, { source = 1 }) => ({ source: [2, vocabulary], lengths: [1, source + 1], limit: [6, 7] }),
  build(g, numbers) {
    const { hidden } = numbers;
    const first = encode(g, numbers);
    const limit = g.input('limit', 'int64', []);
    const weights = decoderWeights(g, numbers);
    const rows = g.gather(g.shape(first.h), g.ints([0]));
    const fill = (type: 'int64' | 'bool', value: number) =>
      g.op('ConstantOfShape', [rows], { value: new Tensor(type, [value], [1]) }, [{ type, dims: ['batch'] }])[0]!;
    const body = g.subgraph('step', (s) => {
      s.input('iteration', 'int64', []);
      s.input('going', 'bool', []);
      const token = s.input('token', 'int64', ['batch']);
      const h = s.input('h', 'float32', ['batch', hidden]);
      const c = s.input('c', 'float32', ['batch', hidden]);
      const ended = s.input('ended', 'bool', ['batch']);
      const next = decode(s, weights, token, { h, c });
      const written = s.where(ended, s.scalar('int64', END), next.token);
      const done = s.equal(written, s.scalar('int64', END));
      const all = s.reduceMin(s.cast(done, 'float32'), [0], false);
      s.output('still', s.not(s.cast(all, 'bool')));
      s.output('next', written);
      s.output('next_h', next.h);
      s.output('next_c', next.c);
      s.output('done', done);
      s.output('step_tokens', s.identity(written));
    });
    const inputs = [limit, undefined, fill('int64', START), first.h, first.c, fill('bool', 0)];
    const [, , , , tokens] = g.op('Loop', inputs, { body }, [
      { type: 'int64', dims: ['batch'] },
      { type: 'float32', dims: ['batch', hidden] },
      { type: 'float32', dims: ['batch', hidden] },
      { type: 'bool', dims: ['batch'] },
      { type: 'int64', dims: ['steps', 'batch'] },
    ]);
    g.output('tokens', g.transpose(tokens!, [1, 0]));
  },
});
