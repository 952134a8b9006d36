// RNN, GRU and LSTM: kernels against the reference over random layers, and the bits of a row whatever batch it is in.
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Attribute } from '../../src/graph/graph.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { assertClose, assertSameBits, builds, check, type NodeTest, runKernels, runReference } from './harness.js';
import { randomFrom, randomTensor } from './random.js';

const int = (value: number): Attribute => ({ kind: 'int', value });
const string = (value: string): Attribute => ({ kind: 'string', value });
const tolerance = { rtol: 1e-4, atol: 2e-5 };

const layers = {
  RNN: { gates: 1, functions: 1, states: 1 },
  GRU: { gates: 3, functions: 2, states: 1 },
  LSTM: { gates: 4, functions: 3, states: 2 },
} as const;
type Op = keyof typeof layers;

const layer = fc.record({
  seed: fc.integer(),
  times: fc.integer({ min: 1, max: 5 }),
  batch: fc.integer({ min: 1, max: 9 }),
  input: fc.integer({ min: 1, max: 9 }),
  hidden: fc.integer({ min: 1, max: 19 }),
  direction: fc.constantFrom('forward', 'reverse', 'bidirectional'),
  layout: fc.nat(1),
  clip: fc.constantFrom(0, 0, 0.5),
  bias: fc.boolean(),
  lengths: fc.boolean(),
  initial: fc.boolean(),
  peepholes: fc.boolean(),
  special: fc.boolean(),
  constant: fc.boolean(),
  functions: fc.option(
    fc.array(
      fc.constantFrom('Sigmoid', 'tanh', 'Relu', 'HardSigmoid', 'LeakyRelu', 'ScaledTanh', 'Softsign', 'Affine'),
      {
        minLength: 6,
        maxLength: 6,
      },
    ),
    { nil: undefined },
  ),
});
type Layer = typeof layer extends fc.Arbitrary<infer T> ? T : never;

/** Smaller weights keep unbounded activations from growing over time. */
function smaller(t: Tensor<'float32'>): Tensor<'float32'> {
  return new Tensor(
    'float32',
    t.data.map((x) => x * 0.4),
    t.dims,
  );
}

function nodeOf(op: Op, l: Layer): NodeTest {
  const random = randomFrom(l.seed);
  const { gates, functions, states } = layers[op];
  const directions = l.direction === 'bidirectional' ? 2 : 1;
  const state = l.layout ? [l.batch, directions, l.hidden] : [directions, l.batch, l.hidden];
  const inputs: (Tensor | undefined)[] = [
    randomTensor(random, l.layout ? [l.batch, l.times, l.input] : [l.times, l.batch, l.input]),
    smaller(randomTensor(random, [directions, gates * l.hidden, l.input])),
    smaller(randomTensor(random, [directions, gates * l.hidden, l.hidden])),
    l.bias ? randomTensor(random, [directions, 2 * gates * l.hidden]) : undefined,
    l.lengths
      ? new Tensor(
          'int32',
          Int32Array.from({ length: l.batch }, () => Math.floor(random() * (l.times + 1))),
          [l.batch],
        )
      : undefined,
    l.initial ? randomTensor(random, state) : undefined,
  ];
  if (op === 'LSTM') {
    inputs.push(l.initial ? randomTensor(random, state) : undefined);
    if (l.peepholes) inputs.push(randomTensor(random, [directions, 3 * l.hidden]));
  }
  return {
    op,
    inputs,
    constants: l.constant ? [1, 2, ...(l.bias ? [3] : [])] : [],
    outputs: 1 + states,
    attributes: {
      direction: string(l.direction),
      layout: int(l.layout),
      hidden_size: int(l.hidden),
      ...(l.clip > 0 && { clip: { kind: 'float', value: l.clip } satisfies Attribute }),
      ...(l.functions && {
        activations: { kind: 'strings', value: l.functions.slice(0, functions * directions) } satisfies Attribute,
        activation_alpha: { kind: 'floats', value: [0.3, 0.5] } satisfies Attribute,
        activation_beta: { kind: 'floats', value: [0.4] } satisfies Attribute,
      }),
      ...(op === 'GRU' && l.special && { linear_before_reset: int(1) }),
      ...(op === 'LSTM' && l.special && { input_forget: int(1) }),
    },
  };
}

