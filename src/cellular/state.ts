// The scheduler's state as one Int32Array, and the few moves that everything else is made of: take a slot from a free
// list and put it back, take a row and give it back, keep the queues of parts in order. Picture a desk with labelled
// trays: this file knows how to move a card from tray to tray; scheduler.ts knows why.

import { CellularError } from './errors.js';
import * as L from './layout.js';

export const RequestState = {
  free: 0,
  building: 1,
  waiting: 2,
  running: 3,
  finished: 4,
  cancelled: 5,
  expired: 6,
} as const;
export type RequestState = (typeof RequestState)[keyof typeof RequestState];

/** Views over the words of one scheduler. Two of them over the same words are the same scheduler. */
export class State {
  readonly m: Int32Array;
  readonly #types: number;
  readonly #instances: number;
  readonly #tasks: number;
  readonly #taskWords: number;
  readonly #requests: number;
  readonly #parts: number;
  readonly #nodes: number;
  readonly #edges: number;
  /** First word of the stack of free rows, one word a row. */
  readonly freeRows: number;
  /** First word of the rows' holders, one word a row: a request or NONE. */
  readonly rowOwners: number;

  constructor(words: Int32Array, capacity: L.Capacity) {
    const bases = L.layOut(capacity);
    this.m = words;
    this.#types = bases.types;
    this.#instances = bases.instances;
    this.#tasks = bases.tasks;
    this.#taskWords = bases.taskWords;
    this.#requests = bases.requests;
    this.#parts = bases.parts;
    this.#nodes = bases.nodes;
    this.#edges = bases.edges;
    this.freeRows = bases.rows;
    this.rowOwners = bases.rows + capacity.rows;
  }

  // First word of a record. `m[state.part(p) + P_STEP]` is "the step of part p".
  type(i: number): number {
    return this.#types + i * L.TYPE_WORDS;
  }
  instance(i: number): number {
    return this.#instances + i * L.INSTANCE_WORDS;
  }
  /** The `k`-th task slot of an instance. */
  task(instance: number, k: number): number {
    return this.#tasks + (instance * this.m[L.H_TASKS]! + k) * this.#taskWords;
  }
  request(i: number): number {
    return this.#requests + i * L.REQUEST_WORDS;
  }
  part(i: number): number {
    return this.#parts + i * L.PART_WORDS;
  }
  node(i: number): number {
    return this.#nodes + i * L.NODE_WORDS;
  }
  edge(i: number): number {
    return this.#edges + i * L.EDGE_WORDS;
  }

  stateOf(request: number): RequestState {
    return (this.m[this.request(request) + L.R_STATE]! & L.STATE_MASK) as RequestState;
  }
  setState(request: number, state: RequestState): void {
    const r = this.request(request);
    this.m[r + L.R_STATE] = (this.m[r + L.R_STATE]! & ~L.STATE_MASK) | state;
  }
}

/** Writes the words of an empty scheduler. The words before must be zero or may be overwritten. */
export function format(s: State, c: L.Capacity): void {
  const m = s.m;
  m.fill(0);
  m[L.H_REQUESTS] = m[L.H_LEFT_REQUESTS] = c.requests;
  m[L.H_PARTS] = m[L.H_LEFT_PARTS] = c.parts;
  m[L.H_NODES] = m[L.H_LEFT_NODES] = c.nodes;
  m[L.H_EDGES] = m[L.H_LEFT_EDGES] = c.edges;
  m[L.H_ROWS] = m[L.H_LEFT_ROWS] = c.rows;
  m[L.H_TYPES] = c.types;
  m[L.H_INSTANCES] = c.instances;
  m[L.H_TASKS] = c.tasks;
  m[L.H_LARGEST] = c.largestBatch;
  m[L.H_LAST_TYPE] = L.NONE;
  m[L.H_FINISHED_HEAD] = m[L.H_FINISHED_TAIL] = m[L.H_WAITING_HEAD] = m[L.H_WAITING_TAIL] = L.NONE;
  m[L.H_FREE_REQUEST] = chainUp(m, s.request(0) + L.R_NEXT, L.REQUEST_WORDS, c.requests);
  m[L.H_FREE_PART] = chainUp(m, s.part(0) + L.P_NEXT, L.PART_WORDS, c.parts);
  m[L.H_FREE_NODE] = chainUp(m, s.node(0) + L.N_BEFORE, L.NODE_WORDS, c.nodes);
  m[L.H_FREE_EDGE] = chainUp(m, s.edge(0) + L.E_OUT, L.EDGE_WORDS, c.edges);
  for (let node = 0; node < c.nodes; node++) m[s.node(node) + L.N_PART] = L.NONE;
  for (let row = 0; row < c.rows; row++) {
    m[s.freeRows + row] = c.rows - 1 - row; // row 0 is taken first
    m[s.rowOwners + row] = L.NONE;
  }
  m[L.H_MAGIC] = L.MAGIC;
}

/** Links slots 0, 1, 2 … into a free list through the word at `link` and returns its head. */
function chainUp(m: Int32Array, link: number, words: number, count: number): number {
  for (let i = 0; i < count; i++) m[link + i * words] = i + 1 < count ? i + 1 : L.NONE;
  return count > 0 ? 0 : L.NONE;
}

// ── slots ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Takes a slot off the free list whose head is header word `head`; `link` is the address of the slot's link word. */
export function takeSlot(m: Int32Array, head: number, left: number, link: number, words: number, what: string): number {
  const slot = m[head]!;
  if (slot === L.NONE) throw new CellularError('E_FULL', `no ${what} slot is left`);
  m[head] = m[link + slot * words]!;
  m[left]! -= 1;
  return slot;
}

