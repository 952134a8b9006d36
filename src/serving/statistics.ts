// Counts and latencies of one model, cheap enough to keep always: totals, and percentiles over the last requests.

/** How many of the last requests percentiles are taken over. */
const WINDOW = 1024;

/** Milliseconds over the last 1,024 answered requests; all 0 before the first. */
export interface Percentiles {
  readonly mean: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly max: number;
}

/** What `model.stats()` gives. */
export interface ModelStatistics {
  readonly answered: number;
  readonly failed: number;
  readonly aborted: number;
  readonly timedOut: number;
  /** Refused because the queue was full. */
  readonly refused: number;
  /** Queued or running now. */
  readonly pending: number;
  /** What was computed together: `tasks[n]` tasks had n requests; a task may have `maxRows` rows now. */
  readonly batches: { readonly maxRows: number; readonly tasks: Readonly<Record<number, number>> };
  /** From submit to the moment an instance took it, ms. */
  readonly queued: Percentiles;
  /** On the instance, ms. */
  readonly computing: Percentiles;
}

/** The last samples of one quantity. */
class Window {
  readonly #samples = new Float64Array(WINDOW);
  #count = 0;

  add(x: number): void {
    this.#samples[this.#count++ % WINDOW] = x;
  }

  percentiles(): Percentiles {
    const n = Math.min(this.#count, WINDOW);
    if (n === 0) return { mean: 0, p50: 0, p90: 0, p99: 0, max: 0 };
    const sorted = this.#samples.slice(0, n).sort();
    const at = (q: number) => sorted[Math.min(n - 1, Math.floor(q * n))]!;
    return { mean: sorted.reduce((a, b) => a + b) / n, p50: at(0.5), p90: at(0.9), p99: at(0.99), max: sorted[n - 1]! };
  }
}

/** How a request ended, as counted. */
export type Ending = 'answered' | 'failed' | 'aborted' | 'timedOut' | 'refused';

export class Statistics {
  readonly #counts: Record<Ending, number> = { answered: 0, failed: 0, aborted: 0, timedOut: 0, refused: 0 };
  readonly #queued = new Window();
  readonly #computing = new Window();

  count(ending: Ending): void {
    this.#counts[ending]++;
  }

  time(queued: number, computing: number): void {
    this.#queued.add(queued);
    this.#computing.add(computing);
  }

  snapshot(pending: number, batches: ModelStatistics['batches']): ModelStatistics {
    return {
      ...this.#counts,
      pending,
      batches,
      queued: this.#queued.percentiles(),
      computing: this.#computing.percentiles(),
    };
  }
}
