// One model with a call of every method of the builder, each an output: for tests of the builder, the writer, and engines.
import { float, GraphBuilder, type Value } from '../../src/graph/builder.js';
import type { OutputType } from '../../src/graph/builder-core.js';
import type { Model } from '../../src/graph/graph.js';

/** Inputs: x [n, 4, 8, 8], s [n, 6, 8] (positive), ids int64 [n, 6] below 10, flag. */
export function everything(opset: number): Model {
  const g = new GraphBuilder('everything', { opset });
  const x = g.input('x', 'float32', ['n', 4, 8, 8]);
  const s = g.input('s', 'float32', ['n', 6, 8]);
  const ids = g.input('ids', 'int64', ['n', 6]);
  const flag = g.input('flag', 'bool', []);
  const o = (name: string, v: Value, d?: OutputType) => g.output(name, v, d);
  for (const k of [
    'relu',
    'sigmoid',
    'tanh',
    'erf',
    'exp',
    'sqrt',
    'neg',
    'abs',
    'floor',
    'ceil',
    'reciprocal',
    'softplus',
    'softsign',
    'hardSwish',
    'leakyRelu',
    'elu',
    'hardSigmoid',
    'softmax',
    'logSoftmax',
    'silu',
    'gelu',
  ] as const)
    o(`u_${k}`, g[k](s));
  o('gelu_t', g.gelu(s, 'tanh'));
  o('clip', g.clip(s, undefined, 1));
  o('prelu', g.prelu(s, g.weights([8])));
  for (const k of [
    'add',
    'sub',
    'mul',
    'div',
    'pow',
    'min',
    'max',
    'equal',
    'less',
    'greater',
    'lessOrEqual',
    'greaterOrEqual',
  ] as const) {
    o(`b_${k}`, g[k](s, 2));
  }
  o('mod', g.mod(ids, 3));
  o('logic', g.not(g.and(g.or(g.less(s, 0), g.greater(s, 1)), g.less(s, 2))));
  o('where', g.where(g.less(s, 0), s, 1));
  o('cast', g.cast(s, 'int32'));
  const w = g.weights([6, 4, 3, 3]);
  o('conv', g.conv2d(x, w, g.weights([6]), { strides: [2, 2], pads: [1, 1, 1, 1] }));
  o('convsame', g.conv2d(x, w, undefined, { strides: [3, 3], autoPad: 'SAME_UPPER' }));
  o('convdil', g.conv2d(x, w, undefined, { dilations: [2, 2] }));
  o('dw', g.depthwiseConv2d(x, g.weights([4, 1, 3, 3]), g.weights([4])));
  o('mp', g.maxPool(x, [3, 3], { strides: [2, 2], pads: [1, 1, 1, 1] }));
  o('mpc', g.maxPool(x, [3, 3], { strides: [2, 2], ceilMode: true }));
  o('ap', g.averagePool(x, [3, 3], { strides: [2, 2], pads: [1, 1, 1, 1], countPadding: true }));
  o('gap', g.globalAveragePool(x));
  o('bn', g.batchNorm(x, g.weights([4], { offset: 1 }), g.weights([4]), g.weights([4]), g.weights([4], { offset: 3 })));
  o('ln', g.layerNorm(s, g.weights([8]), g.weights([8])));
  o('rms', g.rmsNorm(s, g.weights([8])));
  o('lin', g.linear(s, g.weights([8, 5]), g.weights([5])));
  const f = g.flatten(s);
  o('flat', f);
  o('gemm', g.gemm(f, g.weights([7, 48]), g.weights([7]), { transB: true, alpha: 0.5, beta: 2 }));
  o('resh', g.reshape(s, [0, 0, 2, -1]));
  o('tr', g.transpose(s, [2, 0, 1]));
  o('cat', g.concat([s, s], -1));
  o('sl', g.slice(s, [1, -3], [5, 100], [1, 2], [2, 1]));
  o('slneg', g.slice(s, [-1], [-100], [2], [-2]));
  for (const [i, part] of g.split(s, [2, 4], 1).entries()) o(`sp${i}`, part);
  o('ga', g.gather(s, 0, 1));
  o('emb', g.embedding(ids, g.weights([10, 3])));
  o('sq', g.squeeze(g.unsqueeze(s, [0, -1]), [0]));
  o('shape', g.shape(s));
  for (const k of ['reduceMean', 'reduceSum', 'reduceMax', 'reduceMin'] as const) {
    o(`r_${k}`, g[k](s, [-1]));
    o(`r2_${k}`, g[k](s, [1], false));
  }
  o('argmax', g.argMax(s, 2, false));
  const r = g.lstm(g.transpose(s, [1, 0, 2]), g.weights([2, 16, 8]), g.weights([2, 16, 4]), g.weights([2, 32]), {
    direction: 'bidirectional',
  });
  o('ly', r.y);
  o('lh', r.h);
  o('lc', r.c);
  const q = g.gru(g.transpose(s, [1, 0, 2]), g.weights([1, 12, 8]), g.weights([1, 12, 4]), g.weights([1, 24]), {
    linearBeforeReset: true,
  });
  o('gy', q.y);
  o('gh', q.h);
  o('att', g.attention(s, s, s, { heads: 2 }));
  const rr = g.relu(s);
  const then = g.subgraph('then', (b) => b.output('a', b.add(rr, 1)));
  const other = g.subgraph('else', (b) => b.output('b', rr));
  o('if', g.op('If', [flag], { then_branch: then, else_branch: other }, [{ type: 'float32', dims: ['n', 6, 8] }])[0]!);
  o('rr', rr);
  o('thr', s);
  o('celu', g.op('Celu', [s], { alpha: float(2) }), { dims: ['n', 6, 8] });
  return g.model();
}
