// How much of a stage of cut requests one task may take, so that a request that comes meanwhile does not wait long: about
// 0.3 ms. Measured on the tasks themselves; the shortest counts, for whatever disturbs a task makes it longer, but a
// machine that has become slower is believed after a while. State is numbers in a shared array, changed under the model's
// lock; there is no clock here. How many rows of a recurrence pay is another question: growth.ts.

const ROWS = 0;
const PACE = 1;
/** Float64 numbers a type. */
export const PACE_NUMBERS = 2;

/** Milliseconds a task should last at most where it has a choice. */
const TASK = 0.3;
/** Nodes of a chain in a task at most. */
export const MOST_STEPS = 128;
/** How fast a longer time is believed. */
const BELIEF = 0.1;

export class Pace {
  readonly #numbers: Float64Array;

  constructor(numbers: Float64Array) {
    this.#numbers = numbers;
  }

  /** A type of which nothing is known. `rows` that a node of its chain computes; 0: it is a recurrence. */
  start(type: number, rows = 0): void {
    this.#numbers[type * PACE_NUMBERS + ROWS] = rows;
    this.#numbers[type * PACE_NUMBERS + PACE] = 0;
  }

  /**
   * A task computed so many rows, for chains of up to so many nodes, and took so long. Gives how many nodes of a chain a
   * task may have from now on, and, unless it is a recurrence, how many chains.
   */
  sample(
    type: number,
    rows: number,
    milliseconds: number,
    steps: number,
  ): { steps: number; chains: number | undefined } {
    const n = this.#numbers;
    const at = type * PACE_NUMBERS;
    const each = n[at + ROWS]!;
    // Of a recurrence a step, whatever its rows; else a row.
    const measured = Math.max(1e-6, milliseconds / (each === 0 ? steps : rows));
    const before = n[at + PACE]!;
    const pace = before === 0 || measured < before ? measured : before + BELIEF * (measured - before);
    n[at + PACE] = pace;
    const fit = (x: number, most: number) => Math.max(1, Math.min(most, Math.floor(TASK / x)));
    if (each === 0) return { steps: fit(pace, MOST_STEPS), chains: undefined };
    return { steps: fit(pace * each, MOST_STEPS), chains: fit(pace * each, 1 << 16) };
  }
}
