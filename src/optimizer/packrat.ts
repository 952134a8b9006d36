// Packrat's optimizer: given T threads and a batch of B rows, the multiset of <instances, threads, batch> of least
// makespan (Bhardwaj et al., ICML 2025, arXiv 2311.18174, section 3). Picture cutting the batch into pieces and the
// machine into bundles of threads, one piece a bundle, all starting together; the last to finish counts.
//
// Better than the paper in four ways. Threads may idle: using all of them is not a condition. A candidate is judged with
// the interference measured for its number of instances, not with isolated times. The answer carries the best candidates
// of every kind beside the one fat instance, so that the live engine can run them once and keep the fat one unless
// another really is faster (`verified`). And pieces may be of any size, not only of the sizes that were measured.
import { type Configuration, describe, groupInstances, instancesOf, keyOf, threadsOf } from './configuration.js';
import { integerArgument, OptimizerError, quote } from './errors.js';
import { AnyKnapsack, type Knapsack, MeasuredKnapsack } from './knapsack.js';
import { MAX_BATCH, MAX_THREADS, Profile, type ProfileInput } from './profile.js';

export interface OptimizeOptions {
  /** Threads there are, T; 1 to 1,024. */
  readonly threads: number;
  /** Rows to compute, B; 1 to 65,536. */
  readonly batch: number;
  /** `'any'` (default): an instance may take any number of rows. `'measured'`: only the batch sizes that were measured. */
  readonly sizes?: 'measured' | 'any';
  /** Most instances (default T). */
  readonly maxInstances?: number;
  /** How many candidates to return (default 5; the fat instance comes on top of them). */
  readonly candidates?: number;
}

/** One configuration and what the profile says of it. Times in ms. */
export interface Candidate {
  readonly configuration: Configuration;
  /** Predicted makespan: the slowest instance's isolated time × the largest interference factor among the instances. */
  readonly latency: number;
  /** The slowest instance's time without interference. */
  readonly isolated: number;
  /** The interference factor in `latency`, at least 1. */
  readonly factor: number;
}

export interface OptimizeResult {
  /** Predicted makespan in ms. */
  readonly latency: number;
  readonly configuration: Configuration;
  /** One instance with every thread and the whole batch; null when the profile does not reach that far. */
  readonly fat: Candidate | null;
  /** Best first: the winner, then the best of every other number of instances, and always the fat instance. */
  readonly candidates: readonly Candidate[];
  /** Why, a sentence each. */
  readonly reasons: readonly string[];
}

/**
 * The configuration of least makespan. Ties go to fewer instances, then fewer threads. Throws OptimizerError:
 * INVALID_PROFILE, INVALID_ARGUMENT, or INFEASIBLE when no multiset of measured rows adds up to the batch.
 *
 * With `sizes: 'any'` and a factor S[t][b][k] that falls with b the result is an upper bound of the optimum.
 */
export function optimize(profile: ProfileInput, options: OptimizeOptions): OptimizeResult {
  const table = Profile.from(profile);
  const threads = integerArgument('threads', options.threads, 1, MAX_THREADS);
  const batch = integerArgument('batch', options.batch, 1, MAX_BATCH);
  const most = Math.min(
    integerArgument('maxInstances', options.maxInstances ?? threads, 1, MAX_THREADS),
    threads,
    batch,
  );
  const wanted = integerArgument('candidates', options.candidates ?? 5, 1, MAX_THREADS);
  const sizes = options.sizes ?? 'any';
  if (sizes !== 'any' && sizes !== 'measured') {
    throw new OptimizerError('INVALID_ARGUMENT', `sizes: expected 'measured' or 'any', got ${quote(sizes)}`);
  }
  if (table.threads.length === 0) {
    const cells = [...table.cells.keys()].join(', ');
    throw new OptimizerError('INVALID_ARGUMENT', `profile has no latency table of its own, only cell types: ${cells}`);
  }
  const problem: Problem = { table, threads, batch, sizes, most };
  const best = solve(problem);
  if (best === undefined) {
    const rows = table.threads.map((t) => table.largest(t));
    throw new OptimizerError(
      'INFEASIBLE',
      `no configuration of at most ${threads} threads and ${most} instances does a batch of ${batch}: ` +
        `the profile has threads ${shorten(table.threads)} and batches up to ${Math.max(...rows)}` +
        `${sizes === 'measured' ? ', and only measured sizes may be used' : ''}`,
    );
  }
  const fat = fatOf(problem);
  const candidates = rank([best, ...(fat ? [fat] : []), ...alike(problem)]);
  // The winner is the solver's unless an equal one comes first by the tie rule; beside it the best of each count.
  const counts = new Set<number>();
  const shown = candidates.filter(
    (c) => !counts.has(instancesOf(c.configuration)) && counts.add(instancesOf(c.configuration)),
  );
  const listed = shown.slice(0, wanted);
  if (fat && !listed.some((c) => keyOf(c.configuration) === keyOf(fat.configuration))) listed.push(fat);
  const winner = listed[0];
  return {
    latency: winner.latency,
    configuration: winner.configuration,
    fat,
    candidates: listed,
    reasons: explain(winner, fat, problem),
  };
}

