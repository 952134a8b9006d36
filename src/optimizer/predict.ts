// What a configuration will do at a load. Three ways to know, and the cheapest that is exact enough is taken:
//
//   batch 1, equal instances       serf.ts    a formula, microseconds
//   one instance, Poisson          markov.ts  the exact chain, about a millisecond
//   anything else, and every tail  queue.ts   simulation, with a confidence interval
import { type Configuration, checkConfiguration } from './configuration.js';
import { numberArgument, OptimizerError } from './errors.js';
import { batchChain } from './markov.js';
import { Profile, type ProfileInput } from './profile.js';
import { capacity, type QueueSystem, queueSystem } from './queue.js';
import { batchedModel, type QueueEstimate, serf } from './serf.js';
import { type Measured, simulateQueue } from './simulate.js';

export interface PredictOptions {
  readonly configuration: Configuration;
  /** Requests a second. */
  readonly arrivalRate: number;
  /** Squared coefficient of variation of the gaps between arrivals (default 1: Poisson). */
  readonly ca2?: number;
  /** Also predict the median and the 99th percentile, which takes a simulation (default true). */
  readonly tails?: boolean;
  /** Requests to simulate (default 200,000), in how many independent runs (4), from which seed (1). */
  readonly requests?: number;
  readonly runs?: number;
  readonly seed?: number;
}

/** Latencies in ms, arrival to answer. Infinity exactly when `stable` is false. */
export interface Prediction {
  readonly configuration: Configuration;
  readonly arrivalRate: number;
  /** The configuration keeps up with the arrivals. */
  readonly stable: boolean;
  /** Arrival rate over `capacity`. */
  readonly utilisation: number;
  /** The rate that cannot be kept up any more, requests a second. */
  readonly capacity: number;
  /** Mean latency, and of it the part spent waiting and the part in service. */
  readonly latency: number;
  readonly wait: number;
  readonly service: number;
  /** Half-width of the 95 % interval of `latency`; 0 when it was not simulated. */
  readonly plusMinus: number;
  /** Median and 99th percentile with their intervals; undefined when not asked for. */
  readonly p50?: Measured;
  readonly p99?: Measured;
  /** Where the mean comes from. */
  readonly method: 'model' | 'chain' | 'simulation';
}

/** Predicts latency at a load. Throws OptimizerError for a bad profile or argument, or one the profile does not cover. */
export function predict(profile: ProfileInput, options: PredictOptions): Prediction {
  const table = Profile.from(profile);
  const configuration = checkConfiguration(options.configuration);
  const arrivalRate = numberArgument('arrivalRate', options.arrivalRate, Number.MIN_VALUE, 1e9);
  const ca2 = numberArgument('ca2', options.ca2 ?? 1, 0, 1e6);
  const system = systemOf(table, configuration);
  const most = capacity(system);
  const known = model(system, arrivalRate, ca2);
  const tails = options.tails ?? true;
  const common = { configuration, arrivalRate, capacity: most, utilisation: arrivalRate / most };
  if (!(arrivalRate < most)) {
    const never = Number.POSITIVE_INFINITY;
    const p = { value: never, plusMinus: 0 };
    const times = { latency: never, wait: never, service: never, plusMinus: 0 };
    return { ...common, ...times, stable: false, ...(tails ? { p50: p, p99: p } : {}), method: 'model' };
  }
  const { requests, runs, seed } = options;
  const simulated =
    tails || known === undefined ? simulateQueue(system, { arrivalRate, ca2, requests, runs, seed }) : undefined;
  const quantiles = tails ? { p50: simulated!.p50, p99: simulated!.p99 } : {};
  if (known !== undefined) {
    const { latency, wait, service, method } = known;
    return { ...common, stable: true, latency, wait, service, plusMinus: 0, ...quantiles, method };
  }
  const { mean } = simulated!;
  const service = Math.min(mean.value, simulated!.service);
  const wait = mean.value - service;
  const times = { latency: mean.value, wait, service, plusMinus: mean.plusMinus };
  return { ...common, stable: true, ...times, ...quantiles, method: 'simulation' };
}

