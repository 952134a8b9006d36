import { getEventListeners, once } from 'node:events';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { GraphBuilder } from '../../src/graph/builder.js';
import { Engine, SkepError, Tensor } from '../../src/index.js';
import { readModel } from '../../src/onnx/reader.js';
import { writeModel } from '../../src/onnx/writer.js';
import { chain, plusOne } from '../models.js';

const engine = new Engine({ threads: 4 });

const isError = (code: string, words: RegExp) => (e: unknown) =>
  e instanceof SkepError && e.code === code && words.test(e.message);

/** Asserts that a promise rejects with a code and words. */
async function rejects(promise: Promise<unknown>, code: string, words: RegExp): Promise<void> {
  try {
    await promise;
  } catch (error) {
    assert.ok(isError(code, words)(error), `expected ${code} ${words}, got ${String(error)}`);
    return;
  }
  assert.unreachable(`expected ${code}`);
}

const vector = (...xs: number[]) => new Tensor('float32', Float32Array.from(xs), [xs.length]);

test('says what it takes and gives', async () => {
  const model = await engine.load(plusOne(), { name: 'plus' });
  assert.is(model.name, 'plus');
  assert.equal(model.inputs, [{ name: 'x', type: 'float32', shape: ['n'], optional: false }]);
  assert.equal(
    model.outputs.map((o) => o.name),
    ['y', 'twice'],
  );
  assert.equal(model.configuration, [{ instances: 1, threads: 1, batch: 1 }]);
  await model.close();
});

test('gives all outputs, or those that are wanted', async () => {
  const model = await engine.load(plusOne());
  const all = await model.run({ x: vector(1, 2, 3) });
  assert.equal(Array.from(all.y.data), [2, 3, 4]);
  assert.equal(Array.from(all.twice.data), [2, 4, 6]);
  const some = await model.run({ x: vector(5) }, { outputs: ['twice'] });
  assert.equal(Object.keys(some), ['twice']);
  await rejects(model.run({ x: vector(5) }, { outputs: ['z'] }), 'INVALID_INPUT', /no output 'z'; it has 'y', 'twice'/);
  await model.close();
});

test('takes any object with the face of a tensor', async () => {
  const model = await engine.load(plusOne());
  const { y } = await model.run({ x: { type: 'float32', data: new Float32Array([1]), dims: [1] } });
  assert.is(y.data[0], 2);
  await model.close();
});

test('attributes that an operator does not have are ignored, with a warning', async () => {
  const builder = readModel(plusOne());
  const nodes = builder.graph.nodes.map((n, i) =>
    i > 0 ? n : { ...n, name: 'first', attributes: { ...n.attributes, colour: { kind: 'int' as const, value: 3 } } },
  );
  const warned = once(process, 'warning');
  const model = await engine.load(writeModel({ ...builder, graph: { ...builder.graph, nodes } }), { name: 'tinted' });
  const [warning] = (await warned) as [Error];
  assert.match(warning.message, /model 'tinted': .* ignored: \w+ 'first': 'colour'$/);
  assert.is((await model.run({ x: vector(1) })).y.data[0], 2);
  await model.close();
});

test('many requests may share one signal: it gets one listener, and none when they have ended', async () => {
  const model = await engine.load(plusOne());
  const { signal } = new AbortController();
  const runs = Array.from({ length: 40 }, () => model.run({ x: vector(1) }, { signal }));
  await Promise.resolve();
  assert.is(getEventListeners(signal, 'abort').length, 1);
  await Promise.all(runs);
  assert.is(getEventListeners(signal, 'abort').length, 0);
  const controller = new AbortController();
  const ended = Array.from({ length: 20 }, () => model.run({ x: vector(1) }, { signal: controller.signal }));
  controller.abort();
  for (const r of ended) await rejects(r, 'ABORTED', /aborted/);
  await model.close();
});

test('says what is wrong with options, sources and buffers', async () => {
  for (const options of [null, 3, []])
    assert.throws(
      () => new Engine(options as never),
      isError('INVALID_INPUT', /options must be an object, got (null|number|an array)/),
    );
  await rejects(engine.load(plusOne(), null as never), 'INVALID_INPUT', /load: options must be an object, got null/);
  for (const source of ['https://example.org/m.onnx', 'data:,x', new URL('http://example.org/m'), new URL('data:,x')])
    await rejects(engine.load(source), 'INVALID_INPUT', /not loaded from a (https?|data): URL.*fetch/);
  await rejects(engine.load('file://host/m.onnx'), 'INVALID_INPUT', /no file has this URL/);
  const bytes = Uint8Array.from(plusOne());
  structuredClone(bytes, { transfer: [bytes.buffer] });
  await rejects(engine.load(bytes), 'INVALID_INPUT', /empty.*transferred/);
  const model = await engine.load(plusOne());
  const x = vector(1, 2);
  structuredClone(x.data, { transfer: [x.data.buffer as ArrayBuffer] });
  await rejects(model.run({ x }), 'INVALID_INPUT', /data of input 'x' is gone: its buffer was transferred/);
  await model.close();
  assert.throws(() => new Tensor('int64', [1.5]), /an int64 tensor must be an integer/);
});

