// Attention written with products and a softmax becomes one node, and only where that is the same function.
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { GraphBuilder, Value } from '../../src/graph/builder.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { builds, runGraph } from '../operators/harness.js';
import { checkFusion, feedsOf, graphOf } from './fusion.js';

const width = 12;
const heads = 3;
const each = width / heads;

interface Shape {
  readonly batch: number;
  readonly queries: number;
  readonly keys: number;
}

/** The ways exporters write it. */
interface Form {
  readonly scale: 'mul' | 'div' | 'before' | 'none';
  readonly mask: 'none' | 'keys' | 'full' | 'where' | 'infinite';
  readonly transposed: 'once' | 'twice';
  readonly beside: boolean;
}

function exported(g: GraphBuilder, q: Value, s: Shape, f: Form): Value {
  const { batch, queries, keys } = s;
  const k = g.input('k', 'float32', [batch, keys, width]);
  const v = g.input('v', 'float32', [batch, keys, width]);
  const apart = (x: Value, perm: readonly number[]) => g.transpose(g.reshape(x, [0, 0, heads, each]), perm);
  const kT = f.transposed === 'once' ? apart(k, [0, 2, 3, 1]) : g.transpose(apart(k, [0, 2, 1, 3]), [0, 1, 3, 2]);
  let left = apart(q, [0, 2, 1, 3]);
  if (f.scale === 'before') left = g.mul(left, 0.4);
  let scores = g.matmul(left, kT);
  if (f.scale === 'mul') scores = g.mul(scores, 0.4);
  if (f.scale === 'div') scores = g.div(scores, 2.5);
  if (f.mask === 'keys') scores = g.add(scores, g.input('mask', 'float32', [batch, 1, 1, keys]));
  if (f.mask === 'full') scores = g.add(g.input('mask', 'float32', [batch, heads, queries, keys]), scores);
  if (f.mask === 'where' || f.mask === 'infinite') {
    // Every query sees its first key: the softmax of nothing is NaN.
    const seen = new Tensor('bool', [true, ...Array.from({ length: keys - 1 }, (_, i) => i % 2 === 0)], [1, 1, keys]);
    const hidden = f.mask === 'where' ? -1e9 : -Infinity;
    scores = g.where(g.tensor(seen, 'seen'), scores, hidden);
  }
  const y = g.matmul(g.softmax(scores, -1), apart(v, [0, 2, 1, 3]));
  return f.beside ? g.reshape(g.transpose(y, [0, 2, 1, 3]), [0, 0, width]) : y;
}

test('every form that exporters write is one node', () => {
  const arbitrary = fc.record({
    batch: fc.integer({ min: 1, max: 3 }),
    queries: fc.integer({ min: 1, max: 5 }),
    keys: fc.integer({ min: 1, max: 6 }),
    scale: fc.constantFrom('mul', 'div', 'before', 'none'),
    mask: fc.constantFrom('none', 'keys', 'full', 'where', 'infinite'),
    transposed: fc.constantFrom('once', 'twice'),
    beside: fc.boolean(),
  });
  fc.assert(
    fc.property(arbitrary, (s) => {
      const graph = graphOf([s.batch, s.queries, width], (g, q) => exported(g, q, s, s as Form));
      checkFusion(graph, s.beside ? ['skep:Attention'] : ['Transpose', 'skep:Attention'], { rtol: 1e-4, atol: 1e-4 });
    }),
    { numRuns: 60 },
  );
});

test('where the scores or the weights are wanted too, nothing is fused', () => {
  const graph = graphOf([1, 3, width], (g, q) => {
    const apart = (perm: readonly number[]) => g.transpose(g.reshape(q, [0, 0, heads, each]), perm);
    const weights = g.softmax(g.matmul(apart([0, 2, 1, 3]), apart([0, 2, 3, 1])), -1);
    return [g.matmul(weights, apart([0, 2, 1, 3])), weights];
  });
  assert.not.ok(runGraph(graph, feedsOf(graph)).operators.includes('skep:Attention'));
});

test('softmax over another axis, or a mask that broadcasts the scores, is no attention', () => {
  const other = graphOf([1, 4, 4, each], (g, q) =>
    g.matmul(g.softmax(g.matmul(q, g.transpose(q, [0, 1, 3, 2])), 2), q),
  );
  const wider = graphOf([1, 4, 4, each], (g, q) => {
    const scores = g.matmul(q, g.transpose(q, [0, 1, 3, 2]));
    return g.matmul(g.softmax(g.add(scores, g.input('mask', 'float32', [3, 1, 1, 4])), -1), q);
  });
  for (const graph of [other, wider])
    for (const build of builds)
      assert.not.ok(runGraph(graph, feedsOf(graph), build).operators.includes('skep:Attention'));
});

test('batches of matrices, heads among them, are attention of one head', () => {
  const graph = graphOf([6, 5, each], (g, q) => {
    const k = g.input('k', 'float32', [6, 7, each]);
    const v = g.input('v', 'float32', [6, 7, 3]);
    return g.matmul(g.softmax(g.matmul(g.mul(q, 0.5), g.transpose(k, [0, 2, 1])), -1), v);
  });
  checkFusion(graph, ['skep:Attention'], { rtol: 1e-4, atol: 1e-4 });
});

test('a query that sees nothing is NaN, as the softmax of nothing is, and no query beside it', () => {
  const [queries, keys] = [6, 5];
  // Queries 1 and 4 see nothing; 4 is beyond a tile of four.
  const hidden = new Tensor(
    'float32',
    Float32Array.from({ length: queries * keys }, (_, i) => ([1, 4].includes(Math.floor(i / keys)) ? -Infinity : 0)),
    [queries, keys],
  );
  const blind = (g: GraphBuilder, q: Value, how: 'add' | 'where') => {
    const k = g.input('k', 'float32', [2, keys, each]);
    const scores = g.matmul(q, g.transpose(k, [0, 2, 1]));
    const seen = new Tensor(
      'bool',
      Uint8Array.from(hidden.data as Float32Array, (v) => (v === 0 ? 1 : 0)),
      hidden.dims,
    );
    const masked =
      how === 'add' ? g.add(scores, g.tensor(hidden, 'mask')) : g.where(g.tensor(seen, 'seen'), scores, -Infinity);
    return g.matmul(g.softmax(masked, -1), k);
  };
  for (const how of ['add', 'where'] as const) {
    const graph = graphOf([2, queries, each], (g, q) => blind(g, q, how));
    checkFusion(graph, ['skep:Attention'], { rtol: 1e-4, atol: 1e-4 });
    for (const build of builds) {
      const y = runGraph(graph, feedsOf(graph), build).outputs.get('y0') as Tensor<'float32'>;
      y.data.forEach((v, i) => {
        assert.is(Number.isNaN(v), [1, 4].includes(Math.floor(i / each) % queries), `${how}, ${build}: element ${i}`);
      });
    }
  }
});

test.run();
