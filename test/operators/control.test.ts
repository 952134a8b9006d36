// Control flow and values that are not tensors: the same graphs interpreted and compiled, with trip counts of zero,
// sequences as state, captured outer values; sequence, optional, string and selection operators by worked examples.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Attribute, Graph, Node, ValueInfo } from '../../src/graph/graph.js';
import { interpret } from '../../src/operators/evaluate.js';
import type { HostValue } from '../../src/operators/operator.js';
import { decode } from '../../src/tensor/convert.js';
import { SkepError } from '../../src/tensor/errors.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { assertClose, builds, check, GraphRunner, type NodeTest, runGraph, runReference } from './harness.js';

const int = (value: number): Attribute => ({ kind: 'int', value });
const ints = (value: readonly number[]): Attribute => ({ kind: 'ints', value });
const string = (value: string): Attribute => ({ kind: 'string', value });
const int64 = (values: readonly number[], dims?: readonly number[]) => new Tensor('int64', [...values], dims);
const float32 = (values: readonly number[], dims?: readonly number[]) =>
  new Tensor('float32', Float32Array.from(values), dims);
const bool = (value: boolean) => new Tensor('bool', [value], []);
const texts = (values: readonly string[], dims?: readonly number[]) => new Tensor('string', [...values], dims);

function node(
  op: string,
  inputs: string[],
  outputs: string[],
  attributes: Record<string, Attribute> = {},
  opset = 21,
): Node {
  return { op, domain: '', opset, name: op, inputs, outputs, attributes };
}

function graph(
  inputs: readonly (string | ValueInfo)[],
  outputs: readonly (string | ValueInfo)[],
  nodes: Node[],
): Graph {
  const info = (v: string | ValueInfo) => (typeof v === 'string' ? { name: v } : v);
  return { name: 'g', inputs: inputs.map(info), outputs: outputs.map(info), initializers: new Map(), nodes };
}

const body = (g: Graph): Attribute => ({ kind: 'graph', value: g });

/** Runs both ways and asserts that they agree; gives the outputs. */
function both(g: Graph, feeds: Record<string, HostValue>): HostValue[] {
  const map = new Map(Object.entries(feeds));
  const want = interpret(g, map);
  for (const build of builds) {
    const { outputs } = runGraph(g, map, build);
    for (const o of g.outputs) assertClose(outputs.get(o.name)!, want.get(o.name)!, {}, o.name);
  }
  return g.outputs.map((o) => want.get(o.name)!);
}

const list = (v: HostValue | undefined) => Array.from(decode(v as Tensor));
const dims = (v: HostValue | undefined) => (v as Tensor).dims;

test('If takes one branch, which reads outer values', () => {
  const g = graph(
    ['c', 'x'],
    ['y'],
    [
      node('If', ['c'], ['y'], {
        then_branch: body(graph([], ['t'], [node('Concat', ['x', 'x'], ['t'], { axis: int(0) })])),
        else_branch: body(graph([], ['e'], [node('Transpose', ['x'], ['e'])])),
      }),
    ],
  );
  assert.equal(list(both(g, { c: bool(true), x: float32([1, 2]) })[0]), [1, 2, 1, 2]);
  assert.equal(list(both(g, { c: bool(false), x: float32([1, 2]) })[0]), [1, 2]);
  assert.throws(() => both(g, { c: float32([1]), x: float32([1]) }), /bool/);
});

/** state, scanned = state ++ x each turn; goes on while `going` says so. */
const loopBody = graph(
  ['i', 'going', 'state'],
  ['going', 'next', { name: 'scanned', type: { kind: 'tensor', type: 'float32', dims: [2, 'n'] } }],
  [node('Concat', ['state', 'x'], ['next'], { axis: int(0) }), node('Unsqueeze', ['x', 'zero'], ['scanned'])],
);

