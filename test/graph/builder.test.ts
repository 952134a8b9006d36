// The builder: what it declares of values, names, weights, and that the written model is the built one.
import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { float, GraphBuilder } from '../../src/graph/builder.js';
import { Random } from '../../src/graph/random.js';
import { readModel } from '../../src/onnx/reader.js';
import { writeModel } from '../../src/onnx/writer.js';
import { SkepError } from '../../src/tensor/errors.js';
import { everything } from './everything.js';

function rejects(run: () => unknown, pattern: RegExp): void {
  assert.throws(run, (e: unknown) => e instanceof SkepError && pattern.test(e.message));
}

test('a small network has the shapes ONNX gives it', () => {
  const g = new GraphBuilder('net');
  const x = g.input('x', 'float32', ['batch', 3, 224, 224]);
  const c = g.relu(g.conv2d(x, g.weights([64, 3, 7, 7]), undefined, { strides: [2, 2], pads: [3, 3, 3, 3] }));
  assert.equal(c.dims, ['batch', 64, 112, 112]);
  const p = g.maxPool(c, [3, 3], { strides: [2, 2], pads: [1, 1, 1, 1] });
  assert.equal(p.dims, ['batch', 64, 56, 56]);
  assert.equal(g.maxPool(c, [3, 3], { strides: [2, 2], ceilMode: true }).dims, ['batch', 64, 56, 56]);
  assert.equal(g.averagePool(c, [3, 3], { strides: [2, 2], autoPad: 'SAME_UPPER' }).dims, ['batch', 64, 56, 56]);
  const d = g.depthwiseConv2d(p, g.weights([64, 1, 3, 3]), g.weights([64]), { pads: [1, 1, 1, 1] });
  assert.equal(d.dims, ['batch', 64, 56, 56]);
  const f = g.flatten(g.globalAveragePool(d));
  assert.equal(f.dims, ['batch', 64]);
  const y = g.softmax(g.linear(f, g.weights([64, 10]), g.weights([10])));
  assert.equal(y.dims, ['batch', 10]);
  g.output('y', y);
  const model = g.model();
  assert.equal(model.graph.outputs, [{ name: 'y', type: { kind: 'tensor', type: 'float32', dims: ['batch', 10] } }]);
  assert.equal(readModel(writeModel(model)), model);
});

test('every method, in every operator set: types and ranks are declared, and the file is the model', () => {
  for (let opset = 17; opset <= 27; opset++) {
    const model = everything(opset);
    assert.ok(model.graph.outputs.length > 80);
    for (const { name, type } of model.graph.outputs) {
      assert.ok(type?.kind === 'tensor' && type.dims !== undefined, `${name} of ${opset}`);
      if (type?.kind === 'tensor') assert.not(type.dims!.includes(null), `${name} of ${opset}`);
    }
    assert.ok(model.graph.nodes.every((n) => n.opset === opset));
    assert.equal(readModel(writeModel(model)), model);
  }
});

test('shape rules of the rearranging methods', () => {
  const g = new GraphBuilder('shapes');
  const x = g.input('x', 'float32', ['n', 6, 8]);
  assert.equal(g.reshape(x, [0, 0, 2, -1]).dims, ['n', 6, 2, 4]);
  assert.equal(g.reshape(x, [-1, 6, 8]).dims, [null, 6, 8]);
  assert.equal(g.reshape(x, [-1, 0, 0]).dims, ['n', 6, 8]);
  assert.equal(g.transpose(x, [2, 0, 1]).dims, [8, 'n', 6]);
  assert.equal(g.concat([x, x], -1).dims, ['n', 6, 16]);
  assert.equal(g.slice(x, [1, -3], [5, 100], [1, 2], [2, 1]).dims, ['n', 2, 3]);
  assert.equal(g.slice(x, [-1], [-100], [2], [-1]).dims, ['n', 6, 8]);
  assert.equal(
    g.split(x, [2, 4], 1).map((v) => v.dims),
    [
      ['n', 2, 8],
      ['n', 4, 8],
    ],
  );
  assert.equal(g.gather(x, 0, 1).dims, ['n', 8]);
  assert.equal(g.squeeze(g.unsqueeze(x, [0, -1]), [0]).dims, ['n', 6, 8, 1]);
  assert.equal(g.reduceMean(x, [-1]).dims, ['n', 6, 1]);
  assert.equal(g.argMax(x, 2, false).dims, ['n', 6]);
  assert.is(g.argMax(x, 2).type, 'int64');
  assert.equal(g.add(x, g.weights([6, 1])).dims, ['n', 6, 8]);
  assert.equal(g.matmul(x, g.weights([8, 5])).dims, ['n', 6, 5]);
  assert.equal(g.less(x, 0).type, 'bool');
  assert.equal(g.attention(x, x, x, { heads: 2 }).dims, ['n', 6, 8]);
  const { y, h } = g.lstm(x, g.weights([2, 16, 8]), g.weights([2, 16, 4]), undefined, { direction: 'bidirectional' });
  assert.equal(y.dims, ['n', 2, 6, 4]);
  assert.equal(h.dims, [2, 6, 4]);
  assert.equal(g.gru(x, g.weights([1, 12, 8]), g.weights([1, 12, 4])).h.dims, [1, 6, 4]);
});

