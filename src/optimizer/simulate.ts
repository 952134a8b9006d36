// Statistics over queue simulations: several seeds, the start-up cut off, and an interval that says how far to trust them.
import { integerArgument, numberArgument } from './errors.js';
import { capacity, type QueueSystem, runQueue } from './queue.js';
import { arrivalTimes, gaps, type Random, random } from './random.js';

export interface SimulateOptions {
  /** Requests a second. */
  readonly arrivalRate: number;
  /** Squared coefficient of variation of the gaps (default 1: Poisson). */
  readonly ca2?: number;
  /** Gaps of mean 1 instead of those of `ca2`, e.g. heavy-tailed ones. */
  readonly gap?: (uniform: Random) => () => number;
  /** Requests in all (default 200,000), shared by the seeds. */
  readonly requests?: number;
  /** Independent runs (default 4); the seeds are `seed`, `seed + 1`, … */
  readonly runs?: number;
  readonly seed?: number;
}

/** A number and the half-width of its 95 % confidence interval. */
export interface Measured {
  readonly value: number;
  readonly plusMinus: number;
}

export interface QueueStatistics {
  /** False when the arrival rate is not below the capacity: nothing was simulated and the times are Infinity. */
  readonly stable: boolean;
  /** Latency in ms. */
  readonly mean: Measured;
  readonly p50: Measured;
  readonly p99: Measured;
  /** Mean rows a batch. */
  readonly rows: number;
  /** Mean number of busy instances. */
  readonly busy: number;
  /** Mean time in service, ms a request. */
  readonly service: number;
  readonly requests: number;
}

/** Blocks a run is cut into for the interval: long enough to be nearly independent, enough to estimate a spread. */
const BLOCKS = 24;

/** Simulates a queue. Deterministic for given options. */
export function simulateQueue(system: QueueSystem, options: SimulateOptions): QueueStatistics {
  const rate = numberArgument('arrivalRate', options.arrivalRate, Number.MIN_VALUE, 1e9);
  const requests = integerArgument('requests', options.requests ?? 200_000, 100, 1e9);
  const runs = integerArgument('runs', options.runs ?? 4, 1, 1000);
  const seed = integerArgument('seed', options.seed ?? 1, 0, 2 ** 31);
  if (!(rate < capacity(system))) {
    const never = { value: Number.POSITIVE_INFINITY, plusMinus: 0 };
    const full = system.groups.reduce((sum, g) => sum + g.instances, 0);
    return {
      stable: false,
      mean: never,
      p50: never,
      p99: never,
      rows: 0,
      busy: full,
      service: Number.POSITIVE_INFINITY,
      requests: 0,
    };
  }
  const blocks = Math.ceil(BLOCKS / runs);
  const size = Math.max(1, Math.floor(requests / runs / blocks));
  const warm = Math.ceil((size * blocks) / 20);
  const means: number[] = [];
  const p50s: number[] = [];
  const p99s: number[] = [];
  let rows = 0;
  let busy = 0;
  let service = 0;
  for (let run = 0; run < runs; run++) {
    const uniform = random(seed + run);
    const gap = options.gap ? options.gap(uniform) : gaps(options.ca2 ?? 1, uniform);
    const result = runQueue(arrivalTimes(warm + size * blocks, rate, gap), system);
    for (let i = 0; i < blocks; i++) {
      const block = result.latencies.subarray(warm + i * size, warm + (i + 1) * size);
      let sum = 0;
      for (const ms of block) sum += ms;
      means.push(sum / size);
      block.sort();
      p50s.push(quantile(block, 0.5));
      p99s.push(quantile(block, 0.99));
    }
    rows += result.latencies.length / result.batches / runs;
    busy += result.busy / runs;
    service += result.service / runs;
  }
  return {
    stable: true,
    mean: interval(means),
    p50: interval(p50s),
    p99: interval(p99s),
    rows,
    busy,
    service,
    requests: runs * size * blocks,
  };
}

/** The quantile q of ascending numbers (nearest rank). */
export function quantile(sorted: Float64Array, q: number): number {
  return sorted[Math.max(0, Math.min(sorted.length - 1, Math.ceil(q * sorted.length) - 1))];
}

/** Mean and 95 % interval of the mean; Student's t for the degrees of freedom there are. */
function interval(values: readonly number[]): Measured {
  const n = values.length;
  const mean = values.reduce((sum, v) => sum + v, 0) / n;
  if (n < 2) return { value: mean, plusMinus: Number.POSITIVE_INFINITY };
  const variance = values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / (n - 1);
  const d = n - 1;
  const t = 1.96 + 2.372 / d + 2.82 / d ** 2 + 2.56 / d ** 3 + 1.6 / d ** 4;
  return { value: mean, plusMinus: t * Math.sqrt(variance / n) };
}