test('Loop: counted, zero trips, with a captured value and scan outputs', () => {
  const g: Graph = {
    ...graph(
      ['m', 'x', 'start'],
      ['end', 'all'],
      [node('Loop', ['m', '', 'start'], ['end', 'all'], { body: body(loopBody) })],
    ),
    initializers: new Map([['zero', int64([0])]]),
  };
  const run = (m: number) => both(g, { m: int64([m], []), x: float32([5, 6]), start: float32([1]) });
  const three = run(3);
  assert.equal(list(three[0]), [1, 5, 6, 5, 6, 5, 6]);
  assert.equal(dims(three[1]), [3, 1, 2]);
  const none = run(0);
  assert.equal(list(none[0]), [1]);
  // No turn has made a scan output: its shape is what the body declares, unknown sizes 0.
  assert.equal(dims(none[1]), [0, 2, 0]);
});

test('Loop ends when its condition says so; a sequence can be its state', () => {
  const inner = graph(
    ['i', 'c', 's'],
    ['more', 'grown'],
    [
      node('SequenceInsert', ['s', 'x'], ['grown']),
      node('SequenceLength', ['grown'], ['n']),
      node('Squeeze', ['flag'], ['more']),
    ],
  );
  const g = graph(
    ['x', 'flag'],
    ['joined', 'count'],
    [
      node('SequenceEmpty', [], ['empty']),
      node('Loop', ['', '', 'empty'], ['filled'], { body: body(inner) }),
      node('ConcatFromSequence', ['filled'], ['joined'], { axis: int(0) }),
      node('SequenceLength', ['filled'], ['count']),
    ],
  );
  const out = both(g, { x: float32([1, 2]), flag: new Tensor('bool', [false], [1]) });
  assert.equal(list(out[0]), [1, 2]);
  assert.equal(list(out[1]), [1]);
});

/** sum += x (by Concat here), y = x. */
const scanBody = graph(
  ['state', 'x'],
  ['next', 'y'],
  [node('Concat', ['state', 'x'], ['next'], { axis: int(0) }), node('Transpose', ['x'], ['y'])],
);

test('Scan: axes and directions of inputs and outputs, versions 8 and 9 on, and no steps', () => {
  const xs = float32([1, 2, 3, 4, 5, 6], [2, 3]);
  const scan = (attributes: Record<string, Attribute>, x = xs) =>
    both(
      graph(
        ['s', 'x'],
        ['end', 'ys'],
        [node('Scan', ['s', 'x'], ['end', 'ys'], { body: body(scanBody), num_scan_inputs: int(1), ...attributes })],
      ),
      { s: float32([0]), x },
    );
  const plain = scan({});
  assert.equal(list(plain[0]), [0, 1, 2, 3, 4, 5, 6]);
  assert.equal(list(plain[1]), [1, 2, 3, 4, 5, 6]);
  const columns = scan({ scan_input_axes: ints([1]), scan_input_directions: ints([1]) });
  assert.equal(list(columns[1]), [3, 6, 2, 5, 1, 4]);
  const turned = scan({ scan_output_axes: ints([-1]), scan_output_directions: ints([1]) });
  assert.equal(dims(turned[1]), [3, 2]);
  assert.equal(list(turned[1]), [4, 1, 5, 2, 6, 3]);
  assert.equal(list(scan({}, float32([], [0, 3]))[0]), [0]);
  const eight = both(
    graph(
      ['n', 's', 'x'],
      ['end', 'ys'],
      [node('Scan', ['n', 's', 'x'], ['end', 'ys'], { body: body(scanBody), num_scan_inputs: int(1) }, 8)],
    ),
    { n: int64([2, 2]), s: float32([0, 9], [2, 1]), x: float32([1, 2, 3, 4], [2, 2, 1]) },
  );
  assert.equal(list(eight[0]), [0, 1, 2, 9, 3, 4]);
  assert.equal(dims(eight[1]), [2, 2, 1]);
});

test('SequenceMap applies its body to every element', () => {
  const g = graph(
    ['x', 'y'],
    ['joined'],
    [
      node('SequenceConstruct', ['x', 'y'], ['s']),
      node('SequenceMap', ['s', 'x'], ['m'], {
        body: body(graph(['a', 'b'], ['ab'], [node('Concat', ['a', 'b'], ['ab'], { axis: int(0) })])),
      }),
      node('ConcatFromSequence', ['m'], ['joined'], { axis: int(0) }),
    ],
  );
  assert.equal(list(both(g, { x: float32([1]), y: float32([2]) })[0]), [1, 1, 2, 1]);
});

