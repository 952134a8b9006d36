// MatMul and Gemm: kernels against the reference over random shapes, and the bits of a row whatever surrounds it.
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Attribute } from '../../src/graph/graph.js';
import { activations } from '../../src/kernels/activation.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { builds, check, runKernels, runReference } from './harness.js';
import { randomFrom, randomTensor } from './random.js';

const int = (value: number): Attribute => ({ kind: 'int', value });
const float = (value: number): Attribute => ({ kind: 'float', value });
const seed = fc.integer();
const size = fc.integer({ min: 1, max: 21 });
const tolerance = { rtol: 2e-5, atol: 1e-5 };

/** Epilogue attributes for any activation, with parameters in which it is smooth enough to compare. */
const activation = fc.constantFrom(...Object.keys(activations)).map((name) => ({
  activation: { kind: 'string', value: name } as Attribute,
  ...(name === 'clip' && { activation_params: { kind: 'floats', value: [-0.5, 0.75] } as Attribute }),
}));

test('MatMul of matrices and vectors whose leading dimensions broadcast', () => {
  const batch = fc.array(fc.tuple(fc.integer({ min: 1, max: 3 }), fc.constantFrom('both', 'a', 'b')), { maxLength: 3 });
  const property = fc.property(
    fc.record({
      seed,
      m: size,
      n: size,
      k: size,
      batch,
      cut: fc.tuple(fc.nat(3), fc.nat(3)),
      constants: fc.subarray([0, 1]),
    }),
    ({ seed, m, n, k, batch, cut, constants }) => {
      const random = randomFrom(seed);
      const a = batch.map(([d, who]) => (who === 'b' ? 1 : d)).slice(cut[0]);
      const b = batch.map(([d, who]) => (who === 'a' ? 1 : d)).slice(cut[1]);
      const inputs = [randomTensor(random, [...a, m, k]), randomTensor(random, [...b, k, n])];
      check({ op: 'MatMul', inputs, constants: constants.slice(0, 1) }, tolerance);
    },
  );
  fc.assert(property, { numRuns: 60 });
});

test('MatMul with vectors', () => {
  const random = randomFrom(1);
  for (const [a, b] of [
    [[5], [5]],
    [[5], [5, 3]],
    [[4, 5], [5]],
    [[5], [2, 5, 3]],
    [[2, 3, 4, 5], [5]],
  ] as const)
    for (const constants of [[], [0], [1]])
      check({ op: 'MatMul', inputs: [randomTensor(random, a), randomTensor(random, b)], constants }, tolerance);
});

test('MatMul over no elements', () => {
  const random = randomFrom(1);
  for (const [a, b] of [
    [
      [0, 5],
      [5, 3],
    ],
    [
      [4, 0],
      [0, 3],
    ],
    [
      [4, 5],
      [5, 0],
    ],
    [
      [0, 4, 5],
      [5, 3],
    ],
  ] as const)
    check({ op: 'MatMul', inputs: [randomTensor(random, a), randomTensor(random, b)] });
});

test('MatMul of integers wraps around and keeps 64 bits', () => {
  const [y] = runReference({
    op: 'MatMul',
    inputs: [new Tensor('int64', [2n ** 60n, 3n], [1, 2]), new Tensor('int64', [2n, 5n, 1n, 1n], [2, 2])],
  });
  assert.equal((y as Tensor).data, BigInt64Array.of(2n ** 61n + 3n, 5n * 2n ** 60n + 3n));
  const [z] = runReference({
    op: 'MatMul',
    inputs: [new Tensor('int32', [2 ** 30], [1, 1]), new Tensor('int32', [4], [1, 1])],
  });
  assert.equal((z as Tensor).data, Int32Array.of(0));
});

test('MatMul with a bias, a residual and any activation', () => {
  const property = fc.property(
    fc.record({ seed, m: size, n: size, k: size, bias: fc.boolean(), z: fc.boolean(), activation, batch: fc.nat(2) }),
    ({ seed, m, n, k, bias, z, activation, batch }) => {
      const random = randomFrom(seed);
      const lead = batch === 0 ? [] : [batch];
      const inputs = [
        randomTensor(random, [...lead, m, k]),
        randomTensor(random, batch === 2 ? [2, k, n] : [k, n]),
        bias ? randomTensor(random, [n]) : undefined,
        z ? randomTensor(random, [...lead, m, n]) : undefined,
      ];
      const constants = bias ? [1, 2] : [1];
      check({ op: 'MatMul', domain: 'skep', opset: 1, inputs, constants, attributes: activation }, tolerance);
    },
  );
  fc.assert(property, { numRuns: 60 });
});