/**
 * The winner after candidates were run once on the real machine, all instances at the same time. `measured[i]` is the
 * makespan in ms of `result.candidates[i]` (undefined: not run). The fat instance wins unless one beats it by more than
 * `margin` (a share, default 0). Without a measured fat instance the least measured wins.
 */
export function verified(
  result: OptimizeResult,
  measured: readonly (number | undefined)[],
  margin = 0,
): Candidate & { readonly measured: number } {
  const runs = result.candidates.flatMap((candidate, i) => {
    const ms = measured[i];
    return ms === undefined || !(ms > 0) ? [] : [{ ...candidate, measured: ms }];
  });
  if (runs.length === 0) throw new OptimizerError('INVALID_ARGUMENT', 'measured: no candidate was measured');
  const fatKey = result.fat === null ? '' : keyOf(result.fat.configuration);
  const fat = runs.find((run) => keyOf(run.configuration) === fatKey);
  const best = runs.reduce((x, y) => (y.measured < x.measured ? y : x));
  return fat !== undefined && best.measured >= fat.measured * (1 - margin) ? fat : best;
}

/** What the profile says of one configuration, each instance running its whole batch. Infinity where nothing is known. */
export function makespan(profile: ProfileInput, configuration: Configuration): Candidate {
  return judge(Profile.from(profile), configuration, 'any');
}

/** Numbers of instances for which interference is solved exactly. */
const COUNTED = 128;

interface Problem {
  readonly table: Profile;
  readonly threads: number;
  readonly batch: number;
  readonly sizes: 'measured' | 'any';
  readonly most: number;
}

function judge(table: Profile, configuration: Configuration, sizes: 'measured' | 'any'): Candidate {
  const instances = instancesOf(configuration);
  let isolated = 0;
  let factor = 1;
  for (const { threads, batch } of configuration) {
    const ms = sizes === 'any' ? table.latency(threads, batch) : table.measured(threads, batch);
    isolated = Math.max(isolated, ms ?? Number.POSITIVE_INFINITY);
    factor = Math.max(factor, table.factor(instances, threads, batch));
  }
  return { configuration, latency: isolated * factor, isolated, factor };
}

/** Least latency, then fewer instances, then fewer threads. Equal configurations once. */
function rank(candidates: Iterable<Candidate>): Candidate[] {
  const unique = new Map<string, Candidate>();
  for (const c of candidates) if (Number.isFinite(c.latency)) unique.set(keyOf(c.configuration), c);
  return [...unique.values()].sort(compare);
}

function compare(x: Candidate, y: Candidate): number {
  return (
    x.latency - y.latency ||
    instancesOf(x.configuration) - instancesOf(y.configuration) ||
    threadsOf(x.configuration) - threadsOf(y.configuration)
  );
}

/**
 * The optimum. Interference depends on the number of instances, so the problem is solved for every number k with the
 * factors of k, allowing up to k instances (fewer are never slower than k says, as factors do not fall with k). Where
 * factors differ within one k, once for each of them as the largest allowed. Above `COUNTED` instances only equal ones
 * (`alike`) and the factor of the most are tried: counting a thousand instances exactly would take minutes.
 */
