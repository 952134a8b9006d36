// When a node may run. A part stands in its type's queue exactly when it has ready nodes, its request runs, and the
// parts it waits for have ended; every function here restores that after one change.
//
// Released ahead: with maxTasksToSubmit > 1 an instance gets several tasks at once and runs them in order. Then a
// successor inside the same part counts as ready as soon as its input has been submitted, and the part is pinned to
// that instance while anything of it is in flight. With 1 nothing is released before it is true, and nothing pinned.

import { consumerOf, nextConsumer, setStatus } from './cell-graph.js';
import * as L from './layout.js';
import { dequeue, enqueue, RequestState, type State, stepRows } from './state.js';

const NO_LIMIT = 0x7fffffff;

/** Whether nodes are released ahead of the completion of what they need. */
export const releasesAhead = (s: State): boolean => s.m[L.H_SUBMIT]! > 1;

/** Ready rows a part has, whether or not it may run. Of a chain one step's at most: each needs the one before. */
export function readyCount(s: State, part: number): number {
  const m = s.m;
  const p = s.part(part);
  if ((m[p + L.P_FLAGS]! & L.CHAIN) === 0) return m[p + L.P_LIMIT]!;
  if (m[p + L.P_IN_FLIGHT]! > 0 && !releasesAhead(s)) return 0;
  const next = m[p + L.P_STEP]! + m[p + L.P_IN_FLIGHT]!;
  return next < m[p + L.P_LENGTH]! && next < m[p + L.P_LIMIT]! ? stepRows(s, part) : 0;
}

/** Puts the part into its queue if it has become ready. */
export function queueIfReady(s: State, part: number): void {
  if (s.stateOf(s.m[s.part(part) + L.P_REQUEST]!) === RequestState.running) queueRunning(s, part);
}

/** The same when it is known that the request runs. */
export function queueRunning(s: State, part: number): void {
  if ((s.m[s.part(part) + L.P_FLAGS]! & (L.QUEUED | L.ADMITTED | L.AFTER)) !== L.ADMITTED) return;
  const ready = readyCount(s, part);
  if (ready > 0) enqueue(s, part, ready);
}

/** A graph node has all its inputs: it goes behind the part's other ready nodes. */
export function pushReady(s: State, node: number): void {
  const m = s.m;
  const n = s.node(node);
  const part = m[n + L.N_PART]!;
  const p = s.part(part);
  setStatus(s, node, L.READY);
  m[n + L.N_LINK] = L.NONE;
  if (m[p + L.P_LIMIT] === 0) m[p + L.P_STEP] = node;
  else m[s.node(m[p + L.P_LENGTH]!) + L.N_LINK] = node;
  m[p + L.P_LENGTH] = node;
  m[p + L.P_LIMIT]! += 1;
  if ((m[p + L.P_FLAGS]! & L.QUEUED) !== 0) m[s.type(m[p + L.P_TYPE]!) + L.T_READY]! += 1;
  else queueIfReady(s, part);
}

/** Takes the first ready node of a queued graph part. */
export function popReady(s: State, part: number): number {
  const m = s.m;
  const p = s.part(part);
  const node = m[p + L.P_STEP]!;
  m[p + L.P_STEP] = m[s.node(node) + L.N_LINK]!;
  m[p + L.P_LIMIT]! -= 1;
  m[s.type(m[p + L.P_TYPE]!) + L.T_READY]! -= 1;
  if (m[p + L.P_LIMIT] === 0) dequeue(s, part, 0);
  return node;
}

/** One of the consumers' inputs is there; `inside` says whether those of the node's own part are meant, or the others. */
export function releaseConsumers(s: State, node: number, inside: boolean, outside: boolean): void {
  const m = s.m;
  const part = m[s.node(node) + L.N_PART]!;
  for (let link = m[s.node(node) + L.N_OUT]!; link !== L.NONE; link = nextConsumer(s, link)) {
    const consumer = consumerOf(s, link);
    const c = s.node(consumer);
    if (!(m[c + L.N_PART] === part ? inside : outside)) continue;
    m[c + L.N_LINK]! -= 1;
    if (m[c + L.N_LINK] === 0) pushReady(s, consumer);
  }
}

/** Whether a part has nothing left to do. */
export function hasEnded(s: State, part: number): boolean {
  const m = s.m;
  const p = s.part(part);
  if ((m[p + L.P_FLAGS]! & L.CHAIN) === 0) return m[p + L.P_ROW] === 0;
  return m[p + L.P_STEP]! >= m[p + L.P_LENGTH]! && m[p + L.P_IN_FLIGHT] === 0;
}

/** A chain has gone a step further: tell the part that goes stepwise behind it. */
export function releaseFollower(s: State, part: number): void {
  const m = s.m;
  const p = s.part(part);
  const follower = m[p + L.P_SIBLING]!;
  if (follower === L.NONE || (m[s.part(follower) + L.P_FLAGS]! & L.STEPWISE) === 0) return;
  const chunk = m[s.type(m[p + L.P_TYPE]!) + L.T_CHUNK]!;
  const needs = m[s.type(m[s.part(follower) + L.P_TYPE]!) + L.T_NEEDS]!;
  const steps = m[p + L.P_STEP]! * chunk;
  m[s.part(follower) + L.P_LIMIT] = hasEnded(s, part) ? NO_LIMIT : needs === 1 ? steps : Math.floor(steps / needs);
  queueIfReady(s, follower);
}

/** A part has ended: release the parts that waited until all before them had, and pass rows on. */
export function releaseLaterParts(s: State, request: number): void {
  const m = s.m;
  let before: number = L.NONE;
  for (let part = m[s.request(request) + L.R_FIRST_PART]!; part !== L.NONE; part = m[s.part(part) + L.P_SIBLING]!) {
    const p = s.part(part);
    if ((m[p + L.P_FLAGS]! & L.AFTER) !== 0) {
      m[p + L.P_FLAGS]! &= ~L.AFTER;
      if ((m[p + L.P_FLAGS]! & L.INHERITS) !== 0) {
        m[p + L.P_ROW] = m[s.part(before) + L.P_ROW]!;
        m[s.part(before) + L.P_ROW] = L.NONE;
      }
      queueIfReady(s, part);
    }
    if (!hasEnded(s, part)) return;
    before = part;
  }
}
