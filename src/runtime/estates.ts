// Which parts of a model's memory belong to which instance, written where they survive it: an instance that has ended
// leaves its pages to the next one in its place, so that configuring a model anew a thousand times takes no more memory
// than doing it once. Each place has a list of extents in shared words, which its instance alone appends to:
//
//   place 0   count │ page pages │ page pages │ …        extents that touch are one entry
//   place 1   count │ …
//
// What a full list cannot hold is only lost to later instances, not to this one.
import { type Extent, PAGE } from './memory.js';

/** Extents a place can remember. */
const MOST = 511;
const PLACE = 2 + 2 * MOST;

export class Estates {
  readonly buffer: SharedArrayBuffer;
  readonly #words: Int32Array;

  constructor(buffer: SharedArrayBuffer) {
    this.buffer = buffer;
    this.#words = new Int32Array(buffer);
  }

  static create(places: number): Estates {
    return new Estates(new SharedArrayBuffer(4 * PLACE * places));
  }

  /** Adds whole pages to a place. */
  add(place: number, { address, bytes }: Extent): void {
    const w = this.#words;
    const at = place * PLACE;
    const count = w[at]!;
    const page = address / PAGE;
    const pages = bytes / PAGE;
    if (pages === 0) return;
    const last = at + 2 * count;
    if (count > 0 && w[last]! + w[last + 1]! === page) w[last + 1]! += pages;
    else if (count < MOST) {
      w[last + 2] = page;
      w[last + 3] = pages;
      w[at] = count + 1;
    }
  }

  /** What a place has is nobody's any more: the caller may still be reading an answer there. */
  abandon(place: number): void {
    this.#words[place * PLACE] = 0;
  }

  /** What a place has, but for what must stay as it is. */
  extents(place: number, kept: readonly Extent[] = []): Extent[] {
    const w = this.#words;
    const at = place * PLACE;
    const found: Extent[] = [];
    for (let i = 1; i <= w[at]!; i++) found.push({ address: w[at + 2 * i]! * PAGE, bytes: w[at + 2 * i + 1]! * PAGE });
    return kept.reduce(without, found);
  }
}

/** Extents less one, which is in at most one of them. 64-byte aligned, as a heap wants them. */
function without(extents: readonly Extent[], { address, bytes }: Extent): Extent[] {
  const end = Math.ceil((address + bytes) / 64) * 64;
  return extents.flatMap((e) => {
    const last = e.address + e.bytes;
    if (end <= e.address || address >= last) return [e];
    const left = { address: e.address, bytes: address - e.address };
    const right = { address: end, bytes: last - end };
    return [left, right].filter((x) => x.bytes > 0);
  });
}
