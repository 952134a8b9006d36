// Where each request's memory lies in an arena: first fit over a sorted list of the ranges in use. How to picture it:
//
//   arena   ▇▇▇▇▇▇·····▇▇▇▇▇▇▇▇▇▇·····················      ranges, in order of address:  (0, 6) (11, 10)
//
// Pure, as the scheduler is: a view over words in a buffer, under a lock that the caller keeps; what a unit is, and where
// the arena is, are the caller's. A range is known by where it starts. There are some hundreds at most: a walk is cheap.
import { CellularError, checkInteger } from './errors.js';

const UNITS = 0;
const MOST = 1;
const COUNT = 2;
const USED = 3;
const HEADER = 4;
/** Words of a range: where it starts, and how long it is. */
const RANGE = 2;

export class Arena {
  readonly #m: Int32Array;

  /** Bytes of the words for so many ranges. */
  static bytes(ranges: number): number {
    return 4 * (HEADER + RANGE * ranges);
  }

  /** Writes an empty arena of `units`, with at most so many ranges at a time. */
  static create(buffer: ArrayBufferLike, offset: number, units: number, ranges: number): Arena {
    checkInteger('units of an arena', units, 0, 0x7fffffff);
    const m = new Int32Array(buffer, offset, HEADER + RANGE * ranges);
    m.fill(0);
    m[UNITS] = units;
    m[MOST] = ranges;
    return new Arena(buffer, offset);
  }

  /** Views the arena that was created in `buffer` at `offset`. */
  constructor(buffer: ArrayBufferLike, offset = 0) {
    const most = new Int32Array(buffer, offset, HEADER)[MOST]!;
    this.#m = new Int32Array(buffer, offset, HEADER + RANGE * most);
  }

  /** Units in all. */
  get units(): number {
    return this.#m[UNITS]!;
  }

  /** Units in use. */
  get used(): number {
    return this.#m[USED]!;
  }

  /** Ranges in use. */
  get ranges(): number {
    return this.#m[COUNT]!;
  }

  /** Takes a range of so many units and gives its start; −1 when there is no gap so large now. */
  allocate(units: number): number {
    checkInteger('units of a range', units, 1, 0x7fffffff);
    const m = this.#m;
    const count = m[COUNT]!;
    if (count === m[MOST]!) return -1;
    let start = 0;
    let i = 0;
    for (; i < count; i++) {
      const at = HEADER + RANGE * i;
      if (m[at]! - start >= units) break;
      start = m[at]! + m[at + 1]!;
    }
    if (i === count && m[UNITS]! - start < units) return -1;
    const at = HEADER + RANGE * i;
    m.copyWithin(at + RANGE, at, HEADER + RANGE * count);
    m[at] = start;
    m[at + 1] = units;
    m[COUNT] = count + 1;
    m[USED]! += units;
    return start;
  }

  /** Gives the range that starts there back. Throws when there is none: it would be in use twice. */
  free(start: number): void {
    const m = this.#m;
    const count = m[COUNT]!;
    let low = 0;
    let high = count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (m[HEADER + RANGE * middle]! < start) low = middle + 1;
      else high = middle;
    }
    const at = HEADER + RANGE * low;
    if (low === count || m[at] !== start)
      throw new CellularError('E_STATE', `no range of the arena starts at ${start}`);
    m[USED]! -= m[at + 1]!;
    m.copyWithin(at, at + RANGE, HEADER + RANGE * count);
    m[COUNT] = count - 1;
  }
}