function solve(problem: Problem): Candidate | undefined {
  const { table, threads, batch, sizes, most } = problem;
  const sack = sizes === 'any' ? new AnyKnapsack(table, threads, batch) : new MeasuredKnapsack(table, threads, batch);
  const counts = table.hasInterference ? Array.from({ length: Math.min(most, COUNTED) }, (_, i) => i + 1) : [];
  if (counts.at(-1) !== most) counts.push(most);
  let best: Candidate | undefined;
  for (const k of counts) {
    for (const factor of factorsOf(problem, k)) {
      const bar = best === undefined ? Number.POSITIVE_INFINITY : best.latency / factor;
      const items = least(sack, { instances: k, factor }, bar);
      if (items === undefined) continue;
      const found = judge(table, groupInstances(items), sizes);
      if (best === undefined || compare(found, best) < 0) best = found;
    }
  }
  return best;
}

/** The distinct factors with k instances, ascending. */
function factorsOf({ table, threads }: Problem, k: number): number[] {
  const factors = new Set<number>();
  for (const t of table.threads) if (t <= threads) for (const b of table.sizes(t)) factors.add(table.factor(k, t, b));
  return [...factors].sort((x, y) => x - y);
}

/** Searches the least isolated time, not above `bar`, within which everything fits; its instances. */
function least(sack: Knapsack, limit: { instances: number; factor: number }, bar: number) {
  let high = sack.down(bar); // fits, as soon as it is checked
  if (high === 0 || !sack.fits(high, limit)) return undefined;
  let low = sack.up(0); // nothing below fits
  while (low < high) {
    const middle = low + (high - low) / 2;
    if (middle < high && sack.fits(middle, limit)) high = sack.down(middle);
    else if (middle >= high) break;
    else low = sack.up(middle);
  }
  return sack.pack(high, limit);
}

/** Equal instances of every number and thread count: cheap to list, and what one would try by hand. */
function* alike({ table, threads, batch, sizes, most }: Problem): Generator<Candidate> {
  for (let k = 1; k <= most; k++) {
    const small = Math.floor(batch / k);
    const large = batch - small * k; // so many instances take one row more
    for (const t of table.threads) {
      if (t * k > threads) break;
      const groups = [
        { instances: large, threads: t, batch: small + 1 },
        { instances: k - large, threads: t, batch: small },
      ].filter((g) => g.instances > 0);
      const candidate = judge(table, groups, sizes);
      if (Number.isFinite(candidate.latency)) yield candidate;
    }
  }
}

function fatOf({ table, threads, batch, sizes }: Problem): Candidate | null {
  const fat = judge(table, [{ instances: 1, threads, batch }], sizes);
  return Number.isFinite(fat.latency) ? fat : null;
}

function explain(winner: Candidate, fat: Candidate | null, { threads, batch }: Problem): string[] {
  const name = describe(winner.configuration);
  const used = threadsOf(winner.configuration);
  const reasons: string[] = [];
  if (fat === null) {
    reasons.push(
      `${name}: ${ms(winner.latency)}; the profile has no single instance of ${threads} threads with batch ${batch}`,
    );
  } else if (keyOf(fat.configuration) === keyOf(winner.configuration)) {
    reasons.push(`${name}: ${ms(winner.latency)}; nothing beats the one fat instance`);
  } else {
    const gain = (fat.latency / winner.latency).toFixed(2);
    reasons.push(`${name}: ${ms(winner.latency)}, ${gain}× faster than the one fat instance (${ms(fat.latency)})`);
  }
  if (winner.factor > 1) {
    reasons.push(
      `${ms(winner.isolated)} alone, × ${winner.factor.toFixed(2)} for interference among ${instancesOf(winner.configuration)} instances`,
    );
  }
  if (used < threads) reasons.push(`${threads - used} of ${threads} threads idle: using them is not faster`);
  return reasons;
}

function ms(value: number): string {
  return `${value.toFixed(value < 10 ? 2 : 1)} ms`;
}

function shorten(values: readonly number[]): string {
  return values.length <= 8 ? values.join(', ') : `${values.slice(0, 4).join(', ')}, … ${values.at(-1)}`;
}
