// Concurrent requests are computed together where that is proved right, and nobody can tell from the answers.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { GraphBuilder } from '../../src/graph/builder.js';
import { Engine, type Model, type Outputs, Tensor } from '../../src/index.js';
import { writeModel } from '../../src/onnx/writer.js';
import { chain } from '../models.js';
import { random } from './random.js';

const engine = new Engine({ threads: 4 });
const WIDTH = 96;
const grown = (batch: number, instances = 1) => ({ configuration: [{ instances, threads: 1, batch }] });

const rows = (n: number, seed: number) =>
  new Tensor('float32', Float32Array.from({ length: n * WIDTH }, random(seed)), [n, WIDTH]);

/** Requests per task, largest first, so far. */
const most = (model: Model) => Math.max(...Object.keys(model.stats().batches.tasks).map(Number));
const answered = (model: Model) =>
  Object.entries(model.stats().batches.tasks).reduce((n, [requests, tasks]) => n + Number(requests) * tasks, 0);

/** y of each request, run alone by a model that never merges. */
async function alone(bytes: Uint8Array, inputs: readonly Tensor[]): Promise<Float32Array[]> {
  const model = await engine.load(bytes, grown(1));
  const ys: Float32Array[] = [];
  for (const x of inputs) ys.push((await model.run({ x })).y.data as Float32Array);
  assert.is(model.batching, undefined);
  await model.close();
  return ys;
}

test('requests that come together share tasks up to the batch, bit for bit as alone', async () => {
  const bytes = chain(20, WIDTH);
  // Some come with several rows; one with more than the batch.
  const inputs = Array.from({ length: 40 }, (_, i) => rows([1, 1, 3, 2, 11][i % 5]!, i));
  const want = await alone(bytes, inputs);
  for (const instances of [1, 2]) {
    const model = await engine.load(bytes, grown(8, instances));
    const answers = await Promise.all(inputs.map((x) => model.run({ x })));
    answers.forEach(({ y }, i) => {
      assert.equal(y.dims, inputs[i]!.dims);
      assert.equal(y.data, want[i]);
    });
    assert.equal(model.batching, { proven: true, axes: { x: 0 } });
    assert.ok(most(model) > 1 && most(model) <= 8, JSON.stringify(model.stats().batches));
    assert.is(answered(model), inputs.length);
    assert.equal(model.configuration, [{ instances, threads: 1, batch: 8 }]);
    await model.close();
  }
});

test('batch 1 never merges', async () => {
  const model = await engine.load(chain(10, WIDTH), grown(1));
  await Promise.all(Array.from({ length: 20 }, (_, i) => model.run({ x: rows(1, i) })));
  assert.equal(model.stats().batches, { maxRows: 1, tasks: { 1: 20 } });
  await model.close();
});

test('without a configuration the batch grows by itself and the answers stay', async () => {
  const bytes = chain(6, WIDTH);
  const inputs = Array.from({ length: 16 }, (_, i) => rows(1, i));
  const want = await alone(bytes, inputs);
  const model = await engine.load(bytes);
  for (let round = 0; round < 12; round++) {
    const answers = await Promise.all(inputs.map((x) => model.run({ x })));
    answers.forEach(({ y }, i) => {
      assert.equal(y.data, want[i]);
    });
  }
  assert.ok(most(model) > 1);
  assert.is(model.configuration[0]!.batch, model.stats().batches.maxRows);
  await model.close();
});

test('what others want, cancel or wait for changes nothing for one', async () => {
  const g = new GraphBuilder('two outputs');
  const x = g.input('x', 'float32', ['batch', WIDTH]);
  let h = x;
  for (let i = 0; i < 20; i++) h = g.matmul(h, g.weights([WIDTH, WIDTH]));
  g.output('y', h);
  g.output('twice', g.binary('Mul', x, 2));
  const bytes = writeModel(g.model());
  const inputs = Array.from({ length: 30 }, (_, i) => rows(1 + (i % 2), i));
  const want = await alone(bytes, inputs);
  const model = await engine.load(bytes, grown(16));
  const aborts: AbortController[] = [];
  const pending = inputs.map((input, i) => {
    const abort = new AbortController();
    aborts.push(abort);
    const outputs = i % 3 === 0 ? ['twice'] : i % 3 === 1 ? ['y'] : undefined;
    return model.run({ x: input }, { signal: abort.signal, ...(outputs && { outputs }) });
  });
  aborts.forEach((a, i) => {
    if (i % 7 === 3) a.abort();
  });
  const settled = await Promise.allSettled(pending);
  settled.forEach((s, i) => {
    if (s.status === 'rejected') {
      assert.is(s.reason.code, 'ABORTED');
      assert.is(i % 7, 3);
      return;
    }
    const names = i % 3 === 0 ? ['twice'] : i % 3 === 1 ? ['y'] : ['y', 'twice'];
    assert.equal(Object.keys(s.value), names);
    if (s.value.y !== undefined) assert.equal(s.value.y.data, want[i]);
    if (s.value.twice !== undefined)
      assert.equal(
        s.value.twice.data,
        (inputs[i]!.data as Float32Array).map((v) => v * 2),
      );
  });
  assert.ok(most(model) > 1);
  await model.close();
});

