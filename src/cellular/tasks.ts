// Tasks: formed from the oldest ready nodes of one type, completed in the order they were given to their instance.
// This is the scheduler of "Low latency RNN inference with cellular batching" (Gao et al., EuroSys 2018, Algorithm 1).

import { nextInput, setStatus, sourceOf } from './cell-graph.js';
import { CellularError } from './errors.js';
import * as L from './layout.js';
import {
  hasEnded,
  popReady,
  queueIfReady,
  queueRunning,
  releaseConsumers,
  releaseFollower,
  releaseLaterParts,
  releasesAhead,
} from './ready.js';
import { Reason } from './reasons.js';
import { endRequest, tellWhenDone } from './requests.js';
import { append, dequeue, giveRow, RequestState, type State, stepRows, takeRow } from './state.js';

/** The instance's `k`-th task, 0 the oldest: first word of its record. */
export function taskOf(s: State, instance: number, k: number): number {
  const slot = s.m[s.instance(instance) + L.I_FIRST]! + k;
  return s.task(instance, slot % s.m[L.H_TASKS]!);
}

/**
 * Forms one task of `type` for `instance` and returns its size. Takes the oldest requests' nodes first, from parts that
 * are unpinned or pinned to this instance. 0: nothing could be taken, and H_IDLE says why.
 */
export function formTask(
  s: State,
  instance: number,
  type: number,
  reason: Reason,
  least: number,
  now: number,
  mostRows: number,
): number {
  const m = s.m;
  const t = s.type(type);
  const k = taskOf(s, instance, m[s.instance(instance) + L.I_COUNT]!);
  const maxBatch = Math.min(mostRows, m[t + L.T_MAX_BATCH]!);
  if (m[t + L.T_READY]! < least) return 0;
  m[k + L.K_READY] = m[t + L.T_READY]!;
  m[k + L.K_RUNNING] = m[t + L.T_RUNNING]!;
  m[L.H_IDLE] = Reason.nothingReady;

  let size = 0;
  let rows = 0; // of the task: a chain's step may fill several
  for (let part = m[t + L.T_HEAD]!; part !== L.NONE && rows < maxBatch; ) {
    const p = s.part(part);
    const next = m[p + L.P_NEXT]!;
    const request = m[p + L.P_REQUEST]!;
    if (m[s.request(request) + L.R_DEADLINE]! <= now) {
      endRequest(s, request, RequestState.expired);
      part = m[t + L.T_HEAD]!; // it may have had several parts in this queue
    } else if (m[p + L.P_PIN] !== L.NONE && m[p + L.P_PIN] !== instance) {
      m[L.H_IDLE] = Reason.pinnedElsewhere;
      part = next;
    } else {
      const before = size;
      if ((m[p + L.P_FLAGS]! & L.CHAIN) !== 0) {
        // One that does not fit any more ends the task: it is the first of the next, so that none is passed over.
        if (size > 0 && rows + stepRows(s, part) > maxBatch) break;
        size = takeStep(s, k, size, part);
        if (size > before) rows += stepRows(s, part);
      } else {
        size = takeNodes(s, k, size, size + maxBatch - rows, part);
        rows += size - before;
      }
      part = next;
    }
  }
  if (size === 0) return 0;
  // Nobody else waits: what chains are here may go on for a while.
  if (m[t + L.T_MAX_STEPS]! > 1 && m[t + L.T_READY] === 0) takeMoreSteps(s, k, size, m[t + L.T_MAX_STEPS]!);

  m[k + L.K_INSTANCE] = instance;
  m[k + L.K_TYPE] = type;
  m[k + L.K_SIZE] = size;
  m[k + L.K_REASON] = reason;
  m[k + L.K_OLDEST] = m[s.request(m[s.part(m[k + L.K_ENTRIES]!) + L.P_REQUEST]!) + L.R_ORDER]!;
  m[t + L.T_RUNNING]! += 1;
  m[s.instance(instance) + L.I_COUNT]! += 1;
  m[L.H_LAST_TYPE] = type;
  if (releasesAhead(s)) releaseAhead(s, k, instance);
  return size;
}

