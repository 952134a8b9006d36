// Operators of com.microsoft (and quantized ones) against onnxruntime-web on one-node models: the oracle of semantics that
// only that runtime defines. Skipped where the peer is not installed (npm ci --prefix bench).
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { test } from 'uvu';
import type { Attribute, Model } from '../../src/graph/graph.js';
import { writeModel } from '../../src/onnx/writer.js';
import { sizeOf } from '../../src/tensor/shape.js';
import { Tensor } from '../../src/tensor/tensor.js';
import type { DataType } from '../../src/tensor/types.js';
import { root } from '../data.js';
import {
  assertClose,
  builds,
  graphOf,
  type NodeTest,
  runKernels,
  runReference,
  type Tolerance,
} from '../operators/harness.js';
import { randomFrom, randomTensor } from '../operators/random.js';

/** What is used of onnxruntime-web. */
interface PeerTensor {
  readonly type: string;
  readonly data: never;
  readonly dims: readonly number[];
}
interface Peer {
  readonly env: { readonly wasm: { numThreads: number }; logLevel: string };
  readonly Tensor: new (type: string, data: unknown, dims: readonly number[]) => PeerTensor;
  readonly InferenceSession: {
    create(model: Uint8Array): Promise<{
      run(feeds: Record<string, PeerTensor>): Promise<Record<string, PeerTensor>>;
      release(): Promise<void>;
    }>;
  };
}

const manifest = path.join(process.env.SKEP_PEERS ?? path.join(root, 'bench'), 'package.json');
const installed = existsSync(path.join(path.dirname(manifest), 'node_modules/onnxruntime-web'));

async function loadPeer(): Promise<Peer> {
  const file = createRequire(manifest).resolve('onnxruntime-web');
  const module = (await import(pathToFileURL(file).href)) as Peer & { readonly default?: Peer };
  const peer = module.default ?? module;
  peer.env.wasm.numThreads = 1;
  peer.env.logLevel = 'error';
  return peer;
}

const peer = installed ? await loadPeer() : undefined;
if (peer === undefined) console.log(`SKIPPED: no onnxruntime-web beside ${manifest}`);

const random = randomFrom(20);
const t = (...dims: number[]) => randomTensor(random, dims);
const positive = (...dims: number[]) =>
  new Tensor(
    'float32',
    t(...dims).data.map((v) => 0.01 + Math.abs(v) / 50),
    dims,
  );
const integers = (type: DataType, dims: readonly number[], low: number, high: number) =>
  new Tensor(
    type,
    Array.from({ length: sizeOf(dims) }, () => low + Math.floor(random() * (high - low + 1))),
    dims,
  );
const u8 = (...dims: number[]) => integers('uint8', dims, 0, 255);
const i8 = (...dims: number[]) => integers('int8', dims, -128, 127);
const i32 = (dims: readonly number[], low: number, high: number) => integers('int32', dims, low, high);
const int = (value: number): Attribute => ({ kind: 'int', value });
const float = (value: number): Attribute => ({ kind: 'float', value });
const string = (value: string): Attribute => ({ kind: 'string', value });

async function runPeer(node: NodeTest): Promise<Tensor[]> {
  const { graph, feeds } = graphOf(node);
  const inputs = graph.inputs.map(({ name }) => {
    const x = feeds.get(name) as Tensor;
    return { name, type: { kind: 'tensor' as const, type: x.type, dims: x.dims } };
  });
  const opset = node.domain === undefined ? (node.opset ?? 21) : 21;
  const opsets = new Map<string, number>([
    ['', opset],
    ['com.microsoft', 1],
  ]);
  const nodes = graph.nodes.map((n) => ({ ...n, opset: opsets.get(n.domain)! }));
  const model = {
    irVersion: 10,
    producer: '',
    opsets,
    graph: { ...graph, nodes, inputs },
    metadata: new Map(),
  } as unknown as Model;
  const session = await peer!.InferenceSession.create(writeModel(model));
  const given: Record<string, PeerTensor> = {};
  for (const [name, x] of feeds) {
    const { type, data, dims } = x as Tensor;
    given[name] = new peer!.Tensor(type, data, dims);
  }
  const results = await session.run(given);
  await session.release();
  return graph.outputs.map(
    (o) => new Tensor(results[o.name]!.type as DataType, results[o.name]!.data, results[o.name]!.dims),
  );
}

/** The peer against the reference and every build. */
function compare(name: string, node: NodeTest, tolerance: Tolerance = { rtol: 1e-4, atol: 2e-5 }): void {
  if (peer === undefined) return;
  test(name, async () => {
    const want = await runPeer(node);
    const ours = node.domain === undefined ? { ...node, opset: node.opset ?? 21 } : { ...node, opset: 1 };
    for (const [i, w] of want.entries()) assertClose(runReference(ours)[i]!, w, tolerance, `reference, output ${i}`);
    for (const build of builds) {
      const { outputs } = runKernels(ours, build);
      for (const [i, w] of want.entries()) assertClose(outputs[i]!, w, tolerance, `${build} kernels, output ${i}`);
    }
  });
}

