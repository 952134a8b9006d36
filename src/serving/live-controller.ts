// `configuration: 'auto'`: the controller of optimizer/ in a loop with the living model. Once a second it is told what has
// happened since, on a thread of its own, and what it decides is done.
//
//   requests ─▶ arrivals, queue ─┐                                   ┌─ switch ─▶ host.configure ─▶ listeners
//   tasks ──▶ times, busy ───────┴─▶ observe ─▶ decide (adviser) ────┴─ keep, with a reason
//
// It needs a profile: the stored one, that of a `tune`, or one it measures itself while nobody asks for anything; the first
// request that comes stops that, and the next quiet time goes on from there. Until then the model is served as at the
// start. Nothing here keeps the process alive.
import type { Slo } from '../optimizer/choose.js';
import type { Configuration } from '../optimizer/configuration.js';
import type { Decision } from '../optimizer/controller.js';
import { Profile } from '../optimizer/profile.js';
import type { ModelInfo } from '../runtime/source.js';
import type { Adviser } from './adviser.js';
import type { Host } from './host.js';
import { loadProfile, type ProfileKey, saveProfile } from './profile-store.js';
import { type Measurements, Profiler } from './profiler.js';
import { signatureOf } from './request-sample.js';
import type { TaskReport } from './requests.js';
import type { ConfigurationChange, TuneObjective } from './tuning.js';

export interface LiveControllerOptions {
  readonly host: Host;
  readonly info: ModelInfo;
  readonly adviser: Adviser;
  readonly threads: number;
  readonly objective: TuneObjective;
  readonly slo: Slo | undefined;
  readonly keyOf: (threads: number) => Promise<ProfileKey>;
  /** Serves with it, and tells. */
  readonly configure: (
    configuration: Configuration,
    why: Pick<ConfigurationChange, 'cause' | 'reason' | 'decision'>,
  ) => Promise<void>;
}

/** Milliseconds between two decisions, without a request before measuring begins, and after which nothing is decided. */
const TICK = 1000;
const QUIET = 2000;
const ASLEEP = 60_000;
/** Of measuring in the background, in all; and the largest batch. */
const BUDGET = 30_000;
const BATCH = 16;
/** Samples of the queue a second. */
const SAMPLES = 200;

export class LiveController {
  readonly #options: LiveControllerOptions;
  readonly #timer: NodeJS.Timeout;
  #arrivals: number[] = [];
  #tasks: TaskReport[] = [];
  /** Changes of the number of requests in the system since the last tick: when, and to what. */
  #levels: { readonly time: number; readonly level: number }[] = [];
  #level = 0;
  #before = 0;
  #ticked = performance.now();
  /** When something happened last. */
  #last = performance.now();
  #controlled = false;
  /** What has been measured so far, and in how many milliseconds. */
  #measured: Measurements | undefined;
  #spent = 0;
  #measuring: AbortController | undefined;
  #work: Promise<void> | undefined;
  #ended = false;
  decision: Decision | undefined;

