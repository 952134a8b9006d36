// Weights kept as int8: errors within the bound that rounding sets, exact where nothing is rounded, and a row's bits the same
// in any company and however the work is divided.
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Attribute } from '../../src/graph/graph.js';
import { activationLimit, packInt8 } from '../../src/kernels/int8.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { assertClose, assertSameBits, builds, type NodeTest, runKernels, runReference } from './harness.js';
import { sliceOf } from './invariance.js';
import { randomFrom, randomTensor } from './random.js';

const random = randomFrom(11);
const int = (value: number): Attribute => ({ kind: 'int', value });
const int8 = { weights: 'int8' } as const;
const upTo = (max: number, min = 1) => fc.integer({ min, max });
/** Weights as networks have them: a sum of `k` products is of the size of one term. */
function weightsOf(dims: readonly number[], k: number): Tensor {
  const t = randomTensor(random, dims);
  return new Tensor(
    'float32',
    t.data.map((x) => x / Math.sqrt(k)),
    dims,
  );
}

const numbers = (t: unknown) => (t as Tensor).data as Float32Array;

/** Rows along `axis` alone, and in pieces, have the bits they have among all. */
function checkCompany(t: NodeTest, axis: number, outputAxis: number): void {
  const x = t.inputs[0] as Tensor;
  for (const build of builds) {
    const { outputs, references } = runKernels(t, build, int8);
    assert.equal(references, []);
    const divided = runKernels(t, build, { ...int8, divide: true }).outputs[0] as Tensor;
    assertSameBits(divided, outputs[0] as Tensor, `${t.op} in pieces`);
    for (let row = 0; row < x.dims[axis]!; row++) {
      const one = { ...t, inputs: [sliceOf(x, axis, row, 1), ...t.inputs.slice(1)] };
      const alone = runKernels(one, build, int8).outputs[0] as Tensor;
      assertSameBits(alone, sliceOf(outputs[0] as Tensor, outputAxis, row, 1), `${t.op} row ${row}`);
    }
  }
}

test('a product errs by no more than its rounded numbers can make it', () =>
  fc.assert(
    fc.property(upTo(9), upTo(70, 30), upTo(60, 40), fc.boolean(), (m, k, n, transB) => {
      const x = randomTensor(random, [m, k]);
      const w = randomTensor(random, transB ? [n, k] : [k, n]);
      const t = { op: 'Gemm', inputs: [x, w], constants: [1], attributes: { transB: int(transB ? 1 : 0) } };
      const want = numbers(runReference(t)[0]);
      const { outputs, kernels } = runKernels(t, 'plain', int8);
      assert.ok(kernels.includes('gemmInt8'));
      const weight = (l: number, j: number) => Math.abs(w.data[transB ? j * k + l : l * n + j]!);
      for (let i = 0; i < m; i++)
        for (let j = 0; j < n; j++) {
          const row = Array.from({ length: k }, (_, l) => Math.abs(x.data[i * k + l]!));
          const column = Array.from({ length: k }, (_, l) => weight(l, j));
          const sum = (v: number[]) => v.reduce((a, b) => a + b, 0);
          const byWeights = (sum(row) * Math.max(...column)) / 127 / 2;
          const byActivations = (sum(column) * Math.max(...row)) / activationLimit(k) / 2;
          const error = Math.abs(numbers(outputs[0])[i * n + j]! - want[i * n + j]!);
          assert.ok(error <= (byWeights + byActivations) * 1.01 + 1e-6, `error ${error} at ${i}, ${j}`);
        }
    }),
    { numRuns: 25 },
  ));

test('what needs no rounding is exact', () => {
  // Column maxima of 127 make every weight a whole number of scales, and the row's largest is the limit.
  const [m, k, n] = [5, 40, 33];
  const limit = activationLimit(k);
  const w = Float32Array.from({ length: k * n }, (_, i) => (i < n ? 127 : ((i * 37) % 255) - 127));
  const x = Float32Array.from({ length: m * k }, (_, i) => (i % k === 0 ? limit : (i * 7919) % 1000));
  const t = {
    op: 'MatMul',
    inputs: [new Tensor('float32', x, [m, k]), new Tensor('float32', w, [k, n])],
    constants: [1],
  };
  for (const build of builds)
    assertClose(runKernels(t, build, int8).outputs[0]!, runReference(t)[0]!, { rtol: 2e-7, atol: 0 });
});

test('rows of a product do not depend on their company', () =>
  fc.assert(
    fc.property(upTo(9), upTo(70, 30), upTo(70, 40), (m, k, n) => {
      const inputs = [randomTensor(random, [m, k]), randomTensor(random, [k, n]), randomTensor(random, [n])];
      checkCompany({ op: 'Gemm', inputs, constants: [1, 2] }, 0, 0);
    }),
    { numRuns: 12 },
  ));

for (const [op, gates, attributes] of [
  ['LSTM', 4, {}],
  ['GRU', 3, { linear_before_reset: int(0) }],
  ['GRU', 3, { linear_before_reset: int(1) }],
  ['RNN', 1, {}],
] as const)
  test(`${op} ${JSON.stringify(attributes)}: near the reference, rows independent`, () => {
    const [times, batch, input, hidden] = [4, 6, 37, 39];
    const direction: Attribute = { kind: 'string', value: 'bidirectional' };
    const t: NodeTest = {
      op,
      inputs: [
        randomTensor(random, [times, batch, input]),
        weightsOf([2, gates * hidden, input], input),
        weightsOf([2, gates * hidden, hidden], hidden),
        randomTensor(random, [2, 2 * gates * hidden]),
      ],
      constants: [1, 2, 3],
      attributes: { ...attributes, hidden_size: int(hidden), direction },
    };
    const got = runKernels(t, 'plain', int8).outputs[0]!;
    assertClose(got, runReference(t)[0]!, { rtol: 0, atol: 0.02 });
    // Rounded weights, or the test would say nothing.
    assert.not.equal(numbers(got), numbers(runKernels(t).outputs[0]));
    checkCompany(t, 1, 2);
  });

test('what is not finite stays so', () => {
  const x = randomTensor(random, [3, 40]);
  x.data[5] = Number.NaN;
  x.data[45] = Number.POSITIVE_INFINITY;
  const t = { op: 'MatMul', inputs: [x, randomTensor(random, [40, 40])], constants: [1] };
  const y = numbers(runKernels(t, 'plain', int8).outputs[0]);
  assert.ok(y.subarray(0, 80).every(Number.isNaN));
  assert.ok(y.subarray(80).every(Number.isFinite));
});

test('packing says how far weights moved', () => {
  const error = packInt8(
    new Int8Array(16),
    new Float32Array(8),
    { data: [1, 0.5, -0.25, 0.1], offset: 0, row: 1, column: 1 },
    2,
    1,
  );
  assert.ok(error.max > 0 && error.max < 1 / 127 && error.mean > 0 && error.mean <= error.max);
});

test.run();
