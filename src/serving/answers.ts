// The answers an instance has given and the caller may still be reading. The memory of an answer is the instance's again
// when the caller has released its slot. Callers release in about the order of finishing, so looking at the oldest is
// enough between two tasks; before sleeping all are looked at.
import type { Channel } from '../runtime/channel.js';
import type { Heap } from '../runtime/memory.js';

interface Answer {
  readonly slot: number;
  readonly generation: number;
  readonly address: number;
}

export class Answers {
  readonly #channel: Channel;
  readonly #heap: Heap;
  #held: Answer[] = [];
  /** Those before it have been freed. */
  #first = 0;

  constructor(channel: Channel, heap: Heap) {
    this.#channel = channel;
    this.#heap = heap;
  }

  /** An answer is about to be given in a slot. Address 0: there is nothing to free. */
  hold(slot: number, address: number): void {
    if (address !== 0) this.#held.push({ slot, generation: this.#channel.generation(slot), address });
  }

  /** Frees the oldest answers that the caller has taken. Constant time an answer. */
  reclaimOldest(): void {
    while (this.#first < this.#held.length && this.#free(this.#held[this.#first]!)) this.#first++;
    if (this.#first < 64 || this.#first * 2 < this.#held.length) return;
    this.#held = this.#held.slice(this.#first);
    this.#first = 0;
  }

  /** Frees all that the caller has taken. True when nothing is held any more. */
  reclaim(): boolean {
    this.#held = this.#held.slice(this.#first).filter((answer) => !this.#free(answer));
    this.#first = 0;
    return this.#held.length === 0;
  }

  #free({ slot, generation, address }: Answer): boolean {
    const released = this.#channel.released(slot, generation);
    if (released) this.#heap.free(address);
    return released;
  }
}