const domain = 'com.microsoft';
const exact = { rtol: 0, atol: 0 };
const contrib = (
  op: string,
  inputs: NodeTest['inputs'],
  attributes: Record<string, Attribute> = {},
  rest: Partial<NodeTest> = {},
): NodeTest => ({
  op,
  domain,
  opset: 1,
  inputs,
  attributes,
  ...rest,
});

for (const op of ['Gelu', 'FastGelu', 'QuickGelu']) compare(op, contrib(op, [t(3, 7)]));
compare('FastGelu with bias', contrib('FastGelu', [t(2, 3, 7), t(7)]));
compare('BiasGelu', contrib('BiasGelu', [t(2, 3, 7), t(7)]));
compare(
  'SkipLayerNormalization',
  contrib('SkipLayerNormalization', [t(2, 3, 8), t(2, 3, 8), t(8), t(8), t(8)], { epsilon: float(1e-5) }),
);
compare(
  'SkipLayerNormalization, skip broadcast',
  contrib('SkipLayerNormalization', [t(2, 3, 8), t(1, 3, 8), t(8), t(8)], { epsilon: float(1e-5) }),
);
compare(
  'SkipSimplifiedLayerNormalization',
  contrib('SkipSimplifiedLayerNormalization', [t(2, 3, 8), t(2, 3, 8), t(8), t(8)], { epsilon: float(1e-5) }),
);
compare('SimplifiedLayerNormalization', { op: 'SimplifiedLayerNormalization', opset: 17, inputs: [t(2, 3, 8), t(8)] });
compare(
  'EmbedLayerNormalization',
  contrib(
    'EmbedLayerNormalization',
    [i32([2, 4], 0, 9), i32([2, 4], 0, 1), t(10, 8), t(6, 8), t(2, 8), t(8), t(8), i32([2, 4], 0, 1)],
    {},
    { outputs: 2 },
  ),
);
compare(
  'FusedMatMul',
  contrib('FusedMatMul', [t(2, 5, 3), t(2, 4, 5)], { transA: int(1), transB: int(1), alpha: float(0.5) }),
);
for (const activation of ['Relu', 'Tanh', 'Sigmoid', 'LeakyRelu', 'Clip', 'HardSigmoid']) {
  const params = { LeakyRelu: [0.1], Clip: [-0.5, 0.5], HardSigmoid: [0.2, 0.5] }[activation];
  const attributes = {
    activation: string(activation),
    ...(params && { activation_params: { kind: 'floats', value: params } as Attribute }),
  };
  compare(`FusedConv ${activation}`, contrib('FusedConv', [t(1, 3, 6, 6), t(4, 3, 3, 3), t(4)], attributes));
}
for (const bits of [4, 8])
  for (const zeros of [false, true]) {
    const z = zeros ? [u8(5 * Math.ceil((2 * bits) / 8))] : [];
    const inputs = [t(2, 3, 40), u8(5, 2, (32 * bits) / 8), positive(10), ...z];
    const attributes = { K: int(40), N: int(5), bits: int(bits), block_size: int(32) };
    compare(
      `MatMulNBits, ${bits} bits${zeros ? ', zero points' : ''}`,
      contrib('MatMulNBits', inputs, attributes, { constants: [1, 2, 3] }),
    );
  }
compare(
  'RotaryEmbedding',
  contrib('RotaryEmbedding', [t(2, 3, 16), integers('int64', [2, 3], 0, 9), t(10, 4), t(10, 4)]),
);
compare(
  'RotaryEmbedding from an offset',
  contrib('RotaryEmbedding', [t(2, 3, 16), integers('int64', [1], 0, 5), t(10, 4), t(10, 4)]),
);
compare(
  'QuantizeLinear',
  {
    op: 'QuantizeLinear',
    inputs: [
      new Tensor(
        'float32',
        t(400).data.map((v) => v * 2),
        [400],
      ),
      positive(),
      u8(),
    ],
  },
  exact,
);
compare(
  'DequantizeLinear',
  { op: 'DequantizeLinear', inputs: [i8(3, 40), positive(3), i8(3)], attributes: { axis: int(0) } },
  exact,
);
compare('DynamicQuantizeLinear', { op: 'DynamicQuantizeLinear', inputs: [t(300)], outputs: 3 }, exact);
compare('MatMulInteger', { op: 'MatMulInteger', inputs: [u8(5, 12), i8(12, 7), u8(), i8(7)] }, exact);
compare(
  'QLinearMatMul',
  { op: 'QLinearMatMul', inputs: [u8(5, 12), positive(), u8(), u8(12, 7), positive(), u8(), positive(), u8()] },
  exact,
);
compare(
  'ConvInteger',
  {
    op: 'ConvInteger',
    inputs: [u8(1, 2, 6, 6), u8(3, 2, 3, 3), u8(), u8()],
    attributes: { pads: { kind: 'ints', value: [1, 1, 1, 1] } },
  },
  exact,
);
compare(
  'QLinearConv',
  {
    op: 'QLinearConv',
    inputs: [
      u8(1, 2, 6, 6),
      positive(),
      u8(),
      i8(3, 2, 3, 3),
      positive(3),
      new Tensor('int8', new Int8Array(3), [3]),
      new Tensor('float32', new Float32Array([0.9]), []),
      u8(),
      i32([3], -5000, 5000),
    ],
  },
  exact,
);
compare(
  'MatMulIntegerToFloat',
  contrib('MatMulIntegerToFloat', [u8(5, 12), i8(12, 7), positive(), positive(7), u8(), i8(7), t(7)]),
  { rtol: 1e-6, atol: 1e-6 },
);
compare('DynamicQuantizeMatMul', contrib('DynamicQuantizeMatMul', [t(5, 12), u8(12, 7), positive(), u8(), t(7)]), {
  rtol: 1e-5,
  atol: 1e-5,
});
compare('Attention of ai.onnx', {
  op: 'Attention',
  opset: 23,
  inputs: [t(2, 4, 3, 8), t(2, 2, 5, 8), t(2, 2, 5, 6), t(3, 5)],
});

