// A thread that dies takes what it was doing with it, and nothing else: another takes its place. Where nobody can tell what
// is true of what all share, the model ends and says so: no call hangs, none is answered wrongly.
import { Worker } from 'node:worker_threads';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type ConfigurationChange, Engine, type Model, type SkepError, Tensor } from '../../src/index.js';
import { chain } from '../models.js';

/** The threads that have been started, leaders and followers. */
let threads: Worker[] = [];
const { postMessage } = Worker.prototype;
Worker.prototype.postMessage = function (this: Worker, ...args) {
  if (!threads.includes(this)) threads.push(this);
  return postMessage.apply(this, args as never);
};

/** Shared words by how many there are, to find a model's channel. */
const buffers: SharedArrayBuffer[] = [];
const Shared = globalThis.SharedArrayBuffer;
globalThis.SharedArrayBuffer = class extends Shared {
  constructor(bytes: number) {
    super(bytes);
    buffers.push(this);
  }
} as SharedArrayBufferConstructor;

/** The words of the channel of a model loaded with maxQueue 50: 256 slots of 16 words and their ring, after 16 words. */
function channelWords(): Int32Array {
  const [channel] = buffers.filter((b) => b.byteLength === 4 * (16 + 256 * 17));
  return new Int32Array(channel!);
}

/** Resolves when a request is being computed, with its instance's place. */
async function running(words: Int32Array): Promise<number> {
  for (;;) {
    for (let at = 16; at < 16 + 256 * 16; at += 16)
      if (Atomics.load(words, at) === 2) return Atomics.load(words, at + 6);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

process.on('warning', () => {});
// Threads without a request do not keep the process alive.
const alive = setInterval(() => {}, 1000);
const engine = new Engine({ threads: 4 });
const WIDTH = 256;
const x = new Tensor('float32', new Float32Array(WIDTH * 256).fill(1), [256, WIDTH]);

const replaced = (model: Model) =>
  new Promise<ConfigurationChange>((resolve) => {
    model.onConfigured(resolve);
  });

async function codeOf(promise: Promise<unknown>): Promise<[string, string]> {
  try {
    await promise;
  } catch (error) {
    return [(error as SkepError).code, (error as SkepError).message];
  }
  return ['answered', ''];
}

for (const [what, instances, size, victim] of [
  ['the only instance', 1, 1, 0],
  ['one of two instances', 2, 1, 0],
  ['a thread that follows', 1, 2, 1],
  ['a thread that leads', 1, 2, 0],
] as const)
  test(`when ${what} dies its requests fail, the others are answered, and another takes its place`, async () => {
    threads = [];
    buffers.length = 0;
    const configuration = [{ instances, threads: size, batch: 4 }];
    const model = await engine.load(chain(12, WIDTH), { configuration, maxQueue: 50 });
    const words = channelWords();
    // An instance's leader is started before its followers, and the first instance before the second.
    const order = threads.sort((a, b) => a.threadId - b.threadId);
    const { y: want } = await model.run({ x });
    const change = replaced(model);
    const settled = Promise.all(Array.from({ length: 20 }, () => codeOf(model.run({ x }))));
    await order[(await running(words)) * size + victim]!.terminate();
    const found = await settled;
    for (const [code, message] of found) {
      if (code === 'answered') continue;
      assert.is(code, 'INTERNAL');
      assert.match(message, /a thread (ended with code 1|of the instance has ended)/);
    }
    const failed = found.filter(([code]) => code !== 'answered').length;
    assert.ok(failed >= 1 && failed <= 4, `${failed} failed`);
    const { cause, reason, configuration: now } = await change;
    assert.is(cause, 'replaced');
    assert.match(reason, /an instance has died and another has taken its place: a thread/);
    assert.equal(now, configuration);
    const answers = await Promise.all(Array.from({ length: 20 }, () => model.run({ x })));
    for (const { y } of answers) assert.equal(y.data, want.data);
    await model.close();
  });

test('an instance that dies again and again is given up', async () => {
  threads = [];
  buffers.length = 0;
  const model = await engine.load(chain(12, WIDTH), { maxQueue: 50 });
  const words = channelWords();
  // Killed while it computes, never in the middle of a turn.
  const kill = async () => {
    const run = codeOf(model.run({ x }));
    await running(words);
    await threads.at(-1)!.terminate();
    return run;
  };
  for (let deaths = 1; deaths <= 3; deaths++) {
    const change = replaced(model);
    assert.is((await kill())[0], 'INTERNAL');
    await change;
    assert.is((await model.run({ x })).y.size, x.size);
  }
  assert.is((await kill())[0], 'INTERNAL');
  const [code, message] = await codeOf(model.run({ x }));
  assert.is(code, 'CLOSED');
  assert.match(message, /load it again: a thread ended with code 1, like 3 before it/);
  await model.close();
});

test('an instance that dies in the middle of a turn takes its model with it, and others go on', async () => {
  threads = [];
  const other = await engine.load(chain(1, 8));
  threads = [];
  buffers.length = 0;
  const model = await engine.load(chain(20, WIDTH), {
    configuration: [{ instances: 2, threads: 1, batch: 4 }],
    maxQueue: 50,
  });
  // As if it had just taken the lock, the ninth word.
  const words = channelWords();
  const place = 1;
  while (Atomics.compareExchange(words, 8, 0, (place + 1) << 1) !== 0);
  const pending = Array.from({ length: 10 }, () => codeOf(model.run({ x })));
  const order = threads.sort((a, b) => a.threadId - b.threadId);
  await order[place]!.terminate();
  for (const [code, message] of await Promise.all(pending)) {
    assert.is(code, 'INTERNAL');
    assert.match(message, /a thread ended with code 1/);
  }
  const [code, message] = await codeOf(model.run({ x }));
  assert.is(code, 'CLOSED');
  assert.match(message, /load it again: a thread ended/);
  await model.close();
  const { y } = await other.run({ x: new Tensor('float32', new Float32Array(8), [1, 8]) });
  assert.is(y.size, 8);
  await other.close();
});

test.after(async () => {
  clearInterval(alive);
  await engine.close();
  assert.is(engine.models.length, 0);
});

test.run();
