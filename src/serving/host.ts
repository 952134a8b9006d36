// The caller's side of a model: puts requests into the channel, resolves them as they finish, says which instances there
// are to be, and ends it all. Nothing here waits or computes; the only work done on the caller's thread is copying a
// request's tensors in and an answer's out. Worker handles keep the process alive only while requests pend (or instances
// start or end). How an instance starts and ends is instances.ts.
import { availableParallelism } from 'node:os';
import type { WeightType } from '../kernels/int8.js';
import type { Build } from '../kernels/module.js';
import type { HostValue } from '../operators/operator.js';
import type { Configuration } from '../optimizer/configuration.js';
import { Channel, Status } from '../runtime/channel.js';
import { apart, type Extent, Heap, ModelMemory, PAGE } from '../runtime/memory.js';
import type { ModelInfo, Source } from '../runtime/source.js';
import { copyOut } from '../runtime/staged.js';
import { readValues, writeValues } from '../runtime/wire.js';
import { SkepError } from '../tensor/errors.js';
import { bytesOf, Tensor } from '../tensor/tensor.js';
import type { Batching } from './batching.js';
import { Dispatch } from './dispatch.js';
import { type Instance, Instances, revive } from './instances.js';
import type { PreparedKernels } from './prepare.js';

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

/** When things happened to a request, milliseconds: in the queue, and being computed. */
export interface Timing {
  readonly queued: number;
  readonly computing: number;
}

/** A request as it came: in the order of the model's inputs, and of which outputs. */
export interface RequestValues {
  readonly inputs: readonly (HostValue | undefined)[];
  readonly wanted: readonly number[];
}

/** One request in flight. */
interface Pending {
  readonly request: number;
  readonly values: RequestValues;
  readonly submittedAt: number;
  settle: ((outcome: Outcome) => void) | undefined;
}

/** How a request came out, to whoever submitted it. */
export type Outcome =
  | {
      readonly status: 'answered';
      readonly values: readonly HostValue[];
      readonly timing: Timing;
      readonly instance: number;
      /** Requests computed together, this one among them. */
      readonly company: number;
    }
  | { readonly status: 'failed'; readonly error: SkepError };

/** Stops a request: its `settle` is not called any more. */
export type Cancel = () => void;

