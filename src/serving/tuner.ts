// `model.tune`: a request to measure with, a profile (stored, or measured now), a choice, and for `makespan` the proof of it:
// the best candidates are run whole, and the one fat instance wins unless one of them is faster.
//
//   sample ─▶ stored profile that fits? ─ no ─▶ profiler ─▶ store ─▶ optimizer (its own thread) ─▶ candidates run ─▶ choice
import { type Configuration, describe, keyOf } from '../optimizer/configuration.js';
import { verified } from '../optimizer/packrat.js';
import { Profile } from '../optimizer/profile.js';
import type { ModelInfo } from '../runtime/source.js';
import { SkepError } from '../tensor/errors.js';
import type { Adviser } from './adviser.js';
import { MOST_ROWS } from './dispatch.js';
import { orderFeeds } from './feeds.js';
import type { Host } from './host.js';
import { loadProfile, type ProfileKey, type StoredProfile, saveProfile } from './profile-store.js';
import { nothingMeasured, Profiler } from './profiler.js';
import { signatureOf, syntheticRequest } from './request-sample.js';
import type { RequestValues } from './requests.js';
import { checkObjective, type TunedCandidate, type TuneOptions, type TuneResult } from './tuning.js';

/** What tuning works with. */
export interface TunerParts {
  readonly host: Host;
  readonly info: ModelInfo;
  readonly adviser: Adviser;
  /** Threads of the engine. */
  readonly threads: number;
  readonly keyOf: (threads: number) => Promise<ProfileKey>;
}

/** A candidate must be so much faster than the fat instance to be believed. */
const MARGIN = 0.02;
/** Configurations that are run whole. */
const RUN = 4;

/** Everything but serving with it. `signal`: the caller's, or the model is closed. */
export async function tune(parts: TunerParts, options: TuneOptions): Promise<Omit<TuneResult, 'applied'>> {
  const { host, info, adviser } = parts;
  const { budget, threads, batch, objective } = check(options, parts.threads);
  const { signal, feeds, dims, fresh = false, arrivalRate, slo } = options;
  const request = sampleOf(host, info, feeds, dims);
  const signature = signatureOf(info, request);
  const key = await parts.keyOf(threads);
  const stored = fresh ? undefined : await loadProfile(key);
  const fits = stored?.request === signature && stored.complete && stored.batch >= batch;
  let profile = fits ? stored.profile : undefined;
  let complete = fits;
  let candidates: TunedCandidate[] = [];
  let chosen: { configuration: Configuration; reasons: readonly string[] } | undefined;
  const profiler = new Profiler({ host, request, threads, batch, budget, signal, onProgress: options.onProgress });
  const measure = async () => {
    if (profile === undefined) {
      profile = await profileOf(profiler, signal);
      complete = profiler.complete;
      const found: StoredProfile = { profile, request: signature, batch, complete };
      // Half a profile is better than none, but not than a whole one.
      if (complete || stored === undefined || !stored.complete) await saveProfile(key, found);
    }
    if (objective === 'makespan') {
      const largest = Math.max(...profile.threads.map((t) => profile!.largest(t)));
      const rows = Math.min(batch, largest);
      const result = await adviser.ask('optimize', {
        profile: profile.toJSON(),
        options: { threads, batch: rows, candidates: RUN },
      });
      const measured: (number | undefined)[] = [];
      for (const c of result.candidates) measured.push(await profiler.measureWhole(c.configuration));
      candidates = result.candidates.map((c, i) => ({
        configuration: c.configuration,
        predicted: c.latency,
        measured: measured[i],
      }));
      const reasons = [...result.reasons];
      if (rows < batch) reasons.push(`for ${rows} rows: no batch of ${batch} was measured`);
      const runs = measured.filter((m) => m !== undefined);
      // One alone proves nothing.
      if (runs.length < 2) chosen = { configuration: result.configuration, reasons };
      else {
        const best = verified(result, measured, MARGIN);
        const same = keyOf(best.configuration) === keyOf(result.configuration);
        const took = `run whole, ${describe(best.configuration)} took ${best.measured.toFixed(2)} ms`;
        reasons.push(
          same ? took : `${took}: that is kept, for the predicted one was not faster by more than ${100 * MARGIN} %`,
        );
        chosen = { configuration: best.configuration, reasons };
      }
    } else {
      const result = await adviser.ask('choose', {
        profile: profile.toJSON(),
        options: {
          ...{ threads, objective, maxBatch: batch },
          ...(arrivalRate !== undefined && { arrivalRate }),
          ...(slo !== undefined && { slo }),
        },
      });
      candidates = result.candidates.map((c) => ({
        configuration: c.configuration,
        predicted: c.value,
        measured: undefined,
      }));
      chosen = { configuration: result.configuration, reasons: result.reasons };
    }
  };
  await profiler.during(measure);
  return {
    ...{ profile: profile!, objective, candidates, complete, source: fits ? 'stored' : 'measured' },
    ...chosen!,
  };
}

/** The request to measure with. */
function sampleOf(host: Host, info: ModelInfo, feeds: TuneOptions['feeds'], dims: TuneOptions['dims']): RequestValues {
  if (feeds !== undefined) return { inputs: orderFeeds(info, feeds, () => {}), wanted: info.outputs.map((_, i) => i) };
  return (dims === undefined ? host.sample : undefined) ?? syntheticRequest(info, dims);
}

/** What a profiler could measure; at least one number. */
async function profileOf(profiler: Profiler, signal: AbortSignal | undefined): Promise<Profile> {
  await profiler.measureLatency();
  if (!profiler.measured) throw nothingMeasured(signal);
  await profiler.measureInterference();
  return Profile.from(profiler.measurements);
}

function check(options: TuneOptions, most: number) {
  const { budget = 30, threads = most, batch = 16, objective = 'makespan', signal, arrivalRate, slo } = options;
  if (!(budget > 0) || budget > 86_400) throw invalid(`budget must be a number of seconds up to a day, got ${budget}`);
  if (!Number.isInteger(threads) || threads < 1 || threads > most)
    throw invalid(`threads must be an integer from 1 to the engine's ${most}, got ${threads}`);
  if (!Number.isInteger(batch) || batch < 1 || batch > MOST_ROWS)
    throw invalid(`batch must be an integer from 1 to ${MOST_ROWS}, got ${batch}`);
  if (signal != null && typeof signal.addEventListener !== 'function') throw invalid('signal must be an AbortSignal');
  // What would be refused after measuring is refused before.
  checkObjective(objective, slo);
  if ((objective === 'mean' || objective === 'p99' || objective === 'threads') && !(arrivalRate! > 0))
    throw invalid(`objective '${objective}' needs arrivalRate, in requests a second`);
  return { budget: 1000 * budget, threads, batch, objective };
}

function invalid(message: string): SkepError {
  return new SkepError('INVALID_INPUT', message);
}
