// A model loaded with int8 weights: answers near those of float32, the same on every thread count, and an inspection that
// says how far the weights moved.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { compileForInspection } from '../../src/cli/compilation.js';
import type { Model } from '../../src/graph/graph.js';
import { Engine, SkepError } from '../../src/index.js';
import { writeModel } from '../../src/onnx/writer.js';
import { randomFrom, randomTensor } from '../operators/random.js';

const type = (dims: readonly number[]) => ({ kind: 'tensor', type: 'float32', dims }) as const;
// No waves: their products cancel, and what is left is small beside any rounding.
const noise = (dims: readonly number[], seed: number) => randomTensor(randomFrom(seed), dims);

const model: Model = {
  irVersion: 8,
  producer: '',
  metadata: new Map(),
  opsets: new Map([['', 13]]),
  graph: {
    name: 'product',
    inputs: [{ name: 'x', type: type([3, 64]) }],
    outputs: [{ name: 'y', type: type([3, 200]) }],
    initializers: new Map([['w', noise([64, 200], 1)]]),
    nodes: [{ op: 'MatMul', domain: '', opset: 13, name: '', inputs: ['x', 'w'], outputs: ['y'], attributes: {} }],
  },
};

const engine = new Engine({ threads: 2 });

async function answer(weights: 'float32' | 'float16' | 'int8', threads = 1): Promise<Float32Array> {
  const m = await engine.load(writeModel(model), { weights, configuration: [{ instances: 1, threads, batch: 1 }] });
  const { y } = await m.run({ x: noise([3, 64], 2) });
  await m.close();
  return y!.data as Float32Array;
}

test('answers are near, and do not depend on threads', async () => {
  const want = await answer('float32');
  const size = Math.sqrt(want.reduce((s, v) => s + v * v, 0) / want.length);
  for (const [weights, bound] of [
    ['float16', 0.0005],
    ['int8', 0.01],
  ] as const) {
    const got = await answer(weights);
    const error = Math.sqrt(got.reduce((s, v, i) => s + (v - want[i]!) ** 2, 0) / want.length);
    assert.ok(error > 0 && error < bound * size, `${weights}: error ${error} of ${size}`);
    assert.equal(await answer(weights, 2), got);
  }
});

test('other types are refused', async () => {
  try {
    await engine.load(writeModel(model), { weights: 'int4' as never });
    assert.unreachable();
  } catch (error) {
    assert.ok(error instanceof SkepError && error.code === 'INVALID_INPUT' && /weights must be/.test(error.message));
  }
});

test('an inspection says how far weights move, and what they take', () => {
  const feeds = new Map([['x', { type: 'float32', dims: [3, 64] }]] as const);
  const float32 = compileForInspection(model.graph, feeds, 'plain');
  const int8 = compileForInspection(model.graph, feeds, 'plain', 'int8');
  assert.equal(float32.rounded, []);
  assert.is(int8.rounded.length, 1);
  const { name, mean, max } = int8.rounded[0]!;
  assert.is(name, 'w');
  assert.ok(mean > 0 && mean < max && max < 0.01, `${mean}, ${max}`);
  assert.ok(int8.constantBytes < float32.constantBytes / 3);
});

test('closes', () => engine.close());

test.run();