const heads = { num_heads: int(2) };
compare('Attention', contrib('Attention', [t(2, 3, 8), t(8, 24), t(24)], heads));
compare(
  'Attention, unidirectional with a past',
  contrib(
    'Attention',
    [t(2, 3, 8), t(8, 24), t(24), undefined, t(2, 2, 2, 5, 4)],
    { ...heads, unidirectional: int(1) },
    { outputs: 2 },
  ),
);
compare('Attention with lengths', contrib('Attention', [t(2, 4, 8), t(8, 24), t(24), i32([2], 1, 4)], heads));
compare(
  'Attention with a mask',
  contrib(
    'Attention',
    [t(2, 4, 8), t(8, 24), t(24), new Tensor('int32', new Int32Array([1, 1, 0, 1, 1, 0, 0, 0]), [2, 4])],
    heads,
  ),
);
compare(
  'Attention with a mask a query',
  contrib(
    'Attention',
    [t(1, 2, 8), t(8, 24), t(24), new Tensor('int32', new Int32Array([1, 0, 1, 1]), [1, 2, 2])],
    heads,
  ),
);
compare(
  'Attention with a bias of scores',
  contrib('Attention', [t(2, 4, 8), t(8, 24), t(24), undefined, undefined, t(2, 2, 4, 4)], heads),
);
compare('MultiHeadAttention', contrib('MultiHeadAttention', [t(2, 3, 8), t(2, 5, 8), t(2, 5, 8)], heads));
compare(
  'MultiHeadAttention with biases',
  contrib('MultiHeadAttention', [t(2, 3, 8), t(2, 5, 8), t(2, 5, 8), t(24), undefined, t(1, 2, 3, 5)], heads),
);
compare(
  'MultiHeadAttention with padding',
  contrib(
    'MultiHeadAttention',
    [
      t(2, 3, 8),
      t(2, 5, 8),
      t(2, 5, 8),
      undefined,
      new Tensor('int32', new Int32Array([1, 1, 1, 0, 0, 1, 1, 1, 1, 1]), [2, 5]),
    ],
    heads,
  ),
);
compare(
  'MultiHeadAttention with a past',
  contrib(
    'MultiHeadAttention',
    [t(2, 3, 8), t(2, 3, 8), t(2, 3, 8), undefined, undefined, undefined, t(2, 2, 4, 4), t(2, 2, 4, 4)],
    { ...heads, unidirectional: int(1) },
    { outputs: 3 },
  ),
);
const grouped = { num_heads: int(4), kv_num_heads: int(2) };
const seqlens = (...n: number[]) => new Tensor('int32', new Int32Array(n), [n.length]);
const total = (n: number) => new Tensor('int32', new Int32Array([n]), []);
compare(
  'GroupQueryAttention, first prompt',
  contrib(
    'GroupQueryAttention',
    [t(2, 3, 32), t(2, 3, 16), t(2, 3, 16), undefined, undefined, seqlens(2, 2), total(3)],
    grouped,
    { outputs: 3 },
  ),
);
compare(
  'GroupQueryAttention, a step',
  contrib(
    'GroupQueryAttention',
    [t(2, 1, 32), t(2, 1, 16), t(2, 1, 16), t(2, 2, 5, 8), t(2, 2, 5, 8), seqlens(5, 5), total(6)],
    grouped,
    { outputs: 3 },
  ),
);
compare(
  'GroupQueryAttention, packed and rotated',
  contrib(
    'GroupQueryAttention',
    [t(1, 1, 128), undefined, undefined, t(1, 2, 5, 16), t(1, 2, 5, 16), seqlens(5), total(6), t(10, 8), t(10, 8)],
    { ...grouped, do_rotary: int(1) },
    { outputs: 3 },
  ),
);
compare(
  'GroupQueryAttention in a window with a cap',
  contrib(
    'GroupQueryAttention',
    [t(1, 6, 32), t(1, 6, 16), t(1, 6, 16), undefined, undefined, seqlens(5), total(6)],
    { ...grouped, local_window_size: int(2), softcap: float(0.5) },
    { outputs: 3 },
  ),
);

test.run();
