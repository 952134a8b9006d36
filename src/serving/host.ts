// The caller's side of a model: starts its threads, puts requests into the channel, resolves them as they finish, and ends
// it all. Nothing here waits or computes; the only work done on the caller's thread is copying a request's tensors in and
// an answer's out. Worker handles keep the process alive only while requests pend (or the model loads or closes).
import { Worker } from 'node:worker_threads';
import type { WeightType } from '../kernels/int8.js';
import type { Build } from '../kernels/module.js';
import type { HostValue } from '../operators/operator.js';
import { Channel, Status } from '../runtime/channel.js';
import { SharedConstants } from '../runtime/constants.js';
import { Heap, ModelMemory, PAGE } from '../runtime/memory.js';
import type { ModelInfo, PlainError, Source } from '../runtime/source.js';
import { copyOut } from '../runtime/staged.js';
import { breakTeam, createTeamBuffer } from '../runtime/team.js';
import { readValues, writeValues } from '../runtime/wire.js';
import { SkepError } from '../tensor/errors.js';
import { Tensor } from '../tensor/tensor.js';
import type { Batching } from './batching.js';
import { Dispatch } from './dispatch.js';
import type { PreparedKernels } from './prepare.js';
import type { FollowerData, LeaderData, LeaderMessage, StartMessage } from './thread.js';

/** A memory that outlives models: its pages, and how many of them the caller's side used for requests. */
export interface PooledMemory {
  readonly memory: WebAssembly.Memory;
  readonly stagingBytes: number;
}

export interface HostOptions {
  readonly build: Build;
  readonly weights: WeightType;
  readonly kernels: Promise<PreparedKernels>;
  /** Whether convolutions may be computed by Winograd's minimal filtering. */
  readonly winograd: boolean;
  readonly instances: number;
  /** Threads of each instance. */
  readonly threads: number;
  /** False where threads may outnumber cores. */
  readonly spin: boolean;
  /** Rows computed together at most; undefined: as many as it pays. */
  readonly batch: number | undefined;
  /** Requests at most, queued and running. */
  readonly maxQueue: number;
  readonly memory: PooledMemory;
}

/** When things happened to a request, milliseconds: in the queue, and being computed. */
export interface Timing {
  readonly queued: number;
  readonly computing: number;
}

/** One request in flight. */
interface Pending {
  readonly request: number;
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

export class Host {
  readonly #channel: Channel;
  readonly #dispatch: SharedArrayBuffer;
  readonly #dispatched: Dispatch;
  readonly #memory: ModelMemory;
  readonly #staging: Heap;
  readonly #leaders: Worker[] = [];
  readonly #workers: Worker[] = [];
  readonly #exits: Promise<void>[] = [];
  readonly #pending = new Map<number, Pending>();
  readonly #freeSlots: number[];
  readonly #whenIdle: (() => void)[] = [];
  #batching: Batching | undefined;
  #closing = false;
  #broken: SkepError | undefined;
  #onBroken: ((error: SkepError) => void) | undefined;

  private constructor(options: HostOptions) {
    // A cancelled request holds its slot until an instance passes it, so there are more slots than requests.
    this.#channel = Channel.create(Math.max(64, options.maxQueue * 4));
    const { instances, batch } = options;
    this.#dispatch = Dispatch.createBuffer({ slots: this.#channel.slots, instances, batch });
    this.#dispatched = new Dispatch(this.#dispatch, this.#channel);
    this.#freeSlots = Array.from({ length: this.#channel.slots }, (_, i) => this.#channel.slots - 1 - i);
    const { memory, stagingBytes } = options.memory;
    this.#memory = new ModelMemory(memory);
    this.#staging = new Heap(this.#memory, { address: PAGE, bytes: stagingBytes });
  }