for (const op of Object.keys(layers) as Op[]) {
  test(`${op} with every option`, () => {
    fc.assert(
      fc.property(layer, (l) => check(nodeOf(op, l), tolerance)),
      { numRuns: 70 },
    );
  });

  test(`${op}: the bits of a row do not depend on its batch or its place in it`, () => {
    const property = fc.property(layer, fc.array(fc.nat(2), { minLength: 2, maxLength: 11 }), (l, which) => {
      // Batch first, so that rows are easy to take apart.
      const base = nodeOf(op, { ...l, batch: 3, layout: 1 });
      const perRow = new Set([0, 4, 5, 6]);
      const run = (rows: readonly number[], build: (typeof builds)[number]) => {
        const inputs = base.inputs.map((x, i) => {
          if (!(x instanceof Tensor) || !perRow.has(i)) return x;
          const size = x.size / 3;
          const data = x.data as Float32Array | Int32Array;
          const taken = rows.flatMap((r) => Array.from(data.subarray(r * size, (r + 1) * size)));
          return new Tensor(x.type, taken, [rows.length, ...x.dims.slice(1)]);
        });
        return runKernels({ ...base, inputs }, build).outputs.map((y) => (y as Tensor<'float32'>).data);
      };
      for (const build of builds) {
        const alone = [0, 1, 2].map((r) => run([r], build));
        const together = run(which, build);
        for (const [o, data] of together.entries()) {
          const each = data.length / which.length;
          for (const [i, r] of which.entries())
            assert.equal(data.subarray(i * each, (i + 1) * each), alone[r]![o], `output ${o} of row ${i}`);
        }
      }
    });
    fc.assert(property, { numRuns: 15 });
  });
}

/** The layer by its steps: the products of all times, then `pieces` steps at a time, each direction in its own order of time. */
function bySteps(
  op: Op,
  node: NodeTest,
  l: Layer,
  pieces: readonly number[],
  build: (typeof builds)[number],
): Tensor[] {
  const { gates, states } = layers[op];
  const { hidden, batch, times } = l;
  const directions = l.direction === 'bidirectional' ? 2 : 1;
  const width = gates * hidden;
  const [x, w, r, b, lens, , , p] = node.inputs as (Tensor | undefined)[];
  const g = runKernels({ op: 'Projection', domain: 'skep', opset: 1, inputs: [x, w], constants: [1] }, build)
    .outputs[0];
  const products = (g as Tensor<'float32'>).data;
  const length = (row: number) => (lens === undefined ? times : (lens.data as Int32Array)[row]!);
  const timeAt = (d: number, row: number, t: number) =>
    l.direction === 'reverse' || d === 1 ? length(row) - 1 - t : t;
  const rowAt = (row: number, t: number) => (l.layout ? row * times + t : t * batch + row);
  const stateAt = (d: number, row: number) => (l.layout ? row * directions + d : d * batch + row) * hidden;
  const y = new Float32Array(times * directions * batch * hidden);
  // Initial states in the order of the steps: [directions, batch, hidden].
  const turn = (t: Tensor | undefined, back = false) => {
    const to = new Float32Array(directions * batch * hidden);
    if (t === undefined) return to;
    for (let d = 0; d < directions; d++)
      for (let row = 0; row < batch; row++)
        for (let j = 0; j < hidden; j++) {
          const [own, other] = [(d * batch + row) * hidden + j, stateAt(d, row) + j];
          to[back ? other : own] = (t.data as Float32Array)[back ? own : other]!;
        }
    return to;
  };
  let carried: Float32Array[] = [5, 6].slice(0, states).map((i) => turn(node.inputs[i] as Tensor | undefined));
  for (let t = 0, k = 0; t < times; k++) {
    const steps = Math.min(times - t, pieces[k % pieces.length]!);
    const own = new Float32Array(directions * batch * steps * width);
    const counts = Int32Array.from({ length: batch }, (_, row) => Math.max(0, Math.min(steps, length(row) - t)));
    const each = (visit: (d: number, row: number, s: number, time: number) => void) => {
      for (let d = 0; d < directions; d++)
        for (let row = 0; row < batch; row++)
          for (let s = 0; s < counts[row]!; s++) visit(d, row, s, timeAt(d, row, t + s));
    };
    each((d, row, s, time) => {
      const from = (d * times * batch + rowAt(row, time)) * width;
      own.set(products.subarray(from, from + width), ((d * batch + row) * steps + s) * width);
    });
    const state = (data: Float32Array) => new Tensor('float32', data, [directions, batch, hidden]);
    const { outputs } = runKernels(
      {
        ...node,
        op: `${op}Steps`,
        domain: 'skep',
        opset: 1,
        inputs: [
          new Tensor('float32', own, [directions, batch, steps, width]),
          undefined,
          r,
          b,
          new Tensor('int32', counts, [batch]),
          ...carried.map(state),
          ...(op === 'LSTM' ? [p] : []),
        ],
        constants: (node.constants ?? []).filter((i) => i >= 2),
      },
      build,
    );
    const [part, ...next] = outputs.map((o) => (o as Tensor<'float32'>).data);
    each((d, row, s, time) => {
      const from = ((d * batch + row) * steps + s) * hidden;
      const to = l.layout
        ? ((row * times + time) * directions + d) * hidden
        : ((time * directions + d) * batch + row) * hidden;
      y.set(part!.subarray(from, from + hidden), to);
    });
    carried = next;
    t += steps;
  }
  const [first, ...last] =
    node.outputs === undefined ? [] : [y, ...carried.map((c) => turn(new Tensor('float32', c, [c.length]), true))];
  return [first!, ...last].map((data) => new Tensor('float32', data, [data.length]));
}

