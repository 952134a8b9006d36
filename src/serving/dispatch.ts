// Where instances pull their work: the scheduler of cellular/ over shared words, between the channel's ring and the
// instances. An instance that has room takes a *turn* under the model's lock:
//
//   drain the ring: admit ─▶ complete its last task ─▶ form its next: up to `batch` rows of requests of one kind
//
// A feed-forward model is the simplest cellular one: a request is a chain of one step, its kind (batching.ts) a cell type.
// Cell type 0 is for requests that run alone. Types are shared by all instances: found by the digest of their kind's key,
// so that every instance means the same by a number; the least recently used gives its place to a new one.
//
// Instances have numbered places, more than are ever used at once. A place's words say how many rows its instance may take
// and whether it is to go: written by the caller's thread, read by the instance at each turn, so that nothing stops when a
// model is configured anew.
import { NO_LIMIT } from '../cellular/options.js';
import { Scheduler } from '../cellular/scheduler.js';
import type { Task } from '../cellular/task.js';
import type { Channel } from '../runtime/channel.js';
import { GROWTH_NUMBERS, Growth } from './growth.js';

/** The most rows a task may ever have. */
export const MOST_ROWS = 1024;
/** Cell types at once. More kinds in flight than this run one request at a time. */
const TYPES = 64;
/** The most rows a task has when nobody has said. */
const LARGEST = 64;
/** Words of a type's entry: a digest of 8, and when it was used last. */
const ENTRY = 9;
const USED = 8;
/** The cell type of what runs by itself. */
export const ALONE = 0;

// Words of the header, followed by the instances' words and the histogram: tasks by how many requests they had.
const CLOCK = 0;
/** Rows of a task at most, of any instance; 0: as many as it pays. As it should be, and as the cell types have it. */
const ROWS = 1;
const ADOPTED = 2;
const SLOTS = 3;
const INSTANCES = 4;
/** Instances that have a task. */
const BUSY = 5;
/** An instance failed in the middle of a turn: nobody can tell what is true of the scheduler. */
const POISONED = 6;
const HEADER = 8;

// Words of an instance.
const MOST = 0;
const RETIRED = 1;
const INSTANCE = 2;

/** What an admitted request is to the scheduler. */
export interface Admitted {
  /** 8 words that stand for its kind; undefined: it runs alone. */
  readonly digest: Int32Array | undefined;
  readonly rows: number;
}

/** How an instance's task went. */
export interface Done {
  readonly type: number;
  /** Rows and time of a task that was computed in one run and did not fail. */
  readonly measured: { readonly rows: number; readonly milliseconds: number } | undefined;
  /** False: the proof says that requests of this type may not be merged. */
  readonly mergeable: boolean;
}

/** What an instance is to do next. */
export interface Turn {
  /** Slots of the requests of its task, oldest first; none: there is nothing to do now. */
  readonly slots: readonly number[];
  readonly type: number;
  /** There is work left for another instance. */
  readonly more: boolean;
  /** Instances that have a task now, this one among them. */
  readonly busy: number;
  /** The instance is to go. */
  readonly retired: boolean;
}

export interface DispatchOptions {
  /** Requests at most, in the ring or after it. */
  readonly slots: number;
  /** Instances at most, with those that are going. */
  readonly instances: number;
}

export class Dispatch {
  readonly #channel: Channel;
  readonly #scheduler: Scheduler;
  readonly #task: Task;
  readonly #words: Int32Array;
  readonly #instances: Int32Array;
  readonly #tasks: Int32Array;
  readonly #types: Int32Array;
  readonly #growth: Growth;

  /** Shared words for one model. */
  static createBuffer(options: DispatchOptions): SharedArrayBuffer {
    const p = places(options);
    const buffer = new SharedArrayBuffer(p.bytes);
    const words = new Int32Array(buffer, p.header);
    words[SLOTS] = options.slots;
    words[INSTANCES] = options.instances;
    Scheduler.create(schedulerOptions(options), buffer, p.scheduler);
    return buffer;
  }