/** Takes a chain's next step into the task, if it gets its row. Returns the new size. */
function takeStep(s: State, k: number, size: number, part: number): number {
  const m = s.m;
  const p = s.part(part);
  if (m[p + L.P_ROW] === L.NONE && m[s.type(m[p + L.P_TYPE]!) + L.T_ROW] === 1) {
    m[p + L.P_ROW] = takeRow(s, m[p + L.P_REQUEST]!);
    if (m[p + L.P_ROW] === L.NONE) {
      m[L.H_IDLE] = Reason.noRows;
      return size;
    }
  }
  dequeue(s, part, stepRows(s, part));
  return addEntry(s, k, size, part, m[p + L.P_STEP]! + m[p + L.P_IN_FLIGHT]!);
}

/** Lets every chain of a task take up to `most` steps, as far as the part before it allows. */
function takeMoreSteps(s: State, k: number, size: number, most: number): void {
  const m = s.m;
  const end = k + L.K_ENTRIES + L.ENTRY_WORDS * size;
  for (let entry = k + L.K_ENTRIES; entry < end; entry += L.ENTRY_WORDS) {
    const p = s.part(m[entry]!);
    if ((m[p + L.P_FLAGS]! & L.CHAIN) === 0) continue;
    const steps = Math.min(most, Math.min(m[p + L.P_LENGTH]!, m[p + L.P_LIMIT]!) - m[entry + 1]!);
    m[entry + 2] = steps;
    m[p + L.P_IN_FLIGHT]! += steps - 1;
  }
}

/** Takes as many of a part's ready nodes as fit (until there are `most`) and get their rows. Returns the new size. */
function takeNodes(s: State, k: number, size: number, most: number, part: number): number {
  const m = s.m;
  const p = s.part(part);
  const needsRow = m[s.type(m[p + L.P_TYPE]!) + L.T_ROW] === 1;
  let filled = size;
  while (filled < most && m[p + L.P_LIMIT]! > 0) {
    const row = needsRow ? takeRow(s, m[p + L.P_REQUEST]!) : L.NONE;
    if (needsRow && row === L.NONE) {
      m[L.H_IDLE] = Reason.noRows;
      break;
    }
    const node = popReady(s, part);
    setStatus(s, node, L.RUNNING);
    m[s.node(node) + L.N_LINK] = row;
    filled = addEntry(s, k, filled, part, node);
  }
  return filled;
}

function addEntry(s: State, k: number, size: number, part: number, nodeOrStep: number): number {
  const m = s.m;
  const entry = k + L.K_ENTRIES + L.ENTRY_WORDS * size;
  m[entry] = part;
  m[entry + 1] = nodeOrStep;
  m[entry + 2] = 1;
  m[s.part(part) + L.P_IN_FLIGHT]! += 1;
  m[s.request(m[s.part(part) + L.P_REQUEST]!) + L.R_IN_FLIGHT]! += 1;
  return size + 1;
}

/** After a task has been formed: what follows inside its parts may be submitted to the same instance. */
function releaseAhead(s: State, k: number, instance: number): void {
  const m = s.m;
  const end = k + L.K_ENTRIES + L.ENTRY_WORDS * m[k + L.K_SIZE]!;
  for (let entry = k + L.K_ENTRIES; entry < end; entry += L.ENTRY_WORDS) {
    const part = m[entry]!;
    const p = s.part(part);
    m[p + L.P_PIN] = instance;
    if ((m[p + L.P_FLAGS]! & L.CHAIN) !== 0) queueIfReady(s, part);
    else releaseConsumers(s, m[entry + 1]!, true, false);
  }
}