  constructor(options: LiveControllerOptions) {
    this.#options = options;
    this.#work = this.#begin().finally(() => {
      this.#work = undefined;
    });
    this.#timer = setInterval(() => this.#tick(), TICK);
    this.#timer.unref();
  }

  /** A request has come. */
  arrived(): void {
    this.#measuring?.abort();
    const time = performance.now();
    this.#last = time;
    this.#arrivals.push(time);
    this.#levels.push({ time, level: ++this.#level });
  }

  /** A request has ended, however. */
  ended(): void {
    this.#last = performance.now();
    this.#levels.push({ time: this.#last, level: --this.#level });
  }

  task(report: TaskReport): void {
    this.#tasks.push(report);
  }

  /** Decides by this profile from now on. */
  async adopt(profile: Profile): Promise<void> {
    const { adviser, threads, objective, slo, configure } = this.#options;
    const { configuration } = await adviser.ask('control', {
      ...{ profile: profile.toJSON(), threads, objective },
      ...(slo !== undefined && { slo }),
    });
    if (this.#ended) return;
    await configure(configuration, { cause: 'controller', reason: 'a profile is there: decided by it from now on' });
    this.#controlled = true;
  }

  /** Ends it; resolves when nothing of it runs any more. */
  async end(): Promise<void> {
    this.#ended = true;
    clearInterval(this.#timer);
    this.#measuring?.abort();
    await this.#work;
  }

  async #begin(): Promise<void> {
    try {
      const { keyOf, threads } = this.#options;
      const stored = await loadProfile(await keyOf(threads));
      if (stored !== undefined && !this.#ended) await this.adopt(stored.profile);
    } catch {
      // As if there were none: it is measured.
    }
  }

  #tick(): void {
    if (this.#work !== undefined || this.#ended) return;
    const now = performance.now();
    const quiet = now - this.#last;
    let work: Promise<void> | undefined;
    if (this.#controlled) {
      if (quiet < ASLEEP) work = this.#observe(now);
    } else {
      this.#forget(now);
      const { host } = this.#options;
      if (quiet > QUIET && this.#level === 0 && host.sample !== undefined && this.#spent < BUDGET)
        work = this.#measure();
    }
    this.#work = work
      // A decision that cannot be made or carried out leaves all as it is; the next tick tries again.
      ?.catch(() => {})
      .finally(() => {
        this.#work = undefined;
      });
  }

  async #observe(now: number): Promise<void> {
    const { adviser, host, configure } = this.#options;
    const samples = this.#samples(now);
    const [arrivals, tasks] = [this.#arrivals, this.#tasks];
    this.#forget(now);
    const queued = host.waiting;
    const { decision } = await adviser.ask('observe', { now, arrivals, tasks, samples, queued });
    this.decision = decision;
    if (decision.action !== 'switch' || this.#ended) return;
    try {
      await configure(decision.configuration, { cause: 'controller', reason: decision.reason, decision });
    } catch (error) {
      // It takes what it decided for what runs.
      this.#controlled = false;
      throw error;
    }
  }

  /** The number of requests in the system at equal distances since the last tick. */
  #samples(now: number): number[] {
    const found: number[] = [];
    let next = 0;
    let level = this.#before;
    for (let time = this.#ticked + 1000 / SAMPLES; time <= now; time += 1000 / SAMPLES) {
      while (next < this.#levels.length && this.#levels[next]!.time <= time) level = this.#levels[next++]!.level;
      found.push(level);
    }
    return found;
  }

  #forget(now: number): void {
    this.#arrivals = [];
    this.#tasks = [];
    this.#levels = [];
    this.#before = this.#level;
    this.#ticked = now;
  }

  /** Measures while nobody asks for anything. */
  async #measure(): Promise<void> {
    const { host, info, threads, keyOf } = this.#options;
    const request = host.sample!;
    const begun = performance.now();
    const measuring = new AbortController();
    this.#measuring = measuring;
    const profiler = new Profiler({
      ...{ host, request, threads, batch: BATCH, budget: BUDGET - this.#spent, signal: measuring.signal },
      ...{ onProgress: undefined, background: true, known: this.#measured },
    });
    try {
      await profiler.during(async () => {
        await profiler.measureLatency();
        await profiler.measureInterference();
      });
    } finally {
      this.#measuring = undefined;
      this.#spent += performance.now() - begun;
      this.#measured = profiler.measurements;
    }
    // A request came in between: the next quiet time goes on.
    if (measuring.signal.aborted || !profiler.measured || this.#ended) return;
    const profile = Profile.from(profiler.measurements);
    const { complete } = profiler;
    await saveProfile(await keyOf(threads), { profile, request: signatureOf(info, request), batch: BATCH, complete });
    if (!this.#ended) await this.adopt(profile);
  }
}