/** The queue of a configuration; throws INVALID_ARGUMENT where the profile has no time for it. */
export function systemOf(table: Profile, configuration: Configuration): QueueSystem {
  for (const { threads, batch } of configuration) {
    if (Number.isFinite(table.latency(threads, batch))) continue;
    const largest = table.largest(threads);
    const has =
      largest === 0 ? `threads ${table.threads.join(', ')}` : `batches up to ${largest} for ${threads} threads`;
    throw new OptimizerError(
      'INVALID_ARGUMENT',
      `configuration: ${threads} threads, batch ${batch} is not in the profile, which has ${has}`,
    );
  }
  return queueSystem(table, configuration);
}

/** The mean without simulating, where that is exact enough: batch 1, or one instance with Poisson arrivals. */
function model(system: QueueSystem, arrivalRate: number, ca2: number) {
  if (system.groups.length > 1) return undefined;
  const [{ instances, batch, times }] = system.groups;
  if (batch === 1) return { ...serf(arrivalRate, serviceTimes(system), ca2), method: 'model' as const };
  if (instances > 1 || ca2 !== 1) return undefined;
  const chain = batchChain(arrivalRate, times);
  return chain && { ...chain, method: 'chain' as const };
}

/** S[k] in ms for k = 1…c at index k − 1. */
function serviceTimes({ groups, factors }: QueueSystem): Float64Array {
  const c = factors.length - 1;
  const times = new Float64Array(c);
  for (let k = 1; k <= c; k++) times[k - 1] = groups[0].times[1] * factors[k];
  return times;
}

/** A configuration made ready to be estimated at many loads, about a microsecond each. */
export interface Screened {
  readonly configuration: Configuration;
  readonly capacity: number;
  readonly estimate: (arrivalRate: number, ca2?: number) => QueueEstimate;
}

/**
 * Quick estimates of equal instances, for ranking: `serf` for batch 1, `batchedModel` above it. Undefined where the profile
 * has no time.
 */
export function screen(table: Profile, instances: number, threads: number, batch: number): Screened | undefined {
  const full = table.latency(threads, batch);
  if (!Number.isFinite(full)) return undefined;
  const configuration = [{ instances, threads, batch }];
  const factors = new Float64Array(instances + 1).fill(1);
  for (let k = 2; k <= instances; k++) factors[k] = table.factor(k, threads, batch);
  const most = (1000 * instances * batch) / (full * factors[instances]);
  if (batch > 1) {
    return { configuration, capacity: most, estimate: batchedModel((n) => table.latency(threads, n), batch, factors) };
  }
  const times = factors.subarray(1).map((factor) => factor * full);
  return { configuration, capacity: most, estimate: (rate, ca2) => serf(rate, times, ca2) };
}

/**
 * Every configuration of equal instances with i·t ≤ threads. `batches` (default: the measured sizes) are tried up to
 * `maxBatch`, as far as the profile goes for each thread count.
 */
export function everyConfiguration(
  table: Profile,
  options: { threads: number; batches?: readonly number[]; maxBatch?: number; maxInstances?: number },
): Screened[] {
  const all: Screened[] = [];
  for (const t of table.threads) {
    for (let i = 1; i * t <= options.threads && i <= (options.maxInstances ?? Number.POSITIVE_INFINITY); i++) {
      for (const b of options.batches ?? table.sizes(t)) {
        if (b > (options.maxBatch ?? Number.POSITIVE_INFINITY)) continue;
        const screened = screen(table, i, t, b);
        if (screened) all.push(screened);
      }
    }
  }
  return all;
}

/** In a few words, for tables and reasons. */
export function summarize(p: Prediction): string {
  if (!p.stable) return `overloaded (keeps up with ${p.capacity.toFixed(1)} requests/s at most)`;
  const tail = p.p99 === undefined ? '' : `, p99 ${p.p99.value.toFixed(1)} ms`;
  return `mean ${p.latency.toFixed(1)} ms${tail} at ${(100 * p.utilisation).toFixed(0)} % of ${p.capacity.toFixed(1)} requests/s`;
}