/** Completes the instance's oldest task: releases what waited for it, frees rows, ends requests. */
export function completeTask(s: State, instance: number): void {
  const m = s.m;
  const i = s.instance(instance);
  const k = taskOf(s, instance, 0);
  m[i + L.I_FIRST] = (m[i + L.I_FIRST]! + 1) % m[L.H_TASKS]!;
  m[i + L.I_COUNT]! -= 1;
  m[s.type(m[k + L.K_TYPE]!) + L.T_RUNNING]! -= 1;
  // Youngest first: then each part that comes back goes in front of the one before, and finds its place at once.
  const first = k + L.K_ENTRIES;
  for (let entry = first + L.ENTRY_WORDS * (m[k + L.K_SIZE]! - 1); entry >= first; entry -= L.ENTRY_WORDS) {
    const part = m[entry]!;
    const p = s.part(part);
    const request = m[p + L.P_REQUEST]!;
    const r = s.request(request);
    m[p + L.P_IN_FLIGHT]! -= m[entry + 2]!;
    m[r + L.R_IN_FLIGHT]! -= 1;
    if (m[p + L.P_IN_FLIGHT] === 0) m[p + L.P_PIN] = L.NONE;
    const chain = (m[p + L.P_FLAGS]! & L.CHAIN) !== 0;
    if (s.stateOf(request) !== RequestState.running) {
      if (!chain) setStatus(s, m[entry + 1]!, L.DONE); // its row goes back with the request
      if (m[r + L.R_IN_FLIGHT] === 0) append(s, L.H_FINISHED_HEAD, L.H_FINISHED_TAIL, request);
      continue;
    }
    if (chain) completeSteps(s, part, m[entry + 2]!);
    else completeNode(s, m[entry + 1]!);
    if (m[r + L.R_UNFINISHED] === 0 && m[r + L.R_IN_FLIGHT] === 0) tellWhenDone(s, request, RequestState.finished);
  }
}

/** Entry `i` of the instance's oldest task is its chain's last step. */
export function stopChain(s: State, instance: number, i: number, steps?: number): void {
  const m = s.m;
  const entry = taskOf(s, instance, 0) + L.K_ENTRIES + L.ENTRY_WORDS * i;
  const part = m[entry]!;
  const p = s.part(part);
  if ((m[p + L.P_FLAGS]! & L.CHAIN) === 0) throw new CellularError('E_ARGUMENT', `entry ${i} is not of a chain`);
  const length = m[entry + 1]! + (steps ?? m[entry + 2]!);
  if (length >= m[p + L.P_LENGTH]!) return;
  m[p + L.P_LENGTH] = length;
  if ((m[p + L.P_FLAGS]! & L.QUEUED) !== 0) dequeue(s, part, stepRows(s, part)); // its next step, which was released ahead
}

function completeSteps(s: State, part: number, steps: number): void {
  const m = s.m;
  const p = s.part(part);
  // A stopped chain may have had further steps submitted ahead: they do not count.
  m[p + L.P_STEP] = Math.min(m[p + L.P_LENGTH]!, m[p + L.P_STEP]! + steps);
  if (m[p + L.P_SIBLING] !== L.NONE) releaseFollower(s, part);
  if (!hasEnded(s, part)) {
    queueRunning(s, part);
    return;
  }
  const request = m[p + L.P_REQUEST]!;
  m[s.request(request) + L.R_UNFINISHED]! -= 1;
  releaseLaterParts(s, request);
}

function completeNode(s: State, node: number): void {
  const m = s.m;
  const n = s.node(node);
  const part = m[n + L.N_PART]!;
  const p = s.part(part);
  const request = m[p + L.P_REQUEST]!;
  setStatus(s, node, L.DONE);
  releaseConsumers(s, node, !releasesAhead(s), true);
  for (let reference = m[n + L.N_IN]!; reference !== L.NONE; reference = nextInput(s, reference)) {
    const source = sourceOf(s, reference);
    m[s.node(source) + L.N_STATUS]! -= L.READER;
    giveRowIfUnread(s, request, source);
  }
  giveRowIfUnread(s, request, node);
  m[p + L.P_ROW]! -= 1;
  m[s.request(request) + L.R_UNFINISHED]! -= 1;
  if (m[p + L.P_ROW] === 0) releaseLaterParts(s, request);
}

/** A done node's row goes back with its last reader; an output's is read by the caller and goes back with the request. */
function giveRowIfUnread(s: State, request: number, node: number): void {
  const m = s.m;
  const n = s.node(node);
  if (m[n + L.N_STATUS]! >= L.READER || (m[n + L.N_STATUS]! & L.OUTPUT) !== 0 || m[n + L.N_LINK] === L.NONE) return;
  giveRow(s, request, m[n + L.N_LINK]!);
  m[n + L.N_LINK] = L.NONE;
}
