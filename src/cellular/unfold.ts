// Unfolding as data: what shape a request has, and the cells it becomes. Each shape is a plain object, so that it can
// come from a file, a model's description or a test; `unfold` turns one into a request of a scheduler.
//
//   chain            ○─○─○─○                       encoder–decoder   ○─○─○ ▶ ●─●─●…        until a stop token or a maximum
//   projected        ▭───▭───  ▭ = chunk of steps   tree              ○ ○ ○
//                    ○─○─○─○─○─○                                       \ ● /
//   stacked          ○─○─○  layer on layer                              ●       children before parents
//   bidirectional    ○─○─○ and ○─○─○, then one ●   beam              k live decoders a step and a select: beam.ts

import { type Beam, beginBeam } from './beam.js';
import { CellularError, checkInteger } from './errors.js';
import type { RequestOptions } from './options.js';
import type { Scheduler } from './scheduler.js';

export type Unfolding =
  | { readonly kind: 'chain'; readonly type: number; readonly length: number }
  /** `projection` is a type whose `chunk` says how many steps of `type` one node of it feeds. */
  | {
      readonly kind: 'projected';
      readonly projection: number;
      readonly chunk: number;
      readonly type: number;
      readonly length: number;
    }
  /** Layer l's step t needs layer l − 1's step t. */
  | { readonly kind: 'stacked'; readonly types: readonly number[]; readonly length: number }
  /** Two chains, then, if given, one node of `merge` that has both ends. */
  | {
      readonly kind: 'bidirectional';
      readonly forward: number;
      readonly backward: number;
      readonly merge?: number;
      readonly length: number;
    }
  /** The decoder goes on from the encoder's state, at most `maximum` steps: call `stop` at the stop token. */
  | {
      readonly kind: 'encoder-decoder';
      readonly encoder: number;
      readonly decoder: number;
      readonly source: number;
      readonly maximum: number;
    }
  | Beam
  /** `parents[i]` is node i's parent, −1 for the root; children come before parents, in the order a parent reads them. */
  | { readonly kind: 'tree'; readonly leaf: number; readonly inner: number; readonly parents: ArrayLike<number> }
  /** Any DAG: inputs name earlier nodes. */
  | { readonly kind: 'graph'; readonly nodes: readonly GraphNode[] };

export interface GraphNode {
  readonly type: number;
  readonly inputs: readonly number[];
  readonly output?: boolean;
}

/** Scratch that an unfolding needs and that grows to the largest it has seen: unfolding allocates nothing per node. */
export class Unfolder {
  #nodes = new Int32Array(64); // this request's nodes by their place in the description
  #first = new Int32Array(64); // of a tree: first child, then next child, by place
  #next = new Int32Array(64);
  #inputs: number[] = [];

  /** Begins, builds and submits a request. Returns its number, or −1 when the scheduler has no room for it now. */
  unfold(s: Scheduler, u: Unfolding, key: number, options?: RequestOptions): number {
    const { parts, nodes, edges, rows } = sizeOf(u);
    if (!s.hasRoom(parts, nodes, edges)) return -1;
    const request = s.begin(key, options);
    try {
      this.#build(s, request, u);
      s.submit(request, rows);
    } catch (error) {
      s.free(request);
      throw error;
    }
    return request;
  }