/** A task as one of its requests tells of it: for the controller. */
export interface TaskReport {
  readonly threads: number;
  readonly rows: number;
  readonly milliseconds: number;
  /** Instances that had a task meanwhile, on average. */
  readonly busy: number;
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
/** The largest request kept as a sample for warming up and measuring, bytes. */
const SAMPLE_BYTES = 16 << 20;
/** One of so many answered requests is kept. */
const SAMPLE_EVERY = 64;

export class Host {
  readonly #channel: Channel;
  readonly #dispatch: Dispatch;
  readonly #instances: Instances;
  readonly #memory: ModelMemory;
  readonly #staging: Heap;
  readonly #pending = new Map<number, Pending>();
  readonly #freeSlots: number[];
  readonly #whenIdle: (() => void)[] = [];
  /** What instances there are to be. */
  #groups: readonly ServedGroup[];
  /** Changes of instances, one after another. */
  #changes: Promise<unknown> = Promise.resolve();
  #deaths = 0;
  #answers = 0;
  #sample: RequestValues | undefined;
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
    this.#freeSlots = Array.from({ length: this.#channel.slots }, (_, i) => this.#channel.slots - 1 - i);
    const { memory, stagingBytes, blocks } = options.memory;
    this.#memory = new ModelMemory(memory);
    this.#staging = new Heap(this.#memory, [{ address: PAGE, bytes: stagingBytes }]);
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
        onDone: () => this.#drain(),
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
      host.#instances.awake = host.#pending.size > 0;
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
    if (address !== undefined) this.#staging.free(address);
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
    if (this.#sample === undefined) return undefined;
    try {
      return this.stage(this.#sample);
    } catch {
      // Its caller may have given its bytes to somebody else since.
      return undefined;
    }
  }

  /** Writes a request where instances can read it; `unstage` gives the memory back. */
  stage({ inputs, wanted }: RequestValues): number {
    return writeValues(this.#memory, this.#staging, [...inputs, new Tensor('int32', Int32Array.from(wanted))]);
  }

  unstage(address: number): void {
    this.#staging.free(address);
  }

  /** One of the last requests that were answered, unless it was a very large one. */
  get sample(): RequestValues | undefined {
    return this.#sample;
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
    return Math.max(0, this.#pending.size - taken);
  }

  /** Requests submitted and not finished. */
  get pending(): number {
    return this.#pending.size;
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
    const slot = this.#freeSlots.pop();
    if (slot === undefined)
      throw new SkepError('OVERLOADED', 'no room for another request: too many are cancelled but still queued');
    let request: number;
    try {
      request = this.stage({ inputs, wanted });
    } catch (error) {
      this.#freeSlots.push(slot);
      throw error;
    }
    const submittedAt = performance.timeOrigin + performance.now();
    const pending: Pending = { request, values: { inputs, wanted }, submittedAt, settle };
    this.#pending.set(slot, pending);
    if (this.#pending.size === 1) this.#instances.awake = true;
    this.#channel.arm();
    this.#channel.submit(slot, request);
    return () => {
      if (pending.settle === undefined) return;
      pending.settle = undefined;
      this.#channel.cancel(slot);
    };
  }

  /** Lets pending requests finish, ends the threads, and gives the memory back. */
  async close(): Promise<PooledMemory | undefined> {
    this.#closing = true;
    if (this.#pending.size > 0 && this.#broken === undefined)
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
    this.#sample = undefined;
    // Where the last one to go has died, what is left in the memory is not for another model.
    if (!this.#channel.wiped) return undefined;
    return {
      memory: this.#memory.memory,
      stagingBytes: this.#staging.ownedBytes,
      blocks: this.#dispatch.blockExtent,
    };
  }

  #drain(): void {
    if (this.#broken !== undefined) return;
    this.#channel.arm();
    for (let slot = this.#channel.nextDone(); slot >= 0; slot = this.#channel.nextDone()) this.#finish(slot);
    this.#rest();
  }

  #rest(): void {
    if (this.#pending.size > 0) return;
    // A late wake must not let go of threads whose end `close` waits for.
    if (!this.#closing) this.#instances.awake = false;
    for (const resolve of this.#whenIdle.splice(0)) resolve();
  }

  #finish(slot: number): void {
    const pending = this.#pending.get(slot)!;
    const { status, response, instance, company, rows, busy, takenAt, finishedAt } = this.#channel.result(slot);
    if (rows > 0 && this.listener?.onTask !== undefined) {
      const threads = this.#instances.threadsAt(instance);
      if (threads > 0) this.listener.onTask({ threads, rows, milliseconds: finishedAt - takenAt, busy });
    }
    let outcome: Outcome | undefined;
    if (pending.settle !== undefined) {
      const values = response === 0 ? [] : readValues(this.#memory, response).map((v) => copyOut(this.#memory, v!));
      if (status === Status.answered) {
        const timing = { queued: takenAt - pending.submittedAt, computing: finishedAt - takenAt };
        outcome = { status: 'answered', values, timing, instance, company };
        this.#answered(pending.values);
      } else if (status === Status.failed)
        outcome = { status: 'failed', error: revive(JSON.parse((values[0] as Tensor<'string'>).data[0]!)) };
      else
        outcome = {
          status: 'failed',
          error: new SkepError('INTERNAL', 'a request was cancelled that nobody cancelled'),
        };
    }
    this.#channel.release(slot);
    this.#staging.free(pending.request);
    this.#pending.delete(slot);
    this.#freeSlots.push(slot);
    const settle = pending.settle;
    pending.settle = undefined;
    if (outcome !== undefined) settle?.(outcome);
  }

  #answered(values: RequestValues): void {
    if (this.#answers++ % SAMPLE_EVERY === 0) this.#keep(values);
    if (this.#answers >= ANSWERS) this.#deaths = 0;
  }

  #keep(values: RequestValues): void {
    let bytes = 0;
    for (const v of values.inputs) if (v instanceof Tensor && v.type !== 'string') bytes += bytesOf(v).length;
    if (bytes <= SAMPLE_BYTES) this.#sample = values;
  }

  /** An instance has died: what it had fails, and is the only thing that does, if nothing shared is in doubt. */
  #failAbandoned(instance: Instance, error: SkepError): void {
    if (this.#broken !== undefined) return;
    // Whoever dies in the middle of a turn leaves the scheduler's words half written: nobody can go on with them.
    if (this.#channel.holder === instance.place || this.#dispatch.poisoned) {
      this.#break(error);
      return;
    }
    for (const slot of [...this.#pending.keys()]) {
      const left = this.#channel.abandoned(slot, instance.place);
      if (left === 'done') this.#finish(slot);
      else if (left === 'undone') this.#fail(slot, error);
    }
    this.#rest();
  }

  #fail(slot: number, error: SkepError): void {
    const pending = this.#pending.get(slot)!;
    this.#channel.release(slot);
    this.#staging.free(pending.request);
    this.#pending.delete(slot);
    this.#freeSlots.push(slot);
    const settle = pending.settle;
    pending.settle = undefined;
    settle?.({ status: 'failed', error });
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
    for (const p of this.#pending.values()) {
      const settle = p.settle;
      p.settle = undefined;
      settle?.({ status: 'failed', error });
    }
    this.#pending.clear();
    for (const resolve of this.#whenIdle.splice(0)) resolve();
    void this.#instances.terminate();
  }
}
