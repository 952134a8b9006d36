// Instances, threads and batch on this machine: experiments P1, P3, P5, P7, S1, S2, S3 and S5, live. Times are what the instance
// says it computed; what is compared is measured in turn within rounds, because the machine's speed swings.
import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import { networks } from '../../models/index.js';
import { runLive, type Target } from '../../src/cli/live.js';
import { lineChart } from '../../src/cli/plot.js';
import { GraphBuilder } from '../../src/graph/builder.js';
import { Engine, type Feeds, type Model, SkepError, Tensor } from '../../src/index.js';
import { writeModel } from '../../src/onnx/writer.js';
import { describe, instancesOf } from '../../src/optimizer/configuration.js';
import { optimize } from '../../src/optimizer/packrat.js';
import { type LatencyTable, Profile } from '../../src/optimizer/profile.js';
import { queueSystem, runQueue } from '../../src/optimizer/queue.js';
import { serf } from '../../src/optimizer/serf.js';
import { arrivals } from '../../src/simulator/arrivals.js';
import { Random } from '../../src/simulator/random.js';
import { digits, type Page } from '../lib/document.js';
import { median } from '../lib/machine.js';

const THREADS = availableParallelism();

interface Work {
  readonly name: string;
  readonly bytes: Uint8Array;
  readonly feeds: (rows: number) => Feeds;
}

/** An image network: rows are pictures. */
function mobileNet(): Work {
  const network = networks.get('mobilenet-v2')!;
  const model = network.build();
  const made = new Map<number, Feeds>();
  const feeds = (rows: number) => {
    const known = made.get(rows) ?? Object.fromEntries(network.feeds(model, { batch: rows }));
    made.set(rows, known);
    return known;
  };
  return { name: 'MobileNet-v2', bytes: writeModel(model), feeds };
}

/** Many small products one after the other: some milliseconds, the same every time. */
function layers(): Work {
  const width = 256;
  const g = new GraphBuilder('layers');
  let y = g.input('x', 'float32', ['batch', width]);
  for (let i = 0; i < 150; i++) y = g.matmul(y, g.weights([width, width]));
  g.output('y', y);
  const x = (rows: number) => ({ x: new Tensor('float32', new Float32Array(rows * width).fill(0.01), [rows, width]) });
  return { name: '150 layers of 256', bytes: writeModel(g.model()), feeds: x };
}

async function computing(model: Target, feeds: Feeds): Promise<number> {
  let ms = 0;
  await model.run(feeds, { onTiming: (timing) => (ms = timing.computing) });
  return ms;
}

const mean = (xs: readonly number[]) => xs.reduce((a, b) => a + b, 0) / xs.length;

/** L[t][b], every instance alone. */
async function measured(engine: Engine, work: Work, batches: readonly number[], rounds: number): Promise<LatencyTable> {
  const table: Record<number, Record<number, number>> = {};
  for (let t = 1; t <= THREADS; t++) {
    const model = await engine.load(work.bytes, { configuration: [{ instances: 1, threads: t, batch: 1 }] });
    const times = new Map(batches.map((b) => [b, [] as number[]]));
    for (let round = -1; round < rounds; round++)
      for (const b of batches) {
        const ms = await computing(model, work.feeds(b));
        if (round >= 0) times.get(b)!.push(ms);
      }
    table[t] = Object.fromEntries([...times].map(([b, ms]) => [b, median(ms)]));
    await model.close();
  }
  return table;
}

export async function p1(page: Page): Promise<void> {
  const work = mobileNet();
  await using engine = new Engine();
  const batches = page.quick ? [1, 2, 4] : [1, 2, 4, 8, 16];
  const table = await measured(engine, work, batches, page.quick ? 5 : 15);
  page.say(`Live, ${work.name}, ms of a batch alone:`);
  const threads = Object.keys(table).map(Number);
  page.table(
    ['batch', ...threads.map((t) => `${t} thread${t > 1 ? 's' : ''}`), `speed-up with ${THREADS}`],
    batches.map((b) => [
      String(b),
      ...threads.map((t) => digits(table[t]![b]!)),
      digits(table[1]![b]! / table[THREADS]![b]!),
    ]),
  );
  if (THREADS === 1) return page.say('There is one core: no speed-up to be had.');
  const most = Math.max(...batches.map((b) => table[1]![b]! / table[THREADS]![b]!));
  page.holds(
    `live speed-up with ${THREADS} threads is at most ${digits(most)} (below ${THREADS}; weights that bound it may pass it)`,
    most < 1.05 * THREADS,
  );
}

