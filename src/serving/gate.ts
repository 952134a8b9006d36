// Where instances that measure together meet, in shared words: every round begins when all are there, and anyone can end
// it for all. On the caller's side too, so it imports nothing of the engine.
const STOPPED = 0;
const ARRIVED = 1;
const ROUND = 2;
const WORDS = 4;

/** The words that those who measure together share. */
export class Gate {
  readonly buffer: SharedArrayBuffer;
  readonly #words: Int32Array;

  constructor(buffer = new SharedArrayBuffer(4 * WORDS)) {
    this.buffer = buffer;
    this.#words = new Int32Array(buffer);
  }

  get stopped(): boolean {
    return Atomics.load(this.#words, STOPPED) === 1;
  }

  /** Ends it for all, from any thread. */
  stop(): void {
    Atomics.store(this.#words, STOPPED, 1);
    Atomics.add(this.#words, ROUND, 1);
    Atomics.notify(this.#words, ROUND);
  }

  /** Waits until `members` are here, or it is stopped. */
  meet(members: number): void {
    const w = this.#words;
    const round = Atomics.load(w, ROUND);
    if (this.stopped) return;
    if (Atomics.add(w, ARRIVED, 1) + 1 === members) {
      Atomics.store(w, ARRIVED, 0);
      Atomics.add(w, ROUND, 1);
      Atomics.notify(w, ROUND);
    } else Atomics.wait(w, ROUND, round);
  }
}
