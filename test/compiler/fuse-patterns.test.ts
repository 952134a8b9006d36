// The exported spellings of activations and normalizations, and nodes that compute what is there already.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { float, type GraphBuilder, type Value } from '../../src/graph/builder.js';
import type { Tensor } from '../../src/tensor/tensor.js';
import { runGraph } from '../operators/harness.js';
import { checkFusion, checkUntouched, feedsOf, graphOf } from './fusion.js';

const dims = [2, 3, 8];
const activation = ['skep:Activation'];
const spell = (f: (g: GraphBuilder, x: Value) => Value) => graphOf(dims, (g, x) => f(g, g.neg(x)));

test('HardSwish in its spellings', () => {
  const gate = (g: GraphBuilder, x: Value) => g.clip(g.add(x, 3), 0, 6);
  const spellings: ((g: GraphBuilder, x: Value) => Value)[] = [
    (g, x) => g.div(g.mul(x, gate(g, x)), 6),
    (g, x) => g.mul(g.mul(gate(g, x), x), 1 / 6),
    (g, x) => g.mul(x, g.div(gate(g, x), 6)),
    (g, x) => g.mul(x, g.unary('HardSigmoid', x, { alpha: float(1 / 6), beta: float(0.5) })),
  ];
  for (const s of spellings) checkFusion(spell(s), ['Neg', ...activation]);
  checkFusion(
    spell((g, x) => g.div(gate(g, x), 6)),
    ['Neg', ...activation],
  );
});

test('Swish, with and without a factor, and Mish', () => {
  checkFusion(
    spell((g, x) => g.mul(x, g.sigmoid(x))),
    ['Neg', ...activation],
  );
  checkFusion(
    spell((g, x) => g.mul(g.sigmoid(g.mul(x, 1.702)), x)),
    ['Neg', ...activation],
  );
  checkFusion(
    spell((g, x) => g.mul(x, g.tanh(g.unary('Softplus', x)))),
    ['Neg', ...activation],
  );
});

test('Gelu by erf, however its product is written', () => {
  const gate = (g: GraphBuilder, x: Value) => g.add(g.erf(g.div(x, Math.SQRT2)), 1);
  const spellings: ((g: GraphBuilder, x: Value) => Value)[] = [
    (g, x) => g.mul(g.mul(x, gate(g, x)), 0.5),
    (g, x) => g.mul(g.mul(x, 0.5), gate(g, x)),
    (g, x) => g.mul(x, g.mul(0.5, gate(g, x))),
    (g, x) => g.mul(g.mul(x, 0.5), g.add(1, g.erf(g.mul(x, Math.SQRT1_2)))),
  ];
  for (const s of spellings) checkFusion(spell(s), ['Neg', ...activation]);
});

test('Gelu by tanh, with powers and with products', () => {
  const k = Math.sqrt(2 / Math.PI);
  const outer = (g: GraphBuilder, x: Value, u: Value) => g.mul(g.mul(x, 0.5), g.add(g.tanh(u), 1));
  const spellings: ((g: GraphBuilder, x: Value) => Value)[] = [
    (g, x) => outer(g, x, g.mul(g.add(x, g.mul(g.pow(x, 3), 0.044715)), k)),
    (g, x) => outer(g, x, g.mul(k, g.add(x, g.mul(0.044715, g.mul(x, g.mul(x, x)))))),
    (g, x) => outer(g, x, g.mul(g.mul(x, k), g.add(1, g.mul(g.mul(x, 0.044715), x)))),
  ];
  for (const s of spellings) checkFusion(spell(s), ['Neg', ...activation]);
});

test('what only looks like an activation stays what it is', () => {
  checkFusion(
    spell((g, x) => g.div(g.mul(x, g.clip(g.add(x, 3), 0, 6)), 5)),
    ['Neg', 'skep:Add', 'Mul', 'Div'],
  );
  checkUntouched(spell((g, x) => g.mul(x, g.sigmoid(g.neg(x)))));
  checkUntouched(spell((g, x) => g.mul(g.mul(x, g.add(g.erf(g.div(x, 1.5)), 1)), 0.5)));
  checkUntouched(spell((g, x) => g.mul(g.mul(x, 0.5), g.add(g.tanh(x), 2))));
});

test('a part of the pattern that someone else reads stays computed', () => {
  const graph = graphOf(dims, (g, x) => {
    const s = g.sigmoid(x);
    return [g.mul(x, s), s];
  });
  checkUntouched(graph);
});

test('two scalar operations become one, one stays', () => {
  checkFusion(
    spell((g, x) => g.add(g.mul(x, 0.5), 0.25)),
    ['Neg', ...activation],
  );
  checkFusion(
    spell((g, x) => g.sub(1, g.div(g.add(g.mul(x, 0.5), 0.25), 4))),
    ['Neg', ...activation],
  );
  checkUntouched(spell((g, x) => g.mul(x, 0.5)));
});

function layerNorm(
  g: GraphBuilder,
  x: Value,
  options: { axes?: number[]; twoSubs?: boolean; rms?: boolean } = {},
): Value {
  const axes = options.axes ?? [-1];
  const mean = (v: Value) => g.op('ReduceMean', [v, g.ints(axes)]);
  const d = options.rms ? x : g.sub(x, mean(x));
  const again = options.twoSubs ? g.sub(x, mean(x)) : d;
  const variance = mean(g.pow(again, 2));
  return g.div(d, g.sqrt(g.add(variance, 1e-5)));
}