export async function p3(page: Page): Promise<void> {
  const work = mobileNet();
  const batch = page.quick ? 4 : 16;
  await using engine = new Engine();
  await using model = await engine.load(work.bytes);
  let tuned: Awaited<ReturnType<Model['tune']>>;
  try {
    tuned = await model.tune({
      objective: 'makespan',
      batch,
      budget: page.quick ? 20 : 120,
      feeds: work.feeds(1),
      fresh: true,
    });
  } catch (error) {
    if (error instanceof SkepError && error.code === 'UNSUPPORTED')
      return page.say(`Live: not measured (${error.message}).`);
    throw error;
  }
  page.say(`Live, ${work.name}, a batch of ${batch} on ${THREADS} threads; every candidate run once, whole:`);
  page.table(
    ['candidate', 'predicted, ms', 'measured, ms', ''],
    tuned.candidates.map((c) => [
      describe(c.configuration),
      digits(c.predicted),
      c.measured === undefined ? '' : digits(c.measured),
      describe(c.configuration) === describe(tuned.configuration) ? '<--' : '',
    ]),
  );
  const fat = tuned.candidates.find(
    (c) => instancesOf(c.configuration) === 1 && c.configuration[0]!.threads === THREADS,
  )?.measured;
  const chosen = tuned.candidates.find((c) => describe(c.configuration) === describe(tuned.configuration))?.measured;
  if (fat === undefined || chosen === undefined)
    return page.say('The fat instance or the choice was not run within the budget.');
  page.holds(`live, the choice takes ${digits(chosen / fat)}× the time of the fat instance (at most 1)`, chosen <= fat);
}

/** Threads that keep a part of the machine busy until told to stop. */
const BURNERS = {
  'a memory burner': 'const a = new Float64Array(2 ** 24); for (;;) for (let i = 0; i < a.length; i += 8) a[i] += 1;',
  'an arithmetic burner': 'let x = 1; for (;;) for (let i = 0; i < 1e6; i++) x = x * 1.0000001 + 1e-9;',
} as const;

/** Mean ms of requests on each of k instances at once. */
async function together(model: Target, feeds: Feeds, k: number, rounds: number): Promise<number> {
  const times: number[] = [];
  for (let round = 0; round < rounds; round++)
    times.push(mean(await Promise.all(Array.from({ length: k }, () => computing(model, feeds)))));
  return median(times);
}

export async function p5(page: Page): Promise<void> {
  const work = mobileNet();
  const rounds = page.quick ? 5 : 20;
  const counts = Array.from({ length: Math.min(THREADS, 8) }, (_, i) => i + 1);
  await using engine = new Engine();
  await using model = await engine.load(work.bytes, { configuration: [{ instances: THREADS, threads: 1, batch: 1 }] });
  await together(model, work.feeds(1), THREADS, 3);
  const alone = await together(model, work.feeds(1), 1, rounds);
  const rows: string[][] = [];
  for (const burner of [undefined, ...(Object.keys(BURNERS) as (keyof typeof BURNERS)[])]) {
    const worker = burner === undefined ? undefined : new Worker(BURNERS[burner], { eval: true });
    const factors: string[] = [];
    for (const k of counts) factors.push(digits((await together(model, work.feeds(1), k, rounds)) / alone));
    await worker?.terminate();
    rows.push([burner ?? 'nothing else', ...factors]);
  }
  page.say(
    `Live, ${work.name}, instances of one thread, how many times as long as one alone (${digits(alone)} ms). A burner takes a core of ${THREADS} for itself, so with ${THREADS} instances beside one there is a core too few.`,
  );
  page.table(['beside', ...counts.map((k) => `S[${k}]`)], rows);
}

export async function p7(page: Page): Promise<void> {
  const work = layers();
  const seconds = page.quick ? 3 : 15;
  await using engine = new Engine();
  const table = await measured(engine, work, [1, 2, 4, 8, 16, 32, 64], page.quick ? 3 : 9);
  const [before, after] = [8, 64].map((batch) => optimize(table, { threads: THREADS, batch }).configuration);
  await using model = await engine.load(work.bytes, {
    configuration: [{ instances: 1, threads: 1, batch: 8 }],
    maxQueue: 1000,
  });
  try {
    await model.configure(before!);
  } catch (error) {
    if (error instanceof SkepError && error.code === 'UNSUPPORTED') return page.say(`Not measured (${error.message}).`);
    throw error;
  }
  const ends: number[] = [];
  const latencies: number[] = [];
  let [sent, answered, callers] = [0, 0, 8];
  const started = performance.now();
  const now = () => (performance.now() - started) / 1000;
  const caller = async () => {
    while (now() < 2 * seconds) {
      const at = performance.now();
      sent++;
      await model.run(work.feeds(1));
      answered++;
      ends.push(performance.now());
      latencies.push(performance.now() - at);
    }
  };
  const all = Array.from({ length: callers }, caller);
  await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
  for (; callers < 64; callers++) all.push(caller());
  const switching = model.configure(after!);
  await Promise.all([...all, switching]);
  const longest = Math.max(...ends.slice(1).map((t, i) => t - ends[i]!));
  const sorted = [...latencies].sort((a, b) => a - b);
  const p99 = sorted[Math.floor(0.99 * sorted.length)]!;
  page.say(`${work.name}; 8 callers, then 64, for ${seconds} s each; ${describe(before!)}, then ${describe(after!)}.`);
  page.holds(`nothing is lost: ${sent} sent, ${answered} answered`, sent === answered);
  page.holds(
    `no gap between answers is longer than twice the p99 of latency: ${digits(longest)} ms, p99 ${digits(p99)} ms`,
    longest <= 2 * p99,
  );
  page.holds(
    `it ends at the optimum: ${describe(model.configuration)}`,
    describe(model.configuration) === describe(after!),
  );
}

