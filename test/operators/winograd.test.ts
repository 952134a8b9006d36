// Winograd convolutions: against the reference over random geometry, error bounds at network sizes, the bits of an image
// whatever batch it is in, and the option that switches them off.
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Attribute } from '../../src/graph/graph.js';
import { activations } from '../../src/kernels/activation.js';
import { transformFilters } from '../../src/operators/winograd.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { builds, check, graphOf, type NodeTest, runGraph, runKernels, runReference } from './harness.js';
import { checkRows } from './invariance.js';
import { randomFrom, randomTensor } from './random.js';

const int = (value: number): Attribute => ({ kind: 'int', value });
const ints = (value: readonly number[]): Attribute => ({ kind: 'ints', value });
const string = (value: string): Attribute => ({ kind: 'string', value });

const geometry = fc.record({
  seed: fc.integer(),
  batch: fc.integer({ min: 1, max: 3 }),
  groups: fc.integer({ min: 1, max: 2 }),
  channels: fc.integer({ min: 16, max: 21 }),
  m: fc.integer({ min: 16, max: 23 }),
  height: fc.integer({ min: 7, max: 26 }),
  width: fc.integer({ min: 7, max: 26 }),
  pads: fc.array(fc.integer({ min: 0, max: 2 }), { minLength: 4, maxLength: 4 }),
  bias: fc.boolean(),
  residual: fc.boolean(),
  activation: fc.constantFrom(...Object.keys(activations)),
});

type Geometry = typeof geometry extends fc.Arbitrary<infer T> ? T : never;

function convOf(g: Geometry): NodeTest {
  const random = randomFrom(g.seed);
  const x = randomTensor(random, [g.batch, g.groups * g.channels, g.height, g.width]);
  const w = randomTensor(random, [g.groups * g.m, g.channels, 3, 3]);
  const b = g.bias ? randomTensor(random, [g.groups * g.m]) : undefined;
  const attributes: Record<string, Attribute> = { group: int(g.groups), pads: ints(g.pads) };
  const dims = [g.batch, g.groups * g.m, g.height + g.pads[0]! + g.pads[2]! - 2, g.width + g.pads[1]! + g.pads[3]! - 2];
  const z = g.residual ? randomTensor(random, dims) : undefined;
  const inputs = [x, w, b, z];
  return {
    op: 'Conv',
    domain: 'skep',
    opset: 1,
    inputs,
    constants: b === undefined ? [1] : [1, 2],
    attributes: { ...attributes, activation: string(g.activation) },
  };
}

test('Winograd convolutions with groups, padding, bias, residual and any activation', () => {
  let used = 0;
  const property = fc.property(geometry, (g) => {
    const t = convOf(g);
    // Sums of about 200 products of numbers up to 1; activations have slopes up to about 2.
    check(t, { rtol: 2e-5, atol: 5e-5 });
    if (runKernels(t).kernels.includes('winograd')) used++;
  });
  fc.assert(property, { numRuns: 60 });
  assert.ok(used >= 30, `only ${used} of 60 were Winograd convolutions`);
});

test('an image gets the same bits in any batch', () => {
  const rows = fc.property(geometry, (g) => {
    const t = convOf({ ...g, batch: 3, residual: false });
    checkRows(t);
  });
  fc.assert(rows, { numRuns: 12 });
});

test('errors are below 1e-5 of the largest output at the sizes of networks', () => {
  for (const [channels, m, size] of [
    [64, 64, 28],
    [512, 16, 14],
    [256, 32, 8],
  ] as const) {
    const random = randomFrom(channels);
    const inputs = [randomTensor(random, [1, channels, size, size]), randomTensor(random, [m, channels, 3, 3])];
    const t: NodeTest = { op: 'Conv', inputs, constants: [1], attributes: { pads: ints([1, 1, 1, 1]) } };
    const want = (runReference(t)[0] as Tensor).data as Float32Array;
    const largest = want.reduce((most, v) => Math.max(most, Math.abs(v)), 0);
    for (const build of builds) {
      const { outputs, kernels } = runKernels(t, build);
      assert.ok(kernels.includes('winograd'));
      const got = (outputs[0] as Tensor).data as Float32Array;
      const error = want.reduce((most, v, i) => Math.max(most, Math.abs(v - got[i]!)), 0) / largest;
      assert.ok(error < 1e-5, `${channels} channels (${build}): ${error}`);
    }
  }
});

test('it can be switched off, and is not used where it does not apply', () => {
  const random = randomFrom(1);
  const tensor = (...dims: number[]) => randomTensor(random, dims);
  const base: NodeTest = { op: 'Conv', inputs: [tensor(1, 16, 16, 16), tensor(16, 16, 3, 3)], constants: [1] };
  const { graph, feeds } = graphOf(base);
  assert.ok(runGraph(graph, feeds, 'plain').kernels.includes('winograd'));
  const others: [string, string[]][] = [
    ['switched off', runGraph(graph, feeds, 'plain', { winograd: false }).kernels],
    ['weights not constant', runKernels({ ...base, constants: [] }).kernels],
    ['stride 2', runKernels({ ...base, attributes: { strides: ints([2, 2]) } }).kernels],
    ['dilation 2', runKernels({ ...base, attributes: { dilations: ints([2, 2]) } }).kernels],
    ['few channels', runKernels({ ...base, inputs: [tensor(1, 3, 16, 16), tensor(16, 3, 3, 3)] }).kernels],
  ];
  for (const [what, kernels] of others) assert.not.ok(kernels.includes('winograd'), what);
});

test('an image with infinities and NaN leaves its neighbours in the batch alone', () => {
  const random = randomFrom(9);
  const dims = [3, 16, 13, 13];
  const x = randomTensor(random, dims);
  const w = randomTensor(random, [16, 16, 3, 3]);
  const t: NodeTest = { op: 'Conv', inputs: [x, w], constants: [1] };
  const dirty = Float32Array.from(x.data as Float32Array);
  const image = 16 * 169;
  dirty.fill(Number.NaN, image, image + 40);
  dirty.fill(Number.POSITIVE_INFINITY, image + 100, 2 * image);
  for (const build of builds) {
    const run = (data: Float32Array) =>
      (runKernels({ ...t, inputs: [new Tensor('float32', data, dims), w] }, build).outputs[0] as Tensor)
        .data as Float32Array;
    const clean = run(x.data as Float32Array);
    const other = run(dirty);
    const each = clean.length / 3;
    for (const i of [0, 2])
      assert.equal(other.subarray(i * each, (i + 1) * each), clean.subarray(i * each, (i + 1) * each));
  }
});

test('the filter of one tap at the centre is transformed to what its interpolation says', () => {
  // g(x) = x in both directions: at the points ±a, ±b its value times the point's weight, none at 0 and infinity.
  const u = new Float32Array(36);
  transformFilters(u, 0, [0, 0, 0, 0, 1, 0, 0, 0, 0], 0, 1, 1, 4);
  const [a, b] = [5 / 8, 3 / 2];
  const weight = (p: number, q: number) => p / (2 * p * p * (p * p - q * q));
  const line = [0, weight(a, b), -weight(a, b), weight(b, a), -weight(b, a), 0];
  for (let i = 0; i < 6; i++)
    for (let j = 0; j < 6; j++) assert.ok(Math.abs(u[i * 6 + j]! - line[i]! * line[j]!) < 1e-6);
});

test.run();
