// A model's requests on the caller's side: into the channel, and out of it to whoever waits. The only work done on the
// caller's thread is copying a request's tensors in and an answer's out. Which instances compute them is host.ts.
//
//   submit ─▶ slot, tensors in staging memory ─▶ channel … done ─▶ copied out ─▶ settle
//
// One of the last answered requests is kept as a sample, for new instances to warm up with and the profiler to measure.
import type { HostValue } from '../operators/operator.js';
import { type Channel, Status } from '../runtime/channel.js';
import { Heap, type ModelMemory, PAGE } from '../runtime/memory.js';
import type { PlainError } from '../runtime/source.js';
import { copyOut } from '../runtime/staged.js';
import { readValues, writeValues } from '../runtime/wire.js';
import { SkepError } from '../tensor/errors.js';
import { bytesOf, Tensor } from '../tensor/tensor.js';

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

/** What is told of requests. */
export interface RequestsListener {
  /** There is one now, after none; and there is none any more. */
  readonly onSome: () => void;
  readonly onNone: () => void;
  readonly onAnswered: () => void;
  /** A task was computed by the instance at a place. */
  readonly onTask: (place: number, task: Omit<TaskReport, 'threads'>) => void;
}

/** The largest request kept as a sample, bytes; one of so many answered ones is. */
const SAMPLE_BYTES = 16 << 20;
const SAMPLE_EVERY = 64;

export class Requests {
  readonly #channel: Channel;
  readonly #memory: ModelMemory;
  readonly #staging: Heap;
  readonly #listener: RequestsListener;
  readonly #pending = new Map<number, Pending>();
  readonly #freeSlots: number[];
  #answers = 0;
  #sample: RequestValues | undefined;

  /** `stagingBytes`: what a reused memory has for requests already. */
  constructor(channel: Channel, memory: ModelMemory, stagingBytes: number, listener: RequestsListener) {
    this.#channel = channel;
    this.#memory = memory;
    this.#staging = new Heap(memory, [{ address: PAGE, bytes: stagingBytes }]);
    this.#listener = listener;
    this.#freeSlots = Array.from({ length: channel.slots }, (_, i) => channel.slots - 1 - i);
  }

  /** Submitted and not finished. */
  get size(): number {
    return this.#pending.size;
  }

  get stagingBytes(): number {
    return this.#staging.ownedBytes;
  }

  /** One of the last requests that were answered, unless it was a very large one. */
  get sample(): RequestValues | undefined {
    return this.#sample;
  }

  /** Writes a request where instances can read it; `unstage` gives the memory back. */
  stage({ inputs, wanted }: RequestValues): number {
    return writeValues(this.#memory, this.#staging, [...inputs, new Tensor('int32', Int32Array.from(wanted))]);
  }

  unstage(address: number): void {
    this.#staging.free(address);
  }

  /**
   * Puts a request into the queue. `settle` is called once, unless the returned function is called first. Throws OVERLOADED when slots run out.
   */
  submit(values: RequestValues, settle: (outcome: Outcome) => void): Cancel {
    const slot = this.#freeSlots.pop();
    if (slot === undefined)
      throw new SkepError('OVERLOADED', 'no room for another request: too many are cancelled but still queued');
    let request: number;
    try {
      request = this.stage(values);
    } catch (error) {
      this.#freeSlots.push(slot);
      throw error;
    }
    const submittedAt = performance.timeOrigin + performance.now();
    const pending: Pending = { request, values, submittedAt, settle };
    this.#pending.set(slot, pending);
    if (this.#pending.size === 1) this.#listener.onSome();
    this.#channel.arm();
    this.#channel.submit(slot, request);
    return () => {
      if (pending.settle === undefined) return;
      pending.settle = undefined;
      this.#channel.cancel(slot);
    };
  }

  /** Takes what is done. */
  drain(): void {
    this.#channel.arm();
    for (let slot = this.#channel.nextDone(); slot >= 0; slot = this.#channel.nextDone()) this.#finish(slot);
    if (this.#pending.size === 0) this.#listener.onNone();
  }

  /** The instance at a place has died: what it had done is taken, what it had not fails. */
  abandon(place: number, error: SkepError): void {
    for (const slot of [...this.#pending.keys()]) {
      const left = this.#channel.abandoned(slot, place);
      if (left === 'done') this.#finish(slot);
      else if (left === 'undone') this.#fail(slot, error);
    }
    if (this.#pending.size === 0) this.#listener.onNone();
  }

  /** Nothing will be answered any more. */
  failAll(error: SkepError): void {
    for (const p of this.#pending.values()) {
      const settle = p.settle;
      p.settle = undefined;
      settle?.({ status: 'failed', error });
    }
    this.#pending.clear();
    this.#listener.onNone();
  }

  /** Lets go of the sample. */
  forget(): void {
    this.#sample = undefined;
  }

  #finish(slot: number): void {
    const pending = this.#pending.get(slot)!;
    const { status, response, instance, company, rows, busy, takenAt, finishedAt } = this.#channel.result(slot);
    if (rows > 0) this.#listener.onTask(instance, { rows, milliseconds: finishedAt - takenAt, busy });
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
    this.#listener.onAnswered();
  }

  #keep(values: RequestValues): void {
    let bytes = 0;
    for (const v of values.inputs) if (v instanceof Tensor && v.type !== 'string') bytes += bytesOf(v).length;
    if (bytes <= SAMPLE_BYTES) this.#sample = values;
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
}

export function revive({ code, message }: PlainError): SkepError {
  return new SkepError(code, message);
}
