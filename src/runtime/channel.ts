// The words through which a model's caller and its instances talk: one SharedArrayBuffer, no messages once it runs.
//
//   caller ──▶ queue (ring of slot numbers) ──▶ instances drain it under the lock   bell: bumped when there is work
//   caller ◀── done  (stack of slots)       ◀── instances                           armed: the caller wants to be woken
//
// A slot is one request from submit to the moment the caller has taken its answer:
//
//   FREE ─submit─▶ QUEUED ─start─▶ RUNNING ─finish─▶ DONE ─release─▶ FREE
//                    └─cancel─▶ CANCELLED ─finish───▶ DONE
//
// QUEUED leaves by compare-and-exchange, so exactly one of start and cancel wins. Every slot is at most once in the ring,
// which is as long as there are slots, so it cannot overflow; done slots are linked by one compare-and-exchange each, so
// that an instance that dies at any moment leaves no gap. The caller's thread never waits and never takes the lock;
// instances sleep on the bell. Between the ring and the start a request stands in the scheduler that the lock guards
// (serving/dispatch.ts); from then on a slot says which instance has it. What a request contains is wire.ts.

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
const DONE_TOP = 6;
const ALIVE = 7;
const LOCK = 8;
const WIPED = 9;
const HEADER = 16;

// Words of a slot. Times are float64 milliseconds on the clock of `now`.
const STATE = 0;
const ABORT = 1;
const GENERATION = 2;
const REQUEST = 3;
const RESPONSE = 4;
const STATUS = 5;
const INSTANCE = 6;
const COMPANY = 7;
const TAKEN_AT = 8;
const FINISHED_AT = 10;
const ROWS = 12;
const BUSY = 13;
const NEXT = 14;
const SLOT = 16;

