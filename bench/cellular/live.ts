// The experiments of cellular batching on a live model: one LSTM layer whose requests are sentences of different lengths.
// The load is skep bench's (src/cli/live.ts): a generator of its own, latency from when a request was due. Rivals are
// compared within rounds, one after the other on the same arrivals, because the machine's speed swings; what counts is the
// median of the rounds' ratios.
import { Buckets, OneByOne, Padding } from '../../src/cellular/baselines.js';
import type { Policy } from '../../src/cellular/policy.js';
import { type LiveResult, type Rival, runLive, type Target } from '../../src/cli/live.js';
import { cumulative, lineChart } from '../../src/cli/plot.js';
import { GraphBuilder } from '../../src/graph/builder.js';
import { Engine, type Feeds, Tensor } from '../../src/index.js';
import { writeModel } from '../../src/onnx/writer.js';
import { arrivals } from '../../src/simulator/arrivals.js';
import { table as costTable, knee } from '../../src/simulator/cost.js';
import { Random } from '../../src/simulator/random.js';
import { digits, type Page } from '../lib/document.js';
import { median } from '../lib/machine.js';
import { type OrtSession, onnxruntimeNode } from '../lib/peers.js';
import { lengths as sentences } from './virtual.js';

/** Sentences longer than this are left out: a plan for every length is compiled before anything is measured. */
const LONGEST = 60;
/** Mean of what is left, about. */
const EQUAL = 25;
/** Requests of a closed loop under way at once: enough that a batch is always full. */
const CALLERS = 32;

/** x [time, batch, hidden] to the last state [1, batch, hidden]. */
function lstm(hidden: number): Uint8Array {
  const g = new GraphBuilder('lstm');
  const x = g.input('x', 'float32', ['time', 'batch', hidden]);
  const scale = Math.sqrt(3 / hidden);
  const [w, r] = [0, 1].map(() => g.weights([1, 4 * hidden, hidden], { scale }));
  g.output('h', g.lstm(x, w!, r!, g.weights([1, 8 * hidden], { scale: 0.1 })).h);
  return writeModel(g.model());
}

/** Inputs of so many steps and rows, made once. */
function maker(hidden: number): (steps: number, rows: number) => Feeds {
  const random = new Random(5);
  const made = new Map<string, Feeds>();
  return (steps, rows) => {
    const key = `${steps} ${rows}`;
    const known = made.get(key);
    if (known !== undefined) return known;
    const data = Float32Array.from({ length: steps * rows * hidden }, () => 2 * random.uniform() - 1);
    const feeds = { x: new Tensor('float32', data, [steps, rows, hidden]) };
    made.set(key, feeds);
    return feeds;
  };
}

/** Milliseconds on the instance. */
async function computing(model: Target, feeds: Feeds): Promise<number> {
  let ms = 0;
  await model.run(feeds, { onTiming: (timing) => (ms = timing.computing) });
  return ms;
}

export async function b1(page: Page): Promise<void> {
  const [rounds, steps] = page.quick ? [5, 6] : [15, 16];
  const counts = page.quick ? [1, 2, 4, 8, 16] : [1, 2, 3, 4, 6, 8, 12, 16, 32];
  const found = new Map<number, Map<number, number>>();
  for (const hidden of page.quick ? [256, 1024] : [256, 512, 1024]) {
    await using engine = new Engine({ threads: 1 });
    await using model = await engine.load(lstm(hidden), { configuration: [{ instances: 1, threads: 1, batch: 1 }] });
    const feeds = maker(hidden);
    const times = new Map(counts.map((rows) => [rows, [] as number[]]));
    for (let round = -1; round < rounds; round++)
      for (const rows of counts) {
        const ms = await computing(model, feeds(steps, rows));
        if (round >= 0) times.get(rows)!.push(ms / steps);
      }
    found.set(hidden, new Map([...times].map(([rows, ms]) => [rows, median(ms)])));
  }
  const names = [...found.keys()].map((h) => `hidden ${h}`);
  page.table(
    ['rows', ...names.flatMap((n) => [`${n}: ms a step`, 'rows/s'])],
    counts.map((rows) => [
      String(rows),
      ...[...found.values()].flatMap((of) => [digits(of.get(rows)!), ((1000 * rows) / of.get(rows)!).toFixed(0)]),
    ]),
  );
  for (const [hidden, of] of found) {
    const largest = counts.at(-1)!;
    const at = knee(costTable(Object.fromEntries(of)), largest);
    const gain = Math.max(...[...of].map(([rows, ms]) => rows / ms)) * of.get(1)!;
    page.say(
      `Hidden ${hidden}: batching buys ${digits(gain)}× the rows a second; the knee, the smallest batch with 95 % of the most, is ${at} rows.`,
    );
    page.holds(`hidden ${hidden} saturates: the knee is below ${largest} rows`, at < largest);
  }
  page.figure(
    'b1-live',
    'B1: rows a second against batch',
    lineChart({
      title: 'B1: rows a second against rows of a batch',
      subtitle: 'live, one thread, an LSTM step',
      x: { title: 'rows of a batch', scale: 'log' },
      y: { title: 'rows a second', scale: 'log' },
      series: [...found].map(([hidden, of]) => ({
        name: `hidden ${hidden}`,
        points: [...of].map(([rows, ms]) => [rows, (1000 * rows) / ms] as const),
        dots: true,
      })),
    }),
  );
}

