// Which configuration for this load? Every <instances, threads, batch> that fits is estimated in a microsecond; those that
// look good are predicted properly (formula, chain or simulation); the best of these is the answer, with the others beside
// it and the reason in words.
//
//   all that fit ── screen ──▶ shortlist ── predict ──▶ ranked, best first
//   (hundreds)      1 µs each   (a dozen)    exactly
import { type Configuration, describe, threadsOf } from './configuration.js';
import { integerArgument, numberArgument, OptimizerError, quote } from './errors.js';
import { everyConfiguration, type Prediction, predict, type Screened, summarize } from './predict.js';
import { MAX_BATCH, MAX_THREADS, Profile, type ProfileInput } from './profile.js';
import { tail } from './serf.js';

/**
 * `mean`, `p99`: least of it. `threads`: the fewest threads that keep the SLO. `throughput`: the highest arrival rate
 * within the SLO (the given rate does not matter).
 */
export type Objective = 'mean' | 'p99' | 'threads' | 'throughput';

/** What latency must stay below, ms. */
export interface Slo {
  readonly mean?: number;
  readonly p99?: number;
}

export interface ChooseOptions {
  /** Threads there are (default: the most that were measured). */
  readonly threads?: number;
  /** Requests a second; not needed for `throughput`. */
  readonly arrivalRate?: number;
  /** Default `mean`. */
  readonly objective?: Objective;
  /** For `threads` and `throughput`. */
  readonly slo?: Slo;
  /** Squared coefficient of variation of the gaps (default 1: Poisson). */
  readonly ca2?: number;
  /** Batch sizes to try (default: those measured), the largest, and most instances. */
  readonly batches?: readonly number[];
  readonly maxBatch?: number;
  readonly maxInstances?: number;
  /** How many configurations to predict properly (default 12), and how many requests a simulation of one takes (50,000). */
  readonly shortlist?: number;
  readonly requests?: number;
  readonly seed?: number;
}

/** One configuration judged for the objective. */
export interface Choice {
  readonly configuration: Configuration;
  readonly prediction: Prediction;
  /** What was minimised or maximised: ms, threads, or requests a second. */
  readonly value: number;
  /** Whether the SLO is kept (true when none was given). */
  readonly withinSlo: boolean;
}

export interface ChooseResult extends Choice {
  readonly objective: Objective;
  /** Best first, the chosen one in front. */
  readonly candidates: readonly Choice[];
  readonly reasons: readonly string[];
}

/** Differences below this share are no reason to prefer the configuration with less capacity. */
const TIE = 0.01;

/**
 * Chooses the configuration for a load. When nothing keeps up, the one with the most capacity; when nothing keeps the SLO,
 * the one nearest to it (`withinSlo: false`). Deterministic. Throws OptimizerError for a bad profile or argument.
 */
export function choose(profile: ProfileInput, options: ChooseOptions): ChooseResult {
  const table = Profile.from(profile);
  const question = check(table, options);
  const all = everyConfiguration(table, question);
  if (all.length === 0) {
    throw new OptimizerError(
      'INFEASIBLE',
      `no configuration fits: the profile has threads ${table.threads.join(', ')}, and ${question.threads} may be used`,
    );
  }
  const candidates =
    question.objective === 'throughput' ? mostThroughput(table, all, question) : forLoad(table, all, question);
  return { ...candidates[0], objective: question.objective, candidates, reasons: explain(candidates, question) };
}

interface Question extends ChooseOptions {
  readonly threads: number;
  readonly arrivalRate: number;
  readonly objective: Objective;
  readonly slo: Slo;
  readonly ca2: number;
  readonly shortlist: number;
  readonly requests: number;
}

function check(table: Profile, options: ChooseOptions): Question {
  const objective = options.objective ?? 'mean';
  if (!['mean', 'p99', 'threads', 'throughput'].includes(objective)) {
    throw new OptimizerError(
      'INVALID_ARGUMENT',
      `objective: expected 'mean', 'p99', 'threads' or 'throughput', got ${quote(objective)}`,
    );
  }
  const slo = options.slo ?? {};
  if (slo.mean !== undefined) numberArgument('slo.mean', slo.mean, Number.MIN_VALUE, 1e12);
  if (slo.p99 !== undefined) numberArgument('slo.p99', slo.p99, Number.MIN_VALUE, 1e12);
  if ((objective === 'threads' || objective === 'throughput') && slo.mean === undefined && slo.p99 === undefined) {
    throw new OptimizerError('INVALID_ARGUMENT', `objective '${objective}' needs slo: { mean } or { p99 }, in ms`);
  }
  for (const b of options.batches ?? []) integerArgument('batches', b, 1, MAX_BATCH);
  return {
    ...options,
    objective,
    slo,
    threads: integerArgument('threads', options.threads ?? table.threads.at(-1), 1, MAX_THREADS),
    arrivalRate:
      objective === 'throughput' ? 0 : numberArgument('arrivalRate', options.arrivalRate, Number.MIN_VALUE, 1e9),
    ca2: numberArgument('ca2', options.ca2 ?? 1, 0, 1e6),
    shortlist: integerArgument('shortlist', options.shortlist ?? 12, 1, 10_000),
    requests: integerArgument('requests', options.requests ?? 50_000, 100, 1e9),
  };
}

