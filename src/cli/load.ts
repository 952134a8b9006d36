// What load is put on a model: the options that `bench` and `simulate` share, and what they mean. A load is a list of due
// times, what each request is, and the policies and configurations it is tried with.
import type { Configuration } from '../optimizer/configuration.js';
import { type ArrivalProcess, arrivals } from '../simulator/arrivals.js';
import { Random } from '../simulator/random.js';
import { choiceOption, numberOption, type Option, UsageError } from './command.js';
import { readGaps, readLengths } from './sources.js';

export const loadOptions = {
  rate: { type: 'string', value: 'λ[,λ…]', help: 'requests a second, open loop; several are run one after another' },
  duration: { type: 'string', value: 'S', help: 'seconds of arrivals' },
  arrivals: {
    type: 'string',
    value: 'KIND',
    help: 'poisson (default), constant, bursty, or a file of gaps in ms; with --rate scaled to it',
  },
  burst: { type: 'string', value: 'X', help: 'of bursty arrivals: the rate in bursts over the mean rate; default 4' },
  lengths: { type: 'string', value: 'LENGTHS', help: 'steps of each request: see above' },
  policy: {
    type: 'string',
    value: 'P[,P…]',
    help: 'cellular (default), bucket, pad, timeout, none; several are compared',
  },
  configuration: { type: 'string', value: 'I,T,B', help: 'instances, threads, batch; more groups after a +' },
  instances: { type: 'string', value: 'I', help: 'instances; default 1' },
  threads: { type: 'string', value: 'T', help: 'threads of an instance; default 1' },
  batch: { type: 'string', value: 'B', help: 'most rows computed together' },
  'bucket-width': { type: 'string', value: 'W', help: 'of bucket: lengths that share a bucket; default 10' },
  wait: { type: 'string', value: 'MS', help: 'of timeout: how long a batch that is not full waits; default 20' },
  seed: { type: 'string', value: 'N', help: 'of all that is drawn at random; default 1' },
  plot: { type: 'string', value: 'FILE.svg', help: 'draw latencies: their distribution, or against the rate' },
} as const satisfies Record<string, Option>;

export const lengthsHelp = `
LENGTHS is a number, uniform:LEAST:MOST, lognormal:MEAN:VARIATION:MOST, or a file of numbers. A file is .json or text with
a number a line; FILE.json#a.b names a member, * every element of a list (trace.json#requests.*.1).`;

export const policies = ['cellular', 'bucket', 'pad', 'timeout', 'none'] as const;
export type PolicyName = (typeof policies)[number];

/** The options as given. */
export type LoadWords = { readonly [K in keyof typeof loadOptions]?: string | undefined };

export interface Load {
  /** Requests a second, in the order to be run; undefined: as a trace has it. */
  readonly rates: readonly (number | undefined)[];
  readonly seconds: number | undefined;
  /** The process at a rate. */
  readonly process: (rate: number | undefined) => ArrivalProcess;
  readonly lengths: readonly (number | readonly [number, number])[] | undefined;
  readonly policies: readonly PolicyName[];
  /** As asked for; `batch` undefined: not. */
  readonly configuration:
    | Configuration
    | { readonly instances: number; readonly threads: number; readonly batch: number | undefined };
  readonly bucketWidth: number;
  readonly wait: number;
  readonly seed: number;
}

/** Reads the options. `rate` may be missing where a trace brings its own, or where it is not needed. Throws UsageError. */
export function readLoad(words: LoadWords, needsRate = true): Load {
  const seed = wholeOption(words.seed, 'seed', 0) ?? 1;
  const burst = positiveOption(words.burst, 'burst') ?? 4;
  const kind = words.arrivals ?? 'poisson';
  const made = kind === 'poisson' || kind === 'constant' || kind === 'bursty';
  const gaps = made ? undefined : readGaps(kind);
  if (kind === 'bursty' && !(burst >= 1 && burst <= 10))
    throw new UsageError(`--burst must be from 1 to 10, got ${burst}`);
  if (words.rate === undefined && gaps === undefined && needsRate)
    throw new UsageError('--rate is missing: how many requests a second?');
  const rates = words.rate?.split(',').map((text) => positiveOption(text, 'rate')!) ?? [undefined];
  return {
    rates,
    seconds: positiveOption(words.duration, 'duration'),
    process: (rate) => {
      if (gaps !== undefined) return { kind: 'trace', gaps, ...(rate !== undefined && { rate }) };
      if (kind === 'bursty') return { kind, rate: rate!, burst, share: 0.1, meanBurst: 1000 };
      return { kind: kind === 'constant' ? 'constant' : 'poisson', rate: rate! };
    },
    lengths: words.lengths === undefined ? undefined : readLengths(words.lengths, seed),
    policies: (words.policy ?? 'cellular').split(',').map((p) => choiceOption(p, 'policy', policies)!),
    configuration: readConfiguration(words),
    bucketWidth: wholeOption(words['bucket-width'], 'bucket-width', 1) ?? 10,
    wait: positiveOption(words.wait, 'wait') ?? 20,
    seed,
  };
}