/** No instance has the slot. */
const NOBODY = -1;

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
  /** Done slots that the caller has taken off the stack, the next one last. */
  #taken: number[] = [];

  private constructor(buffer: SharedArrayBuffer) {
    this.buffer = buffer;
    this.#words = new Int32Array(buffer);
    this.#times = new Float64Array(buffer);
    this.slots = (this.#words.length - HEADER) / (SLOT + 1);
    this.#queue = HEADER + this.slots * SLOT;
  }

  /** A channel with room for `slots` requests (rounded up to a power of two). */
  static create(slots: number): Channel {
    const n = 2 ** Math.ceil(Math.log2(Math.max(2, slots)));
    return new Channel(new SharedArrayBuffer(4 * (HEADER + n * (SLOT + 1))));
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
    Atomics.store(this.#words, at + COMPANY, 0);
    Atomics.store(this.#words, at + ROWS, 0);
    Atomics.store(this.#words, at + INSTANCE, NOBODY);
    Atomics.add(this.#words, at + GENERATION, 1);
    Atomics.store(this.#words, at + STATE, QUEUED);
    const tail = Atomics.load(this.#words, TAIL);
    Atomics.store(this.#words, this.#queue + (tail & (this.slots - 1)), slot);
    Atomics.store(this.#words, TAIL, (tail + 1) | 0);
    this.ring(1);
  }

  /** Cancels a request: true when none has started it. Its memory is read until it is finished all the same. */
  cancel(slot: number): boolean {
    const at = this.#slot(slot);
    Atomics.store(this.#words, at + ABORT, 1);
    return Atomics.compareExchange(this.#words, at + STATE, QUEUED, CANCELLED) === QUEUED;
  }

  /** The next finished slot, or −1. Call `arm` before draining to the end. */
  nextDone(): number {
    if (this.#taken.length === 0) {
      let slot = Atomics.exchange(this.#words, DONE_TOP, 0) - 1;
      while (slot >= 0) {
        this.#taken.push(slot);
        slot = this.#words[this.#slot(slot) + NEXT]! - 1;
      }
    }
    return this.#taken.pop() ?? -1;
  }

  /** Asks for one wake at the next completion. */
  arm(): void {
    Atomics.store(this.#words, ARMED, 1);
  }

  /**
   * How a finished request ended, where its response is (an address, 0: none), who computed it and when, and how many
   * requests were computed together (0: none). `rows` is told by one request of each task that was computed in one run,
   * with how many instances were busy then, on average.
   */
  result(slot: number): {
    readonly status: Status;
    readonly response: number;
    readonly instance: number;
    readonly company: number;
    readonly rows: number;
    readonly busy: number;
    readonly takenAt: number;
    readonly finishedAt: number;
  } {
    const at = this.#slot(slot);
    return {
      status: Atomics.load(this.#words, at + STATUS) as Status,
      response: Atomics.load(this.#words, at + RESPONSE),
      instance: Atomics.load(this.#words, at + INSTANCE),
      company: Atomics.load(this.#words, at + COMPANY),
      rows: Atomics.load(this.#words, at + ROWS),
      busy: Atomics.load(this.#words, at + BUSY) / 2,
      takenAt: this.#times[(at + TAKEN_AT) / 2]!,
      finishedAt: this.#times[(at + FINISHED_AT) / 2]!,
    };
  }

  /** The caller has taken the answer: the slot is free and its instance may reuse the response's memory. */
  release(slot: number): void {
    Atomics.store(this.#words, this.#slot(slot) + STATE, FREE);
  }

  /**
   * Of an instance whose thread has ended: whether it had the slot. What it has not said to be done it never will, and
   * nobody else touches the slot: it is the caller's again.
   */
  abandoned(slot: number, instance: number): 'done' | 'undone' | undefined {
    const at = this.#slot(slot);
    if (Atomics.load(this.#words, at + INSTANCE) !== instance) return undefined;
    const state = Atomics.load(this.#words, at + STATE);
    return state === FREE ? undefined : state === DONE ? 'done' : 'undone';
  }

  /** Which instance holds the lock; −1: none. */
  get holder(): number {
    return (Atomics.load(this.#words, LOCK) >> 1) - 1;
  }

  /** One more instance will `leave`. */
  enter(): void {
    Atomics.add(this.#words, ALIVE, 1);
  }

  /** An instance that has entered will not leave by itself any more. */
  forsake(): void {
    Atomics.sub(this.#words, ALIVE, 1);
  }

  /** True when the last instance has wiped the memory. */
  get wiped(): boolean {
    return Atomics.load(this.#words, WIPED) === 1;
  }

  /** No more requests will come: instances finish what is queued and end. */
  close(): void {
    Atomics.store(this.#words, CLOSED, 1);
    this.ring(Number.POSITIVE_INFINITY);
  }

  // ── an instance's side ───────────────────────────────────────────────────────────────────────────────────────────

  /** Takes the oldest slot out of the queue; −1 when it is empty. Under the lock, which keeps the order among instances. */
  next(): number {
    const head = Atomics.load(this.#words, HEAD);
    if (head === Atomics.load(this.#words, TAIL)) return -1;
    const slot = Atomics.load(this.#words, this.#queue + (head & (this.slots - 1)));
    Atomics.store(this.#words, HEAD, (head + 1) | 0);
    return slot;
  }

  /** Whether the caller has closed the channel. */
  get closed(): boolean {
    return Atomics.load(this.#words, CLOSED) === 1;
  }

  /** The bell's count. Read it before looking for work, and give it to `sleep` when there is none: nothing is missed. */
  get bell(): number {
    return Atomics.load(this.#words, BELL);
  }

  /** Waits until the bell is another than `heard`, or so many milliseconds. */
  sleep(heard: number, most = Number.POSITIVE_INFINITY): void {
    Atomics.add(this.#words, SLEEPERS, 1);
    Atomics.wait(this.#words, BELL, heard, most);
    Atomics.sub(this.#words, SLEEPERS, 1);
  }

  /** Takes the model's lock. Only instances do: the caller's thread must not wait. */
  lock(instance: number): void {
    const w = this.#words;
    // 0 free; else who has it, and a bit for somebody who waits: unlocking makes a system call only then.
    const mine = (instance + 1) << 1;
    if (Atomics.compareExchange(w, LOCK, 0, mine) === 0) return;
    for (;;) {
      const held = Atomics.load(w, LOCK);
      // There may be others that wait still.
      if (held === 0) {
        if (Atomics.compareExchange(w, LOCK, 0, mine | 1) === 0) return;
      } else if ((held & 1) === 1 || Atomics.compareExchange(w, LOCK, held, held | 1) === held)
        Atomics.wait(w, LOCK, held | 1);
    }
  }

  unlock(): void {
    if ((Atomics.exchange(this.#words, LOCK, 0) & 1) === 1) Atomics.notify(this.#words, LOCK, 1);
  }

  /** The slot is of the instance's next task. Under the lock. */
  take(slot: number, instance: number): void {
    Atomics.store(this.#words, this.#slot(slot) + INSTANCE, instance);
  }

  /** The instance's task of the slot is over, others are to come. Under the lock. */
  untake(slot: number, instance: number): void {
    Atomics.compareExchange(this.#words, this.#slot(slot) + INSTANCE, instance, NOBODY);
  }

  /** Marks a slot as running; false when it was cancelled in the queue (it must still be finished). */
  start(slot: number): boolean {
    const at = this.#slot(slot);
    this.#times[(at + TAKEN_AT) / 2] = now();
    return Atomics.compareExchange(this.#words, at + STATE, QUEUED, RUNNING) === QUEUED;
  }

  /** Says with how many requests in all a running one is computed together. */
  together(slot: number, company: number): void {
    Atomics.store(this.#words, this.#slot(slot) + COMPANY, company);
  }

  /** Says how many rows were computed in the run a slot is of, and how many instances were busy (twice the average). */
  measured(slot: number, rows: number, busyTwice: number): void {
    const at = this.#slot(slot);
    Atomics.store(this.#words, at + BUSY, busyTwice);
    Atomics.store(this.#words, at + ROWS, rows);
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

  /** True when that use of the slot has not been answered, nor taken back. */
  unanswered(slot: number, generation: number): boolean {
    const state = Atomics.load(this.#words, this.#slot(slot) + STATE);
    return state !== FREE && state !== DONE && this.generation(slot) === generation;
  }

  /** True when the caller no longer reads the response of that use of the slot, given or still to be given. */
  released(slot: number, generation: number): boolean {
    return Atomics.load(this.#words, this.#slot(slot) + STATE) === FREE || this.generation(slot) !== generation;
  }

  /** Reports a request finished. True when the caller must be woken with a message. */
  finish(slot: number, status: Status, response: number): boolean {
    const at = this.#slot(slot);
    this.#times[(at + FINISHED_AT) / 2] = now();
    Atomics.store(this.#words, at + STATUS, status);
    Atomics.store(this.#words, at + RESPONSE, response);
    Atomics.store(this.#words, at + STATE, DONE);
    let top: number;
    do {
      top = Atomics.load(this.#words, DONE_TOP);
      Atomics.store(this.#words, at + NEXT, top);
    } while (Atomics.compareExchange(this.#words, DONE_TOP, top, slot + 1) !== top);
    return Atomics.exchange(this.#words, ARMED, 0) === 1;
  }

  /** An instance is gone; `wipe` is called when it was the last of a channel that is closed. */
  leave(wipe: () => void): void {
    if (Atomics.sub(this.#words, ALIVE, 1) > 1 || !this.closed) return;
    wipe();
    Atomics.store(this.#words, WIPED, 1);
  }

  // ── both ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Bumps the bell and wakes up to `count` sleeping instances. */
  ring(count: number): void {
    Atomics.add(this.#words, BELL, 1);
    if (Atomics.load(this.#words, SLEEPERS) > 0) Atomics.notify(this.#words, BELL, count);
  }

  #slot(slot: number): number {
    return HEADER + slot * SLOT;
  }
}
