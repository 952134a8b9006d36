// Reductions, softmax and running sums: kernels against the reference on random shapes and axes, and the bits of a row
// whatever stands beside it.
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Attribute } from '../../src/graph/graph.js';
import { SkepError } from '../../src/tensor/errors.js';
import { sizeOf } from '../../src/tensor/shape.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { check, type NodeTest, runReference } from './harness.js';
import { checkRows } from './invariance.js';
import { randomFrom, randomTensor } from './random.js';

const int = (value: number): Attribute => ({ kind: 'int', value });
const ints = (value: readonly number[]): Attribute => ({ kind: 'ints', value });
const int64 = (values: readonly number[]) => new Tensor('int64', values as number[], [values.length]);

const names = ['Sum', 'Mean', 'Max', 'Min', 'Prod', 'SumSquare', 'L1', 'L2', 'LogSum', 'LogSumExp'];
const dims = fc.array(fc.oneof({ weight: 6, arbitrary: fc.integer({ min: 1, max: 5 }) }, fc.constantFrom(1, 17, 35)), {
  minLength: 1,
  maxLength: 4,
});

/** Positive numbers: LogSum takes a logarithm, Prod stays away from 0. */
function positive(random: () => number, shape: readonly number[]): Tensor {
  return new Tensor(
    'float32',
    randomTensor(random, shape).data.map((v) => Math.abs(v) + 0.25),
    shape,
  );
}

for (const name of names)
  test(`Reduce${name} over any axes`, () => {
    fc.assert(
      fc.property(fc.integer(), dims, fc.nat(15), fc.boolean(), (seed, shape, mask, keep) => {
        const random = randomFrom(seed);
        const axes = shape.map((_, i) => i).filter((i) => mask & (1 << i));
        const signed = name !== 'LogSum' && name !== 'Prod';
        const x = signed ? randomTensor(random, shape) : positive(random, shape);
        const tolerance = { rtol: 2e-5, atol: signed ? 1e-5 : 1e-6 };
        const keepdims = int(keep ? 1 : 0);
        check({ op: `Reduce${name}`, inputs: [x, int64(axes)], constants: [1], attributes: { keepdims } }, tolerance);
        const old = { keepdims, ...(axes.length > 0 && { axes: ints(axes.map((a) => a - shape.length)) }) };
        check({ op: `Reduce${name}`, opset: 11, inputs: [x], attributes: old }, tolerance);
      }),
      { numRuns: 5 },
    );
  });

test('a row reduces to the same bits at any place, whichever axis the batch is', () => {
  const random = randomFrom(11);
  for (const [shape, axes, batch] of [
    [[4, 37], [1], 0],
    [[5, 6, 23], [1, 2], 0],
    [[5, 6, 23], [1], 0],
    [[33, 3], [0], 1],
    [[7, 3, 19], [0, 2], 1],
    [[3, 21, 1], [1], 0],
    [[2, 3, 5, 18], [2], 1],
  ] as const)
    for (const name of names) {
      const x = positive(random, shape);
      checkRows({ op: `Reduce${name}`, inputs: [x, int64(axes)], constants: [1] }, batch);
    }
});

test('reductions of nothing are the identity', () => {
  const x = new Tensor('float32', new Float32Array(0), [2, 0, 3]);
  const want = {
    Sum: 0,
    Max: -Infinity,
    Min: Infinity,
    Prod: 1,
    L1: 0,
    L2: 0,
    SumSquare: 0,
    LogSum: -Infinity,
    LogSumExp: -Infinity,
  };
  for (const [name, value] of Object.entries(want)) {
    const t = { op: `Reduce${name}`, inputs: [x, int64([1])], constants: [1] };
    check(t);
    assert.equal([...(runReference(t)[0] as Tensor<'float32'>).data], new Array(6).fill(value));
  }
});

test('LogSumExp keeps infinities and does not overflow', () => {
  const data = Float32Array.of(1000, 1001, 999, -Infinity, -Infinity, -Infinity, 1, Infinity, 2);
  for (const axes of [[1], [0]])
    check({ op: 'ReduceLogSumExp', inputs: [new Tensor('float32', data, [3, 3]), int64(axes)], constants: [1] });
});

test('no axes mean all, or none with noop_with_empty_axes', () => {
  const x = randomTensor(randomFrom(2), [3, 4]);
  const all = runReference({ op: 'ReduceSum', inputs: [x] })[0] as Tensor;
  assert.equal(all.dims, [1, 1]);
  const noop = {
    op: 'ReduceSum',
    inputs: [x, int64([])],
    constants: [1],
    attributes: { noop_with_empty_axes: int(1) },
  };
  assert.equal((runReference(noop)[0] as Tensor).data, x.data);
  check(noop);
});

