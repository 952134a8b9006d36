// Normalizations: kernels against the reference on random shapes, and the bits of a row whatever stands beside it.
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Attribute } from '../../src/graph/graph.js';
import { SkepError } from '../../src/tensor/errors.js';
import { sizeOf } from '../../src/tensor/shape.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { check, runReference } from './harness.js';
import { checkRows } from './invariance.js';
import { randomFrom, randomTensor } from './random.js';

const int = (value: number): Attribute => ({ kind: 'int', value });
const float = (value: number): Attribute => ({ kind: 'float', value });
const tolerance = { rtol: 2e-5, atol: 2e-5 };

const positive = (random: () => number, dims: readonly number[]) =>
  new Tensor(
    'float32',
    randomTensor(random, dims).data.map((v) => Math.abs(v) + 0.1),
    dims,
  );

const spatial = fc.array(fc.integer({ min: 1, max: 7 }), { maxLength: 3 });

test('BatchNormalization by given statistics', () => {
  fc.assert(
    fc.property(
      fc.integer(),
      fc.integer({ min: 1, max: 3 }),
      fc.integer({ min: 1, max: 5 }),
      spatial,
      (seed, n, c, rest) => {
        const r = randomFrom(seed);
        const inputs = [
          randomTensor(r, [n, c, ...rest]),
          randomTensor(r, [c]),
          randomTensor(r, [c]),
          randomTensor(r, [c]),
          positive(r, [c]),
        ];
        check({ op: 'BatchNormalization', inputs, attributes: { epsilon: float(1e-3) } }, tolerance);
        check({ op: 'BatchNormalization', opset: 9, inputs, constants: [1, 2, 3, 4] }, tolerance);
      },
    ),
    { numRuns: 6 },
  );
});

test('BatchNormalization in training mode uses and gives the statistics of the batch', () => {
  const r = randomFrom(1);
  const x = randomTensor(r, [4, 2, 3]);
  const inputs = [
    x,
    new Tensor('float32', Float32Array.of(1, 1)),
    new Tensor('float32', new Float32Array(2)),
    randomTensor(r, [2]),
    positive(r, [2]),
  ];
  const t = {
    op: 'BatchNormalization',
    opset: 15,
    inputs,
    outputs: 3,
    attributes: { training_mode: int(1), momentum: float(0) },
  };
  const [y, mean, variance] = runReference(t) as Tensor<'float32'>[];
  for (let c = 0; c < 2; c++) {
    const values = Array.from({ length: 12 }, (_, k) => x.data[(Math.floor(k / 3) * 2 + c) * 3 + (k % 3)]!);
    const m = values.reduce((a, b) => a + b) / 12;
    assert.ok(Math.abs(mean!.data[c]! - m) < 1e-6);
    assert.ok(Math.abs(variance!.data[c]! - values.reduce((a, v) => a + (v - m) ** 2, 0) / 12) < 1e-6);
    const out = Array.from({ length: 12 }, (_, k) => y!.data[(Math.floor(k / 3) * 2 + c) * 3 + (k % 3)]!);
    assert.ok(Math.abs(out.reduce((a, b) => a + b)) < 1e-4);
  }
  check(t, { fallback: true });
});

test('LayerNormalization and RMSNormalization from any axis', () => {
  const shape = fc.array(fc.oneof({ weight: 4, arbitrary: fc.integer({ min: 1, max: 6 }) }, fc.constantFrom(19, 33)), {
    minLength: 1,
    maxLength: 4,
  });
  fc.assert(
    fc.property(fc.integer(), shape, fc.nat(3), (seed, dims, a) => {
      const r = randomFrom(seed);
      const axis = a % dims.length;
      const own = dims.slice(axis);
      const attributes = { axis: int(axis - (seed % 2 ? dims.length : 0)), epsilon: float(0.01) };
      const [x, scale, bias] = [randomTensor(r, dims), randomTensor(r, own), randomTensor(r, own)];
      check({ op: 'LayerNormalization', inputs: [x, scale, bias], outputs: 3, attributes }, tolerance);
      check({ op: 'LayerNormalization', inputs: [x, scale], attributes }, tolerance);
      check({ op: 'RMSNormalization', inputs: [x, scale], attributes }, tolerance);
    }),
    { numRuns: 6 },
  );
});

test('a scale that broadcasts is right without a kernel', () => {
  const r = randomFrom(2);
  const inputs = [randomTensor(r, [2, 3, 4]), randomTensor(r, [4]), randomTensor(r, [3, 1])];
  check({ op: 'LayerNormalization', inputs, attributes: { axis: int(1) } }, { ...tolerance, fallback: true });
});

