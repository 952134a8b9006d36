// The caller's side of a model: says which instances there are to be, puts another in the place of one that dies, and ends
// it all. Nothing here waits or computes. Worker handles keep the process alive only while requests pend (or instances
// start or end). How an instance starts and ends is instances.ts; requests are requests.ts.
import { availableParallelism } from 'node:os';
import type { WeightType } from '../kernels/int8.js';
import type { Build } from '../kernels/module.js';
import type { HostValue } from '../operators/operator.js';
import type { Configuration } from '../optimizer/configuration.js';
import { Channel } from '../runtime/channel.js';
import { apart, type Extent, ModelMemory, PAGE } from '../runtime/memory.js';
import type { ModelInfo, Source } from '../runtime/source.js';
import { SkepError } from '../tensor/errors.js';
import type { Batching } from './batching.js';
import { Dispatch } from './dispatch.js';
import { type Instance, Instances } from './instances.js';
import type { PreparedKernels } from './prepare.js';
import { type Cancel, type Outcome, Requests, type RequestValues, type TaskReport } from './requests.js';

/** A memory that outlives models: its pages, how many of them the caller's side used for requests, what belongs to no instance. */
export interface PooledMemory {
  readonly memory: WebAssembly.Memory;
  readonly stagingBytes: number;
  /** Where requests that were cut had their blocks. */
  readonly blocks?: Extent | undefined;
}

/** Equal instances as they are served; `batch` undefined: it grows as long as that pays. */
export interface ServedGroup {
  readonly instances: number;
  readonly threads: number;
  readonly batch: number | undefined;
}

export interface HostOptions {
  readonly build: Build;
  readonly weights: WeightType;
  readonly kernels: Promise<PreparedKernels>;
  /** Whether convolutions may be computed by Winograd's minimal filtering. */
  readonly winograd: boolean;
  readonly groups: readonly ServedGroup[];
  /** Threads that all instances may have together. */
  readonly threads: number;
  /** Requests at most, queued and running. */
  readonly maxQueue: number;
  /** Memory for requests that are cut into cells, in bytes; what is larger runs in one piece. Default 64 MiB. */
  readonly blockBytes?: number;
  readonly memory: PooledMemory;
}

/** What a host tells. */
export interface HostListener {
  /** An instance has died and another has taken its place. */
  readonly onReplaced: (error: SkepError) => void;
  /** A task is done. */
  readonly onTask?: (task: TaskReport) => void;
}

/** Instances that may die without a hundred answers in between before the model is given up. */
const MOST_DEATHS = 3;
const ANSWERS = 100;

export class Host {
  readonly #channel: Channel;
  readonly #dispatch: Dispatch;
  readonly #instances: Instances;
  readonly #memory: ModelMemory;
  readonly #requests: Requests;
  readonly #whenIdle: (() => void)[] = [];
  /** What instances there are to be. */
  #groups: readonly ServedGroup[];
  /** Changes of instances, one after another. */
  #changes: Promise<unknown> = Promise.resolve();
  #deaths = 0;
  #answers = 0;
  #batching: Batching | undefined;
  /** Nothing new is taken; and: the threads are told to end. */
  #closing = false;
  #ending = false;
  #broken: SkepError | undefined;
  listener: HostListener | undefined;

  private constructor(source: Source, options: HostOptions) {
    const { groups, threads, maxQueue } = options;
    // A cancelled request holds its slot until an instance passes it, so there are more slots than requests.
    this.#channel = Channel.create(Math.max(64, maxQueue * 4));
    // Twice what may be wanted, so that a new set starts beside the old one, and some that measure.
    const places = 3 * Math.max(threads, 2);
    const buffer = Dispatch.createBuffer({
      slots: this.#channel.slots,
      instances: places,
      blockBytes: options.blockBytes,
      blocks: options.memory.blocks,
    });
    this.#dispatch = new Dispatch(buffer, this.#channel);
    const { memory, stagingBytes, blocks } = options.memory;
    this.#memory = new ModelMemory(memory);
    this.#requests = new Requests(this.#channel, this.#memory, stagingBytes, {
      onSome: () => {
        this.#instances.awake = true;
      },
      onNone: () => this.#rest(),
      onAnswered: () => {
        if (++this.#answers >= ANSWERS) this.#deaths = 0;
      },
      onTask: (place, task) => {
        const threads = this.#instances.threadsAt(place);
        if (threads > 0) this.listener?.onTask?.({ threads, ...task });
      },
    });
    const taken = PAGE + stagingBytes;
    this.#groups = groups;
    this.#instances = new Instances(
      {
        ...{ source, build: options.build, weights: options.weights, winograd: options.winograd, places },
        ...{ kernels: options.kernels, memory, channel: this.#channel, dispatch: this.#dispatch },
        dispatchBuffer: buffer,
        spare: apart({ address: taken, bytes: memory.buffer.byteLength - taken }, blocks),
      },
      {
        onDone: () => {
          if (this.#broken === undefined) this.#requests.drain();
        },
        onBatching: (batching) => {
          this.#batching = batching;
        },
        onDead: (instance, error) => this.#failAbandoned(instance, error),
        onGone: (instance) => this.#replace(instance),
      },
    );
  }