  #build(s: Scheduler, request: number, u: Unfolding): void {
    switch (u.kind) {
      case 'chain':
        s.addChain(request, u.type, u.length);
        return;
      case 'projected':
        s.addChain(request, u.projection, Math.ceil(u.length / u.chunk));
        s.addChain(request, u.type, u.length, STEPWISE);
        return;
      case 'stacked':
        for (let l = 0; l < u.types.length; l++)
          s.addChain(request, u.types[l]!, u.length, l > 0 ? STEPWISE : undefined);
        return;
      case 'bidirectional':
        s.addChain(request, u.forward, u.length);
        s.addChain(request, u.backward, u.length);
        if (u.merge !== undefined) s.addChain(request, u.merge, 1, AFTER);
        return;
      case 'encoder-decoder':
        s.addChain(request, u.encoder, u.source);
        s.addChain(request, u.decoder, u.maximum, INHERITS);
        return;
      case 'beam':
        beginBeam(s, request, u);
        return;
      case 'tree':
        this.#buildTree(s, request, u.leaf, u.inner, u.parents);
        return;
      case 'graph':
        this.#buildGraph(s, request, u.nodes);
        return;
      default:
        u satisfies never;
    }
  }

  #buildTree(s: Scheduler, request: number, leaf: number, inner: number, parents: ArrayLike<number>): void {
    const count = parents.length;
    this.#reserve(count);
    const nodes = this.#nodes;
    const first = this.#first.fill(-1, 0, count);
    const next = this.#next;
    // Children in the order a parent reads them: put in front from last to first.
    for (let i = count - 2; i >= 0; i--) {
      const parent = parents[i]!;
      if (!isPlace(parent, i + 1, count - 1)) checkInteger(`parent of tree node ${i}`, parent, i + 1, count - 1);
      next[i] = first[parent]!;
      first[parent] = i;
    }
    if (parents[count - 1] !== -1)
      throw new CellularError('E_ARGUMENT', 'the last tree node must be the root, parent −1');
    for (let i = 0; i < count; i++) {
      let degree = 0;
      for (let child = first[i]!; child !== -1; child = next[child]!) this.#inputs[degree++] = nodes[child]!;
      nodes[i] = s.addNode(request, degree === 0 ? leaf : inner, i, this.#inputs, i === count - 1, degree);
    }
  }

  #buildGraph(s: Scheduler, request: number, description: readonly GraphNode[]): void {
    this.#reserve(description.length);
    for (let i = 0; i < description.length; i++) {
      const { type, inputs, output = false } = description[i]!;
      for (let j = 0; j < inputs.length; j++) {
        const input = inputs[j]!;
        if (!isPlace(input, 0, i - 1)) checkInteger(`input ${j} of graph node ${i}`, input, 0, i - 1);
        this.#inputs[j] = this.#nodes[input]!;
      }
      this.#nodes[i] = s.addNode(request, type, i, this.#inputs, output, inputs.length);
    }
  }

  #reserve(count: number): void {
    if (count <= this.#nodes.length) return;
    const size = 2 * count;
    this.#nodes = new Int32Array(size);
    this.#first = new Int32Array(size);
    this.#next = new Int32Array(size);
  }
}

/** Asked before an error message is made: making one for every node would allocate. */
const isPlace = (value: number, least: number, most: number): boolean =>
  Number.isInteger(value) && value >= least && value <= most;

const STEPWISE = { stepwise: true } as const;
const AFTER = { after: true } as const;
const INHERITS = { after: true, inherits: true } as const;

/** What a request takes at most: slots, and rows held at once (types without rows need fewer). */
export function sizeOf(u: Unfolding): { parts: number; nodes: number; edges: number; rows: number } {
  switch (u.kind) {
    case 'chain':
      return { parts: 1, nodes: 0, edges: 0, rows: 1 };
    case 'projected':
      return { parts: 2, nodes: 0, edges: 0, rows: 2 };
    case 'stacked':
      return { parts: u.types.length, nodes: 0, edges: 0, rows: u.types.length };
    case 'bidirectional':
      return { parts: 3, nodes: 0, edges: 0, rows: 3 };
    case 'encoder-decoder':
      return { parts: 2, nodes: 0, edges: 0, rows: 1 };
    case 'beam':
      // A step's k decoders and its select node may be live together with those of the step before; a node that two
      // beams go on from has a consumer more for each.
      return {
        parts: 3,
        nodes: u.maximum * (u.width + 1),
        edges: u.maximum * 2 * u.width,
        rows: 2 * (u.width + 1) + 1,
      };
    case 'tree':
      return { parts: 2, nodes: u.parents.length, edges: 0, rows: u.parents.length };
    case 'graph': {
      const types = new Set<number>();
      let inputs = 0;
      for (const n of u.nodes) {
        types.add(n.type);
        inputs += n.inputs.length;
      }
      return { parts: types.size, nodes: u.nodes.length, edges: inputs, rows: u.nodes.length };
    }
    default:
      return u satisfies never;
  }
}
