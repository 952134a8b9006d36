// Kernels that may write over their input give the same bits in place as elsewhere, for every length and division.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { inPlaceFields } from '../../src/compiler/in-place.js';
import type { ConstantPool } from '../../src/compiler/plan.js';
import { Program } from '../../src/compiler/program.js';
import type { Graph } from '../../src/graph/graph.js';
import { decode } from '../../src/tensor/convert.js';
import type { Tensor } from '../../src/tensor/tensor.js';
import { assertSameBits, builds, runGraph } from '../operators/harness.js';
import { feedsOf, graphOf } from './fusion.js';

/** One graph a kernel of the table: steps whose input dies at once, so that they run in place. */
const chains: Record<string, (length: number) => Graph> = {
  channelNorm: (n) =>
    graphOf([2, 3, n], (g, x) => {
      const v = g.op('Abs', [g.weights([3])]);
      return g.op('BatchNormalization', [g.neg(x), g.weights([3]), g.weights([3]), g.weights([3]), v]);
    }),
  rowNorm: (n) =>
    graphOf([3, 2, n], (g, x) => {
      const y = g.op('LayerNormalization', [g.neg(x), g.weights([n]), g.weights([n])], { axis: -1 });
      return g.op('GroupNormalization', [y, g.weights([2]), g.weights([2])], { num_groups: 1 });
    }),
  scan: (n) =>
    graphOf([3, n], (g, x) => {
      const y = g.op('CumSum', [g.neg(x), g.scalar('int64', 1)], { exclusive: 1 });
      return g.op('CumSum', [y, g.scalar('int64', 0)], { reverse: 1 });
    }),
  softmaxF32: (n) =>
    graphOf([3, n], (g, x) => {
      const y = g.op('LogSoftmax', [g.op('Softmax', [g.neg(x)], { axis: 0 })], { axis: 1 });
      return g.op('LogSoftmax', [y], { axis: 0 });
    }),
  unaryF32: (n) => graphOf([n], (g, x) => g.exp(g.sqrt(g.abs(g.neg(g.sigmoid(g.tanh(x))))))),
  broadcast: (n) =>
    graphOf([3, n], (g, x) => {
      const y = g.sub(g.mul(g.neg(x), g.weights([n])), g.weights([3, 1]));
      return g.add(g.weights([3, n]), g.op('Pow', [g.abs(y), g.scalar('float32', 1.5)]));
    }),
};

test('every kernel of the table has a chain here', () => {
  assert.equal(Object.keys(chains).sort(), Object.keys(inPlaceFields).sort());
});

for (const [kernel, chain] of Object.entries(chains))
  test(`${kernel} in place, in pieces and whole`, () => {
    for (const length of [1, 3, 4, 7, 64, 1023, 1029, 4097])
      for (const build of builds) {
        const graph = chain(length);
        const feeds = feedsOf(graph);
        const values = graph.nodes.flatMap((node) => node.outputs);
        // Every value wanted: nothing dies, so nothing is in place.
        const all = { ...graph, outputs: values.map((name) => ({ name })) };
        const apart = runGraph(all, feeds, build, { fuse: false });
        for (const divide of [false, true]) {
          const { outputs, kernels } = runGraph(graph, feeds, build, { fuse: false, divide });
          assert.ok(kernels.includes(kernel));
          assertSameBits(outputs.get('y0')!, apart.outputs.get('y0')!, `${kernel} of ${length}`);
        }
      }
  });

/** A place for constants nobody reads. */
const pool: ConstantPool = {
  place(_key, bytes, fill) {
    fill(new Uint8Array(bytes));
    return 65536;
  },
};

/** Bytes of the arena, the input and the result. */
function bytesOf(graph: Graph): number {
  const feeds = new Map(
    [...feedsOf(graph)].map(([n, t]) => [n, { type: (t as Tensor).type, dims: (t as Tensor).dims }]),
  );
  const program = new Program(graph, { build: 'plain', fuse: false }, pool);
  const { plan } = program.begin(
    feeds,
    graph.outputs.map((o) => o.name),
  );
  return plan.externals.reduce((sum, e) => sum + e.bytes, plan.arenaBytes);
}

test('a chain takes one buffer beside its input, which it leaves as it is', () => {
  const n = 4096;
  const bytes = 4 * n;
  assert.ok(bytesOf(chains.unaryF32!(n)) < 2.1 * bytes);
  assert.ok(bytesOf(chains.broadcast!(n)) < 2.1 * 3 * bytes);
});

test('an operand that is repeated is not overwritten, though it has as many bytes', () => {
  // 4 floats are as many bytes as 16 bools.
  const graph = graphOf([4], (g, x) => {
    const a = g.neg(x);
    return g.op('Cast', [g.op('Less', [a, g.weights([4, 4])])], { to: 1 });
  });
  const feeds = feedsOf(graph);
  const less = runGraph(graph, feeds, 'plain', { fuse: false }).outputs.get('y0') as Tensor;
  const reference = runGraph(graph, feeds, 'plain', { fuse: false, kernels: false }).outputs.get('y0') as Tensor;
  assert.equal(Array.from(decode(less)), Array.from(decode(reference)));
});

test.run();
