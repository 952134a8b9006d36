// The controller: observations in, decisions with reasons out. It has no clock and starts nothing; the caller tells it what
// happened and when, asks now and then what to do, and does it. Picture a loop around the queue:
//
//   arrivals, batches ──▶ load λ, Ca²; S[k]; queue ──▶ choose ──▶ better by the threshold? held long enough? ──▶ switch
//        ▲                                                                                                        │
//        └────────────────────────────── the running configuration ◀─────────────────────────────────────────────┘
//
// Three things keep it from flapping: λ is rounded to steps of 5 %, so noise within a step changes nothing; a switch must
// promise a gain at the estimated λ and no loss at λ plus or minus its error; and after a switch the hold time must pass.
// Only overload, when the present configuration cannot keep up, goes ahead of the last two.
import { type Choice, choose, type Objective, type Slo } from './choose.js';
import {
  batchOf,
  type Configuration,
  checkConfiguration,
  describe,
  instancesOf,
  keyOf,
  threadsOf,
} from './configuration.js';
import { type Drift, ProfileCorrection } from './correction.js';
import { integerArgument, numberArgument, OptimizerError, quote } from './errors.js';
import { BatchEstimator, type EstimatorOptions } from './estimator.js';
import { LoadEstimator } from './load.js';
import { makespan, optimize } from './packrat.js';
import { type Prediction, predict, summarize, systemOf } from './predict.js';
import { MAX_THREADS, Profile, type ProfileInput } from './profile.js';
import { capacity } from './queue.js';

export interface ControllerOptions {
  readonly profile: ProfileInput;
  readonly threads: number;
  /** What runs at the start (default: one instance with the most measured threads that fit, and its largest batch). */
  readonly configuration?: Configuration;
  /** As in `choose`, or `makespan`: the estimated batch as fast as possible (Packrat). Default `mean`. */
  readonly objective?: Objective | 'makespan';
  readonly slo?: Slo;
  /** Least predicted gain for a switch, a share (default 0.05). */
  readonly gain?: number;
  /** Least time between switches, ms (default 5,000). */
  readonly hold?: number;
  /** How long arrivals count for the rate, ms (default 20,000); a sudden change is noticed twenty times faster. */
  readonly horizon?: number;
  readonly batches?: readonly number[];
  readonly maxBatch?: number;
  readonly maxInstances?: number;
  readonly estimator?: EstimatorOptions;
  /** Requests a simulation inside a decision takes (default 20,000), where no formula applies. */
  readonly requests?: number;
}

/** What to do and why. */
export interface Decision {
  readonly action: 'keep' | 'switch';
  /** What should run from now on. */
  readonly configuration: Configuration;
  /** A sentence for people. */
  readonly reason: string;
  /** Predicted improvement of the objective by the best configuration over the present, a share; 0 when there is none. */
  readonly gain: number;
  /** Estimated requests a second, Ca², and batch. */
  readonly arrivalRate: number;
  readonly ca2: number;
  readonly batch: number;
  /** Of the configuration that should run; absent for `makespan` and before any arrival. */
  readonly prediction?: Prediction;
  readonly drift: readonly Drift[];
}

export interface Admission {
  readonly admit: boolean;
  /** Expected time to the answer, ms. */
  readonly expected: number;
  readonly reason: string;
}

/** Steps of λ (and Ca²) in which decisions are made. */
const STEP = 1.05;
const CA2_STEP = 1.5;
/** Standard errors of λ within which a switch must not lose. */
const SIDES = 2;
/** Seconds of full work that may wait without being a backlog, and seconds in which a backlog should be gone. */
const ROOM = 0.25;
const DRAIN = 3;

export class Controller {
  readonly #options: ControllerOptions;
  readonly #threads: number;
  readonly #gain: number;
  readonly #hold: number;
  readonly #load: LoadEstimator;
  readonly #batch: BatchEstimator;
  readonly #correction: ProfileCorrection;
  /** Answers of `choose` and `predict` for the profile as it is now, by what was asked. */
  #known = new Map<string, Choice | Prediction>();
  #present: Configuration;
  #switched = Number.NEGATIVE_INFINITY;
  #switches = 0;

