// Pooling: kernels against the reference over random windows in one to three dimensions, shapes worked out by hand for
// ceil_mode and auto_pad, and unpooling.
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Attribute } from '../../src/graph/graph.js';
import { SkepError } from '../../src/tensor/errors.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { check, runReference } from './harness.js';
import { checkRows } from './invariance.js';
import { randomFrom, randomTensor } from './random.js';

const int = (value: number): Attribute => ({ kind: 'int', value });
const ints = (value: readonly number[]): Attribute => ({ kind: 'ints', value });
const string = (value: string): Attribute => ({ kind: 'string', value });

/** One axis of a window: lengths that fit together. */
const axis = fc
  .record({
    kernel: fc.integer({ min: 1, max: 4 }),
    stride: fc.integer({ min: 1, max: 3 }),
    dilation: fc.integer({ min: 1, max: 2 }),
    extra: fc.nat(9),
    before: fc.nat(2),
    after: fc.nat(2),
  })
  .map((a) => ({ ...a, before: Math.min(a.before, a.kernel - 1), after: Math.min(a.after, a.kernel - 1) }))
  .map((a) => ({ ...a, input: (a.kernel - 1) * a.dilation + 1 + a.extra }));

const windows = fc.record({
  seed: fc.integer(),
  axes: fc.array(axis, { minLength: 1, maxLength: 3 }),
  ceil: fc.boolean(),
  include: fc.boolean(),
  auto: fc.constantFrom('NOTSET', 'NOTSET', 'VALID', 'SAME_UPPER', 'SAME_LOWER'),
  n: fc.integer({ min: 1, max: 2 }),
  c: fc.integer({ min: 1, max: 3 }),
});

for (const [op, extra] of [
  ['MaxPool', {}],
  ['AveragePool', {}],
  ['LpPool', { p: int(2) }],
  ['LpPool', { p: int(1) }],
] as const)
  test(`${op} over windows of any kind ${'p' in extra ? `(p ${(extra.p as { value: number }).value})` : ''}`, () => {
    fc.assert(
      fc.property(windows, ({ seed, axes, ceil, include, auto, n, c }) => {
        const x = randomTensor(randomFrom(seed), [n, c, ...axes.map((a) => a.input)]);
        const attributes: Record<string, Attribute> = {
          kernel_shape: ints(axes.map((a) => a.kernel)),
          strides: ints(axes.map((a) => a.stride)),
          dilations: ints(axes.map((a) => a.dilation)),
          ceil_mode: int(ceil ? 1 : 0),
          auto_pad: string(auto),
          ...extra,
          ...(op === 'AveragePool' && { count_include_pad: int(include ? 1 : 0) }),
          ...(auto === 'NOTSET' && { pads: ints([...axes.map((a) => a.before), ...axes.map((a) => a.after)]) }),
        };
        check({ op, inputs: [x], attributes }, { rtol: 1e-5, atol: 1e-6 });
      }),
      { numRuns: 10 },
    );
  });

test('wide rows: pools of convolutional networks', () => {
  const x = randomTensor(randomFrom(1), [2, 2, 13, 37]);
  for (const [kernel, stride, pad] of [
    [3, 2, 1],
    [2, 2, 0],
    [3, 1, 1],
    [5, 1, 2],
    [3, 3, 0],
    [7, 4, 3],
  ] as const)
    for (const op of ['MaxPool', 'AveragePool']) {
      const attributes = {
        kernel_shape: ints([kernel, kernel]),
        strides: ints([stride, stride]),
        pads: ints([pad, pad, pad, pad]),
      };
      check({ op, inputs: [x], attributes });
      checkRows({ op, inputs: [x], attributes });
    }
});

test('global pools', () => {
  const random = randomFrom(2);
  for (const dims of [
    [2, 3],
    [2, 3, 7],
    [1, 2, 5, 6],
    [2, 2, 3, 4, 5],
  ])
    for (const op of ['GlobalAveragePool', 'GlobalMaxPool', 'GlobalLpPool'])
      check({ op, inputs: [randomTensor(random, dims)] });
  checkRows({ op: 'GlobalAveragePool', inputs: [randomTensor(random, [3, 4, 5, 5])] });
});

