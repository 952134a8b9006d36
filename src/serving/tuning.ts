// What `model.tune` takes and gives, and what is told when a model is served in another way. The words of this page are
// the public ones; measuring is profiler.ts, choosing is the optimizer's, following the load is live-controller.ts.
import type { Objective, Slo } from '../optimizer/choose.js';
import type { Configuration } from '../optimizer/configuration.js';
import type { Decision } from '../optimizer/controller.js';
import type { Profile } from '../optimizer/profile.js';
import { SkepError } from '../tensor/errors.js';
import type { Feeds } from './feeds.js';

/** What a configuration is to be good at; `makespan`: one batch of `batch` rows as fast as possible (Packrat). */
export type TuneObjective = Objective | 'makespan';

/** Options of `model.tune`. */
export interface TuneOptions {
  /** Seconds that measuring may take in all; when they are over, what has been measured decides. Default 30. */
  readonly budget?: number;
  /** Threads the model may use; default, and at most, the engine's. */
  readonly threads?: number;
  /** The largest batch to measure, in rows, and for `makespan` the batch to be computed. Default 16, at most 1,024. */
  readonly batch?: number;
  /**
   * A request to measure with. Default: one like the last that came; before the first, zeros of the declared shapes, with
   * what `dims` says of the dimensions that have a name, and 1 for those it does not.
   */
  readonly feeds?: Feeds;
  readonly dims?: Readonly<Record<string, number>>;
  /** Default `makespan`. The others need `arrivalRate`, `threads` and `throughput` need `slo`. */
  readonly objective?: TuneObjective;
  /** Requests a second. */
  readonly arrivalRate?: number;
  readonly slo?: Slo;
  /** Serve with what was chosen. Default false. A model that is left to the load takes the profile over instead, always. */
  readonly apply?: boolean;
  /** True: measure though there is a stored profile that fits. Default false. */
  readonly fresh?: boolean;
  /** Stops measuring; what has been measured decides. Rejects with `ABORTED` when that is nothing. */
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: TuneProgress) => void;
}

/** One measurement that `tune` has made. */
export interface TuneProgress {
  /** `latency`: L[t][b], alone. `interference`: the same while several instances run. `candidates`: a configuration, whole. */
  readonly phase: 'latency' | 'interference' | 'candidates';
  readonly configuration: Configuration;
  /** Of one batch on one instance; for `candidates` until the last instance is done. */
  readonly milliseconds: number;
  /** Seconds since `tune` began, of so many. */
  readonly elapsed: number;
  readonly budget: number;
}

/** A configuration that was considered. */
export interface TunedCandidate {
  readonly configuration: Configuration;
  /** What was predicted for the objective: ms for `makespan`, `mean` and `p99`, threads, or requests a second. */
  readonly predicted: number;
  /** Milliseconds until all instances had done their batches, run once at the same time; undefined: it was not run. */
  readonly measured: number | undefined;
}

/** What `model.tune` gives. */
export interface TuneResult {
  readonly profile: Profile;
  readonly objective: TuneObjective;
  /** The configuration chosen. */
  readonly configuration: Configuration;
  /** Why, a sentence each. */
  readonly reasons: readonly string[];
  /** Best first by prediction, the one fat instance among them. */
  readonly candidates: readonly TunedCandidate[];
  /** False: the budget or the signal ended measuring before everything had been measured. */
  readonly complete: boolean;
  /** Whether the profile was measured now or came from the cache folder. */
  readonly source: 'measured' | 'stored';
  /** Whether the model serves with it now. */
  readonly applied: boolean;
}

/** Told to listeners of `model.onConfigured`. */
export interface ConfigurationChange {
  readonly before: Configuration;
  readonly configuration: Configuration;
  /** A sentence for people. */
  readonly reason: string;
  /**
   * `configure` and `tune`: somebody asked. `controller`: the load has changed (`decision` has the numbers). `replaced`: an
   * instance had died and another has taken its place.
   */
  readonly cause: 'configure' | 'tune' | 'controller' | 'replaced';
  readonly decision?: Decision;
}

/** Which stored profile is meant: that of so many threads, default the engine's. */
export interface StoredProfileOptions {
  readonly threads?: number;
}

/** Throws INVALID_INPUT for an objective that is none, or lacks what it needs. */
export function checkObjective(objective: TuneObjective, slo: Slo | undefined): void {
  if (!['makespan', 'mean', 'p99', 'threads', 'throughput'].includes(objective))
    throw new SkepError(
      'INVALID_INPUT',
      `objective must be 'makespan', 'mean', 'p99', 'threads' or 'throughput', got '${String(objective)}'`,
    );
  for (const key of ['mean', 'p99'] as const)
    if (slo?.[key] !== undefined && !(slo[key] > 0 && slo[key] < 1e12))
      throw new SkepError('INVALID_INPUT', `slo.${key} must be a number of milliseconds, got ${String(slo[key])}`);
  if ((objective === 'threads' || objective === 'throughput') && slo?.mean === undefined && slo?.p99 === undefined)
    throw new SkepError('INVALID_INPUT', `objective '${objective}' needs slo: { mean } or { p99 }, in ms`);
}
