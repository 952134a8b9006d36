// docs/performance.md from the JSON of the suites: who was how many times as long as Skep, on what machine.
//
//   node dist/bench/report.js FILE… > docs/performance.md
//
// FILE is what operators.js or models.js wrote with --json; files of several Node versions and flags become sections.
import { readFileSync } from 'node:fs';
import type { Standing } from './lib/contest.js';
import type { SuiteResult } from './lib/suite.js';
import type { StartResult } from './start.js';
import type { ThreadsResult } from './threads.js';

const titles: Readonly<Record<string, string>> = { operators: 'Operators', models: 'Models' };

const milliseconds = (ms: number) => (ms < 1 ? ms.toFixed(3) : ms < 100 ? ms.toFixed(2) : ms.toFixed(0));
const spread = ({ ratio, quartiles: [low, high] }: Standing) =>
  `${ratio.toFixed(2)} (${low.toFixed(2)}–${high.toFixed(2)})`;

function geometricMean(values: readonly number[]): number {
  return Math.exp(values.reduce((sum, v) => sum + Math.log(v), 0) / values.length);
}

/** One suite on one machine and Node: a table, a row a case, a column a peer. */
function section({ suite, machine, flags, build, wide, date, control, cases }: SuiteResult): string {
  const peers = [...new Set(cases.flatMap((c) => c.standings.map((s) => s.name)))].filter((n) => n !== 'skep');
  const lines = [
    `## ${titles[suite] ?? suite}, ${build} build${wide ? ', 256-bit' : ''}${flags.length > 0 ? `, \`${flags.join(' ')}\`` : ''}`,
    '',
    `${machine}. One thread each. ${date}. Control (Skep beside a second Skep): ${spread(control)}.`,
    '',
    `| case | Skep, ms | ${peers.map((p) => `× ${p}`).join(' | ')} |`,
    `| --- | --- | ${peers.map(() => '---').join(' | ')} |`,
  ];
  for (const { name, standings } of cases) {
    const skep = standings.find((s) => s.name === 'skep')!;
    const found = peers.map((p) => standings.find((s) => s.name === p));
    lines.push(
      `| ${name} | ${milliseconds(skep.median)} | ${found.map((s) => (s === undefined ? '–' : spread(s))).join(' | ')} |`,
    );
  }
  const means = peers.map((p) => {
    const ratios = cases.flatMap((c) => c.standings.filter((s) => s.name === p).map((s) => s.ratio));
    return geometricMean(ratios).toFixed(2);
  });
  lines.push(`| geometric mean | | ${means.join(' | ')} |`, '');
  return lines.join('\n');
}

/** New processes, from nothing to the first answer. */
function startSection({ machine, date, cases }: StartResult): string {
  const lines = [
    '## Start and memory',
    '',
    `${machine}. ${date}. Medians over new processes: start is importing the engine, loading the model and the first run.`,
    '',
    '| model | engine | start, ms | first run, ms | warm run, ms | first / warm | peak, MiB |',
    '| --- | --- | --- | --- | --- | --- | --- |',
  ];
  for (const { name, engines } of cases)
    for (const [engine, s] of Object.entries(engines)) {
      const total = milliseconds(s.import + s.load + s.first);
      const peak = (s.peakBytes / 2 ** 20).toFixed(0);
      lines.push(
        `| ${name} | ${engine} | ${total} | ${milliseconds(s.first)} | ${milliseconds(s.warm)} | ${(s.first / s.warm).toFixed(1)} | ${peak} |`,
      );
    }
  return [...lines, ''].join('\n');
}

/** Two threads of one instance beside two copies of one thread. */
function threadsSection({ machine, date, cases }: ThreadsResult): string {
  const lines = [
    '## Two threads',
    '',
    `${machine}. ${date}. The control is two independent copies of one thread each, in the same rounds.`,
    '',
    '| case | two threads, × | control, × | two threads / control |',
    '| --- | --- | --- | --- |',
  ];
  for (const c of cases)
    lines.push(`| ${c.name} | ${c.speedup.toFixed(2)} | ${c.control.toFixed(2)} | ${c.ratio.toFixed(2)} |`);
  return [...lines, ''].join('\n');
}

// A suite no case of which was wanted printed nothing.
const texts = process.argv.slice(2).map((file) => readFileSync(file, 'utf8'));
const results = texts
  .filter((t) => t !== '')
  .map(
    (t) => JSON.parse(t) as SuiteResult | (StartResult & { suite: 'start' }) | (ThreadsResult & { suite: 'threads' }),
  );
console.log(`# Performance

Written by \`npm run bench\` from the suites in \`bench/\`; do not edit. A figure behind × says how many times as long as Skep
the peer took: above 1 Skep is quicker. It is the median of ratios taken within rounds, in which all engines run one after
the other in one process, with the middle half of the ratios behind it; milliseconds are medians. A call is what a user
pays: tensors made, copied in and out, and for Skep the way to its thread and back.
`);
for (const r of results)
  if (r.suite === 'start') console.log(startSection(r as StartResult));
  else if (r.suite === 'threads') console.log(threadsSection(r as ThreadsResult));
  else console.log(section(r as SuiteResult));