function evaluate(table: Profile, configuration: Configuration, rate: number, question: Question): Prediction {
  const tails = question.objective === 'p99' || question.slo.p99 !== undefined;
  const { ca2, requests, seed } = question;
  return predict(table, { configuration, arrivalRate: rate, ca2, tails, requests, seed });
}

/** Kept with confidence: the upper ends of the intervals count, so that a lucky simulation promises nothing. */
function keeps(p: Prediction, slo: Slo): boolean {
  const { mean = Number.POSITIVE_INFINITY, p99 = Number.POSITIVE_INFINITY } = slo;
  const tail = p.p99 === undefined ? 0 : p.p99.value + p.p99.plusMinus;
  return p.stable && p.latency + p.plusMinus <= mean && tail <= p99;
}

/** How far from the SLO: the largest of latency over its limit; 1 or less is within. */
function excess(p: Prediction, slo: Slo): number {
  return Math.max(
    p.latency / (slo.mean ?? Number.POSITIVE_INFINITY),
    (p.p99?.value ?? 0) / (slo.p99 ?? Number.POSITIVE_INFINITY),
    0,
  );
}

/** The objectives at a given load. */
function forLoad(table: Profile, all: readonly Screened[], question: Question): Choice[] {
  const { arrivalRate, ca2, objective, slo } = question;
  const judge = (configuration: Configuration): Choice => {
    const prediction = evaluate(table, configuration, arrivalRate, question);
    const value =
      objective === 'threads'
        ? threadsOf(configuration)
        : objective === 'p99'
          ? prediction.p99!.value
          : prediction.latency;
    return { configuration, prediction, value, withinSlo: keeps(prediction, slo) };
  };
  const rated = all.flatMap((s) => {
    const guess = s.estimate(arrivalRate, ca2);
    return guess.stable ? [{ ...s, mean: guess.latency, p99: tail(guess, 0.99) }] : [];
  });
  if (rated.length === 0) {
    const strongest = all.reduce((x, y) => (y.capacity > x.capacity ? y : x));
    return [judge(strongest.configuration)];
  }
  if (objective === 'threads') return fewestThreads(rated, judge, question);
  // Two estimates of a tail are both crude, so a shortlist for p99 takes the best by either.
  const byMean = shortlist(rated, (r) => r.mean, question.shortlist);
  const byTail = objective === 'p99' ? shortlist(rated, (r) => r.p99, question.shortlist, true) : [];
  const chosen = [...new Set([...byMean, ...byTail])].map((r) => judge(r.configuration));
  return byValue(chosen);
}

/**
 * The best by an estimate, one entry or two for the same instances: the batch size with the most capacity of those that
 * tie, which is what a rising load wants, and the very best. Tails are guessed too high without batching and too low with
 * it, so for `tails` the smallest batch is always among them.
 */
function shortlist<R extends Screened>(
  rated: readonly R[],
  value: (r: R) => number,
  length: number,
  tails = false,
): R[] {
  const alike = new Map<string, R[]>();
  for (const r of [...rated].sort((x, y) => value(x) - value(y))) {
    const [{ instances, threads }] = r.configuration;
    const key = `${instances} ${threads}`;
    const group = alike.get(key);
    if (group === undefined) alike.set(key, [r]);
    else group.push(r);
  }
  return [...alike.values()]
    .flatMap((group) => {
      const tied = group.filter((r) => Math.abs(value(r) - value(group[0])) <= TIE * Math.abs(value(group[0])));
      const strongest = tied.reduce((x, y) => (y.capacity > x.capacity ? y : x));
      const best = [...new Set([strongest, group[0], group[1] ?? group[0]])].slice(0, 2);
      if (!tails) return best;
      return [
        ...new Set([...best, group.reduce((x, y) => (y.configuration[0].batch < x.configuration[0].batch ? y : x))]),
      ];
    })
    .sort((x, y) => value(x) - value(y) || y.capacity - x.capacity)
    .slice(0, tails ? Math.ceil(1.5 * length) : length);
}

/** Sorted by value; in front, of those within a tie of the least, the one with the most capacity. */
function byValue(choices: readonly Choice[]): Choice[] {
  const sorted = [...choices].sort((x, y) => x.value - y.value);
  const tied = sorted.filter((c) => c.value <= sorted[0].value * (1 + TIE));
  const first = tied.reduce((x, y) => (y.prediction.capacity > x.prediction.capacity * 1.000001 ? y : x));
  return [first, ...sorted.filter((c) => c !== first)];
}

