// Random requests of recurrent models that are cut into cells, in waves: random lengths, wanted outputs, cancels and timeouts,
// on one and two instances. Every answer must have the bits of a lone run of the whole graph, every request must end, and
// the arena must be empty in the end: node dist/test/stress/cells.js [REQUESTS] [SEED].
import { fileURLToPath } from 'node:url';
import * as assert from 'uvu/assert';
import type { HostValue } from '../../src/operators/operator.js';
import { bytesOf, type Tensor } from '../../src/tensor/tensor.js';
import { random } from '../serving/random.js';
import {
  type RecurrentOptions,
  recurrentFeeds,
  recurrentModel,
  request,
  startHost,
  valuesOf,
} from '../serving/recurrent.js';

const VARIETY = 60;

export interface Tally {
  answered: number;
  cancelled: number;
  /** Tasks by how many requests they had. */
  tasks: Readonly<Record<number, number>>;
}

/** Sends `requests` requests to a model with so many instances; throws at the first wrong answer. */
export async function storm(o: RecurrentOptions, requests: number, instances: number, seed: number): Promise<Tally> {
  const next = random(seed);
  const below = (n: number) => Math.floor(((next() + 1) / 2) * n) % n;
  const bytes = recurrentModel(o, next);
  const outputs = o.layers * (o.op === 'LSTM' ? 2 : 1) + 1;
  const all = Array.from({ length: outputs }, (_, i) => i);
  const variety: HostValue[][] = Array.from({ length: VARIETY }, () =>
    recurrentFeeds(o, 1 + below(80), [1, 1, 1, 1, 2][below(5)]!, next, below),
  );
  const lone = await startHost(bytes, { batch: 1 });
  const want: Tensor[][] = [];
  for (const feeds of variety) want.push(valuesOf(await request(lone, feeds, all)));
  await lone.close();

  // Room for some tens of requests: others wait.
  const host = await startHost(bytes, { instances, batch: below(2) === 0 ? 8 : undefined, blockBytes: 1 << 20 });
  const tally: Tally = { answered: 0, cancelled: 0, tasks: {} };
  const one = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const i = below(VARIETY);
      const wanted = below(2) === 0 ? all : [below(outputs)];
      const fate = below(10);
      let timer: NodeJS.Timeout | undefined;
      const cancel = host.submit(variety[i]!, wanted, (outcome) => {
        clearTimeout(timer);
        try {
          valuesOf(outcome).forEach((value, k) => {
            const expected = want[i]![wanted[k]!]!;
            assert.equal(value.dims, expected.dims);
            assert.ok(Buffer.from(bytesOf(value)).equals(Buffer.from(bytesOf(expected))), `output ${k} of ${i}`);
          });
          tally.answered++;
          resolve();
        } catch (error) {
          reject(error);
        }
      });
      const stop = () => {
        cancel();
        tally.cancelled++;
        resolve();
      };
      if (fate === 0) stop();
      else if (fate === 1) timer = setTimeout(stop, below(10));
    });
  for (let sent = 0; sent < requests; ) {
    const wave = Math.min(requests - sent, 1 + below(200));
    await Promise.all(Array.from({ length: wave }, one));
    sent += wave;
  }
  tally.tasks = host.batches.tasks;
  await host.close();
  assert.is(host.blocks.used, 0, 'the arena is empty');
  assert.is(host.pending, 0);
  assert.is(tally.answered + tally.cancelled, requests);
  return tally;
}

export const stormy: RecurrentOptions = {
  op: 'LSTM',
  layers: 2,
  hidden: 32,
  input: 16,
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

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [requests = 10_000, seed = 1] = process.argv.slice(2).map(Number);
  const models: RecurrentOptions[] = [
    stormy,
    { ...stormy, op: 'GRU', direction: 'bidirectional', lengths: true, after: 'whole' },
    { ...stormy, op: 'LSTM', direction: 'reverse', layout: 1, initial: true, peepholes: true, before: 'whole' },
  ];
  for (const [m, o] of models.entries())
    for (const instances of [1, 2]) {
      const begun = performance.now();
      const tally = await storm(o, requests, instances, seed + 10 * m + instances);
      const what = `${o.op} ${o.direction}, ${instances} instance${instances > 1 ? 's' : ''}`;
      console.log(what, JSON.stringify(tally), `${((performance.now() - begun) / 1000).toFixed(1)} s`);
    }
}