test('layer normalization from primitives', () => {
  checkFusion(
    graphOf(dims, (g, x) => g.add(g.mul(layerNorm(g, x), g.weights([8])), g.weights([8]))),
    ['LayerNormalization'],
  );
  checkFusion(
    graphOf(dims, (g, x) => g.mul(g.weights([3, 8]), layerNorm(g, x, { axes: [1, 2] }))),
    ['LayerNormalization'],
  );
});

test('RMS normalization from primitives', () => {
  checkFusion(
    graphOf(dims, (g, x) => g.mul(layerNorm(g, x, { rms: true }), g.weights([8]))),
    ['RMSNormalization'],
  );
});

test('a mean over another axis, or a scale of another shape, is no layer normalization', () => {
  const rest = ['ReduceMean', 'Sub', 'Pow', 'ReduceMean', 'Add', 'Sqrt', 'Div', 'Mul'];
  const steps = (build: (g: GraphBuilder, x: Value) => Value) => {
    const graph = graphOf(dims, build);
    return runGraph(graph, feedsOf(graph)).operators;
  };
  assert.equal(
    steps((g, x) => g.mul(layerNorm(g, x, { axes: [1] }), g.weights([8]))),
    rest,
  );
  assert.equal(
    steps((g, x) => g.mul(layerNorm(g, x), g.weights([3, 8]))),
    rest,
  );
});

test('identities cost nothing in all their spellings', () => {
  const graph = graphOf([2, 3, 8], (g, x) => {
    let y = g.unary('Identity', g.neg(x));
    y = g.op('Dropout', [y]);
    y = g.cast(y, 'float32');
    y = g.mul(y, 1);
    y = g.div(g.add(y, 0), 1);
    y = g.op('Slice', [y, g.ints([0]), g.ints([100]), g.ints([1])]);
    y = g.op('Concat', [y], { axis: 1 });
    y = g.op('Pad', [y, g.ints([0, 0, 0, 0, 0, 0])]);
    y = g.op('Expand', [y, g.ints([1, 3, 8])]);
    y = g.transpose(y, [0, 1, 2]);
    return g.neg(y);
  });
  checkFusion(graph, ['Neg']);
});

test('a dropout whose mask is read stays, one that trains too', () => {
  checkUntouched(graphOf(dims, (g, x) => g.op('Dropout', [g.neg(x)], {}, [{}, { type: 'bool' }])));
  const graph = graphOf(dims, (g, x) => g.abs(g.op('Dropout', [g.neg(x)], {}, [{}, { type: 'bool' }])[0]!));
  checkFusion(graph, ['Neg', 'Abs']);
  const training = graphOf(dims, (g, x) =>
    g.abs(g.op('Dropout', [g.neg(x), g.scalar('float32', 0), g.constant('bool', [true], [])])),
  );
  checkFusion(training, ['Neg', 'Dropout', 'Abs']);
});

test('what changes elements or shape is no identity', () => {
  checkUntouched(spell((g, x) => g.op('Slice', [x, g.ints([-1]), g.ints([-100]), g.ints([1]), g.ints([-1])])));
  checkUntouched(spell((g, x) => g.op('Pad', [x, g.ints([0, 0, 1, 0, 0, -1])])));
  checkUntouched(spell((g, x) => g.mul(x, g.constant('float32', [1, 1], [2, 1, 1, 1]))));
});

test('transposes that undo each other vanish, others become one', () => {
  checkFusion(
    graphOf(dims, (g, x) => g.neg(g.transpose(g.transpose(g.abs(x), [2, 0, 1]), [1, 2, 0]))),
    ['Abs', 'Neg'],
  );
  const graph = graphOf(dims, (g, x) => g.transpose(g.transpose(x, [2, 0, 1]), [0, 2, 1]));
  const { operators } = runGraph(graph, feedsOf(graph));
  assert.equal(operators, ['Transpose']);
});

test('reshapes in a row are one', () => {
  checkFusion(
    graphOf([2, 3, 8], (g, x) => {
      const y = g.unsqueeze(g.flatten(g.reshape(g.abs(x), [6, 2, 4])), [0]);
      return g.neg(g.reshape(g.squeeze(y, [0]), [2, 3, 8]));
    }),
    ['Abs', 'Neg'],
  );
});

test('an output keeps its name where its node would vanish', () => {
  const graph = graphOf(dims, (g, x) => {
    const a = g.abs(x);
    return [g.unary('Identity', a), g.unary('Identity', x), g.mul(a, 1)];
  });
  const feeds = feedsOf(graph);
  const { outputs } = runGraph(graph, feeds);
  const x = feeds.get('x') as Tensor;
  assert.equal((outputs.get('y1') as Tensor).data, x.data);
  const absolute = Float32Array.from(x.data as Float32Array, Math.abs);
  for (const name of ['y0', 'y2']) assert.equal((outputs.get(name) as Tensor).data, absolute);
});

test.run();
