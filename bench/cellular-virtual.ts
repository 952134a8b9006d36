// The experiments of cellular batching in virtual time, as tables. Nothing is measured here but the policies: step costs
// are those of test/simulator/step-costs.ts, so the tables are the same on every machine.
//
//   node dist/bench/cellular-virtual.js [B2 B3 B5 B6 B7 B8 …]
//
// With the test data (SKEP_TEST_DATA, or ../shared/data beside the checkout) lengths and trees are real ones; without it
// they are made by seed.
import { Priority } from '../src/cellular/priority.js';
import { Random } from '../src/simulator/random.js';
import type { Report } from '../src/simulator/report.js';
import { chains, logNormalLengths, pairs, randomTree, trees } from '../src/simulator/workload.js';
import { dataFolder, hasData } from '../test/data.js';
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
} from '../test/simulator/experiments.js';
import * as real from '../test/simulator/real-workloads.js';
import { decoder1024, lstm256, lstm1024, lstmGpu, treeInner1024, treeLeaf1024 } from '../test/simulator/step-costs.js';

const random = new Random(11);
const lengths = hasData ? real.sentences(dataFolder) : logNormalLengths(4000, 25, 0.6, 200, 3);
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

const digits = (ms: number): string => (ms >= 100 ? ms.toFixed(0) : ms >= 10 ? ms.toFixed(1) : ms.toFixed(2));
const latency = (r: Report): string =>
  r.stable ? `${digits(r.latency.p50)} / ${digits(r.latency.p90)} / ${digits(r.latency.p99)}` : 'backlog grows';

function print(title: string, head: readonly string[], rows: readonly (readonly string[])[]): void {
  console.log(`\n### ${title}\n\n| ${head.join(' | ')} |\n|${head.map(() => ' --- |').join('')}`);
  for (const row of rows) console.log(`| ${row.join(' | ')} |`);
}

function loads(
  title: string,
  setup: Setup,
  at: readonly number[],
  policies: readonly (readonly [string, Make])[],
): void {
  const of = `capacity ${capacityOf(setup).toFixed(0)} requests/s, maxBatch ${maxBatchOf(setup)}, ${setup.instances ?? 1} instance(s)`;
  const rows = at.map((load) => [String(load), ...policies.map(([, make]) => latency(run(setup, load, make)))]);
  print(`${title}: p50 / p90 / p99 in ms (${of})`, ['load', ...policies.map(([name]) => name)], rows);
}

const all = [0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95];
const rivals: [string, Make][] = [
  ['cellular', cellular()],
  ['buckets of 10', buckets()],
  ['padding', padding],
  ['one by one', oneByOne],
];

const experiments: Record<string, () => void> = {
  B2() {
    loads('B2, LSTM hidden 1024', { items: sentences, steps: [lstm1024] }, all, [
      ...rivals,
      ['time-out 20 ms', timeout(20)],
    ]);
    loads('B2, LSTM hidden 256', { items: sentences, steps: [lstm256] }, all, [
      ...rivals,
      ['time-out 2 ms', timeout(2)],
    ]);
    const gpu: Setup = { items: sentences, steps: [lstmGpu], maxBatch: 512, requests: 20_000 };
    loads('B2, a GPU’s flat step cost', gpu, [0.01, 0.1], rivals.slice(0, 3));
  },
  B3() {
    const setup: Setup = { items: chains([25]), steps: [lstm1024] };
    const [cells, pad] = [saturated(setup, cellular()), saturated(setup, padding)];
    print('B3, equal lengths: requests/s', ['cellular', 'padding'], [[cells.toFixed(1), pad.toFixed(1)]]);
  },
  B4() {
    const setup: Setup = { items: sentences, steps: [lstm1024] };
    const rows = all.map((load) => {
      const r = run(setup, load, cellular());
      const q = [r.queueing.p50, r.queueing.p90, r.computing.p50, r.computing.p90, r.batch.stepTime].map(digits);
      return [String(load), ...q, r.batch.mean.toFixed(2), r.utilisation.toFixed(2)];
    });
    const head = ['load', 'queueing p50', 'p90', 'computing p50', 'p90', 'step time', 'mean batch', 'utilisation'];
    print('B4, LSTM hidden 1024: queueing and computing, ms', head, rows);
  },
  B5() {
    const widths = [1, 2, 5, 10, 20, 40];
    const rows = [0, 0.2, 0.5, 1].map((variation) => {
      const setup: Setup = { items: chains(logNormalLengths(4000, 25, variation, 200, 3)), steps: [lstm1024] };
      const cells = saturated(setup, cellular());
      const over = [padding, ...widths.map(buckets)].map((make) => (cells / saturated(setup, make)).toFixed(2));
      return [String(variation), cells.toFixed(1), ...over];
    });
    const head = ['variation', 'cellular, requests/s', 'over padding', ...widths.map((w) => `over buckets of ${w}`)];
    print('B5, saturated: throughput against bucket width and the lengths’ coefficient of variation', head, rows);
  },
  B6() {
    for (const instances of [1, 2])
      for (const maxBatch of [4, 32]) {
        const rows = all.slice(1).map((load) => [
          String(load),
          ...Object.values(Priority).map((priority) => {
            const r = run({ ...translation, instances, maxBatch }, load, cellular({ priority }));
            return r.stable ? `${digits(r.latency.mean)} / ${digits(r.latency.p90)}` : 'backlog grows';
          }),
        ]);
        const title = `B6, Seq2Seq, ${instances} instance(s), maxBatch ${maxBatch}: mean / p90 in ms`;
        print(title, ['load', ...Object.keys(Priority)], rows);
      }
  },
  B7() {
    const policies: [string, Make][] = [
      ['cellular', cellular()],
      ['by depth, 1 tree', depthWise(1)],
      ['by depth, 4 trees', depthWise(4)],
      ['by depth, 16 trees', depthWise(16)],
      ['one by one', oneByOne],
    ];
    const setup: Setup = { items: parses, steps: [treeLeaf1024, treeInner1024], maxBatch: 8 };
    loads('B7, binary TreeLSTM hidden 1024', setup, all, policies);
    const row = policies.map(([, make]) => saturated(setup, make).toFixed(1));
    print(
      'B7, saturated: requests/s',
      policies.map(([name]) => name),
      [row],
    );
  },
  B8() {
    const rows = all
      .slice(1)
      .map((load) => [
        String(load),
        ...[1, 2, 5, 10].map((maxTasksToSubmit) => latency(run(translation, load, cellular({ maxTasksToSubmit })))),
      ]);
    print('B8, Seq2Seq: maxTasksToSubmit, p50 / p90 / p99 in ms', ['load', '1', '2', '5', '10'], rows);
  },
};

console.log(`Virtual time. Lengths and trees: ${hasData ? 'WikiText-2, Multi30k, SST' : 'made by seed'}.`);
const wanted = process.argv.slice(2);
for (const [name, experiment] of Object.entries(experiments))
  if (wanted.length === 0 || wanted.includes(name)) experiment();
