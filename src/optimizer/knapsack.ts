// The inner question of the optimizer: can T threads do B rows when every instance must end within m milliseconds, and
// with which instances? Turning the makespan around like this (fix it, ask whether it is possible, search over it) makes
// the two-dimensional table of the paper a one-dimensional one:
//
//   measured sizes   cheapest thread count for every measured size, then the fewest threads that add up to exactly B
//   any size         largest batch for every thread count, then the largest sum of batches on T threads (at least B will
//                    do: rows are then taken away until it is exact, which makes no instance slower)
//
// Both take a bound on the number of instances, because interference is a function of it. What the makespan should be,
// and what the answer is worth, is packrat.ts's business.
import type { Profile } from './profile.js';

/** One instance of a solution. */
export interface Item {
  readonly threads: number;
  readonly batch: number;
}

/** Only (t, b) whose interference factor with `instances` running at once is at most `factor` may be used. */
export interface Limit {
  readonly instances: number;
  readonly factor: number;
}

export interface Knapsack {
  /** The largest single-instance time that is at most `ms`; 0 when there is none. */
  down(ms: number): number;
  /** The smallest single-instance time above `ms`; Infinity when there is none. */
  up(ms: number): number;
  /** Whether B rows fit on T threads within `ms` (isolated time an instance). */
  fits(ms: number, limit: Limit): boolean;
  /** Instances for it: the fewest, and among those with the fewest threads. Undefined when it does not fit. */
  pack(ms: number, limit: Limit): Item[] | undefined;
}

/** Batches of measured sizes only, adding up to exactly `batch`: the paper's problem. */
export class MeasuredKnapsack implements Knapsack {
  readonly #profile: Profile;
  readonly #threads: number;
  readonly #batch: number;
  readonly #times: Float64Array;
  /** For every size: its (threads, ms), fewest threads first. */
  readonly #bySize: { readonly size: number; readonly options: { threads: number; ms: number }[] }[] = [];

