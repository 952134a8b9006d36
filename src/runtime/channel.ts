// The words through which a model's caller and its instances talk: one SharedArrayBuffer, no messages once it runs.
//
//   caller ──▶ queue (ring of slot numbers) ──▶ instances take the oldest        bell: bumped at every submit and close
//   caller ◀── done  (ring of slot numbers) ◀── instances                        armed: the caller wants to be woken
//
// A slot is one request from submit to the moment the caller has taken its answer:
//
//   FREE ─submit─▶ QUEUED ─take─▶ RUNNING ─finish─▶ DONE ─release─▶ FREE
//                    └─cancel─▶ CANCELLED ─take─────▶ DONE
//
// QUEUED leaves by compare-and-exchange, so exactly one of take and cancel wins. Every slot is in at most one ring, and
// the rings are as long as there are slots, so they cannot overflow. The caller's thread never waits; instances sleep on
// the bell. What a request contains is wire.ts; who frees which memory is host.ts and instance.ts.

const FREE = 0;
const QUEUED = 1;
const RUNNING = 2;
const CANCELLED = 3;
const DONE = 4;

// Words of the header.
const BELL = 0;
const SLEEPERS = 1;
const CLOSED = 2;
const ARMED = 3;
const HEAD = 4;
const TAIL = 5;
const DONE_TAIL = 6;
const LEFT = 7;
const HEADER = 16;

// Words of a slot. Times are float64 milliseconds on the clock of `now`.
const STATE = 0;
const ABORT = 1;
const GENERATION = 2;
const REQUEST = 3;
const RESPONSE = 4;
const STATUS = 5;
const INSTANCE = 6;
const TAKEN_AT = 8;
const FINISHED_AT = 10;
const SLOT = 16;

/** How a request ended. */
export const Status = { answered: 0, failed: 1, cancelled: 2 } as const;
export type Status = (typeof Status)[keyof typeof Status];

/** Milliseconds on one clock for all threads of the process. */
export function now(): number {
  return performance.timeOrigin + performance.now();
}

/** Views over the shared words; made on every thread over the same buffer. */
export class Channel {
  readonly buffer: SharedArrayBuffer;
  readonly slots: number;
  readonly #words: Int32Array;
  readonly #times: Float64Array;
  readonly #queue: number;
  readonly #done: number;
  /** The caller's own place in the done ring. */
  #doneHead = 0;

