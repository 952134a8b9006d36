// ConvTranspose: kernels against the reference over random geometry; the reference against Conv, whose transpose it is.
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Attribute } from '../../src/graph/graph.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { builds, check, runKernels, runReference } from './harness.js';
import { randomFrom, randomTensor } from './random.js';

const int = (value: number): Attribute => ({ kind: 'int', value });
const ints = (value: readonly number[]): Attribute => ({ kind: 'ints', value });
const string = (value: string): Attribute => ({ kind: 'string', value });

const axis = fc.record({
  input: fc.integer({ min: 1, max: 9 }),
  kernel: fc.integer({ min: 1, max: 4 }),
  stride: fc.integer({ min: 1, max: 3 }),
  dilation: fc.integer({ min: 1, max: 2 }),
  padBegin: fc.integer({ min: 0, max: 2 }),
  padEnd: fc.integer({ min: 0, max: 2 }),
  extra: fc.integer({ min: 0, max: 2 }),
});

const geometry = fc.record({
  seed: fc.integer(),
  batch: fc.integer({ min: 1, max: 3 }),
  groups: fc.integer({ min: 1, max: 3 }),
  channels: fc.integer({ min: 1, max: 5 }),
  m: fc.integer({ min: 1, max: 5 }),
  axes: fc.array(axis, { minLength: 1, maxLength: 3 }),
  bias: fc.boolean(),
  constant: fc.boolean(),
});

type Geometry = typeof geometry extends fc.Arbitrary<infer T> ? T : never;
type AxisCase = Geometry['axes'][number];

const full = (a: AxisCase) => a.stride * (a.input - 1) + a.extra + (a.kernel - 1) * a.dilation + 1;
const fits = (g: Geometry) => g.axes.every((a) => full(a) - a.padBegin - a.padEnd >= 0);

function attributesOf(g: Geometry): Record<string, Attribute> {
  return {
    group: int(g.groups),
    strides: ints(g.axes.map((a) => a.stride)),
    dilations: ints(g.axes.map((a) => a.dilation)),
  };
}

function inputsOf(g: Geometry): Tensor<'float32'>[] {
  const random = randomFrom(g.seed);
  const sizes = g.axes.map((a) => (g.axes.length === 3 ? Math.min(a.input, 4) : a.input));
  const x = randomTensor(random, [g.batch, g.groups * g.channels, ...sizes]);
  const w = randomTensor(random, [g.groups * g.channels, g.m, ...g.axes.map((a) => a.kernel)]);
  return g.bias ? [x, w, randomTensor(random, [g.groups * g.m])] : [x, w];
}

const padsOf = (g: Geometry) => ints([...g.axes.map((a) => a.padBegin), ...g.axes.map((a) => a.padEnd)]);

test('windows that lie side by side', () => {
  const sizes = fc.record({ h: fc.integer({ min: 1, max: 9 }), w: fc.integer({ min: 1, max: 19 }) });
  const kernelHeight = fc.integer({ min: 1, max: 3 });
  const names = fc.constantFrom('none', 'relu', 'sigmoid', 'hardSwish');
  const property = fc.property(
    geometry,
    sizes,
    kernelHeight,
    names,
    fc.boolean(),
    (g, { h, w }, kernel, name, flat) => {
      const axisOf = (input: number, size: number) =>
        ({ input, kernel: size, stride: size, dilation: 1, padBegin: 0, padEnd: 0, extra: 0 }) satisfies AxisCase;
      const axes = flat ? [axisOf(w, 2)] : [axisOf(h, kernel), axisOf(w, 2)];
      const side = { ...g, axes };
      const inputs = inputsOf(side);
      const attributes = { ...attributesOf(side), activation: string(name) };
      const t = { op: 'ConvTranspose', domain: 'skep', opset: 1, inputs, constants: [1], attributes };
      check(t, { rtol: 2e-5, atol: 1e-5 });
      assert.ok(runKernels(t).kernels.includes('interleave'));
    },
  );
  fc.assert(property, { numRuns: 60 });
});

