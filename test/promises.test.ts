// The README's claims, one test each. Where a claim is about many cases the cases are tested in their layers' own files.
import { execFile } from 'node:child_process';
import { readdirSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Engine, Tensor } from '../src/index.js';
import { chain } from './models.js';

const run = promisify(execFile);
const index = new URL('../src/index.js', import.meta.url).href;

/** `rows` rows of `width` numbers that differ from row to row. */
function rows(count: number, width: number, seed = 1): Float32Array {
  let s = seed;
  return Float32Array.from({ length: count * width }, () => {
    s = (Math.imul(s, 1664525) + 1013904223) | 0;
    return s / 2 ** 31;
  });
}

/** Runs a script of its own process; rejects when it does not exit 0 within a minute. */
async function script(code: string, ...args: string[]): Promise<string> {
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', code, ...args], { timeout: 60_000 });
  return stdout;
}

test('1: a 1 ms timer keeps ticking while an inference of half a second runs', async () => {
  const engine = new Engine();
  const model = await engine.load(chain(30, 512));
  const x = new Tensor('float32', rows(256, 512), [256, 512]);
  await model.run({ x });
  let ticks = 0;
  const timer = setInterval(() => ticks++, 1);
  const started = performance.now();
  // One request after the other, so that an inference runs at every moment counted.
  while (performance.now() - started < 500) await model.run({ x });
  clearInterval(timer);
  await engine.close();
  assert.ok(ticks >= 100, `${ticks} ticks`);
});

test('2: a row gives the same bits at any batch, in any position, with any threads and instances', async () => {
  const engine = new Engine({ threads: 4 });
  const bytes = chain(3, 200);
  const data = rows(17, 200);
  const row = (i: number) => data.slice(i * 200, (i + 1) * 200);
  const alone: Float32Array[] = [];
  for (const [instances, threads] of [
    [1, 1],
    [1, 3],
    [2, 1],
    [2, 2],
  ] as const) {
    const model = await engine.load(bytes, { configuration: [{ instances, threads, batch: 1 }] });
    for (let i = 0; i < 17; i++) {
      const { y } = await model.run({ x: new Tensor('float32', row(i), [1, 200]) });
      alone[i] ??= y.data;
      assert.equal(y.data, alone[i]);
    }
    await Promise.all(
      [1, 3, 8, 17].map(async (batch) => {
        const { y } = await model.run({ x: new Tensor('float32', data.slice(0, batch * 200), [batch, 200]) });
        for (let i = 0; i < batch; i++) assert.equal(y.data.slice(i * 200, (i + 1) * 200), alone[i]);
      }),
    );
    await model.close();
  }
  await engine.close();
});

test('3: a hundred calls at once are all answered, each with its own answer', async () => {
  const engine = new Engine();
  const model = await engine.load(chain(1, 16));
  const weightless = await model.run({ x: new Tensor('float32', new Float32Array(16).fill(1), [1, 16]) });
  const answers = await Promise.all(
    Array.from({ length: 100 }, (_, i) =>
      model.run({ x: new Tensor('float32', new Float32Array(16).fill(2 ** (i % 8)), [1, 16]) }),
    ),
  );
  // A product scales exactly with a power of two.
  for (const [i, { y }] of answers.entries())
    assert.equal(
      y.data,
      (weightless.y.data as Float32Array).map((v) => v * 2 ** (i % 8)),
    );
  await engine.close();
});

test('7: two hundred models opened and closed leave threads and memory as they were', async () => {
  const engine = new Engine();
  const bytes = chain(2, 256);
  const x = new Tensor('float32', rows(64, 256), [64, 256]);
  const threads = () => (process.platform === 'linux' ? readdirSync('/proc/self/task').length : 0);
  const cycle = async () => {
    const model = await engine.load(bytes);
    await model.run({ x });
    await model.close();
  };
  for (let i = 0; i < 40; i++) await cycle();
  const before = { threads: threads(), memory: process.memoryUsage().rss };
  for (let i = 0; i < 160; i++) await cycle();
  assert.is(threads(), before.threads);
  const grown = process.memoryUsage().rss - before.memory;
  // A model of these takes over 2 MB: 160 left behind would be far above this.
  assert.ok(grown < 100e6, `memory grew by ${grown} bytes`);
  await engine.close();
});

test('7: a script that never closes its model exits by itself, with its answer', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'skep-'));
  const file = path.join(folder, 'chain.onnx');
  writeFileSync(file, chain(20, 256));
  const load = `import { load, Tensor } from ${JSON.stringify(index)}; const m = await load(process.argv[1]);
    const x = new Tensor('float32', new Float32Array(256 * 256).fill(0.5), [256, 256]);`;
  assert.is(await script(`${load} console.log('loaded');`, file), 'loaded\n');
  assert.is(await script(`${load} console.log((await m.run({ x })).y.size);`, file), '65536\n');
  // Nobody awaits: the request alone keeps the process alive until it is answered.
  assert.is(
    await script(`${load} m.run({ x }).then(({ y }) => console.log('answered', y.size));`, file),
    'answered 65536\n',
  );
  await rm(folder, { recursive: true });
});

test.run();
