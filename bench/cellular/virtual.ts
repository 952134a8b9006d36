// The experiments of cellular batching in virtual time. Nothing is measured here but the policies: step costs are those of
// test/simulator/step-costs.ts, so the tables are the same on every machine. With the test data (SKEP_TEST_DATA, or
// ../shared/data beside the checkout) lengths and trees are real ones; without it they are made by seed.
import { Priority } from '../../src/cellular/priority.js';
import { lineChart, type Series } from '../../src/cli/plot.js';
import { Random } from '../../src/simulator/random.js';
import type { Report } from '../../src/simulator/report.js';
import { chains, logNormalLengths, pairs, randomTree, trees } from '../../src/simulator/workload.js';
import { dataFolder, hasData } from '../../test/data.js';
import {
  buckets,
  capacityOf,
  cellular,
  depthWise,
  type Make,
  maxBatchOf,
  oneByOne,
  padding,
  run,
  type Setup,
  saturated,
  timeout,
} from '../../test/simulator/experiments.js';
import * as real from '../../test/simulator/real-workloads.js';
import {
  decoder1024,
  lstm256,
  lstm1024,
  lstmGpu,
  treeInner1024,
  treeLeaf1024,
} from '../../test/simulator/step-costs.js';
import { digits, type Page } from '../lib/document.js';

const random = new Random(11);
export const lengths: readonly number[] = hasData
  ? real.sentences(dataFolder)
  : logNormalLengths(4000, 25, 0.6, 200, 3);
const sentences = chains(lengths);
const captions = hasData
  ? real.captions(dataFolder)
  : pairs(
      logNormalLengths(2000, 13, 0.3, 40, 3).map((n) => [n, n]),
      50,
    );
const parses = hasData
  ? real.parses(dataFolder)
  : trees(logNormalLengths(500, 19, 0.45, 56, 5).map((n) => randomTree(Math.max(2, n), random, 0.4)));
const translation: Setup = { items: captions, steps: [lstm1024, decoder1024] };

export const workloads = `Lengths and trees: ${hasData ? 'sentences of WikiText-2, captions of Multi30k (English, German), parse trees of the Stanford Sentiment Treebank' : 'made by seed (the test data is not there)'}.`;

const latency = (r: Report): string =>
  r.stable ? `${digits(r.latency.p50)} / ${digits(r.latency.p90)} / ${digits(r.latency.p99)}` : 'backlog grows';
const all = [0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95];
const rivals: [string, Make][] = [
  ['cellular', cellular()],
  ['buckets of 10', buckets()],
  ['padding', padding],
  ['one by one', oneByOne],
];

type Policies = readonly (readonly [string, Make])[];
type Reports = ReadonlyMap<string, ReadonlyMap<number, Report>>;

/** Runs policies at loads, adds the table and the chart. */
function loads(
  page: Page,
  name: string,
  title: string,
  setup: Setup,
  at: readonly number[],
  policies: Policies,
): Reports {
  const reports = new Map(
    policies.map(([policy, make]) => [policy, new Map(at.map((load) => [load, run(setup, load, make)]))]),
  );
  const instances = setup.instances ?? 1;
  page.say(
    `**${title}**: p50 / p90 / p99 in ms. Capacity ${capacityOf(setup).toFixed(0)} requests/s with ${instances} instance${instances > 1 ? 's' : ''}, at most ${maxBatchOf(setup)} rows a task.`,
  );
  page.table(
    ['load', ...policies.map(([policy]) => policy)],
    at.map((load) => [String(load), ...policies.map(([policy]) => latency(reports.get(policy)!.get(load)!))]),
  );
  chart(page, name, title, reports, (r) => r.latency.p90, 'p90 of latency, ms');
  return reports;
}

