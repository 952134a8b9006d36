// The profile, kept honest: live batches show how long L[t][b]·S[k] really takes. Per number of busy instances a moving
// average of observed over expected is kept. With one instance busy it is the machine that changed (a slower clock, a
// neighbour process): every time is scaled. What is left with k busy is interference: S[k] is corrected. Small deviations
// are left alone, so that predictions do not move with noise; large ones are reported as drift.
import type { Profile } from './profile.js';

/** How far live times are from the profile. */
export interface Drift {
  /** Busy instances. */
  readonly busy: number;
  /** Observed over expected time; 1.3: 30 % slower than profiled. */
  readonly ratio: number;
  readonly samples: number;
}

/** Weight of a new batch, batches before an average counts, deviation acted upon, deviation reported. */
const ALPHA = 0.02;
const ENOUGH = 30;
const ACT = 0.05;
const REPORT = 0.2;

export class ProfileCorrection {
  readonly #original: Profile;
  readonly #ratios = new Map<number, { ratio: number; samples: number }>();
  #applied = new Map<number, number>();
  #current: Profile;

  constructor(profile: Profile) {
    this.#original = profile;
    this.#current = profile;
  }

  /** The corrected profile; the same object until a correction changes. */
  get profile(): Profile {
    return this.#current;
  }

  /** A batch of `rows` took `ms` on an instance of `threads` threads while `busy` instances ran, itself included, on average. */
  observe(threads: number, rows: number, ms: number, busy: number): void {
    const k = Math.round(busy);
    // Half-way between two counts it says little about either.
    if (!(ms > 0) || !Number.isFinite(ms) || !(k >= 1) || k > 1024 || Math.abs(busy - k) > 0.25) return;
    const expected = this.#original.latency(threads, rows) * this.#original.factor(k, threads, rows);
    if (!Number.isFinite(expected)) return;
    const seen = this.#ratios.get(k) ?? { ratio: 0, samples: 0 };
    seen.samples++;
    // One stalled batch must not move the average by more than a few of the usual ones.
    const ratio = Math.min(ms / expected, seen.samples > ENOUGH ? 2 * seen.ratio : 4 * Math.max(1, seen.ratio));
    seen.ratio += Math.max(ALPHA, 1 / seen.samples) * (ratio - seen.ratio);
    this.#ratios.set(k, seen);
  }

  /** Applies what has been seen; true when the profile changed. */
  update(): boolean {
    const wanted = new Map<number, number>();
    for (const [k, { ratio, samples }] of this.#ratios) if (samples >= ENOUGH) wanted.set(k, ratio);
    const moved = [...wanted].some(([k, ratio]) => Math.abs(ratio / (this.#applied.get(k) ?? 1) - 1) > ACT);
    if (!moved) return false;
    this.#applied = wanted;
    const scale = wanted.get(1) ?? 1;
    const corrections = new Map([...wanted].filter(([k]) => k > 1).map(([k, ratio]) => [k, ratio / scale]));
    this.#current = this.#original.scaled(scale).corrected(corrections);
    return true;
  }

  /** Where live times are more than 20 % from the profile, most busy last. */
  drift(): Drift[] {
    return [...this.#ratios]
      .filter(([, { ratio, samples }]) => samples >= ENOUGH && Math.abs(ratio - 1) > REPORT)
      .map(([busy, { ratio, samples }]) => ({ busy, ratio, samples }))
      .sort((x, y) => x.busy - y.busy);
  }
}
