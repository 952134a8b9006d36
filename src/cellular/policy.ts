// One face for every way to decide what runs next, so that the simulator, the live bench and the step-through page run
// cellular batching and its rivals on the same arrivals. A policy is told of arrivals, asked for work when an instance
// is free, and told when that work is done. It has no clock: times come in, in milliseconds.

import type { Reason } from './reasons.js';
import type { Unfolding } from './unfold.js';

/** A request: its shape, and, for one that decides itself when it ends, how many decoder steps it turns out to take. */
export interface WorkItem {
  readonly unfolding: Unfolding;
  /** Decoder steps until the stop token, for `encoder-decoder` and `beam`. A policy learns it only by running them. */
  readonly steps?: number;
}

/** So many calls of one cell with so many rows. `useful` of the rows × times are not padding. */
export interface CellCall {
  readonly type: number;
  readonly rows: number;
  readonly times: number;
  readonly useful: number;
}

/** What an instance runs next, without a break: its calls, and the keys of the requests that have a part in it. */
export interface Work {
  readonly calls: readonly CellCall[];
  readonly keys: readonly number[];
  /** Why, where the policy says: a Reason. */
  readonly reason?: Reason;
}

export interface Policy {
  readonly name: string;
  /** A request has come. False: the queue is full, it is refused. */
  arrive(key: number, item: WorkItem, now: number): boolean;
  /** What `instance`, which is free, should run now. Undefined: nothing. */
  next(instance: number, now: number): Work | undefined;
  /** The instance has run what `next` gave it. Appends the keys of requests that are finished by it to `ended`. */
  complete(instance: number, now: number, ended: number[]): void;
  /** When a free instance should ask again though nothing has happened. Infinity: never. */
  wakeAt(now: number): number;
}
