// One model's memory: a shared WebAssembly memory, typed views that follow its growth, and a heap over it for one owner.
// Addresses are byte offsets. The first page is left unused so that 0 means "absent".
import { SkepError } from '../tensor/errors.js';

/** Bytes of a WebAssembly page. */
export const PAGE = 65536;
/** What a 32-bit WebAssembly memory can be at most: 4 GiB. */
export const MAX_PAGES = 65536;

/** A shared memory of one page that can grow to the most there is. */
export function newMemory(): WebAssembly.Memory {
  return new WebAssembly.Memory({ initial: 1, maximum: MAX_PAGES, shared: true });
}

/** Views over a shared memory that any thread may grow. */
export class ModelMemory {
  readonly memory: WebAssembly.Memory;
  #u8: Uint8Array;
  #i32: Int32Array;

  constructor(memory = newMemory()) {
    this.memory = memory;
    this.#u8 = new Uint8Array(memory.buffer);
    this.#i32 = new Int32Array(memory.buffer);
  }

  /** All of it as bytes. Take it anew after anything that may have grown the memory. */
  get u8(): Uint8Array {
    this.#refresh();
    return this.#u8;
  }

  /** All of it as words. */
  get i32(): Int32Array {
    this.#refresh();
    return this.#i32;
  }

  /** A view of `length` bytes at `address`. */
  bytes(address: number, length: number): Uint8Array {
    return this.u8.subarray(address, address + length);
  }

  #refresh(): void {
    if (this.#u8.buffer !== this.memory.buffer) {
      this.#u8 = new Uint8Array(this.memory.buffer);
      this.#i32 = new Int32Array(this.memory.buffer);
    }
  }
}

/** Bytes at an address. */
export interface Extent {
  readonly address: number;
  readonly bytes: number;
}

/** What is left of an extent without one inside. */
export function apart({ address, bytes }: Extent, inside: Extent | undefined): Extent[] {
  if (inside === undefined) return [{ address, bytes }];
  const end = inside.address + inside.bytes;
  return [
    { address, bytes: inside.address - address },
    { address: end, bytes: address + bytes - end },
  ];
}

/** A range that is in use or free. */
interface Range {
  address: number;
  bytes: number;
}

/**
 * First-fit allocation by one owner from segments it grows the memory by. Other owners' segments may lie between its own:
 * growth is atomic, so several heaps share a memory without a lock.
 */
export class Heap {
  readonly #memory: ModelMemory;
  /** Sorted by address, never adjacent. */
  readonly #free: Range[] = [];
  readonly #used = new Map<number, number>();
  readonly #onGrown: ((extent: Extent) => void) | undefined;
  #ownedBytes = 0;

  /** `extents`: what the memory has already and nobody else owns; `onGrown` hears of what is added to it. */
  constructor(memory: ModelMemory, extents: readonly Extent[] = [], onGrown?: (extent: Extent) => void) {
    this.#memory = memory;
    this.#onGrown = onGrown;
    for (const { address, bytes } of extents) {
      if (bytes === 0) continue;
      this.#ownedBytes += bytes;
      this.#release({ address, bytes });
    }
  }

  /** Bytes of the memory this heap owns, used or free. */
  get ownedBytes(): number {
    return this.#ownedBytes;
  }

  /** Bytes allocated now. */
  get usedBytes(): number {
    let n = 0;
    for (const bytes of this.#used.values()) n += bytes;
    return n;
  }

  /** A range of at least `bytes`, 64-byte aligned, contents undefined. Throws OUT_OF_MEMORY past 4 GiB. */
  allocate(bytes: number): number {
    const need = Math.max(64, Math.ceil(bytes / 64) * 64);
    let index = this.#free.findIndex((r) => r.bytes >= need);
    if (index < 0) {
      this.#grow(need);
      index = this.#free.findIndex((r) => r.bytes >= need);
    }
    const range = this.#free[index]!;
    const { address } = range;
    range.address += need;
    range.bytes -= need;
    if (range.bytes === 0) this.#free.splice(index, 1);
    this.#used.set(address, need);
    return address;
  }

  /** Gives a range back. */
  free(address: number): void {
    const bytes = this.#used.get(address);
    if (bytes === undefined) throw new SkepError('INTERNAL', `address ${address} is not allocated`);
    this.#used.delete(address);
    this.#release({ address, bytes });
  }

  #grow(bytes: number): void {
    const pages = Math.max(16, Math.ceil(bytes / PAGE));
    let first: number;
    try {
      first = this.#memory.memory.grow(pages);
    } catch (cause) {
      throw new SkepError(
        'OUT_OF_MEMORY',
        `the model needs ${bytes} bytes more, but its memory has ${this.#memory.memory.buffer.byteLength} of at most 4 GiB`,
        { cause },
      );
    }
    this.#ownedBytes += pages * PAGE;
    this.#onGrown?.({ address: first * PAGE, bytes: pages * PAGE });
    this.#release({ address: first * PAGE, bytes: pages * PAGE });
  }

  #release(range: Range): void {
    let i = this.#free.findIndex((r) => r.address > range.address);
    if (i < 0) i = this.#free.length;
    this.#free.splice(i, 0, range);
    const next = this.#free[i + 1];
    if (next !== undefined && range.address + range.bytes === next.address) {
      range.bytes += next.bytes;
      this.#free.splice(i + 1, 1);
    }
    const before = this.#free[i - 1];
    if (before !== undefined && before.address + before.bytes === range.address) {
      before.bytes += range.bytes;
      this.#free.splice(i, 1);
    }
  }
}
