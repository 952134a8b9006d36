// A team: the t threads of an instance, computing one kernel step together. The leader publishes the step and bumps the
// epoch; every thread claims chunks of its units from an atomic counter until none are left; the leader waits until the
// followers are done. Which thread computes which units never matters to the result (kernels/abi.ts).
//
//   leader    publish ─▶ epoch++ ─▶ claim… ─▶ wait for t − 1 arrivals ─▶ next step
//   follower  wait for the epoch ─▶ claim… ─▶ arrive ─▶ wait …
//
// Waiting spins for a while (a fork and join costs under a microsecond then) and sleeps after that, so that more threads
// than cores degrade instead of collapsing; notify is only called when someone sleeps.
import { abi, type KernelName } from '../kernels/abi.js';
import type { Kernels } from '../kernels/module.js';
import { SkepError } from '../tensor/errors.js';

const EPOCH = 0;
const KERNEL = 1;
const PARAMS = 2;
const UNITS = 3;
const CHUNK = 4;
const NEXT = 5;
const ARRIVED = 6;
const SLEEPING_FOLLOWERS = 7;
const SLEEPING_LEADER = 8;
const SCRATCH = 9;
const SCRATCH_BYTES = 10;
const BROKEN = 11;
const WORDS = 16;

const STOP = -1;

/** Loads of the epoch before a waiting thread sleeps: some tens of microseconds. */
const SPINS = 20_000;

/** Kernel numbers: the same on every thread, for they load the same table. */
const names = Object.keys(abi) as KernelName[];
const numbers = new Map(names.map((n, i) => [n, i] as const));

/** Shared words of a team. */
export function createTeamBuffer(): SharedArrayBuffer {
  return new SharedArrayBuffer(4 * WORDS);
}

/** The leader's side. */
export class TeamLeader {
  readonly #words: Int32Array;
  readonly #kernels: Kernels;
  readonly #threads: number;
  readonly #spins: number;

  /** `spin`: false where threads compete for cores with others. */
  constructor(buffer: SharedArrayBuffer, kernels: Kernels, threads: number, spin: boolean) {
    this.#words = new Int32Array(buffer);
    this.#kernels = kernels;
    this.#threads = threads;
    this.#spins = spin ? SPINS : 100;
  }

  get threads(): number {
    return this.#threads;
  }

  /** Scratch memory of all threads: thread i has `bytes` at `address + i·bytes`. */
  setScratch(address: number, bytes: number): void {
    Atomics.store(this.#words, SCRATCH, address);
    Atomics.store(this.#words, SCRATCH_BYTES, bytes);
  }

  run(kernel: KernelName, params: number, units: number, grain: number): void {
    const w = this.#words;
    const scratch = Atomics.load(w, SCRATCH);
    if (this.#threads === 1 || units <= grain) {
      this.#kernels[kernel](params, 0, units, scratch);
      return;
    }
    // Four claims a thread even out cores of unequal speed.
    const chunk = Math.max(grain, Math.ceil(units / (this.#threads * 4)));
    Atomics.store(w, KERNEL, numbers.get(kernel)!);
    Atomics.store(w, PARAMS, params);
    Atomics.store(w, UNITS, units);
    Atomics.store(w, CHUNK, chunk);
    Atomics.store(w, ARRIVED, 0);
    Atomics.store(w, NEXT, 0);
    Atomics.add(w, EPOCH, 1);
    if (Atomics.load(w, SLEEPING_FOLLOWERS) > 0) Atomics.notify(w, EPOCH);
    claim(w, this.#kernels[kernel], params, units, chunk, scratch);
    this.#join();
  }

  /** Ends the followers. */
  stop(): void {
    stop(this.#words);
  }

  #join(): void {
    const w = this.#words;
    const all = this.#threads - 1;
    for (;;) {
      for (let i = 0; i < this.#spins; i++) if (Atomics.load(w, ARRIVED) === all) return;
      const seen = Atomics.load(w, ARRIVED);
      if (seen === all) return;
      // Before waiting, too: it may have been said before this step began. Whoever says it changes the count afterwards.
      if (Atomics.load(w, BROKEN) === 1) throw new SkepError('INTERNAL', 'a thread of the instance has ended');
      Atomics.store(w, SLEEPING_LEADER, 1);
      Atomics.wait(w, ARRIVED, seen);
      Atomics.store(w, SLEEPING_LEADER, 0);
    }
  }
}

/** Tells a leader that a follower is no more; from the thread that owns the workers. */
export function breakTeam(buffer: SharedArrayBuffer): void {
  const w = new Int32Array(buffer);
  Atomics.store(w, BROKEN, 1);
  // Another count than the leader waits on, whatever it was.
  Atomics.add(w, ARRIVED, 1 << 16);
  Atomics.notify(w, ARRIVED);
}

/** Ends the followers of a leader that is no more; from the thread that owns the workers. */
export function stopTeam(buffer: SharedArrayBuffer): void {
  stop(new Int32Array(buffer));
}

function stop(w: Int32Array): void {
  Atomics.store(w, KERNEL, STOP);
  Atomics.add(w, EPOCH, 1);
  Atomics.notify(w, EPOCH);
}

/** A follower's life: computes its share of every step until the leader stops the team. `index` is from 1. */
export function follow(buffer: SharedArrayBuffer, kernels: Kernels, index: number, spin: boolean): void {
  const w = new Int32Array(buffer);
  const spins = spin ? SPINS : 100;
  let epoch = 0;
  for (;;) {
    epoch = nextEpoch(w, epoch, spins);
    const kernel = Atomics.load(w, KERNEL);
    if (kernel === STOP) return;
    const scratch = Atomics.load(w, SCRATCH) + index * Atomics.load(w, SCRATCH_BYTES);
    claim(w, kernels[names[kernel]!], Atomics.load(w, PARAMS), Atomics.load(w, UNITS), Atomics.load(w, CHUNK), scratch);
    Atomics.add(w, ARRIVED, 1);
    if (Atomics.load(w, SLEEPING_LEADER) === 1) Atomics.notify(w, ARRIVED);
  }
}

function claim(
  w: Int32Array,
  kernel: Kernels[KernelName],
  params: number,
  units: number,
  chunk: number,
  scratch: number,
): void {
  for (let begin = Atomics.add(w, NEXT, chunk); begin < units; begin = Atomics.add(w, NEXT, chunk))
    kernel(params, begin, Math.min(units, begin + chunk), scratch);
}

/** Waits until the epoch is another than `seen`. A step is joined before the next begins, so none is missed. */
function nextEpoch(w: Int32Array, seen: number, spins: number): number {
  for (;;) {
    for (let i = 0; i < spins; i++) {
      const e = Atomics.load(w, EPOCH);
      if (e !== seen) return e;
    }
    Atomics.add(w, SLEEPING_FOLLOWERS, 1);
    Atomics.wait(w, EPOCH, seen);
    Atomics.sub(w, SLEEPING_FOLLOWERS, 1);
  }
}