test('sequences and optionals', () => {
  const run = (t: NodeTest) => {
    check(t, { fallback: true });
    return runReference(t)[0]!;
  };
  const s: HostValue = [float32([1]), float32([2]), float32([3])];
  assert.equal(list(run({ op: 'SequenceAt', inputs: [s, int64([-1], [])] })), [3]);
  assert.equal((run({ op: 'SequenceErase', inputs: [s] }) as HostValue[]).length, 2);
  assert.equal((run({ op: 'SequenceErase', inputs: [s, int64([0], [])] }) as HostValue[]).map(list), [[2], [3]]);
  assert.equal(
    (run({ op: 'SequenceInsert', inputs: [s, float32([9]), int64([-3], [])] }) as HostValue[]).map(list)[0],
    [9],
  );
  assert.throws(() => run({ op: 'SequenceAt', inputs: [s, int64([3], [])] }), /outside a sequence of length 3/);
  const parts = run({ op: 'SplitToSequence', inputs: [float32([1, 2, 3, 4, 5]), int64([2], [])] }) as HostValue[];
  assert.equal(parts.map(list), [[1, 2], [3, 4], [5]]);
  const rows = run({
    op: 'SplitToSequence',
    inputs: [float32([1, 2, 3, 4], [2, 2])],
    attributes: { keepdims: int(0) },
  });
  assert.equal((rows as HostValue[]).map(dims), [[2], [2]]);
  const stacked = run({ op: 'ConcatFromSequence', inputs: [s], attributes: { axis: int(-1), new_axis: int(1) } });
  assert.equal(dims(stacked), [1, 3]);
  assert.equal(list(run({ op: 'OptionalHasElement', inputs: [null] })), [0]);
  assert.equal(list(run({ op: 'OptionalHasElement', inputs: [float32([1])] })), [1]);
  assert.throws(() => run({ op: 'OptionalGetElement', inputs: [null] }), /empty/);
});

test('strings', () => {
  const run = (t: NodeTest) => {
    check(t, { fallback: true });
    return runReference(t).map((v) => (v as Tensor).data);
  };
  assert.equal(run({ op: 'StringConcat', inputs: [texts(['a', 'b'], [2, 1]), texts(['x', 'y'])] }), [
    ['ax', 'ay', 'bx', 'by'],
  ]);
  const split = (values: string[], attributes: Record<string, Attribute> = {}) =>
    run({ op: 'StringSplit', inputs: [texts(values)], attributes, outputs: 2 });
  assert.equal(split(['a.b.c', 'd'], { delimiter: string('.') }), [
    ['a', 'b', 'c', 'd', '', ''],
    BigInt64Array.of(3n, 1n),
  ]);
  assert.equal(split(['a.b.c'], { delimiter: string('.'), maxsplit: int(1) })[0], ['a', 'b.c']);
  assert.equal(split(['  a  b '])[0], ['a', 'b']);
  assert.equal(split(['', 'x'])[1], BigInt64Array.of(0n, 1n));
  const normalize = (attributes: Record<string, Attribute>, values: string[]) =>
    run({ op: 'StringNormalizer', inputs: [texts(values)], attributes })[0];
  assert.equal(
    normalize({ case_change_action: string('UPPER'), stopwords: { kind: 'strings', value: ['b'] } }, ['a', 'B', 'c']),
    ['A', 'C'],
  );
  assert.equal(normalize({ stopwords: { kind: 'strings', value: ['a'] } }, ['a']), ['']);
  assert.equal(
    run({ op: 'RegexFullMatch', inputs: [texts(['ab', 'abc'])], attributes: { pattern: string('(?i)A.') } })[0],
    Uint8Array.of(1, 0),
  );
  assert.throws(
    () => run({ op: 'RegexFullMatch', inputs: [texts(['a'])], attributes: { pattern: string('(') } }),
    /not a regular expression/,
  );
});

