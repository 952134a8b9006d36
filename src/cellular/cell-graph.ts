// A request's cell graph: making it, letting it grow, and walking it. Picture a node with its inputs on the left and
// its consumers on the right. Most nodes have one consumer, so a node holds that link itself:
//
//   input reference  n ≥ 0      node n is the input, and n's own N_BESIDE is the consumer's next input
//                    ~(e + 1)   edge e is the input: E_SOURCE is the node, E_BESIDE the next input
//   consumer link    c ≥ 0      node c is the last (or only) consumer
//                    ~(e + 1)   edge e: E_CONSUMER is a consumer, E_OUT leads to the others
//
// Nothing is allocated: slots come from free lists. When a node may run is scheduler.ts's affair.

import { CellularError } from './errors.js';
import * as L from './layout.js';
import { giveSlot, type State, takeSlot } from './state.js';

/** The edge an input reference or consumer link below NONE stands for. */
export const edgeOf = (reference: number): number => ~reference - 1;
const referenceTo = (edge: number): number => ~(edge + 1);

export function setStatus(s: State, node: number, status: number): void {
  const n = s.node(node);
  s.m[n + L.N_STATUS] = (s.m[n + L.N_STATUS]! & ~L.STATUS_MASK) | status;
}

/** Adds an empty part at the end of a request's list. */
export function addPart(s: State, request: number, type: number, flags: number): number {
  const m = s.m;
  const part = takeSlot(m, L.H_FREE_PART, L.H_LEFT_PARTS, s.part(0) + L.P_NEXT, L.PART_WORDS, 'part');
  const p = s.part(part);
  m[p + L.P_TYPE] = type;
  m[p + L.P_REQUEST] = request;
  m[p + L.P_FLAGS] = flags;
  m[p + L.P_PIN] = L.NONE;
  m[p + L.P_IN_FLIGHT] = 0;
  m[p + L.P_STEP] = m[p + L.P_LENGTH] = L.NONE;
  m[p + L.P_LIMIT] = 0;
  m[p + L.P_ROW] = 0;
  m[p + L.P_SIBLING] = L.NONE;
  const r = s.request(request);
  if (m[r + L.R_FIRST_PART] === L.NONE) m[r + L.R_FIRST_PART] = part;
  else m[s.part(m[r + L.R_LAST_PART]!) + L.P_SIBLING] = part;
  m[r + L.R_LAST_PART] = part;
  m[s.type(type) + L.T_LIVE]! += 1;
  return part;
}

/** The part that holds a request's graph nodes of a type; NONE when it has none. */
export function findGraphPart(s: State, request: number, type: number): number {
  const m = s.m;
  let part = m[s.request(request) + L.R_FIRST_PART]!;
  while (part !== L.NONE) {
    const p = s.part(part);
    if (m[p + L.P_TYPE] === type && (m[p + L.P_FLAGS]! & L.CHAIN) === 0) return part;
    part = m[p + L.P_SIBLING]!;
  }
  return L.NONE;
}

/**
 * Adds a node to `part` and links it to its inputs, in their order. Returns it, still WAITING; N_LINK says for how many
 * inputs. An input that is done is not waited for, nor, when nodes are released `ahead`, one of the same part that runs.
 */
export function linkNode(
  s: State,
  part: number,
  tag: number,
  inputs: ArrayLike<number>,
  count: number,
  ahead: boolean,
): number {
  const m = s.m;
  const node = takeSlot(m, L.H_FREE_NODE, L.H_LEFT_NODES, s.node(0) + L.N_BEFORE, L.NODE_WORDS, 'node');
  const n = s.node(node);
  const r = s.request(m[s.part(part) + L.P_REQUEST]!);
  m[n + L.N_STATUS] = L.WAITING;
  m[n + L.N_PART] = part;
  m[n + L.N_OUT] = L.NONE;
  m[n + L.N_IN] = L.NONE;
  m[n + L.N_BESIDE] = L.NONE;
  m[n + L.N_TAG] = tag;
  m[n + L.N_BEFORE] = m[r + L.R_FIRST_NODE]!;
  m[r + L.R_FIRST_NODE] = node;
  let missing = 0;
  for (let i = count - 1; i >= 0; i--) {
    const source = inputs[i]!;
    const from = s.node(source);
    if (m[from + L.N_OUT] === L.NONE) {
      m[from + L.N_OUT] = node;
      m[from + L.N_BESIDE] = m[n + L.N_IN]!;
      m[n + L.N_IN] = source;
    } else {
      if (m[L.H_LEFT_EDGES] === 0) unlinkNode(s, node); // then takeSlot throws
      const edge = takeSlot(m, L.H_FREE_EDGE, L.H_LEFT_EDGES, s.edge(0) + L.E_OUT, L.EDGE_WORDS, 'edge');
      const e = s.edge(edge);
      m[e + L.E_SOURCE] = source;
      m[e + L.E_CONSUMER] = node;
      m[e + L.E_OUT] = m[from + L.N_OUT]!;
      m[e + L.E_BESIDE] = m[n + L.N_IN]!;
      m[from + L.N_OUT] = referenceTo(edge);
      m[n + L.N_IN] = referenceTo(edge);
    }
    m[from + L.N_STATUS]! += L.READER;
    const status = m[from + L.N_STATUS]! & L.STATUS_MASK;
    const met = status === L.DONE || (ahead && status === L.RUNNING && m[from + L.N_PART] === part);
    if (!met) missing += 1;
  }
  m[n + L.N_LINK] = missing;
  return node;
}

