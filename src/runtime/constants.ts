// The constants of one model, shared by its instances: each compiles for itself, and the first to need a packed weight
// places it where all find it. A table of (key hash → address) in shared words under a lock that only instances take.
//
//   entry: hash (2 words) │ address, −1 while its owner fills it │ spare
import type { ConstantPool } from '../compiler/plan.js';
import { SkepError } from '../tensor/errors.js';
import type { Heap, ModelMemory } from './memory.js';

const LOCK = 0;
const COUNT = 1;
const HEADER = 4;
const ENTRY = 4;
const FILLING = -1;

/** Constants one model may have: weights times the forms they are packed in. */
const CAPACITY = 1 << 14;

export class SharedConstants implements ConstantPool {
  readonly #words: Int32Array;
  readonly #memory: ModelMemory;
  readonly #heap: Heap;
  /** What this instance has seen already; a look-up here takes no lock. */
  readonly #seen = new Map<string, number>();

  /** `heap` is this instance's own. Its constants stay when it ends. */
  constructor(buffer: SharedArrayBuffer, memory: ModelMemory, heap: Heap) {
    this.#words = new Int32Array(buffer);
    this.#memory = memory;
    this.#heap = heap;
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
    this.#lock();
    const at = this.#probe(a, b);
    const present = this.#words[at] !== 0 || this.#words[at + 1] !== 0;
    if (!present) {
      if (Atomics.add(this.#words, COUNT, 1) >= CAPACITY / 2) {
        this.#unlock();
        throw new SkepError('UNSUPPORTED', `the model has more than ${CAPACITY / 2} constants`);
      }
      this.#words[at] = a;
      this.#words[at + 1] = b;
      Atomics.store(this.#words, at + 2, FILLING);
    }
    this.#unlock();
    if (!present) return undefined;
    while (Atomics.load(this.#words, at + 2) === FILLING) Atomics.wait(this.#words, at + 2, FILLING);
    const address = Atomics.load(this.#words, at + 2) >>> 0;
    // The owner failed (out of memory): fail alike rather than wait for ever.
    if (address === 0) throw new SkepError('OUT_OF_MEMORY', `constant '${key}' could not be placed`);
    return address;
  }

  #fill(key: string, bytes: number, fill: (into: Uint8Array) => void): number {
    const at = this.#probe(...hash(key));
    let address = 0;
    try {
      address = this.#heap.allocate(bytes + 64);
      const into = this.#memory.bytes(address, bytes + 64);
      into.fill(0);
      fill(into.subarray(0, bytes));
    } catch (error) {
      address = 0;
      throw error;
    } finally {
      Atomics.store(this.#words, at + 2, address | 0);
      Atomics.notify(this.#words, at + 2);
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
    while (Atomics.compareExchange(this.#words, LOCK, 0, 1) !== 0) Atomics.wait(this.#words, LOCK, 1);
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
