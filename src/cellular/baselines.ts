// The rivals: policies that batch whole requests. A batch is closed when it starts, nobody joins or leaves before it
// ends. They differ in who goes together (the queue), how the work is laid out (stages.ts), and when they start.
//
//   none      one request at a time                     bucket    requests of like length, padded to the bucket's edge
//   pad       the oldest, padded to the longest         fold      the oldest, batched depth by depth
//   timeout   as pad, but waits for a full batch        aimd      as pad, the batch size found by trying

import { CellularError, checkInteger } from './errors.js';
import type { CellCall, Policy, Work, WorkItem } from './policy.js';
import { alone, byDepth, padded, stagesOf } from './stages.js';

interface Queued {
  readonly key: number;
  readonly item: WorkItem;
  readonly since: number;
}

/** A first-in first-out queue that gives its head away in constant time. */
class Fifo {
  #items: Queued[] = [];
  #head = 0;

  get length(): number {
    return this.#items.length - this.#head;
  }
  get oldest(): Queued | undefined {
    return this.#items[this.#head];
  }
  push(queued: Queued): void {
    this.#items.push(queued);
  }
  take(count: number): Queued[] {
    const taken = this.#items.slice(this.#head, this.#head + count);
    this.#head += taken.length;
    if (this.#head > 1024 && 2 * this.#head > this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return taken;
  }
}

/** What all of them share: the running batches, and the queue's limit. */
abstract class ClosedBatches implements Policy {
  abstract readonly name: string;
  readonly maxQueue: number;
  readonly #running = new Map<number, readonly Queued[]>();
  #queued = 0;

  constructor(maxQueue = Number.POSITIVE_INFINITY) {
    this.maxQueue = maxQueue;
  }

  /** Puts a request into the queue it belongs to. */
  protected abstract enqueue(queued: Queued): void;
  /** The batch to start now; empty: none. */
  protected abstract take(now: number): Queued[];
  /** The batch's work. */
  protected abstract layOut(batch: readonly Queued[]): CellCall[];
  /** A batch has taken so long. */
  protected learn(_size: number, _milliseconds: number): void {}

