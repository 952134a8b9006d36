// A model's instances, as threads: started, retired, ended, and what is left of one that dies. How to picture one's life:
//
//   starting ─ ready ─▶ serving ─ retired ─▶ leaving ─▶ gone        its place and its memory are the next one's
//       └─ fails, dies ─────┴── dies ────────────┴────▶ gone        what it had is said by `onDead`
//
// An instance has a place: its number among the scheduler's, and the memory that goes with it. There are more places than
// instances are ever wanted, so that a new set starts beside the old. Which instances there should be is host.ts.
import { Worker } from 'node:worker_threads';
import type { WeightType } from '../kernels/int8.js';
import type { Build } from '../kernels/module.js';
import type { Channel } from '../runtime/channel.js';
import { abandonConstants, constantsOf, SharedConstants } from '../runtime/constants.js';
import { Estates } from '../runtime/estates.js';
import type { Extent } from '../runtime/memory.js';
import type { ModelInfo, Source } from '../runtime/source.js';
import { breakTeam, createTeamBuffer, stopTeam } from '../runtime/team.js';
import { SkepError } from '../tensor/errors.js';
import type { Batching } from './batching.js';
import type { Dispatch } from './dispatch.js';
import type { MeasureOrder, MeasureReport } from './measuring.js';
import type { PreparedKernels } from './prepare.js';
import { revive } from './requests.js';
import type { FollowerData, LeaderData, LeaderMessage, StartMessage } from './thread.js';

/** What all instances of a model have in common. */
export interface InstancesOptions {
  readonly source: Source;
  readonly build: Build;
  readonly weights: WeightType;
  readonly winograd: boolean;
  readonly kernels: Promise<PreparedKernels>;
  readonly memory: WebAssembly.Memory;
  readonly channel: Channel;
  readonly dispatch: Dispatch;
  readonly dispatchBuffer: SharedArrayBuffer;
  readonly places: number;
  /** What of the memory nobody has. */
  readonly spare: readonly Extent[];
}

/** What is told of instances. */
export interface InstancesListener {
  /** Requests are done. */
  readonly onDone: () => void;
  readonly onBatching: (batching: Batching) => void;
  /** The leader has ended though nobody told it to: what it had it will not finish. */
  readonly onDead: (instance: Instance, error: SkepError) => void;
  /** All its threads have ended, and its place is free. */
  readonly onGone: (instance: Instance) => void;
}

/** How one instance is to be. */
export interface InstanceOptions {
  readonly threads: number;
  /** False where threads may outnumber cores. */
  readonly spin: boolean;
  /** Rows of a task at most; undefined: as many as it pays. */
  readonly rows: number | undefined;
  readonly task: 'serve' | 'measure';
  readonly sample: LeaderData['sample'];
  /** It does not keep the process alive. */
  readonly background?: boolean;
}

type Phase = 'starting' | 'serving' | 'leaving' | 'gone';

/** One instance. */
export class Instance {
  readonly place: number;
  readonly threads: number;
  readonly spin: boolean;
  readonly task: 'serve' | 'measure';
  readonly background: boolean;
  rows: number | undefined;
  phase: Phase = 'starting';
  /** Why a thread of it ended that should not have. */
  failure: SkepError | undefined;
  info: ModelInfo | undefined;
  /** Of one that measures: whether the sample can be run in batches. */
  batches = false;
  onReport: ((report: MeasureReport) => void) | undefined;
  readonly team = createTeamBuffer();
  readonly workers = new Set<Worker>();
  leader: Worker | undefined;
  /** It has said, or will say, to the channel that it leaves. */
  leaves = false;
  readonly gone: Promise<void>;
  #resolveGone = () => {};

  constructor(place: number, { threads, spin, rows, task, background = false }: InstanceOptions) {
    this.place = place;
    this.threads = threads;
    this.spin = spin;
    this.rows = rows;
    this.task = task;
    this.background = background;
    this.gone = new Promise((resolve) => {
      this.#resolveGone = resolve;
    });
  }

  /** Tells one that measures what to do. */
  order(order: MeasureOrder): void {
    this.leader?.postMessage(order);
  }

  end(): void {
    this.phase = 'gone';
    this.#resolveGone();
  }
}