  /** Throws OptimizerError for a bad profile or option. */
  constructor(options: ControllerOptions) {
    const profile = Profile.from(options.profile);
    this.#options = options;
    this.#threads = integerArgument('threads', options.threads, 1, MAX_THREADS);
    this.#gain = numberArgument('gain', options.gain ?? 0.05, 0, 1);
    this.#hold = numberArgument('hold', options.hold ?? 5000, 0, 1e12);
    this.#load = new LoadEstimator(options.horizon ?? 20_000);
    this.#batch = new BatchEstimator(options.estimator);
    this.#correction = new ProfileCorrection(profile);
    this.#present = options.configuration ? checkConfiguration(options.configuration) : this.#fat(profile);
    systemOf(profile, this.#present);
    if (options.objective !== 'makespan') this.#choose(1, 1); // a bad objective, SLO or batch size fails here, not later
  }

  #fat(profile: Profile): Configuration {
    const threads = profile.threads.findLast((t) => t <= this.#threads);
    if (threads === undefined) {
      throw new OptimizerError('INFEASIBLE', `no measured thread count fits into ${quote(this.#threads)} threads`);
    }
    const batch = Math.min(profile.largest(threads), this.#options.maxBatch ?? Number.POSITIVE_INFINITY);
    return [{ instances: 1, threads, batch }];
  }

  /** The configuration that should be running. */
  get configuration(): Configuration {
    return this.#present;
  }

  /** The profile as corrected by what was observed. */
  get profile(): Profile {
    return this.#correction.profile;
  }

  /** Switches decided so far. */
  get switches(): number {
    return this.#switches;
  }

  /** `count` requests arrived at `time` (ms, any origin, never going back). */
  arrived(time: number, count = 1): void {
    this.#load.arrived(time, count);
  }

  /** A batch ended: its instance's threads, its rows, its time in ms, and how many instances were busy meanwhile, on average. */
  served(batch: { threads: number; rows: number; ms: number; busy: number }): void {
    this.#correction.observe(batch.threads, batch.rows, batch.ms, batch.busy);
  }

  /** A sample of the number of requests in the system, for the batch estimate; 200 a second are usual. */
  sampled(queue: number): void {
    this.#batch.sample(queue);
  }

  /**
   * What to do now. On 'switch' the controller takes the new configuration for the running one. `queued`: requests waiting
   * at the moment; a backlog counts as extra load. For batch 1 and means it takes microseconds to a few milliseconds; where
   * tails or several batching instances must be simulated, some tens of milliseconds the first time at each step of the
   * load: call it where that blocks nobody.
   */
  decide(time: number, queued = 0): Decision {
    if (this.#correction.update()) this.#known.clear();
    const arrivalRate = this.#load.rate(time);
    const ca2 = this.#load.ca2;
    const basis = { arrivalRate, ca2, batch: this.#batch.estimate, drift: this.#correction.drift() };
    const keep = (reason: string, gain = 0, prediction?: Prediction): Decision => ({
      ...basis,
      action: 'keep',
      configuration: this.#present,
      reason,
      gain,
      ...(prediction ? { prediction } : {}),
    });
    if (this.#options.objective === 'makespan') return this.#decideMakespan(time, basis, keep);
    if (!(arrivalRate > 0)) return keep('no arrivals yet');

    const most = capacity(systemOf(this.profile, this.#present));
    // A queue longer than chance makes it is work to be done beside the arrivals.
    const excess = Math.max(0, queued - Math.max(2 * batchOf(this.#present), most * ROOM));
    const backlog = excess / DRAIN;
    const rate = step(arrivalRate + backlog, STEP);
    // So few gaps tell 0.5 and 1.5 from 1 only just: what may be Poisson is taken as Poisson.
    const variation = Math.abs(ca2 - 1) <= 0.5 ? 1 : step(Math.max(ca2, 0.1), CA2_STEP);
    const best = this.#choose(rate, variation);
    if (keyOf(best.configuration) === keyOf(this.#present)) {
      return keep(
        `already the best at ${rate.toFixed(1)} requests/s: ${summarize(best.prediction)}`,
        0,
        best.prediction,
      );
    }
    const present = this.#predict(this.#present, rate, variation);
    const gain = this.#gainOf(best, present);
    const name = describe(best.configuration);
    const from = `${name} instead of ${describe(this.#present)} at ${rate.toFixed(1)} requests/s`;
    const error = Math.min(0.9, SIDES * this.#load.error(time));
    const overloaded =
      !present.stable &&
      (excess > 0 || !this.#predict(this.#present, step(arrivalRate * (1 - error), STEP), variation).stable);
    if (!overloaded || best.prediction.capacity <= present.capacity) {
      if (!this.#load.settled)
        return keep(`${from} gains ${percent(gain)}, but the load is just changing`, gain, present);
      if (gain < this.#gain)
        return keep(`${from} gains ${percent(gain)}, less than ${percent(this.#gain)}`, gain, present);
      if (time - this.#switched < this.#hold)
        return keep(
          `${from} gains ${percent(gain)}, but the last switch was ${seconds(time - this.#switched)} ago`,
          gain,
          present,
        );
      for (const side of [1 - error, 1 + error]) {
        const at = step(arrivalRate * side + backlog, STEP);
        const there: Choice = { ...best, ...this.#rejudge(best.configuration, at, variation) };
        if (this.#gainOf(there, this.#predict(this.#present, at, variation)) < 0) {
          return keep(
            `${from} gains ${percent(gain)}, but would lose at ${at.toFixed(1)} requests/s; the rate is known to ±${percent(error)}`,
            gain,
            present,
          );
        }
      }
    }
    const why = overloaded
      ? `the present one is overloaded (${most.toFixed(1)} at most)`
      : `predicted gain ${percent(gain)}`;
    const reason = `${from}: ${why}; ${summarize(best.prediction)}`;
    this.#switch(time, best.configuration);
    return { ...basis, action: 'switch', configuration: this.#present, reason, gain, prediction: best.prediction };
  }

  #switch(time: number, configuration: Configuration): void {
    this.#present = configuration;
    this.#switched = time;
    this.#switches++;
  }

  #decideMakespan(
    time: number,
    basis: Pick<Decision, 'arrivalRate' | 'ca2' | 'batch' | 'drift'>,
    keep: (reason: string, gain?: number) => Decision,
  ): Decision {
    const { maxInstances } = this.#options;
    const best = optimize(this.profile, {
      threads: this.#threads,
      batch: basis.batch,
      ...(maxInstances ? { maxInstances } : {}),
    });
    if (keyOf(best.configuration) === keyOf(this.#present))
      return keep(`already the best for a batch of ${basis.batch}`);
    // What runs does the batch in rounds when it is too small for it, and with less than it could take when it is too large.
    const present = roundsOf(this.profile, this.#present, basis.batch);
    const gain = 1 - best.latency / present;
    const from = `${describe(best.configuration)} instead of ${describe(this.#present)} for a batch of ${basis.batch}`;
    if (gain < this.#gain) return keep(`${from} gains ${percent(gain)}, less than ${percent(this.#gain)}`, gain);
    if (time - this.#switched < this.#hold)
      return keep(`${from}, but the last switch was ${seconds(time - this.#switched)} ago`, gain);
    this.#switch(time, best.configuration);
    const reason = `${from}: predicted gain ${percent(gain)}`;
    return { ...basis, action: 'switch', configuration: this.#present, reason, gain };
  }

  /** The share by which a choice is better than what runs; negative when worse. */
  #gainOf(best: Choice, present: Prediction): number {
    const objective = this.#options.objective ?? 'mean';
    if (!best.prediction.stable) return best.prediction.capacity / present.capacity - 1;
    if (!present.stable) return 1;
    const slo = this.#options.slo ?? {};
    if (objective === 'p99') return 1 - best.prediction.p99!.value / present.p99!.value;
    if (objective === 'mean') return 1 - best.prediction.latency / present.latency;
    const kept =
      present.latency <= (slo.mean ?? Number.POSITIVE_INFINITY) &&
      (present.p99?.value ?? 0) <= (slo.p99 ?? Number.POSITIVE_INFINITY);
    if (best.withinSlo !== kept) return best.withinSlo ? 1 : -1;
    if (objective === 'threads') return 1 - threadsOf(best.configuration) / threadsOf(present.configuration);
    return 1 - present.capacity / best.prediction.capacity;
  }

  #choose(rate: number, ca2: number): Choice {
    const key = `choose ${rate} ${ca2}`;
    const known = this.#known.get(key);
    if (known !== undefined && 'withinSlo' in known) return known;
    const { slo, batches, maxBatch, maxInstances } = this.#options;
    const objective = this.#options.objective === 'makespan' ? 'mean' : this.#options.objective;
    const { configuration, prediction, value, withinSlo } = choose(this.profile, {
      ...{ threads: this.#threads, arrivalRate: rate, ca2, objective, slo, batches, maxBatch, maxInstances },
      ...{ shortlist: 6, requests: this.#options.requests ?? 20_000 },
    });
    const choice = { configuration, prediction, value, withinSlo };
    this.#remember(key, choice);
    return choice;
  }

  #predict(configuration: Configuration, arrivalRate: number, ca2: number): Prediction {
    const key = `${keyOf(configuration)} ${arrivalRate} ${ca2}`;
    const known = this.#known.get(key);
    if (known !== undefined && 'stable' in known) return known;
    const { objective, slo } = this.#options;
    const tails = objective === 'p99' || slo?.p99 !== undefined;
    const prediction = predict(this.profile, {
      configuration,
      arrivalRate,
      ca2,
      tails,
      requests: this.#options.requests ?? 20_000,
    });
    this.#remember(key, prediction);
    return prediction;
  }

  #rejudge(configuration: Configuration, rate: number, ca2: number): Pick<Choice, 'prediction' | 'withinSlo'> {
    const prediction = this.#predict(configuration, rate, ca2);
    const { mean = Number.POSITIVE_INFINITY, p99 = Number.POSITIVE_INFINITY } = this.#options.slo ?? {};
    return {
      prediction,
      withinSlo: prediction.stable && prediction.latency <= mean && (prediction.p99?.value ?? 0) <= p99,
    };
  }

  #remember(key: string, answer: Choice | Prediction): void {
    if (this.#known.size >= 1000) this.#known.clear(); // a bound, not a strategy: loads stay in a few steps
    this.#known.set(key, answer);
  }

  /**
   * Whether a request that must be answered within `deadline` ms can be, with `queued` requests waiting and `busy` instances
   * at work: the expected wait for its turn and its own service time. Never refuses what an idle instance could take in time.
   */
  admit(deadline: number, queued: number, busy: number): Admission {
    const system = systemOf(this.profile, this.#present);
    const c = instancesOf(this.#present);
    const { batch, times } = system.groups[0];
    const idle = busy < c && queued === 0;
    const rows = idle ? 1 : Math.min(batch, queued + 1);
    const service = times[rows] * system.factors[idle ? Math.min(c, busy + 1) : c];
    // Instances end one after another, every S/c; the request is in the batch after as many as fit before it.
    const full = (1000 * batchOf(this.#present)) / capacity(system);
    const turns = Math.floor(queued / batch) + 0.5;
    const wait = idle ? 0 : (turns * full) / c;
    const expected = wait + service;
    const admit = expected <= deadline;
    const figures = `${expected.toFixed(1)} ms expected (${wait.toFixed(1)} waiting, ${service.toFixed(1)} in service), deadline in ${deadline.toFixed(1)} ms`;
    return { admit, expected, reason: admit ? figures : `cannot be in time: ${figures}` };
  }
}

/** Time for a batch on a configuration that was made for another size: whole rounds, then the rest. */
function roundsOf(profile: Profile, configuration: Configuration, batch: number): number {
  const round = batchOf(configuration);
  const rounds = Math.floor(batch / round);
  const rest = batch - rounds * round;
  const whole = makespan(profile, configuration).latency;
  if (rest === 0) return rounds * whole;
  // The rest is dealt out in proportion to what each instance takes.
  const part = configuration.map((g) => ({ ...g, batch: Math.max(1, Math.ceil((g.batch * rest) / round)) }));
  return rounds * whole + makespan(profile, part).latency;
}

/** Rounds to a power of `base`, within what can be predicted. */
function step(value: number, base: number): number {
  return base ** Math.round(Math.log(Math.min(1e8, Math.max(1e-6, value))) / Math.log(base));
}

function percent(share: number): string {
  return `${(100 * share).toFixed(0)} %`;
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
