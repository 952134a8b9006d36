// Measuring and choosing. That something was measured, kept, stopped, chosen and applied; never how long it took.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { GraphBuilder } from '../../src/graph/builder.js';
import {
  type ConfigurationChange,
  Engine,
  Profile,
  type SkepError,
  Tensor,
  type TuneProgress,
} from '../../src/index.js';
import { writeModel } from '../../src/onnx/writer.js';
import { chain } from '../models.js';

const cache = mkdtempSync(path.join(tmpdir(), 'skep-'));
process.env.SKEP_CACHE = cache;
const engine = new Engine({ threads: 2 });
const WIDTH = 32;

async function rejects(promise: Promise<unknown>, code: string, words: RegExp): Promise<void> {
  try {
    await promise;
  } catch (error) {
    assert.is((error as SkepError).code, code, String(error));
    assert.match((error as SkepError).message, words);
    return;
  }
  assert.unreachable(`expected ${code}`);
}

test('every thread count and batch is measured, kept for the next time, and one configuration chosen', async () => {
  const model = await engine.load(chain(2, WIDTH));
  assert.is(await model.storedProfile(), undefined);
  const progress: TuneProgress[] = [];
  const changes: ConfigurationChange[] = [];
  model.onConfigured((change) => changes.push(change));
  const first = await model.tune({ batch: 4, budget: 600, onProgress: (p) => progress.push(p), apply: true });
  assert.ok(first.complete);
  assert.is(first.source, 'measured');
  assert.equal(first.profile.threads, [1, 2]);
  // The row of all threads is whole; another may have ended where it was clearly slower.
  assert.equal(first.profile.sizes(2), [1, 2, 4]);
  assert.ok(first.profile.hasInterference);
  assert.equal([...new Set(progress.map((p) => p.phase))], ['latency', 'interference', 'candidates']);
  assert.ok(progress.every((p) => p.milliseconds > 0 && p.elapsed > 0 && p.budget === 600));
  const rows = first.configuration.reduce((n, g) => n + g.instances * g.batch, 0);
  assert.is(rows, 4);
  const fat = first.candidates.find((c) => c.configuration[0]!.threads === 2 && c.configuration[0]!.instances === 1);
  assert.ok(fat?.measured !== undefined);
  const chosen = first.candidates.find((c) => JSON.stringify(c.configuration) === JSON.stringify(first.configuration));
  assert.ok(chosen!.measured! <= fat!.measured!);
  assert.ok(first.reasons.length > 0);
  assert.ok(first.applied);
  assert.equal(model.configuration, first.configuration);
  assert.equal(
    changes.map((c) => [c.cause, c.configuration]),
    [['tune', first.configuration]],
  );
  assert.equal((await model.storedProfile())?.toJSON(), first.profile.toJSON());
  assert.is(await model.storedProfile({ threads: 1 }), undefined);

  progress.length = 0;
  const again = await model.tune({ batch: 4, onProgress: (p) => progress.push(p) });
  assert.is(again.source, 'stored');
  assert.equal(again.profile.toJSON(), first.profile.toJSON());
  assert.ok(progress.every((p) => p.phase === 'candidates'));
  const mean = await model.tune({ batch: 4, objective: 'mean', arrivalRate: 10 });
  assert.is(mean.source, 'stored');
  assert.is(mean.objective, 'mean');
  assert.ok(mean.candidates.length > 1 && mean.candidates.every((c) => c.predicted > 0));
  await model.close();

  // The same bytes: the profile is found. Another variant, or another model: not.
  const same = await engine.load(chain(2, WIDTH));
  assert.equal((await same.storedProfile())?.toJSON(), first.profile.toJSON());
  await same.close();
  const other = await engine.load(chain(2, WIDTH), { weights: 'int8' });
  assert.is(await other.storedProfile(), undefined);
  await other.close();
});