function chart(
  page: Page,
  name: string,
  title: string,
  reports: Reports,
  value: (r: Report) => number,
  unit: string,
): void {
  const series = [...reports].map(([policy, of]): Series => {
    const points = [...of].map(([load, r]) => [load, r.stable ? value(r) : Number.NaN] as const);
    return { name: policy, points, dots: true };
  });
  const axes = { x: { title: 'load, share of capacity', min: 0, max: 1 }, y: { title: unit, scale: 'log' as const } };
  page.figure(
    name,
    title,
    lineChart({ title, subtitle: 'virtual time; a line ends where the backlog grows', ...axes, series }),
  );
}

/** Buckets' p90 over cellular's must be at least so much at these loads. */
function gaps(
  page: Page,
  reports: Reports,
  least: readonly (readonly [load: number, ratio: number])[],
  what: string,
): void {
  const ratios = least.map(([load, wanted]) => {
    const [c, b] = ['cellular', 'buckets of 10'].map((p) => reports.get(p)!.get(load)!);
    return { load, wanted, ratio: b!.stable ? b!.latency.p90 / c!.latency.p90 : Number.POSITIVE_INFINITY };
  });
  const words = ratios.map(({ load, wanted, ratio }) => `${digits(ratio)}× at ${load} (at least ${wanted})`);
  page.holds(
    `${what}: buckets' p90 over cellular's is ${words.join(', ')}`,
    ratios.every((r) => r.ratio >= r.wanted),
  );
}

export function b2(page: Page): void {
  const wide = loads(page, 'b2-virtual-1024', 'B2, LSTM hidden 1024', { items: sentences, steps: [lstm1024] }, all, [
    ...rivals,
    ['time-out 20 ms', timeout(20)],
  ]);
  const cells = wide.get('cellular')!;
  const ratio = cells.get(0.5)!.latency.p90 / cells.get(0.1)!.latency.p90;
  page.holds(`cellular's p90 at half load is ${digits(ratio)}× that at a tenth (at most 2)`, ratio <= 2);
  page.holds('cellular is stable at 0.95', cells.get(0.95)!.stable);
  page.holds('buckets are not stable at 0.9', !wide.get('buckets of 10')!.get(0.9)!.stable);
  gaps(
    page,
    wide,
    [
      [0.5, 1.5],
      [0.7, 2.5],
      [0.8, 4],
    ],
    'hidden 1024',
  );
  const narrow = loads(page, 'b2-virtual-256', 'B2, LSTM hidden 256', { items: sentences, steps: [lstm256] }, all, [
    ...rivals,
    ['time-out 2 ms', timeout(2)],
  ]);
  gaps(
    page,
    narrow,
    [
      [0.5, 1.2],
      [0.7, 1.8],
      [0.8, 4],
    ],
    'hidden 256',
  );
  const gpu: Setup = { items: sentences, steps: [lstmGpu], maxBatch: 512, requests: 20_000 };
  const flat = loads(page, 'b2-virtual-gpu', 'B2, a GPU’s flat step cost', gpu, [0.01, 0.1], rivals.slice(0, 3));
  const [c, b] = ['cellular', 'buckets of 10'].map((p) => flat.get(p)!.get(0.1)!.latency.p90);
  page.say(
    `Where a step costs the same for one row and for five hundred, as on the paper's GPU, the gap at a tenth of the load is the paper's (8.6 against 77 ms from memory): ${digits(c!)} against ${digits(b!)} ms here. On a CPU a step costs in proportion to its rows above four or so: waiting for company gains little, so there is less to lose by not waiting.`,
  );
}

export function b3(page: Page): void {
  const setup: Setup = { items: chains([25]), steps: [lstm1024] };
  const [cells, pad] = [saturated(setup, cellular()), saturated(setup, padding)];
  page.table(
    ['virtual', 'requests/s'],
    [
      ['cellular', digits(cells)],
      ['padding', digits(pad)],
    ],
  );
  page.holds(
    `in virtual time cells reach ${digits(cells / pad)}× the throughput of padding (at least 0.9)`,
    cells / pad >= 0.9,
  );
}

