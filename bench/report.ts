// docs/performance.md from the JSON of the suites: who was how many times as long as Skep, on what machine.
//
//   node dist/bench/report.js FILE… > docs/performance.md
//
// FILE is what operators.js or models.js wrote with --json; files of several Node versions and flags become sections.
import { readFileSync } from 'node:fs';
import type { Standing } from './lib/contest.js';
import type { SuiteResult } from './lib/suite.js';

const titles: Readonly<Record<string, string>> = { operators: 'Operators', models: 'Models' };

const milliseconds = (ms: number) => (ms < 1 ? ms.toFixed(3) : ms < 100 ? ms.toFixed(2) : ms.toFixed(0));
const spread = ({ ratio, quartiles: [low, high] }: Standing) =>
  `${ratio.toFixed(2)} (${low.toFixed(2)}–${high.toFixed(2)})`;

function geometricMean(values: readonly number[]): number {
  return Math.exp(values.reduce((sum, v) => sum + Math.log(v), 0) / values.length);
}

/** One suite on one machine and Node: a table, a row a case, a column a peer. */
function section({ suite, machine, flags, build, date, control, cases }: SuiteResult): string {
  const peers = [...new Set(cases.flatMap((c) => c.standings.map((s) => s.name)))].filter((n) => n !== 'skep');
  const lines = [
    `## ${titles[suite] ?? suite}, ${build} build${flags.length > 0 ? `, \`${flags.join(' ')}\`` : ''}`,
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

const results = process.argv.slice(2).map((file) => JSON.parse(readFileSync(file, 'utf8')) as SuiteResult);
console.log(`# Performance

Written by \`npm run bench\` from the suites in \`bench/\`; do not edit. A figure behind × says how many times as long as Skep
the peer took: above 1 Skep is quicker. It is the median of ratios taken within rounds, in which all engines run one after
the other in one process, with the middle half of the ratios behind it; milliseconds are medians. A call is what a user
pays: tensors made, copied in and out, and for Skep the way to its thread and back.
`);
for (const r of results) console.log(section(r));