/** A model ready to be put under load in every way, and what it takes to close it. */
interface Bench extends AsyncDisposable {
  readonly cellular: Target;
  readonly alone: Target;
  readonly native: Target | undefined;
  readonly maxBatch: number;
  readonly feeds: (steps: number, rows: number) => Feeds;
  readonly lengthOf: (i: number) => number;
}

async function open(hidden: number, maxBatch: number): Promise<Bench> {
  const bytes = lstm(hidden);
  const engine = new Engine({ threads: 2 });
  const load = (batch: number) =>
    engine.load(bytes, { configuration: [{ instances: 1, threads: 1, batch }], maxQueue: 100_000 });
  const [cellular, alone] = [await load(maxBatch), await load(1)];
  const session = await nativeSession(bytes);
  const feeds = maker(hidden);
  const usable = sentences.filter((n) => n <= LONGEST);
  const random = new Random(9);
  const drawn = Array.from({ length: 20_000 }, () => usable[random.below(usable.length)]!);
  // Compiles every plan there will be: every length alone, and for closed batches every bucket's edge with every size.
  for (const n of new Set(usable)) {
    await cellular.run(feeds(n, 1));
    await alone.run(feeds(n, 1));
    for (let rows = 2; rows <= maxBatch; rows++) if (n % 10 === 0) await alone.run(feeds(n, rows));
  }
  return {
    cellular,
    alone,
    native: session?.target,
    maxBatch,
    feeds,
    lengthOf: (i) => drawn[i % drawn.length]!,
    async [Symbol.asyncDispose]() {
      await engine.close();
      await session?.session.release();
    },
  };
}

async function nativeSession(bytes: Uint8Array): Promise<{ target: Target; session: OrtSession } | undefined> {
  const ort = await onnxruntimeNode().catch(() => undefined);
  if (ort === undefined) return undefined;
  const options = { executionProviders: ['cpu'], intraOpNumThreads: 1, interOpNumThreads: 1, logSeverityLevel: 3 };
  const session = await ort.InferenceSession.create(bytes, options);
  const run = (feeds: Feeds) => {
    const x = feeds.x as Tensor;
    return session.run({ x: new ort.Tensor('float32', x.data, x.dims) });
  };
  return { target: { run }, session };
}

type Way = 'cellular' | 'buckets of 10' | 'padding' | 'one by one' | 'onnxruntime-node';

function rivalOf(bench: Bench, way: Way, lengthOf: (i: number) => number): { model: Target; rival?: Rival } {
  if (way === 'cellular') return { model: bench.cellular };
  const policies: Record<Exclude<Way, 'cellular'>, () => Policy> = {
    'buckets of 10': () => new Buckets(bench.maxBatch, 10),
    padding: () => new Padding(bench.maxBatch),
    'one by one': () => new OneByOne(),
    'onnxruntime-node': () => new OneByOne(),
  };
  const model = way === 'onnxruntime-node' ? bench.native! : bench.alone;
  const item = (i: number) => ({ unfolding: { kind: 'chain' as const, type: 0, length: lengthOf(i) } });
  return {
    model,
    rival: { policy: policies[way](), instances: 1, item, batch: (rows, steps) => bench.feeds(steps, rows) },
  };
}

