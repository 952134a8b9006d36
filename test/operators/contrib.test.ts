// Operators of com.microsoft: kernels against the reference over random shapes, and what is refused. That the reference is
// right is test/conformance/contrib.test.ts, against onnxruntime.
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Attribute } from '../../src/graph/graph.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { check, type NodeTest, runReference } from './harness.js';
import { randomFrom, randomTensor } from './random.js';

const int = (value: number): Attribute => ({ kind: 'int', value });
const float = (value: number): Attribute => ({ kind: 'float', value });
const tolerance = { rtol: 2e-5, atol: 1e-5 };
const contrib = (op: string, inputs: NodeTest['inputs'], rest: Partial<NodeTest> = {}): NodeTest => ({
  op,
  domain: 'com.microsoft',
  opset: 1,
  inputs,
  ...rest,
});

const shape = fc.record({
  seed: fc.integer(),
  dims: fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 2 }),
  n: fc.constantFrom(1, 3, 8, 33),
  bias: fc.boolean(),
  sum: fc.boolean(),
});

test('activations with a bias and normalizations with a residual', () => {
  fc.assert(
    fc.property(shape, (s) => {
      const random = randomFrom(s.seed);
      const dims = [...s.dims, s.n];
      const x = randomTensor(random, dims);
      const vector = () => randomTensor(random, [s.n]);
      const bias = s.bias ? vector() : undefined;
      check(contrib('Gelu', [x]), tolerance);
      check(contrib('QuickGelu', [x]), tolerance);
      check(contrib('FastGelu', [x, bias]), tolerance);
      check(contrib('BiasGelu', [x, vector()]), tolerance);
      const skip = randomTensor(random, dims);
      const rest = { attributes: { epsilon: float(1e-3) } };
      const outputs = s.sum ? 4 : 1;
      const last = (t: NodeTest) => check(t, { ...tolerance, fallback: outputs > 1 });
      last(contrib('SkipLayerNormalization', [x, skip, vector(), vector(), bias], { ...rest, outputs }));
      last(contrib('SkipSimplifiedLayerNormalization', [x, skip, vector(), bias], { ...rest, outputs }));
      check(contrib('SimplifiedLayerNormalization', [x, vector()], rest), tolerance);
    }),
    { numRuns: 20 },
  );
});

test('FusedMatMul and MatMulNBits', () => {
  const size = fc.integer({ min: 1, max: 9 });
  fc.assert(
    fc.property(
      fc.integer(),
      size,
      size,
      fc.constantFrom(5, 32, 40),
      fc.boolean(),
      fc.boolean(),
      (seed, m, n, k, ta, tb) => {
        const random = randomFrom(seed);
        const a = randomTensor(random, ta ? [2, k, m] : [2, m, k]);
        const b = randomTensor(random, tb ? [n, k] : [k, n]);
        const attributes = { transA: int(ta ? 1 : 0), transB: int(tb ? 1 : 0), alpha: float(0.5) };
        check(contrib('FusedMatMul', [a, b], { attributes, constants: seed % 2 === 0 ? [1] : [] }), tolerance);
        const blocks = Math.ceil(k / 16);
        const codes = new Tensor(
          'uint8',
          Uint8Array.from({ length: n * blocks * 8 }, () => random() * 256),
          [n, blocks, 8],
        );
        const inputs = [randomTensor(random, [m, k]), codes, randomTensor(random, [n * blocks])];
        const bits = { K: int(k), N: int(n), bits: int(4), block_size: int(16) };
        check(contrib('MatMulNBits', inputs, { attributes: bits, constants: [1, 2] }), tolerance);
      },
    ),
    { numRuns: 20 },
  );
});

test('empty caches and what is refused', () => {
  const random = randomFrom(1);
  const t = (...dims: number[]) => randomTensor(random, dims);
  const attributes = { num_heads: int(2) };
  const none = t(1, 2, 0, 4);
  const rest = { attributes, outputs: 3 };
  const y = runReference(
    contrib(
      'MultiHeadAttention',
      [t(1, 2, 8), t(1, 2, 8), t(1, 2, 8), undefined, undefined, undefined, none, none],
      rest,
    ),
  );
  assert.equal((y[1] as Tensor).dims, [1, 2, 2, 4]);
  const fails = (node: NodeTest, message: RegExp) => assert.throws(() => runReference(node), message);
  fails(contrib('MultiHeadAttention', [t(1, 2, 3, 8, 4)], { attributes }), /expected one packed input/);
  fails(
    contrib('MultiHeadAttention', [t(1, 2, 7), t(1, 2, 7), t(1, 2, 7)], { attributes }),
    /7 does not divide into 2 heads/,
  );
  fails(contrib('Attention', [t(1, 2, 8), t(8, 25)], { attributes }), /do not divide into Q, K and V/);
  fails(contrib('SkipLayerNormalization', [t(2, 4), t(2, 5), t(4)]), /skip \[2, 5\] does not broadcast to \[2, 4\]/);
  fails(
    contrib('MatMulNBits', [t(2, 32), new Tensor('uint8', [1], [1]), t(1)], {
      attributes: { K: int(32), N: int(1), block_size: int(17) },
    }),
    /power of two/,
  );
  fails(
    contrib('FusedConv', [t(1, 1, 3, 3), t(1, 1, 1, 1)], {
      attributes: { activation: { kind: 'string', value: 'toString' } },
    }),
    /unknown activation/,
  );
});

test('Attention and MultiHeadAttention with masks, biases of scores and caches', () => {
  const size = fc.integer({ min: 1, max: 4 });
  fc.assert(
    fc.property(
      fc.integer(),
      size,
      size,
      size,
      fc.boolean(),
      fc.boolean(),
      (seed, batch, rows, past, masked, causal) => {
        const random = randomFrom(seed);
        const t = (...dims: number[]) => randomTensor(random, dims);
        const keys = rows + past;
        const maskDims = seed % 2 === 0 ? [batch, keys] : [batch, rows, keys];
        // A row that sees no key is all scores − 10000, which float32 holds to 1e-3 only: every row sees the first.
        const mask = masked
          ? new Tensor(
              'int32',
              Int32Array.from({ length: maskDims.reduce((a, b) => a * b) }, (_, i) =>
                i % keys === 0 || random() < 0.6 ? 1 : 0,
              ),
              maskDims,
            )
          : undefined;
        const attributes = { num_heads: int(2), unidirectional: int(causal ? 1 : 0) };
        const bias = t(1, 2, rows, keys);
        const weights = [t(batch, rows, 5), t(5, 24), t(24)];
        check(
          contrib('Attention', [...weights, mask, t(2, batch, 2, past, 4), bias], { attributes, outputs: 2 }),
          tolerance,
        );
        const [k, v] = [t(batch, 2, past, 4), t(batch, 2, past, 4)];
        const x = [t(batch, rows, 8), t(batch, rows, 8), t(batch, rows, 8)];
        check(
          contrib('MultiHeadAttention', [...x, undefined, mask, bias, k, v], { attributes, outputs: 3 }),
          tolerance,
        );
      },
    ),
    { numRuns: 40 },
  );
});

test.run();
