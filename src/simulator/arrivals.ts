// When requests come: open loop, so nobody waits for an answer before asking again. A process gives the times of the
// first `count` arrivals in milliseconds. Rates are requests a second.

import type { Random } from './random.js';

export type ArrivalProcess =
  | { readonly kind: 'poisson'; readonly rate: number }
  | { readonly kind: 'constant'; readonly rate: number }
  /** Poisson whose rate is `burst` × the mean in bursts that fill `share` of the time; the mean rate stays `rate`. */
  | {
      readonly kind: 'bursty';
      readonly rate: number;
      readonly burst: number;
      readonly share: number;
      readonly meanBurst: number;
    }
  /** Gaps in ms as recorded, begun anew at their end, scaled so that the mean rate is `rate` (if given). */
  | { readonly kind: 'trace'; readonly gaps: ArrayLike<number>; readonly rate?: number };

export function arrivals(process: ArrivalProcess, count: number, random: Random): Float64Array {
  const times = new Float64Array(count);
  switch (process.kind) {
    case 'poisson':
      for (let i = 0, t = 0; i < count; i++) times[i] = t += random.exponential(1000 / positive(process.rate));
      return times;
    case 'constant':
      for (let i = 0; i < count; i++) times[i] = ((i + 1) * 1000) / positive(process.rate);
      return times;
    case 'bursty':
      return bursty(process, times, random);
    case 'trace': {
      let total = 0;
      for (let i = 0; i < process.gaps.length; i++) total += process.gaps[i]!;
      if (!(total > 0)) throw new RangeError('a trace needs gaps that sum to more than 0 ms');
      const mean = total / process.gaps.length;
      const scale = process.rate === undefined ? 1 : 1000 / positive(process.rate) / mean;
      for (let i = 0, t = 0; i < count; i++) times[i] = t += scale * process.gaps[i % process.gaps.length]!;
      return times;
    }
    default:
      return process satisfies never;
  }
}

/** A Poisson process switched between two rates; both kinds of period have exponential lengths. */
function bursty(p: Extract<ArrivalProcess, { kind: 'bursty' }>, times: Float64Array, random: Random): Float64Array {
  const { rate, burst, share, meanBurst } = p;
  if (!(share > 0 && share < 1 && burst >= 1 && burst * share <= 1 && meanBurst > 0))
    throw new RangeError(`bursts need 0 < share < 1 and 1 ≤ burst ≤ 1 / share, got share ${share}, burst ${burst}`);
  const calm = (positive(rate) * (1 - burst * share)) / (1 - share);
  let inBurst = random.uniform() < share;
  let t = 0;
  let until = 0;
  const period = (): number => random.exponential(inBurst ? meanBurst : (meanBurst * (1 - share)) / share);
  until = period();
  for (let i = 0; i < times.length; ) {
    const now = inBurst ? burst * rate : calm;
    const next = now > 0 ? t + random.exponential(1000 / now) : Number.POSITIVE_INFINITY;
    if (next < until) times[i++] = t = next;
    else {
      // The rate changes before the next arrival; an exponential gap has no memory, so it is drawn anew.
      t = until;
      inBurst = !inBurst;
      until = t + period();
    }
  }
  return times;
}

function positive(rate: number): number {
  if (!(rate > 0 && rate < Number.POSITIVE_INFINITY)) throw new RangeError(`expected a rate above 0, got ${rate}`);
  return rate;
}