/** Takes a half-linked node back, the link made last first. */
function unlinkNode(s: State, node: number): void {
  const m = s.m;
  const n = s.node(node);
  for (let reference = m[n + L.N_IN]!; reference !== L.NONE; ) {
    const from = s.node(sourceOf(s, reference));
    const next = nextInput(s, reference);
    m[from + L.N_STATUS]! -= L.READER;
    m[from + L.N_OUT] = nextConsumer(s, m[from + L.N_OUT]!);
    if (reference < 0) giveSlot(m, L.H_FREE_EDGE, L.H_LEFT_EDGES, s.edge(0) + L.E_OUT, L.EDGE_WORDS, edgeOf(reference));
    reference = next;
  }
  const r = s.request(m[s.part(m[n + L.N_PART]!) + L.P_REQUEST]!);
  m[r + L.R_FIRST_NODE] = m[n + L.N_BEFORE]!;
  m[n + L.N_PART] = L.NONE;
  giveSlot(m, L.H_FREE_NODE, L.H_LEFT_NODES, s.node(0) + L.N_BEFORE, L.NODE_WORDS, node);
}

/** The node an input reference stands for. */
export function sourceOf(s: State, reference: number): number {
  return reference >= 0 ? reference : s.m[s.edge(edgeOf(reference)) + L.E_SOURCE]!;
}

/** The input reference that follows `reference` among the same node's inputs. */
export function nextInput(s: State, reference: number): number {
  return reference >= 0 ? s.m[s.node(reference) + L.N_BESIDE]! : s.m[s.edge(edgeOf(reference)) + L.E_BESIDE]!;
}

/** The consumer a consumer link stands for. */
export function consumerOf(s: State, link: number): number {
  return link >= 0 ? link : s.m[s.edge(edgeOf(link)) + L.E_CONSUMER]!;
}

/** The consumer link that follows `link`. */
export function nextConsumer(s: State, link: number): number {
  return link >= 0 ? L.NONE : s.m[s.edge(edgeOf(link)) + L.E_OUT]!;
}

/** Gives all nodes, edges and parts of a request back. Its rows must have been given back. */
export function giveGraph(s: State, request: number): void {
  const m = s.m;
  const r = s.request(request);
  for (let node = m[r + L.R_FIRST_NODE]!; node !== L.NONE; ) {
    const n = s.node(node);
    const before = m[n + L.N_BEFORE]!;
    for (let link = m[n + L.N_OUT]!; link < L.NONE; ) {
      const next = m[s.edge(edgeOf(link)) + L.E_OUT]!;
      giveSlot(m, L.H_FREE_EDGE, L.H_LEFT_EDGES, s.edge(0) + L.E_OUT, L.EDGE_WORDS, edgeOf(link));
      link = next;
    }
    m[n + L.N_PART] = L.NONE; // a stale node number is noticed: see checkNode
    giveSlot(m, L.H_FREE_NODE, L.H_LEFT_NODES, s.node(0) + L.N_BEFORE, L.NODE_WORDS, node);
    node = before;
  }
  for (let part = m[r + L.R_FIRST_PART]!; part !== L.NONE; ) {
    const p = s.part(part);
    const sibling = m[p + L.P_SIBLING]!;
    m[s.type(m[p + L.P_TYPE]!) + L.T_LIVE]! -= 1;
    giveSlot(m, L.H_FREE_PART, L.H_LEFT_PARTS, s.part(0) + L.P_NEXT, L.PART_WORDS, part);
    part = sibling;
  }
  m[r + L.R_FIRST_PART] = m[r + L.R_LAST_PART] = m[r + L.R_FIRST_NODE] = L.NONE;
}

/** Throws unless `node` is a node of `request`. */
export function checkNode(s: State, request: number, node: number): void {
  const m = s.m;
  const part = node >= 0 && node < m[L.H_NODES]! ? m[s.node(node) + L.N_PART]! : L.NONE;
  if (!(part >= 0) || m[s.part(part) + L.P_REQUEST] !== request)
    throw new CellularError('E_ARGUMENT', `node ${node} is not a node of request ${request}`);
}