  constructor(profile: Profile, threads: number, batch: number) {
    this.#profile = profile;
    this.#threads = threads;
    this.#batch = batch;
    const sizes = new Map<number, { threads: number; ms: number }[]>();
    for (const t of profile.threads) {
      if (t > threads) break;
      for (const size of profile.sizes(t)) {
        if (size > batch) break;
        if (!sizes.has(size)) sizes.set(size, []);
        sizes.get(size)!.push({ threads: t, ms: profile.measured(t, size)! });
      }
    }
    for (const [size, options] of [...sizes].sort((x, y) => y[0] - x[0])) this.#bySize.push({ size, options });
    this.#times = Float64Array.from(
      this.#bySize.flatMap((s) => s.options.map((o) => o.ms)),
      (ms) => ms,
    ).sort();
  }

  down(ms: number): number {
    return this.#times.findLast((time) => time <= ms) ?? 0;
  }

  up(ms: number): number {
    return this.#times.find((time) => time > ms) ?? Number.POSITIVE_INFINITY;
  }

  /** The cheapest thread count for every size that can end within `ms`. */
  #items(ms: number, { instances, factor }: Limit): Item[] {
    const items: Item[] = [];
    for (const { size, options } of this.#bySize) {
      const best = options.find((o) => o.ms <= ms && this.#profile.factor(instances, o.threads, size) <= factor);
      if (best) items.push({ threads: best.threads, batch: size });
    }
    return items;
  }

  fits(ms: number, limit: Limit): boolean {
    const need = new Float64Array(this.#batch + 1).fill(Number.POSITIVE_INFINITY);
    need[0] = 0;
    for (const { threads, batch } of this.#items(ms, limit)) {
      for (let b = batch; b <= this.#batch; b++) need[b] = Math.min(need[b], need[b - batch] + threads);
    }
    if (need[this.#batch] > this.#threads) return false;
    // Cheap and without the bound on instances: only where that fits is it worth counting them.
    return limit.instances >= Math.min(this.#threads, this.#batch) || this.pack(ms, limit) !== undefined;
  }

  pack(ms: number, limit: Limit): Item[] | undefined {
    const items = this.#items(ms, limit);
    const most = Math.min(limit.instances, this.#threads, this.#batch);
    // need[k][b]: fewest threads with which exactly k instances do exactly b rows.
    const need: Float64Array[] = [new Float64Array(this.#batch + 1).fill(Number.POSITIVE_INFINITY)];
    need[0][0] = 0;
    for (let k = 1; k <= most; k++) {
      const row = new Float64Array(this.#batch + 1).fill(Number.POSITIVE_INFINITY);
      for (const { threads, batch } of items) {
        for (let b = batch; b <= this.#batch; b++) row[b] = Math.min(row[b], need[k - 1][b - batch] + threads);
      }
      need.push(row);
      if (row[this.#batch] > this.#threads) continue;
      const chosen: Item[] = [];
      for (let j = k, b = this.#batch; j > 0; j--) {
        const item = items.find((i) => i.batch <= b && need[j - 1][b - i.batch] + i.threads === need[j][b])!;
        chosen.push(item);
        b -= item.batch;
      }
      return chosen;
    }
    return undefined;
  }
}

/** Batches of any size, times interpolated between the measured ones (monotone, so more rows never take less time). */
export class AnyKnapsack implements Knapsack {
  readonly #profile: Profile;
  readonly #threads: number;
  readonly #batch: number;
  readonly #rows: readonly number[];

  constructor(profile: Profile, threads: number, batch: number) {
    this.#profile = profile;
    this.#threads = threads;
    this.#batch = batch;
    this.#rows = profile.threads.filter((t) => t <= threads);
  }

  /** Largest b ≤ limit that t threads finish within `ms`; 0 when there is none. */
  #largest(t: number, ms: number, limit = Math.min(this.#batch, this.#profile.largest(t))): number {
    let low = 0;
    let high = limit;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#profile.latency(t, middle) <= ms) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  down(ms: number): number {
    let best = 0;
    for (const t of this.#rows) {
      const b = this.#largest(t, ms);
      if (b > 0) best = Math.max(best, this.#profile.latency(t, b));
    }
    return best;
  }

  up(ms: number): number {
    let best = Number.POSITIVE_INFINITY;
    for (const t of this.#rows) {
      const b = this.#largest(t, ms) + 1;
      if (b <= this.#batch) best = Math.min(best, this.#profile.latency(t, b));
    }
    return best;
  }

  /** The largest permitted batch for every thread count: as an array by thread count, 0 where there is none. */
  #batches(ms: number, { instances, factor }: Limit): Int32Array {
    const batches = new Int32Array(this.#threads + 1);
    for (const t of this.#rows) {
      let b = this.#largest(t, ms);
      // A factor that depends on b has few steps (one a measured point): walk down to a batch that may be used.
      while (b > 0 && this.#profile.factor(instances, t, b) > factor) {
        let low = 0;
        let high = b - 1;
        const refused = this.#profile.factor(instances, t, b);
        while (low < high) {
          const middle = (low + high + 1) >> 1;
          if (this.#profile.factor(instances, t, middle) !== refused) low = middle;
          else high = middle - 1;
        }
        b = high > 0 && this.#profile.factor(instances, t, high) === refused ? 0 : high;
      }
      batches[t] = b;
    }
    return batches;
  }

  fits(ms: number, limit: Limit): boolean {
    const batches = this.#batches(ms, limit);
    const options = this.#rows.filter((t) => batches[t] > 0);
    const most = new Float64Array(this.#threads + 1);
    for (const t of options) {
      for (let n = t; n <= this.#threads; n++) most[n] = Math.max(most[n], most[n - t] + batches[t]);
    }
    if (most[this.#threads] < this.#batch) return false;
    return (
      limit.instances >= Math.min(this.#threads, this.#batch) || this.#count(batches, options, limit) !== undefined
    );
  }

  /** most[k][n]: most rows of at most k instances on at most n threads, up to the first k that is enough. */
  #count(batches: Int32Array, options: readonly number[], limit: Limit): Float64Array[] | undefined {
    const most = [new Float64Array(this.#threads + 1)];
    for (let k = 1; k <= Math.min(limit.instances, this.#threads, this.#batch); k++) {
      const before = most[k - 1];
      const row = before.slice();
      for (const t of options) {
        for (let n = t; n <= this.#threads; n++) {
          if (before[n - t] + batches[t] > row[n]) row[n] = before[n - t] + batches[t];
        }
      }
      most.push(row);
      if (row[this.#threads] >= this.#batch) return most;
    }
    return undefined;
  }

  pack(ms: number, limit: Limit): Item[] | undefined {
    const batches = this.#batches(ms, limit);
    const options = this.#rows.filter((t) => batches[t] > 0);
    const most = this.#count(batches, options, limit);
    if (most === undefined) return undefined;
    const items: { threads: number; batch: number }[] = [];
    let n = most[most.length - 1].findIndex((rows) => rows >= this.#batch);
    for (let k = most.length - 1; k > 0; k--) {
      const t = options.find((o) => o <= n && most[k - 1][n - o] + batches[o] === most[k][n]);
      if (t === undefined) continue; // one instance fewer does the same
      items.push({ threads: t, batch: batches[t] });
      n -= t;
    }
    // Give back what is too many, always from the instance that is slowest at that moment.
    let surplus = items.reduce((sum, item) => sum + item.batch, 0) - this.#batch;
    for (; surplus > 0; surplus--) {
      let slowest = items[0];
      for (const item of items) {
        const ahead =
          this.#profile.latency(item.threads, item.batch) - this.#profile.latency(slowest.threads, slowest.batch);
        if (item.batch > 1 && (slowest.batch === 1 || ahead > 0 || (ahead === 0 && item.batch > slowest.batch))) {
          slowest = item;
        }
      }
      slowest.batch--;
    }
    return items;
  }
}
