// Random requests against one model, in waves: random rows, wanted outputs, cancels and timeouts. Every answer must have the
// bits that the request gets from a lone run; every request must end; nothing may be left over. A slice of it is
// test/serving/stress.test.ts; for hours of it: node dist/test/stress/together.js [REPEATS] [REQUESTS].
import { fileURLToPath } from 'node:url';
import * as assert from 'uvu/assert';
import { GraphBuilder } from '../../src/graph/builder.js';
import { Engine, type Outputs, type SkepError, Tensor } from '../../src/index.js';
import { writeModel } from '../../src/onnx/writer.js';
import { random } from '../serving/random.js';

const WIDTH = 32;
const VARIETY = 64;

function twoOutputs(): Uint8Array {
  const g = new GraphBuilder('two outputs');
  const x = g.input('x', 'float32', ['batch', WIDTH]);
  const scale = g.input('scale', 'float32', [1]);
  let h = x;
  for (let i = 0; i < 6; i++) h = g.matmul(h, g.weights([WIDTH, WIDTH]));
  g.output('y', g.binary('Mul', h, scale));
  g.output('sum', g.binary('Add', h, x));
  return writeModel(g.model());
}

export interface Tally {
  answered: number;
  aborted: number;
  timedOut: number;
  /** The most requests in one task. */
  together: number;
}

/** Sends `requests` requests to a model with so many instances; throws at the first wrong answer. */
export async function storm(
  requests: number,
  instances: number,
  batch: number | undefined,
  seed: number,
): Promise<Tally> {
  const next = random(seed);
  const below = (n: number) => Math.floor(((next() + 1) / 2) * n) % n;
  const engine = new Engine({ threads: 4 });
  const bytes = twoOutputs();
  const variety = Array.from({ length: VARIETY }, (_, i) => {
    const rows = [1, 1, 1, 1, 2, 3, 5][i % 7]!;
    return {
      x: new Tensor('float32', Float32Array.from({ length: rows * WIDTH }, next), [rows, WIDTH]),
      scale: new Tensor('float32', [1 + (i % 2)], [1]),
    };
  });
  const lone = await engine.load(bytes, { configuration: [{ instances: 1, threads: 1, batch: 1 }] });
  const want: Outputs[] = [];
  for (const feeds of variety) want.push(await lone.run(feeds));
  await lone.close();

  const model = await engine.load(bytes, {
    maxQueue: 400,
    ...(batch === undefined ? {} : { configuration: [{ instances, threads: 1, batch }] }),
  });
  const tally: Tally = { answered: 0, aborted: 0, timedOut: 0, together: 0 };
  const one = async (): Promise<void> => {
    const i = below(VARIETY);
    const outputs = [undefined, ['y'], ['sum', 'y']][below(3)];
    const abort = new AbortController();
    const fate = below(10);
    const call = model.run(variety[i]!, {
      signal: abort.signal,
      ...(outputs && { outputs }),
      ...(fate === 1 && { timeout: below(4) }),
    });
    if (fate === 0) {
      if (below(2) === 0) abort.abort();
      else setImmediate(() => abort.abort());
    }
    try {
      const answer = await call;
      tally.answered++;
      assert.equal(Object.keys(answer), outputs ?? ['y', 'sum']);
      for (const [name, tensor] of Object.entries(answer)) {
        assert.equal(tensor.dims, want[i]![name].dims);
        assert.ok(Buffer.from(tensor.data.buffer).equals(Buffer.from(want[i]![name].data.buffer)), `${name} of ${i}`);
      }
    } catch (error) {
      const { code } = error as SkepError;
      if (code === 'ABORTED' && fate === 0) tally.aborted++;
      else if (code === 'TIMEOUT' && fate === 1) tally.timedOut++;
      else throw error;
    }
  };
  for (let sent = 0; sent < requests; ) {
    const wave = Math.min(requests - sent, 1 + below(300));
    await Promise.all(Array.from({ length: wave }, one));
    sent += wave;
  }
  const { pending, batches } = model.stats();
  assert.is(pending, 0);
  tally.together = Math.max(...Object.keys(batches.tasks).map(Number));
  await model.close();
  await engine.close();
  assert.is(tally.answered + tally.aborted + tally.timedOut, requests);
  return tally;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [repeats = 20, requests = 10_000] = process.argv.slice(2).map(Number);
  for (let i = 0; i < repeats; i++)
    for (const [instances, batch] of [
      [1, 8],
      [2, 8],
      [1, undefined],
    ] as const) {
      const begun = performance.now();
      const tally = await storm(requests, instances, batch, i * 3 + instances);
      console.log(
        i,
        { instances, batch },
        JSON.stringify(tally),
        `${((performance.now() - begun) / 1000).toFixed(1)} s`,
      );
    }
}
