// A load put on a live model. Open loop: a generator thread says when requests are due (generator.ts), latency counts from
// then. Closed loop: a number of callers, each sending its next request when it has the answer. Requests go to the engine,
// which batches as it does, or through a rival policy, which puts whole requests together and has one engine run a batch.
//
//   generator ──due──▶ this thread ──▶ model.run, or rival: queue ─▶ batch ─▶ model.run ──▶ recorder ──▶ report
import { setMaxListeners } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { Policy, WorkItem } from '../cellular/policy.js';
import type { Feeds, ModelStatistics, RunOptions } from '../index.js';
import { Recorder, type Report } from '../simulator/report.js';
import { SkepError } from '../tensor/errors.js';
import { type GeneratorData, State } from './generator.js';

/** A policy that puts whole requests together, and how a batch of them is made. */
export interface Rival {
  readonly policy: Policy;
  readonly instances: number;
  readonly item: (i: number) => WorkItem;
  /** One request of `rows` rows, each padded to `length` steps. */
  readonly batch: (rows: number, length: number) => Feeds;
}

/** What is under load: a model, or something with its face. */
export interface Target {
  run(feeds: Feeds, options?: RunOptions): Promise<unknown>;
  stats?(): ModelStatistics;
}

export interface LiveLoad {
  readonly model: Target;
  /** Due times in ms, or so many callers for so long. */
  readonly arrivals: Float64Array | { readonly callers: number; readonly seconds: number };
  readonly feeds: (i: number) => Feeds;
  readonly rival?: Rival;
  /** Share of the time that is warm-up. Default 0.1. */
  readonly warmUp?: number;
  /** Seconds to wait for answers after the last arrival; what is missing then is given up. Default 10. */
  readonly drain?: number;
  readonly onProgress?: (seconds: number, sent: number, ended: number) => void;
}

export interface LiveResult {
  readonly report: Report;
  readonly latencies: readonly number[];
  /** Ms between a request's being due and its being sent, by request: how busy the sending thread was. */
  readonly late: readonly number[];
}

const clock = () => performance.timeOrigin + performance.now();

export async function runLive(load: LiveLoad): Promise<LiveResult> {
  const { model, arrivals, rival } = load;
  const span = arrivals instanceof Float64Array ? arrivals.at(-1)! - arrivals[0]! : arrivals.seconds * 1000;
  const recorder = new Recorder(rival?.instances ?? 1, (load.warmUp ?? 0.1) * span);
  const before = model.stats?.();
  const run = new Run(load, recorder);
  await (arrivals instanceof Float64Array ? run.open(arrivals) : run.closed(arrivals));
  const report = recorder.report();
  const after = model.stats?.();
  return {
    report: rival === undefined && before && after ? withBatches(report, before, after) : report,
    latencies: run.latencies,
    late: run.late,
  };
}

class Run {
  readonly latencies: number[] = [];
  readonly late: number[] = [];
  readonly #load: LiveLoad;
  readonly #recorder: Recorder;
  readonly #batches: Batches | undefined;
  readonly #abort = new AbortController();
  #start = clock();
  #sent = 0;
  #ended = 0;
  #failure: unknown;
  #onEnd: () => void = () => {};

  constructor(load: LiveLoad, recorder: Recorder) {
    this.#load = load;
    this.#recorder = recorder;
    // Every request under way listens to it.
    setMaxListeners(0, this.#abort.signal);
    if (load.rival !== undefined)
      this.#batches = new Batches(load.model, load.rival, recorder, () => this.#now(), this.#abort.signal);
  }

  #now(): number {
    return clock() - this.#start;
  }