test('selection by value', () => {
  const run = (t: NodeTest) => {
    check(t, { fallback: true });
    return runReference(t);
  };
  const found = run({ op: 'NonZero', inputs: [float32([0, 1, 2, 0], [2, 2])] })[0];
  assert.equal(dims(found), [2, 2]);
  assert.equal(list(found), [0, 1, 1, 0]);
  assert.equal(dims(run({ op: 'NonZero', inputs: [float32([0, 0])] })[0]), [1, 0]);
  assert.equal(dims(run({ op: 'NonZero', inputs: [float32([3], [])] })[0]), [0, 1]);
  const x = float32([1, 2, 3, 4, 5, 6], [3, 2]);
  const flags = new Tensor('bool', [false, true, true]);
  assert.equal(list(run({ op: 'Compress', inputs: [x, flags], attributes: { axis: int(0) } })[0]), [3, 4, 5, 6]);
  assert.equal(list(run({ op: 'Compress', inputs: [x, flags] })[0]), [2, 3]);
  const unique = run({ op: 'Unique', inputs: [float32([2, 1, 2, 3, 1])], outputs: 4, attributes: { sorted: int(0) } });
  assert.equal(unique.map(list), [
    [2, 1, 3],
    [0, 1, 3],
    [0, 1, 0, 2, 1],
    [2, 2, 1],
  ]);
  const boxes = float32([0, 0, 2, 2, 0, 0, 2, 2.1, 5, 5, 6, 6], [1, 3, 4]);
  const scores = float32([0.5, 0.9, 0.3], [1, 1, 3]);
  const kept = run({
    op: 'NonMaxSuppression',
    inputs: [boxes, scores, int64([9], []), float32([0.5], []), float32([0.2], [])],
  })[0];
  assert.equal(list(kept), [0, 0, 1, 0, 0, 2]);
});

test('random numbers: the same by seed, in range, of the shape asked for', () => {
  const attributes: Record<string, Attribute> = {
    shape: ints([1000]),
    low: { kind: 'float', value: 2 },
    high: { kind: 'float', value: 3 },
    seed: { kind: 'float', value: 7 },
  };
  const draw = (op: string, more: Record<string, Attribute> = {}) =>
    list(runReference({ op, inputs: [], attributes: { ...attributes, ...more } })[0]);
  const a = draw('RandomUniform');
  assert.equal(a, draw('RandomUniform'));
  assert.not.equal(a, draw('RandomUniform', { seed: { kind: 'float', value: 8 } }));
  assert.ok(a.every((v) => v >= 2 && v <= 3));
  const mean = draw('RandomNormal').reduce((s, v) => s + v, 0) / 1000;
  assert.ok(Math.abs(mean) < 0.2);
  const coins = list(runReference({ op: 'Bernoulli', inputs: [float32([0, 1, 0, 1])] })[0]);
  assert.equal(coins, [0, 1, 0, 1]);
});

test('transforms undo each other, and a window of one sample is its peak', () => {
  const x = float32([1, 5, -2, 3, 0, 4], [1, 6, 1]);
  const forward = { op: 'DFT', inputs: [x], opset: 20 };
  const spectrum = runReference(forward)[0]!;
  const back = runReference({ op: 'DFT', inputs: [spectrum], opset: 20, attributes: { inverse: int(1) } })[0]!;
  list(back).forEach((v, i) => {
    assert.ok(Math.abs(v - (i % 2 === 0 ? (x.data as Float32Array)[i / 2]! : 0)) < 1e-5);
  });
  const half = runReference({ ...forward, attributes: { onesided: int(1) } })[0]!;
  assert.equal(dims(half), [1, 4, 2]);
  const real = runReference({
    op: 'DFT',
    inputs: [half],
    opset: 20,
    attributes: { onesided: int(1), inverse: int(1) },
  })[0]!;
  assertClose(real, x);
  assert.equal(
    list(runReference({ op: 'HannWindow', inputs: [int64([1], [])], attributes: { periodic: int(0) } })[0]),
    [1],
  );
});

test('a bad equation, frame or body is an error in words', () => {
  const x = float32([1, 2, 3, 4], [2, 2]);
  const bad: [NodeTest, RegExp][] = [
    [{ op: 'Einsum', inputs: [x], attributes: { equation: string('ij,jk->ik') } }, /2 terms for 1 inputs/],
    [{ op: 'Einsum', inputs: [x], attributes: { equation: string('ijk->i') } }, /does not fit input 0/],
    [{ op: 'Einsum', inputs: [x], attributes: { equation: string('ij->z') } }, /'z' is in no input/],
    [{ op: 'STFT', inputs: [float32([1, 2], [1, 2]), int64([0], []), undefined, int64([2], [])] }, /must be positive/],
    [{ op: 'HannWindow', inputs: [int64([-3], [])] }, /non-negative/],
    [{ op: 'Det', inputs: [float32([1, 2, 3], [3, 1])] }, /square/],
  ];
  for (const [t, words] of bad)
    assert.throws(
      () => runReference(t),
      (e: unknown) => e instanceof SkepError && words.test(e.message),
      t.op,
    );
});