/** Puts a slot back. */
export function giveSlot(m: Int32Array, head: number, left: number, link: number, words: number, slot: number): void {
  m[link + slot * words] = m[head]!;
  m[head] = slot;
  m[left]! += 1;
}

// ── rows ────────────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * A row for `request`, or NONE when none may be had now. A request always gets the rows that were reserved for it when
 * it was admitted, so admitted requests never wait for each other; beyond that it gets what nobody has reserved.
 */
export function takeRow(s: State, request: number): number {
  const m = s.m;
  const r = s.request(request);
  if (m[r + L.R_HELD]! >= m[r + L.R_RESERVED]!) {
    if (m[L.H_RESERVED]! >= m[L.H_ROWS]!) return L.NONE;
    m[L.H_RESERVED]! += 1;
    m[r + L.R_RESERVED]! += 1;
  }
  const left = m[L.H_LEFT_ROWS]! - 1;
  const row = m[s.freeRows + left]!;
  m[L.H_LEFT_ROWS] = left;
  m[r + L.R_HELD]! += 1;
  m[s.rowOwners + row] = request;
  return row;
}

/** Gives a row back. That it is held, and by this request, is checked: a row freed twice would be shared by two. */
export function giveRow(s: State, request: number, row: number): void {
  const m = s.m;
  if (m[s.rowOwners + row] !== request)
    throw new CellularError('E_STATE', `row ${row} is held by ${m[s.rowOwners + row]}, not by request ${request}`);
  m[s.rowOwners + row] = L.NONE;
  m[s.freeRows + m[L.H_LEFT_ROWS]!] = row;
  m[L.H_LEFT_ROWS]! += 1;
  m[s.request(request) + L.R_HELD]! -= 1;
}

/** Rows of a batch that one step of a chain fills. */
export function stepRows(s: State, part: number): number {
  return s.m[s.part(part) + L.P_FLAGS]! >> L.STEP_ROWS;
}

// ── queues ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Whether request a goes before request b: higher priority, then earlier arrival (the difference survives wrapping). */
export function goesBefore(s: State, a: number, b: number): boolean {
  const m = s.m;
  const ra = s.request(a);
  const rb = s.request(b);
  const priority = (m[ra + L.R_STATE]! >> L.PRIORITY_SHIFT) - (m[rb + L.R_STATE]! >> L.PRIORITY_SHIFT);
  return priority !== 0 ? priority > 0 : ((m[ra + L.R_ORDER]! - m[rb + L.R_ORDER]!) | 0) < 0;
}

/** Puts a part into its type's queue, oldest request first; `ready` is how many nodes it brings. */
export function enqueue(s: State, part: number, ready: number): void {
  const m = s.m;
  const p = s.part(part);
  const request = m[p + L.P_REQUEST]!;
  const t = s.type(m[p + L.P_TYPE]!);
  // A part that comes back is among the oldest, a new one among the youngest: walk from both ends until its place shows.
  let before = m[t + L.T_HEAD]!; // the part it goes in front of
  let after = m[t + L.T_TAIL]!; // the part it goes behind
  while (before !== L.NONE) {
    if (goesBefore(s, request, m[s.part(before) + L.P_REQUEST]!)) {
      after = m[s.part(before) + L.P_PREV]!;
      break;
    }
    if (!goesBefore(s, request, m[s.part(after) + L.P_REQUEST]!)) {
      before = m[s.part(after) + L.P_NEXT]!;
      break;
    }
    before = m[s.part(before) + L.P_NEXT]!;
    after = m[s.part(after) + L.P_PREV]!;
  }
  m[p + L.P_NEXT] = before;
  m[p + L.P_PREV] = after;
  if (before === L.NONE) m[t + L.T_TAIL] = part;
  else m[s.part(before) + L.P_PREV] = part;
  if (after === L.NONE) m[t + L.T_HEAD] = part;
  else m[s.part(after) + L.P_NEXT] = part;
  m[p + L.P_FLAGS]! |= L.QUEUED;
  m[t + L.T_READY]! += ready;
}

/** Takes a part out of its type's queue; `ready` is how many ready nodes leave with it. */
export function dequeue(s: State, part: number, ready: number): void {
  const m = s.m;
  const p = s.part(part);
  const t = s.type(m[p + L.P_TYPE]!);
  const next = m[p + L.P_NEXT]!;
  const prev = m[p + L.P_PREV]!;
  if (prev === L.NONE) m[t + L.T_HEAD] = next;
  else m[s.part(prev) + L.P_NEXT] = next;
  if (next === L.NONE) m[t + L.T_TAIL] = prev;
  else m[s.part(next) + L.P_PREV] = prev;
  m[p + L.P_FLAGS]! &= ~L.QUEUED;
  m[t + L.T_READY]! -= ready;
}

// ── lists of requests (waiting for rows; ended and not yet taken) ───────────────────────────────────────────────────

export function append(s: State, head: number, tail: number, request: number): void {
  const m = s.m;
  m[s.request(request) + L.R_NEXT] = L.NONE;
  if (m[head] === L.NONE) m[head] = request;
  else m[s.request(m[tail]!) + L.R_NEXT] = request;
  m[tail] = request;
}

/** Removes `request` from the list, wherever it stands. */
export function unlink(s: State, head: number, tail: number, request: number): void {
  const m = s.m;
  let before: number = L.NONE;
  for (let r = m[head]!; r !== request; r = m[s.request(r) + L.R_NEXT]!) before = r;
  const next = m[s.request(request) + L.R_NEXT]!;
  if (before === L.NONE) m[head] = next;
  else m[s.request(before) + L.R_NEXT] = next;
  if (m[tail] === request) m[tail] = before;
}
