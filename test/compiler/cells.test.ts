// How recurrent graphs are cut into stages, and why others are not.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { networks } from '../../models/index.js';
import { type Cut, describeStages, timesOf, type Uncut } from '../../src/compiler/cell-stages.js';
import { Cutter } from '../../src/compiler/cells.js';
import { GraphBuilder, type Value } from '../../src/graph/builder.js';
import type { Graph } from '../../src/graph/graph.js';
import { readModel } from '../../src/onnx/reader.js';
import { timeAxes } from '../../src/serving/cells.js';
import type { DataType } from '../../src/tensor/types.js';
import { random } from '../serving/random.js';
import { recurrentModel } from '../serving/recurrent.js';
import { stormy } from '../stress/cells.js';

type Fed = Record<string, readonly [type: DataType, ...dims: number[]]>;

function cut(graph: Graph, fed: Fed, wanted = graph.outputs.map((o) => o.name)): Cut | Uncut {
  const inputs = graph.inputs.filter((v) => !graph.initializers.has(v.name));
  const infos = Object.entries(fed).map(([name, [type, ...dims]]) => [name, { type, dims }] as const);
  return new Cutter(graph, timeAxes(inputs)).cut(new Map(infos), wanted);
}

const kinds = (c: Cut | Uncut) =>
  'why' in c ? c.why : c.stages.map((s) => `${s.kind} ${s.order} ${s.length}`).join(', ');

test('a language model: rows, steps, rows, steps, rows, each as the one before it goes on', () => {
  const { graph } = networks.get('lstm-lm')!.build({ size: 'tiny' });
  const c = cut(graph, { tokens: ['int64', 1, 20] });
  assert.is(
    kinds(c),
    'rows first 3, steps stepwise 20, rows stepwise 3, steps stepwise 20, rows stepwise 3, end after 1',
  );
  assert.equal(timesOf(c as Cut), new Map([['tokens', 1]]));
  const words = describeStages(c as Cut);
  assert.match(words[0]!, /^rows, 8 of 20 times at once: Gather, Transpose, Projection$/);
  assert.match(words[1]!, /^steps, one time after the other: LSTM/);
  assert.is(words.at(-1), 'end: the answer');
  // Values lie apart in the block, which holds them all.
  const { stages, bytes } = c as Cut;
  const places = stages.flatMap((s) => (s.kind === 'rows' ? s.outputs.map((o) => o.place) : []));
  const offsets = places.map((p) => (p.kind === 'block' ? p.offset : -1));
  assert.is(new Set(offsets).size, offsets.length);
  assert.ok(offsets.every((o) => o >= 0 && o < bytes));
});

/** A layer of 8 units over x [time, batch, 8], with something before it. */
function layer(before: (g: GraphBuilder, x: Value) => Value = (_, x) => x): Graph {
  const g = new GraphBuilder('layer');
  const x = g.input('x', 'float32', ['time', 'batch', 8]);
  const { y, h } = g.lstm(before(g, x), g.weights([1, 32, 8]), g.weights([1, 32, 8]));
  g.output('y', y);
  g.output('h', h);
  return g.model().graph;
}

function directed(direction: 'forward' | 'reverse' | 'bidirectional'): Graph {
  const o = {
    ...stormy,
    layers: 1,
    input: 8,
    hidden: 8,
    direction,
    before: 'nothing' as const,
    after: 'nothing' as const,
  };
  return readModel(new Uint8Array(recurrentModel(o, random(1)))).graph;
}

test('what needs all times waits for them: a backward direction, and what is not proved row by row', () => {
  const fed: Fed = { x: ['float32', 10, 1, 8] };
  assert.is(kinds(cut(layer(), fed)), 'rows first 2, steps stepwise 10, end after 1');
  assert.is(kinds(cut(directed('forward'), fed)), 'rows first 2, steps stepwise 10, end after 1');
  assert.is(kinds(cut(directed('reverse'), fed)), 'rows first 2, steps after 10, end after 1');
  assert.is(kinds(cut(directed('bidirectional'), fed)), 'rows first 2, steps after 10, end after 1');
  const mixed = layer((g, x) => g.softmax(x, 0));
  assert.is(kinds(cut(mixed, fed)), 'whole first 1, rows after 2, steps stepwise 10, end after 1');
});

test('with a batch of rows a chunk has fewer times', () => {
  const c = cut(layer(), { x: ['float32', 10, 4, 8] });
  assert.is(kinds(c), 'rows first 5, steps stepwise 10, end after 1');
});

test('why others are not cut', () => {
  assert.is(kinds(cut(layer(), { x: ['float32', 3, 1, 8] })), 'a sequence of 3 is run whole');
  const { graph } = networks.get('lenet')!.build({ size: 'tiny' });
  assert.match(kinds(cut(graph, {})), /no recurrent layer/);
  const heavy = layer((g, x) => {
    let h = x;
    for (let i = 0; i < 12; i++) h = g.softmax(g.matmul(h, g.weights([8, 8])), 0);
    return h;
  });
  assert.match(kinds(cut(heavy, { x: ['float32', 10, 1, 8] })), /% of its operations do not go step by step/);
  const network = networks.get('seq2seq')!;
  const model = network.build({ size: 'tiny' });
  const feeds = network.feeds(model, { batch: 1, source: 9 }, { size: 'tiny' });
  const fed = Object.fromEntries([...feeds].map(([name, t]) => [name, [t.type, ...t.dims] as const]));
  assert.match(kinds(cut(model.graph, fed)), /Loop .*: it has a subgraph/);
});

test.run();