/** So many requests at a rate, Poisson by a seed. */
function openLoop(bench: Bench, way: Way, rate: number, seconds: number, seed: number): Promise<LiveResult> {
  const due = arrivals({ kind: 'poisson', rate }, Math.max(20, Math.round(rate * seconds)), new Random(seed));
  return runLive({
    ...rivalOf(bench, way, bench.lengthOf),
    arrivals: due,
    feeds: (i) => bench.feeds(bench.lengthOf(i), 1),
    drain: 5 + seconds,
  });
}

/** Requests a second with always more than enough waiting; all of one length, or as they come. */
async function saturated(bench: Bench, way: Way, seconds: number, length?: number): Promise<number> {
  const lengthOf = length === undefined ? bench.lengthOf : () => length;
  const { report } = await runLive({
    ...rivalOf(bench, way, lengthOf),
    arrivals: { callers: CALLERS, seconds },
    feeds: (i) => bench.feeds(lengthOf(i), 1),
  });
  return report.throughput;
}

/** Whether requests of different lengths are computed together at all: what makes batching cellular. */
async function lengthsMeet(bench: Bench): Promise<boolean> {
  const alone = (tasks: Readonly<Record<number, number>>) =>
    Object.entries(tasks)
      .filter(([n]) => Number(n) > 1)
      .reduce((sum, [, count]) => sum + count, 0);
  const before = alone(bench.cellular.stats!().batches.tasks);
  await Promise.all(Array.from({ length: 8 }, (_, i) => bench.cellular.run(bench.feeds(20 + i, 1))));
  return alone(bench.cellular.stats!().batches.tasks) > before;
}

const MAX_BATCH = 4;

export async function b2(page: Page): Promise<void> {
  await against(page, 1024, page.quick ? [0.5, 0.8] : [0.1, 0.3, 0.5, 0.7, 0.8, 0.9]);
}

export async function b2Narrow(page: Page): Promise<void> {
  await against(page, 256, page.quick ? [0.8] : [0.5, 0.8]);
}

/** Live: the ways against each other at loads, and native saturated. */
async function against(page: Page, hidden: number, loads: readonly number[]): Promise<void> {
  await using bench = await open(hidden, MAX_BATCH);
  const [rounds, seconds] = page.quick ? [3, 3] : [5, 20];
  const ways: Way[] = [
    'cellular',
    'buckets of 10',
    'padding',
    'one by one',
    ...(bench.native ? (['onnxruntime-node'] as const) : []),
  ];
  const meet = await lengthsMeet(bench);
  const capacity = median(await times(3, () => saturated(bench, 'cellular', seconds, EQUAL)));
  page.say(
    `**Live, LSTM hidden ${hidden}**, one instance of one thread, at most ${MAX_BATCH} rows. Capacity, saturated with requests of ${EQUAL} steps: ${digits(capacity)} requests/s. ` +
      `Requests of different lengths ${meet ? 'meet' : 'do not meet'} in tasks of the engine${meet ? '' : ': recurrent layers are not cut into cells yet, so what is called cellular here merges only requests of one length'}.`,
  );
  const found = new Map<string, { p90: number[]; stable: boolean[]; results: LiveResult[] }>();
  for (let round = 0; round < rounds; round++)
    for (const load of loads)
      for (const way of ways) {
        const result = await openLoop(bench, way, load * capacity, seconds, 100 + round);
        const key = `${way} ${load}`;
        const of = found.get(key) ?? { p90: [], stable: [], results: [] };
        of.p90.push(result.report.latency.p90);
        of.stable.push(result.report.backlog.growthShare < 0.05);
        of.results.push(result);
        found.set(key, of);
      }
  const get = (way: Way, load: number) => found.get(`${way} ${load}`)!;
  const cell = (way: Way, load: number) => {
    const { p90, stable } = get(way, load);
    return `${digits(median(p90))}${stable.filter(Boolean).length * 2 > stable.length ? '' : ' (backlog grows)'}`;
  };
  page.say(`p90 of latency in ms, median of ${rounds} rounds of ${seconds} s:`);
  page.table(
    ['load', ...ways],
    loads.map((load) => [String(load), ...ways.map((way) => cell(way, load))]),
  );
  const ratio = (way: Way, load: number) => median(get(way, load).p90.map((p, i) => p / get('cellular', load).p90[i]!));
  const at = loads.includes(0.8) ? 0.8 : loads.at(-1)!;
  if (hidden === 1024) {
    page.holds(
      `buckets' p90 over cellular's at ${at} of capacity is ${digits(ratio('buckets of 10', at))} (at least 2)`,
      ratio('buckets of 10', at) >= 2,
    );
    const most = await openLoop(bench, 'cellular', 0.9 * capacity, 2 * seconds, 99);
    page.holds(
      `cellular sustains 0.9 of capacity (the backlog grows by ${digits(100 * most.report.backlog.growthShare)} % of what arrives)`,
      most.report.backlog.growthShare < 0.05,
    );
  }
  page.figure(
    `b2-live-${hidden}`,
    `B2, live, hidden ${hidden}`,
    lineChart({
      title: `B2: latency at ${at} of capacity, LSTM hidden ${hidden}`,
      subtitle: 'live; all rounds together',
      x: { title: 'latency, ms', scale: 'log' },
      y: { title: 'share of requests at most so long, %', min: 0, max: 100 },
      series: ways.map((way) => ({
        name: way,
        points: cumulative(get(way, at).results.flatMap((r) => r.latencies)).map(
          ([x, share]) => [x, 100 * share] as const,
        ),
      })),
    }),
  );
  if (bench.native === undefined) {
    page.say('onnxruntime-node is not there (`npm ci --prefix bench`), so nothing is compared with it.');
    return;
  }
  const pairs = await times(rounds, async () => {
    const own = await saturated(bench, 'cellular', seconds);
    return own / (await saturated(bench, 'onnxruntime-node', seconds));
  });
  const peak = median(pairs);
  const words = `against one onnxruntime-node session called once a request: ${digits(peak)}× its peak throughput, its p90 over ours ${digits(ratio('onnxruntime-node', at))} at ${at} of our capacity`;
  const wanted = Number(process.versions.node.split('.')[0]) >= 24 ? 1.1 : 1;
  if (hidden === 1024) page.holds(`${words} (peak at least ${wanted})`, peak >= wanted);
  else page.say(`B2 native: ${words}.`);
}

