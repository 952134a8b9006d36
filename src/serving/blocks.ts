// The memory of requests that are cut into cells, and how they end. A request has a block from its admission until nothing
// of it is in flight; it holds what outlives a task: states, products, outputs. How to picture it:
//
//   arena in the model's memory  ▇▇▇ 7 ▇▇▇│▇▇ 12 ▇▇│······│▇▇▇▇ 9 ▇▇▇▇│·············      by request: where its block starts
//
// How a request ends is noted first and given to the caller with its last task, by whichever instance that is. State is
// words in the model's shared buffer, changed and read under its lock.
import { Arena } from '../cellular/arena.js';
import { type Channel, Status } from '../runtime/channel.js';
import { type Extent, PAGE } from '../runtime/memory.js';
import type { Ending } from './turn.js';

/** Bytes of a unit of the arena: a cache line. */
const UNIT = 64;
const DEFAULT_BYTES = 64 << 20;

// Words of the header, then of a request of the scheduler.
const BASE = 0;
/** Units at the base, perhaps more than are used. */
const BYTES = 1;
const HEADER = 4;
const BLOCK = 0;
const GENERATION = 1;
const STARTED = 2;
const STATUS = 3;
const ANSWER = 4;
const REQUEST = 5;

export class Blocks {
  readonly #words: Int32Array;
  readonly #arena: Arena;
  readonly #channel: Channel;

  /** Bytes of the words for so many requests. */
  static bytes(requests: number): number {
    return 4 * (HEADER + REQUEST * requests) + Arena.bytes(requests);
  }

  static create(
    buffer: SharedArrayBuffer,
    offset: number,
    requests: number,
    options: { readonly blockBytes?: number | undefined; readonly blocks?: Extent | undefined },
  ): void {
    const bytes = options.blockBytes ?? options.blocks?.bytes ?? DEFAULT_BYTES;
    Arena.create(buffer, offset + 4 * (HEADER + REQUEST * requests), Math.floor(bytes / UNIT), requests);
    // What another model has left is used where it is as large: a few equal models in turn take no more than one.
    const words = new Int32Array(buffer, offset, HEADER);
    if (options.blocks !== undefined && options.blocks.bytes >= bytes) {
      words[BASE] = options.blocks.address / UNIT;
      words[BYTES] = options.blocks.bytes / UNIT;
    }
  }

  constructor(buffer: SharedArrayBuffer, offset: number, requests: number, channel: Channel) {
    this.#words = new Int32Array(buffer, offset, HEADER + REQUEST * requests);
    this.#arena = new Arena(buffer, offset + 4 * (HEADER + REQUEST * requests));
    this.#channel = channel;
  }

  /** Units in use, and in all. */
  get room(): { readonly used: number; readonly units: number } {
    return { used: this.#arena.used, units: this.#arena.units };
  }

  /** Where the arena is; undefined: none has been needed. */
  get extent(): Extent | undefined {
    const base = this.#words[BASE]!;
    return base > 0 ? { address: base * UNIT, bytes: this.#words[BYTES]! * UNIT } : undefined;
  }

  /** A block: where it starts, for `give`. `never`: it is larger than all there is. */
  take(bytes: number, memory: { reserve(bytes: number): number }): number | 'waits' | 'never' {
    const units = Math.ceil(bytes / UNIT);
    const w = this.#words;
    if (units > this.#arena.units || w[BASE] === -1) return 'never';
    if (w[BASE] === 0) {
      const whole = Math.ceil((this.#arena.units * UNIT) / PAGE) * PAGE;
      w[BASE] = memory.reserve(whole) / UNIT || -1;
      w[BYTES] = whole / UNIT;
    }
    if (w[BASE] === -1) return 'never';
    const start = this.#arena.allocate(units);
    return start < 0 ? 'waits' : start;
  }

  /** Gives a block to a request of the scheduler, which is the one in a slot. */
  give(request: number, slot: number, start: number): void {
    const at = this.#at(request);
    this.#words[at + BLOCK] = start + 1;
    this.#words[at + GENERATION] = this.#channel.generation(slot);
    this.#words[at + STARTED] = 0;
    this.#words[at + STATUS] = -1;
    this.#words[at + ANSWER] = 0;
  }

  /** Whether a request has one. */
  has(request: number): boolean {
    return this.#words[this.#at(request) + BLOCK] !== 0;
  }

  /** An instance has a task of the request, perhaps the first. Gives its block; undefined: its caller has been answered. */
  start(request: number, slot: number, instance: number): number | undefined {
    const at = this.#at(request);
    const w = this.#words;
    if (!this.#waits(request, slot)) return undefined;
    this.#channel.take(slot, instance);
    if (w[at + STARTED] === 0) this.#channel.start(slot);
    w[at + STARTED] = 1;
    return (w[BASE]! + w[at + BLOCK]! - 1) * UNIT;
  }

  /** The instance's task is over. Should it die now, it has nothing of the request. */
  leave(request: number, slot: number, instance: number): void {
    if (this.has(request) && this.#waits(request, slot)) this.#channel.untake(slot, instance);
  }

  /** Notes how the request ends, once. True when nothing more of it is to be run. */
  end(request: number, { status, address }: Ending): boolean {
    const at = this.#at(request);
    if (this.#words[at + STATUS] !== -1) return false;
    this.#words[at + STATUS] = status;
    this.#words[at + ANSWER] = address;
    return status !== Status.answered;
  }

  /**
   * Nothing of the request is in flight: takes its block back and gives the caller its answer, in the name of the instance
   * that ended it. True: the caller must be woken.
   */
  free(request: number, slot: number, instance: number): boolean {
    if (!this.has(request)) return false;
    const w = this.#words;
    const at = this.#at(request);
    this.#arena.free(w[at + BLOCK]! - 1);
    w[at + BLOCK] = 0;
    if (!this.#waits(request, slot)) return false;
    this.#channel.take(slot, instance);
    const status = w[at + STATUS]! < 0 ? Status.cancelled : (w[at + STATUS] as Status);
    return this.#channel.finish(slot, status, w[at + ANSWER]!);
  }

  /** Whether the slot still holds the request: when an instance dies the caller takes its slots back. */
  #waits(request: number, slot: number): boolean {
    return this.#channel.unanswered(slot, this.#words[this.#at(request) + GENERATION]!);
  }

  #at(request: number): number {
    return HEADER + REQUEST * request;
  }
}
