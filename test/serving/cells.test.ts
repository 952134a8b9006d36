// Requests of recurrent models are cut into cells that share tasks with others', whatever their lengths; nobody can tell from
// the answers, and nothing of them is left over.
import { Worker } from 'node:worker_threads';
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Tensor } from '../../src/tensor/tensor.js';
import { assertSameBits } from '../operators/harness.js';
import { random } from './random.js';
import { type RecurrentOptions, recurrentFeeds, recurrentModel, request, startHost, valuesOf } from './recurrent.js';

/** Leaders' threads, in the order they were started. */
const leaders: Worker[] = [];
const { postMessage } = Worker.prototype;
Worker.prototype.postMessage = function (this: Worker, ...args) {
  if (!leaders.includes(this)) leaders.push(this);
  return postMessage.apply(this, args as never);
};
process.on('warning', () => {});
// Threads without a request do not keep the process alive.
const alive = setInterval(() => {}, 1000);
test.after(() => clearInterval(alive));

const model: fc.Arbitrary<RecurrentOptions> = fc.record({
  op: fc.constantFrom('LSTM' as const, 'GRU' as const, 'RNN' as const),
  layers: fc.integer({ min: 1, max: 3 }),
  hidden: fc.oneof(fc.integer({ min: 1, max: 20 }), fc.constant(40)),
  input: fc.integer({ min: 1, max: 12 }),
  direction: fc.constantFrom('forward' as const, 'reverse' as const, 'bidirectional' as const),
  layout: fc.nat(1),
  bias: fc.boolean(),
  lengths: fc.boolean(),
  initial: fc.boolean(),
  peepholes: fc.boolean(),
  clip: fc.boolean(),
  special: fc.boolean(),
  before: fc.constantFrom('nothing' as const, 'rows' as const, 'whole' as const),
  after: fc.constantFrom('nothing' as const, 'rows' as const, 'whole' as const),
});

const weightTypes = fc.constantFrom('float32' as const, 'float32' as const, 'float16' as const, 'int8' as const);

test('random layers: requests of all lengths that come together get the bits of a lone run', async () => {
  let cut = 0;
  await fc.assert(
    fc.asyncProperty(model, fc.integer(), fc.constantFrom(1, 2), weightTypes, async (o, seed, instances, weights) => {
      const next = random(seed);
      const below = (n: number) => Math.floor(((next() + 1) / 2) * n) % n;
      const bytes = recurrentModel(o, next);
      const outputs = o.layers * (o.op === 'LSTM' ? 2 : 1) + 1;
      const all = Array.from({ length: outputs }, (_, i) => i);
      const requests = Array.from({ length: 12 }, () => ({
        feeds: recurrentFeeds(o, 1 + below(20), [1, 1, 1, 2, 3][below(5)]!, next, below),
        wanted: below(3) === 0 ? [below(outputs)] : all,
      }));
      const lone = await startHost(bytes, { batch: 1, weights });
      const want: Tensor[][] = [];
      for (const r of requests) want.push(valuesOf(await request(lone, r.feeds, r.wanted)));
      await lone.close();
      const host = await startHost(bytes, { instances, weights });
      const got = await Promise.all(requests.map((r) => request(host, r.feeds, r.wanted)));
      got.forEach((outcome, i) => {
        valuesOf(outcome).forEach((value, k) => {
          assertSameBits(value, want[i]![k]!, `output ${k} of request ${i}`);
        });
      });
      const tasks = Object.entries(host.batches.tasks).reduce((n, [, count]) => n + count, 0);
      if (tasks > 2 * requests.length) cut++;
      assert.is(host.blocks.used, 0);
      await host.close();
    }),
    { numRuns: 6 },
  );
  assert.ok(cut >= 3, `only ${cut} models were cut`);
});

const lstm: RecurrentOptions = {
  op: 'LSTM',
  layers: 2,
  hidden: 16,
  input: 8,
  direction: 'forward',
  layout: 0,
  bias: true,
  lengths: false,
  initial: false,
  peepholes: false,
  clip: false,
  special: false,
  before: 'rows',
  after: 'rows',
};

