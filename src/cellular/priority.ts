// Which cell type gets the next task. The paper's Algorithm 1 asks three questions in turn and lets later cells go
// first among those that say yes. Where a batch is small and one row costs much of what a full batch costs, another rule
// is better at every load: the type whose batch would be fullest, then the oldest request (bench/cellular/virtual.ts
// measures all of them). A type marked T_SKIP has been found to have nothing this instance may run.

import * as L from './layout.js';
import { Reason } from './reasons.js';
import { goesBefore, type State } from './state.js';

/** How types compete. */
export const Priority = {
  /** The type that fills most of a batch; of equals, the one that has the oldest request. None is passed over for ever. */
  fullest: 0,
  /** Gao et al., EuroSys 2018, Algorithm 1: a full batch, then a type that stands idle, then any; later cells first. */
  algorithm1: 1,
  /** The latest cell with anything ready, always (decoder first). */
  laterFirst: 2,
  /** A full batch, then any; of equals, the one that has the oldest request. */
  oldestRequest: 3,
  /** Types in turn. */
  alternating: 4,
} as const;
export type Priority = (typeof Priority)[keyof typeof Priority];

/** So many tasks may pass over a type with ready nodes before it has its turn (`fullest`). */
const MOST_PASSED = 16;

/** A choice: the type (NONE when nothing is ready) and why. Written in place, to allocate nothing. */
export interface Choice {
  type: number;
  reason: Reason;
}

export function chooseType(s: State, choice: Choice): void {
  choice.type = L.NONE;
  choice.reason = Reason.nothingReady;
  const priority = s.m[L.H_POLICY] as Priority;
  switch (priority) {
    case Priority.fullest:
      chooseFullest(s, choice);
      break;
    case Priority.algorithm1:
      chooseByCriteria(s, choice);
      break;
    case Priority.laterFirst:
      chooseLatest(s, choice);
      break;
    case Priority.oldestRequest:
      chooseOldest(s, choice);
      break;
    case Priority.alternating:
      chooseInTurn(s, choice);
      break;
    default:
      priority satisfies never;
  }
}

/** Whether the type has ready nodes that may run here. */
function isReady(s: State, t: number): boolean {
  return s.m[t + L.T_READY]! > 0 && s.m[t + L.T_SKIP] === 0;
}

function chooseByCriteria(s: State, choice: Choice): void {
  const m = s.m;
  let best: number = Reason.nothingReady; // reasons 1, 2, 3 are the criteria, in their order
  let rank = 0;
  for (let type = 0; type < m[L.H_TYPE_COUNT]!; type++) {
    const t = s.type(type);
    if (!isReady(s, t)) continue;
    const full = m[t + L.T_READY]! >= m[t + L.T_MAX_BATCH]!;
    const reason = full ? Reason.fullBatch : m[t + L.T_RUNNING] === 0 ? Reason.noneRunning : Reason.someReady;
    if (reason < best || (reason === best && m[t + L.T_RANK]! > rank)) {
      best = choice.reason = reason;
      rank = m[t + L.T_RANK]!;
      choice.type = type;
    }
  }
}

function chooseLatest(s: State, choice: Choice): void {
  const m = s.m;
  for (let type = 0; type < m[L.H_TYPE_COUNT]!; type++) {
    if (!isReady(s, s.type(type))) continue;
    if (choice.type !== L.NONE && m[s.type(type) + L.T_RANK]! <= m[s.type(choice.type) + L.T_RANK]!) continue;
    choice.type = type;
    choice.reason = Reason.latestType;
  }
}

function chooseFullest(s: State, choice: Choice): void {
  const m = s.m;
  let most = 0;
  for (let type = 0; type < m[L.H_TYPE_COUNT]!; type++) {
    const t = s.type(type);
    if (!isReady(s, t)) continue;
    const overdue = m[t + L.T_PASSED]! >= MOST_PASSED;
    const fill = overdue ? 2 : Math.min(1, m[t + L.T_READY]! / m[t + L.T_MAX_BATCH]!);
    if (fill < most || (fill === most && !isOlder(s, type, choice.type))) continue;
    most = fill;
    choice.type = type;
    choice.reason = overdue ? Reason.overdue : fill === 1 ? Reason.fullBatch : Reason.fullest;
  }
  for (let type = 0; type < m[L.H_TYPE_COUNT]!; type++) {
    const t = s.type(type);
    m[t + L.T_PASSED] = type === choice.type || m[t + L.T_READY] === 0 ? 0 : m[t + L.T_PASSED]! + 1;
  }
}

function chooseOldest(s: State, choice: Choice): void {
  const m = s.m;
  let foundFull = false;
  for (let type = 0; type < m[L.H_TYPE_COUNT]!; type++) {
    const t = s.type(type);
    if (!isReady(s, t)) continue;
    const full = m[t + L.T_READY]! >= m[t + L.T_MAX_BATCH]!;
    if (full === foundFull ? choice.type !== L.NONE && !isOlder(s, type, choice.type) : foundFull) continue;
    foundFull = full;
    choice.type = type;
    choice.reason = full ? Reason.fullBatch : Reason.oldestRequest;
  }
}

/** Whether type a's oldest request goes before type b's; of one request, the later cell: it is nearer the end. */
function isOlder(s: State, a: number, b: number): boolean {
  const m = s.m;
  const ra = m[s.part(m[s.type(a) + L.T_HEAD]!) + L.P_REQUEST]!;
  const rb = m[s.part(m[s.type(b) + L.T_HEAD]!) + L.P_REQUEST]!;
  return ra === rb ? m[s.type(a) + L.T_RANK]! > m[s.type(b) + L.T_RANK]! : goesBefore(s, ra, rb);
}

function chooseInTurn(s: State, choice: Choice): void {
  const count = s.m[L.H_TYPE_COUNT]!;
  for (let i = 1; i <= count; i++) {
    const type = (s.m[L.H_LAST_TYPE]! + i) % count;
    if (!isReady(s, s.type(type))) continue;
    choice.type = type;
    choice.reason = Reason.nextInTurn;
    return;
  }
}
