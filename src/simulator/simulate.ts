// The system in virtual time: requests come, instances ask a policy for work, work takes what the cost model says. A
// discrete-event loop with three kinds of events (an arrival, the end of some work, a timeout of the policy) and nothing
// random of its own: the same arrivals and items give the same report, to the last digit.

import type { Policy, Work, WorkItem } from '../cellular/policy.js';
import { type CostModel, costOf } from './cost.js';
import { Recorder, type Report } from './report.js';

export interface Simulation {
  readonly policy: Policy;
  readonly cost: CostModel;
  /** Due times in ms, not descending. */
  readonly arrivals: ArrayLike<number>;
  /** The i-th request. */
  readonly item: (i: number) => WorkItem;
  readonly instances?: number;
  /** Share of the arrivals' time that is warm-up, 0 … 1. Default 0.1. */
  readonly warmUp?: number;
  /** Called with every request that ends, and its latency in ms. */
  readonly onEnd?: (key: number, latency: number) => void;
  /** Called for every piece of work, for Gantt charts and tests. */
  readonly onWork?: (instance: number, now: number, ms: number, work: Work) => void;
}

export function simulate(simulation: Simulation): Report {
  const { policy, cost, arrivals, item, instances = 1, onEnd, onWork } = simulation;
  const count = arrivals.length;
  if (count === 0) throw new RangeError('a simulation needs an arrival');
  const recorder = new Recorder(instances, (simulation.warmUp ?? 0.1) * (arrivals[count - 1]! - arrivals[0]!));
  const endsAt = new Float64Array(instances).fill(Number.POSITIVE_INFINITY); // Infinity: free
  const ended: number[] = [];
  let busy = 0;
  let arrived = 0;
  let now = 0;

  for (;;) {
    // Whoever is free asks, in turn: what one takes another can't.
    for (let i = 0; i < instances; i++) {
      if (endsAt[i] !== Number.POSITIVE_INFINITY) continue;
      const work = policy.next(i, now);
      if (work === undefined) continue;
      busy += 1;
      const ms = costOf(cost, work.calls, busy);
      endsAt[i] = now + ms;
      recorder.worked(now, ms, work.calls, work.keys);
      onWork?.(i, now, ms, work);
    }

    let first = 0;
    for (let i = 1; i < instances; i++) if (endsAt[i]! < endsAt[first]!) first = i;
    const due = arrived < count ? arrivals[arrived]! : Number.POSITIVE_INFINITY;
    const wake = busy < instances ? policy.wakeAt(now) : Number.POSITIVE_INFINITY;
    const next = Math.min(endsAt[first]!, due, wake);
    if (next === Number.POSITIVE_INFINITY) break;
    now = Math.max(now, next);

    if (endsAt[first]! <= next) {
      endsAt[first] = Number.POSITIVE_INFINITY;
      busy -= 1;
      policy.complete(first, now, ended);
      for (const key of ended) {
        recorder.finished(key, now);
        onEnd?.(key, now - arrivals[key]!);
      }
      ended.length = 0;
    } else if (due <= next) {
      recorder.arrived(arrived, due, policy.arrive(arrived, item(arrived), now));
      arrived += 1;
    }
  }
  return recorder.report();
}
