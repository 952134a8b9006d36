// Which cell type gets the next task. The paper's Algorithm 1 asks three questions in turn and lets later cells go
// first among those that say yes; the others are simpler, and one of them is better where batches are small (see
// docs and bench/cellular-virtual.ts). A type marked T_SKIP has been found to have nothing this instance may run.

import * as L from './layout.js';
import { Reason } from './reasons.js';
import { goesBefore, type State } from './state.js';

/** How types compete. */
export const Priority = {
  /** The type that has the oldest request. */
  oldestRequest: 0,
  /** Gao et al., EuroSys 2018, Algorithm 1: a full batch, then a type that stands idle, then any; later cells first. */
  algorithm1: 1,
  /** The latest cell with anything ready, always. */
  laterFirst: 2,
  /** Types in turn. */
  alternating: 3,
} as const;
export type Priority = (typeof Priority)[keyof typeof Priority];

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
    case Priority.oldestRequest:
      chooseOldest(s, choice);
      break;
    case Priority.algorithm1:
      chooseByCriteria(s, choice);
      break;
    case Priority.laterFirst:
      chooseLatest(s, choice);
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

function chooseOldest(s: State, choice: Choice): void {
  const m = s.m;
  let oldest: number = L.NONE;
  for (let type = 0; type < m[L.H_TYPE_COUNT]!; type++) {
    const t = s.type(type);
    if (!isReady(s, t)) continue;
    const request = m[s.part(m[t + L.T_HEAD]!) + L.P_REQUEST]!;
    if (oldest !== L.NONE && !goesBefore(s, request, oldest)) {
      // Two cells of one request: the later one is nearer its end.
      if (request !== oldest || m[t + L.T_RANK]! <= m[s.type(choice.type) + L.T_RANK]!) continue;
    }
    oldest = request;
    choice.type = type;
    choice.reason = Reason.oldestRequest;
  }
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
