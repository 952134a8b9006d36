// What Packrat published about four models on a Xeon machine of 16 cores (the test data), and what the optimizer makes of
// it: experiments P1, P2, P3, P8, P9 and P10 without a machine.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { lineChart } from '../../src/cli/plot.js';
import { type Configuration, describe, keyOf } from '../../src/optimizer/configuration.js';
import { BatchEstimator } from '../../src/optimizer/estimator.js';
import { optimize } from '../../src/optimizer/packrat.js';
import { type LatencyTable, Profile } from '../../src/optimizer/profile.js';
import { exponential, random } from '../../src/optimizer/random.js';
import { dataFolder, hasData } from '../../test/data.js';
import { digits, type Page } from '../lib/document.js';

export const published: Readonly<Record<string, LatencyTable>> | undefined = hasData
  ? (JSON.parse(readFileSync(path.join(dataFolder, 'packrat/profiles-c6420.json'), 'utf8')) as Record<
      string,
      LatencyTable
    >)
  : undefined;

const absent = (page: Page) => page.say('The published profiles are not there (SKEP_TEST_DATA); nothing was computed.');

export function p1(page: Page): void {
  if (published === undefined) return absent(page);
  const at = [2, 4, 8, 16];
  const rows: string[][] = [];
  let beyond = 0;
  for (const [model, table] of Object.entries(published))
    for (const batch of [1, 16, 128]) {
      const speedUps = at.map((t) => table[1]![batch]! / table[t]![batch]!);
      beyond += speedUps.filter((s, i) => s >= at[i]!).length;
      rows.push([model, String(batch), ...speedUps.map(digits)]);
    }
  page.say('Published (Xeon, 16 cores): how many times as fast with t threads.');
  page.table(['model', 'batch', ...at.map((t) => `${t} threads`)], rows);
  page.holds(
    `speed-up stays below the number of threads (${beyond} of ${rows.length * at.length} do not; weights read in parts can pass it)`,
    beyond <= rows.length,
  );
  page.figure(
    'p1-published',
    'P1: speed-up, published',
    lineChart({
      title: 'P1: speed-up against threads, batch 16',
      subtitle: 'Packrat’s published profiles, Xeon, 16 cores',
      x: { title: 'threads' },
      y: { title: 'times as fast as one thread', min: 0 },
      series: Object.entries(published).map(([name, table]) => ({
        name,
        points: Object.keys(table).map((t) => [Number(t), table[1]![16]! / table[Number(t)]![16]!] as const),
        dots: true,
      })),
    }),
  );
}

/** Table 2 of the paper: BERT, ms. */
const BATCHES = [8, 16, 32, 64, 128, 256, 512, 1024];
const TABLE_2: Readonly<Record<number, readonly number[]>> = {
  16: [33.4, 48.7, 76.7, 114.1, 201.0, 343.9, 621.1, 1179.6],
  14: [36.5, 60.5, 97.0, 168.6, 278.3, 467.8, 852.8, 1621.8],
};
const CHOICES = ['2,8,4', '4,4,4', '4,4,8', '4,4,16', '4,4,32', '8,2,32', '8,2,64', '8,2,128'];

export function p2(page: Page): void {
  if (published === undefined) return absent(page);
  const found = (threads: number) =>
    BATCHES.map((batch) => optimize(published!.bert!, { threads, batch, sizes: 'measured' }));
  const rows: (string | number)[][] = [];
  for (const threads of [16, 14]) {
    const results = found(threads);
    const worst = Math.max(...results.map((r, i) => Math.abs(r.latency - TABLE_2[threads]![i]!)));
    for (const [i, r] of results.entries())
      rows.push([
        threads,
        BATCHES[i]!,
        describe(r.configuration),
        r.latency.toFixed(1),
        TABLE_2[threads]![i]!.toFixed(1),
      ]);
    page.holds(
      `with ${threads} threads all makespans are the paper's (largest difference ${worst.toFixed(2)} ms, at most 0.1)`,
      worst <= 0.1,
    );
    if (threads === 16)
      page.holds(
        'and so are the choices',
        results.every((r, i) => keyOf(r.configuration) === CHOICES[i]),
      );
  }
  page.table(['threads', 'batch', 'choice', 'ms', 'paper, ms'], rows);
}

