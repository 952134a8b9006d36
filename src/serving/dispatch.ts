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
import type { Extent } from '../runtime/memory.js';
import { Blocks } from './blocks.js';
import { GROWTH_NUMBERS, Growth } from './growth.js';
import { PACE_NUMBERS, Pace } from './pace.js';
import type { Admitting, CellRequest, Done, Entry, Turn } from './turn.js';

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
/** A request, its slot + 1, that waits for room for its cells; those behind it wait in the ring. */
const HELD = 7;
/** Whether there is more room than when it was last tried. */
const FREED = 8;
const HEADER = 10;

/** Parts of requests in the scheduler, on the average: a feed-forward request has one, each recurrent layer two more. */
const PARTS = 4;

// Words of an instance.
const MOST = 0;
const RETIRED = 1;
const INSTANCE = 2;

export interface DispatchOptions {
  /** Requests at most, in the ring or after it. */
  readonly slots: number;
  /** Instances at most, with those that are going. */
  readonly instances: number;
  /** Memory for requests that are cut, in bytes. */
  readonly blockBytes?: number | undefined;
  /** Where it is, if there is any already. */
  readonly blocks?: Extent | undefined;
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
  readonly #pace: Pace;
  readonly #blocks: Blocks;
  /** As many as the scheduler may have at once. */
  readonly #requests: number;

