// How a graph becomes plans: constants folded, shapes evaluated, branches inlined, cut where data decides.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { describe, statisticsOf } from '../../src/compiler/describe.js';
import type { ConstantPool } from '../../src/compiler/plan.js';
import { type Feed, Program } from '../../src/compiler/program.js';
import type { Segment } from '../../src/compiler/segment.js';
import { GraphBuilder, type Value } from '../../src/graph/builder.js';
import type { Graph } from '../../src/graph/graph.js';
import { interpret } from '../../src/operators/evaluate.js';
import type { HostValue } from '../../src/operators/operator.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { assertClose, GraphRunner, runGraph } from '../operators/harness.js';
import { graphOf, numbers } from './fusion.js';

/** A pool that counts. */
class CountingPool implements ConstantPool {
  readonly filled: string[] = [];
  #top = 65536;

  place(key: string, bytes: number, fill: (into: Uint8Array) => void): number {
    this.filled.push(key);
    fill(new Uint8Array(bytes));
    this.#top += bytes + 64;
    return this.#top - bytes - 64;
  }
}

/** As the runtime's: each key once. */
class KeyedPool extends CountingPool {
  readonly #known = new Map<string, number>();

  override place(key: string, bytes: number, fill: (into: Uint8Array) => void): number {
    const at = this.#known.get(key) ?? super.place(key, bytes, fill);
    this.#known.set(key, at);
    return at;
  }
}

const float = (dims: readonly number[]): Feed => ({ type: 'float32', dims });

function begin(graph: Graph, feeds: Record<string, Feed>, wanted?: readonly string[], pool = new KeyedPool()): Segment {
  const program = new Program(graph, { build: 'plain' }, pool);
  return program.begin(new Map(Object.entries(feeds)), wanted ?? graph.outputs.map((o) => o.name));
}

const stepsOf = (s: Segment) => s.plan.steps.map((step) => step.operator);

/** Runs compiled, twice, and compares with the interpreter. */
function checkRun(graph: Graph, feeds: Record<string, HostValue>): GraphRunner {
  const runner = new GraphRunner(graph);
  const map = new Map(Object.entries(feeds));
  const want = interpret(graph, map);
  for (let round = 0; round < 2; round++) {
    const { outputs } = runner.run(map);
    for (const [name, value] of want) assertClose(outputs.get(name)!, value, {}, name);
  }
  return runner;
}

test('what follows from constants alone is computed once, before the plan', () => {
  const graph = graphOf([2, 3], (g, x) => g.add(x, g.mul(g.exp(g.weights([3])), g.weights([3]))));
  assert.equal(stepsOf(begin(graph, { x: float([2, 3]) })), ['Add']);
});

test('random numbers are not folded', () => {
  const graph = graphOf([2], (g, x) => g.add(x, g.op('RandomUniform', [], { shape: [2] })));
  const { operators } = runGraph(graph, new Map([['x', numbers([2])]]));
  assert.ok(operators.includes('RandomUniform'));
});

test('shape arithmetic costs no step', () => {
  const graph = graphOf([2, 3, 4], (g, x) => {
    const shape = g.op('Shape', [g.neg(x)], {}, [{ type: 'int64' }])[0]!;
    const rows = g.op('Gather', [shape, g.ints([0])]);
    const target = g.op('Concat', [rows, g.ints([-1])], { axis: 0 });
    return g.abs(g.op('Reshape', [x, target]));
  });
  const segment = begin(graph, { x: float([5, 3, 4]) });
  assert.is(segment.cut, undefined);
  assert.equal(stepsOf(segment), ['Abs']);
  assert.equal(segment.plan.results.get('y0')!, { ...segment.plan.results.get('y0')!, dims: [5, 12] });
});

test('only what is wanted is computed, and dead code never', () => {
  const graph = graphOf([4], (g, x) => {
    g.exp(g.exp(x));
    const a = g.neg(x);
    return [g.abs(a), g.sqrt(a)];
  });
  assert.equal(stepsOf(begin(graph, { x: float([4]) }, ['y1'])), ['Neg', 'Sqrt']);
  assert.equal(stepsOf(begin(graph, { x: float([4]) })), ['Neg', 'Abs', 'Sqrt']);
});

test('the dead code of a branch is not computed either', () => {
  const graph = graphOf([4], (g, x) => {
    const branch = (name: string) =>
      g.subgraph(name, (h) => {
        h.exp(h.exp(x));
        h.output(`${name}_out`, h.neg(x));
      });
    const attributes = { then_branch: branch('t'), else_branch: branch('e') };
    return g.op('If', [g.constant('bool', [true], [])], attributes, [{ type: 'float32' }])[0]!;
  });
  assert.equal(stepsOf(begin(graph, { x: float([4]) })), ['Neg']);
});