test('integers reduce exactly', () => {
  const x = new Tensor('int64', [9007199254740993n, 1n, -5n, 2n], [2, 2]);
  const sum = runReference({
    op: 'ReduceSum',
    inputs: [x, int64([1])],
    attributes: { keepdims: int(0) },
  })[0] as Tensor<'int64'>;
  assert.equal([...sum.data], [9007199254740994n, -3n]);
  const max = runReference({
    op: 'ReduceMax',
    inputs: [x, int64([0])],
    attributes: { keepdims: int(0) },
  })[0] as Tensor<'int64'>;
  assert.equal([...max.data], [9007199254740993n, 2n]);
});

for (const op of ['ArgMax', 'ArgMin'])
  test(`${op} on any axis, first or last of equals`, () => {
    fc.assert(
      fc.property(fc.integer(), dims, fc.nat(3), fc.boolean(), fc.boolean(), (seed, shape, axis, last, keep) => {
        const random = randomFrom(seed);
        const x = new Tensor(
          'float32',
          Float32Array.from({ length: sizeOf(shape) }, () => Math.floor(random() * 4)),
          shape,
        );
        const attributes = {
          axis: int(axis % shape.length),
          select_last_index: int(last ? 1 : 0),
          keepdims: int(keep ? 1 : 0),
        };
        check({ op, inputs: [x], attributes });
      }),
      { numRuns: 5 },
    );
  });

for (const op of ['Softmax', 'LogSoftmax', 'Hardmax'])
  test(`${op} on any axis, and flattened before version 13`, () => {
    fc.assert(
      fc.property(fc.integer(), dims, fc.nat(3), (seed, shape, a) => {
        const t = randomTensor(randomFrom(seed), shape);
        const x = new Tensor(
          'float32',
          t.data.map((v) => 20 * v),
          shape,
        );
        const attributes = { axis: int(a % shape.length) };
        const options = { rtol: 1e-5, atol: 1e-6, fallback: op === 'Hardmax' };
        check({ op, inputs: [x], attributes }, options);
        check({ op, opset: 11, inputs: [x], attributes }, options);
      }),
      { numRuns: 5 },
    );
  });

test('softmax of a row has the same bits at any place', () => {
  const random = randomFrom(5);
  for (const op of ['Softmax', 'LogSoftmax'])
    for (const [shape, axis, batch] of [
      [[5, 1], -1, 0],
      [[5, 37], -1, 0],
      [[3, 9, 6], 1, 0],
      [[9, 3, 1], 0, 1],
      [[7, 5], 0, 1],
    ] as const)
      checkRows({ op, inputs: [randomTensor(random, shape)], attributes: { axis: int(axis) } }, batch);
});

test('softmax is right for huge and masked values', () => {
  const x = new Tensor('float32', Float32Array.of(1e4, 1e4 - 1, -Infinity, 0, -1e4, -Infinity), [2, 3]);
  for (const op of ['Softmax', 'LogSoftmax'])
    for (const axis of [0, 1]) check({ op, inputs: [x], attributes: { axis: int(axis) } });
});

for (const op of ['CumSum', 'CumProd'])
  test(`${op} forwards, backwards, exclusive`, () => {
    fc.assert(
      fc.property(
        fc.integer(),
        dims,
        fc.nat(3),
        fc.nat(3),
        fc.constantFrom('float32', 'int64', 'int32'),
        (seed, shape, a, how, type) => {
          const random = randomFrom(seed);
          const x =
            type === 'float32'
              ? positive(random, shape)
              : new Tensor(
                  type as 'int64',
                  Array.from({ length: sizeOf(shape) }, () => Math.floor(random() * 9) - 4),
                  shape,
                );
          const axis = new Tensor('int64', [a % shape.length], []);
          const attributes = { exclusive: int(how & 1), reverse: int(how >> 1) };
          const t: NodeTest = { op, opset: 26, inputs: [x, axis], constants: [1], attributes };
          check(t, { rtol: 1e-4, atol: 1e-6 });
        },
      ),
      { numRuns: 5 },
    );
  });

test('axes outside the shape are errors that name the node', () => {
  const x = randomTensor(randomFrom(1), [2, 3]);
  const cases: NodeTest[] = [
    { op: 'ReduceSum', inputs: [x, int64([2])] },
    { op: 'Softmax', inputs: [x], attributes: { axis: int(2) } },
    { op: 'ArgMax', inputs: [x], attributes: { axis: int(-3) } },
    { op: 'CumSum', inputs: [x, new Tensor('int64', [7], [])] },
  ];
  for (const t of cases)
    assert.throws(
      () => runReference(t),
      (e: unknown) =>
        e instanceof SkepError && e.message.startsWith(`${t.op} 'test': axis `) && /outside \[-2, 1\]/.test(e.message),
    );
});

test.run();