  /** Starts the threads and reads the model; resolves when every instance can take requests. */
  static async start(source: Source, options: HostOptions): Promise<{ host: Host; info: ModelInfo }> {
    const host = new Host(source, options);
    try {
      await host.#serve(options.groups);
      host.#instances.awake = host.#requests.size > 0;
      return { host, info: host.#instances.serving[0]!.info! };
    } catch (error) {
      host.#closing = host.#ending = true;
      await host.#instances.terminate();
      throw error;
    }
  }

  /** What instances there are to be. */
  get groups(): readonly ServedGroup[] {
    return this.#groups;
  }

  /** The same with the batch as it has grown. */
  get configuration(): Configuration {
    return this.#groups.map(({ instances, threads, batch = this.#dispatch.maxBatch }) => ({
      instances,
      threads,
      batch,
    }));
  }

  /** Changes the instances; resolves when the new ones serve. One change after another. */
  configure(groups: readonly ServedGroup[]): Promise<void> {
    return this.#change(() => this.#serve(groups));
  }

  #change(work: () => Promise<void>): Promise<void> {
    const change = this.#changes.then(work);
    this.#changes = change.catch(() => {});
    return change;
  }

  /**
   * Makes the instances those of `groups`: keeps what fits, starts what is missing beside it, and when that serves retires
   * what is too much. When one cannot be started all is as before.
   */
  async #serve(groups: readonly ServedGroup[]): Promise<void> {
    this.#check();
    const all = groups.flatMap((g) => Array.from({ length: g.instances }, () => g));
    const spin = all.reduce((n, g) => n + g.threads, 0) <= availableParallelism();
    const present = this.#instances.serving;
    const kept = new Map<Instance, ServedGroup>();
    const missing: ServedGroup[] = [];
    const take = (group: ServedGroup, same: (i: Instance) => boolean): boolean => {
      const found = present.find(
        (i) => !kept.has(i) && i.threads === group.threads && (i.threads === 1 || i.spin === spin) && same(i),
      );
      if (found !== undefined) kept.set(found, group);
      return found !== undefined;
    };
    const inexact = all.filter((g) => !take(g, (i) => i.rows === g.batch));
    for (const g of inexact) if (!take(g, () => true)) missing.push(g);
    const first = present.length === 0 && this.#instances.all.length === 0;
    const most = groups.reduce<number | undefined>(
      (n, g) => (n === undefined || g.batch === undefined ? undefined : Math.max(n, g.batch)),
      0,
    );
    if (first) this.#dispatch.rows = most;
    const started = await this.#start(missing, spin);
    this.#groups = groups;
    this.#dispatch.rows = most;
    for (const [instance, { batch }] of kept) this.#instances.bound(instance, batch);
    const wanted = new Set([...kept.keys(), ...started]);
    this.#instances.retire(this.#instances.serving.filter((i) => !wanted.has(i)));
  }

  async #start(groups: readonly ServedGroup[], spin: boolean): Promise<Instance[]> {
    const address = groups.length === 0 ? undefined : this.#stageSample();
    // All are awaited even when one fails, so that no rejection goes unheard.
    const settled = await Promise.allSettled(
      groups.map(({ threads, batch }) => {
        const sample = address === undefined ? undefined : { address, rows: batch ?? this.#dispatch.maxBatch };
        return this.#instances.start({ threads, spin, rows: batch, task: 'serve', sample });
      }),
    );
    if (address !== undefined) this.#requests.unstage(address);
    const started = settled.flatMap((s) => (s.status === 'fulfilled' ? [s.value] : []));
    try {
      for (const s of settled) if (s.status === 'rejected') throw s.reason;
      this.#check();
    } catch (error) {
      this.#instances.retire(started);
      throw error;
    }
    return started;
  }

  /** Writes the last request where instances can read it; undefined: there is none. */
  #stageSample(): number | undefined {
    const { sample } = this.#requests;
    if (sample === undefined) return undefined;
    try {
      return this.stage(sample);
    } catch {
      // Its caller may have given its bytes to somebody else since.
      return undefined;
    }
  }

  /** Writes a request where instances can read it; `unstage` gives the memory back. */
  stage(values: RequestValues): number {
    return this.#requests.stage(values);
  }

  unstage(address: number): void {
    this.#requests.unstage(address);
  }

  /** One of the last requests that were answered, unless it was a very large one. */
  get sample(): RequestValues | undefined {
    return this.#requests.sample;
  }

  /** An instance that measures. The sample has been staged. */
  measurer(threads: number, spin: boolean, address: number, background: boolean): Promise<Instance> {
    this.#check();
    return this.#instances.start({ threads, spin, rows: 1, task: 'measure', sample: { address, rows: 1 }, background });
  }

  retire(instances: readonly Instance[]): void {
    this.#instances.retire(instances);
  }

  #check(): void {
    if (this.#broken !== undefined) throw this.#ended(this.#broken);
    if (this.#ending) throw new SkepError('CLOSED', 'the model is closed');
  }

  #ended(broken: SkepError): SkepError {
    return new SkepError('CLOSED', `the model has ended, load it again: ${broken.message}`, { cause: broken });
  }

  /** What the last proof said of merging requests; undefined when there has been no occasion for one. */
  get batching(): Batching | undefined {
    return this.#batching;
  }

  /** Rows a task may have now, and how many tasks of how many requests there have been. */
  get batches(): { readonly maxRows: number; readonly tasks: Readonly<Record<number, number>> } {
    return { maxRows: this.#dispatch.maxBatch, tasks: this.#dispatch.tasks };
  }

  /** Memory of requests that are cut into cells, in units of the arena: in use, and in all. */
  get blocks(): { readonly used: number; readonly units: number } {
    return this.#dispatch.blocks;
  }

  /** Requests submitted, not finished, and beyond what instances may be computing. */
  get waiting(): number {
    const taken = this.#groups.reduce((n, g) => n + g.instances * (g.batch ?? 1), 0);
    return Math.max(0, this.#requests.size - taken);
  }

  /** Requests submitted and not finished. */
  get pending(): number {
    return this.#requests.size;
  }

  /**
   * Puts a request into the queue. `inputs` in the order of the model's inputs (undefined: not fed), `wanted` indices of
   * outputs. `settle` is called once, unless the returned function is called first. Throws OVERLOADED when slots run out.
   */
  submit(
    inputs: readonly (HostValue | undefined)[],
    wanted: readonly number[],
    settle: (outcome: Outcome) => void,
  ): Cancel {
    if (this.#broken !== undefined) throw this.#ended(this.#broken);
    return this.#requests.submit({ inputs, wanted }, settle);
  }

  /** Lets pending requests finish, ends the threads, and gives the memory back. */
  async close(): Promise<PooledMemory | undefined> {
    this.#closing = true;
    if (this.#requests.size > 0 && this.#broken === undefined)
      await new Promise<void>((resolve) => this.#whenIdle.push(resolve));
    this.#ending = true;
    this.#channel.close();
    if (this.#broken !== undefined) {
      await this.#instances.terminate();
      return undefined;
    }
    await this.#instances.close();
    // A change that was about to start something has learnt of the end, or started it.
    await this.#changes;
    await this.#instances.close();
    this.#requests.forget();
    // Where the last one to go has died, what is left in the memory is not for another model.
    if (!this.#channel.wiped) return undefined;
    return {
      memory: this.#memory.memory,
      stagingBytes: this.#requests.stagingBytes,
      blocks: this.#dispatch.blockExtent,
    };
  }

  #rest(): void {
    // A late wake must not let go of threads whose end `close` waits for.
    if (!this.#closing) this.#instances.awake = false;
    for (const resolve of this.#whenIdle.splice(0)) resolve();
  }

  /** An instance has died: what it had fails, and is the only thing that does, if nothing shared is in doubt. */
  #failAbandoned(instance: Instance, error: SkepError): void {
    if (this.#broken !== undefined) return;
    // Whoever dies in the middle of a turn leaves the scheduler's words half written: nobody can go on with them.
    if (this.#channel.holder === instance.place || this.#dispatch.poisoned) {
      this.#break(error);
      return;
    }
    this.#requests.abandon(instance.place, error);
  }

  /** After an instance has gone that should not have: another takes its place, a few times in a row at most. */
  #replace({ task, phase, failure }: Instance): void {
    if (task !== 'serve' || phase !== 'serving' || this.#ending || this.#broken !== undefined) return;
    const error = failure ?? new SkepError('INTERNAL', 'an instance ended');
    this.#answers = 0;
    if (++this.#deaths > MOST_DEATHS) {
      this.#break(new SkepError('INTERNAL', `${error.message}, like ${MOST_DEATHS} before it`, { cause: error }));
      return;
    }
    // Those that are wanted when its turn has come, which may be others.
    this.#change(() => this.#serve(this.#groups)).then(
      () => this.listener?.onReplaced(error),
      (cause: SkepError) => {
        if (this.#ending || this.#broken !== undefined) return;
        // There may be nobody left to serve.
        this.#break(
          new SkepError('INTERNAL', `${error.message}; none could take its place: ${cause.message}`, { cause }),
        );
      },
    );
  }

  #break(error: SkepError): void {
    if (this.#broken !== undefined || this.#ending) return;
    this.#broken = error;
    this.#requests.failAll(error);
    void this.#instances.terminate();
  }
}