export function b4(page: Page): void {
  const setup: Setup = { items: sentences, steps: [lstm1024] };
  const reports = new Map(all.map((load) => [load, run(setup, load, cellular())]));
  const rows = [...reports].map(([load, r]) => {
    const q = [r.queueing.p50, r.queueing.p90, r.computing.p50, r.computing.p90, r.batch.stepTime].map(digits);
    return [String(load), ...q, r.batch.mean.toFixed(2), r.utilisation.toFixed(2)];
  });
  page.say('In virtual time, LSTM hidden 1024, ms:');
  page.table(['load', 'queueing p50', 'p90', 'computing p50', 'p90', 'step time', 'mean rows', 'busy'], rows);
  const worst = Math.max(
    ...[...reports].filter(([load]) => load < 0.8).map(([, r]) => r.queueing.p50 / r.batch.stepTime),
  );
  page.holds(
    `below 0.8 of capacity the median request queues for ${digits(worst)} step times at most (at most 2)`,
    worst <= 2,
  );
  const line = (name: string, of: (r: Report) => number): Series => ({
    name,
    points: [...reports].map(([load, r]) => [load, of(r)] as const),
    dots: true,
  });
  page.figure(
    'b4-virtual',
    'B4: queueing and computing',
    lineChart({
      title: 'B4: queueing and computing, LSTM hidden 1024',
      subtitle: 'virtual time, cellular',
      x: { title: 'load, share of capacity', min: 0, max: 1 },
      y: { title: 'ms', scale: 'log' },
      series: [
        line('computing, p90', (r) => r.computing.p90),
        line('computing, p50', (r) => r.computing.p50),
        line('queueing, p90', (r) => r.queueing.p90),
        line('queueing, p50', (r) => r.queueing.p50),
        line('a step', (r) => r.batch.stepTime),
      ],
    }),
  );
}

export function b5(page: Page): void {
  const widths = [1, 2, 5, 10, 20, 40];
  const variations = [0, 0.2, 0.5, 1];
  const names = ['padding', ...widths.map((w) => `buckets of ${w}`)];
  const advantages = variations.map((variation) => {
    const setup: Setup = { items: chains(logNormalLengths(4000, 25, variation, 200, 3)), steps: [lstm1024] };
    const cells = saturated(setup, cellular());
    return { variation, cells, over: [padding, ...widths.map(buckets)].map((make) => cells / saturated(setup, make)) };
  });
  page.table(
    ['variation of lengths', 'cellular, requests/s', ...names.map((n) => `over ${n}`)],
    advantages.map((a) => [String(a.variation), digits(a.cells), ...a.over.map((x) => x.toFixed(2))]),
  );
  page.figure(
    'b5-virtual',
    'B5: throughput of cells over that of padding and buckets',
    lineChart({
      title: 'B5: throughput of cells over padding and buckets',
      subtitle: 'virtual time, saturated; mean length 25',
      x: { title: 'coefficient of variation of the lengths' },
      y: { title: 'times as many requests a second', min: 0 },
      series: names.map((name, i) => ({
        name,
        points: advantages.map((a) => [a.variation, a.over[i]!] as const),
        dots: true,
      })),
    }),
  );
  const over = advantages.map((a) => a.over[0]!);
  page.holds(
    `the advantage over padding grows with the variation: ${over.map((x) => x.toFixed(2)).join(', ')}`,
    over.every((x, i) => i === 0 || x > over[i - 1]!),
  );
  page.holds(`with equal lengths it is ${over[0]!.toFixed(2)} (0.9 to 1.1)`, over[0]! > 0.9 && over[0]! < 1.1);
}