export class Instances {
  readonly #options: InstancesOptions;
  readonly #listener: InstancesListener;
  readonly #constants = SharedConstants.createBuffer();
  readonly #estates: Estates;
  readonly #places: (Instance | undefined)[];
  /** Places whose last instance died: the next one there ends what it left in the scheduler. */
  readonly #orphaned = new Set<number>();
  #fingerprint: string | undefined;
  #awake = true;
  #closing = false;

  constructor(options: InstancesOptions, listener: InstancesListener) {
    this.#options = options;
    this.#listener = listener;
    this.#estates = Estates.create(options.places);
    for (const extent of options.spare) this.#estates.add(0, extent);
    this.#places = new Array(options.places).fill(undefined);
  }

  /** Those that exist, in the order of their places. */
  get all(): Instance[] {
    return this.#places.filter((i) => i !== undefined);
  }

  /** Those that take requests and are to go on doing so. */
  get serving(): Instance[] {
    return this.all.filter((i) => i.task === 'serve' && i.phase === 'serving' && i.failure === undefined);
  }

  /** Threads of the instance at a place; 0 when it has none. */
  threadsAt(place: number): number {
    return this.#places[place]?.threads ?? 0;
  }

  /** Whether the leaders keep the process alive. */
  set awake(awake: boolean) {
    this.#awake = awake;
    for (const { leader, phase, task } of this.all) {
      if (phase === 'starting' || task === 'measure') continue;
      if (awake) leader?.ref();
      else leader?.unref();
    }
  }

  /** Starts an instance; resolves when it is ready. Waits for a place where all are taken. */
  async start(options: InstanceOptions): Promise<Instance> {
    let place = this.#freePlace();
    while (place === undefined) {
      await Promise.race(this.all.map((i) => i.gone));
      place = this.#freePlace();
    }
    const instance = new Instance(place, options);
    this.#places[place] = instance;
    this.#orphaned.delete(place);
    const { dispatch, channel } = this.#options;
    dispatch.bound(place, options.rows);
    dispatch.retire(place, false);
    channel.enter();
    const ready = this.#startLeader(instance, options.sample);
    for (let i = 1; i < options.threads; i++) this.#startFollower(instance, i);
    try {
      await ready;
    } catch (error) {
      instance.phase = 'leaving';
      for (const w of instance.workers) void w.terminate();
      await instance.gone;
      throw error;
    }
    return instance;
  }

  /** Changes how many rows an instance may take. */
  bound(instance: Instance, rows: number | undefined): void {
    instance.rows = rows;
    this.#options.dispatch.bound(instance.place, rows);
  }

  /** Instances end when they have done what they are doing. Nothing is waited for. */
  retire(instances: readonly Instance[]): void {
    for (const instance of instances) {
      if (instance.phase === 'gone') continue;
      instance.phase = 'leaving';
      if (instance.task === 'serve') this.#options.dispatch.retire(instance.place, true);
      else {
        // Whoever has measured waits for their end.
        if (!instance.background) for (const w of instance.workers) w.ref();
        instance.order({ kind: 'end' });
      }
    }
    this.#options.channel.ring(Number.POSITIVE_INFINITY);
  }

  /** The channel is being closed: those that serve end by that, those that measure are told. Resolves when all are gone. */
  async close(): Promise<void> {
    this.#closing = true;
    for (const instance of this.all) {
      for (const w of instance.workers) w.ref();
      if (instance.task === 'measure') instance.order({ kind: 'end' });
      // One that starts is awaited by whoever starts it; the others end as they should.
      if (instance.phase === 'serving') instance.phase = 'leaving';
    }
    await Promise.all(this.all.map((i) => i.gone));
  }

  async terminate(): Promise<void> {
    const instances = this.all;
    for (const instance of instances) instance.phase = 'leaving';
    await Promise.all(instances.flatMap((i) => [...i.workers].map((w) => w.terminate())));
  }

  #freePlace(): number | undefined {
    for (const place of this.#orphaned) if (this.#places[place] === undefined) return place;
    const place = this.#places.indexOf(undefined);
    return place < 0 ? undefined : place;
  }

