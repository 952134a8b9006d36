// Topological order of a graph's nodes. Stable: nodes that are in order already come back as they were, and others move
// no further than they must. Iterative, because graphs are deeper than stacks.
import { type Node, readsOf } from './graph.js';

/** Nodes in an order in which every value is defined before it is read; or the nodes of one cycle, each reading the next. */
export type Order = { readonly nodes: readonly Node[] } | { readonly cycle: readonly Node[] };

/** Sorts nodes. Names that no node defines are taken as given. */
export function sortNodes(nodes: readonly Node[]): Order {
  const maker = new Map<string, number>();
  nodes.forEach((node, i) => {
    for (const o of node.outputs) if (o !== '') maker.set(o, i);
  });
  const needs = nodes.map((node) => {
    const before: number[] = [];
    for (const name of readsOf(node)) {
      const m = maker.get(name);
      if (m !== undefined) before.push(m);
    }
    return before;
  });
  if (needs.every((before, i) => before.every((m) => m < i))) return { nodes };

  const NEW = 0;
  const OPEN = 1;
  const DONE = 2;
  const state = new Uint8Array(nodes.length);
  const sorted: Node[] = [];
  for (let root = 0; root < nodes.length; root++) {
    if (state[root] !== NEW) continue;
    // The path from the root, each with the number of its needs already seen to.
    const path = [root];
    const seen = [0];
    state[root] = OPEN;
    while (path.length > 0) {
      const i = path[path.length - 1]!;
      const next = needs[i]![seen[seen.length - 1]!++];
      if (next === undefined) {
        state[i] = DONE;
        sorted.push(nodes[i]!);
        path.pop();
        seen.pop();
      } else if (state[next] === OPEN) return { cycle: path.slice(path.indexOf(next)).map((k) => nodes[k]!) };
      else if (state[next] === NEW) {
        state[next] = OPEN;
        path.push(next);
        seen.push(0);
      }
    }
  }
  return { nodes: sorted };
}