test('ConvTranspose in one to three dimensions', () => {
  const modes = fc.constantFrom('pads', 'shape', 'SAME_UPPER', 'SAME_LOWER', 'VALID');
  const property = fc.property(
    geometry.filter(fits),
    modes,
    fc.constantFrom('none', 'relu', 'hardSwish'),
    (g, mode, name) => {
      const sizes = g.axes.map((a) => ({ ...a, input: g.axes.length === 3 ? Math.min(a.input, 4) : a.input }));
      if (!fits({ ...g, axes: sizes })) return;
      const attributes = {
        ...attributesOf(g),
        output_padding: ints(g.axes.map((a) => a.extra)),
        ...(mode === 'pads' && { pads: padsOf(g) }),
        ...(mode === 'shape' && { output_shape: ints(sizes.map((a) => Math.max(1, full(a) + a.padBegin - a.padEnd))) }),
        ...(mode !== 'pads' && mode !== 'shape' && { auto_pad: string(mode) }),
      };
      const inputs = inputsOf(g);
      const constants = g.constant ? inputs.slice(1).map((_, i) => i + 1) : [];
      check({ op: 'ConvTranspose', inputs, constants, attributes }, { rtol: 2e-5, atol: 1e-5 });
      const fused = { ...attributes, activation: string(name) };
      check(
        { op: 'ConvTranspose', domain: 'skep', opset: 1, inputs, constants, attributes: fused },
        { rtol: 2e-5, atol: 1e-5 },
      );
    },
  );
  fc.assert(property, { numRuns: 80 });
});

test('it is the transpose of Conv: <Conv(x), y> = <x, ConvTranspose(y)>', () => {
  const property = fc.property(geometry, (raw) => {
    const g = { ...raw, bias: false };
    // y has the shape of Conv's output, x that of its input.
    const [y, w] = inputsOf(g) as [Tensor<'float32'>, Tensor<'float32'>];
    const sizes = y.dims.slice(2).map((input, i) => ({ ...g.axes[i]!, input }));
    if (sizes.some((a) => a.extra >= a.stride || full(a) - a.padBegin - a.padEnd < 1)) return;
    const attributes = { ...attributesOf(g), pads: padsOf(g) };
    const transposed = runReference({
      op: 'ConvTranspose',
      inputs: [y, w],
      attributes: { ...attributes, output_padding: ints(sizes.map((a) => a.extra)) },
    })[0] as Tensor<'float32'>;
    const x = randomTensor(randomFrom(g.seed + 1), transposed.dims);
    const conv = runReference({ op: 'Conv', inputs: [x, w], attributes })[0] as Tensor<'float32'>;
    assert.equal(conv.dims, y.dims);
    let left = 0;
    let right = 0;
    for (let i = 0; i < y.size; i++) left += conv.data[i]! * y.data[i]!;
    for (let i = 0; i < x.size; i++) right += transposed.data[i]! * x.data[i]!;
    assert.ok(Math.abs(left - right) < 1e-4 * (1 + Math.abs(left)), `${left} and ${right}`);
  });
  fc.assert(property, { numRuns: 60 });
});

test('the bits of an image do not depend on its batch', () => {
  const property = fc.property(geometry, fc.array(fc.nat(2), { minLength: 2, maxLength: 6 }), (g, which) => {
    const [x, ...rest] = inputsOf({ ...g, batch: 3 }) as [Tensor<'float32'>, ...Tensor<'float32'>[]];
    const size = x.size / 3;
    const run = (images: readonly number[], build: (typeof builds)[number]) => {
      const data = new Float32Array(images.length * size);
      for (const [i, image] of images.entries()) data.set(x.data.subarray(image * size, (image + 1) * size), i * size);
      const inputs = [new Tensor('float32', data, [images.length, ...x.dims.slice(1)]), ...rest];
      const { outputs } = runKernels({ op: 'ConvTranspose', inputs, attributes: attributesOf(g) }, build);
      return (outputs[0] as Tensor<'float32'>).data;
    };
    for (const build of builds) {
      const alone = [0, 1, 2].map((i) => run([i], build));
      const together = run(which, build);
      const each = together.length / which.length;
      for (const [i, image] of which.entries())
        assert.equal(together.subarray(i * each, (i + 1) * each), alone[image], `image ${i} of ${which.length}`);
    }
  });
  fc.assert(property, { numRuns: 20 });
});

test('shapes that do not fit are named', () => {
  const random = randomFrom(1);
  const inputs = [randomTensor(random, [1, 4, 5, 5]), randomTensor(random, [3, 2, 3, 3])];
  assert.throws(
    () => runReference({ op: 'ConvTranspose', inputs }),
    /ConvTranspose 'test': X \[1, 4, 5, 5\] does not fit W \[3, 2, 3, 3\]/,
  );
});

test.run();
