// A request's life: built, admitted when its rows can be promised, run, ended, told to the caller, freed.
//
//   building ─▶ waiting ─▶ running ─▶ finished ──┐
//                  │          ├─────▶ cancelled ─┼─▶ taken by the caller ─▶ free
//                  └──────────┴─────▶ expired  ──┘   (told only when nothing of it is in flight)
//
// Rows are promised before anything runs, so that no set of half-done requests can hold all rows and wait for more.

import { giveGraph } from './cell-graph.js';
import { CellularError } from './errors.js';
import * as L from './layout.js';
import { queueIfReady, readyCount } from './ready.js';
import { append, dequeue, giveRow, giveSlot, RequestState, type State, takeSlot, unlink } from './state.js';

export function beginRequest(s: State, key: number, priority: number, deadline: number): number {
  const m = s.m;
  const request = takeSlot(m, L.H_FREE_REQUEST, L.H_LEFT_REQUESTS, s.request(0) + L.R_NEXT, L.REQUEST_WORDS, 'request');
  const r = s.request(request);
  m[r + L.R_STATE] = RequestState.building | (priority << L.PRIORITY_SHIFT);
  m[r + L.R_KEY] = key;
  m[r + L.R_ORDER] = m[L.H_ORDER]!;
  m[L.H_ORDER] = (m[L.H_ORDER]! + 1) | 0;
  m[r + L.R_DEADLINE] = deadline;
  m[r + L.R_FIRST_PART] = m[r + L.R_LAST_PART] = m[r + L.R_FIRST_NODE] = L.NONE;
  m[r + L.R_UNFINISHED] = m[r + L.R_IN_FLIGHT] = m[r + L.R_RESERVED] = m[r + L.R_HELD] = 0;
  m[r + L.R_NEXT] = L.NONE;
  return request;
}

/** The graph is there: admit the request, or let it wait for its rows behind those that came before. */
export function submitRequest(s: State, request: number, rows: number): void {
  const m = s.m;
  const r = s.request(request);
  if (rows > m[L.H_ROWS]!)
    throw new CellularError('E_ROWS', `request ${request} needs ${rows} rows, there are ${m[L.H_ROWS]}`);
  if (m[r + L.R_UNFINISHED] === 0) throw new CellularError('E_ARGUMENT', `request ${request} has nothing to run`);
  m[r + L.R_RESERVED] = rows;
  if (m[r + L.R_DEADLINE] !== L.NO_DEADLINE) m[L.H_DEADLINES]! += 1;
  s.setState(request, RequestState.waiting);
  append(s, L.H_WAITING_HEAD, L.H_WAITING_TAIL, request);
  admitWaiting(s);
}

/** Admits waiting requests, in their order, as long as their rows can be promised. */
function admitWaiting(s: State): void {
  const m = s.m;
  for (let request = m[L.H_WAITING_HEAD]!; request !== L.NONE; request = m[L.H_WAITING_HEAD]!) {
    const r = s.request(request);
    if (m[L.H_RESERVED]! + m[r + L.R_RESERVED]! > m[L.H_ROWS]!) return;
    m[L.H_RESERVED]! += m[r + L.R_RESERVED]!;
    unlink(s, L.H_WAITING_HEAD, L.H_WAITING_TAIL, request);
    s.setState(request, RequestState.running);
    for (let part = m[r + L.R_FIRST_PART]!; part !== L.NONE; part = m[s.part(part) + L.P_SIBLING]!) {
      m[s.part(part) + L.P_FLAGS]! |= L.ADMITTED;
      queueIfReady(s, part);
    }
  }
}

/** Ends a request early. What is in flight ends by itself; the caller is told after that. False: it had ended. */
export function endRequest(s: State, request: number, state: RequestState): boolean {
  const m = s.m;
  const r = s.request(request);
  const present = s.stateOf(request);
  if (present !== RequestState.waiting && present !== RequestState.running) return false;
  if (present === RequestState.waiting) {
    unlink(s, L.H_WAITING_HEAD, L.H_WAITING_TAIL, request);
    m[r + L.R_RESERVED] = 0; // it was never promised
  }
  for (let part = m[r + L.R_FIRST_PART]!; part !== L.NONE; part = m[s.part(part) + L.P_SIBLING]!)
    if ((m[s.part(part) + L.P_FLAGS]! & L.QUEUED) !== 0) dequeue(s, part, readyCount(s, part));
  tellWhenDone(s, request, state);
  if (present === RequestState.waiting) admitWaiting(s); // it may have stood in the way of others
  return true;
}

/** Sets a final state and, when nothing is in flight, puts the request where the caller finds it. */
export function tellWhenDone(s: State, request: number, state: RequestState): void {
  const m = s.m;
  if (m[s.request(request) + L.R_DEADLINE] !== L.NO_DEADLINE) m[L.H_DEADLINES]! -= 1;
  s.setState(request, state);
  if (m[s.request(request) + L.R_IN_FLIGHT] === 0) append(s, L.H_FINISHED_HEAD, L.H_FINISHED_TAIL, request);
}

/** The next ended request the caller has not been told of; NONE. */
export function takeEnded(s: State): number {
  const m = s.m;
  const request = m[L.H_FINISHED_HEAD]!;
  if (request === L.NONE) return L.NONE;
  unlink(s, L.H_FINISHED_HEAD, L.H_FINISHED_TAIL, request);
  m[s.request(request) + L.R_NEXT] = L.TAKEN;
  return request;
}

/** Gives everything of an ended (or never submitted) request back. */
export function freeRequest(s: State, request: number): void {
  const m = s.m;
  const r = s.request(request);
  const state = s.stateOf(request);
  if (state !== RequestState.building && (state < RequestState.finished || m[r + L.R_NEXT] !== L.TAKEN))
    throw new CellularError('E_STATE', `request ${request} has not ended, or is free already`);
  giveRows(s, request);
  giveGraph(s, request);
  if (state !== RequestState.building) m[L.H_RESERVED]! -= m[r + L.R_RESERVED]!;
  m[r + L.R_STATE] = RequestState.free;
  giveSlot(m, L.H_FREE_REQUEST, L.H_LEFT_REQUESTS, s.request(0) + L.R_NEXT, L.REQUEST_WORDS, request);
  admitWaiting(s);
}

/** Gives back the rows a request still holds: chains' states, outputs, and whatever a cancel has left. */
function giveRows(s: State, request: number): void {
  const m = s.m;
  const r = s.request(request);
  if (m[r + L.R_HELD] === 0) return;
  for (let part = m[r + L.R_FIRST_PART]!; part !== L.NONE; part = m[s.part(part) + L.P_SIBLING]!) {
    const p = s.part(part);
    if ((m[p + L.P_FLAGS]! & L.CHAIN) !== 0 && m[p + L.P_ROW] !== L.NONE) giveRow(s, request, m[p + L.P_ROW]!);
  }
  for (let node = m[r + L.R_FIRST_NODE]!; node !== L.NONE; node = m[s.node(node) + L.N_BEFORE]!) {
    const n = s.node(node);
    const done = (m[n + L.N_STATUS]! & L.STATUS_MASK) === L.DONE;
    if (done && m[n + L.N_LINK] !== L.NONE) giveRow(s, request, m[n + L.N_LINK]!);
  }
  if (m[r + L.R_HELD] !== 0) throw new CellularError('E_STATE', `request ${request} lost ${m[r + L.R_HELD]} rows`);
}
