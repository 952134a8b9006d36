// Tree-LSTMs (Tai, Socher, Manning: Improved semantic representations from tree-structured LSTMs, 2015) as models of one
// cell, for a scheduler that unfolds trees: a leaf makes a state of a word, an inner cell one of its children's. Hidden
// size of cellular batching's experiments (Gao et al., 2018). Leaf and inner of the same seed belong together.
//
//   treelstm            binary (section 3.2, N = 2): words at the leaves, weights for left and right
//     -leaf             word → h, c                                          23,628,800 parameters
//     -inner            left_h, left_c, right_h, right_c → h, c              10,490,880 parameters
//   childsum-treelstm   any number of children (section 3.1): a word at every node, one sum of the children's h
//     -leaf             word → h, c                                          23,628,800 parameters (no forget gate)
//     -inner            word, children_h, children_c → h, c                  28,872,704 parameters
//
// Children are [batch, children, hidden]. A row with fewer is filled up with zeros, which changes nothing: they add
// nothing to the sum, and a forget gate times zero is zero.
import type { Value } from '../src/graph/builder.js';
import type { Layers } from './layers.js';
import { network } from './network.js';

const leafOptions = {
  vocabulary: 'words',
  embedding: 'numbers a word is embedded in',
  hidden: 'units of the cell',
};

const leafSizes = {
  tiny: { vocabulary: 29, embedding: 12, hidden: 16 },
  small: { vocabulary: 1000, embedding: 256, hidden: 256 },
  paper: { vocabulary: 20000, embedding: 1024, hidden: 1024 },
};

const words = ({ vocabulary }: { vocabulary: number }) => ({ word: [0, vocabulary] as const });

function embedded(g: Layers, vocabulary: number, embedding: number): Value {
  const word = g.input('word', 'int64', ['batch']);
  return g.part('words', () => g.embedding(word, g.weights([vocabulary, embedding], { scale: 1, name: 'embedding' })));
}

function state(g: Layers, h: Value, c: Value): void {
  g.output('h', h);
  g.output('c', c);
}

export const treeLstmLeaf = network({
  name: 'treelstm-leaf',
  summary: 'leaf of a binary TreeLSTM: a word to a state',
  options: leafOptions,
  sizes: leafSizes,
  ranges: words,
  build(g, { vocabulary, embedding, hidden }) {
    const x = embedded(g, vocabulary, embedding);
    const gates = g.part('leaf', () => g.dense(x, 3 * hidden));
    const [i, o, u] = g.split(gates, [hidden, hidden, hidden], 1) as [Value, Value, Value];
    const c = g.mul(g.sigmoid(i), g.tanh(u));
    state(g, g.mul(g.sigmoid(o), g.tanh(c)), c);
  },
});

export const treeLstmInner = network({
  name: 'treelstm-inner',
  summary: 'inner cell of a binary TreeLSTM: two states to one',
  options: { hidden: leafOptions.hidden },
  sizes: { tiny: { hidden: 16 }, small: { hidden: 256 }, paper: { hidden: 1024 } },
  build(g, { hidden }) {
    const side = (name: string) => g.input(name, 'float32', ['batch', hidden]);
    const left = { h: side('left_h'), c: side('left_c') };
    const right = { h: side('right_h'), c: side('right_c') };
    // The five gates of both sides in one product.
    const gates = g.part('inner', () => g.dense(g.concat([left.h, right.h], 1), 5 * hidden));
    const [i, l, r, o, u] = g.split(gates, new Array<number>(5).fill(hidden), 1) as [Value, Value, Value, Value, Value];
    const kept = g.add(g.mul(g.sigmoid(l), left.c), g.mul(g.sigmoid(r), right.c));
    const c = g.add(g.mul(g.sigmoid(i), g.tanh(u)), kept);
    state(g, g.mul(g.sigmoid(o), g.tanh(c)), c);
  },
});

export const childSumLeaf = network({
  name: 'childsum-treelstm-leaf',
  summary: 'leaf of a child-sum TreeLSTM: a word to a state',
  options: leafOptions,
  sizes: leafSizes,
  ranges: words,
  build(g, { vocabulary, embedding, hidden }) {
    const x = embedded(g, vocabulary, embedding);
    const gates = g.part('gates', () => g.dense(x, 3 * hidden));
    const [i, o, u] = g.split(gates, [hidden, hidden, hidden], 1) as [Value, Value, Value];
    const c = g.mul(g.sigmoid(i), g.tanh(u));
    state(g, g.mul(g.sigmoid(o), g.tanh(c)), c);
  },
});

export const childSumInner = network({
  name: 'childsum-treelstm-inner',
  summary: 'inner cell of a child-sum TreeLSTM: a word and any number of states to one',
  options: leafOptions,
  sizes: leafSizes,
  ranges: words,
  build(g, { vocabulary, embedding, hidden }) {
    const x = embedded(g, vocabulary, embedding);
    const childH = g.input('children_h', 'float32', ['batch', 'children', hidden]);
    const childC = g.input('children_c', 'float32', ['batch', 'children', hidden]);
    const own = g.part('gates', () => g.dense(x, 3 * hidden));
    const sum = g.reduceSum(childH, [1], false);
    const gates = g.add(
      own,
      g.part('sum', () => g.dense(sum, 3 * hidden, { bias: false })),
    );
    const [i, o, u] = g.split(gates, [hidden, hidden, hidden], 1) as [Value, Value, Value];
    const forget = g.part('forget', () => {
      const word = g.unsqueeze(g.dense(x, hidden), [1]);
      return g.sigmoid(g.add(g.linear(childH, g.matrix(hidden, hidden, 1, 'children')), word));
    });
    const kept = g.reduceSum(g.mul(forget, childC), [1], false);
    const c = g.add(g.mul(g.sigmoid(i), g.tanh(u)), kept);
    state(g, g.mul(g.sigmoid(o), g.tanh(c)), c);
  },
});