for (const op of Object.keys(layers) as Op[])
  test(`${op}: a few steps at a time give the bits of the whole layer`, () => {
    const pieces = fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(layer, pieces, (l, sizes) => {
        const node = nodeOf(op, l);
        for (const build of builds) {
          const whole = runKernels(node, build).outputs as Tensor<'float32'>[];
          const parts = bySteps(op, node, l, sizes, build);
          whole.forEach((t, i) => {
            assertSameBits(parts[i]!, new Tensor('float32', t.data, [t.size]), `output ${i}`);
          });
        }
      }),
      { numRuns: 15 },
    );
    // The reference of the steps, too.
    const node = nodeOf(op, { ...fc.sample(layer, { seed: 7, numRuns: 1 })[0]!, hidden: 5, batch: 3 });
    const directions = (node.inputs[2] as Tensor).dims[0]!;
    const random = randomFrom(11);
    const steps = [
      randomTensor(random, [directions, 3, 4, layers[op].gates * 5]),
      undefined,
      ...node.inputs.slice(2, 4),
    ];
    check({ ...node, op: `${op}Steps`, domain: 'skep', opset: 1, inputs: steps, constants: [2] }, tolerance);
  });

test('the products of all times are those of rows and matrices', () => {
  const random = randomFrom(6);
  check(
    {
      op: 'Projection',
      domain: 'skep',
      opset: 1,
      inputs: [randomTensor(random, [5, 2, 7]), randomTensor(random, [2, 12, 7])],
    },
    tolerance,
  );
});

test('lengths outside the sequence cannot lead out of memory', () => {
  const random = randomFrom(3);
  const inputs = [
    randomTensor(random, [2, 2, 3]),
    randomTensor(random, [1, 16, 3]),
    randomTensor(random, [1, 16, 4]),
    undefined,
    new Tensor('int32', [2000000000, -5], [2]),
  ];
  check({ op: 'LSTM', inputs, outputs: 3, attributes: { direction: string('reverse') } }, tolerance);
});

test('batches of more than a block of rows', () => {
  const random = randomFrom(4);
  const inputs = [
    randomTensor(random, [2, 65, 3]),
    randomTensor(random, [1, 48, 3]),
    randomTensor(random, [1, 48, 12]),
  ];
  check({ op: 'LSTM', inputs, outputs: 3 }, tolerance);
  check(
    { op: 'GRU', inputs: [inputs[0], randomTensor(random, [1, 36, 3]), randomTensor(random, [1, 36, 12])], outputs: 2 },
    tolerance,
  );
});

test('a reversed layer is a layer over the reversed sequence', () => {
  const random = randomFrom(5);
  const [w, r] = [randomTensor(random, [1, 16, 3]), randomTensor(random, [1, 16, 4])];
  const x = randomTensor(random, [3, 1, 3]);
  const backwards = new Tensor(
    'float32',
    [...x.data.slice(6), ...x.data.slice(3, 6), ...x.data.slice(0, 3)],
    [3, 1, 3],
  );
  const one = runReference({ op: 'LSTM', inputs: [x, w, r], outputs: 3, attributes: { direction: string('reverse') } });
  const two = runReference({ op: 'LSTM', inputs: [backwards, w, r], outputs: 3 });
  assertClose(one[1]!, two[1]!);
  assertClose(one[2]!, two[2]!);
});

test('shapes and names that do not fit are named', () => {
  const random = randomFrom(1);
  const inputs = [randomTensor(random, [2, 2, 3]), randomTensor(random, [1, 16, 3]), randomTensor(random, [1, 16, 4])];
  const fails = (change: Partial<NodeTest>, message: RegExp) =>
    assert.throws(() => runReference({ op: 'LSTM', inputs, ...change }), message);
  fails(
    { inputs: [inputs[0], randomTensor(random, [1, 12, 3]), inputs[2]] },
    /LSTM 'test': expected W of shape \[1, 16, 3\], got \[1, 12, 3\]/,
  );
  fails({ attributes: { hidden_size: int(5) } }, /hidden_size is 5, R \[1, 16, 4\] has 4/);
  fails({ attributes: { direction: string('sideways') } }, /direction must be/);
  fails({ attributes: { activations: { kind: 'strings', value: ['Sigmoid'] } } }, /activations must name 3 functions/);
  fails(
    { attributes: { activations: { kind: 'strings', value: ['Sigmoid', 'Tanh', 'Cosine'] } } },
    /unknown activation 'Cosine'/,
  );
});

test.run();