test('InstanceNormalization and GroupNormalization', () => {
  fc.assert(
    fc.property(
      fc.integer(),
      fc.integer({ min: 1, max: 3 }),
      fc.integer({ min: 1, max: 3 }),
      fc.integer({ min: 1, max: 3 }),
      fc.array(fc.integer({ min: 2, max: 7 }), { minLength: 1, maxLength: 3 }),
      (seed, n, groups, each, rest) => {
        const r = randomFrom(seed);
        const c = groups * each;
        const x = randomTensor(r, [n, c, ...rest]);
        const [scale, bias] = [randomTensor(r, [c]), randomTensor(r, [c])];
        check({ op: 'InstanceNormalization', inputs: [x, scale, bias] }, tolerance);
        const attributes = { num_groups: int(groups) };
        check({ op: 'GroupNormalization', inputs: [x, scale, bias], attributes }, tolerance);
        const old = [x, randomTensor(r, [groups]), randomTensor(r, [groups])];
        check({ op: 'GroupNormalization', opset: 18, inputs: old, attributes }, tolerance);
      },
    ),
    { numRuns: 10 },
  );
});

test('rows keep their bits at any place', () => {
  const r = randomFrom(3);
  for (const n of [1, 3, 16, 37]) {
    const [scale, bias] = [randomTensor(r, [n]), randomTensor(r, [n])];
    checkRows({ op: 'LayerNormalization', inputs: [randomTensor(r, [5, n]), scale, bias] });
    checkRows({ op: 'RMSNormalization', inputs: [randomTensor(r, [5, n]), scale] });
  }
  const c = [randomTensor(r, [4]), randomTensor(r, [4])];
  const x = randomTensor(r, [3, 4, 7]);
  checkRows({ op: 'InstanceNormalization', inputs: [x, ...c] });
  checkRows({ op: 'GroupNormalization', inputs: [x, ...c], attributes: { num_groups: int(2) } });
  checkRows({ op: 'BatchNormalization', inputs: [x, ...c, randomTensor(r, [4]), positive(r, [4])] });
  checkRows({ op: 'LRN', inputs: [x], attributes: { size: int(3) } });
});

test('a row far from 0 is normalized without losing its variance', () => {
  const r = randomFrom(4);
  const x = new Tensor(
    'float32',
    randomTensor(r, [3, 64]).data.map((v) => 1000 + v),
    [3, 64],
  );
  const ones = new Tensor('float32', new Float32Array(64).fill(1));
  check({ op: 'LayerNormalization', inputs: [x, ones] }, { rtol: 1e-3, atol: 1e-3 });
});

test('LRN, LpNormalization and MeanVarianceNormalization', () => {
  fc.assert(
    fc.property(
      fc.integer(),
      fc.integer({ min: 1, max: 6 }),
      spatial,
      fc.integer({ min: 1, max: 6 }),
      (seed, c, rest, size) => {
        const x = randomTensor(randomFrom(seed), [2, c, ...rest]);
        const attributes = { size: int(size), alpha: float(0.5), bias: float(1.5) };
        check({ op: 'LRN', inputs: [x], attributes }, tolerance);
      },
    ),
    { numRuns: 10 },
  );
  const x = new Tensor('float32', Float32Array.of(3, 4, 0, 0), [2, 2]);
  const [y] = runReference({ op: 'LpNormalization', inputs: [x] }) as Tensor<'float32'>[];
  assert.equal([...y!.data], [Math.fround(0.6), Math.fround(0.8), 0, 0]);
  const m = randomTensor(randomFrom(6), [2, 3, 4, 5]);
  const [z] = runReference({ op: 'MeanVarianceNormalization', inputs: [m] }) as Tensor<'float32'>[];
  const channel = Array.from(z!.data).filter((_, i) => Math.floor(i / 20) % 3 === 1);
  assert.is(channel.length, sizeOf([2, 4, 5]));
  assert.ok(Math.abs(channel.reduce((a, b) => a + b) / 40) < 1e-6);
  assert.ok(Math.abs(channel.reduce((a, b) => a + b * b, 0) / 40 - 1) < 1e-5);
});

test('parameters that do not fit are errors', () => {
  const r = randomFrom(7);
  const x = randomTensor(r, [2, 6, 3]);
  const v = (n: number) => randomTensor(r, [n]);
  const cases = [
    { op: 'BatchNormalization', inputs: [x, v(6), v(6), v(5), v(6)], say: /expected mean of 6 values, got \[5\]/ },
    {
      op: 'GroupNormalization',
      inputs: [x, v(6), v(6)],
      attributes: { num_groups: int(4) },
      say: /6 channels do not divide into 4/,
    },
    { op: 'LayerNormalization', inputs: [x, v(4)], say: /input 1 of shape \[4\] does not broadcast to \[2, 6, 3\]/ },
  ];
  for (const { say, ...t } of cases)
    assert.throws(
      () => runReference(t),
      (e: unknown) => e instanceof SkepError && say.test(e.message),
    );
});

test.run();
