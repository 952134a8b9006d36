// What a lone request pays for being cut into cells: node dist/bench/lone-sequence.js. An LSTM language model's layer and
// projection at several hidden sizes, 100 steps, one request at a time: the model as it is served (cells, several steps a
// task while nobody else waits) beside the same model that runs every request in one piece. Interleaved pairs, for the speed
// of a machine changes; the median of their ratios counts. Then one at a time but of ever another length, for which a whole
// graph is compiled anew, and 8 requests at once.
import { availableParallelism, cpus, loadavg } from 'node:os';
import { networks } from '../models/index.js';
import { Engine, type Model } from '../src/index.js';
import { writeModel } from '../src/onnx/writer.js';
import type { Tensor } from '../src/tensor/tensor.js';

const PAIRS = 41;
const STEPS = 100;
const sorted = (xs: readonly number[]) => [...xs].sort((a, b) => a - b);
const median = (xs: readonly number[]) => sorted(xs)[Math.floor(xs.length / 2)]!;

/** Milliseconds on the clock, and of computing: what the process had of its cores, whoever else wanted them. */
interface Time {
  readonly clock: number;
  readonly computing: number;
}

async function time(run: () => Promise<unknown>): Promise<Time> {
  const before = process.cpuUsage();
  const begun = performance.now();
  await run();
  const clock = performance.now() - begun;
  const { user, system } = process.cpuUsage(before);
  return { clock, computing: (user + system) / 1000 };
}

async function compare(cells: () => Promise<unknown>, whole: () => Promise<unknown>, pairs: number) {
  for (let i = 0; i < 5; i++) {
    await cells();
    await whole();
  }
  const times: { cells: Time; whole: Time }[] = [];
  for (let i = 0; i < pairs; i++) {
    // The order within a pair changes, too.
    const first = i % 2 === 0 ? await time(cells) : undefined;
    const other = await time(whole);
    times.push({ cells: first ?? (await time(cells)), whole: other });
  }
  return {
    cells: median(times.map((t) => t.cells.clock)),
    whole: median(times.map((t) => t.whole.clock)),
    speed: median(times.map((t) => t.whole.clock / t.cells.clock)),
    computing: median(times.map((t) => t.whole.computing / t.cells.computing)),
  };
}

console.log(
  `${cpus()[0]?.model}, ${availableParallelism()} cores, Node ${process.version}, load ${loadavg()[0]!.toFixed(1)}`,
);
const network = networks.get('lstm-lm')!;
const engine = new Engine({ threads: 4 });
for (const hidden of [64, 256, 1024]) {
  const set = { vocabulary: 64, embedding: hidden, hidden, layers: 1 };
  const model = network.build({ set });
  const bytes = writeModel(model);
  const feeds = (sequence: number) =>
    Object.fromEntries(network.feeds(model, { batch: 1, sequence }, { set })) as Record<string, Tensor>;
  const load = (batch: number): Promise<Model> =>
    engine.load(bytes, { configuration: [{ instances: 1, threads: 1, batch }] });
  const [cut, alone] = [await load(8), await load(1)];
  const one = feeds(STEPS);
  const pairs = hidden === 1024 ? 11 : PAIRS;
  const lone = await compare(
    () => cut.run(one),
    () => alone.run(one),
    pairs,
  );
  let length = 0;
  const lengths = Array.from({ length: 130 }, (_, i) => feeds(40 + ((i * 37) % 130)));
  let other = 0;
  const varied = await compare(
    () => cut.run(lengths[length++ % 130]!),
    () => alone.run(lengths[other++ % 130]!),
    pairs,
  );
  const many = [40, 60, 70, 90, 100, 120, 150, 170].map(feeds);
  const together = await compare(
    () => Promise.all(many.map((f) => cut.run(f))),
    () => Promise.all(many.map((f) => alone.run(f))),
    Math.ceil(pairs / 4),
  );
  const line = (r: typeof lone) =>
    `cells ${r.cells.toFixed(2)} ms, whole ${r.whole.toFixed(2)} ms, speed ${r.speed.toFixed(2)} of it ` +
    `(by time of computing ${r.computing.toFixed(2)})`;
  console.log(`hidden ${hidden}: lone ${line(lone)}${lone.speed >= 0.9 ? '' : '  (at least 0.90 wanted)'}`);
  console.log(`  lone, of another length each time: ${line(varied)}`);
  console.log(`  8 of 40 to 170 steps at once: ${line(together)}`);
  await cut.close();
  await alone.close();
}
await engine.close();
