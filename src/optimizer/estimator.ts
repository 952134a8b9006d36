// How many requests wait together: Packrat's batch estimate (section 3.4), made steady. The queue is sampled many times a
// timeout; a moving average of the samples, rounded to a power of two, is one vote a timeout; the majority of the last
// votes is the estimate. Two changes make it usable: the average is rounded before it is floored (15.9997 is 16), and the
// present power is left downwards only when the average falls well below it, so that noise around a power does not flap.
//
//   samples ──▶ moving average ──▶ power of two, with hysteresis ──▶ mode of the last votes ──▶ estimate
//   200 a vote     α = 0.1            down below 0.6 of the present      10 votes
import { integerArgument, numberArgument } from './errors.js';

export interface EstimatorOptions {
  /** Weight of a new sample (default 0.1). */
  readonly alpha?: number;
  /** Samples a timeout (default 200). */
  readonly samples?: number;
  /** Votes the mode is taken of (default 10). */
  readonly votes?: number;
  /** Share of the present power below which the average must fall to leave it downwards (default 0.6). */
  readonly lower?: number;
  /** First estimate (default 1) and the largest (default 1,024). Powers of two. */
  readonly initial?: number;
  readonly largest?: number;
}

/** Estimates the batch from queue samples. Not for negative feedback: it does not know what the answer is used for. */
export class BatchEstimator {
  readonly #alpha: number;
  readonly #samples: number;
  readonly #most: number;
  readonly #lower: number;
  readonly #largest: number;
  #average: number | undefined;
  #count = 0;
  #votes: number[] = [];
  #estimate: number;

  constructor(options: EstimatorOptions = {}) {
    this.#alpha = numberArgument('alpha', options.alpha ?? 0.1, 1e-6, 1);
    this.#samples = integerArgument('samples', options.samples ?? 200, 1, 1e6);
    this.#most = integerArgument('votes', options.votes ?? 10, 1, 1000);
    this.#lower = numberArgument('lower', options.lower ?? 0.6, 0, 1);
    this.#largest = powerOfTwo(integerArgument('largest', options.largest ?? 1024, 1, 2 ** 16));
    this.#estimate = Math.min(this.#largest, powerOfTwo(integerArgument('initial', options.initial ?? 1, 1, 2 ** 16)));
  }

  /** The present estimate, a power of two. */
  get estimate(): number {
    return this.#estimate;
  }

  /** The moving average of the queue. */
  get average(): number {
    return this.#average ?? 0;
  }

  /** One sample of the queue (requests waiting or in service). True when a timeout ended and the estimate changed. */
  sample(queue: number): boolean {
    numberArgument('queue', queue, 0, Number.MAX_SAFE_INTEGER);
    this.#average = this.#average === undefined ? queue : this.#alpha * queue + (1 - this.#alpha) * this.#average;
    if (++this.#count < this.#samples) return false;
    this.#count = 0;
    return this.#vote(Math.round(this.#average));
  }

  #vote(average: number): boolean {
    const power = Math.min(this.#largest, powerOfTwo(Math.max(1, average)));
    const present = this.#estimate;
    this.#votes.push(power < present && average >= this.#lower * present ? present : power);
    if (this.#votes.length > this.#most) this.#votes.shift();
    const counts = new Map<number, number>();
    for (const vote of this.#votes) counts.set(vote, (counts.get(vote) ?? 0) + 1);
    let best = present; // stays on a tie
    let votes = counts.get(present) ?? 0;
    for (const [vote, count] of counts) {
      if (count > votes) {
        best = vote;
        votes = count;
      }
    }
    this.#estimate = best;
    return best !== present;
  }
}

/** The largest power of two that is at most n (n ≥ 1). */
function powerOfTwo(n: number): number {
  return 2 ** Math.floor(Math.log2(n));
}
