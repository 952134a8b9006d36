// `configuration: 'auto'`: a model measures itself when nobody asks for anything, and follows the load from then on.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type ConfigurationChange, Engine, type Model, type SkepError, Tensor } from '../../src/index.js';
import { chain } from '../models.js';

const cache = mkdtempSync(path.join(tmpdir(), 'skep-'));
process.env.SKEP_CACHE = cache;
const engine = new Engine({ threads: 2 });
const WIDTH = 32;
const x = new Tensor('float32', new Float32Array(WIDTH).fill(1), [1, WIDTH]);
// Nothing of a model that has no requests keeps the process alive.
const alive = setInterval(() => {}, 1000);

const changed = (model: Model) =>
  new Promise<ConfigurationChange>((resolve) => {
    const stop = model.onConfigured((change) => {
      stop();
      resolve(change);
    });
  });

/** Sends one request after another until the promise is there. */
async function requests<T>(model: Model, want: Float32Array, until: Promise<T>): Promise<T> {
  let there = false;
  const found = until.finally(() => {
    there = true;
  });
  while (!there) {
    assert.equal((await model.run({ x })).y.data, want);
    await new Promise((resolve) => setImmediate(resolve));
  }
  return found;
}

test('it starts at once, measures itself in a quiet moment, and decides by that', async () => {
  const model = await engine.load(chain(2, WIDTH), { configuration: 'auto' });
  assert.is(model.configuration[0]!.threads, 2);
  assert.is(model.decision, undefined);
  const want = (await model.run({ x })).y.data;
  const first = await changed(model);
  assert.is(first.cause, 'controller');
  assert.match(first.reason, /a profile is there/);
  const profile = await model.storedProfile();
  assert.equal(profile!.threads, [1, 2]);
  const decided = new Promise<void>((resolve) => {
    const timer = setInterval(() => {
      if (model.decision === undefined) return;
      clearInterval(timer);
      resolve();
    }, 10);
  });
  await requests(model, want, decided);
  assert.ok(['keep', 'switch'].includes(model.decision!.action));
  assert.ok(model.decision!.reason.length > 0);
  await model.configure([{ instances: 1, threads: 1, batch: 3 }]);
  assert.is(model.decision, undefined);
  assert.equal(model.configuration, [{ instances: 1, threads: 1, batch: 3 }]);
  await model.close();
});

test('with a stored profile it decides at once; a better configuration for the load is switched to', async () => {
  // As if two threads were a thousand times slower than one.
  const folder = path.join(cache, 'profiles');
  const [file] = readdirSync(folder).map((f) => path.join(folder, f));
  const stored = JSON.parse(readFileSync(file!, 'utf8'));
  stored.profile = { latency: { 1: { 1: 1, 2: 1.5, 4: 2 }, 2: { 1: 1000, 2: 1500, 4: 2000 } } };
  writeFileSync(file!, JSON.stringify(stored));
  const model = await engine.load(chain(2, WIDTH), { configuration: 'auto', objective: 'mean' });
  const first = await changed(model);
  assert.equal(first.configuration, [{ instances: 1, threads: 2, batch: 4 }]);
  const want = (await model.run({ x })).y.data;
  const { cause, configuration, reason, decision } = await requests(model, want, changed(model));
  assert.is(cause, 'controller');
  assert.ok(
    configuration.every((g) => g.threads === 1),
    JSON.stringify(configuration),
  );
  assert.is(decision!.action, 'switch');
  assert.is(reason, decision!.reason);
  assert.match(reason, /instead of 1 × 2 threads/);
  assert.is(model.stats().failed, 0);
  await model.close();
});

test('a model can be left to the load later, and closed at any moment of it', async () => {
  const model = await engine.load(chain(2, WIDTH), { configuration: [{ instances: 1, threads: 1, batch: 1 }] });
  await model.configure('auto');
  await model.configure('auto');
  await model.close();
});

test('an objective that is none, or lacks its limit, is refused', async () => {
  for (const [options, words] of [
    [{ objective: 'best' }, /objective must be/],
    [{ objective: 'threads' }, /needs slo/],
    [{ objective: 'throughput', slo: { p99: -1 } }, /slo.p99 must be/],
  ] as const) {
    try {
      await engine.load(chain(1, 8), { configuration: 'auto', ...(options as object) });
      assert.unreachable();
    } catch (error) {
      assert.is((error as SkepError).code, 'INVALID_INPUT', String(error));
      assert.match((error as SkepError).message, words);
    }
  }
});

test.after(async () => {
  clearInterval(alive);
  await engine.close();
  rmSync(cache, { recursive: true });
});

test.run();
