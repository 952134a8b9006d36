// Random configurations under random load: requests come, some are cancelled or too late, while the model is configured
// anew again and again. Every answer must have the bits of a lone run, every request must end, and however often it has
// been configured the model's memory and the process's threads must be what they were. A slice of it is
// test/serving/reconfigure.test.ts; for longer: node dist/test/stress/reconfigure.js [REPEATS] [SWITCHES].
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import * as assert from 'uvu/assert';
import { type Configuration, Engine, type Outputs, type SkepError, Tensor } from '../../src/index.js';
import { chain } from '../models.js';
import { random } from '../serving/random.js';

const WIDTH = 64;
const VARIETY = 32;
const THREADS = 4;

/** Every memory that is made, to see how large it becomes. */
const memories: WebAssembly.Memory[] = [];
const { Memory } = WebAssembly;
WebAssembly.Memory = class extends Memory {
  constructor(descriptor: ConstructorParameters<typeof Memory>[0]) {
    super(descriptor);
    memories.push(this);
  }
};

const threads = () => (process.platform === 'linux' ? readdirSync('/proc/self/task').length : 0);

export interface Tally {
  switches: number;
  answered: number;
  aborted: number;
  timedOut: number;
  /** The longest time without an answer, and the 99th percentile of a task's time, ms: to be looked at, not asserted. */
  gap: number;
  p99: number;
  /** Bytes of the model's memory after half of the switches, and after all. */
  half: number;
  end: number;
}

/** Configures a model `switches` times while it serves; throws at the first thing that is wrong. */
export async function reconfigure(switches: number, seed: number): Promise<Tally> {
  const next = random(seed);
  const below = (n: number) => Math.floor(((next() + 1) / 2) * n) % n;
  const bytes = chain(8, WIDTH);
  const variety = Array.from({ length: VARIETY }, (_, i) => {
    const rows = [1, 1, 1, 2, 5][i % 5]!;
    return { x: new Tensor('float32', Float32Array.from({ length: rows * WIDTH }, next), [rows, WIDTH]) };
  });
  const engine = new Engine({ threads: THREADS });
  const model = await engine.load(bytes, { maxQueue: 200 });
  const memory = memories.at(-1)!;
  const want: Outputs[] = [];
  for (const feeds of variety) want.push(await model.run(feeds));
  const tally: Tally = { switches: 0, answered: 0, aborted: 0, timedOut: 0, gap: 0, p99: 0, half: 0, end: 0 };
  let last = performance.now();

  let going = true;
  const one = async (): Promise<void> => {
    const i = below(VARIETY);
    const abort = new AbortController();
    const fate = below(12);
    const call = model.run(variety[i]!, { signal: abort.signal, ...(fate === 1 && { timeout: below(4) }) });
    if (fate === 0) {
      if (below(2) === 0) abort.abort();
      else setImmediate(() => abort.abort());
    }
    try {
      const { y } = await call;
      tally.answered++;
      const now = performance.now();
      tally.gap = Math.max(tally.gap, now - last);
      last = now;
      assert.ok(Buffer.from(y.data.buffer).equals(Buffer.from(want[i]!.y.data.buffer)), `answer ${i}`);
    } catch (error) {
      const { code } = error as SkepError;
      if (code === 'ABORTED' && fate === 0) tally.aborted++;
      else if (code === 'TIMEOUT' && fate === 1) tally.timedOut++;
      else throw error;
    }
  };
  const client = async (): Promise<void> => {
    while (going) await Promise.all(Array.from({ length: 1 + below(12) }, one));
  };
  const some = (): Configuration => {
    let left = THREADS;
    const groups = [];
    do {
      const threads = 1 + below(left);
      const instances = 1 + below(Math.floor(left / threads));
      left -= threads * instances;
      groups.push({ instances, threads, batch: 1 + below(10) });
    } while (left > 0 && below(2) === 0);
    return groups;
  };
  const clients = Array.from({ length: 4 }, client);
  const failed = Promise.all(clients);
  for (let i = 0; i < switches; i++) {
    // Now and then several at once.
    const asked = Array.from({ length: below(4) === 0 ? 2 : 1 }, some);
    await Promise.race([Promise.all(asked.map((c) => model.configure(c))), failed]);
    assert.equal(model.configuration, asked.at(-1));
    tally.switches += asked.length;
    if (i === Math.floor(switches / 2)) tally.half = memory.buffer.byteLength;
  }
  going = false;
  await failed;
  tally.end = memory.buffer.byteLength;
  tally.p99 = model.stats().computing.p99;
  assert.is(model.stats().pending, 0);
  assert.is(model.stats().failed, 0);
  await model.close();
  await engine.close();
  return tally;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [repeats = 5, switches = 200] = process.argv.slice(2).map(Number);
  await reconfigure(3, 99);
  const before = threads();
  for (let i = 0; i < repeats; i++) {
    const begun = performance.now();
    const tally = await reconfigure(switches, i);
    console.log(i, JSON.stringify(tally), `${((performance.now() - begun) / 1000).toFixed(1)} s`);
    // Twelve places have at most what one instance needs at most; half of the switches have been everywhere.
    if (switches >= 100) assert.ok(tally.end <= 1.25 * tally.half, `memory grew from ${tally.half} to ${tally.end}`);
    assert.is(threads(), before);
  }
}
