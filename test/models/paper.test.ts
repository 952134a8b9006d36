// The networks as published: parameters and multiply-adds, and activations that neither fade nor grow through the depth.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { networks } from '../../models/index.js';
import { interpret } from '../../src/operators/evaluate.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { GraphRunner } from '../operators/harness.js';
import { multiplyAddsOf, parametersOf } from './graphs.js';

/** Parameters and multiply-adds of one row with axes of one; the literature's numbers where there are any. */
const published: Readonly<Record<string, readonly [parameters: number, multiplyAdds?: number]>> = {
  'lstm-lm': [28_886_800, 18_628_608],
  'seq2seq-encoder': [39_116_800, 8_388_608],
  'seq2seq-decoder': [69_866_800, 39_108_608],
  seq2seq: [108_983_600],
  'treelstm-leaf': [23_628_800, 3_145_728],
  'treelstm-inner': [10_490_880, 10_485_760],
  'childsum-treelstm-leaf': [23_628_800, 3_145_728],
  'childsum-treelstm-inner': [28_872_704, 8_388_608],
  lenet: [61_706, 416_520],
  cifar10: [145_578, 12_354_176],
  alexnet: [60_965_224, 724_406_816],
  'mobilenet-v2': [3_504_872, 300_774_272],
  resnet50: [25_557_032, 4_089_184_256],
  'inception-v3': [23_834_568, 5_713_216_096],
  'bert-base': [109_482_240, 12 * (7_077_888 + 2 * 768) + 768 * 768],
  gpt2: [124_439_808, 12 * (7_077_888 + 2 * 768) + 768 * 50257],
  'gpt2-cache': [124_439_808, 12 * (7_077_888 + 2 * 768) + 768 * 50257],
};

for (const network of networks.values())
  test(`${network.name}: parameters and multiply-adds`, () => {
    const model = network.build({ zeros: true });
    const [parameters, multiplyAdds] = published[network.name]!;
    assert.is(parametersOf(model.graph), parameters);
    if (multiplyAdds === undefined) return;
    assert.is(multiplyAddsOf(model.graph, network.feeds(model, { past: 0 })), multiplyAdds);
  });

test('variants: parameters', () => {
  const count = (name: string, set: Record<string, number>) =>
    parametersOf(networks.get(name)!.build({ set, zeros: true }).graph);
  assert.is(count('inception-v3', { outputs: 2 }), 27_161_264);
  assert.is(count('resnet50', { depth: 101 }), 44_549_160);
  assert.is(count('resnet50', { depth: 152 }), 60_192_808);
  assert.is(count('bert-base', { layers: 24, hidden: 1024, heads: 16 }), 335_141_888);
});

test('the multiply-adds of attention grow with pairs of tokens', () => {
  const n = networks.get('gpt2')!;
  const model = n.build({ zeros: true });
  const count = (sequence: number) => multiplyAddsOf(model.graph, n.feeds(model, { sequence }));
  assert.is(count(10), 10 * (12 * 7_077_888 + 768 * 50257) + 100 * 18_432);
});

for (const network of networks.values())
  test(`${network.name}, small: activations stay in range, and inputs matter`, () => {
    const options = { size: 'small' } as const;
    const model = network.build(options);
    const runner = new GraphRunner(model.graph);
    const feeds = network.feeds(model, { batch: 4, sequence: 12, source: 9, past: 5, children: 2 }, options);
    for (const [name, value] of runner.run(feeds).outputs) {
      const { data, type, dims } = value as Tensor;
      if (type !== 'float32') continue;
      const numbers = data as Float32Array;
      const size = Math.sqrt(numbers.reduce((s, x) => s + x * x, 0) / numbers.length);
      if (name === 'probabilities') {
        assert.ok(Math.max(...numbers) < 0.95, `${name}: ${Math.max(...numbers)}`);
        assert.ok(size > 1.005 / dims[1]!, `${name}: all the same`);
      } else assert.ok(size > 0.05 && size < 20, `${name}: root mean square ${size}`);
      // Rows differ, by more than rounding.
      const row = numbers.length / dims[dims.length === 3 && dims[1] === 4 ? 1 : 0]!;
      let difference = 0;
      for (let i = 0; i < row; i++) difference = Math.max(difference, Math.abs(numbers[i]! - numbers[row + i]!));
      assert.ok(difference > 0.01 * size, `${name}: rows differ by ${difference} of ${size}`);
    }
  });

test('Seq2Seq in one model writes what its encoder and its decoder write step by step', () => {
  const options = { size: 'tiny', seed: 3 } as const;
  const graph = (name: string) => networks.get(name)!.build(options).graph;
  const whole = networks.get('seq2seq')!;
  const feeds = whole.feeds(whole.build(options), { batch: 5, source: 7 }, options);
  const tokens = interpret(graph('seq2seq'), feeds).get('tokens') as Tensor;
  const { limit: _, ...source } = Object.fromEntries(feeds);
  const encoded = interpret(graph('seq2seq-encoder'), new Map(Object.entries(source)));
  const decoder = graph('seq2seq-decoder');
  let state = { h: encoded.get('h')!, c: encoded.get('c')! };
  let token = new Tensor('int64', [1, 1, 1, 1, 1]);
  const ended = new Array<boolean>(5).fill(false);
  const written: bigint[][] = ended.map(() => []);
  for (let step = 0; step < tokens.dims[1]!; step++) {
    const out = interpret(decoder, new Map(Object.entries({ token, ...state })));
    state = { h: out.get('next_h')!, c: out.get('next_c')! };
    const next = BigInt64Array.from((out.get('next') as Tensor).data as BigInt64Array, (x, i) => (ended[i] ? 0n : x));
    next.forEach((x, i) => {
      written[i]!.push(x);
      if (x === 0n) ended[i] = true;
    });
    token = new Tensor('int64', next);
  }
  assert.equal(Array.from(tokens.data as BigInt64Array), written.flat());
  assert.ok(new Set(written.flat()).size > 2, 'the decoder repeats itself');
});

test('weights that a loop captures are packed once, not at every step', () => {
  const whole = networks.get('seq2seq')!;
  const options = { size: 'tiny' } as const;
  const model = whole.build(options);
  const runner = new GraphRunner(model.graph);
  const { kernels, references } = runner.run(whole.feeds(model, { batch: 2, source: 4 }, options));
  assert.ok(kernels.filter((k) => k === 'lstmStep').length > 4, 'the loop ran');
  assert.is(kernels.filter((k) => k === 'packB').length, 0);
  assert.equal(references, []);
});

test.run();
