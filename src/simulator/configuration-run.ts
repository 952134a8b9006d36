// A whole configuration in virtual time, of any groups, with a controller or without: the queue of optimizer/queue.ts over
// given arrivals, told as a Report. Requests are one row and one call each; cells and their policies are simulate.ts's.
import { type Configuration, threadsOf } from '../optimizer/configuration.js';
import type { Controller } from '../optimizer/controller.js';
import { systemOf } from '../optimizer/predict.js';
import type { Profile } from '../optimizer/profile.js';
import { type QueueHooks, runQueue } from '../optimizer/queue.js';
import { Recorder, type Report } from './report.js';

export interface ConfigurationRun {
  readonly profile: Profile;
  readonly configuration: Configuration;
  /** Due times in ms, ascending. */
  readonly arrivals: Float64Array;
  /** Decides every `every` ms (default 250); it must have been made for the same configuration. */
  readonly controller?: Controller;
  /** Threads that the controller may use; default those of the configuration. */
  readonly threads?: number;
  readonly every?: number;
  /** Share of the arrivals' time that is warm-up, 0 … 1. Default 0.1. */
  readonly warmUp?: number;
}

/** A change of configuration that the controller decided. */
export interface Switch {
  /** Virtual ms. */
  readonly time: number;
  readonly configuration: Configuration;
  readonly reason: string;
}

export interface ConfigurationResult {
  readonly report: Report;
  /** Of every request, ms. */
  readonly latencies: Float64Array;
  readonly switches: readonly Switch[];
}

export function runConfiguration(run: ConfigurationRun): ConfigurationResult {
  const { profile, configuration, arrivals, controller } = run;
  const count = arrivals.length;
  if (count === 0) throw new RangeError('a simulation needs an arrival');
  const batches: { readonly start: number; readonly ms: number; readonly rows: number; readonly threads: number }[] =
    [];
  const switches: Switch[] = [];
  const hooks: QueueHooks = {
    threads: run.threads ?? threadsOf(configuration),
    arrived: (time) => controller?.arrived(time),
    served: ({ time, threads, rows, ms, busy }) => {
      batches.push({ start: time - ms, ms, rows, threads });
      controller?.served({ threads, rows, ms, busy });
    },
    ...(controller !== undefined && {
      tick: {
        every: run.every ?? 250,
        call: (time, queued) => {
          controller.sampled(queued);
          const { action, configuration: next, reason } = controller.decide(time, queued);
          if (action === 'keep') return undefined;
          switches.push({ time, configuration: next, reason });
          return systemOf(controller.profile, next);
        },
      },
    }),
  };
  const { latencies } = runQueue(arrivals, systemOf(profile, configuration), hooks);
  const warmUp = (run.warmUp ?? 0.1) * (arrivals[count - 1]! - arrivals[0]!);
  const recorder = new Recorder(1, warmUp);
  // Requests are taken in the order they came, so batches in the order they began say who was in which.
  batches.sort((a, b) => a.start - b.start);
  const ends = Uint32Array.from(arrivals, (_, i) => i).sort(
    (a, b) => arrivals[a]! + latencies[a]! - (arrivals[b]! + latencies[b]!),
  );
  let ended = 0;
  let begun = 0;
  let batch = 0;
  const settle = (until: number) => {
    for (; batch < batches.length && batches[batch]!.start < until; batch++) {
      const { start, ms, rows } = batches[batch]!;
      const keys = Array.from({ length: rows }, (_, i) => begun + i);
      recorder.worked(start, ms, [{ type: 0, rows, times: 1, useful: rows }], keys);
      begun += rows;
    }
    for (; ended < count; ended++) {
      const i = ends[ended]!;
      const end = arrivals[i]! + latencies[i]!;
      if (end >= until) break;
      recorder.finished(i, end);
    }
  };
  for (let i = 0; i < count; i++) {
    settle(arrivals[i]!);
    recorder.arrived(i, arrivals[i]!, true);
  }
  settle(Number.POSITIVE_INFINITY);
  const report = recorder.report();
  const [from, to] = [arrivals[0]! + warmUp, arrivals[count - 1]!];
  const used = batches.reduce(
    (sum, b) => sum + b.threads * Math.max(0, Math.min(b.start + b.ms, to) - Math.max(b.start, from)),
    0,
  );
  const threads = Math.max(run.threads ?? 0, threadsOf(configuration));
  return { report: { ...report, utilisation: used / (threads * Math.max(to - from, 1e-9)) }, latencies, switches };
}