test('ceil_mode, auto_pad and count_include_pad as the specification has them', () => {
  const x = new Tensor('float32', Float32Array.of(1, 2, 3, 4, 5), [1, 1, 5]);
  const run = (op: string, attributes: Record<string, Attribute>) => [
    ...(runReference({ op, inputs: [x], attributes })[0] as Tensor<'float32'>).data,
  ];
  const k2 = { kernel_shape: ints([2]), strides: ints([2]) };
  assert.equal(run('MaxPool', k2), [2, 4]);
  assert.equal(run('MaxPool', { ...k2, ceil_mode: int(1) }), [2, 4, 5]);
  assert.equal(run('AveragePool', { ...k2, ceil_mode: int(1), count_include_pad: int(1) }), [1.5, 3.5, 5]);
  assert.equal(run('AveragePool', { ...k2, pads: ints([1, 0]) }), [1, 2.5, 4.5]);
  assert.equal(run('AveragePool', { ...k2, pads: ints([1, 0]), count_include_pad: int(1) }), [0.5, 2.5, 4.5]);
  assert.equal(run('MaxPool', { ...k2, auto_pad: string('SAME_LOWER') }), [1, 3, 5]);
  assert.equal(run('MaxPool', { ...k2, auto_pad: string('SAME_UPPER') }), [2, 4, 5]);
  // A window that would start in the padding after the input is left out.
  assert.equal(
    run('MaxPool', { kernel_shape: ints([1]), strides: ints([3]), pads: ints([0, 0]), ceil_mode: int(1) }),
    [1, 4],
  );
});

test('MaxPool tells where the largest was, and MaxUnpool puts it back', () => {
  const x = new Tensor('float32', Float32Array.of(1, 5, 2, 8, 3, 4, 7, 6), [1, 1, 2, 4]);
  const attributes = { kernel_shape: ints([2, 2]), strides: ints([2, 2]) };
  const [y, at] = runReference({ op: 'MaxPool', inputs: [x], outputs: 2, attributes }) as [
    Tensor<'float32'>,
    Tensor<'int64'>,
  ];
  assert.equal([...y.data], [5, 8]);
  assert.equal([...at.data], [1n, 3n]);
  const columns = { ...attributes, storage_order: int(1) };
  const [, other] = runReference({ op: 'MaxPool', inputs: [x], outputs: 2, attributes: columns }) as [
    Tensor,
    Tensor<'int64'>,
  ];
  assert.equal([...other.data], [2n, 6n]);
  const [back] = runReference({ op: 'MaxUnpool', inputs: [y, at], attributes }) as [Tensor<'float32'>];
  assert.equal([...back.data], [0, 5, 0, 8, 0, 0, 0, 0]);
});

test('windows that do not fit are errors', () => {
  const x = randomTensor(randomFrom(3), [1, 1, 4, 4]);
  const cases: { attributes: Record<string, Attribute>; say: RegExp }[] = [
    { attributes: { kernel_shape: ints([5, 5]) }, say: /a window of 5 does not fit axis 2/ },
    { attributes: { kernel_shape: ints([2]) }, say: /kernel_shape must have 2 values/ },
    { attributes: { kernel_shape: ints([2, 2]), strides: ints([0, 1]) }, say: /strides .* out of range/ },
    { attributes: { kernel_shape: ints([2, 2]), pads: ints([2, 0, 0, 0]) }, say: /pads .* must be smaller/ },
    { attributes: { kernel_shape: ints([2 ** 31, 1]), auto_pad: string('SAME_UPPER') }, say: /too large/ },
    { attributes: {}, say: /attribute 'kernel_shape' is missing/ },
  ];
  for (const { say, attributes } of cases)
    assert.throws(
      () => runReference({ op: 'MaxPool', inputs: [x], attributes }),
      (e: unknown) => e instanceof SkepError && say.test(e.message),
    );
});

test.run();
