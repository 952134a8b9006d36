// The frame of a benchmark: command line, machine, one contest a case, a table as it goes or JSON at the end.
import { parseArgs } from 'node:util';
import { type Contender, contest, type Standing } from './contest.js';
import { Engines } from './engines.js';
import { machine } from './machine.js';
import type { Case } from './operators.js';

/** What a run of a suite found. */
export interface SuiteResult {
  readonly suite: string;
  readonly machine: string;
  readonly flags: readonly string[];
  readonly build: string;
  /** With 256-bit instructions. */
  readonly wide: boolean;
  readonly date: string;
  /** How well two equal engines agree here: the ratio of Skep to a second copy of itself, and its middle half. */
  readonly control: Standing;
  readonly cases: readonly { readonly name: string; readonly case: string; readonly standings: readonly Standing[] }[];
}

const help =
  'usage: [PATTERN…] [--peers web,node,tfjs] [--rounds N] [--burst MS] [--build plain|fma] [--wide] [--json]';

/** Runs the cases whose key holds one of the patterns given on the command line, and prints. */
export async function runSuite(suite: string, cases: readonly Case[]): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      peers: { type: 'string', default: suite === 'models' ? 'web,node' : 'web,node,tfjs' },
      rounds: { type: 'string', default: '15' },
      burst: { type: 'string', default: '20' },
      build: { type: 'string' },
      wide: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return console.log(help);
  const { build } = values;
  if (build !== undefined && build !== 'plain' && build !== 'fma') throw new Error(help);
  const options = { rounds: Number(values.rounds), burst: Number(values.burst) };
  const engines = await Engines.open(new Set(values.peers.split(',')), build, values.wide);
  const log = values.json ? () => {} : console.log;
  log(`${machine()}\nSkep's build: ${engines.skep.build}; flags: ${process.execArgv.join(' ') || 'none'}; one thread`);
  log(
    'ms: the median (the best); ×: how many times as long as Skep, median of paired ratios [middle half]; Δ: largest difference\n',
  );
  const wanted = cases.filter((c) => positionals.length === 0 || positionals.some((p) => c.name.includes(p)));
  const found: SuiteResult['cases'][number][] = [];
  let control: Standing | undefined;
  for (const c of wanted) {
    const work = c.work();
    const contenders = await engines.contenders(work);
    // The control of a run: a second Skep on the first case.
    if (control === undefined) contenders.push(await copyOf(engines, work));
    let standings = await contest(contenders, options);
    if (control === undefined) {
      control = standings.at(-1)!;
      standings = standings.slice(0, -1);
      log(`${work.name.padEnd(28)} ${row(control)}`);
    }
    for (const c of contenders) await c.close();
    found.push({ name: work.name, case: c.name, standings });
    log(`${work.name.padEnd(28)} ${standings.map(row).join('  ')}`);
  }
  if (values.json && control !== undefined) {
    const { skep } = engines;
    const result: SuiteResult = {
      suite,
      machine: machine(),
      flags: process.execArgv,
      build: skep.build,
      wide: values.wide,
      date: new Date().toISOString().slice(0, 10),
      control,
      cases: found,
    };
    console.log(JSON.stringify(result, null, 1));
  }
  await engines.close();
}

async function copyOf(engines: Engines, work: Parameters<Engines['contenders']>[0]): Promise<Contender> {
  return { ...(await engines.skepOf(work)), name: 'control' };
}

function row({ name, best, median, ratio, quartiles: [low, high], difference }: Standing): string {
  const ms = `${median.toFixed(2)} (${best.toFixed(2)}) ms`;
  if (name === 'skep') return `skep ${ms}`;
  const apart = name === 'tfjs-wasm' ? '' : ` Δ ${difference.toExponential(0)}`;
  return `${name} ${ms} ×${ratio.toFixed(2)} [${low.toFixed(2)}–${high.toFixed(2)}]${apart}`;
}
