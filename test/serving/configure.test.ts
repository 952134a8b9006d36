// A model is served in another way while it serves: groups are honoured, nothing is dropped, answers stay.
import { mkdtemp, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import {
  type Configuration,
  type ConfigurationChange,
  Engine,
  type Model,
  type SkepError,
  Tensor,
} from '../../src/index.js';
import { chain, plusOne } from '../models.js';
import { random } from './random.js';

const engine = new Engine({ threads: 4 });
const WIDTH = 96;
const rows = (n: number, seed: number) =>
  new Tensor('float32', Float32Array.from({ length: n * WIDTH }, random(seed)), [n, WIDTH]);
const one = (instances: number, threads: number, batch: number): Configuration => [{ instances, threads, batch }];

async function rejects(promise: Promise<unknown>, code: string, words: RegExp): Promise<void> {
  try {
    await promise;
  } catch (error) {
    assert.is((error as SkepError).code, code);
    assert.match((error as SkepError).message, words);
    return;
  }
  assert.unreachable(`expected ${code}`);
}

/** Requests per task, so far. */
const sizes = (model: Model) => Object.keys(model.stats().batches.tasks).map(Number);

test('groups have their own threads and batches', async () => {
  const configuration = [
    { instances: 1, threads: 2, batch: 6 },
    { instances: 2, threads: 1, batch: 3 },
  ];
  const model = await engine.load(chain(20, WIDTH), { configuration });
  assert.equal(model.configuration, configuration);
  const inputs = Array.from({ length: 60 }, (_, i) => rows(1, i));
  const want: Float32Array[] = [];
  for (const x of inputs) want.push((await model.run({ x })).y.data);
  const got = await Promise.all(inputs.map((x) => model.run({ x })));
  got.forEach(({ y }, i) => {
    assert.equal(y.data, want[i]);
  });
  assert.ok(Math.max(...sizes(model)) <= 6);
  await model.close();
});

test('a batch bounds the tasks of its own group alone', async () => {
  // A group that may take one row at a time beside none that may take more: nothing is ever merged.
  const model = await engine.load(chain(20, WIDTH), { configuration: one(2, 1, 8) });
  const burst = () => Promise.all(Array.from({ length: 30 }, (_, i) => model.run({ x: rows(1, i) })));
  await burst();
  assert.ok(Math.max(...sizes(model)) > 1);
  for (const batch of [2, 5]) {
    await model.configure(one(2, 1, batch));
    const before = model.stats().batches.tasks;
    await burst();
    const { tasks, maxRows } = model.stats().batches;
    for (let n = batch + 1; n <= 8; n++) assert.is(tasks[n] ?? 0, before[n] ?? 0);
    assert.is(maxRows, batch);
  }
  await model.configure(one(2, 1, 1));
  const before = model.stats().batches.tasks;
  await burst();
  const { tasks } = model.stats().batches;
  assert.is(tasks[1]! - (before[1] ?? 0), 30);
  await model.configure([...one(1, 1, 1), ...one(1, 1, 7)]);
  await burst();
  assert.is(model.stats().batches.maxRows, 7);
  await model.close();
});

test('every kind of change is made while requests run, and all are answered with the same bits', async () => {
  const model = await engine.load(chain(20, WIDTH));
  const changes: ConfigurationChange[] = [];
  const stop = model.onConfigured((change) => changes.push(change));
  const inputs = Array.from({ length: 12 }, (_, i) => rows([1, 3, 1, 2][i % 4]!, i));
  const want: Float32Array[] = [];
  for (const x of inputs) want.push((await model.run({ x })).y.data);
  let going = true;
  let answered = 0;
  const client = async (i: number) => {
    while (going) {
      assert.equal((await model.run({ x: inputs[i]! })).y.data, want[i]);
      answered++;
    }
  };
  const clients = inputs.map((_, i) => client(i));
  const steps = [
    one(2, 1, 4),
    one(1, 2, 4),
    one(2, 2, 1),
    [...one(1, 2, 8), ...one(2, 1, 2)],
    one(1, 4, 3),
    one(1, 1, 2),
  ];
  for (const configuration of steps) {
    await model.configure(configuration);
    assert.equal(model.configuration, configuration);
    const seen = answered;
    // Some more are answered before the next change.
    while (answered < seen + 10) await Promise.race([clients[0], new Promise((resolve) => setImmediate(resolve))]);
  }
  going = false;
  await Promise.all(clients);
  assert.equal(
    changes.map((c) => c.configuration),
    steps,
  );
  assert.equal(
    changes.slice(1).map((c) => c.before),
    steps.slice(0, -1),
  );
  for (const c of changes) assert.is(c.cause, 'configure');
  stop();
  await model.configure(one(2, 1, 2));
  assert.is(changes.length, steps.length);
  assert.is(model.stats().failed, 0);
  await model.close();
});

test('changes asked for at once are made one after another', async () => {
  const model = await engine.load(chain(2, WIDTH));
  const told: Configuration[] = [];
  model.onConfigured(({ configuration }) => told.push(configuration));
  const steps = [one(2, 1, 2), one(1, 2, 3), one(4, 1, 1)];
  await Promise.all(steps.map((s) => model.configure(s)));
  assert.equal(model.configuration, steps.at(-1));
  assert.is(told.length, 3);
  assert.is((await model.run({ x: rows(2, 1) })).y.size, 2 * WIDTH);
  await model.close();
});

test('a request that never ends does not hold a change up', async () => {
  const model = await engine.load(chain(400, 256), { configuration: one(1, 1, 1) });
  const abort = new AbortController();
  const x = new Tensor('float32', new Float32Array(256 * 512), [512, 256]);
  const long = model.run({ x }, { signal: abort.signal });
  await model.configure(one(1, 2, 1));
  await model.configure(one(1, 1, 1));
  await model.run({ x: new Tensor('float32', new Float32Array(256), [1, 256]) });
  abort.abort();
  await rejects(long, 'ABORTED', /aborted/);
  await model.close();
});

test('what cannot be is refused in words, and all stays as it was', async () => {
  const model = await engine.load(plusOne(), { configuration: one(1, 2, 2) });
  await rejects(model.configure([]), 'INVALID_INPUT', /configuration: expected a list/);
  await rejects(model.configure(one(0, 1, 1)), 'INVALID_INPUT', /instances must be a positive integer, got 0/);
  await rejects(model.configure([...one(1, 1, 1), ...one(1, 1, 2.5)]), 'INVALID_INPUT', /group 1: batch must be/);
  await rejects(model.configure(one(1, 1, 2000)), 'INVALID_INPUT', /batch must be at most 1024/);
  await rejects(
    model.configure([...one(1, 3, 1), ...one(2, 1, 1)]),
    'INVALID_INPUT',
    /1 × 3 \+ 2 × 1 threads are more than the engine's 4/,
  );
  await rejects(model.configure([null] as never), 'INVALID_INPUT', /instances/);
  assert.equal(model.configuration, one(1, 2, 2));
  const closing = model.close();
  await rejects(model.configure(one(1, 1, 1)), 'CLOSED', /closed/);
  await closing;
});

test('a model can be closed in the middle of a change', async () => {
  const model = await engine.load(chain(2, WIDTH));
  const change = model.configure(one(2, 2, 2)).then(
    () => 'changed',
    (e: SkepError) => e.code,
  );
  const run = model.run({ x: rows(1, 1) });
  await model.close();
  assert.is((await run).y.size, WIDTH);
  assert.ok(['changed', 'CLOSED'].includes(await change));
});

test('a file that has changed is not mixed with what is served', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'skep-'));
  const file = path.join(folder, 'model.onnx');
  await writeFile(file, chain(2, WIDTH));
  const model = await engine.load(file);
  const want = (await model.run({ x: rows(1, 1) })).y.data;
  await writeFile(file, chain(3, WIDTH));
  await utimes(file, 1, 1);
  await rejects(model.configure(one(2, 1, 1)), 'INVALID_MODEL', /the file has changed since the model was loaded/);
  assert.equal((await model.run({ x: rows(1, 1) })).y.data, want);
  assert.is(model.configuration[0]!.instances, 1);
  await model.close();
  await rm(folder, { recursive: true });
});

test.after(() => engine.close());

test.run();
