// Resampling and selection, kernels against reference on random shapes and options: Resize and Upsample in every mode,
// GridSample, RoiAlign, TopK; and values worked out by hand or from the words of the specification.
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Attribute } from '../../src/graph/graph.js';
import { decode } from '../../src/tensor/convert.js';
import { SkepError } from '../../src/tensor/errors.js';
import { sizeOf } from '../../src/tensor/shape.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { check, type NodeTest, runKernels, runReference } from './harness.js';

const int = (value: number): Attribute => ({ kind: 'int', value });
const float = (value: number): Attribute => ({ kind: 'float', value });
const string = (value: string): Attribute => ({ kind: 'string', value });
const ints = (value: readonly number[]): Attribute => ({ kind: 'ints', value });
const floats32 = (values: readonly number[], dims?: readonly number[]) =>
  new Tensor('float32', Float32Array.from(values), dims);
const int64 = (values: readonly number[], dims?: readonly number[]) => new Tensor('int64', [...values], dims);

/** Smooth but uneven numbers. */
function wave(dims: readonly number[]): Tensor {
  return floats32(
    Array.from({ length: sizeOf(dims) }, (_, i) => Math.sin(i * 1.7) * 3 + (i % 5)),
    dims,
  );
}

function property<T>(name: string, arbitrary: fc.Arbitrary<T>, body: (x: T) => void, numRuns = 40): void {
  test(name, () => fc.assert(fc.property(arbitrary, body), { numRuns, includeErrorInReport: true }));
}

function values(t: NodeTest): number[] {
  return Array.from(decode(runReference(t)[0] as Tensor));
}

const transform = fc.constantFrom(
  'half_pixel',
  'half_pixel_symmetric',
  'pytorch_half_pixel',
  'align_corners',
  'asymmetric',
  'tf_crop_and_resize',
);

property(
  'Resize: every mode, transform and filter',
  fc.record({
    dims: fc.tuple(
      fc.integer({ min: 1, max: 2 }),
      fc.integer({ min: 1, max: 5 }),
      fc.integer({ min: 1, max: 7 }),
      fc.integer({ min: 1, max: 7 }),
    ),
    sizes: fc.tuple(fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 12 })),
    mode: fc.constantFrom('nearest', 'linear', 'cubic'),
    transform,
    nearest: fc.constantFrom('round_prefer_floor', 'round_prefer_ceil', 'floor', 'ceil'),
    antialias: fc.constantFrom(0, 1),
    exclude: fc.constantFrom(0, 1),
    policy: fc.constantFrom('stretch', 'not_larger', 'not_smaller'),
  }),
  ({ dims, sizes, mode, transform, nearest, antialias, exclude, policy }) => {
    const roi = transform === 'tf_crop_and_resize' ? floats32([0.1, -0.2, 0.8, 1.1]) : undefined;
    check(
      {
        op: 'Resize',
        inputs: [wave(dims), roi, undefined, int64(sizes)],
        constants: [1, 3],
        attributes: {
          mode: string(mode),
          coordinate_transformation_mode: string(transform),
          nearest_mode: string(nearest),
          antialias: int(antialias),
          exclude_outside: int(mode === 'cubic' ? exclude : 0),
          axes: ints([2, 3]),
          keep_aspect_ratio_policy: string(policy),
          extrapolation_value: float(7),
        },
      },
      { rtol: 1e-4, atol: 1e-5 },
    );
  },
  120,
);

test('Resize: scales on any axes of any type, as versions 10, 11 and Upsample say them', () => {
  for (const mode of ['nearest', 'linear']) {
    const attributes = { mode: string(mode) };
    const x = wave([1, 2, 4, 6]);
    const scales = floats32([1, 1, 2, 1.5]);
    for (const opset of [10, 11, 13, 19])
      check({
        op: 'Resize',
        opset,
        inputs: opset === 10 ? [x, scales] : [x, undefined, scales],
        constants: [1, 2],
        attributes,
      });
    check({ op: 'Upsample', opset: 9, inputs: [x, scales], constants: [1], attributes });
    check({
      op: 'Upsample',
      opset: 7,
      inputs: [x],
      attributes: { ...attributes, scales: { kind: 'floats', value: [1, 1, 2, 3] } },
    });
  }
  const bytes = new Tensor(
    'uint8',
    Uint8Array.from({ length: 24 }, (_, i) => i * 9),
    [2, 3, 4],
  );
  check({ op: 'Resize', inputs: [bytes, undefined, floats32([2, 1, 3])], constants: [2] });
});