  /** Starts the threads and reads the model; resolves when every instance can take requests. */
  static async start(source: Source, options: HostOptions): Promise<{ host: Host; info: ModelInfo }> {
    const host = new Host(options);
    try {
      const info = await host.#start(source, options);
      for (const w of host.#workers) w.unref();
      return { host, info };
    } catch (error) {
      host.#closing = true;
      await host.#terminate();
      throw error;
    }
  }

  async #start(source: Source, options: HostOptions): Promise<ModelInfo> {
    const { build, weights, winograd, instances, threads, spin } = options;
    const constants = SharedConstants.createBuffer();
    const taken = PAGE + options.memory.stagingBytes;
    const spare = { address: taken, bytes: this.#memory.memory.buffer.byteLength - taken };
    const { memory } = this.#memory;
    const loading: Promise<ModelInfo>[] = [];
    for (let index = 0; index < instances; index++) {
      const team = createTeamBuffer();
      const range = index === 0 ? spare : undefined;
      const channel = this.#channel.buffer;
      const data: LeaderData = {
        role: 'leader',
        index,
        source,
        build,
        winograd,
        weights,
        instances,
        threads,
        spin,
        channel,
        dispatch: this.#dispatch,
        constants,
        team,
        memory,
        range,
      };
      loading.push(this.#startLeader(data, options.kernels));
      for (let i = 1; i < threads; i++)
        this.#startFollower({ role: 'follower', index: i, spin, team, memory }, options.kernels);
    }
    // All are awaited even when one fails, so that no rejection goes unheard.
    const settled = await Promise.allSettled(loading);
    for (const s of settled) if (s.status === 'rejected') throw s.reason;
    return (settled[0] as PromiseFulfilledResult<ModelInfo>).value;
  }

  #startLeader(data: LeaderData, kernels: Promise<PreparedKernels>): Promise<ModelInfo> {
    const worker = this.#spawn(data);
    this.#leaders.push(worker);
    return new Promise((resolve, reject) => {
      let info: ModelInfo | undefined;
      worker.on('message', (m: LeaderMessage) => {
        if (m.kind === 'done') this.#drain();
        else if (m.kind === 'model') {
          info = m.info;
          kernels.then(({ module, wide }) => worker.postMessage({ module, wide } satisfies StartMessage), reject);
        } else if (m.kind === 'ready') resolve(info!);
        else if (m.kind === 'batching') this.#batching = m.batching;
        else if (m.kind === 'failed') reject(revive(m.error));
        else m satisfies never;
      });
      worker.once('error', reject);
      worker.once('exit', (code) =>
        reject(new SkepError('INTERNAL', `an instance ended with code ${code} while the model loaded`)),
      );
    });
  }

  #startFollower(data: FollowerData, kernels: Promise<PreparedKernels>): void {
    const worker = this.#spawn(data);
    // A module that does not compile is reported by the leader's promise.
    kernels.then(
      ({ module, wide }) => worker.postMessage({ module, wide } satisfies StartMessage),
      () => {},
    );
    worker.once('exit', () => {
      if (!this.#closing) breakTeam(data.team);
    });
  }

  #spawn(data: LeaderData | FollowerData): Worker {
    // worker.js is thread.js and all it imports in one file: loading a hundred modules takes five times as long.
    // No flags of the process: a loader hook given with --import has no business in a kernel thread.
    const worker = new Worker(new URL('./worker.js', import.meta.url), {
      workerData: data,
      execArgv: [],
      name: `skep ${data.role}`,
    });
    this.#workers.push(worker);
    this.#exits.push(new Promise((resolve) => worker.once('exit', () => resolve())));
    worker.on('error', (error) =>
      this.#break(new SkepError('INTERNAL', `a thread failed: ${error.message}`, { cause: error })),
    );
    worker.on('exit', (code) => {
      if (!this.#closing) this.#break(new SkepError('INTERNAL', `a thread ended with code ${code}`));
    });
    return worker;
  }

  /** What the last proof said of merging requests; undefined when there has been no occasion for one. */
  get batching(): Batching | undefined {
    return this.#batching;
  }

  /** Rows a task may have now, and how many tasks of how many requests there have been. */
  get batches(): { readonly maxRows: number; readonly tasks: Readonly<Record<number, number>> } {
    return { maxRows: this.#dispatched.maxBatch, tasks: this.#dispatched.tasks };
  }

  /** Requests submitted and not finished. */
  get pending(): number {
    return this.#pending.size;
  }

  /** Called when a thread dies: every pending request fails, no new one is taken. */
  set onBroken(listener: (error: SkepError) => void) {
    this.#onBroken = listener;
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
    if (this.#broken !== undefined)
      throw new SkepError('CLOSED', `the model has ended, load it again: ${this.#broken.message}`, {
        cause: this.#broken,
      });
    const slot = this.#freeSlots.pop();
    if (slot === undefined)
      throw new SkepError('OVERLOADED', 'no room for another request: too many are cancelled but still queued');
    let request: number;
    try {
      request = writeValues(this.#memory, this.#staging, [...inputs, new Tensor('int32', Int32Array.from(wanted))]);
    } catch (error) {
      this.#freeSlots.push(slot);
      throw error;
    }
    const pending: Pending = { request, submittedAt: performance.timeOrigin + performance.now(), settle };
    this.#pending.set(slot, pending);
    if (this.#pending.size === 1) for (const w of this.#leaders) w.ref();
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
    for (const w of this.#workers) w.ref();
    this.#channel.close();
    if (this.#broken !== undefined) {
      await this.#terminate();
      return undefined;
    }
    await Promise.all(this.#exits);
    return { memory: this.#memory.memory, stagingBytes: this.#staging.ownedBytes };
  }

  async #terminate(): Promise<void> {
    await Promise.all(this.#workers.map((w) => w.terminate()));
  }

  #drain(): void {
    if (this.#broken !== undefined) return;
    this.#channel.arm();
    for (let slot = this.#channel.nextDone(); slot >= 0; slot = this.#channel.nextDone()) this.#finish(slot);
    if (this.#pending.size > 0) return;
    // A late wake must not let go of threads whose end `close` waits for.
    if (!this.#closing) for (const w of this.#leaders) w.unref();
    for (const resolve of this.#whenIdle.splice(0)) resolve();
  }

  #finish(slot: number): void {
    const pending = this.#pending.get(slot)!;
    const { status, response, instance, company, takenAt, finishedAt } = this.#channel.result(slot);
    let outcome: Outcome | undefined;
    if (pending.settle !== undefined) {
      const values = response === 0 ? [] : readValues(this.#memory, response).map((v) => copyOut(this.#memory, v!));
      if (status === Status.answered) {
        const timing = { queued: takenAt - pending.submittedAt, computing: finishedAt - takenAt };
        outcome = { status: 'answered', values, timing, instance, company };
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

  #break(error: SkepError): void {
    if (this.#broken !== undefined || this.#closing) return;
    this.#broken = error;
    for (const p of this.#pending.values()) {
      const settle = p.settle;
      p.settle = undefined;
      settle?.({ status: 'failed', error });
    }
    this.#pending.clear();
    for (const resolve of this.#whenIdle.splice(0)) resolve();
    // What the thread held (the lock, a task) nobody can tell: the others cannot go on either.
    void this.#terminate();
    this.#onBroken?.(error);
  }
}

function revive({ code, message }: PlainError): SkepError {
  return new SkepError(code, message);
}