  arrive(key: number, item: WorkItem, now: number): boolean {
    if (this.#queued >= this.maxQueue) return false;
    this.enqueue({ key, item, since: now });
    this.#queued += 1;
    return true;
  }

  next(instance: number, now: number): Work | undefined {
    const batch = this.take(now);
    if (batch.length === 0) return undefined;
    this.#queued -= batch.length;
    this.#running.set(instance, batch);
    this.#started.set(instance, now);
    return { calls: this.layOut(batch), keys: batch.map((q) => q.key) };
  }
  readonly #started = new Map<number, number>();

  complete(instance: number, now: number, ended: number[]): void {
    const batch = this.#running.get(instance);
    if (batch === undefined) throw new CellularError('E_STATE', `instance ${instance} runs no batch`);
    this.#running.delete(instance);
    this.learn(batch.length, now - this.#started.get(instance)!);
    for (const { key } of batch) ended.push(key);
  }

  wakeAt(_now: number): number {
    return Number.POSITIVE_INFINITY;
  }
}

const itemsOf = (batch: readonly Queued[]): WorkItem[] => batch.map((q) => q.item);

/** No batching: one request at a time, every cell on one row. */
export class OneByOne extends ClosedBatches {
  readonly name: string = 'none';
  readonly queue = new Fifo();

  protected enqueue(queued: Queued): void {
    this.queue.push(queued);
  }
  protected take(_now: number): Queued[] {
    return this.queue.take(1);
  }
  protected layOut(batch: readonly Queued[]): CellCall[] {
    return alone(itemsOf(batch));
  }
}

/** The oldest `maxBatch` requests, padded to the longest. */
export class Padding extends ClosedBatches {
  readonly name: string = 'pad';
  readonly maxBatch: number;
  readonly queue = new Fifo();

  constructor(maxBatch: number, maxQueue?: number) {
    super(maxQueue);
    checkInteger('maxBatch', maxBatch, 1, 1 << 20);
    this.maxBatch = maxBatch;
  }
  protected enqueue(queued: Queued): void {
    this.queue.push(queued);
  }
  protected take(_now: number): Queued[] {
    return this.queue.take(this.maxBatch);
  }
  protected layOut(batch: readonly Queued[]): CellCall[] {
    return padded(itemsOf(batch));
  }
}

/** As padding, but starts only with a full batch or when the oldest has waited `timeout` ms. */
export class Timeout extends Padding {
  override readonly name = 'timeout';
  readonly timeout: number;

  constructor(maxBatch: number, timeout: number, maxQueue?: number) {
    super(maxBatch, maxQueue);
    this.timeout = timeout;
  }
  protected override take(now: number): Queued[] {
    return this.queue.length >= this.maxBatch || this.wakeAt(now) <= now ? super.take(now) : [];
  }
  override wakeAt(_now: number): number {
    const oldest = this.queue.oldest;
    return oldest === undefined ? Number.POSITIVE_INFINITY : oldest.since + this.timeout;
  }
}

/**
 * Buckets of `width` by the length of the first stage, served round robin; a free instance takes what the next bucket
 * that has anything holds, at most `maxBatch`, padded to the bucket's edge (later stages to the longest).
 */
export class Buckets extends ClosedBatches {
  readonly name = 'bucket';
  readonly width: number;
  readonly maxBatch: number;
  readonly #buckets: Fifo[] = [];
  #turn = 0;

  constructor(maxBatch: number, width: number, maxQueue?: number) {
    super(maxQueue);
    checkInteger('maxBatch', maxBatch, 1, 1 << 20);
    checkInteger('bucket width', width, 1, 1 << 20);
    this.maxBatch = maxBatch;
    this.width = width;
  }
  #bucketOf(item: WorkItem): number {
    return Math.ceil(stagesOf(item)[0]!.steps / this.width) - 1;
  }
  protected enqueue(queued: Queued): void {
    const bucket = this.#bucketOf(queued.item);
    while (this.#buckets.length <= bucket) this.#buckets.push(new Fifo());
    this.#buckets[bucket]!.push(queued);
  }
  protected take(_now: number): Queued[] {
    for (let i = 0; i < this.#buckets.length; i++) {
      const bucket = this.#buckets[(this.#turn + i) % this.#buckets.length]!;
      if (bucket.length === 0) continue;
      this.#turn = (this.#turn + i + 1) % this.#buckets.length;
      return bucket.take(this.maxBatch);
    }
    return [];
  }
  protected layOut(batch: readonly Queued[]): CellCall[] {
    return padded(itemsOf(batch), this.width * (this.#bucketOf(batch[0]!.item) + 1));
  }
}

/** Depth-wise batching of a closed batch: TensorFlow Fold (Looks et al., ICLR 2017). */
export class DepthWise extends Padding {
  override readonly name = 'fold';

  protected override layOut(batch: readonly Queued[]): CellCall[] {
    return byDepth(itemsOf(batch));
  }
}

/**
 * The batch size of Clipper (Crankshaw et al., NSDI 2017, section 4.3.1): one more while batches keep within `slo` ms,
 * a tenth less when one does not.
 */
export class Aimd extends Padding {
  override readonly name = 'aimd';
  readonly slo: number;
  #limit = 1;

  constructor(maxBatch: number, slo: number, maxQueue?: number) {
    super(maxBatch, maxQueue);
    this.slo = slo;
  }
  get limit(): number {
    return Math.floor(this.#limit);
  }
  protected override take(_now: number): Queued[] {
    return this.queue.take(this.limit);
  }
  protected override learn(size: number, milliseconds: number): void {
    if (milliseconds > this.slo) this.#limit = Math.max(1, this.#limit * 0.9);
    else if (size >= this.limit) this.#limit = Math.min(this.maxBatch, this.#limit + 1);
  }
}