  /** Shared words for one model. */
  static createBuffer(options: DispatchOptions): SharedArrayBuffer {
    const p = places(options);
    const buffer = new SharedArrayBuffer(p.bytes);
    const words = new Int32Array(buffer, p.header);
    words[SLOTS] = options.slots;
    words[INSTANCES] = options.instances;
    Scheduler.create(schedulerOptions(options), buffer, p.scheduler);
    Blocks.create(buffer, p.blocks, p.requests, options);
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
    this.#pace = new Pace(new Float64Array(buffer, p.pace, TYPES * PACE_NUMBERS));
    this.#blocks = new Blocks(buffer, p.blocks, p.requests, channel);
    this.#requests = p.requests;
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

  /** An instance's turn. Every request that has come since the last one of any instance is admitted. */
  turn(instance: number, done: Done | undefined, admitting: Admitting): Turn {
    this.#channel.lock(instance);
    let sound = false;
    try {
      this.#adopt();
      this.#drain(admitting);
      const wake = done !== undefined && this.#complete(instance, done);
      if (done !== undefined) this.#drain(admitting);
      const turn = this.#next(instance, wake);
      sound = true;
      return turn;
    } finally {
      if (!sound) Atomics.store(this.#words, POISONED, 1);
      this.#channel.unlock();
    }
  }

  /**
   * Ends the task that an instance has left which died in this place. The caller's side has failed its requests, but for
   * those of which another instance had a part too. True: the caller must be woken.
   */
  inherit(instance: number): boolean {
    const s = this.#scheduler;
    this.#channel.lock(instance);
    try {
      if (s.taskCount(instance) === 0) return false;
      const task = this.#task.moveTo(instance, 0);
      for (let i = 0; i < task.size; i++) s.cancel(task.request(i));
      return this.#end(instance);
    } finally {
      this.#channel.unlock();
    }
  }

  #next(instance: number, wake: boolean): Turn {
    const at = instance * INSTANCE;
    const retired = Atomics.load(this.#instances, at + RETIRED) === 1;
    if (retired || this.#scheduler.schedule(instance, 0, Atomics.load(this.#instances, at + MOST)) === 0)
      return {
        slots: [],
        entries: undefined,
        type: ALONE,
        more: retired && this.#scheduler.anyReady,
        busy: this.busy,
        retired,
        wake,
      };
    const task = this.#task.moveTo(instance, 0);
    const slots = Array.from({ length: task.size }, (_, i) => task.key(i));
    const entries = this.#blocks.has(task.request(0)) ? this.#entries(instance, task) : undefined;
    if (entries === undefined) for (const slot of slots) this.#channel.take(slot, instance);
    Atomics.add(this.#words, BUSY, 1);
    return { slots, entries, type: task.type, more: this.#scheduler.anyReady, busy: this.busy, retired, wake };
  }

  #entries(instance: number, task: Task): Entry[] {
    return Array.from({ length: task.size }, (_, i) => {
      const slot = task.key(i);
      const block = this.#blocks.start(task.request(i), slot, instance);
      return { slot, block, stage: task.place(i), step: task.step(i), steps: task.steps(i) };
    });
  }

  /** Admits what has come, in its order, until one has to wait for room. */
  #drain(admitting: Admitting): void {
    const w = this.#words;
    if (w[HELD] !== 0) {
      const slot = w[HELD]! - 1;
      // One that is cancelled while it waits needs no room.
      if (w[FREED] === 0 && !this.#channel.aborted(slot)) return;
      w[HELD] = 0;
      if (!this.#admit(slot, admitting)) return;
    }
    while (this.#scheduler.hasRoom(1, 0, 0)) {
      const slot = this.#channel.next();
      if (slot < 0 || !this.#admit(slot, admitting)) return;
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

  /** False: it waits for room, and everything behind it. */
  #admit(slot: number, admitting: Admitting): boolean {
    const { digest, rows, cells } = admitting.admit(slot);
    if (cells !== undefined && !this.#channel.aborted(slot)) {
      const admitted = this.#admitCells(slot, cells, admitting);
      if (admitted === 'waits') {
        this.#words[HELD] = slot + 1;
        this.#words[FREED] = 0;
        return false;
      }
      if (admitted === 'admitted') return true;
    }
    const type = digest === undefined ? ALONE : this.#typeOf(digest);
    const request = this.#scheduler.begin(slot);
    this.#scheduler.addChain(request, type, 1, { rows: Math.min(rows, 1 << 16) });
    this.#scheduler.submit(request, 0);
    return true;
  }

  #admitCells(slot: number, { bytes, parts }: CellRequest, admitting: Admitting): 'admitted' | 'waits' | 'never' {
    const s = this.#scheduler;
    const types = parts.map((p) => (p.digest === undefined ? ALONE : this.#typeOf(p.digest, p)));
    if (types.some((type, i) => type === ALONE && parts[i]!.digest !== undefined)) return 'never';
    // One part is left for every other request. What does not fit now will when some have ended.
    if (!s.hasRoom(parts.length + this.#requests, 0, 0)) return s.left.requests === this.#requests ? 'never' : 'waits';
    const start = this.#blocks.take(bytes, admitting);
    if (typeof start === 'string') return start;
    const request = s.begin(slot);
    this.#blocks.give(request, slot, start);
    parts.forEach(({ length, rows, order }, i) => {
      s.addChain(request, types[i]!, length, {
        rows: Math.min(rows, 1 << 16),
        after: order === 'after',
        stepwise: order === 'stepwise',
      });
    });
    s.submit(request, 0);
    return 'admitted';
  }

  /** True when the caller must be woken. */
  #complete(instance: number, { type, measured, mergeable, stopped, endings }: Done): boolean {
    const s = this.#scheduler;
    // While the task was in flight its type could not give its place away.
    if (type !== ALONE) {
      if (!mergeable) s.setMaxBatch(type, this.#growth.never(type));
      else if (measured !== undefined) this.#learn(type, measured);
    }
    const task = this.#task.moveTo(instance, 0);
    for (const i of stopped ?? []) s.stop(instance, i);
    for (const ending of endings ?? [])
      if (this.#blocks.end(task.request(ending.entry), ending)) s.cancel(task.request(ending.entry));
    return this.#end(instance);
  }

  #end(instance: number): boolean {
    const s = this.#scheduler;
    const task = this.#task.moveTo(instance, 0);
    for (let i = 0; i < task.size; i++) this.#blocks.leave(task.request(i), task.key(i), instance);
    s.complete(instance);
    Atomics.sub(this.#words, BUSY, 1);
    let wake = false;
    for (let r = s.nextEnded(); r >= 0; r = s.nextEnded()) {
      if (this.#blocks.free(r, s.key(r), instance)) wake = true;
      s.free(r);
      this.#words[FREED] = 1;
    }
    return wake;
  }

  #learn(type: number, { rows, milliseconds, steps }: NonNullable<Done['measured']>): void {
    const s = this.#scheduler;
    const limits = steps === undefined ? undefined : this.#pace.sample(type, rows, milliseconds, steps);
    if (limits?.chains !== undefined) s.setMaxBatch(type, Math.min(limits.chains, LARGEST));
    else s.setMaxBatch(type, this.#growth.sample(type, rows, milliseconds / (steps ?? 1)));
    if (limits !== undefined) s.setMaxSteps(type, limits.steps);
  }

  /** The cell type of a kind, old or new; ALONE when there is no room for another. */
  #typeOf(digest: Int32Array, part?: CellRequest['parts'][number]): number {
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
    const { chunk = 1, needs = 1 } = part ?? {};
    const type = this.#scheduler.addType({ maxBatch: fixed ?? 1, row: false, chunk, needs });
    this.#growth.start(type, fixed);
    this.#pace.start(type, part?.rowsAtOnce);
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

  /** Memory of requests that are cut, in units of the arena: in use, and in all. */
  get blocks(): { readonly used: number; readonly units: number } {
    return this.#blocks.room;
  }

  /** Where their memory is; undefined: none has been needed. */
  get blockExtent(): Extent | undefined {
    return this.#blocks.extent;
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
    parts: PARTS * requests,
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
  const pace = growth + 8 * TYPES * GROWTH_NUMBERS;
  const types = pace + 8 * TYPES * PACE_NUMBERS;
  const instances = types + 4 * TYPES * ENTRY;
  const histogram = instances + 4 * options.instances * INSTANCE;
  const scheduler = histogram + 4 * (MOST_ROWS + 1);
  const { requests } = schedulerOptions(options);
  const blocks = scheduler + Scheduler.bytes(schedulerOptions(options));
  const bytes = blocks + Blocks.bytes(requests);
  return { header, growth, pace, types, instances, histogram, scheduler, requests, blocks, bytes };
}