test('names what is wrong with a feed', async () => {
  const model = await engine.load(plusOne());
  await rejects(model.run({}), 'INVALID_INPUT', /input 'x' is missing/);
  await rejects(model.run({ X: vector(1) }), 'INVALID_INPUT', /'x' is missing; 'X' is no input/);
  await rejects(
    model.run({ x: new Tensor('int64', [1]) }),
    'INVALID_INPUT',
    /'x': expected float32 of shape \[n\], got int64 of shape \[1\]/,
  );
  await rejects(
    model.run({ x: new Tensor('float32', [1, 2], [1, 2]) }),
    'INVALID_INPUT',
    /got float32 of shape \[1, 2\]/,
  );
  await rejects(model.run({ x: 3 as never }), 'INVALID_INPUT', /'x' must be a Tensor, got number/);
  await rejects(
    model.run({ x: { type: 'float32', data: new Float32Array(2), dims: [3] } }),
    'INVALID_INPUT',
    /needs 3 values, got 2/,
  );
  await rejects(model.run(undefined as never), 'INVALID_INPUT', /object of tensors/);
  assert.equal(Array.from((await model.run({ x: vector(1) })).y.data), [2]);
  await model.close();
});

test('refuses options that are not what they should be, before anything runs', async () => {
  const model = await engine.load(plusOne());
  for (const signal of [{}, { aborted: false }, 'x'])
    await rejects(model.run({ x: vector(1) }, { signal: signal as never }), 'INVALID_INPUT', /AbortSignal/);
  await rejects(model.run({ x: vector(1) }, { outputs: 'y' as never }), 'INVALID_INPUT', /array of output names/);
  assert.is((await model.run({ x: vector(1) }, null as never)).y.data[0], 2);
  await model.close();
});

test('a model can be closed right after a burst of any size', async () => {
  for (const burst of [1, 2, 3, 5, 20]) {
    const model = await engine.load(chain(1, 16));
    const x = new Tensor('float32', new Float32Array(32), [2, 16]);
    await Promise.all(Array.from({ length: burst }, () => model.run({ x })));
    await model.close();
  }
});

test('ignores feeds it has no input for, with one warning', async () => {
  const warnings: string[] = [];
  const listener = (w: Error) => warnings.push(w.message);
  process.on('warning', listener);
  const model = await engine.load(plusOne());
  for (let i = 0; i < 3; i++) await model.run({ x: vector(1), extra: vector(1) });
  await new Promise((resolve) => setImmediate(resolve));
  process.off('warning', listener);
  assert.equal(warnings.length, 1);
  assert.match(warnings[0]!, /extra/);
  await model.close();
});

test('refuses what the queue has no room for, at once, and goes on', async () => {
  const model = await engine.load(chain(8, 128), { maxQueue: 3 });
  const x = new Tensor('float32', new Float32Array(128 * 64).fill(0.1), [64, 128]);
  const calls = Array.from({ length: 5 }, () => model.run({ x }));
  await rejects(calls[3]!, 'OVERLOADED', /3 requests waiting/);
  await rejects(calls[4]!, 'OVERLOADED', /3 requests waiting/);
  const answers = await Promise.all(calls.slice(0, 3));
  assert.is(answers.length, 3);
  await model.run({ x });
  const { answered, refused, pending } = model.stats();
  assert.equal({ answered, refused, pending }, { answered: 4, refused: 2, pending: 0 });
  await model.close();
});

test('a cancelled request ends at once and leaves the others alone', async () => {
  const model = await engine.load(chain(40, 256));
  const x = new Tensor(
    'float32',
    Float32Array.from({ length: 256 * 128 }, (_, i) => (i % 17) / 17 - 0.5),
    [128, 256],
  );
  const want = await model.run({ x });
  const running = new AbortController();
  const queued = new AbortController();
  const a = model.run({ x }, { signal: running.signal });
  const b = model.run({ x }, { signal: queued.signal });
  const c = model.run({ x });
  await new Promise((resolve) => setImmediate(resolve));
  const reason = new Error('changed my mind');
  running.abort(reason);
  queued.abort();
  await rejects(a, 'ABORTED', /aborted/);
  await rejects(b, 'ABORTED', /aborted/);
  const before = AbortSignal.abort();
  await rejects(model.run({ x }, { signal: before }), 'ABORTED', /aborted/);
  assert.equal((await c).y.data, want.y.data);
  await a.catch((e: SkepError) => {
    assert.is(e.name, 'AbortError');
    assert.is(e.cause, reason);
  });
  assert.is(model.stats().aborted, 3);
  await model.close();
});