test('cancels at any time leave nothing behind and change no other answer', async () => {
  const next = random(5);
  const below = (n: number) => Math.floor(((next() + 1) / 2) * n) % n;
  const bytes = recurrentModel(lstm, next);
  const lone = await startHost(bytes, { batch: 1 });
  for (const instances of [1, 2]) {
    const host = await startHost(bytes, { instances });
    const requests = Array.from({ length: 60 }, () => recurrentFeeds(lstm, 1 + below(60), 1, next, below));
    let cancelled = 0;
    const pending = requests.map(
      (feeds, i) =>
        new Promise<Tensor[] | undefined>((resolve, reject) => {
          const cancel = host.submit(feeds, [0], (outcome) => {
            if (outcome.status === 'failed') reject(outcome.error);
            else resolve(outcome.values as Tensor[]);
          });
          if (i % 3 !== 1) return;
          const stop = () => {
            cancel();
            cancelled++;
            resolve(undefined);
          };
          if (i % 2 === 0) stop();
          else setTimeout(stop, below(8));
        }),
    );
    const got = await Promise.all(pending);
    for (const [i, values] of got.entries()) {
      if (values === undefined) continue;
      assertSameBits(values[0]!, valuesOf(await request(lone, requests[i]!, [0]))[0]!, `request ${i}`);
    }
    assert.ok(cancelled > 10);
    // What was cancelled while it ran ends by itself: one more request and closing wait for it.
    await request(host, requests[0]!, [0]);
    await host.close();
    assert.is(host.blocks.used, 0);
  }
  await lone.close();
});

test('the model says how its requests are cut', async () => {
  const next = random(8);
  const host = await startHost(recurrentModel(lstm, next));
  assert.is(host.batching, undefined);
  const feeds = recurrentFeeds(lstm, 20, 1, next, (n) => n - 1);
  // What is told comes with a message: it is there when a second request has been answered.
  for (let i = 0; i < 100 && host.batching === undefined; i++) valuesOf(await request(host, feeds, [0]));
  const { batching } = host;
  assert.ok(batching?.proven);
  assert.equal(batching.axes, { x: 0 });
  assert.is(batching.cells?.length, 6);
  assert.match(batching.cells![1]!, /LSTM/);
  await host.close();
});

test('an instance that dies takes its task along, and nothing of the arena is lost', async () => {
  const next = random(9);
  const below = (n: number) => Math.floor(((next() + 1) / 2) * n) % n;
  const bytes = recurrentModel(lstm, next);
  const lone = await startHost(bytes, { batch: 1 });
  const before = leaders.length;
  const host = await startHost(bytes, { instances: 2 });
  const requests = Array.from({ length: 60 }, () => recurrentFeeds(lstm, 40 + below(60), 1, next, below));
  const pending = requests.map((feeds) => request(host, feeds, [0]));
  // When some have been answered all are in flight.
  await Promise.race(pending);
  await leaders[before]!.terminate();
  let failed = 0;
  for (const [i, outcome] of (await Promise.all(pending)).entries()) {
    if (outcome.status === 'failed') {
      assert.is(outcome.error.code, 'INTERNAL');
      failed++;
    } else assertSameBits(outcome.values[0]!, valuesOf(await request(lone, requests[i]!, [0]))[0]!, `request ${i}`);
  }
  // The other one, or both, serve on. (One that dies in a turn ends the model: nothing shared can be trusted then.)
  const last = await new Promise<string>((resolve) => {
    try {
      host.submit(requests[0]!, [0], (outcome) => resolve(outcome.status));
    } catch (error) {
      resolve((error as Error).message);
    }
  });
  if (last === 'answered') assert.ok(failed < requests.length);
  else assert.match(last, /the model has ended/);
  await host.close();
  if (last === 'answered') assert.is(host.blocks.used, 0);
  await lone.close();
});

test('a small arena makes requests wait in their order, and one that is larger runs in one piece', async () => {
  const next = random(6);
  const below = (n: number) => Math.floor(((next() + 1) / 2) * n) % n;
  const bytes = recurrentModel(lstm, next);
  // A request of 20 times needs about 20 KiB.
  const host = await startHost(bytes, { blockBytes: 48 << 10 });
  const lone = await startHost(bytes, { batch: 1 });
  const requests = Array.from({ length: 40 }, (_, i) => recurrentFeeds(lstm, i % 10 === 4 ? 100 : 20, 1, next, below));
  let most = 0;
  const order: number[] = [];
  const got = await Promise.all(
    requests.map(async (feeds, i) => {
      const outcome = await request(host, feeds, [0]);
      most = Math.max(most, host.blocks.used);
      order.push(i);
      return valuesOf(outcome);
    }),
  );
  for (const [i, feeds] of requests.entries())
    assertSameBits(got[i]![0]!, valuesOf(await request(lone, feeds, [0]))[0]!, `request ${i}`);
  // Those of one length end in the order they came.
  const short = order.filter((i) => i % 10 !== 4);
  assert.equal(
    short,
    [...short].sort((a, b) => a - b),
  );
  assert.ok(most > 0 && most <= host.blocks.units);
  assert.is(host.blocks.used, 0);
  await host.close();
  await lone.close();
});

test.run();