test('a wrong shape, name or attribute is refused with words', () => {
  const g = new GraphBuilder('bad');
  const x = g.input('x', 'float32', ['n', 6]);
  rejects(() => g.add(x, g.weights([5])), /Add: shapes \[n, 6\] and \[5\] do not broadcast/);
  rejects(() => g.matmul(x, g.weights([5, 2])), /do not multiply/);
  rejects(() => g.input('x', 'float32', []), /name 'x' is taken/);
  rejects(() => g.op('Elu', [x], { alpha: 0.5 }), /write floats as float\(0.5\)/);
  rejects(() => g.op('Upsample', [x], { scales: [0.5, 2] }), /Float32Array/);
  rejects(() => g.softmax(g.transpose(x, [1, 0])) && g.concat([x], 7), /axis 7 is outside rank 2/);
  rejects(() => new GraphBuilder('old', { opset: 9 }), /17 to 27, not 9/);
});

test('outputs take their names: of nodes by renaming, of anything else by Identity', () => {
  const g = new GraphBuilder('names');
  const x = g.input('x', 'float32', [2]);
  const y = g.relu(x);
  const z = g.neg(y);
  g.output('y', y);
  g.output('same', y);
  g.output('through', x);
  g.output('z', z);
  const { graph } = g.model();
  assert.equal(
    graph.outputs.map((o) => o.name),
    ['y', 'same', 'through', 'z'],
  );
  assert.equal(
    graph.nodes.map((n) => [n.op, n.inputs, n.outputs]),
    [
      ['Relu', ['x'], ['y']],
      ['Neg', ['y'], ['z']],
      ['Identity', ['y'], ['same']],
      ['Identity', ['x'], ['through']],
    ],
  );
});

test('subgraphs capture values of the graph around them, also renamed ones', () => {
  const g = new GraphBuilder('branches');
  const x = g.input('x', 'float32', ['n']);
  const c = g.input('c', 'bool', []);
  const r = g.relu(x);
  const then = g.subgraph('then', (s) => s.output('a', s.add(r, 1)));
  const other = g.subgraph('else', (s) => s.output('b', r));
  const [y] = g.op('If', [c], { then_branch: then, else_branch: other }, [{ type: 'float32', dims: ['n'] }]);
  g.output('r', r);
  g.output('y', y!);
  const model = g.model();
  const branch = model.graph.nodes.find((n) => n.op === 'If')!.attributes;
  assert.ok(JSON.stringify(branch.then_branch).includes('"inputs":["r","const'));
  assert.equal(readModel(writeModel(model)), model);
});

test('an omitted input is an empty name, trailing ones are left out', () => {
  const g = new GraphBuilder('omitted');
  const x = g.input('x', 'float32', ['n']);
  g.output('y', g.clip(x, undefined, 6));
  g.output('z', g.op('Clip', [x, undefined, undefined]));
  g.output('q', g.op('com.microsoft:QuickGelu', [x], { alpha: float(1.7) }));
  const model = g.model();
  assert.equal(model.graph.nodes[0]!.inputs.slice(0, 2), ['x', '']);
  assert.equal(model.graph.nodes[1]!.inputs, ['x']);
  assert.is(model.graph.nodes[2]!.domain, 'com.microsoft');
  assert.equal(
    [...model.opsets],
    [
      ['', 20],
      ['com.microsoft', 1],
    ],
  );
});

test('scopes prefix names, equal small constants are shared', () => {
  const g = new GraphBuilder('scoped');
  const x = g.input('x', 'float32', [4, 4]);
  g.output(
    'y',
    g.scope('block', () => g.add(g.add(g.matmul(x, g.weights([4, 4], { name: 'w' })), 1), 1)),
  );
  const { graph } = g.model();
  assert.ok(graph.initializers.has('block/w'));
  assert.is(graph.initializers.size, 2);
  assert.is(graph.nodes[0]!.name, 'block/MatMul_0');
});

test('weights are the same for the same seed, and within their bounds', () => {
  const draw = (seed: number) => {
    const g = new GraphBuilder('w', { seed });
    return [g.weights([4, 8]), g.weights([3], { scale: 0.5, offset: 2 })].map(
      (v) => g.graph().initializers.get(v.name)!.data as Float32Array,
    );
  };
  assert.equal(draw(7), draw(7));
  assert.not.equal(draw(7), draw(8));
  const [w, b] = draw(7);
  assert.ok(w!.every((x) => Math.abs(x) <= Math.sqrt(3 / 8)));
  assert.ok(b!.every((x) => x >= 1.5 && x < 2.5));
});

test('the generator is PCG-XSH-RR: it agrees with the definition in BigInt', () => {
  const MASK = (1n << 64n) - 1n;
  const slow = (seed: number) => {
    let state = 0n;
    const step = () => {
      const old = state;
      state = (old * 6364136223846793005n + 1442695040888963407n) & MASK;
      const mixed = (((old >> 18n) ^ old) >> 27n) & 0xffffffffn;
      const turn = old >> 59n;
      return Number(((mixed >> turn) | (mixed << (-turn & 31n))) & 0xffffffffn);
    };
    step();
    state = (state + BigInt.asUintN(64, BigInt(seed))) & MASK;
    step();
    return step;
  };
  fc.assert(
    fc.property(fc.maxSafeInteger(), (seed) => {
      const fast = new Random(seed);
      const step = slow(seed);
      for (let i = 0; i < 20; i++) assert.is(fast.next(), step());
    }),
  );
});

test.run();