  private constructor(buffer: SharedArrayBuffer) {
    this.buffer = buffer;
    this.#words = new Int32Array(buffer);
    this.#times = new Float64Array(buffer);
    this.slots = (this.#words.length - HEADER) / (SLOT + 2);
    this.#queue = HEADER + this.slots * SLOT;
    this.#done = this.#queue + this.slots;
  }

  /** A channel with room for `slots` requests (rounded up to a power of two). */
  static create(slots: number): Channel {
    const n = 2 ** Math.ceil(Math.log2(Math.max(2, slots)));
    return new Channel(new SharedArrayBuffer(4 * (HEADER + n * (SLOT + 2))));
  }

  static over(buffer: SharedArrayBuffer): Channel {
    return new Channel(buffer);
  }

  // ── the caller's side ────────────────────────────────────────────────────────────────────────────────────────────

  /** Puts a request into a free slot and the queue, and wakes one sleeper. */
  submit(slot: number, request: number): void {
    const at = this.#slot(slot);
    Atomics.store(this.#words, at + ABORT, 0);
    Atomics.store(this.#words, at + REQUEST, request);
    Atomics.store(this.#words, at + RESPONSE, 0);
    Atomics.add(this.#words, at + GENERATION, 1);
    Atomics.store(this.#words, at + STATE, QUEUED);
    const tail = Atomics.load(this.#words, TAIL);
    Atomics.store(this.#words, this.#queue + (tail & (this.slots - 1)), slot);
    Atomics.store(this.#words, TAIL, (tail + 1) | 0);
    this.ring(1);
  }

  /** Cancels a request: true when no instance has taken it (its memory may be reused at once). */
  cancel(slot: number): boolean {
    const at = this.#slot(slot);
    Atomics.store(this.#words, at + ABORT, 1);
    return Atomics.compareExchange(this.#words, at + STATE, QUEUED, CANCELLED) === QUEUED;
  }

  /** The next finished slot, or −1. Call `arm` before draining to the end. */
  nextDone(): number {
    const at = this.#done + (this.#doneHead & (this.slots - 1));
    const slot = Atomics.exchange(this.#words, at, 0) - 1;
    if (slot >= 0) this.#doneHead = (this.#doneHead + 1) | 0;
    return slot;
  }

  /** Asks for one wake at the next completion. */
  arm(): void {
    Atomics.store(this.#words, ARMED, 1);
  }

  /** How a finished request ended, where its response is (an address, 0: none), who computed it and when. */
  result(slot: number): {
    readonly status: Status;
    readonly response: number;
    readonly instance: number;
    readonly takenAt: number;
    readonly finishedAt: number;
  } {
    const at = this.#slot(slot);
    return {
      status: Atomics.load(this.#words, at + STATUS) as Status,
      response: Atomics.load(this.#words, at + RESPONSE),
      instance: Atomics.load(this.#words, at + INSTANCE),
      takenAt: this.#times[(at + TAKEN_AT) / 2]!,
      finishedAt: this.#times[(at + FINISHED_AT) / 2]!,
    };
  }

  /** The caller has taken the answer: the slot is free and its instance may reuse the response's memory. */
  release(slot: number): void {
    Atomics.store(this.#words, this.#slot(slot) + STATE, FREE);
  }

  /** No more requests will come: instances finish what is queued and return from `take`. */
  close(): void {
    Atomics.store(this.#words, CLOSED, 1);
    this.ring(Number.POSITIVE_INFINITY);
  }

  // ── an instance's side ───────────────────────────────────────────────────────────────────────────────────────────

  /**
   * Waits for the oldest queued request and takes its slot out of the queue; −1 once the channel is closed and empty.
   * `idle` is called before sleeping, to give memory back. Not for the caller's thread: it waits.
   */
  take(idle: () => void): number {
    for (;;) {
      const bell = Atomics.load(this.#words, BELL);
      const slot = this.#pop();
      if (slot >= 0) return slot;
      if (Atomics.load(this.#words, CLOSED) === 1) return -1;
      idle();
      Atomics.add(this.#words, SLEEPERS, 1);
      Atomics.wait(this.#words, BELL, bell);
      Atomics.sub(this.#words, SLEEPERS, 1);
    }
  }

  /** Marks a taken slot as running; false when it was cancelled in the queue (it must still be finished). */
  start(slot: number, instance: number): boolean {
    const at = this.#slot(slot);
    this.#times[(at + TAKEN_AT) / 2] = now();
    Atomics.store(this.#words, at + INSTANCE, instance);
    return Atomics.compareExchange(this.#words, at + STATE, QUEUED, RUNNING) === QUEUED;
  }

  /** True when the caller wants a running request stopped. */
  aborted(slot: number): boolean {
    return Atomics.load(this.#words, this.#slot(slot) + ABORT) === 1;
  }

  /** Where the request is. */
  request(slot: number): number {
    return Atomics.load(this.#words, this.#slot(slot) + REQUEST);
  }

  /** Distinguishes uses of one slot. */
  generation(slot: number): number {
    return Atomics.load(this.#words, this.#slot(slot) + GENERATION);
  }

  /** True when the caller no longer reads the response of that use of the slot. */
  released(slot: number, generation: number): boolean {
    return Atomics.load(this.#words, this.#slot(slot) + STATE) !== DONE || this.generation(slot) !== generation;
  }

  /** Reports a request finished. True when the caller must be woken with a message. */
  finish(slot: number, status: Status, response: number): boolean {
    const at = this.#slot(slot);
    this.#times[(at + FINISHED_AT) / 2] = now();
    Atomics.store(this.#words, at + STATUS, status);
    Atomics.store(this.#words, at + RESPONSE, response);
    Atomics.store(this.#words, at + STATE, DONE);
    const position = Atomics.add(this.#words, DONE_TAIL, 1);
    Atomics.store(this.#words, this.#done + (position & (this.slots - 1)), slot + 1);
    return Atomics.exchange(this.#words, ARMED, 0) === 1;
  }

  /** An instance says it is gone; gives how many have been before it. */
  leave(): number {
    return Atomics.add(this.#words, LEFT, 1);
  }

  // ── both ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Bumps the bell and wakes up to `count` sleeping instances. */
  ring(count: number): void {
    Atomics.add(this.#words, BELL, 1);
    if (Atomics.load(this.#words, SLEEPERS) > 0) Atomics.notify(this.#words, BELL, count);
  }

  #pop(): number {
    for (;;) {
      const head = Atomics.load(this.#words, HEAD);
      if (head === Atomics.load(this.#words, TAIL)) return -1;
      const slot = Atomics.load(this.#words, this.#queue + (head & (this.slots - 1)));
      if (Atomics.compareExchange(this.#words, HEAD, head, (head + 1) | 0) === head) return slot;
    }
  }

  #slot(slot: number): number {
    return HEADER + slot * SLOT;
  }
}