test('inputs without a batch axis must be the same bits to share a task', async () => {
  const g = new GraphBuilder('scaled');
  const x = g.input('x', 'float32', ['batch', WIDTH]);
  const scale = g.input('scale', 'float32', [WIDTH]);
  let h = x;
  for (let i = 0; i < 20; i++) h = g.matmul(h, g.weights([WIDTH, WIDTH]));
  g.output('y', g.binary('Mul', h, scale));
  const model = await engine.load(writeModel(g.model()), grown(8));
  const scales = [1, 2, 4].map((s) => new Tensor('float32', new Float32Array(WIDTH).fill(s), [WIDTH]));
  const inputs = Array.from({ length: 24 }, (_, i) => rows(1, i));
  const one: Float32Array[] = [];
  for (const input of inputs) one.push((await model.run({ x: input, scale: scales[0]! })).y.data);
  const answers = await Promise.all(inputs.map((input, i) => model.run({ x: input, scale: scales[i % 3]! })));
  // A product scales exactly with a power of two.
  answers.forEach(({ y }, i) => {
    assert.equal(
      y.data,
      one[i]!.map((v) => v * 2 ** (i % 3)),
    );
  });
  assert.ok(most(model) > 1);
  assert.equal(model.batching, { proven: true, axes: { x: 0, scale: null } });
  await model.close();
});

test('a recurrent state has its batch on another axis', async () => {
  const g = new GraphBuilder('state');
  const x = g.input('x', 'float32', ['batch', WIDTH]);
  const state = g.input('state', 'float32', [2, 'batch', WIDTH]);
  let h = x;
  for (let i = 0; i < 20; i++) h = g.matmul(h, g.weights([WIDTH, WIDTH]));
  g.output('y', h);
  g.output('next', g.binary('Add', state, h));
  const model = await engine.load(writeModel(g.model()), grown(8));
  const feeds = Array.from({ length: 20 }, (_, i) => {
    const n = 1 + (i % 3);
    const s = new Tensor('float32', Float32Array.from({ length: 2 * n * WIDTH }, random(100 + i)), [2, n, WIDTH]);
    return { x: rows(n, i), state: s };
  });
  const want: Outputs[] = [];
  for (const f of feeds) want.push(await model.run(f));
  const got = await Promise.all(feeds.map((f) => model.run(f)));
  got.forEach((answer, i) => {
    for (const name of ['y', 'next']) {
      assert.equal(answer[name].dims, want[i]![name].dims);
      assert.equal(answer[name].data, want[i]![name].data);
    }
  });
  assert.equal(model.batching, { proven: true, axes: { x: 0, state: 1 } });
  assert.ok(most(model) > 1);
  await model.close();
});

test('what mixes rows runs one request at a time and says at which node', async () => {
  const g = new GraphBuilder('mixed');
  const x = g.input('x', 'float32', ['batch', WIDTH]);
  let h = x;
  for (let i = 0; i < 20; i++) h = g.matmul(h, g.weights([WIDTH, WIDTH]));
  g.output('y', g.softmax(h, 0));
  const bytes = writeModel(g.model());
  const inputs = Array.from({ length: 12 }, (_, i) => rows(2, i));
  const want = await alone(bytes, inputs);
  const model = await engine.load(bytes, grown(8));
  const answers = await Promise.all(inputs.map((input) => model.run({ x: input })));
  answers.forEach(({ y }, i) => {
    assert.equal(y.data, want[i]);
  });
  assert.is(most(model), 1);
  assert.ok(
    model.batching?.proven === false && /Softmax/.test(model.batching.node ?? ''),
    JSON.stringify(model.batching),
  );
  await model.close();
});

test('a request that cannot run fails alone', async () => {
  const g = new GraphBuilder('indexed');
  const index = g.input('index', 'int64', ['batch', 1]);
  const table = g.weights([10, WIDTH]);
  let h = g.squeeze(g.gather(table, index), [1]);
  for (let i = 0; i < 20; i++) h = g.matmul(h, g.weights([WIDTH, WIDTH]));
  g.output('y', h);
  const model = await engine.load(writeModel(g.model()), grown(8));
  const at = (i: number) => ({ index: new Tensor('int64', [i], [1, 1]) });
  const want = (await model.run(at(3))).y.data;
  const calls = Array.from({ length: 20 }, (_, i) => model.run(at(i % 5 === 2 ? 1000 : 3)));
  const settled = await Promise.allSettled(calls);
  for (const [i, s] of settled.entries()) {
    if (i % 5 === 2) assert.is(s.status === 'rejected' && s.reason.code, 'INVALID_INPUT');
    else assert.equal((s as PromiseFulfilledResult<Outputs>).value.y.data, want);
  }
  assert.is(model.batching?.proven, true);
  await model.close();
});

test('8-bit weights and Winograd convolutions give the same bits together as alone', async () => {
  const g = new GraphBuilder('filters');
  const x = g.input('x', 'float32', ['batch', 16, 12, 12]);
  g.output('y', g.relu(g.conv2d(x, g.weights([32, 16, 3, 3]), undefined, { pads: [1, 1, 1, 1] })));
  const filters = writeModel(g.model());
  const image = (seed: number) =>
    new Tensor('float32', Float32Array.from({ length: 16 * 144 }, random(seed)), [1, 16, 12, 12]);
  const inputs = Array.from({ length: 20 }, (_, i) => i);
  for (const [bytes, input, options] of [
    [chain(4, WIDTH), (i: number) => rows(1, i), { weights: 'int8' }],
    [filters, image, { winograd: true }],
  ] as const) {
    const one = await engine.load(bytes, { ...grown(1), ...options });
    const want = [];
    for (const i of inputs) want.push((await one.run({ x: input(i) })).y.data);
    const many = await engine.load(bytes, { ...grown(8), ...options });
    const got = await Promise.all(inputs.map((i) => many.run({ x: input(i) })));
    for (const i of inputs) assert.equal(got[i]!.y.data, want[i]);
    assert.ok(most(many) > 1, JSON.stringify(many.stats().batches));
    await one.close();
    await many.close();
  }
});

test.after(() => engine.close());

test.run();