test('an input, a constant and a value under two names can be outputs', () => {
  const graph = graphOf([3], (g, x) => {
    const y = g.neg(x);
    return [x, g.weights([2]), y, g.unary('Identity', y)];
  });
  checkRun(graph, { x: numbers([3]) });
});

/** Reshape by a shape that only data tells. */
function dataShape(): Graph {
  const g = new GraphBuilder('cut');
  const x = g.input('x', 'float32', [2, 6]);
  const n = g.input('n', 'int64', [1]);
  const target = g.op('Concat', [g.op('Mul', [n, n]), g.ints([-1])], { axis: 0 });
  g.output('y', g.neg(g.op('Reshape', [g.abs(x), target])));
  return g.graph();
}

test('a shape in data cuts the plan in two; the second is kept per value', () => {
  const graph = dataShape();
  const first = begin(graph, { x: float([2, 6]), n: { type: 'int64', dims: [1] } });
  assert.is(first.cut?.kind, 'value');
  assert.equal(stepsOf(first).includes('Abs'), true);
  for (const n of [1n, 2n]) checkRun(graph, { x: numbers([2, 6]), n: new Tensor('int64', [n]) });
  assert.throws(
    () =>
      runGraph(
        graph,
        new Map<string, HostValue>([
          ['x', numbers([2, 6])],
          ['n', new Tensor('int64', [5n])],
        ]),
      ),
    /Reshape/,
  );
});

test('results whose shape depends on data cut the plan at their node', () => {
  const graph = graphOf([7], (g, x) => {
    const found = g.op('NonZero', [g.relu(x)], {}, [{ type: 'int64' }])[0]!;
    return g.add(g.op('Gather', [x, g.op('Squeeze', [found, g.ints([0])])]), 1);
  });
  const first = begin(graph, { x: float([7]) });
  assert.is(first.cut?.kind, 'host');
  checkRun(graph, { x: numbers([7]) });
  checkRun(graph, { x: new Tensor('float32', [0, 0, -1, 0, 0, 0, 0]) });
});

/** If over a condition fed, with a capture, a nested If and initializers of its own. */
function branches(): Graph {
  const g = new GraphBuilder('if');
  const x = g.input('x', 'float32', [3]);
  const c = g.input('c', 'bool', []);
  const d = g.input('d', 'bool', []);
  const shared = g.neg(x);
  const inner = (name: string, f: (h: GraphBuilder) => Value) => g.subgraph(name, (h) => h.output(`${name}_out`, f(h)));
  const deep = g.subgraph('outer_then', (h) => {
    const low = h.subgraph('inner_then', (k) => k.output('inner_then_out', k.exp(k.add(shared, k.weights([3])))));
    const high = h.subgraph('inner_else', (k) => k.output('inner_else_out', k.mul(x, 3)));
    const out = h.op('If', [d], { then_branch: low, else_branch: high }, [{ type: 'float32' }])[0]!;
    h.output('outer_then_out', h.abs(out));
  });
  const other = inner('outer_else', (h) => h.sqrt(h.abs(shared)));
  const y = g.op('If', [c], { then_branch: deep, else_branch: other }, [{ type: 'float32' }])[0]!;
  g.output('y', g.mul(y, 2));
  return g.graph();
}

const bool = (b: boolean) => new Tensor('bool', [b], []);

test('branches: nested, with captured names, each way', () => {
  const graph = branches();
  for (const c of [true, false])
    for (const d of [true, false]) checkRun(graph, { x: numbers([3]), c: bool(c), d: bool(d) });
});

test('a branch not taken costs nothing, and a known condition cuts nothing', () => {
  const graph = branches();
  const flag = (b: boolean): Feed => ({ type: 'bool', dims: [], value: bool(b) });
  const pool = new KeyedPool();
  const not = begin(graph, { x: float([3]), c: flag(false), d: flag(true) }, undefined, pool);
  assert.is(not.cut, undefined);
  assert.equal(
    stepsOf(not).filter((s) => s !== 'skep:Activation'),
    ['Neg', 'Abs', 'Sqrt', 'Mul'],
  );
  assert.equal(
    pool.filled.filter((k) => k.includes('weight')),
    [],
  );
  const taken = begin(graph, { x: float([3]), c: flag(true), d: flag(true) });
  assert.ok(stepsOf(taken).includes('Exp') && !stepsOf(taken).includes('Sqrt'));
});

