// How many rows a task of a kind may have when nobody has said: it grows from 1 by doubling, as long as twice as many rows
// in a task give at least 5 % more rows a millisecond, measured on the model's own tasks. How to picture one kind:
//
//   limit 1 ─ 4 tasks ─▶ 2 ─ 4 tasks ─▶ 4 ─ 4 tasks: no better than 2 ─▶ settled at 2 ─ 256 tasks ─▶ 4 once more …
//
// Only tasks of more than half the limit count: smaller ones say nothing about it. The first is left out, it compiles a
// plan. The best of each four is taken, for whatever disturbs a task makes it slower. State is numbers in a shared array,
// changed under the model's lock; there is no clock here.

const LIMIT = 0;
const COUNT = 1;
const RATE = 2;
const BEFORE = 3;
const SETTLED = 4;
/** Float64 numbers a kind. */
export const GROWTH_NUMBERS = 5;

/** No rate: marks a kind that may not be merged. */
const NEVER = -1;
const SAMPLES = 4;
const GAIN = 1.05;
/** Tasks after which a settled limit is tried again: the machine may have been busy with other things. */
const AGAIN = 256;

export class Growth {
  readonly #numbers: Float64Array;
  readonly #largest: number;

  /** `largest`: the most rows a task may ever have. */
  constructor(numbers: Float64Array, largest: number) {
    this.#numbers = numbers;
    this.#largest = largest;
  }

  /** A kind of which nothing is known, or (`fixed`) whose limit is not to change. Gives its limit. */
  start(kind: number, fixed?: number): number {
    const at = kind * GROWTH_NUMBERS;
    this.#numbers.fill(0, at, at + GROWTH_NUMBERS);
    return this.#to(at, fixed ?? 1, 0, fixed === undefined ? 0 : Number.POSITIVE_INFINITY);
  }

  /** The kind may not be merged. Gives its limit. */
  never(kind: number): number {
    this.start(kind, 1);
    this.#numbers[kind * GROWTH_NUMBERS + BEFORE] = NEVER;
    return 1;
  }

  /** False after `never`. */
  mayMerge(kind: number): boolean {
    return this.#numbers[kind * GROWTH_NUMBERS + BEFORE] !== NEVER;
  }

  /** A task of the kind had so many rows and took so long. Gives the limit from now on. */
  sample(kind: number, rows: number, milliseconds: number): number {
    const n = this.#numbers;
    const at = kind * GROWTH_NUMBERS;
    const limit = n[at + LIMIT]!;
    const settled = n[at + SETTLED]!;
    if (settled === Number.POSITIVE_INFINITY || rows <= limit / 2) return limit;
    const rate = rows / Math.max(milliseconds, 1e-6);
    if (settled > 0) {
      if (rows <= limit) n[at + RATE] = Math.max(n[at + RATE]!, rate);
      n[at + SETTLED] = settled + 1;
      if (settled < AGAIN || limit * 2 > this.#largest) return limit;
      return this.#to(at, limit * 2, n[at + RATE]!, 0);
    }
    if (rows > limit) {
      // It came with more rows than the limit and went alone: start from there.
      const whole = 2 ** Math.ceil(Math.log2(rows));
      return whole > this.#largest ? limit : this.#to(at, whole, 0, 0);
    }
    const count = n[at + COUNT]!++;
    if (count > 0) n[at + RATE] = Math.max(n[at + RATE]!, rate);
    if (count < SAMPLES) return limit;
    const better = n[at + RATE]! >= GAIN * n[at + BEFORE]!;
    if (!better) return this.#to(at, limit / 2, 0, 1);
    if (limit * 2 > this.#largest) return this.#to(at, limit, 0, 1);
    return this.#to(at, limit * 2, n[at + RATE]!, 0);
  }

  #to(at: number, limit: number, before: number, settled: number): number {
    const n = this.#numbers;
    n[at + LIMIT] = limit;
    n[at + COUNT] = n[at + RATE] = 0;
    n[at + BEFORE] = before;
    n[at + SETTLED] = settled;
    return limit;
  }
}