test('a body that never runs gives scan outputs of the rank it would have given, declared or not', () => {
  const stacked = graph(
    ['v', 'e'],
    ['w', 's'],
    [node('Identity', ['v'], ['w']), node('Unsqueeze', ['e', 'axis'], ['s'])],
  );
  const scanBody = { ...stacked, initializers: new Map([['axis', int64([0])]]) };
  const scan = node('Scan', ['h', 'xs'], ['h2', 'ys'], { body: body(scanBody), num_scan_inputs: int(1) });
  const [, ys] = both(graph(['h', 'xs'], ['h2', 'ys'], [scan]), {
    h: float32([1, 2]),
    xs: float32([], [0, 5]),
  }) as [Tensor, Tensor];
  assert.equal(ys.dims, [0, 1, 5]);
  const loopBody = graph(
    ['i', 'go', 'v'],
    ['go2', 'w', 's'],
    [node('Identity', ['go'], ['go2']), node('Identity', ['v'], ['w']), node('Cast', ['v'], ['s'], { to: int(7) })],
  );
  const loop = node('Loop', ['n', '', 'h'], ['h2', 'ys'], { body: body(loopBody) });
  const [, list] = both(graph(['n', 'h'], ['h2', 'ys'], [loop]), {
    n: int64([0], []),
    h: float32([1, 2, 3]),
  }) as Tensor[];
  assert.equal([list!.type, list!.dims], ['int64', [0, 3]]);
  // A body that cannot run on zeros says nothing.
  const fails = graph(['v', 'e'], ['w', 's'], [node('Identity', ['v'], ['w']), node('Gather', ['e', 'w'], ['s'])]);
  const bad = node('Scan', ['h', 'xs'], ['h2', 'ys'], { body: body(fails), num_scan_inputs: int(1) });
  both(graph(['h', 'xs'], ['h2', 'ys'], [bad]), { h: int64([9]), xs: float32([], [0, 5]) });
});

test('equal names in sibling branches and bodies are different values', () => {
  const branch = (value: number, constant: boolean): Graph => {
    const c = float32([value, value]);
    const make = node('Constant', [], ['c'], { value: { kind: 'tensor', value: c } });
    const g = graph(
      [],
      ['r'],
      [...(constant ? [make] : []), node('Add', ['x', 'c'], ['s']), node('Neg', ['s'], ['r'])],
    );
    return constant ? g : { ...g, initializers: new Map([['c', c]]) };
  };
  for (const constant of [true, false]) {
    const choose = node('If', ['which'], ['y'], {
      then_branch: body(branch(1, constant)),
      else_branch: body(branch(10, constant)),
    });
    const runner = new GraphRunner(graph(['which', 'x'], ['y'], [choose]));
    for (const which of [true, false, true]) {
      const { outputs } = runner.run(
        new Map<string, HostValue>([
          ['which', bool(which)],
          ['x', float32([0, 5])],
        ]),
      );
      const by = which ? 1 : 10;
      assert.equal([...(outputs.get('y') as Tensor<'float32'>).data], [-by, -5 - by], `${constant} ${which}`);
    }
  }
  const loopOver = (out: string, value: number): Node => {
    const g = graph(
      ['i', 'go', 'v'],
      ['go2', 'w'],
      [node('Identity', ['go'], ['go2']), node('Add', ['v', 'c'], ['w'])],
    );
    return node('Loop', ['n', '', 'x'], [out], {
      body: body({ ...g, initializers: new Map([['c', float32([value])]]) }),
    });
  };
  const [a, b] = both(graph(['n', 'x'], ['a', 'b'], [loopOver('a', 1), loopOver('b', 10)]), {
    n: int64([3], []),
    x: float32([0]),
  }) as Tensor[];
  assert.equal([a!.data[0], b!.data[0]], [3, 30]);
});

test.run();