export async function s1(page: Page): Promise<void> {
  const rows: string[][] = [];
  for (const work of [mobileNet(), layers()]) {
    await using engine = new Engine({ threads: 1 });
    await using model = await engine.load(work.bytes, { configuration: [{ instances: 1, threads: 1, batch: 1 }] });
    const times: number[] = [];
    for (let i = -3; i < (page.quick ? 40 : 300); i++) {
      const ms = await computing(model, work.feeds(1));
      if (i >= 0) times.push(ms);
    }
    const average = mean(times);
    const variation = Math.sqrt(mean(times.map((t) => (t - average) ** 2))) / average;
    rows.push([work.name, digits(average), variation.toFixed(3)]);
  }
  page.say(
    'On a quiet machine the coefficient of variation is below 0.1, which is why the model takes service times for constant.',
  );
  page.table(['model', 'mean, ms', 'coefficient of variation'], rows);
}

export async function s2(page: Page): Promise<void> {
  if (THREADS === 1) return page.say('There is one core: nothing to measure.');
  const work = mobileNet();
  const rounds = page.quick ? 7 : 30;
  await using engine = new Engine();
  await using model = await engine.load(work.bytes, { configuration: [{ instances: THREADS, threads: 1, batch: 1 }] });
  await together(model, work.feeds(1), THREADS, 3);
  const counts = Array.from({ length: THREADS }, (_, i) => i + 1);
  const ratios = new Map(counts.map((k) => [k, [] as number[]]));
  for (let round = 0; round < rounds; round++) {
    const alone = await together(model, work.feeds(1), 1, 1);
    for (const k of counts) ratios.get(k)!.push((await together(model, work.feeds(1), k, 1)) / alone);
  }
  const factors = counts.map((k) => median(ratios.get(k)!));
  // Least squares through (1, 1).
  const slope =
    counts.reduce((s, k, i) => s + (k - 1) * (factors[i]! - 1), 0) / counts.reduce((s, k) => s + (k - 1) ** 2, 0);
  const errors = counts.map((k, i) => Math.abs(1 + slope * (k - 1) - factors[i]!) / factors[i]!);
  page.say(
    `${work.name}, instances of one thread, median of ${rounds} paired rounds. A line through one alone has slope ${slope.toFixed(3)} an instance; its largest error is ${(100 * Math.max(...errors)).toFixed(1)} %.`,
  );
  page.table(['instances', ...counts.map(String)], [['S[k]', ...factors.map((f) => f.toFixed(3))]]);
}

/** Low, high, low: the controller against every configuration of equal instances that stays, on the same arrivals. */
export async function s5(page: Page): Promise<void> {
  if (THREADS === 1) return page.say('There is one core: nothing to choose.');
  const work = mobileNet();
  const seconds = page.quick ? 10 : 60;
  await using engine = new Engine();
  const model = await engine.load(work.bytes);
  await model.tune({ batch: 4, budget: page.quick ? 15 : 60, feeds: work.feeds(1), fresh: true });
  await model.close();
  // What all threads as instances of one do, saturated, is the most there is; a fifth and four fifths of it.
  const full = await engine.load(work.bytes, { configuration: [{ instances: THREADS, threads: 1, batch: 1 }] });
  const closed = { callers: 2 * THREADS, seconds: seconds / 2 };
  const most = (await runLive({ model: full, arrivals: closed, feeds: () => work.feeds(1) })).report.throughput;
  await full.close();
  const phases = [0.2, 0.8, 0.2].map((share, i) => {
    const count = Math.max(2, Math.round(share * most * seconds));
    const due = arrivals({ kind: 'poisson', rate: share * most }, count, new Random(30 + i));
    return Array.from(due, (t) => t * ((1000 * seconds) / due.at(-1)!) + i * 1000 * seconds);
  });
  const due = Float64Array.from(phases.flat());
  const divisors = Array.from({ length: THREADS }, (_, i) => i + 1).filter((t) => THREADS % t === 0);
  const ways = [
    { name: 'the controller', configuration: 'auto' as const },
    ...divisors.map((threads) => {
      const configuration = [{ instances: THREADS / threads, threads, batch: 1 }];
      return { name: describe(configuration), configuration };
    }),
  ];
  const rows = new Map<string, number>();
  for (const { name, configuration } of ways) {
    const served = await engine.load(work.bytes, { configuration, maxQueue: 100_000 });
    let changes = 0;
    served.onConfigured(() => changes++);
    for (let i = 0; i < 5; i++) await served.run(work.feeds(1));
    const { report } = await runLive({
      model: served,
      arrivals: due,
      feeds: () => work.feeds(1),
      warmUp: 0,
      drain: seconds,
    });
    rows.set(configuration === 'auto' ? `${name} (${changes} changes)` : name, report.latency.mean);
    await served.close();
  }
  page.say(
    `Live, ${work.name}: ${phases.map((p) => digits(p.length / seconds)).join(', ')} requests/s, ${seconds} s each.`,
  );
  page.table(
    ['', 'mean, ms'],
    [...rows].map(([name, ms]) => [name, digits(ms)]),
  );
  const [own, ...statics] = [...rows.values()];
  const ratio = own! / Math.min(...statics);
  page.holds(`live, the controller's mean is ${digits(ratio)}× that of the best static (at most 1.05)`, ratio <= 1.05);
}