test('Gemm with transposes, factors and every broadcast of C', () => {
  const property = fc.property(
    fc.record({
      seed,
      m: size,
      n: size,
      k: size,
      transA: fc.nat(1),
      transB: fc.nat(1),
      alpha: fc.constantFrom(1, 0.5),
      beta: fc.constantFrom(1, 0, -1.5),
      c: fc.constantFrom('none', 'scalar', 'one', 'row', 'vector', 'column', 'full'),
      constants: fc.subarray([0, 1, 2]),
      activation: fc.option(activation, { nil: undefined }),
    }),
    ({ seed, m, n, k, transA, transB, alpha, beta, c, constants, activation }) => {
      const random = randomFrom(seed);
      const shapes = { none: undefined, scalar: [], one: [1], row: [1, n], vector: [n], column: [m, 1], full: [m, n] };
      const dims = shapes[c as keyof typeof shapes];
      const inputs = [
        randomTensor(random, transA ? [k, m] : [m, k]),
        randomTensor(random, transB ? [n, k] : [k, n]),
        ...(dims === undefined ? [] : [randomTensor(random, dims)]),
      ];
      check(
        {
          op: 'Gemm',
          ...(activation && { domain: 'skep', opset: 1 }),
          inputs,
          constants: (constants.length === inputs.length ? constants.slice(1) : constants).filter(
            (i) => i < inputs.length,
          ),
          attributes: {
            transA: int(transA),
            transB: int(transB),
            alpha: float(alpha),
            beta: float(beta),
            ...activation,
          },
        },
        tolerance,
      );
    },
  );
  fc.assert(property, { numRuns: 100 });
});

test('larger products, over several chunks of rows and whole panels', () => {
  const random = randomFrom(7);
  for (const [m, n, k] of [
    [70, 33, 2100],
    [600, 16, 20],
    [3, 100, 64],
    [2, 100, 64],
    [1, 100, 64],
  ] as const)
    for (const constants of [[], [1]])
      check(
        { op: 'MatMul', inputs: [randomTensor(random, [m, k]), randomTensor(random, [k, n])], constants },
        { atol: 1e-4 },
      );
});

test('the bits of a row do not depend on how many rows there are, or where it stands', () => {
  const property = fc.property(
    fc.record({
      seed,
      n: fc.integer({ min: 1, max: 70 }),
      k: fc.integer({ min: 1, max: 70 }),
      rows: fc.array(fc.nat(4), { minLength: 2, maxLength: 20 }),
    }),
    ({ seed, n, k, rows }) => {
      const random = randomFrom(seed);
      const pool = randomTensor(random, [5, k]);
      const b = randomTensor(random, [k, n]);
      const bias = randomTensor(random, [n]);
      const run = (which: readonly number[], build: (typeof builds)[number], constant: boolean) => {
        const a = new Float32Array(which.length * k);
        for (const [i, r] of which.entries()) a.set(pool.data.subarray(r * k, (r + 1) * k), i * k);
        const { outputs } = runKernels(
          {
            op: 'MatMul',
            domain: 'skep',
            opset: 1,
            inputs: [new Tensor('float32', a, [which.length, k]), b, bias],
            ...(constant && { constants: [1] }),
            attributes: { activation: { kind: 'string', value: 'gelu' } },
          },
          build,
        );
        return (outputs[0] as Tensor<'float32'>).data;
      };
      for (const build of builds) {
        const alone = [0, 1, 2, 3, 4].map((r) => run([r], build, true));
        for (const constant of [true, false]) {
          const together = run(rows, build, constant);
          rows.forEach((r, i) => {
            assert.equal(together.subarray(i * n, (i + 1) * n), alone[r], `row ${i} of ${rows.length}`);
          });
        }
      }
    },
  );
  fc.assert(property, { numRuns: 25 });
});

test('shapes that do not fit are named', () => {
  const random = randomFrom(1);
  const inputs = [randomTensor(random, [2, 3]), randomTensor(random, [4, 5])];
  assert.throws(
    () => runReference({ op: 'MatMul', inputs }),
    /MatMul 'test': inner dimensions differ: A \[2, 3\], B \[4, 5\]/,
  );
  assert.throws(() => runReference({ op: 'Gemm', inputs }), /Gemm 'test': inner dimensions differ/);
  const c = [randomTensor(random, [2, 3]), randomTensor(random, [3, 5]), randomTensor(random, [4, 1])];
  assert.throws(() => runReference({ op: 'Gemm', inputs: c }), /C \[4, 1\] does not broadcast to \[2, 5\]/);
});

test.run();