function fewestThreads(
  rated: readonly (Screened & { mean: number; p99: number })[],
  judge: (configuration: Configuration) => Choice,
  { slo, shortlist: most }: Question,
): Choice[] {
  const guess = (r: { mean: number; p99: number }) =>
    Math.max(r.mean / (slo.mean ?? Number.POSITIVE_INFINITY), r.p99 / (slo.p99 ?? Number.POSITIVE_INFINITY));
  const counts = [...new Set(rated.map((r) => threadsOf(r.configuration)))].sort((x, y) => x - y);
  const failed: Choice[] = [];
  for (const count of counts) {
    // The estimate may be off by half: only what is far outside is not worth a prediction.
    const here = rated.filter((r) => threadsOf(r.configuration) === count && guess(r) <= 2.5);
    const judged = shortlist(here, guess, Math.max(2, Math.floor(most / 2)), slo.p99 !== undefined).map((r) =>
      judge(r.configuration),
    );
    const good = judged.filter((c) => c.withinSlo);
    if (good.length > 0) {
      const rest = judged.filter((c) => !c.withinSlo);
      const nearest = good.sort((x, y) => excess(x.prediction, slo) - excess(y.prediction, slo));
      return [...nearest, ...rest, ...failed];
    }
    failed.push(...judged);
  }
  if (failed.length === 0) failed.push(judge(rated.reduce((x, y) => (guess(y) < guess(x) ? y : x)).configuration));
  return failed.sort((x, y) => excess(x.prediction, slo) - excess(y.prediction, slo));
}

/** The highest arrival rate at which a test holds, between 0 and `high`, to half a percent. */
function highest(high: number, holds: (rate: number) => boolean): number {
  let low = 0;
  let up = high;
  while (up - low > 0.005 * high) {
    const middle = (low + up) / 2;
    if (holds(middle)) low = middle;
    else up = middle;
  }
  return low;
}

function mostThroughput(table: Profile, all: readonly Screened[], question: Question): Choice[] {
  const { slo, ca2 } = question;
  const guessed = all.map((s) => {
    const most = highest(s.capacity, (rate) => {
      const guess = s.estimate(rate, ca2);
      return (
        guess.stable &&
        guess.latency <= (slo.mean ?? Number.POSITIVE_INFINITY) * 1.1 &&
        tail(guess, 0.99) <= (slo.p99 ?? Number.POSITIVE_INFINITY) * 1.5
      );
    });
    return { ...s, most };
  });
  const choices = shortlist(guessed, (g) => -g.most, question.shortlist, slo.p99 !== undefined).map(
    ({ configuration, capacity }): Choice => {
      const value = highest(capacity, (rate) => keeps(evaluate(table, configuration, rate, question), slo));
      // Where no rate keeps the SLO, what a nearly idle system does shows by how much.
      const prediction = evaluate(table, configuration, value > 0 ? value : capacity * 0.005, question);
      return { configuration, prediction, value, withinSlo: value > 0 };
    },
  );
  return choices.sort((x, y) => y.value - x.value || excess(x.prediction, slo) - excess(y.prediction, slo));
}

function explain(candidates: readonly Choice[], question: Question): string[] {
  const [best, second] = candidates;
  const name = describe(best.configuration);
  const reasons: string[] = [];
  if (question.objective === 'throughput') {
    reasons.push(
      best.withinSlo
        ? `${name}: ${best.value.toFixed(1)} requests/s within ${limits(question.slo)}, the most`
        : `nothing keeps ${limits(question.slo)} at any rate tried; ${name} comes nearest`,
    );
  } else if (!best.prediction.stable) {
    reasons.push(
      `overload: nothing keeps up with ${question.arrivalRate} requests/s; ${name} does most, ${best.prediction.capacity.toFixed(1)}`,
    );
  } else {
    reasons.push(`${name}: ${summarize(best.prediction)}`);
    if (!best.withinSlo) reasons.push(`nothing found keeps ${limits(question.slo)}; this comes nearest`);
    else if (question.objective === 'threads')
      reasons.push(`${best.value} of ${question.threads} threads are the fewest that keep ${limits(question.slo)}`);
  }
  if (second !== undefined) reasons.push(`next: ${describe(second.configuration)}: ${summarize(second.prediction)}`);
  return reasons;
}

function limits({ mean, p99 }: Slo): string {
  return [mean === undefined ? '' : `mean ≤ ${mean} ms`, p99 === undefined ? '' : `p99 ≤ ${p99} ms`]
    .filter(Boolean)
    .join(' and ');
}
