// How many cores does a load need? For every thread count and batch of a profile the fewest equal instances that keep the
// SLO, found by running the load itself through a simulation; the least product of instances and threads is the answer.
//
//   instances ──▶ 1 … enough for the work ─── grow by a quarter until it holds ─── halve back to the last that does not
//
// Growing from below finds the least number also where more instances stop helping (interference takes it all).
import type { Configuration } from '../optimizer/configuration.js';
import type { Profile } from '../optimizer/profile.js';

/** What a simulation of a configuration showed, ms. */
export interface Outcome {
  readonly mean: number;
  readonly p99: number;
}

export interface CoresQuestion {
  readonly profile: Profile;
  /** What latency must not be above, ms. */
  readonly slo: { readonly mean?: number; readonly p99?: number };
  /** There are no more than these. */
  readonly cores: number;
  /** Batch sizes to try; default the measured ones. */
  readonly batches?: readonly number[];
  /** Least instances that can keep up at all: what the load asks for, over what one gives. */
  readonly least: (threads: number, batch: number) => number;
  readonly simulate: (configuration: Configuration) => Outcome;
}

/** The fewest cores with one thread count. */
export interface CoresAnswer extends Outcome {
  readonly cores: number;
  readonly configuration: Configuration;
}

/** The answer for every thread count that has one, fewest cores first; empty when the SLO cannot be kept. */
export function fewestCores(question: CoresQuestion): CoresAnswer[] {
  const { profile, slo, cores } = question;
  const { mean = Number.POSITIVE_INFINITY, p99 = Number.POSITIVE_INFINITY } = slo;
  const answers: CoresAnswer[] = [];
  for (const threads of profile.threads) {
    let best: CoresAnswer | undefined;
    for (const batch of question.batches ?? profile.sizes(threads)) {
      if (!Number.isFinite(profile.latency(threads, batch)) || profile.latency(threads, 1) > Math.min(mean, p99))
        continue;
      const most = Math.floor(Math.min(cores, best?.cores ?? cores) / threads);
      const at = (instances: number): CoresAnswer | undefined => {
        const configuration = [{ instances, threads, batch }];
        const outcome = question.simulate(configuration);
        const holds = outcome.mean <= mean && outcome.p99 <= p99;
        return holds ? { ...outcome, cores: instances * threads, configuration } : undefined;
      };
      const found = leastThatHolds(Math.max(1, Math.ceil(question.least(threads, batch))), most, at);
      if (found !== undefined && (best === undefined || compare(found, best) < 0)) best = found;
    }
    if (best !== undefined) answers.push(best);
  }
  return answers.sort(compare);
}

function compare(a: CoresAnswer, b: CoresAnswer): number {
  return a.cores - b.cores || a.p99 - b.p99;
}

/** The answer of the least whole number of [from, to] that has one, assuming that once there is one larger ones have it. */
function leastThatHolds<T>(from: number, to: number, at: (n: number) => T | undefined): T | undefined {
  let low = from - 1; // has none
  let high = from;
  let found: T | undefined;
  while (high <= to) {
    found = at(high);
    if (found !== undefined) break;
    low = high;
    if (high === to) return undefined;
    high = Math.min(to, high + Math.max(1, Math.floor(high / 4)));
  }
  while (found !== undefined && high - low > 1) {
    const middle = (low + high) >> 1;
    const better = at(middle);
    if (better === undefined) low = middle;
    else [high, found] = [middle, better];
  }
  return found;
}