test('a timeout rejects and leaves the others alone', async () => {
  const model = await engine.load(chain(60, 256));
  const x = new Tensor('float32', new Float32Array(256 * 256).fill(0.01), [256, 256]);
  await rejects(model.run({ x }, { timeout: 0 }), 'TIMEOUT', /longer than 0 ms/);
  await rejects(model.run({ x }, { timeout: -1 }), 'INVALID_INPUT', /timeout/);
  assert.is((await model.run({ x }, { timeout: 600_000 })).y.size, 256 * 256);
  await model.close();
});

test('an error of the graph comes back in words and the model goes on', async () => {
  const model = await engine.load(chain(1, 8));
  // The declared shape is [batch, 8]; batch 0 and above are fine, rank 1 is not.
  await rejects(
    model.run({ x: vector(1, 2) }),
    'INVALID_INPUT',
    /expected float32 of shape \[batch, 8\], got float32 of shape \[2\]/,
  );
  const none = await model.run({ x: new Tensor('float32', [], [0, 8]) });
  assert.equal(none.y.dims, [0, 8]);
  await model.close();
});

test('the stack of an error shows who called', async () => {
  const model = await engine.load(chain(60, 256));
  const x = new Tensor('float32', new Float32Array(256 * 256), [256, 256]);
  const callerOfRun = async () => await model.run({ x }, { timeout: 0 });
  try {
    await callerOfRun();
    assert.unreachable();
  } catch (error) {
    assert.match((error as Error).stack!, /callerOfRun/);
  }
  await model.close();
});

test('closing lets pending requests finish and refuses new ones', async () => {
  const model = await engine.load(chain(10, 128));
  const x = new Tensor('float32', new Float32Array(128 * 64), [64, 128]);
  const pending = [model.run({ x }), model.run({ x })];
  const closed = model.close();
  await rejects(model.run({ x }), 'CLOSED', /closed/);
  assert.is((await Promise.all(pending)).length, 2);
  await closed;
  await model.close();
  assert.is(engine.models.length, 0);
});

test('a model is disposed of at the end of a block', async () => {
  const model = await engine.load(plusOne());
  await model[Symbol.asyncDispose]();
  await rejects(model.run({ x: vector(1) }), 'CLOSED', /closed/);
});

test('what cannot be loaded says why', async () => {
  await rejects(engine.load('no/such/file.onnx'), 'INVALID_INPUT', /file\.onnx: cannot read the model: ENOENT/);
  await rejects(engine.load(new Uint8Array([1, 2, 3])), 'INVALID_MODEL', /./);
  await rejects(engine.load(5 as never), 'INVALID_INPUT', /path, a file: URL, or the bytes/);
  await rejects(engine.load(plusOne(), { maxQueue: 0 }), 'INVALID_INPUT', /maxQueue/);
  await rejects(
    engine.load(plusOne(), { configuration: [{ instances: 3, threads: 2, batch: 1 }] }),
    'INVALID_INPUT',
    /3 × 2 threads are more than the engine's 4/,
  );
  await rejects(
    engine.load(plusOne(), { configuration: [{ instances: 0, threads: 2, batch: 1 }] }),
    'INVALID_INPUT',
    /instances/,
  );
  assert.throws(() => new Engine({ threads: 0 }), isError('INVALID_INPUT', /threads/));
});

test('the bytes a model is loaded from may be changed afterwards', async () => {
  const bytes = plusOne();
  const model = await engine.load(bytes);
  bytes.fill(0);
  assert.is((await model.run({ x: vector(1) })).y.data[0], 2);
  await model.close();
});

test('a loop that computes nothing can be stopped, and what it piles up has a bound', async () => {
  for (const constant of [false, true]) {
    const g = new GraphBuilder('endless');
    const x = g.input('x', 'float32', [2]);
    const trips = constant ? g.constant('int64', [2 ** 52], []) : g.input('trips', 'int64', []);
    const body = g.subgraph('body', (b) => {
      b.input('i', 'int64', []);
      const going = b.input('going', 'bool', []);
      const state = b.input('state', 'float32', [2]);
      b.output('again', b.op('Identity', [going]));
      b.output('next', b.op('Identity', [state]));
    });
    const start = g.constant('float32', [1, 2], [2]);
    const last = g.op('Loop', [trips, g.constant('bool', [1], []), constant ? start : x], { body });
    g.output('y', g.binary('Add', last, x));
    const model = await engine.load(writeModel(g.model()));
    const feeds = { x: vector(1, 2), ...(constant ? {} : { trips: new Tensor('int64', [2 ** 52], []) }) };
    await rejects(model.run(feeds, { timeout: 300 }), 'TIMEOUT', /300 ms/);
    // Comes back only when the instance has stopped.
    await model.close();
  }
});

test.after(() => engine.close());

test.run();
