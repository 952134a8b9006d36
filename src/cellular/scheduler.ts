// The cellular batching scheduler. Requests unfold into cells; whoever has an instance with room asks `schedule` for its
// next task, runs it, and says `complete`. Requests join at the next task and leave when their last cell is done.
//
//   begin ─ addChain / addNode ─ submit ─▶  queues by type  ─ schedule ─▶ task ─ complete ─▶ nextEnded ─ free
//
// Pure: state in, decision out; no clock, no threads, no kernels. A Scheduler holds nothing of its own: it is views over
// words in a buffer, and another one over the same buffer (in another thread, under a lock that the caller keeps) is the
// same scheduler. Numbers stand for requests, nodes and types; a request's number is the caller's until it frees it.

import { addPart, checkNode, findGraphPart, linkNode } from './cell-graph.js';
import { CellularError, checkInteger } from './errors.js';
import * as L from './layout.js';
import {
  type CellType,
  type ChainOptions,
  capacityOf,
  NO_LIMIT,
  type RequestOptions,
  type SchedulerOptions,
} from './options.js';
import { type Choice, chooseType, Priority } from './priority.js';
import { pushReady, queueIfReady, releaseFollower, releaseLaterParts, releasesAhead } from './ready.js';
import { Reason } from './reasons.js';
import { beginRequest, endRequest, freeRequest, submitRequest, takeEnded } from './requests.js';
import { format, RequestState, State } from './state.js';
import { Task } from './task.js';
import { completeTask, formTask, stopChain, taskOf } from './tasks.js';

export class Scheduler {
  readonly #s: State;
  readonly #choice: Choice = { type: L.NONE, reason: Reason.none };

  /** Bytes that `create` needs for these options. */
  static bytes(options: SchedulerOptions): number {
    return 4 * L.layOut(capacityOf(options)).words;
  }

  /** Formats an empty scheduler in `buffer` at `offset` (a multiple of 4). Without a buffer it makes one. */
  static create(options: SchedulerOptions, buffer?: ArrayBufferLike, offset = 0): Scheduler {
    const capacity = capacityOf(options);
    const bases = L.layOut(capacity);
    const room = buffer ?? new ArrayBuffer(4 * bases.words);
    if (offset % 4 !== 0 || room.byteLength < offset + 4 * bases.words)
      throw new CellularError(
        'E_CONFIG',
        `the scheduler needs ${4 * bases.words} bytes at a multiple of 4; got ${room.byteLength} and offset ${offset}`,
      );
    const submit = options.maxTasksToSubmit ?? 1;
    checkInteger('maxTasksToSubmit', submit, 1, capacity.tasks);
    const state = new State(new Int32Array(room, offset, bases.words), capacity);
    format(state, capacity);
    state.m[L.H_POLICY] = options.priority ?? Priority.fullest;
    state.m[L.H_SUBMIT] = submit;
    const scheduler = new Scheduler(room, offset);
    for (const cell of options.cells) scheduler.addType(cell);
    return scheduler;
  }

  /** Views the scheduler that was created in `buffer` at `offset`. */
  constructor(buffer: ArrayBufferLike, offset = 0) {
    const h = new Int32Array(buffer, offset, L.HEADER_WORDS);
    if (h[L.H_MAGIC] !== L.MAGIC) throw new CellularError('E_CONFIG', `no scheduler at offset ${offset}`);
    const capacity = {
      requests: h[L.H_REQUESTS]!,
      parts: h[L.H_PARTS]!,
      nodes: h[L.H_NODES]!,
      edges: h[L.H_EDGES]!,
      rows: h[L.H_ROWS]!,
      types: h[L.H_TYPES]!,
      instances: h[L.H_INSTANCES]!,
      tasks: h[L.H_TASKS]!,
      largestBatch: h[L.H_LARGEST]!,
    };
    this.#s = new State(new Int32Array(buffer, offset, L.layOut(capacity).words), capacity);
  }