export async function s3(page: Page): Promise<void> {
  const work = layers();
  const [rounds, seconds] = page.quick ? [3, 3] : [5, 30];
  await using engine = new Engine({ threads: 1 });
  await using model = await engine.load(work.bytes, {
    configuration: [{ instances: 1, threads: 1, batch: 1 }],
    maxQueue: 100_000,
  });
  const feeds = () => work.feeds(1);
  const loads = [0.3, 0.5, 0.7, 0.85];
  const measurements = new Map(loads.map((load) => [load, [] as number[][]]));
  await runLive({ model, arrivals: { callers: 4, seconds: 1 }, feeds });
  for (let round = 0; round < rounds; round++)
    for (const load of loads) {
      // What one request takes when there are always others, and what the way there and back adds when there are none.
      const saturated = async () => {
        const { report } = await runLive({ model, arrivals: { callers: 4, seconds: seconds / 3 }, feeds });
        return 1000 / report.throughput;
      };
      const before = await saturated();
      const lone = await runLive({ model, arrivals: { callers: 1, seconds: seconds / 4 }, feeds });
      const way = Math.max(0, lone.report.latency.p50 - before);
      const rate = (1000 * load) / before;
      const due = arrivals({ kind: 'poisson', rate }, Math.round(rate * seconds), new Random(50 + round));
      const { report } = await runLive({ model, arrivals: due, feeds, warmUp: 0 });
      const service = (before + (await saturated())) / 2;
      const queue = queueSystem(Profile.from({ 1: { 1: service } }), [{ instances: 1, threads: 1, batch: 1 }]);
      const simulated = mean(Array.from(runQueue(due, queue).latencies)) + way;
      const predicted = serf(rate, [service]).latency + way;
      measurements.get(load)!.push([report.latency.mean, simulated, predicted]);
    }
  page.say(
    `Live, ${work.name}, one instance, Poisson arrivals, ${rounds} rounds of ${seconds} s a load; service time measured just before and after each; medians of the rounds:`,
  );
  page.table(
    ['load', 'measured mean, ms', 'simulator, same arrivals', 'model'],
    [...measurements].map(([load, of]) => [
      String(load),
      ...[0, 1, 2].map((i) => digits(median(of.map((m) => m[i]!)))),
    ]),
  );
  const errors = (which: 1 | 2) =>
    [...measurements.values()].map((of) => Math.abs(median(of.map((m) => m[0]! / m[which]!)) - 1));
  const [average, worst] = [mean(errors(1)), Math.max(...errors(1))];
  page.holds(
    `against the simulator the mean error is ${(100 * average).toFixed(1)} % (at most 10), the worst ${(100 * worst).toFixed(1)} % (at most 20); against the model the mean is ${(100 * mean(errors(2))).toFixed(1)} %`,
    average <= 0.1 && worst <= 0.2,
  );
  page.figure(
    's3-live',
    'S3: measured and predicted',
    lineChart({
      title: 'S3: mean latency, measured and predicted',
      subtitle: `live, ${work.name}, one instance of one thread`,
      x: { title: 'load, share of capacity', min: 0, max: 1 },
      y: { title: 'mean latency, ms', min: 0 },
      series: ['measured', 'simulator, same arrivals', 'model'].map((name, i) => ({
        name,
        points: [...measurements].map(([load, of]) => [load, median(of.map((m) => m[i]!))] as const),
        dots: true,
        dashed: i > 0,
      })),
    }),
  );
}