export function p3(page: Page): void {
  if (published === undefined) return absent(page);
  const alone = optimize(published.gpt2!, { threads: 16, batch: 8 });
  const judged = optimize({ latency: published.gpt2!, interference: { 2: 1.3 } }, { threads: 16, batch: 8 });
  page.say(
    `Published: GPT-2 at batch 8 is predicted ${digits(alone.fat!.latency / alone.latency)}× faster as ${describe(alone.configuration)} when interference is left out; with a factor of 1.3 for more than one instance the choice is ${describe(judged.configuration)}.`,
  );
  page.holds(
    'with interference GPT-2 at batch 8 falls back to the fat instance',
    keyOf(judged.configuration) === '1,16,8',
  );
}

export function p8(page: Page): void {
  const timeouts = (estimator: BatchEstimator, count: number, queue: () => number) =>
    Array.from({ length: count }, () => {
      for (let i = 0; i < 200; i++) estimator.sample(queue());
      return estimator.estimate;
    });
  const switches = (of: readonly number[]) => of.filter((e, i) => i > 0 && e !== of[i - 1]).length;
  const constant = timeouts(new BatchEstimator({ initial: 8 }), 50, () => 16);
  page.holds(
    `a constant queue of 16 reaches ${constant.at(-1)} and stays (${switches([8, ...constant])} switch)`,
    constant.at(-1) === 16 && switches([8, ...constant]) === 1,
  );
  const stepped = new BatchEstimator({ initial: 8 });
  const levels = [8, 16, 32, 16, 8].flatMap((level) => timeouts(stepped, 20, () => level));
  page.holds(
    `8, 16, 32, 16, 8 of 20 timeouts each: ${switches([8, ...levels])} switches (4)`,
    switches([8, ...levels]) === 4,
  );
  let most = 0;
  for (let seed = 1; seed <= 20; seed++) {
    const uniform = random(seed);
    const poisson = () => {
      let n = 0;
      for (let sum = exponential(uniform); sum < 16; sum += exponential(uniform)) n++;
      return n;
    };
    const estimator = new BatchEstimator({ initial: 8 });
    timeouts(estimator, 20, poisson);
    most = Math.max(most, switches(timeouts(estimator, 100, poisson)));
  }
  page.holds(
    `a Poisson queue around 16, settled: ${most} switches in 100 timeouts in the worst of 20 seeds (at most 1)`,
    most <= 1,
  );
  page.figure(
    'p8-estimates',
    'P8: batch estimates',
    lineChart({
      title: 'P8: the batch estimate follows the queue',
      subtitle: 'a queue of 8, 16, 32, 16, 8 requests, 20 timeouts each',
      x: { title: 'timeouts' },
      y: { title: 'requests', min: 0 },
      series: [
        {
          name: 'queue',
          points: levels.map((_, i) => [i, [8, 16, 32, 16, 8][Math.floor(i / 20)]!] as const),
          dashed: true,
        },
        { name: 'estimate', points: levels.map((e, i) => [i, e] as const) },
      ],
    }),
  );
}

export function p9(page: Page): void {
  if (published === undefined) return absent(page);
  const rows: string[][] = [];
  let worse = 0;
  for (const [model, table] of Object.entries(published))
    for (const batch of [16, 64, 256, 1024]) {
      const profile = Profile.from(table);
      const { latency, configuration } = optimize(profile, { threads: 16, batch });
      const single = profile.latency(1, batch / 16);
      if (latency > single * 1.000001) worse++;
      rows.push([
        model,
        String(batch),
        describe(configuration as Configuration),
        digits(latency),
        digits(single),
        digits(single / latency),
      ]);
    }
  page.table(['model', 'batch', 'choice', 'ms', '16 × 1 thread, ms', 'gain'], rows);
  page.holds(`the choice is never worse than 16 instances of one thread (${worse} of ${rows.length} are)`, worse === 0);
}

export function p10(page: Page): void {
  if (published === undefined) return absent(page);
  const [measured, any] = (['measured', 'any'] as const).map((sizes) =>
    optimize(published!.resnet!, { threads: 16, batch: 24, sizes }),
  );
  const gain = measured!.latency / any!.latency - 1;
  page.table(
    ['batch sizes', 'choice', 'ms'],
    [
      ['measured', describe(measured!.configuration), digits(measured!.latency)],
      ['any', describe(any!.configuration), digits(any!.latency)],
    ],
  );
  page.holds(`any batch size is ${digits(100 * gain)} % faster than measured ones (at least 5)`, gain >= 0.05);
}
