// Conv: kernels against the reference over random geometry, and the bits of an image whatever batch it is in.
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Attribute } from '../../src/graph/graph.js';
import { activations } from '../../src/kernels/activation.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { builds, check, type NodeTest, runKernels, runReference } from './harness.js';
import { randomFrom, randomTensor } from './random.js';

const int = (value: number): Attribute => ({ kind: 'int', value });
const ints = (value: readonly number[]): Attribute => ({ kind: 'ints', value });
const string = (value: string): Attribute => ({ kind: 'string', value });
const tolerance = { rtol: 2e-5, atol: 1e-5 };

const axis = fc.record({
  // At least the window's reach is added to this.
  extra: fc.integer({ min: 0, max: 20 }),
  kernel: fc.integer({ min: 1, max: 4 }),
  stride: fc.integer({ min: 1, max: 3 }),
  dilation: fc.integer({ min: 1, max: 2 }),
  padBegin: fc.integer({ min: 0, max: 2 }),
  padEnd: fc.integer({ min: 0, max: 2 }),
});

const geometry = fc.record({
  seed: fc.integer(),
  batch: fc.integer({ min: 1, max: 3 }),
  groups: fc.integer({ min: 1, max: 3 }),
  channels: fc.integer({ min: 1, max: 5 }),
  m: fc.integer({ min: 1, max: 9 }),
  axes: fc.array(axis, { minLength: 1, maxLength: 3 }),
  autoPad: fc.constantFrom('NOTSET', 'VALID', 'SAME_UPPER', 'SAME_LOWER'),
  bias: fc.boolean(),
  constant: fc.boolean(),
});

type Geometry = typeof geometry extends fc.Arbitrary<infer T> ? T : never;

function convOf(g: Geometry): NodeTest {
  const random = randomFrom(g.seed);
  // Three axes of 20 are more than a test needs.
  const extraOf = (e: number) => (g.axes.length === 3 ? e % 5 : e);
  const spatial = g.axes.map((a) => (a.kernel - 1) * a.dilation + 1 + extraOf(a.extra));
  const x = randomTensor(random, [g.batch, g.groups * g.channels, ...spatial]);
  const w = randomTensor(random, [g.groups * g.m, g.channels, ...g.axes.map((a) => a.kernel)]);
  return {
    op: 'Conv',
    inputs: g.bias ? [x, w, randomTensor(random, [g.groups * g.m])] : [x, w],
    constants: g.constant ? (g.bias ? [1, 2] : [1]) : [],
    attributes: {
      group: int(g.groups),
      strides: ints(g.axes.map((a) => a.stride)),
      dilations: ints(g.axes.map((a) => a.dilation)),
      auto_pad: string(g.autoPad),
      ...(g.autoPad === 'NOTSET' && { pads: ints([...g.axes.map((a) => a.padBegin), ...g.axes.map((a) => a.padEnd)]) }),
    },
  };
}

test('Conv in one to three dimensions with groups, strides, dilations and padding', () => {
  fc.assert(
    fc.property(geometry, (g) => check(convOf(g), tolerance)),
    { numRuns: 120 },
  );
});

test('depthwise Conv', () => {
  const property = fc.property(geometry, fc.integer({ min: 1, max: 6 }), (g, groups) =>
    check(convOf({ ...g, groups, channels: 1, m: 1 }), tolerance),
  );
  fc.assert(property, { numRuns: 80 });
});

test('Conv with a residual and any activation', () => {
  const property = fc.property(
    geometry,
    fc.constantFrom(...Object.keys(activations)),
    fc.boolean(),
    fc.boolean(),
    (g, name, residual, depthwise) => {
      const t = convOf(depthwise ? { ...g, channels: 1, m: 1 } : g);
      const { dims } = runReference(t)[0] as Tensor;
      const z = residual ? randomTensor(randomFrom(g.seed + 1), dims) : undefined;
      const inputs = [t.inputs[0], t.inputs[1], t.inputs[2], z];
      const params: Record<string, Attribute> =
        name === 'clip' ? { activation_params: { kind: 'floats', value: [-0.5, 0.75] } } : {};
      check(
        {
          ...t,
          domain: 'skep',
          opset: 1,
          inputs,
          attributes: { ...t.attributes, activation: string(name), ...params },
        },
        tolerance,
      );
    },
  );
  fc.assert(property, { numRuns: 80 });
});