test('Resize: 10 × 0.7 is 7, as in single precision; an empty image stays empty', () => {
  const down = { op: 'Resize', inputs: [wave([10]), undefined, floats32([0.7])], constants: [2] };
  check(down);
  assert.equal((runReference(down)[0] as Tensor).dims, [7]);
  check({ op: 'Resize', inputs: [wave([0, 2, 3]), undefined, floats32([1, 2, 2])], constants: [2] });
});

test('Resize: linear between two pixels is a straight line', () => {
  const t = {
    op: 'Resize',
    inputs: [floats32([0, 4]), undefined, undefined, int64([5])],
    attributes: { mode: string('linear'), coordinate_transformation_mode: string('align_corners') },
  };
  assert.equal(values(t), [0, 1, 2, 3, 4]);
});

test('Resize: an infinity spoils only what it takes part in', () => {
  const x = floats32([1, Number.POSITIVE_INFINITY, 3, 4], [1, 1, 1, 4]);
  const t = {
    op: 'Resize',
    inputs: [x, undefined, undefined, int64([1, 1, 1, 7])],
    constants: [3],
    attributes: { mode: string('linear'), coordinate_transformation_mode: string('align_corners') },
  };
  check(t);
  assert.equal(values(t).slice(4), [3, 3.5, 4]);
});

property(
  'GridSample: every mode and padding, coordinates far outside',
  fc.record({
    n: fc.integer({ min: 1, max: 2 }),
    c: fc.integer({ min: 1, max: 3 }),
    h: fc.integer({ min: 1, max: 5 }),
    w: fc.integer({ min: 1, max: 5 }),
    oh: fc.integer({ min: 0, max: 4 }),
    ow: fc.integer({ min: 0, max: 4 }),
    mode: fc.constantFrom('linear', 'nearest', 'cubic'),
    padding: fc.constantFrom('zeros', 'border', 'reflection'),
    align: fc.constantFrom(0, 1),
    seed: fc.integer({ min: 0, max: 1000 }),
  }),
  ({ n, c, h, w, oh, ow, mode, padding, align, seed }) => {
    // Quarters are exact in both precisions, so that rounding to the nearest pixel cannot differ.
    const grid = Array.from({ length: n * oh * ow * 2 }, (_, i) => (((i * 37 + seed) % 25) - 12) / 4 + 1 / 64);
    check(
      {
        op: 'GridSample',
        inputs: [wave([n, c, h, w]), floats32(grid, [n, oh, ow, 2])],
        attributes: { mode: string(mode), padding_mode: string(padding), align_corners: int(align) },
      },
      { rtol: 1e-4, atol: 1e-4 },
    );
  },
  80,
);

test('GridSample: the identity grid gives the image back; not-a-number stays in bounds', () => {
  const x = wave([1, 1, 2, 2]);
  const corners = floats32([-1, -1, 1, -1, -1, 1, 1, 1], [1, 2, 2, 2]);
  for (const mode of ['linear', 'nearest', 'cubic']) {
    const t = { op: 'GridSample', inputs: [x, corners], attributes: { mode: string(mode), align_corners: int(1) } };
    check(t);
    values(t).forEach((v, i) => {
      assert.ok(Math.abs(v - (x.data as Float32Array)[i]!) < 1e-5);
    });
    const wild = floats32([Number.NaN, 0, Number.POSITIVE_INFINITY, 0, 0, -1e30, 1e30, Number.NaN], [1, 2, 2, 2]);
    for (const padding of ['zeros', 'border', 'reflection'])
      check({
        op: 'GridSample',
        inputs: [x, wild],
        attributes: { mode: string('nearest'), padding_mode: string(padding) },
      });
  }
});

property(
  'RoiAlign: both modes, both alignments, regions beyond the image',
  fc.record({
    c: fc.integer({ min: 1, max: 3 }),
    h: fc.integer({ min: 1, max: 8 }),
    w: fc.integer({ min: 1, max: 8 }),
    rois: fc.array(fc.tuple(...[0, 1, 2, 3].map(() => fc.integer({ min: -8, max: 40 }))), { maxLength: 4 }),
    mode: fc.constantFrom('avg', 'max'),
    transform: fc.constantFrom('half_pixel', 'output_half_pixel'),
    ratio: fc.integer({ min: 0, max: 3 }),
    out: fc.tuple(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 1, max: 3 })),
  }),
  ({ c, h, w, rois, mode, transform, ratio, out }) =>
    check(
      {
        op: 'RoiAlign',
        inputs: [
          wave([2, c, h, w]),
          floats32(
            rois.flat().map((v) => v / 4 + 0.03125),
            [rois.length, 4],
          ),
          int64(rois.map((_, i) => i % 2)),
        ],
        attributes: {
          mode: string(mode),
          coordinate_transformation_mode: string(transform),
          sampling_ratio: int(ratio),
          output_height: int(out[0]),
          output_width: int(out[1]),
        },
      },
      { rtol: 1e-4, atol: 1e-4 },
    ),
);

