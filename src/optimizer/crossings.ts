// Where one configuration overtakes another as the load grows: what `predict` tables mark and what the controller's
// decisions turn on. Typically few threads per request and many instances at high load, the other way round at low load.
import { type Configuration, instancesOf } from './configuration.js';
import { integerArgument, numberArgument } from './errors.js';
import { predict } from './predict.js';
import { Profile, type ProfileInput } from './profile.js';

/** From `arrivalRate` requests a second on, `above` is better than `below`. */
export interface Crossing {
  readonly arrivalRate: number;
  readonly below: Configuration;
  readonly above: Configuration;
}

/**
 * Where the best configuration of a list changes with the load, by mean latency, between two rates (requests a second). An
 * empty list: one of them is best throughout. To 0.1 % for batch 1 and for single instances; where means are simulated, to
 * what the simulation resolves.
 */
export function crossings(
  profile: ProfileInput,
  options: {
    configurations: readonly Configuration[];
    from: number;
    to: number;
    ca2?: number;
    steps?: number;
    requests?: number;
  },
): Crossing[] {
  const table = Profile.from(profile);
  const from = numberArgument('from', options.from, Number.MIN_VALUE, 1e9);
  const to = numberArgument('to', options.to, from, 1e9);
  const steps = integerArgument('steps', options.steps ?? 64, 1, 100_000);
  const { configurations, ca2, requests } = options;
  const best = (arrivalRate: number): Configuration | undefined => {
    let least = Number.POSITIVE_INFINITY;
    let found: Configuration | undefined;
    for (const configuration of configurations) {
      const { latency } = predict(table, { configuration, arrivalRate, ca2, requests, tails: false });
      if (latency < least || (latency === least && found && instancesOf(configuration) < instancesOf(found))) {
        least = latency;
        found = configuration;
      }
    }
    return found;
  };
  const result: Crossing[] = [];
  let rate = from;
  let below = best(from);
  for (let i = 1; i <= steps; i++) {
    const next = from + ((to - from) * i) / steps;
    const above = best(next);
    if (above !== undefined && below !== undefined && above !== below) {
      let low = rate;
      let high = next;
      while (high - low > 0.001 * high) {
        const middle = (low + high) / 2;
        if (best(middle) === below) low = middle;
        else high = middle;
      }
      result.push({ arrivalRate: (low + high) / 2, below, above: best(high) ?? above });
    }
    rate = next;
    below = above;
  }
  return result;
}