  async open(arrivals: Float64Array): Promise<void> {
    const times = new SharedArrayBuffer(8 * arrivals.length);
    new Float64Array(times).set(arrivals);
    const control = new SharedArrayBuffer(16);
    const state = new Int32Array(control);
    const tell = (to: number) => {
      Atomics.store(state, 0, to);
      Atomics.notify(state, 0);
    };
    const workerData: GeneratorData = { times, control };
    const generator = new Worker(new URL('./generator.js', import.meta.url), { workerData });
    try {
      await new Promise<void>((resolve, reject) => {
        this.#onEnd = () => {
          if (this.#failure !== undefined) reject(this.#failure);
          else if (this.#ended === arrivals.length) resolve();
        };
        let drain: NodeJS.Timeout | undefined;
        generator.on('error', reject);
        generator.on('message', (due: number) => {
          if (due === 0) {
            this.#start = clock() + 10;
            new Float64Array(control, 8, 1)[0] = this.#start;
            tell(State.running);
            return;
          }
          while (this.#sent < due) this.#send(this.#sent, arrivals[this.#sent]!);
          this.#load.onProgress?.(this.#now() / 1000, this.#sent, this.#ended);
          if (due < arrivals.length || drain !== undefined) return;
          drain = setTimeout(() => this.#abort.abort(), 1000 * (this.#load.drain ?? 10));
          drain.unref();
        });
      });
    } finally {
      tell(State.stopped);
      await generator.terminate();
    }
  }

  async closed({ callers, seconds }: { readonly callers: number; readonly seconds: number }): Promise<void> {
    this.#start = clock();
    const caller = async () => {
      while (this.#now() < 1000 * seconds && this.#failure === undefined) {
        await this.#send(this.#sent, this.#now());
        this.#load.onProgress?.(this.#now() / 1000, this.#sent, this.#ended);
      }
    };
    await Promise.all(Array.from({ length: callers }, caller));
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Sends request `i`, due at `due`; resolves when it has ended, in whichever way. */
  async #send(i: number, due: number): Promise<void> {
    this.#sent++;
    this.late.push(Math.max(0, this.#now() - due));
    this.#recorder.arrived(i, due, true);
    try {
      if (this.#batches !== undefined) await this.#batches.submit(i);
      else {
        const sent = this.#now();
        const onTiming = ({ queued }: { readonly queued: number }) => this.#recorder.started(i, sent + queued);
        await this.#load.model.run(this.#load.feeds(i), { signal: this.#abort.signal, onTiming });
      }
      const now = this.#now();
      this.#recorder.finished(i, now);
      this.latencies.push(now - due);
    } catch (error) {
      const code = error instanceof SkepError ? error.code : undefined;
      if (code === 'OVERLOADED') this.#recorder.refused(i, this.#now());
      else if (code === 'ABORTED') this.#recorder.cancelled(i, this.#now());
      else this.#failure ??= error;
    }
    this.#ended++;
    this.#onEnd();
  }
}

/** A rival's queue in front of the engine: as many batches at a time as there are instances. */
class Batches {
  readonly #model: Target;
  readonly #rival: Rival;
  readonly #recorder: Recorder;
  readonly #now: () => number;
  readonly #signal: AbortSignal;
  readonly #waiting = new Map<number, { resolve(): void; reject(error: unknown): void }>();
  readonly #free: number[];
  #timer: NodeJS.Timeout | undefined;

  constructor(model: Target, rival: Rival, recorder: Recorder, now: () => number, signal: AbortSignal) {
    this.#model = model;
    this.#rival = rival;
    this.#recorder = recorder;
    this.#now = now;
    this.#signal = signal;
    this.#free = Array.from({ length: rival.instances }, (_, i) => i);
    signal.addEventListener('abort', () => {
      for (const { reject } of this.#waiting.values()) reject(new SkepError('ABORTED', 'given up'));
      this.#waiting.clear();
    });
  }

  submit(i: number): Promise<void> {
    const ended = new Promise<void>((resolve, reject) => this.#waiting.set(i, { resolve, reject }));
    this.#rival.policy.arrive(i, this.#rival.item(i), this.#now());
    this.#begin();
    return ended;
  }

  /** Gives free instances what the policy has for them. */
  #begin(): void {
    clearTimeout(this.#timer);
    while (this.#free.length > 0 && !this.#signal.aborted) {
      const instance = this.#free.at(-1)!;
      const work = this.#rival.policy.next(instance, this.#now());
      if (work === undefined) {
        const wake = this.#rival.policy.wakeAt(this.#now());
        if (Number.isFinite(wake)) this.#timer = setTimeout(() => this.#begin(), Math.max(0, wake - this.#now()));
        return;
      }
      this.#free.pop();
      const [call] = work.calls;
      if (work.calls.length !== 1 || call === undefined) throw new SkepError('INTERNAL', 'a live batch has one stage');
      const started = this.#now();
      const settled = (error?: unknown) => {
        const now = this.#now();
        this.#recorder.worked(started, now - started, work.calls, work.keys);
        this.#free.push(instance);
        const ended: number[] = [];
        this.#rival.policy.complete(instance, now, ended);
        for (const key of ended) {
          const waiting = this.#waiting.get(key);
          this.#waiting.delete(key);
          if (error === undefined) waiting?.resolve();
          else waiting?.reject(error);
        }
        this.#begin();
      };
      // `none` computes one request at a time, on one row; the others one padded batch.
      const feeds = this.#rival.batch(call.rows, call.times);
      this.#model.run(feeds, { signal: this.#signal }).then(() => settled(), settled);
    }
  }
}

/** What the engine itself knows: what was computed together. How long its tasks took it does not tell. */
function withBatches(report: Report, before: ModelStatistics, after: ModelStatistics): Report {
  const histogram: number[] = [];
  for (const [requests, tasks] of Object.entries(after.batches.tasks)) {
    const count = tasks - (before.batches.tasks[Number(requests)] ?? 0);
    if (count > 0) histogram[Number(requests)] = count;
  }
  const filled = Array.from(histogram, (n) => n ?? 0);
  const tasks = filled.reduce((a, b) => a + b, 0);
  const rows = filled.reduce((sum, n, size) => sum + n * size, 0);
  const batch = { tasks, mean: rows / tasks, histogram: filled, useful: 1, stepTime: Number.NaN };
  return { ...report, batch, utilisation: Number.NaN };
}