property(
  'TopK: largest or smallest along any axis, ties by index, NaN above all',
  fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 3 }).chain((dims) =>
    fc.integer({ min: 0, max: dims.length - 1 }).chain((axis) =>
      fc.record({
        dims: fc.constant(dims),
        axis: fc.constant(axis),
        k: fc.integer({ min: 0, max: dims[axis]! }),
        largest: fc.constantFrom(0, 1),
        data: fc.array(fc.constantFrom(-2, -1, 0, 1, 2, Number.NaN, Number.POSITIVE_INFINITY), {
          minLength: sizeOf(dims),
          maxLength: sizeOf(dims),
        }),
      }),
    ),
  ),
  ({ dims, axis, k, largest, data }) =>
    check({
      op: 'TopK',
      inputs: [floats32(data, dims), int64([k])],
      constants: [1],
      attributes: { axis: int(axis), largest: int(largest) },
      outputs: 2,
    }),
  80,
);

test('TopK of int64 keeps every bit; version 1 has k as an attribute', () => {
  const big = new Tensor('int64', [2n ** 62n, 2n ** 62n + 1n, -5n]);
  const top = runReference({ op: 'TopK', inputs: [big, int64([1])], outputs: 2 });
  assert.equal((top[0] as Tensor).data, BigInt64Array.of(2n ** 62n + 1n));
  check({ op: 'TopK', opset: 1, inputs: [wave([9])], attributes: { k: int(4) }, outputs: 2 });
});

test('hostile sizes and options are errors in words', () => {
  const x = wave([1, 1, 4, 4]);
  const bad: [NodeTest, RegExp][] = [
    [{ op: 'Resize', inputs: [x, undefined, floats32([1, 1, 1e6, 1e6])] }, /larger than 2 GiB/],
    [{ op: 'Resize', inputs: [x, undefined, floats32([1, 1, 0, 1])] }, /must be positive/],
    [{ op: 'Resize', inputs: [x, undefined, floats32([1, 1, Number.NaN, 1])] }, /must be positive/],
    [{ op: 'Resize', inputs: [x] }, /exactly one of scales and sizes/],
    [{ op: 'Resize', inputs: [x, undefined, floats32([2])] }, /expected 4 scales/],
    [{ op: 'GridSample', inputs: [x, wave([2, 1, 1, 2])] }, /does not fit/],
    [{ op: 'TopK', inputs: [x, int64([5])], outputs: 2 }, /k = 5 is outside/],
    [
      { op: 'RoiAlign', inputs: [x, wave([1, 4]), int64([3])], attributes: { sampling_ratio: int(1e6) } },
      /sampling_ratio/,
    ],
    [{ op: 'RoiAlign', inputs: [x, wave([1, 4]), int64([3])] }, /index 3 is outside/],
  ];
  for (const [node, words] of bad)
    assert.throws(
      () => runReference(node),
      (e: unknown) => e instanceof SkepError && words.test(e.message),
      node.op,
    );
});

test('nearest GridSample takes halves to the even pixel, in 2-D and in 3-D', () => {
  const run = (n: number, x: number) => {
    const image = new Tensor('float32', [10, 11, 12, 13], [1, 1, ...new Array<number>(n - 1).fill(1), 4]);
    const grid = new Tensor(
      'float32',
      [x, ...new Array<number>(n - 1).fill(0)],
      [1, ...new Array<number>(n).fill(1), n],
    );
    const attributes = { mode: string('nearest') };
    const t = { op: 'GridSample', opset: 20, inputs: [image, grid], attributes };
    const [y] = runReference(t) as [Tensor<'float32'>];
    assert.equal([...(runKernels(t).outputs[0] as Tensor<'float32'>).data], [...y.data]);
    return y.data[0];
  };
  // 0.5 is pixel ((0.5 + 1) · 4 − 1) / 2 = 2.5.
  assert.is(run(2, 0.5), 12);
  assert.is(run(3, 0.5), 12);
  assert.is(run(2, 0), 12);
  assert.is(run(3, 0), 12);
});

test.run();
