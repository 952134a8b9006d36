// Weights kept as float16: the bits that float32 weights of the rounded values give, in any company and however the work is
// divided; rounding to the nearest.
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Attribute } from '../../src/graph/graph.js';
import { halfExponent, roundHalf } from '../../src/kernels/half.js';
import { decode, float16ToNumber, numberToFloat16 } from '../../src/tensor/convert.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { assertSameBits, builds, type NodeTest, runKernels } from './harness.js';
import { sliceOf } from './invariance.js';
import { randomFrom, randomTensor } from './random.js';

const random = randomFrom(12);
const int = (value: number): Attribute => ({ kind: 'int', value });
const half = { weights: 'float16' } as const;
const upTo = (max: number, min = 1) => fc.integer({ min, max });

/** The tensor with its elements rounded as they will be kept. */
function rounded(t: Tensor): Tensor {
  const data = decode(t);
  const exponent = halfExponent(Array.from(data).reduce((peak, x) => Math.max(peak, Math.abs(x)), 0))!;
  return new Tensor(
    'float32',
    Float32Array.from(data, (w) => roundHalf(w, exponent)),
    t.dims,
  );
}

/** As with float32 weights of the rounded values; whole, in pieces, and every row along `axis` alone. */
function checkRounded(t: NodeTest, kernel: string, axis: number, outputAxis: number): void {
  const same = {
    ...t,
    inputs: t.inputs.map((x, i) => (t.constants!.includes(i) && i !== 3 ? rounded(x as Tensor) : x)),
  };
  const x = t.inputs[0] as Tensor;
  for (const build of builds) {
    const want = runKernels(same, build).outputs as Tensor[];
    const { outputs, kernels, references } = runKernels(t, build, half);
    assert.equal(references, []);
    assert.ok(kernels.includes(kernel), `${kernels} has ${kernel}`);
    for (const [i, y] of outputs.entries()) assertSameBits(y, want[i]!, `${t.op} (${build}) output ${i}`);
    const divided = runKernels(t, build, { ...half, divide: true }).outputs[0]!;
    assertSameBits(divided, outputs[0]!, `${t.op} in pieces`);
    for (let row = 0; row < x.dims[axis]!; row++) {
      const one = { ...t, inputs: [sliceOf(x, axis, row, 1), ...t.inputs.slice(1)] };
      const alone = runKernels(one, build, half).outputs[0]!;
      assertSameBits(alone, sliceOf(outputs[0] as Tensor, outputAxis, row, 1), `${t.op} row ${row}`);
    }
  }
}

test('a product is the one with rounded weights', () =>
  fc.assert(
    fc.property(
      upTo(9),
      upTo(70, 30),
      upTo(60, 40),
      fc.boolean(),
      fc.constantFrom(1, 1e-20, 1e6),
      (m, k, n, transB, size) => {
        const w = randomTensor(random, transB ? [n, k] : [k, n]);
        const scaled = new Tensor(
          'float32',
          (w.data as Float32Array).map((v) => v * size),
          w.dims,
        );
        const inputs = [randomTensor(random, [m, k]), scaled];
        checkRounded(
          { op: 'Gemm', inputs, constants: [1], attributes: { transB: int(transB ? 1 : 0) } },
          'gemmHalf',
          0,
          0,
        );
      },
    ),
    { numRuns: 12 },
  ));

for (const [op, gates] of [
  ['LSTM', 4],
  ['GRU', 3],
  ['RNN', 1],
] as const)
  test(`${op} is the one with rounded weights`, () => {
    for (const [batch, hidden, linear] of [
      [1, 33, 0],
      [3, 40, 0],
      [7, 36, op === 'GRU' ? 1 : 0],
    ] as const) {
      const input = 41;
      const t: NodeTest = {
        op,
        outputs: op === 'LSTM' ? 3 : 2,
        inputs: [
          randomTensor(random, [3, batch, input]),
          randomTensor(random, [1, gates * hidden, input]),
          randomTensor(random, [1, gates * hidden, hidden]),
          randomTensor(random, [1, 2 * gates * hidden]),
        ],
        constants: [1, 2, 3],
        attributes: { hidden_size: int(hidden), ...(op === 'GRU' && { linear_before_reset: int(linear) }) },
      };
      checkRounded(t, `${op.toLowerCase()}Step`, 1, 2);
    }
  });

test('rounding is to the nearest, ties to even, for normal numbers as float16 itself does it', () => {
  fc.assert(
    fc.property(fc.double({ min: 2 ** -14, max: 32767, noNaN: true }), fc.boolean(), (size, negative) => {
      const x = Math.fround(negative ? -size : size);
      assert.is(roundHalf(x, 0), float16ToNumber(numberToFloat16(x)));
    }),
  );
  assert.is(roundHalf(2 ** -14, 0), 2 ** -14);
  assert.is(roundHalf(0.6 * 2 ** -14, 0), 2 ** -14);
  assert.is(roundHalf(-0.4 * 2 ** -14, 0), -0);
});

test('what has no float16 stays as it is', () => {
  for (const odd of [Number.NaN, Number.POSITIVE_INFINITY, 2 ** 31]) {
    const w = randomTensor(random, [40, 40]);
    (w.data as Float32Array)[77] = odd;
    const t = { op: 'MatMul', inputs: [randomTensor(random, [2, 40]), w], constants: [1] };
    for (const build of builds) {
      const { outputs, kernels } = runKernels(t, build, half);
      assert.not(kernels.includes('gemmHalf'));
      assertSameBits(outputs[0]!, runKernels(t, build).outputs[0]!, `with ${odd}`);
    }
  }
});

test('weights of nothing but zeros stay zeros', () => {
  const w = new Tensor('float32', new Float32Array(1600), [40, 40]);
  const t = { op: 'MatMul', inputs: [randomTensor(random, [1, 40]), w], constants: [1] };
  for (const build of builds)
    assert.ok(((runKernels(t, build, half).outputs[0] as Tensor).data as Float32Array).every((y) => y === 0));
});

test.run();