test('a model may ask for another type or shape of a branch at every run', () => {
  const g = new GraphBuilder('kinds');
  const x = g.input('x', 'float32', [4]);
  const c = g.input('c', 'bool', []);
  const then_branch = g.subgraph('t', (h) => h.output('t_out', h.reshape(x, [2, 2])));
  const else_branch = g.subgraph('e', (h) => h.output('e_out', h.slice(x, [0], [3])));
  g.output('y', g.op('If', [c], { then_branch, else_branch }, [{ type: 'float32' }])[0]!);
  const graph = g.graph();
  for (const way of [true, false]) checkRun(graph, { x: numbers([4]), c: bool(way) });
});

/** y = Σ over a fed number of trips of (y + x · i), each y also stacked. */
function loop(): Graph {
  const g = new GraphBuilder('loop');
  const x = g.input('x', 'float32', [3]);
  const trips = g.input('trips', 'int64', []);
  const body = g.subgraph('body', (h) => {
    const i = h.input('i', 'int64', []);
    const going = h.input('going', 'bool', []);
    const y = h.input('y_in', 'float32', [3]);
    const next = h.add(y, h.mul(x, h.cast(i, 'float32')));
    h.output('going_out', h.unary('Identity', going));
    h.output('y_out', next);
    h.output('y_each', h.neg(next));
  });
  const [last, each] = g.op(
    'Loop',
    [trips, g.constant('bool', [true], []), g.constant('float32', [0, 0, 0])],
    { body },
    [{ type: 'float32' }, { type: 'float32' }],
  ) as [Value, Value];
  g.output('last', last);
  g.output('each', each);
  return g.graph();
}

test('loops run their body as a compiled program, any number of times', () => {
  const graph = loop();
  for (const n of [0, 1, 5]) checkRun(graph, { x: numbers([3]), trips: new Tensor('int64', [n], []) });
  const { operators } = new GraphRunner(graph).run(
    new Map<string, HostValue>([
      ['x', numbers([3])],
      ['trips', new Tensor('int64', [4], [])],
    ]),
  );
  assert.is(operators.filter((op) => op === 'Neg').length, 4);
});

test('scans too', () => {
  const g = new GraphBuilder('scan');
  const x = g.input('x', 'float32', [5, 2]);
  const body = g.subgraph('body', (h) => {
    const sum = h.input('sum_in', 'float32', [2]);
    const row = h.input('row', 'float32', [2]);
    const next = h.add(sum, row);
    h.output('sum_out', next);
    h.output('all', h.unary('Identity', next));
  });
  const [last, all] = g.op('Scan', [g.constant('float32', [0, 0]), x], { body, num_scan_inputs: 1 }, [
    { type: 'float32' },
    { type: 'float32' },
  ]) as [Value, Value];
  g.output('last', last);
  g.output('all_sums', all);
  checkRun(g.graph(), { x: numbers([5, 2]) });
});

test('weights are placed once a model, whatever the number of shapes', () => {
  const graph = graphOf([2, 8], (g, x) =>
    g.relu(g.add(g.matmul(g.mul(x, g.weights([8])), g.weights([8, 4])), g.weights([4]))),
  );
  const pool = new KeyedPool();
  const program = new Program(graph, { build: 'plain' }, pool);
  for (const n of [1, 2, 3, 17]) program.begin(new Map([['x', float([n, 8])]]), ['y0']);
  assert.equal(new Set(pool.filled).size, pool.filled.length);
  assert.ok(pool.filled.length <= 3, pool.filled.join('; '));
});

test('weights derived by fusion are placed once as well', () => {
  const graph = graphOf([1, 2, 5, 5], (g, x) => g.mul(g.conv2d(x, g.weights([4, 2, 3, 3])), g.weights([4, 1, 1])));
  const pool = new KeyedPool();
  const program = new Program(graph, { build: 'plain' }, pool);
  for (const n of [5, 6, 9]) program.begin(new Map([['x', float([1, 2, n, n])]]), ['y0']);
  const packed = pool.filled.filter((k) => k.includes('weights('));
  assert.is(packed.length, 1, pool.filled.join('; '));
});

test('constants that follow from a shape live in the plan, not in the model', () => {
  const graph = graphOf([2, 3], (g, x) => {
    const shape = g.op('Shape', [x], {}, [{ type: 'int64' }])[0]!;
    return g.mul(x, g.cast(g.op('Gather', [shape, g.ints([1])]), 'float32'));
  });
  const pool = new CountingPool();
  const segment = begin(graph, { x: float([2, 30]) }, undefined, pool as unknown as KeyedPool);
  assert.equal(stepsOf(segment), ['Mul']);
  assert.equal(pool.filled, []);
  checkRun(graph, { x: numbers([2, 3]) });
  const runner = new GraphRunner(graph);
  for (const n of [3, 4, 3]) {
    const x = numbers([2, n]);
    const y = runner.run(new Map([['x', x]])).outputs.get('y0') as Tensor;
    assert.equal(
      Array.from(y.data as Float32Array),
      Array.from(x.data, (v) => Math.fround(v * n)),
    );
  }
});

