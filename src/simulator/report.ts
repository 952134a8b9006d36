// What a run has shown: a recorder takes events with their times, in virtual or in real milliseconds, and sums them up.
// The simulator and the live bench fill the same recorder and print the same report. Latency counts from when a request
// was due; queueing is until its first cell starts, computing from there to its end.

import type { CellCall } from '../cellular/policy.js';

export interface Distribution {
  readonly count: number;
  readonly mean: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly max: number;
}

export interface Report {
  readonly requests: {
    readonly arrived: number;
    readonly finished: number;
    readonly refused: number;
    readonly cancelled: number;
  };
  /** From the first event to the last. */
  readonly seconds: number;
  /** Requests a second while requests came. */
  readonly arrivalRate: number;
  /** Requests finished a second, from the end of the warm-up to the last arrival. */
  readonly throughput: number;
  /** All in ms, of requests that came after the warm-up and finished. */
  readonly latency: Distribution;
  readonly queueing: Distribution;
  readonly computing: Distribution;
  readonly batch: {
    readonly tasks: number;
    /** Mean rows of a call. */
    readonly mean: number;
    /** Calls by rows: `histogram[r]` had r. */
    readonly histogram: readonly number[];
    /** Rows that were not padding, of all rows computed. */
    readonly useful: number;
    /** Mean ms of a call: the step time at this load. */
    readonly stepTime: number;
  };
  /** Time instances were busy, of all the time they were there, while requests came. */
  readonly utilisation: number;
  readonly backlog: {
    /** Requests that had come and not ended: mean, and at the last arrival. */
    readonly mean: number;
    readonly last: number;
    /** Slope of a line through it after the warm-up, requests a second; and the same as a share of the arrival rate. */
    readonly growth: number;
    readonly growthShare: number;
  };
  /** The backlog does not grow by more than a fiftieth of what arrives. */
  readonly stable: boolean;
}

export function distribution(values: Iterable<number>): Distribution {
  const sorted = Float64Array.from(values).sort();
  const n = sorted.length;
  const at = (q: number): number => (n === 0 ? Number.NaN : sorted[Math.min(n - 1, Math.ceil(q * n) - 1)]!);
  const mean = n === 0 ? Number.NaN : sorted.reduce((a, b) => a + b, 0) / n;
  return { count: n, mean, p50: at(0.5), p90: at(0.9), p99: at(0.99), max: n === 0 ? Number.NaN : sorted[n - 1]! };
}

interface Life {
  readonly due: number;
  started: number;
}

export class Recorder {
  readonly #live = new Map<number, Life>();
  readonly #latency: number[] = [];
  readonly #queueing: number[] = [];
  readonly #computing: number[] = [];
  readonly #histogram: number[] = [];
  readonly #backlog: { time: number; size: number }[] = [];
  readonly #ends: number[] = [];
  readonly #busy: { from: number; to: number }[] = [];
  readonly #warmUp: number;
  readonly #instances: number;
  #arrived = 0;
  #refused = 0;
  #cancelled = 0;
  #calls = 0;
  #tasks = 0;
  #rows = 0;
  #useful = 0;
  #time = 0;
  #first = Number.NaN;
  #lastArrival = 0;
  #last = 0;

  /** Requests due before `warmUp` ms after the first are not counted in the distributions. */
  constructor(instances: number, warmUp = 0) {
    this.#instances = instances;
    this.#warmUp = warmUp;
  }

  arrived(key: number, due: number, accepted: boolean): void {
    if (Number.isNaN(this.#first)) this.#first = due;
    this.#arrived += 1;
    this.#lastArrival = this.#last = due;
    if (accepted) this.#live.set(key, { due, started: Number.NaN });
    else this.#refused += 1;
    this.#backlog.push({ time: due, size: this.#live.size });
  }

  /** Work of `ms` milliseconds starts on an instance at `now`, for these requests. */
  worked(now: number, ms: number, calls: readonly CellCall[], keys: readonly number[]): void {
    this.#tasks += 1;
    this.#time += ms;
    this.#busy.push({ from: now, to: now + ms });
    for (const { rows, times, useful } of calls) {
      this.#calls += times;
      this.#rows += rows * times;
      this.#useful += useful;
      this.#histogram[rows] = (this.#histogram[rows] ?? 0) + times;
    }
    for (const key of keys) {
      const life = this.#live.get(key);
      if (life !== undefined && Number.isNaN(life.started)) life.started = now;
    }
  }

  /** Computing of a request has started, where no work is told of. */
  started(key: number, now: number): void {
    const life = this.#live.get(key);
    if (life !== undefined) life.started = now;
  }

  finished(key: number, now: number): void {
    const life = this.#live.get(key);
    if (life === undefined) throw new RangeError(`request ${key} ends and is not there`);
    this.#live.delete(key);
    this.#last = now;
    this.#ends.push(now);
    if (life.due < this.#first + this.#warmUp) return;
    this.#latency.push(now - life.due);
    this.#queueing.push(life.started - life.due);
    this.#computing.push(now - life.started);
  }

  /** A request that was taken at first has been refused. */
  refused(key: number, now: number): void {
    if (this.#live.delete(key)) this.#refused += 1;
    this.#last = now;
  }

  cancelled(key: number, now: number): void {
    if (this.#live.delete(key)) this.#cancelled += 1;
    this.#last = now;
  }

  report(): Report {
    const from = this.#first + this.#warmUp;
    const to = this.#lastArrival;
    const span = Math.max(to - from, 1e-9);
    const arrivalRate = (1000 * (this.#arrived - 1)) / Math.max(to - this.#first, 1e-9);
    const growth = slope(this.#backlog.filter((b) => b.time >= from));
    const busy = this.#busy.reduce((sum, b) => sum + Math.max(0, Math.min(b.to, to) - Math.max(b.from, from)), 0);
    return {
      requests: {
        arrived: this.#arrived,
        finished: this.#ends.length,
        refused: this.#refused,
        cancelled: this.#cancelled,
      },
      seconds: (this.#last - this.#first) / 1000,
      arrivalRate,
      throughput: (1000 * this.#ends.filter((t) => t >= from && t <= to).length) / span,
      latency: distribution(this.#latency),
      queueing: distribution(this.#queueing),
      computing: distribution(this.#computing),
      batch: {
        tasks: this.#tasks,
        mean: this.#rows / this.#calls,
        histogram: Array.from(this.#histogram, (n) => n ?? 0),
        useful: this.#useful / this.#rows,
        stepTime: this.#time / this.#calls,
      },
      utilisation: busy / (span * this.#instances),
      backlog: {
        mean: this.#backlog.reduce((sum, b) => sum + b.size, 0) / this.#backlog.length,
        last: this.#backlog.at(-1)?.size ?? 0,
        growth,
        growthShare: growth / arrivalRate,
      },
      stable: growth < 0.02 * arrivalRate,
    };
  }
}

/** Slope of the least-squares line through the backlog, requests a second. */
function slope(points: readonly { time: number; size: number }[]): number {
  const n = points.length;
  if (n < 2) return 0;
  const meanTime = points.reduce((a, p) => a + p.time, 0) / n;
  const meanSize = points.reduce((a, p) => a + p.size, 0) / n;
  let above = 0;
  let below = 0;
  for (const { time, size } of points) {
    above += (time - meanTime) * (size - meanSize);
    below += (time - meanTime) ** 2;
  }
  return below === 0 ? 0 : (1000 * above) / below;
}
