// Where instances pull their work: the scheduler of cellular/ over shared words, between the channel's ring and the
// instances. An instance that has room takes a *turn* under the model's lock:
//
//   drain the ring: admit ─▶ complete its last task ─▶ form its next: up to `batch` rows of requests of one kind
//
// A feed-forward model is the simplest cellular one: a request is a chain of one step, its kind (batching.ts) a cell type.
// Cell type 0 is for requests that run alone. Types are shared by all instances: found by the digest of their kind's key,
// so that every instance means the same by a number; the least recently used gives its place to a new one.
import { Scheduler } from '../cellular/scheduler.js';
import type { Task } from '../cellular/task.js';
import type { Channel } from '../runtime/channel.js';
import { GROWTH_NUMBERS, Growth } from './growth.js';

/** Cell types at once. More kinds in flight than this run one request at a time. */
const TYPES = 64;
/** The most rows a task has when nobody has said. */
const LARGEST = 64;
/** Words of a type's entry: a digest of 8, and when it was used last. */
const ENTRY = 9;
const USED = 8;
const ALONE = 0;

// Words of the header, followed by the histogram: tasks by how many requests they had.
const CLOCK = 0;
const FIXED = 1;
const SLOTS = 2;
const INSTANCES = 3;
const HEADER = 8;

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
}

export interface DispatchOptions {
  /** Requests at most, in the ring or after it. */
  readonly slots: number;
  readonly instances: number;
  /** Rows of a task at most; undefined: grows as long as it pays. */
  readonly batch: number | undefined;
}

export class Dispatch {
  readonly #channel: Channel;
  readonly #scheduler: Scheduler;
  readonly #task: Task;
  readonly #words: Int32Array;
  readonly #tasks: Int32Array;
  readonly #types: Int32Array;
  readonly #growth: Growth;
  readonly #fixed: number | undefined;

  /** Shared words for one model. */
  static createBuffer(options: DispatchOptions): SharedArrayBuffer {
    const p = places(options);
    const buffer = new SharedArrayBuffer(p.bytes);
    const words = new Int32Array(buffer, p.header);
    words[FIXED] = options.batch ?? 0;
    words[SLOTS] = options.slots;
    words[INSTANCES] = options.instances;
    Scheduler.create(schedulerOptions(options, p.largest), buffer, p.scheduler);
    return buffer;
  }

  constructor(buffer: SharedArrayBuffer, channel: Channel) {
    const header = new Int32Array(buffer, 0, HEADER);
    const batch = header[FIXED] || undefined;
    const p = places({ slots: header[SLOTS]!, instances: header[INSTANCES]!, batch });
    this.#channel = channel;
    this.#scheduler = new Scheduler(buffer, p.scheduler);
    this.#task = this.#scheduler.task();
    this.#words = header;
    this.#tasks = new Int32Array(buffer, p.histogram, p.largest + 1);
    this.#types = new Int32Array(buffer, p.types, TYPES * ENTRY);
    this.#growth = new Growth(new Float64Array(buffer, p.growth, TYPES * GROWTH_NUMBERS), p.largest);
    this.#fixed = batch;
  }

  /** Whether requests are ever computed together. */
  get merges(): boolean {
    return this.#fixed !== 1;
  }

  /** An instance's turn. `admit` is called for every request that has come since the last one of any instance. */
  turn(instance: number, done: Done | undefined, admit: (slot: number) => Admitted): Turn {
    this.#channel.lock();
    try {
      for (let slot = this.#channel.next(); slot >= 0; slot = this.#channel.next()) this.#admit(slot, admit(slot));
      if (done !== undefined) this.#complete(instance, done);
      const formed = this.#scheduler.schedule(instance);
      if (formed === 0) return { slots: [], type: ALONE, more: false };
      const task = this.#task.moveTo(instance, 0);
      const slots = Array.from({ length: task.size }, (_, i) => task.key(i));
      return { slots, type: task.type, more: this.#scheduler.anyReady };
    } finally {
      this.#channel.unlock();
    }
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
      if (!mergeable) s.setMaxBatch(type, this.#growth.start(type, 1));
      else if (measured !== undefined)
        s.setMaxBatch(type, this.#growth.sample(type, measured.rows, measured.milliseconds));
    }
    s.complete(instance);
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
    const type = this.#scheduler.addType({ maxBatch: this.#fixed ?? 1, row: false });
    this.#growth.start(type, this.#fixed);
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

function schedulerOptions({ slots, instances }: DispatchOptions, largest: number) {
  // A slot may be used again before the task it was in has been completed.
  const requests = slots + instances * largest;
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
    largestBatch: largest,
  };
}

/** Byte offsets of what lies in the buffer. */
function places(options: DispatchOptions) {
  const largest = options.batch ?? LARGEST;
  const header = 0;
  const growth = 4 * HEADER;
  const types = growth + 8 * TYPES * GROWTH_NUMBERS;
  const histogram = types + 4 * TYPES * ENTRY;
  const scheduler = histogram + 4 * (largest + 1);
  const bytes = scheduler + Scheduler.bytes(schedulerOptions(options, largest));
  return { header, growth, types, histogram, scheduler, largest, bytes };
}