  constructor(buffer: SharedArrayBuffer, channel: Channel) {
    const header = new Int32Array(buffer, 0, HEADER);
    const instances = header[INSTANCES]!;
    const p = places({ slots: header[SLOTS]!, instances });
    this.#channel = channel;
    this.#scheduler = new Scheduler(buffer, p.scheduler);
    this.#task = this.#scheduler.task();
    this.#words = header;
    this.#instances = new Int32Array(buffer, p.instances, instances * INSTANCE);
    this.#tasks = new Int32Array(buffer, p.histogram, MOST_ROWS + 1);
    this.#types = new Int32Array(buffer, p.types, TYPES * ENTRY);
    this.#growth = new Growth(new Float64Array(buffer, p.growth, TYPES * GROWTH_NUMBERS), LARGEST);
  }

  // ── the caller's side ────────────────────────────────────────────────────────────────────────────────────────────

  /** Rows of a task at most, of any instance; undefined: grows as long as it pays. */
  set rows(rows: number | undefined) {
    Atomics.store(this.#words, ROWS, rows ?? 0);
  }

  /** Rows a task of one instance may have; undefined: what its cell type may. */
  bound(instance: number, rows: number | undefined): void {
    Atomics.store(this.#instances, instance * INSTANCE + MOST, rows ?? NO_LIMIT);
  }

  /** Whether an instance is to end after its present task. */
  retire(instance: number, retired: boolean): void {
    Atomics.store(this.#instances, instance * INSTANCE + RETIRED, Number(retired));
  }

  /** True when the scheduler cannot be trusted any more. */
  get poisoned(): boolean {
    return Atomics.load(this.#words, POISONED) === 1;
  }

  // ── an instance's side ───────────────────────────────────────────────────────────────────────────────────────────

  /** Whether requests are ever computed together. */
  get merges(): boolean {
    return Atomics.load(this.#words, ROWS) !== 1;
  }

  /** Instances that have a task. */
  get busy(): number {
    return Atomics.load(this.#words, BUSY);
  }

  /** An instance's turn. `admit` is called for every request that has come since the last one of any instance. */
  turn(instance: number, done: Done | undefined, admit: (slot: number) => Admitted): Turn {
    this.#channel.lock(instance);
    let sound = false;
    try {
      this.#adopt();
      this.#drain(admit);
      if (done !== undefined) {
        this.#complete(instance, done);
        this.#drain(admit);
      }
      const turn = this.#next(instance);
      sound = true;
      return turn;
    } finally {
      if (!sound) Atomics.store(this.#words, POISONED, 1);
      this.#channel.unlock();
    }
  }

  /** Ends the task that an instance has left which died in this place. The caller's side has failed its requests. */
  inherit(instance: number): void {
    const s = this.#scheduler;
    this.#channel.lock(instance);
    try {
      if (s.taskCount(instance) === 0) return;
      const task = this.#task.moveTo(instance, 0);
      for (let i = 0; i < task.size; i++) s.cancel(task.request(i));
      this.#end(instance);
    } finally {
      this.#channel.unlock();
    }
  }

  #next(instance: number): Turn {
    const at = instance * INSTANCE;
    const retired = Atomics.load(this.#instances, at + RETIRED) === 1;
    if (retired || this.#scheduler.schedule(instance, 0, Atomics.load(this.#instances, at + MOST)) === 0)
      return { slots: [], type: ALONE, more: retired && this.#scheduler.anyReady, busy: this.busy, retired };
    const task = this.#task.moveTo(instance, 0);
    const slots = Array.from({ length: task.size }, (_, i) => task.key(i));
    for (const slot of slots) this.#channel.take(slot, instance);
    Atomics.add(this.#words, BUSY, 1);
    return { slots, type: task.type, more: this.#scheduler.anyReady, busy: this.busy, retired };
  }

  #drain(admit: (slot: number) => Admitted): void {
    while (this.#scheduler.hasRoom(1, 0, 0)) {
      const slot = this.#channel.next();
      if (slot < 0) return;
      this.#admit(slot, admit(slot));
    }
  }

  /** Takes over how many rows a task may have, if that is another number now. */
  #adopt(): void {
    const rows = Atomics.load(this.#words, ROWS);
    if (this.#words[ADOPTED] === rows) return;
    this.#words[ADOPTED] = rows;
    for (let type = 1; type < TYPES; type++)
      if (this.#types[type * ENTRY + USED] !== 0 && this.#growth.mayMerge(type))
        this.#scheduler.setMaxBatch(type, this.#growth.start(type, rows || undefined));
  }

  /** So many requests have been computed together. Before they are finished, so that whoever has an answer finds it counted. */
  count(requests: number): void {
    Atomics.add(this.#tasks, requests, 1);
  }

  #admit(slot: number, { digest, rows }: Admitted): void {
    const type = digest === undefined ? ALONE : this.#typeOf(digest);
    const request = this.#scheduler.begin(slot);
    this.#scheduler.addChain(request, type, 1, { rows: Math.min(rows, 1 << 16) });
    this.#scheduler.submit(request, 0);
  }

  #complete(instance: number, { type, measured, mergeable }: Done): void {
    const s = this.#scheduler;
    // While the task was in flight its type could not give its place away.
    if (type !== ALONE) {
      if (!mergeable) s.setMaxBatch(type, this.#growth.never(type));
      else if (measured !== undefined)
        s.setMaxBatch(type, this.#growth.sample(type, measured.rows, measured.milliseconds));
    }
    this.#end(instance);
  }

  #end(instance: number): void {
    const s = this.#scheduler;
    s.complete(instance);
    Atomics.sub(this.#words, BUSY, 1);
    for (let r = s.nextEnded(); r >= 0; r = s.nextEnded()) s.free(r);
  }

  /** The cell type of a kind, old or new; ALONE when there is no room for another. */
  #typeOf(digest: Int32Array): number {
    const clock = ++this.#words[CLOCK]!;
    let oldest = -1;
    let free = -1;
    for (let type = 1; type < TYPES; type++) {
      const at = type * ENTRY;
      const used = this.#types[at + USED]!;
      if (used === 0) {
        free = type;
        break;
      }
      if (this.#has(at, digest)) {
        this.#types[at + USED] = clock;
        return type;
      }
      if (this.#scheduler.liveParts(type) > 0) continue;
      if (oldest < 0 || used < this.#types[oldest * ENTRY + USED]!) oldest = type;
    }
    if (free < 0) {
      if (oldest < 0) return ALONE;
      this.#scheduler.retireType(oldest);
    }
    // The lowest number that is not in use: the one just found.
    const fixed = this.#words[ADOPTED] || undefined;
    const type = this.#scheduler.addType({ maxBatch: fixed ?? 1, row: false });
    this.#growth.start(type, fixed);
    this.#types.set(digest, type * ENTRY);
    this.#types[type * ENTRY + USED] = clock;
    return type;
  }

  #has(at: number, digest: Int32Array): boolean {
    for (let i = 0; i < digest.length; i++) if (this.#types[at + i] !== digest[i]) return false;
    return true;
  }

  // ── for statistics, on any thread ────────────────────────────────────────────────────────────────────────────────

  /** Rows a task may have now, of the kind that may have most. */
  get maxBatch(): number {
    let most = 1;
    for (let type = 1; type < TYPES; type++)
      if (this.#types[type * ENTRY + USED] !== 0) most = Math.max(most, this.#scheduler.maxBatch(type));
    return most;
  }

  /** Tasks so far by how many requests were computed together. */
  get tasks(): Record<number, number> {
    const found: Record<number, number> = {};
    this.#tasks.forEach((n, requests) => {
      if (n > 0) found[requests] = n;
    });
    return found;
  }
}

function schedulerOptions({ slots, instances }: DispatchOptions) {
  // A slot may be used again before the task it was in has been completed. Where tasks are larger than this, what comes
  // waits in the ring until one has been.
  const requests = slots + instances * LARGEST;
  const cells = [{ maxBatch: 1, row: false }];
  return {
    cells,
    requests,
    parts: requests,
    nodes: 1,
    edges: 0,
    rows: 1,
    types: TYPES,
    instances,
    tasks: 1,
    largestBatch: MOST_ROWS,
  };
}

/** Byte offsets of what lies in the buffer. */
function places(options: DispatchOptions) {
  const header = 0;
  const growth = 4 * HEADER;
  const types = growth + 8 * TYPES * GROWTH_NUMBERS;
  const instances = types + 4 * TYPES * ENTRY;
  const histogram = instances + 4 * options.instances * INSTANCE;
  const scheduler = histogram + 4 * (MOST_ROWS + 1);
  const bytes = scheduler + Scheduler.bytes(schedulerOptions(options));
  return { header, growth, types, instances, histogram, scheduler, bytes };
}