  // ── cell types ────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Adds a cell type and returns its number. A retired type's number is used again when nothing of it is left. */
  addType(cell: CellType): number {
    const m = this.#s.m;
    let type = 0;
    while (type < m[L.H_TYPE_COUNT]! && (m[this.#s.type(type) + L.T_USED] === 1 || this.liveParts(type) > 0)) type++;
    if (type === m[L.H_TYPES]) throw new CellularError('E_FULL', `no type slot is left of ${type}`);
    checkInteger(`maxBatch of type ${type}`, cell.maxBatch, 1, m[L.H_LARGEST]!);
    checkInteger(`minBatch of type ${type}`, cell.minBatch ?? 1, 1, cell.maxBatch);
    checkInteger(`rank of type ${type}`, cell.rank ?? type, -(1 << 30), 1 << 30);
    checkInteger(`chunk of type ${type}`, cell.chunk ?? 1, 1, 1 << 16);
    checkInteger(`needs of type ${type}`, cell.needs ?? 1, 1, 1 << 16);
    checkInteger(`maxSteps of type ${type}`, cell.maxSteps ?? 1, 1, 1 << 16);
    m[L.H_TYPE_COUNT] = Math.max(m[L.H_TYPE_COUNT]!, type + 1);
    const t = this.#s.type(type);
    m.fill(0, t, t + L.TYPE_WORDS);
    m[t + L.T_MAX_BATCH] = cell.maxBatch;
    m[t + L.T_MIN_BATCH] = cell.minBatch ?? 1;
    m[t + L.T_RANK] = cell.rank ?? type;
    m[t + L.T_ROW] = cell.row === false ? 0 : 1;
    m[t + L.T_CHUNK] = cell.chunk ?? 1;
    m[t + L.T_NEEDS] = cell.needs ?? 1;
    m[t + L.T_MAX_STEPS] = cell.maxSteps ?? 1;
    m[t + L.T_HEAD] = m[t + L.T_TAIL] = L.NONE;
    m[t + L.T_USED] = 1;
    return type;
  }

  /** Changes how many rows a task of the type may have from now on. */
  setMaxBatch(type: number, maxBatch: number): void {
    this.#checkType(type);
    checkInteger(`maxBatch of type ${type}`, maxBatch, 1, this.#s.m[L.H_LARGEST]!);
    this.#s.m[this.#s.type(type) + L.T_MAX_BATCH] = maxBatch;
  }

  maxBatch(type: number): number {
    return this.#s.m[this.#s.type(type) + L.T_MAX_BATCH]!;
  }

  /** Changes how many steps of its chains a task may take when nobody else waits. */
  setMaxSteps(type: number, maxSteps: number): void {
    this.#checkType(type);
    checkInteger(`maxSteps of type ${type}`, maxSteps, 1, 1 << 16);
    this.#s.m[this.#s.type(type) + L.T_MAX_STEPS] = maxSteps;
  }

  maxSteps(type: number): number {
    return this.#s.m[this.#s.type(type) + L.T_MAX_STEPS]!;
  }

  /** No new request may use the type; those that do end on it. */
  retireType(type: number): void {
    this.#checkType(type);
    this.#s.m[this.#s.type(type) + L.T_USED] = 0;
  }

  /** Parts of the type that exist. When a retired type has none its weights may be freed. */
  liveParts(type: number): number {
    return this.#s.m[this.#s.type(type) + L.T_LIVE]!;
  }

  /** Throws unless the type is in use. A retired one still is for requests that run: their graphs may grow. */
  #checkType(type: number, request?: number): void {
    const m = this.#s.m;
    const known = Number.isInteger(type) && type >= 0 && type < m[L.H_TYPE_COUNT]!;
    const runs = request !== undefined && this.#s.stateOf(request) === RequestState.running;
    if (!known || (m[this.#s.type(type) + L.T_USED] !== 1 && !(runs && this.liveParts(type) > 0)))
      throw new CellularError('E_ARGUMENT', `there is no cell type ${type}`);
  }

  // ── requests ──────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Whether a request of this size can be begun now. Ask before unfolding: false means the queue is full. */
  hasRoom(parts: number, nodes: number, edges: number): boolean {
    const m = this.#s.m;
    if (m[L.H_LEFT_REQUESTS]! < 1 || m[L.H_LEFT_PARTS]! < parts) return false;
    return m[L.H_LEFT_NODES]! >= nodes && m[L.H_LEFT_EDGES]! >= edges;
  }

  /** Begins a request; `key` is the caller's name for it (32 bits). Add chains and nodes, then `submit` it. */
  begin(key: number, options?: RequestOptions): number {
    const priority = options?.priority ?? 0;
    const deadline = options?.deadline ?? L.NO_DEADLINE;
    checkInteger('priority', priority, -1_000_000, 1_000_000);
    checkInteger('deadline', deadline, -L.NO_DEADLINE, L.NO_DEADLINE);
    return beginRequest(this.#s, key, priority, deadline);
  }

  /** Adds a chain of `length` steps (for a feed-previous chain, at most so many). Returns its part. */
  addChain(request: number, type: number, length: number, options?: ChainOptions): number {
    const s = this.#s;
    const m = s.m;
    this.#checkOpen(request);
    this.#checkType(type, request);
    checkInteger('length of a chain', length, 1, NO_LIMIT - 1);
    const before = m[s.request(request) + L.R_LAST_PART]!;
    const { after = false, inherits = false, stepwise = false, rows = 1 } = options ?? {};
    checkInteger('rows of a step', rows, 1, L.MOST_ROWS);
    if ((stepwise || inherits) && (before === L.NONE || (m[s.part(before) + L.P_FLAGS]! & L.CHAIN) === 0))
      throw new CellularError('E_ARGUMENT', 'a stepwise or inheriting chain needs a chain before it');
    if (inherits && !(after && m[s.type(m[s.part(before) + L.P_TYPE]!) + L.T_ROW] === 1))
      throw new CellularError('E_ARGUMENT', 'inherits needs after, and a row to inherit');
    let flags = L.CHAIN | (rows << L.STEP_ROWS) | (inherits ? L.INHERITS : 0) | (stepwise ? L.STEPWISE : 0);
    if (after && before !== L.NONE) flags |= L.AFTER;
    const part = addPart(s, request, type, flags | this.#admitted(request));
    const p = s.part(part);
    m[p + L.P_STEP] = 0;
    m[p + L.P_LENGTH] = length;
    m[p + L.P_LIMIT] = stepwise ? 0 : NO_LIMIT;
    m[p + L.P_ROW] = L.NONE;
    m[s.request(request) + L.R_UNFINISHED]! += 1;
    if (stepwise) releaseFollower(s, before);
    if (after && this.#admitted(request) !== 0) releaseLaterParts(s, request);
    queueIfReady(s, part);
    return part;
  }

  /** Makes the request's graph nodes of `type` wait until all its earlier parts have ended. Call before adding them. */
  addGraphAfter(request: number, type: number): number {
    this.#checkOpen(request);
    this.#checkType(type, request);
    if (findGraphPart(this.#s, request, type) !== L.NONE)
      throw new CellularError('E_ARGUMENT', `request ${request} has nodes of type ${type} already`);
    const first = this.#s.m[this.#s.request(request) + L.R_FIRST_PART] === L.NONE;
    return addPart(this.#s, request, type, (first ? 0 : L.AFTER) | this.#admitted(request));
  }

  /**
   * Adds a node and returns it. Its inputs are nodes of the same request whose rows are still there. `output`: its row
   * is kept for the caller until the request is freed. While a request runs its graph may grow: add nodes for a task
   * after running it and before `complete`.
   */
  addNode(
    request: number,
    type: number,
    tag: number,
    inputs: ArrayLike<number>,
    output = false,
    count = inputs.length,
  ): number {
    const s = this.#s;
    const m = s.m;
    this.#checkOpen(request);
    this.#checkType(type, request);
    for (let i = 0; i < count; i++) this.#checkInput(request, inputs[i]!);
    const found = findGraphPart(s, request, type);
    const part = found === L.NONE ? addPart(s, request, type, this.#admitted(request)) : found;
    const node = linkNode(s, part, tag, inputs, count, releasesAhead(s));
    if (output) m[s.node(node) + L.N_STATUS]! |= L.OUTPUT;
    m[s.part(part) + L.P_ROW]! += 1;
    m[s.request(request) + L.R_UNFINISHED]! += 1;
    if (m[s.node(node) + L.N_LINK] === 0) pushReady(s, node);
    return node;
  }

  #checkInput(request: number, node: number): void {
    const s = this.#s;
    checkNode(s, request, node);
    const n = s.node(node);
    if ((s.m[n + L.N_STATUS]! & L.STATUS_MASK) === L.DONE && s.m[n + L.N_LINK] === L.NONE)
      throw new CellularError(
        'E_ARGUMENT',
        `node ${node} is done and its row is gone: add readers before it completes`,
      );
    if (s.m[n + L.N_STATUS]! >> 8 >= L.MOST_READERS - 1)
      throw new CellularError('E_ARGUMENT', `node ${node} has too many consumers`);
  }

  /** Throws unless the request is being built or runs (may grow). */
  #checkOpen(request: number): void {
    const state = this.state(request);
    if (state !== RequestState.building && state !== RequestState.running)
      throw new CellularError('E_STATE', `request ${request} can't grow: it is neither being built nor running`);
  }

  #admitted(request: number): number {
    return this.#s.stateOf(request) === RequestState.running ? L.ADMITTED : 0;
  }

  /**
   * Submits a request that has been built. `rows` is the most rows it ever holds at once; it starts when they can be
   * promised, in order of arrival. A request that grows past its promise gets rows only when some are unpromised.
   */
  submit(request: number, rows: number): void {
    if (this.state(request) !== RequestState.building)
      throw new CellularError('E_STATE', `request ${request} has been submitted already`);
    checkInteger('rows of a request', rows, 0, NO_LIMIT);
    submitRequest(this.#s, request, rows);
  }

  /** Cancels a request: nothing more of it is run. False: it had ended. It is told by `nextEnded`, like all others. */
  cancel(request: number): boolean {
    this.state(request);
    return endRequest(this.#s, request, RequestState.cancelled);
  }

  /** Ends every request whose deadline is at or before `now`. (Those in `schedule`'s way it ends by itself.) */
  expire(now: number): void {
    const s = this.#s;
    for (let r = 0; r < s.m[L.H_REQUESTS]! && s.m[L.H_DEADLINES]! > 0; r++)
      if (s.stateOf(r) !== RequestState.free && s.m[s.request(r) + L.R_DEADLINE]! <= now)
        endRequest(s, r, RequestState.expired);
  }

  /** The next request that has ended, NONE (−1) when there is none. Read its outputs, then `free` it. */
  nextEnded(): number {
    return takeEnded(this.#s);
  }

  /** Gives an ended request's rows and slots back (or those of one that was never submitted). */
  free(request: number): void {
    this.state(request);
    freeRequest(this.#s, request);
  }

  /** Throws when there is no such request. */
  state(request: number): RequestState {
    checkInteger('request', request, 0, this.#s.m[L.H_REQUESTS]! - 1);
    return this.#s.stateOf(request);
  }

  key(request: number): number {
    return this.#s.m[this.#s.request(request) + L.R_KEY]!;
  }

  /** The row of an output node, or of a chain part with `chainRow`. NONE when it has none (yet). */
  nodeRow(node: number): number {
    const n = this.#s.node(node);
    return (this.#s.m[n + L.N_STATUS]! & L.STATUS_MASK) >= L.RUNNING ? this.#s.m[n + L.N_LINK]! : L.NONE;
  }

  chainRow(part: number): number {
    return this.#s.m[this.#s.part(part) + L.P_ROW]!;
  }

  // ── tasks ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  /**
   * Gives `instance` its next tasks, at most maxTasksToSubmit, of one type, each of at most `mostRows` rows. Returns how
   * many; 0: see `idleReason`.
   */
  schedule(instance: number, now = 0, mostRows = NO_LIMIT): number {
    const s = this.#s;
    const m = s.m;
    const room = m[L.H_TASKS]! - this.taskCount(instance);
    if (room <= 0) {
      m[L.H_IDLE] = Reason.instanceFull;
      return 0;
    }
    let idle: number = Reason.nothingReady;
    let skipped = false;
    let tasks = 0;
    while (tasks === 0) {
      chooseType(s, this.#choice);
      const { type, reason } = this.#choice;
      if (type === L.NONE) break;
      const most = Math.min(room, m[L.H_SUBMIT]!);
      const least = m[s.type(type) + L.T_MIN_BATCH]!;
      while (tasks < most) {
        const first = tasks === 0;
        if (formTask(s, instance, type, first ? reason : Reason.sameSubmission, first ? 1 : least, now, mostRows) === 0)
          break;
        tasks += 1;
      }
      if (tasks === 0) {
        if (m[L.H_IDLE]! > idle) idle = m[L.H_IDLE]!;
        m[s.type(type) + L.T_SKIP] = 1;
        skipped = true;
      }
    }
    if (skipped) for (let type = 0; type < m[L.H_TYPE_COUNT]!; type++) m[s.type(type) + L.T_SKIP] = 0;
    m[L.H_IDLE] = tasks > 0 ? Reason.none : idle;
    return tasks;
  }

  /** Why the last `schedule` gave nothing. */
  get idleReason(): Reason {
    return this.#s.m[L.H_IDLE] as Reason;
  }

  /** A window to look at tasks through. Make one and keep it. */
  task(instance = 0, k = 0): Task {
    return new Task(this.#s).moveTo(instance, k);
  }

  /** Tasks the instance has and has not completed. */
  taskCount(instance: number): number {
    checkInteger('instance', instance, 0, this.#s.m[L.H_INSTANCES]! - 1);
    return this.#s.m[this.#s.instance(instance) + L.I_COUNT]!;
  }

  /**
   * The chain of entry `i` of the instance's oldest task ends with that entry (a stop token), of whose steps the first
   * `steps` count; all by default. Before `complete`.
   */
  stop(instance: number, i: number, steps?: number): void {
    this.#checkHasTask(instance);
    checkInteger('entry', i, 0, this.#s.m[taskOf(this.#s, instance, 0) + L.K_SIZE]! - 1);
    stopChain(this.#s, instance, i, steps);
  }

  /** The instance has run its oldest task. */
  complete(instance: number): void {
    this.#checkHasTask(instance);
    completeTask(this.#s, instance);
  }

  #checkHasTask(instance: number): void {
    if (this.taskCount(instance) === 0) throw new CellularError('E_STATE', `instance ${instance} has no task`);
  }

  // ── numbers ───────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Ready rows of a type: one a node, and as many as a chain's step fills. */
  ready(type: number): number {
    return this.#s.m[this.#s.type(type) + L.T_READY]!;
  }

  /** Whether anything is ready, of any type. */
  get anyReady(): boolean {
    for (let type = 0; type < this.#s.m[L.H_TYPE_COUNT]!; type++) if (this.ready(type) > 0) return true;
    return false;
  }

  /** Tasks of a type in flight. */
  running(type: number): number {
    return this.#s.m[this.#s.type(type) + L.T_RUNNING]!;
  }

  /** Requests there may be at once. */
  get requests(): number {
    return this.#s.m[L.H_REQUESTS]!;
  }

  /** Slots and rows that are free, for statistics and leak tests. */
  get left(): { requests: number; parts: number; nodes: number; edges: number; rows: number; unreserved: number } {
    const m = this.#s.m;
    return {
      requests: m[L.H_LEFT_REQUESTS]!,
      parts: m[L.H_LEFT_PARTS]!,
      nodes: m[L.H_LEFT_NODES]!,
      edges: m[L.H_LEFT_EDGES]!,
      rows: m[L.H_LEFT_ROWS]!,
      unreserved: m[L.H_ROWS]! - m[L.H_RESERVED]!,
    };
  }
}