test('a plan is kept by types and shapes of its inputs and by what is wanted', () => {
  const graph = graphOf([2], (g, x) => [g.neg(x), g.abs(x)]);
  const program = new Program(graph, { build: 'plain' }, new KeyedPool());
  const at = (n: number, wanted = ['y0', 'y1']) => program.begin(new Map([['x', float([n])]]), wanted);
  assert.is(at(2), at(2));
  assert.is.not(at(2), at(3));
  assert.is.not(at(2), at(2, ['y0']));
  const other = program.begin(new Map([['x', { type: 'float64', dims: [2] }]]), ['y0', 'y1']);
  assert.is.not(other, at(2));
});

test('the cache is bounded and forgets what was used longest ago', () => {
  const graph = graphOf([2], (g, x) => g.neg(x));
  const program = new Program(graph, { build: 'plain' }, new KeyedPool());
  const at = (n: number) => program.begin(new Map([['x', float([n])]]), ['y0']);
  const [first, second] = [at(1), at(2)];
  for (let n = 3; n <= 64; n++) at(n);
  assert.is(at(1), first);
  at(65);
  assert.is(at(1), first);
  assert.is.not(at(2), second);
});

test('feeds that differ in more than a joined name could tell have different plans', () => {
  const g = new GraphBuilder('names');
  const a = g.input('a', 'float32', ['n']);
  const b = g.input('b', 'float32', ['n']);
  g.output('y', g.op('Concat', [a, b], { axis: 0 }));
  const program = new Program(g.graph(), { build: 'plain' }, new KeyedPool());
  const at = (m: number, n: number) =>
    program.begin(
      new Map([
        ['a', float([m])],
        ['b', float([n])],
      ]),
      ['y'],
    );
  assert.is.not(at(1, 12), at(11, 2));
});

test('an input may be given in place of its initializer', () => {
  const base = graphOf([3], (g, x) => g.add(x, g.weights([3])));
  const [name] = [...base.initializers.keys()];
  const graph = { ...base, inputs: [...base.inputs, { name: name! }] };
  checkRun(graph, { x: numbers([3]) });
  checkRun(graph, { x: numbers([3]), [name!]: numbers([3], 5) });
});

test('strings, sequences and what is made of them go around the plan', () => {
  const g = new GraphBuilder('hosts');
  const x = g.input('x', 'float32', [4]);
  const list = g.op('SequenceConstruct', [g.neg(x), x], {}, 1)[0]!;
  g.output('y', g.abs(g.op('SequenceAt', [list, g.scalar('int64', 0)])));
  checkRun(g.graph(), { x: numbers([4]) });
});

test('an undefined name and a missing branch are errors in words', () => {
  const graph = graphOf([3], (g, x) => g.neg(x));
  const nodes = graph.nodes.map((n) => ({ ...n, inputs: ['nowhere'] }));
  assert.throws(() => begin({ ...graph, nodes }, { x: float([3]) }), /'nowhere', which nothing defines/);
});

test('a description names nodes, kernels, shapes and costs', () => {
  const graph = graphOf([4, 8], (g, x) => g.relu(g.add(g.matmul(x, g.weights([8, 5])), g.weights([5]))));
  const { plan } = begin(graph, { x: float([4, 8]) });
  const steps = describe(plan);
  const last = steps.at(-1)!;
  assert.equal(last.origins, ['Relu', 'Add', 'MatMul']);
  assert.is(last.operator, 'skep:MatMul');
  assert.is(last.kernel, 'gemm');
  assert.equal(last.part, [steps.length, steps.length]);
  assert.equal(
    last.inputs.map((v) => [v.name === 'x', v.dims, v.constant]),
    [
      [true, [4, 8], false],
      [false, [8, 5], true],
      [false, [5], true],
    ],
  );
  assert.equal(last.outputs, [{ name: 'y0', type: 'float32', dims: [4, 5], constant: false }]);
  assert.is(last.bytes, 4 * (32 + 40 + 5 + 20));
  const all = statisticsOf(plan);
  assert.ok(all.flops >= 2 * 4 * 8 * 5 && all.referenceSteps === 0 && all.steps === steps.length);
  assert.ok(all.arenaBytes >= all.liveBytes && all.constantBytes >= 4 * 40);
});

test.run();
