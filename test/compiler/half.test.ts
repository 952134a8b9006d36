// Half precision by the float32 kernels: random nodes of float16 and bfloat16 against the reference, and what is stored.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Attribute, Graph, Node } from '../../src/graph/graph.js';
import { encode } from '../../src/tensor/convert.js';
import { sizeOf } from '../../src/tensor/shape.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { assertSameBits, check, type NodeTest, runGraph, runKernels, runReference } from '../operators/harness.js';
import { randomFrom } from '../operators/random.js';

const halves = ['float16', 'bfloat16'] as const;
type Half = (typeof halves)[number];
const int = (value: number): Attribute => ({ kind: 'int', value });
const ints = (value: readonly number[]): Attribute => ({ kind: 'ints', value });
/** One rounding, and a second where float32 had rounded to a tie. */
const tolerance = { float16: { rtol: 1.1e-3, atol: 1e-3 }, bfloat16: { rtol: 8e-3, atol: 8e-3 } };

function maker(type: Half, seed: number) {
  const random = randomFrom(seed);
  return (...dims: number[]) =>
    new Tensor(
      type,
      encode(
        type,
        Array.from({ length: sizeOf(dims) }, () => 2 * random() - 1),
      ),
      dims,
    );
}

for (const type of halves) {
  const t = maker(type, 7);
  const nodes: Record<string, NodeTest> = {
    MatMul: { op: 'MatMul', inputs: [t(2, 5, 9), t(9, 12)], constants: [1] },
    'MatMul of two inputs': { op: 'MatMul', inputs: [t(2, 5, 9), t(2, 9, 12)] },
    Gemm: { op: 'Gemm', inputs: [t(5, 9), t(12, 9), t(12)], constants: [1, 2], attributes: { transB: int(1) } },
    Conv: { op: 'Conv', inputs: [t(1, 3, 8, 8), t(4, 3, 3, 3), t(4)], constants: [1, 2] },
    Add: { op: 'Add', inputs: [t(2, 3, 4), t(4)] },
    Softmax: { op: 'Softmax', inputs: [t(3, 17)] },
    LayerNormalization: { op: 'LayerNormalization', inputs: [t(3, 17), t(17), t(17)], constants: [1, 2] },
    Attention: { op: 'Attention', inputs: [t(1, 2, 7, 8), t(1, 2, 7, 8), t(1, 2, 7, 8)] },
    Erf: { op: 'Erf', inputs: [t(50)] },
    Gelu: { op: 'Gelu', inputs: [t(50)] },
    Pow: { op: 'Pow', inputs: [t(50), t()] },
    ReduceMean: { op: 'ReduceMean', inputs: [t(3, 20), new Tensor('int64', [1], [1])], constants: [1] },
    Less: { op: 'Less', inputs: [t(3, 20), t(3, 20)] },
    Where: { op: 'Where', inputs: [new Tensor('bool', [true, false, true], [3]), t(3), t(3)] },
    Resize: { op: 'GlobalAveragePool', inputs: [t(1, 3, 5, 5)] },
    MaxPool: { op: 'MaxPool', inputs: [t(1, 3, 6, 6)], attributes: { kernel_shape: ints([2, 2]) } },
    'Cast to int64': { op: 'Cast', inputs: [t(9)], attributes: { to: int(7) } },
    'Cast from bool': {
      op: 'Cast',
      inputs: [new Tensor('bool', [true, false], [2])],
      attributes: { to: int(type === 'float16' ? 10 : 16) },
    },
    Relu: { op: 'Relu', inputs: [t(0, 3)] },
  };
  for (const [name, node] of Object.entries(nodes))
    test(`${type}: ${name} by a kernel`, () => check(node, tolerance[type]));

  test(`${type}: conversions of every value are the reference's`, () => {
    const bits = Uint16Array.from({ length: 65536 }, (_, i) => i);
    const all = new Tensor(type, bits, [65536]);
    const wide: NodeTest = { op: 'Cast', inputs: [all], attributes: { to: int(1) } };
    const want = runReference(wide)[0] as Tensor;
    const got = runKernels(wide).outputs[0] as Tensor;
    assert.ok((got.data as Float32Array).every((x, i) => Object.is(x, (want.data as Float32Array)[i])));
    const random = randomFrom(3);
    const floats = Float32Array.from({ length: 20_000 }, (_, i) => {
      const x = (want.data as Float32Array)[Math.floor(random() * 65536)]!;
      return i % 3 === 0 ? x : i % 3 === 1 ? x * (1 + 2 ** -9 * random()) : x * (1 + 2 ** -11);
    });
    const back: NodeTest = {
      op: 'Cast',
      inputs: [new Tensor('float32', floats, [20_000])],
      attributes: { to: int(type === 'float16' ? 10 : 16) },
    };
    assertSameBits(runKernels(back).outputs[0]!, runReference(back)[0]!);
  });
}

test('quantization in half precision stays the reference, whose rounding differs', () => {
  const t = maker('float16', 1);
  const scale = new Tensor('float16', encode('float16', [0.013]), []);
  const r = runKernels({ op: 'QuantizeLinear', inputs: [t(64), scale] });
  assert.equal(r.references, ['QuantizeLinear']);
});

test('a value that two nodes read is widened once', () => {
  const t = maker('float16', 2);
  const node = (op: string, inputs: string[], output: string): Node => ({
    op,
    domain: '',
    opset: 21,
    name: output,
    inputs,
    outputs: [output],
    attributes: {},
  });
  const graph: Graph = {
    name: 'g',
    inputs: [{ name: 'x' }],
    outputs: [{ name: 'a' }, { name: 'b' }],
    initializers: new Map(),
    nodes: [node('Exp', ['x'], 'a'), node('Tanh', ['x'], 'b')],
  };
  const r = runGraph(graph, new Map([['x', t(40)]]));
  assert.equal(r.references, []);
  assert.is(r.kernels.filter((k) => k === 'cast').length, 3);
});

test.run();
