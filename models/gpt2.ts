// GPT-2 (Radford, Wu, Child, Luan, Amodei, Sutskever: Language models are unsupervised multitask learners, 2019): a decoder
// of transformer layers, normalized before each branch; the embedding is also the projection to the vocabulary.
// GPT-2 small: 124,439,808 parameters, 123.5 M multiply-adds a token and 18,432 a pair of tokens.
//
//   gpt2         input_ids → logits: all tokens at once
//   gpt2-cache   input_ids, position_ids, attention_mask, keys and values of the past → logits, keys and values with the
//                new ones behind: a text is read once, then continued token by token. `past` may be 0; names as Hugging
//                Face's exports have them. The mask is over past and new tokens, 0 for padding.
import type { Value } from '../src/graph/builder.js';
import { SkepError } from '../src/tensor/errors.js';
import type { Layers } from './layers.js';
import { network } from './network.js';
import { transformerOptions } from './transformer.js';

const sizes = {
  tiny: { vocabulary: 53, positions: 32, hidden: 16, layers: 2, heads: 2 },
  small: { vocabulary: 2000, positions: 128, hidden: 128, layers: 2, heads: 2 },
  paper: { vocabulary: 50257, positions: 1024, hidden: 768, layers: 12, heads: 12 },
};

type Numbers = (typeof sizes)['paper'];

/** Gives a layer's keys and values [batch, heads, tokens, d] those of the past. */
type Cache = (layer: number, key: Value, value: Value) => readonly [key: Value, value: Value];

export const gpt2 = network({
  name: 'gpt2',
  summary: 'GPT-2 small: text decoder without a cache',
  options: transformerOptions,
  sizes,
  ranges: ({ vocabulary }) => ({ input_ids: [0, vocabulary] }),
  build(g, numbers) {
    const ids = g.input('input_ids', 'int64', ['batch', 'sequence']);
    const length = g.squeeze(g.gather(g.shape(ids), g.ints([1])), [0]);
    const positions = range(g, g.scalar('int64', 0), length, 'sequence');
    const allowed = causal(g, positions, positions);
    decoder(g, numbers, ids, positions, hidden(g, allowed), (_, key, value) => [key, value]);
  },
});

export const gpt2Cache = network({
  name: 'gpt2-cache',
  summary: 'GPT-2 small with keys and values of the past as inputs and outputs',
  options: transformerOptions,
  sizes,
  ranges: ({ vocabulary, positions }) => ({
    input_ids: [0, vocabulary],
    position_ids: [0, positions],
    attention_mask: [0, 2],
  }),
  build(g, numbers) {
    const { heads, hidden: width, layers } = numbers;
    const ids = g.input('input_ids', 'int64', ['batch', 'sequence']);
    const positions = g.input('position_ids', 'int64', ['batch', 'sequence']);
    const mask = g.input('attention_mask', 'int64', ['batch', 'past + sequence']);
    const past = Array.from({ length: layers }, (_, i) =>
      ['key', 'value'].map((kind) =>
        g.input(`past_key_values.${i}.${kind}`, 'float32', ['batch', heads, 'past', width / heads]),
      ),
    );
    const count = (x: Value) => g.squeeze(g.gather(g.shape(x), g.ints([1])), [0]);
    const total = count(mask);
    // Places in the cache, which are not positions in the text where rows are padded in front.
    const all = range(g, g.scalar('int64', 0), total, 'past + sequence');
    const own = range(g, g.sub(total, count(ids)), total, 'sequence');
    const there = g.cast(g.unsqueeze(mask, [1, 2]), 'bool');
    const allowed = g.and(causal(g, own, all), there);
    const present: (readonly [Value, Value])[] = [];
    decoder(g, numbers, ids, positions, hidden(g, allowed), (i, key, value) => {
      const join = (old: Value, x: Value) =>
        g.op('Concat', [old, x], { axis: 2 }, [{ dims: ['batch', heads, 'past + sequence', width / heads] }])[0]!;
      const both = [join(past[i]![0]!, key), join(past[i]![1]!, value)] as const;
      present.push(both);
      return both;
    });
    present.forEach(([key, value], i) => {
      g.output(`present.${i}.key`, key);
      g.output(`present.${i}.value`, value);
    });
  },
});

function range(g: Layers, from: Value, to: Value, axis: string): Value {
  return g.op('Range', [from, to, g.scalar('int64', 1)], {}, [{ dims: [axis] }])[0]!;
}

/** Whether place `row` may look at place `column`: not at later ones. */
function causal(g: Layers, rows: Value, columns: Value): Value {
  return g.lessOrEqual(g.unsqueeze(columns, [0]), g.unsqueeze(rows, [1]));
}

/** What is added to the scores: 0, or so little that nothing is left. */
function hidden(g: Layers, allowed: Value): Value {
  return g.where(allowed, g.scalar('float32', 0), g.scalar('float32', -10000));
}

function decoder(g: Layers, numbers: Numbers, ids: Value, positions: Value, mask: Value, cache: Cache): void {
  const { vocabulary, hidden: width, layers, heads } = numbers;
  if (width % heads !== 0)
    throw new SkepError('INVALID_INPUT', `gpt2: hidden ${width} does not divide into ${heads} heads`);
  const table = g.weights([vocabulary, width], { scale: 0.05, name: 'tokens' });
  const places = g.weights([numbers.positions, width], { scale: 0.02, name: 'positions' });
  let x = g.add(g.embedding(ids, table), g.embedding(positions, places));
  for (let i = 0; i < layers; i++)
    x = g.scope(`layer${i}`, () => {
      const y = g.scope('attention', () => attention(g, x, mask, numbers, (k, v) => cache(i, k, v)));
      const sum = g.add(x, y);
      return g.scope('feedforward', () => {
        const wide = g.scope('in', () => g.dense(g.layerNormalization(sum), 4 * width));
        return g.add(
          sum,
          g.scope('out', () => g.dense(g.gelu(wide, 'tanh'), width, { gain: small(layers) })),
        );
      });
    });
  x = g.layerNormalization(x);
  g.output('logits', g.matmul(x, g.transpose(table, [1, 0])));
}

/** Branches are scaled by how many there are (section 2.3 of the paper). */
function small(layers: number): number {
  return 1 / Math.sqrt(2 * layers);
}

function attention(
  g: Layers,
  x: Value,
  mask: Value,
  { hidden: width, heads, layers }: Numbers,
  cache: (key: Value, value: Value) => readonly [Value, Value],
): Value {
  const mixed = g.scope('in', () => g.dense(g.layerNormalization(x), 3 * width));
  const apart = (y: Value) => g.transpose(g.reshape(y, [0, 0, heads, width / heads]), [0, 2, 1, 3]);
  const [query, ...own] = g.split(mixed, [width, width, width], 2).map(apart) as [Value, Value, Value];
  const [key, value] = cache(own[0], own[1]);
  const scores = g.mul(g.matmul(query, g.transpose(key, [0, 1, 3, 2])), 1 / Math.sqrt(width / heads));
  const seen = g.matmul(g.softmax(g.add(scores, mask), -1), value);
  const joined = g.reshape(g.transpose(seen, [0, 2, 1, 3]), [0, 0, width]);
  return g.scope('out', () => g.dense(joined, width, { gain: small(layers) }));
}
