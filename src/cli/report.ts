// What a load has shown, for people and as charts: one report at full length, several as a table to compare. Live runs and
// simulated ones give the same report.
import { writeFileSync } from 'node:fs';
import type { Distribution, Report } from '../simulator/report.js';
import { cumulative, lineChart, type Series } from './plot.js';
import { note, print, table } from './terminal.js';

/** One run: what was tried, and what it showed. */
export interface Run {
  readonly policy: string;
  /** Requests a second asked for; undefined: as a trace has it, or closed loop. */
  readonly rate: number | undefined;
  readonly report: Report;
  /** Latencies, ms, as far as they are kept, for the chart. */
  readonly latencies: readonly number[];
}

/** Prints a run in full. */
export function printRun({ policy, report }: Run): void {
  const { requests, batch, backlog } = report;
  const lost = [
    [requests.refused, 'refused'],
    [requests.cancelled, 'given up'],
  ] as const;
  const others = lost.filter(([n]) => n > 0).map(([n, word]) => `, ${n} ${word}`);
  print(`policy      ${policy}`);
  print(`requests    ${requests.arrived} came, ${requests.finished} answered${others.join('')}`);
  print(`rate        ${figure(report.arrivalRate)} came, ${figure(report.throughput)} answered a second`);
  if (Number.isFinite(batch.mean)) {
    const useful = batch.useful < 0.9995 ? `, ${percent(batch.useful)} of them no padding` : '';
    const took = Number.isFinite(batch.stepTime) ? `, ${figure(batch.stepTime)} ms each` : '';
    print(`batches     ${batch.tasks} tasks, ${batch.mean.toFixed(2)} rows a call${useful}${took}`);
    const calls = batch.histogram.reduce((a, b) => a + b, 0);
    const fill = batch.histogram.flatMap((n, rows) => (n > 0 ? [`${rows}: ${percent(n / calls)}`] : []));
    print(`  by rows   ${fill.slice(0, 16).join(', ')}${fill.length > 16 ? ', …' : ''}`);
  }
  if (Number.isFinite(report.utilisation)) print(`instances   busy ${percent(report.utilisation)} of the time`);
  if (Number.isFinite(backlog.mean))
    print(
      `waiting     ${figure(backlog.mean)} on average${report.stable ? '' : `, growing by ${figure(backlog.growth)} a second: overloaded`}`,
    );
  print();
  const kinds = ['latency', 'queueing', 'computing'] as const;
  const rows = kinds.filter((k) => report[k].count > 0).map((k) => [k, ...columns(report[k])]);
  for (const line of table(['ms', 'mean', 'p50', 'p90', 'p99', 'max'], rows)) print(line);
}

/** Prints runs to compare, one a row. */
export function printRuns(runs: readonly Run[]): void {
  const rows = runs.map(({ policy, rate, report }) => {
    const { latency, batch } = report;
    const load = rate === undefined ? figure(report.arrivalRate) : figure(rate);
    const numbers = [latency.p50, latency.p90, latency.p99].map(figure);
    const state = report.stable ? '' : 'overloaded';
    return [
      policy,
      load,
      figure(report.throughput),
      ...numbers,
      Number.isFinite(batch.mean) ? batch.mean.toFixed(2) : '',
      state,
    ];
  });
  const head = ['policy', 'requests/s', 'answered/s', 'p50 ms', 'p90 ms', 'p99 ms', 'rows', ''];
  for (const line of table(head, rows)) print(line);
}

/** Draws runs: latency against the rate when there are several rates, else how latencies are distributed. */
export function plotRuns(file: string, title: string, subtitle: string, runs: readonly Run[]): void {
  const several = new Set(runs.map((r) => r.rate)).size > 1;
  writePlot(file, several ? againstRate(title, subtitle, runs) : distributions(title, subtitle, runs));
}

/** Writes a chart and says so. */
export function writePlot(file: string, svg: string): void {
  writeFileSync(file, svg);
  note(`written: ${file}`);
}

function distributions(title: string, subtitle: string, runs: readonly Run[]): string {
  const series: Series[] = runs.map(({ policy, latencies }) => ({
    name: policy,
    points: cumulative(latencies).map(([x, share]) => [x, 100 * share]),
  }));
  return lineChart({
    title: `${title}: distribution of latency`,
    subtitle,
    x: { title: 'latency, ms', scale: 'log' },
    y: { title: 'share of requests at most so long, %', min: 0, max: 100 },
    series,
  });
}

function againstRate(title: string, subtitle: string, runs: readonly Run[]): string {
  const names = [...new Set(runs.map((r) => r.policy))];
  const series = names.flatMap((name, colour): Series[] => {
    const own = runs.filter((r) => r.policy === name).sort((a, b) => (a.rate ?? 0) - (b.rate ?? 0));
    const line = (q: 'p50' | 'p99', dashed: boolean): Series => ({
      name: `${name}, ${q}`,
      // Where the backlog grows latency is only as long as the run.
      points: own.map(({ rate, report }) => [
        rate ?? report.arrivalRate,
        report.stable ? report.latency[q] : Number.NaN,
      ]),
      dots: true,
      colour,
      dashed,
    });
    return [line('p50', false), line('p99', true)];
  });
  return lineChart({
    title: `${title}: latency against load`,
    subtitle,
    x: { title: 'requests a second' },
    y: { title: 'latency, ms', scale: 'log' },
    series,
  });
}

function columns(d: Distribution): string[] {
  return [d.mean, d.p50, d.p90, d.p99, d.max].map(figure);
}

/** Three digits, no more: `0.123`, `12.3`, `1,234`. */
export function figure(x: number): string {
  if (!Number.isFinite(x)) return x > 0 ? '∞' : '–';
  const digits = Math.abs(x) >= 100 ? 0 : Math.abs(x) >= 10 ? 1 : Math.abs(x) >= 1 ? 2 : 3;
  return x.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** `42 %`. */
export function percent(share: number): string {
  const x = 100 * share;
  return `${x >= 10 || x === 0 ? x.toFixed(0) : x.toFixed(1)} %`;
}
