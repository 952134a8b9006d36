// The constants of one model, shared by its instances: each compiles for itself, and the first to need a packed weight
// places it where all find it. A table of (key hash → address) in shared words under a lock that only instances take.
//
//   entry: hash (2 words) │ address; odd: who fills it now; 0: nobody has │ owner │ bytes
//
// Constants stay when the instance that placed them ends. One that dies while it fills leaves the entry to whoever needs it.
import type { ConstantPool } from '../compiler/plan.js';
import { SkepError } from '../tensor/errors.js';
import type { Extent, Heap, ModelMemory } from './memory.js';

const LOCK = 0;
const COUNT = 1;
const HEADER = 4;
const ENTRY = 5;
const ADDRESS = 2;
const OWNER = 3;
const BYTES = 4;
const NONE = 0;

/** Constants one model may have: weights times the forms they are packed in. */
const CAPACITY = 1 << 14;
/** Bytes after a constant that kernels may read. */
const SLACK = 64;

/** The address of what is being filled: odd, which no address is. */
const filling = (owner: number) => 2 * owner + 1;
const isFilling = (address: number) => (address & 1) === 1;

/** What an instance has placed: its memory, but for these, may be used again when it has ended. From any thread. */
export function constantsOf(buffer: SharedArrayBuffer, owner: number): Extent[] {
  const w = new Int32Array(buffer);
  const found: Extent[] = [];
  for (let at = HEADER; at < w.length; at += ENTRY) {
    const address = Atomics.load(w, at + ADDRESS);
    if (address === NONE || isFilling(address) || w[at + OWNER] !== owner) continue;
    found.push({ address: address >>> 0, bytes: w[at + BYTES]! });
  }
  return found;
}

/** After an instance's thread has died: what it was placing is for others to place. From any thread. */
export function abandonConstants(buffer: SharedArrayBuffer, owner: number): void {
  const w = new Int32Array(buffer);
  for (let at = HEADER; at < w.length; at += ENTRY) {
    if (Atomics.compareExchange(w, at + ADDRESS, filling(owner), NONE) === filling(owner))
      Atomics.notify(w, at + ADDRESS);
  }
  // It may have had the lock. What the lock guards is written in an order that is right at every moment.
  if (Atomics.compareExchange(w, LOCK, owner + 1, 0) === owner + 1) Atomics.notify(w, LOCK, 1);
}

export class SharedConstants implements ConstantPool {
  readonly #words: Int32Array;
  readonly #memory: ModelMemory;
  readonly #heap: Heap;
  readonly #owner: number;
  /** What this instance has seen already; a look-up here takes no lock. */
  readonly #seen = new Map<string, number>();

  /** `heap` is this instance's own, `owner` its number. Its constants stay when it ends. */
  constructor(buffer: SharedArrayBuffer, memory: ModelMemory, heap: Heap, owner = 0) {
    this.#words = new Int32Array(buffer);
    this.#memory = memory;
    this.#heap = heap;
    this.#owner = owner;
  }

  /** Words for one model's table. */
  static createBuffer(): SharedArrayBuffer {
    return new SharedArrayBuffer(4 * (HEADER + CAPACITY * ENTRY));
  }

  place(key: string, bytes: number, fill: (into: Uint8Array) => void): number {
    const seen = this.#seen.get(key);
    if (seen !== undefined) return seen;
    const address = this.#find(key) ?? this.#fill(key, bytes, fill);
    this.#seen.set(key, address);
    return address;
  }

  /** The address of a constant another instance placed or is placing; undefined after reserving it for this one. */
  #find(key: string): number | undefined {
    const [a, b] = hash(key);
    const w = this.#words;
    this.#lock();
    const at = this.#probe(a, b);
    if (w[at] === 0 && w[at + 1] === 0) {
      if (Atomics.add(w, COUNT, 1) >= CAPACITY / 2) {
        this.#unlock();
        throw new SkepError('UNSUPPORTED', `the model has more than ${CAPACITY / 2} constants`);
      }
      w[at] = a;
      w[at + 1] = b;
    }
    this.#unlock();
    for (;;) {
      const address = Atomics.load(w, at + ADDRESS);
      if (isFilling(address)) Atomics.wait(w, at + ADDRESS, address);
      else if (address !== NONE) return address >>> 0;
      // New, or its owner failed or died: whoever comes first tries for itself, and fails with words of its own.
      else if (Atomics.compareExchange(w, at + ADDRESS, NONE, filling(this.#owner)) === NONE) return undefined;
    }
  }

  #fill(key: string, bytes: number, fill: (into: Uint8Array) => void): number {
    const w = this.#words;
    const at = this.#probe(...hash(key));
    let address = NONE;
    try {
      address = this.#heap.allocate(bytes + SLACK);
      const into = this.#memory.bytes(address, bytes + SLACK);
      into.fill(0);
      fill(into.subarray(0, bytes));
    } catch (error) {
      if (address !== NONE) this.#heap.free(address);
      address = NONE;
      throw error;
    } finally {
      Atomics.store(w, at + OWNER, this.#owner);
      Atomics.store(w, at + BYTES, bytes + SLACK);
      Atomics.store(w, at + ADDRESS, address | 0);
      Atomics.notify(w, at + ADDRESS);
    }
    return address;
  }

  /** Index of the entry of a hash, or of the free one where it belongs. */
  #probe(a: number, b: number): number {
    for (let i = a >>> 0; ; i++) {
      const at = HEADER + (i % CAPACITY) * ENTRY;
      const x = this.#words[at]!;
      const y = this.#words[at + 1]!;
      if ((x === a && y === b) || (x === 0 && y === 0)) return at;
    }
  }

  #lock(): void {
    for (;;) {
      const held = Atomics.compareExchange(this.#words, LOCK, 0, this.#owner + 1);
      if (held === 0) return;
      Atomics.wait(this.#words, LOCK, held);
    }
  }

  #unlock(): void {
    Atomics.store(this.#words, LOCK, 0);
    Atomics.notify(this.#words, LOCK, 1);
  }
}

/** 64 bits of a string as two words, not both 0 (two rounds of FNV-1a with a final mix, over different offsets). */
function hash(key: string): [number, number] {
  let a = 0x811c9dc5 | 0;
  let b = 0x9747b28c | 0;
  for (let i = 0; i < key.length; i++) {
    const c = key.charCodeAt(i);
    a = Math.imul(a ^ c, 0x01000193);
    b = Math.imul(b ^ c, 0x5bd1e995);
    b ^= b >>> 15;
  }
  a ^= a >>> 13;
  a = Math.imul(a, 0x85ebca6b);
  a ^= a >>> 16;
  return a === 0 && b === 0 ? [1, 1] : [a | 0, b | 0];
}
