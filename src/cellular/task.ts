// A task as who runs it sees it: which rows to read, which to write, for whom. A window over the scheduler's words that
// is moved from task to task, so that looking at a task allocates nothing.

import { nextInput, sourceOf } from './cell-graph.js';
import * as L from './layout.js';
import type { Decision, Reason } from './reasons.js';
import { RequestState, type State, stepRows } from './state.js';
import { taskOf } from './tasks.js';

export class Task implements Decision {
  readonly #s: State;
  #k = 0;

  /** Use `Scheduler.task()`. */
  constructor(state: State) {
    this.#s = state;
  }

  /** Moves the window to the instance's `k`-th task, 0 the oldest. */
  moveTo(instance: number, k: number): this {
    this.#k = taskOf(this.#s, instance, k);
    return this;
  }

  get instance(): number {
    return this.#s.m[this.#k + L.K_INSTANCE]!;
  }
  get type(): number {
    return this.#s.m[this.#k + L.K_TYPE]!;
  }
  get size(): number {
    return this.#s.m[this.#k + L.K_SIZE]!;
  }
  get reason(): Reason {
    return this.#s.m[this.#k + L.K_REASON] as Reason;
  }
  get ready(): number {
    return this.#s.m[this.#k + L.K_READY]!;
  }
  get running(): number {
    return this.#s.m[this.#k + L.K_RUNNING]!;
  }
  get oldest(): number {
    return this.#s.m[this.#k + L.K_OLDEST]!;
  }

  #part(i: number): number {
    return this.#s.part(this.#s.m[this.#k + L.K_ENTRIES + L.ENTRY_WORDS * i]!);
  }
  /** The request that entry `i` belongs to. */
  request(i: number): number {
    return this.#s.m[this.#part(i) + L.P_REQUEST]!;
  }
  /** The caller's key of that request. */
  key(i: number): number {
    return this.#s.m[this.#s.request(this.request(i)) + L.R_KEY]!;
  }
  /** False when that request has been cancelled or has expired since: what entry `i` gives is of no use. */
  isLive(i: number): boolean {
    return this.#s.stateOf(this.request(i)) === RequestState.running;
  }
  isChain(i: number): boolean {
    return (this.#s.m[this.#part(i) + L.P_FLAGS]! & L.CHAIN) !== 0;
  }
  /** The part entry `i` belongs to. */
  part(i: number): number {
    return this.#s.m[this.#k + L.K_ENTRIES + L.ENTRY_WORDS * i]!;
  }
  /** Which of its request's parts that is, in the order they were added, from 0. */
  place(i: number): number {
    const s = this.#s;
    let place = 0;
    for (let part = s.m[s.request(this.request(i)) + L.R_FIRST_PART]!; part !== this.part(i); place++)
      part = s.m[s.part(part) + L.P_SIBLING]!;
    return place;
  }
  /** Of a chain: which step, from 0; the first, where it is several. */
  step(i: number): number {
    return this.#s.m[this.#k + L.K_ENTRIES + L.ENTRY_WORDS * i + 1]!;
  }
  /** Of a chain: how many steps, one after the other. */
  steps(i: number): number {
    return this.#s.m[this.#k + L.K_ENTRIES + L.ENTRY_WORDS * i + 2]!;
  }
  /** Of a chain: whether its row holds no state yet (its first step, unless it inherits a row). */
  startsFresh(i: number): boolean {
    return this.step(i) === 0 && (this.#s.m[this.#part(i) + L.P_FLAGS]! & L.INHERITS) === 0;
  }
  /** Of a graph: which node. */
  node(i: number): number {
    return this.#s.m[this.#k + L.K_ENTRIES + L.ENTRY_WORDS * i + 1]!;
  }
  /** Of a graph: the tag the unfolding gave the node. */
  tag(i: number): number {
    return this.#s.m[this.#s.node(this.node(i)) + L.N_TAG]!;
  }
  /** Rows of the batch that entry `i` fills. */
  rows(i: number): number {
    return this.isChain(i) ? stepRows(this.#s, this.part(i)) : 1;
  }
  /** The row entry `i` writes (a chain reads its state from it too); NONE when its type keeps none. */
  row(i: number): number {
    const s = this.#s;
    return this.isChain(i) ? s.m[this.#part(i) + L.P_ROW]! : s.m[s.node(this.node(i)) + L.N_LINK]!;
  }
  /** Of a graph: writes the rows of the node's inputs, in their order, to `out` and returns how many there are. */
  inputRows(i: number, out: Int32Array): number {
    const s = this.#s;
    let count = 0;
    for (let ref = s.m[s.node(this.node(i)) + L.N_IN]!; ref !== L.NONE; ref = nextInput(s, ref))
      out[count++] = s.m[s.node(sourceOf(s, ref)) + L.N_LINK]!;
    return count;
  }
  /** Of a graph: writes the node's inputs, in their order, to `out` and returns how many there are. */
  inputs(i: number, out: Int32Array): number {
    const s = this.#s;
    let count = 0;
    for (let ref = s.m[s.node(this.node(i)) + L.N_IN]!; ref !== L.NONE; ref = nextInput(s, ref))
      out[count++] = sourceOf(s, ref);
    return count;
  }
}
