// The load, estimated from arrivals alone: how many requests a second, and how irregular their gaps are. No clock: the
// caller says when it is.
//
// Averages run side by side, each forgetting exponentially. The slow one is steady, so that noise does not move
// decisions; the fast one notices a change. When they disagree by more than chance allows, the load has changed: the slow
// one is set to what a third, with the shortest memory, says of the last moment, and starts growing its memory again.
//
//   slow  ════════════════╗          memory horizon
//   fast  ~~~~~~~~~~~~~~~~╨~~~~~~    memory horizon/20; more than 4 σ apart: slow := the last moment
import { integerArgument, numberArgument } from './errors.js';

/** Gaps that count for the regularity of arrivals. */
const GAPS = 200;
/** Fast and shortest memory as shares of the slow one, and the disagreement that means a change (σ). */
const FAST = 1 / 20;
const SHORTEST = 1 / 100;
const SURPRISE = 4;
/** What a restart trusts of the shortest, as a share of its memory. */
const KEPT = 0.5;
/** Shortest time, as a share of a memory, that a rate is the quotient of. */
const LEAST = 1 / 200;

/** A rate over an exponentially fading memory; unbiased from the first moment. */
class FadingRate {
  readonly #memory: number; // ms
  #weight = 0; // arrivals, each counted e^(−age/memory)
  #seen = 0; // time, counted alike, as a share of the memory: 0 at the start, towards 1
  #last: number | undefined;

  constructor(memory: number) {
    this.#memory = memory;
  }

  advance(time: number): void {
    this.#last ??= time;
    if (time <= this.#last) return;
    const fade = Math.exp((this.#last - time) / this.#memory);
    this.#weight *= fade;
    this.#seen = 1 - (1 - this.#seen) * fade;
    this.#last = time;
  }

  add(count: number): void {
    this.#weight += count;
  }

  /** Arrivals a ms. What was seen for a moment only is taken as seen a little longer: a burst at once is no infinite rate. */
  get rate(): number {
    return this.#weight / (this.#memory * Math.max(this.#seen, LEAST));
  }

  /** How many arrivals the rate rests on, as if counted in a plain window of the same variance. */
  get count(): number {
    return (2 * this.#weight) / (2 - this.#seen);
  }

  /** Time it rests on, as if in a plain window, ms. */
  get span(): number {
    return (2 * this.#memory * this.#seen) / (2 - this.#seen);
  }

  /** Starts again with a given rate, trusted as if seen for `ms`. */
  restart(rate: number, ms: number): void {
    this.#seen = ms / this.#memory;
    this.#weight = rate * ms;
  }
}

/** Moving averages of gaps, in units of the expected gap, and of their squares. */
interface Shape {
  readonly gaps: number;
  readonly mean: number;
  readonly square: number;
}

/** Tracks arrival rate and Ca². Times in ms, from any origin, not going back. */
export class LoadEstimator {
  readonly #slow: FadingRate;
  readonly #fast: FadingRate;
  readonly #latest: FadingRate;
  readonly #fastMemory: number;
  #previous: number | undefined; // last arrival
  #shape: Shape = { gaps: 0, mean: 1, square: 2 };
  /** The shape as it was one to two checkpoints ago: gaps across a change of rate belong to neither and are forgotten. */
  #before: readonly [Shape, Shape] = [this.#shape, this.#shape];
  #checked: number | undefined;

  /** `horizon`: the slow memory in ms. */
  constructor(horizon: number) {
    this.#fastMemory = numberArgument('horizon', horizon, 1, 1e9) * FAST;
    this.#slow = new FadingRate(horizon);
    this.#fast = new FadingRate(this.#fastMemory);
    this.#latest = new FadingRate(horizon * SHORTEST);
  }

  /** `count` requests arrived at `time`. */
  arrived(time: number, count = 1): void {
    numberArgument('time', time, -Number.MAX_VALUE, Number.MAX_VALUE);
    integerArgument('count', count, 1, 1e6);
    this.#advance(time);
    if (this.#previous !== undefined) {
      for (let i = 0; i < Math.min(count, 4 * GAPS); i++) {
        // Relative to the rate of the moment, so that a load that rises or falls is not taken for a bursty one.
        const gap = i === 0 ? (time - this.#previous) * this.#slow.rate : 0;
        const { gaps, mean, square } = this.#shape;
        const share = Math.max(1 / GAPS, 1 / (gaps + 20));
        this.#shape = {
          gaps: gaps + 1,
          mean: mean + share * (gap - mean),
          square: square + share * (gap * gap - square),
        };
      }
    }
    this.#previous = time;
    this.#slow.add(count);
    this.#fast.add(count);
    this.#latest.add(count);
  }

  #advance(time: number): void {
    this.#slow.advance(time);
    this.#fast.advance(time);
    this.#latest.advance(time);
    const { rate: slow, span } = this.#slow;
    const { rate: fast, span: recent } = this.#fast;
    if (span > 2 * recent && recent > this.#fastMemory) {
      // A count of n has a variance of Ca²·n; +1 so that a very low rate is not surprised by one arrival.
      const chance = Math.sqrt((Math.max(1, this.ca2) * slow * recent + 1) * (1 + recent / span)) / recent;
      if (Math.abs(fast - slow) > SURPRISE * chance) {
        // The latest has seen least of what was before; but it must not undo what the fast one noticed.
        const latest = this.#latest.rate;
        const rate = fast > slow ? Math.max(fast, latest) : Math.min(fast, latest);
        this.#slow.restart(rate, KEPT * SHORTEST * (this.#fastMemory / FAST));
        this.#shape = this.#before[0];
      }
    }
    this.#checked ??= time;
    if (time - this.#checked < 2 * this.#fastMemory) return;
    this.#before = [this.#before[1], this.#shape];
    this.#checked = time;
  }

  /** Arrival rate, requests a second; 0 before any. */
  rate(time: number): number {
    this.#advance(time);
    return 1000 * this.#slow.rate;
  }

  /** False at the start and just after a change: the rate still contains much of what was before. */
  get settled(): boolean {
    return this.#slow.span >= this.#fastMemory;
  }

  /** Relative standard error of `rate` (1 when almost nothing was seen). */
  error(time: number): number {
    this.#advance(time);
    return Math.min(1, Math.sqrt(Math.max(1, this.ca2) / Math.max(1, this.#slow.count)));
  }

  /** Squared coefficient of variation of the gaps: near 1 for Poisson arrivals; 1 until enough gaps were seen. */
  get ca2(): number {
    const { gaps, mean, square } = this.#shape;
    return gaps < GAPS / 2 || mean <= 0 ? 1 : Math.max(0, square / mean ** 2 - 1);
  }
}