async function times<T>(n: number, run: () => Promise<T>): Promise<T[]> {
  const found: T[] = [];
  for (let i = 0; i < n; i++) found.push(await run());
  return found;
}

export async function b3(page: Page): Promise<void> {
  const hidden = page.quick ? 256 : 1024;
  const [rounds, seconds] = page.quick ? [3, 2] : [7, 10];
  await using bench = await open(hidden, MAX_BATCH);
  const pairs = await times(rounds, async () => {
    const cells = await saturated(bench, 'cellular', seconds, EQUAL);
    return { cells, padded: await saturated(bench, 'padding', seconds, EQUAL) };
  });
  const ratio = median(pairs.map((p) => p.cells / p.padded));
  page.say(`Live, hidden ${hidden}, ${CALLERS} callers, ${rounds} pairs of ${seconds} s:`);
  page.table(
    ['live', 'requests/s'],
    [
      ['cellular', digits(median(pairs.map((p) => p.cells)))],
      ['padding', digits(median(pairs.map((p) => p.padded)))],
    ],
  );
  page.holds(`live, cells reach ${digits(ratio)}× the throughput of padding (at least 0.9)`, ratio >= 0.9);
}

export async function b4(page: Page): Promise<void> {
  const hidden = page.quick ? 256 : 1024;
  const seconds = page.quick ? 4 : 30;
  await using bench = await open(hidden, MAX_BATCH);
  const capacity = await saturated(bench, 'cellular', seconds, EQUAL);
  const rows: string[][] = [];
  for (const load of [0.3, 0.5, 0.7]) {
    const { report, late } = await openLoop(bench, 'cellular', load * capacity, seconds, 7);
    const { queueing: q, computing: c } = report;
    rows.push([String(load), ...[q.p50, q.p90, c.p50, c.p90, median(late)].map(digits)]);
  }
  page.say(
    `Live, LSTM hidden ${hidden}, capacity ${digits(capacity)} requests/s, ms (sent late: how long after it was due a request left this thread; part of queueing):`,
  );
  page.table(['load', 'queueing p50', 'p90', 'computing p50', 'p90', 'sent late p50'], rows);
}
