// Random nodes of com.microsoft and ai.onnx.ml, of the generators that test/stress/differential.ts compares with
// onnxruntime: kernels against the reference, quantized results to the last bit where the plain operator is exact.
import { test } from 'uvu';
import { contrib } from '../stress/differential/contrib.js';
import { Generator } from '../stress/differential/generator.js';
import { check } from './harness.js';

/** Functions whose float32 kernels may round otherwise than the reference. */
const inexact = /Sigmoid|Softmax|AveragePool/;

for (const [name, make] of Object.entries(contrib)) {
  const [domain, op] = name.split(':') as [string, string];
  test(`${name}: kernels and reference`, () => {
    for (let i = 0; i < 6; i++) {
      const c = make(new Generator(i * 7919 + 5), 1);
      const quantized = /^Q(Linear|Gemm)/.test(op);
      const { rtol = 2e-5, atol = 2e-5 } = quantized ? { rtol: 0, atol: inexact.test(op) ? 1 : 0 } : c;
      check(
        { op, domain, opset: domain === 'ai.onnx.ml' ? 2 : 1, ...c },
        { rtol, atol, fallback: c.fallback ?? false },
      );
    }
  });
}

test.run();