/** Most arrivals that one run takes. */
const MOST = 5_000_000;

/** Due times in ms: of `seconds`, or, where that is undefined, `count` of them (of a trace: once through). */
export function dueTimes(
  process: ArrivalProcess,
  seconds: number | undefined,
  count: number,
  seed: number,
): Float64Array {
  const random = () => new Random(seed);
  if (seconds === undefined) return arrivals(process, process.kind === 'trace' ? process.gaps.length : count, random());
  const rate = process.rate ?? meanRate(process);
  for (let n = Math.ceil(1.3 * rate * seconds + 100); ; n *= 2) {
    if (n > 2 * MOST) throw new UsageError(`${Math.round(rate * seconds)} arrivals are too many: at most ${MOST}`);
    const times = arrivals(process, n, random());
    const end = times.findIndex((t) => t > 1000 * seconds);
    if (end === 0) throw new UsageError(`nothing arrives within ${seconds} s`);
    if (end > 0) return times.slice(0, end);
  }
}

function meanRate(process: ArrivalProcess): number {
  if (process.kind !== 'trace') return process.rate;
  let total = 0;
  for (let i = 0; i < process.gaps.length; i++) total += process.gaps[i]!;
  return (1000 * process.gaps.length) / total;
}

/** In words: `Poisson arrivals, 200 requests/s`. */
export function describeArrivals(process: ArrivalProcess): string {
  const name = {
    poisson: 'Poisson arrivals',
    constant: 'constant arrivals',
    bursty: 'bursty arrivals',
    trace: 'a trace',
  };
  return `${name[process.kind]}, ${Number(meanRate(process).toPrecision(4))} requests/s`;
}

function readConfiguration(words: LoadWords): Load['configuration'] {
  const alone = (['instances', 'threads', 'batch'] as const).filter((name) => words[name] !== undefined);
  if (words.configuration !== undefined && alone.length > 0)
    throw new UsageError(`--configuration and --${alone[0]} say the same: give one of them`);
  if (words.configuration !== undefined) return parseConfiguration(words.configuration);
  return {
    instances: wholeOption(words.instances, 'instances', 1) ?? 1,
    threads: wholeOption(words.threads, 'threads', 1) ?? 1,
    batch: wholeOption(words.batch, 'batch', 1),
  };
}

/** `2,8,4+1,4,2` as a configuration. Throws UsageError. */
export function parseConfiguration(text: string): Configuration {
  return text.split('+').map((group) => {
    const [instances, threads, batch, ...more] = group
      .split(',')
      .map((n) => (/^\s*[1-9]\d{0,5}\s*$/.test(n) ? Number(n) : Number.NaN));
    if (more.length > 0 || !(instances! > 0 && threads! > 0 && batch! > 0))
      throw new UsageError(`--configuration must be INSTANCES,THREADS,BATCH, more groups after a +; got '${text}'`);
    return { instances: instances!, threads: threads!, batch: batch! };
  });
}

/** `p99=200,mean=50` as limits in ms. Throws UsageError. */
export function parseSlo(text: string | undefined): { mean?: number; p99?: number } | undefined {
  if (text === undefined) return undefined;
  const slo: { mean?: number; p99?: number } = {};
  for (const part of text.split(',')) {
    const [name, value] = part.split('=');
    if ((name !== 'mean' && name !== 'p99') || value === undefined)
      throw new UsageError(`--slo must be p99=MS or mean=MS, got '${part}'`);
    slo[name] = positiveOption(value, 'slo')!;
  }
  return slo;
}

/** A number above 0 given to an option. Throws UsageError. */
export function positiveOption(text: string | undefined, name: string): number | undefined {
  const x = numberOption(text, name);
  if (x !== undefined && !(x > 0)) throw new UsageError(`--${name} must be above 0, got '${text}'`);
  return x;
}

/** A whole number given to an option. Throws UsageError. */
export function wholeOption(text: string | undefined, name: string, least: number): number | undefined {
  const x = numberOption(text, name);
  if (x !== undefined && !(Number.isSafeInteger(x) && x >= least))
    throw new UsageError(`--${name} must be a whole number, at least ${least}, got '${text}'`);
  return x;
}