test('a stored profile that is broken or of something else is as if it were not there', async () => {
  const model = await engine.load(chain(2, WIDTH));
  const folder = path.join(cache, 'profiles');
  const [file] = readdirSync(folder).map((f) => path.join(folder, f));
  const text = readFileSync(file!, 'utf8');
  assert.ok((await model.storedProfile()) instanceof Profile);
  for (const bad of ['', text.slice(0, 100), '[]', text.replace(/"skep": "[^"]*"/, '"skep": "0.0.0"')]) {
    writeFileSync(file!, bad);
    assert.is(await model.storedProfile(), undefined);
  }
  writeFileSync(file!, text.replace(/"1": 0\./, '"1": -0.'));
  assert.is(await model.storedProfile(), undefined);
  rmSync(file!);
  await model.close();
});

test('measuring stops when it is told to, and answers with what it has', async () => {
  const model = await engine.load(chain(2, WIDTH));
  const abort = new AbortController();
  const seen: TuneProgress[] = [];
  const result = await model.tune({
    batch: 1024,
    budget: 600,
    signal: abort.signal,
    onProgress: (p) => {
      seen.push(p);
      if (seen.length === 2) abort.abort();
    },
  });
  assert.not(result.complete);
  assert.equal(result.profile.threads, [2]);
  assert.equal(result.profile.sizes(2).slice(0, 2), [1, 2]);
  assert.is(result.candidates[0]!.measured, undefined);
  // Half a profile does not stand for a whole one.
  const again = await model.tune({ batch: 2, budget: 600 });
  assert.is(again.source, 'measured');
  assert.ok(again.complete);
  const none = new AbortController();
  none.abort('no');
  await rejects(model.tune({ signal: none.signal, fresh: true }), 'ABORTED', /aborted/);
  await model.close();
});

test('a model whose rows may not be merged has one batch; requests run meanwhile', async () => {
  const g = new GraphBuilder('mixed');
  const x = g.input('x', 'float32', ['batch', WIDTH]);
  g.output('y', g.softmax(g.matmul(x, g.weights([WIDTH, WIDTH])), 0));
  const model = await engine.load(writeModel(g.model()));
  const feeds = { x: new Tensor('float32', new Float32Array(3 * WIDTH).fill(1), [3, WIDTH]) };
  const want = (await model.run(feeds)).y.data;
  const tuned = model.tune({ batch: 8, budget: 600 });
  for (let i = 0; i < 50; i++) assert.equal((await model.run(feeds)).y.data, want);
  const { profile, configuration, reasons } = await tuned;
  for (const t of profile.threads) assert.equal(profile.sizes(t), [1]);
  assert.is(configuration[0]!.batch, 1);
  assert.match(reasons.join(), /for 1 rows: no batch of 8 was measured/);
  await model.close();
});

test('what cannot be measured is refused in words', async () => {
  const model = await engine.load(chain(2, WIDTH));
  await rejects(model.tune({ budget: 0 }), 'INVALID_INPUT', /budget/);
  await rejects(
    model.tune({ threads: 3 }),
    'INVALID_INPUT',
    /threads must be an integer from 1 to the engine's 2, got 3/,
  );
  await rejects(model.tune({ batch: 0 }), 'INVALID_INPUT', /batch/);
  await rejects(model.tune({ objective: 'speed' as never }), 'INVALID_INPUT', /objective must be/);
  await rejects(model.tune({ objective: 'p99' }), 'INVALID_INPUT', /needs arrivalRate/);
  await rejects(model.tune({ objective: 'throughput' }), 'INVALID_INPUT', /needs slo/);
  await rejects(
    model.tune({ dims: { rows: 2 } }),
    'INVALID_INPUT',
    /no input has a dimension 'rows'; there is 'batch'/,
  );
  await rejects(model.tune({ dims: { batch: 0 } }), 'INVALID_INPUT', /batch must be a positive integer/);
  await rejects(model.tune({ feeds: {} }), 'INVALID_INPUT', /input 'x' is missing/);
  await model.close();
  await rejects(model.tune(), 'CLOSED', /closed/);
});

test('a request that cannot run says so, and leaves the model as it was', async () => {
  const g = new GraphBuilder('indexed');
  const index = g.input('index', 'int64', ['batch', 1]);
  g.output('y', g.gather(g.weights([10, WIDTH]), index));
  const model = await engine.load(writeModel(g.model()));
  const feeds = { index: new Tensor('int64', [1000], [1, 1]) };
  await rejects(model.tune({ feeds, fresh: true }), 'INVALID_INPUT', /index 1000/);
  assert.equal((await model.run({ index: new Tensor('int64', [3], [1, 1]) })).y.dims, [1, 1, WIDTH]);
  await model.close();
});

test('a model can be closed while it is measured', async () => {
  const model = await engine.load(chain(40, 256));
  let closing: Promise<void> | undefined;
  const tuned = model.tune({
    budget: 600,
    fresh: true,
    onProgress: () => {
      closing ??= model.close();
    },
  });
  await rejects(tuned, 'CLOSED', /closed/);
  await closing;
  assert.is(engine.models.length, 0);
});

test.after(async () => {
  await engine.close();
  rmSync(cache, { recursive: true });
});

test.run();