test('windows of four dimensions fall back to the reference', () => {
  const random = randomFrom(1);
  const inputs = [randomTensor(random, [1, 2, 3, 3, 3, 3]), randomTensor(random, [2, 2, 2, 2, 2, 2])];
  check({ op: 'Conv', inputs }, { fallback: true });
});

test('a window that sees all of X, several panels, chunks of output channels', () => {
  const random = randomFrom(2);
  const cases: { x: number[]; w: number[]; pads?: number[]; strides?: number[] }[] = [
    { x: [3, 5, 4, 4], w: [7, 5, 4, 4] },
    { x: [3, 40, 1, 1], w: [17, 40, 1, 1] },
    // Few pixels and weights beyond the level-2 cache.
    { x: [1, 64, 7, 7], w: [128, 64, 3, 3], pads: [1, 1, 1, 1] },
    // Many channels of few pixels: chunks of output channels.
    { x: [1, 8, 3, 3], w: [200, 8, 1, 1] },
    { x: [2, 16, 20, 20], w: [70, 16, 1, 1] },
    { x: [1, 3, 33, 35], w: [20, 3, 7, 7], pads: [3, 3, 3, 3], strides: [2, 2] },
  ];
  for (const c of cases) {
    const inputs = [randomTensor(random, c.x), randomTensor(random, c.w), randomTensor(random, [c.w[0]!])];
    const attributes = { ...(c.pads && { pads: ints(c.pads) }), ...(c.strides && { strides: ints(c.strides) }) };
    check({ op: 'Conv', inputs, constants: [1, 2], attributes }, { rtol: 2e-5, atol: 1e-4 });
  }
});

test('the bits of an image do not depend on its batch or its place in it', () => {
  const property = fc.property(geometry, fc.array(fc.nat(2), { minLength: 2, maxLength: 9 }), (g, which) => {
    const t = convOf({ ...g, batch: 3 });
    const x = t.inputs[0] as Tensor<'float32'>;
    const size = x.size / 3;
    const run = (images: readonly number[], build: (typeof builds)[number]) => {
      const data = new Float32Array(images.length * size);
      for (const [i, image] of images.entries()) data.set(x.data.subarray(image * size, (image + 1) * size), i * size);
      const inputs = [new Tensor('float32', data, [images.length, ...x.dims.slice(1)]), ...t.inputs.slice(1)];
      return runKernels({ ...t, inputs }, build).outputs[0] as Tensor<'float32'>;
    };
    for (const build of builds) {
      const alone = [0, 1, 2].map((i) => run([i], build).data);
      const together = run(which, build).data;
      const each = together.length / which.length;
      for (const [i, image] of which.entries())
        assert.equal(together.subarray(i * each, (i + 1) * each), alone[image], `image ${i} of ${which.length}`);
    }
  });
  fc.assert(property, { numRuns: 30 });
});

test('shapes that do not fit are named', () => {
  const random = randomFrom(1);
  const x = randomTensor(random, [1, 4, 5, 5]);
  const fails = (w: readonly number[], attributes: Record<string, Attribute>, message: RegExp, b?: readonly number[]) =>
    assert.throws(
      () =>
        runReference({
          op: 'Conv',
          inputs: [x, randomTensor(random, w), ...(b ? [randomTensor(random, b)] : [])],
          attributes,
        }),
      message,
    );
  fails([2, 3, 3, 3], {}, /Conv 'test': X \[1, 4, 5, 5\] does not fit W \[2, 3, 3, 3\] in 1 group/);
  fails([2, 4, 3], {}, /one rank/);
  fails([2, 4, 3, 3], { strides: ints([1]) }, /strides must have 2 values, got \[1\]/);
  fails([2, 4, 3, 3], { strides: ints([0, 1]) }, /strides must be at least 1/);
  fails([2, 4, 7, 7], {}, /the window reaches over 7 on axis 2, the padded X has 5/);
  fails([2, 4, 3, 3], { kernel_shape: ints([5, 5]) }, /kernel_shape \[5, 5\] does not fit/);
  fails([2, 4, 3, 3], { auto_pad: string('SAME') }, /auto_pad must be/);
  fails([2, 4, 3, 3], {}, /expected B of shape \[2\], got \[3\]/, [3]);
});

test.run();