  #startLeader(instance: Instance, sample: LeaderData['sample']): Promise<void> {
    const { source, build, weights, winograd, kernels, memory, channel, dispatchBuffer } = this.#options;
    const { place, threads, spin, team, task } = instance;
    const data: LeaderData = {
      role: 'leader',
      index: place,
      source,
      build,
      winograd,
      weights,
      threads,
      spin,
      channel: channel.buffer,
      dispatch: dispatchBuffer,
      constants: this.#constants,
      team,
      memory,
      estates: this.#estates.buffer,
      extents: this.#estates.extents(place, constantsOf(this.#constants, place)),
      sample,
      task,
    };
    return new Promise((resolve, reject) => {
      const worker = this.#spawn(instance, data, (code) => {
        reject(instance.failure ?? new SkepError('INTERNAL', `an instance ended with code ${code} while it started`));
        this.#leaderEnded(instance, code);
      });
      instance.leader = worker;
      worker.on('message', (m: LeaderMessage) => {
        switch (m.kind) {
          case 'done':
            this.#listener.onDone();
            break;
          case 'model':
            this.#fingerprint ??= m.fingerprint;
            if (this.#fingerprint !== m.fingerprint) {
              reject(new SkepError('INVALID_MODEL', 'the file has changed since the model was loaded: load it again'));
              void worker.terminate();
              break;
            }
            instance.info = m.info;
            kernels.then(({ module, wide }) => worker.postMessage({ module, wide } satisfies StartMessage), reject);
            break;
          case 'ready':
            instance.batches = m.batches;
            instance.leaves = true;
            if (instance.phase === 'starting') instance.phase = 'serving';
            // Whoever closes waits for it to end.
            if (!this.#closing) for (const w of instance.workers) w.unref();
            if (task === 'serve' ? this.#awake : !instance.background) worker.ref();
            resolve();
            break;
          case 'batching':
            this.#listener.onBatching(m.batching);
            break;
          case 'measured':
          case 'unmeasured':
            instance.onReport?.(m);
            break;
          case 'failed':
            reject(revive(m.error));
            break;
          default:
            m satisfies never;
        }
      });
    });
  }

  #startFollower(instance: Instance, index: number): void {
    const { memory, kernels } = this.#options;
    const { spin, team } = instance;
    const worker = this.#spawn(instance, { role: 'follower', index, spin, team, memory }, (code) => {
      // With code 0 its leader has ended it.
      if (code === 0 || instance.leader === undefined) return;
      this.#options.dispatch.retire(instance.place, true);
      breakTeam(team);
      this.#options.channel.ring(Number.POSITIVE_INFINITY);
    });
    // A module that does not compile is reported by the leader's promise.
    kernels.then(
      ({ module, wide }) => worker.postMessage({ module, wide } satisfies StartMessage),
      () => {},
    );
  }

  #spawn(instance: Instance, data: LeaderData | FollowerData, onExit: (code: number) => void): Worker {
    // worker.js is thread.js and all it imports in one file: loading a hundred modules takes five times as long.
    // No flags of the process: a loader hook given with --import has no business in a kernel thread.
    const worker = new Worker(new URL('./worker.js', import.meta.url), {
      workerData: data,
      execArgv: [],
      name: `skep ${data.role}`,
    });
    instance.workers.add(worker);
    if (instance.background) worker.unref();
    worker.on('error', (error) => {
      instance.failure ??= new SkepError('INTERNAL', `a thread failed: ${error.message}`, { cause: error });
    });
    worker.once('exit', (code) => {
      if (code !== 0) instance.failure ??= new SkepError('INTERNAL', `a thread ended with code ${code}`);
      onExit(code);
      instance.workers.delete(worker);
      if (instance.workers.size === 0) this.#gone(instance);
    });
    return worker;
  }

  /** The leader is no more. Before the place is given to another. */
  #leaderEnded(instance: Instance, code: number): void {
    instance.leader = undefined;
    // What it had finished is taken before its memory can be used again.
    this.#listener.onDone();
    stopTeam(instance.team);
    if (code === 0 && instance.leaves) return;
    this.#options.channel.forsake();
    abandonConstants(this.#constants, instance.place);
    // It may have been woken for something that now another must do.
    this.#options.channel.ring(Number.POSITIVE_INFINITY);
    if (instance.task !== 'serve' || !instance.leaves) return;
    this.#estates.abandon(instance.place);
    this.#orphaned.add(instance.place);
    instance.failure ??= new SkepError('INTERNAL', `a thread ended with code ${code}`);
    this.#listener.onDead(instance, instance.failure);
  }

  #gone(instance: Instance): void {
    this.#places[instance.place] = undefined;
    const error = instance.failure ?? new SkepError('CLOSED', 'the model is closed');
    instance.onReport?.({ kind: 'unmeasured', error: { code: error.code, message: error.message } });
    this.#listener.onGone(instance);
    instance.end();
  }
}