export function b6(page: Page): void {
  const names = Object.keys(Priority);
  for (const instances of [1, 2])
    for (const maxBatch of [4, 32]) {
      const reports = new Map(
        Object.entries(Priority).map(([name, priority]) => [
          name,
          new Map(
            all
              .slice(1)
              .map((load) => [load, run({ ...translation, instances, maxBatch }, load, cellular({ priority }))]),
          ),
        ]),
      );
      const setting = `${instances} instance${instances > 1 ? 's' : ''}, at most ${maxBatch} rows a task`;
      page.say(`**${setting}**: mean / p90 in ms.`);
      const cell = (r: Report) => (r.stable ? `${digits(r.latency.mean)} / ${digits(r.latency.p90)}` : 'backlog grows');
      page.table(
        ['load', ...names],
        all.slice(1).map((load) => [String(load), ...names.map((n) => cell(reports.get(n)!.get(load)!))]),
      );
      chart(
        page,
        `b6-virtual-${instances}-${maxBatch}`,
        `B6, Seq2Seq: ${setting}`,
        reports,
        (r) => r.latency.mean,
        'mean latency, ms',
      );
      if (instances > 1 || maxBatch > 4) continue;
      const mean = (name: string, load: number) => {
        const r = reports.get(name)!.get(load)!;
        return r.stable ? r.latency.mean : Number.POSITIVE_INFINITY;
      };
      const standard = 'fullest' satisfies keyof typeof Priority;
      const best = [0.7, 0.8, 0.9].every((load) => names.every((n) => mean(standard, load) <= 1.02 * mean(n, load)));
      page.holds(`the default, ${standard}, has the least mean at 0.7, 0.8 and 0.9 (within 2 %)`, best);
    }
  page.say(
    'That decoded tokens equal those of sequential decoding under every one of these is a test (`test/cellular/exact.test.ts`), see B10.',
  );
}

export function b7(page: Page): void {
  const policies: [string, Make][] = [
    ['cellular', cellular()],
    ['by depth, 1 tree', depthWise(1)],
    ['by depth, 4 trees', depthWise(4)],
    ['by depth, 16 trees', depthWise(16)],
    ['one by one', oneByOne],
  ];
  const setup: Setup = { items: parses, steps: [treeLeaf1024, treeInner1024], maxBatch: 8 };
  const reports = loads(page, 'b7-virtual', 'B7, binary TreeLSTM hidden 1024', setup, all, policies);
  const throughput = new Map(policies.map(([name, make]) => [name, saturated(setup, make)]));
  page.table(
    ['saturated', 'requests/s', 'cellular over it'],
    [...throughput].map(([name, t]) => [name, digits(t), digits(throughput.get('cellular')! / t)]),
  );
  const others = policies.slice(1).map(([name]) => name);
  page.holds(
    'cellular has the highest throughput',
    others.every((n) => throughput.get(n)! < throughput.get('cellular')!),
  );
  const p90 = (n: string) => {
    const r = reports.get(n)!.get(0.5)!;
    return r.stable ? r.latency.p90 : Number.POSITIVE_INFINITY;
  };
  page.holds(
    'cellular has the least p90 at half load',
    others.every((n) => p90(n) > p90('cellular')),
  );
}

export function b8(page: Page): void {
  const counts = [1, 2, 5, 10];
  const reports = new Map(
    counts.map((maxTasksToSubmit) => [
      `${maxTasksToSubmit} at once`,
      new Map(all.slice(1).map((load) => [load, run(translation, load, cellular({ maxTasksToSubmit }))])),
    ]),
  );
  page.say('Seq2Seq, p50 / p90 / p99 in ms:');
  const names = [...reports.keys()];
  page.table(
    ['load', ...names],
    all.slice(1).map((load) => [String(load), ...names.map((n) => latency(reports.get(n)!.get(load)!))]),
  );
  chart(page, 'b8-virtual', 'B8: tasks submitted at once', reports, (r) => r.latency.p50, 'p50 of latency, ms');
  const p50 = (n: string, load: number) => reports.get(n)!.get(load)!.latency.p50;
  page.holds(
    'the default, 1, has the least p50 at 0.7, 0.8 and 0.9',
    [0.7, 0.8, 0.9].every((l) => names.every((n) => p50('1 at once', l) <= p50(n, l))),
  );
}
