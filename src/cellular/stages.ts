// A request as whole-request batching sees it: stages one after the other, each a cell called so many times on so many
// rows. Merging several requests' stages into one closed batch is what padding and depth-wise batching do, each in its
// own way:
//
//   requests   ○○○          padded   ▣▣▣▣▣   every step has 3 rows,     by depth   ③③③②①   a step has the rows
//              ○○○○○                 × 3     the longest counts                            that are still alive
//              ○○○○

import { CellularError } from './errors.js';
import type { CellCall, WorkItem } from './policy.js';

/** `steps` calls in sequence of `type`, each on `rows` rows. */
export interface Stage {
  readonly type: number;
  readonly steps: number;
  readonly rows: number;
}

/** The stages of one request. A tree's and a graph's are its levels, from the leaves. */
export function stagesOf({ unfolding: u, steps }: WorkItem): Stage[] {
  const chain = (type: number, length: number): Stage => ({ type, steps: length, rows: 1 });
  switch (u.kind) {
    case 'chain':
      return [chain(u.type, u.length)];
    case 'projected':
      return [chain(u.projection, Math.ceil(u.length / u.chunk)), chain(u.type, u.length)];
    case 'stacked':
      return u.types.map((type) => chain(type, u.length));
    case 'bidirectional': {
      const both = [chain(u.forward, u.length), chain(u.backward, u.length)];
      return u.merge === undefined ? both : [...both, chain(u.merge, 1)];
    }
    case 'encoder-decoder':
      return [chain(u.encoder, u.source), chain(u.decoder, steps ?? u.maximum)];
    case 'beam': {
      const count = steps ?? u.maximum;
      const decoders: Stage = { type: u.decoder, steps: count, rows: u.width };
      return [chain(u.encoder, u.source), decoders, chain(u.select, count)];
    }
    case 'tree': {
      const inputs: number[][] = Array.from(u.parents, () => []);
      for (let i = 0; i + 1 < u.parents.length; i++) inputs[u.parents[i]!]!.push(i);
      return levels(inputs.map((children) => ({ type: children.length === 0 ? u.leaf : u.inner, inputs: children })));
    }
    case 'graph':
      return levels(u.nodes);
    default:
      return u satisfies never;
  }
}

/** Nodes by depth (longest way from a leaf) and type. */
function levels(nodes: readonly { readonly type: number; readonly inputs: readonly number[] }[]): Stage[] {
  const depths: number[] = [];
  const byDepth: Map<number, number>[] = [];
  for (const { type, inputs } of nodes) {
    const depth = inputs.reduce((d, input) => Math.max(d, depths[input]! + 1), 0);
    depths.push(depth);
    byDepth[depth] ??= new Map();
    byDepth[depth].set(type, (byDepth[depth].get(type) ?? 0) + 1);
  }
  return byDepth.flatMap((types) => Array.from(types, ([type, rows]) => ({ type, steps: 1, rows })));
}

/** One by one: every call on the rows of one request alone. */
export function alone(items: readonly WorkItem[]): CellCall[] {
  return items.flatMap((item) =>
    stagesOf(item).map(({ type, steps, rows }) => ({ type, rows: 1, times: steps * rows, useful: steps * rows })),
  );
}

/**
 * Padded: all requests take every stage together, for as many steps as the longest, at least `least` in the first stage
 * (a bucket's edge). Needs requests whose stages are of the same types: trees can't be padded.
 */
export function padded(items: readonly WorkItem[], least = 0): CellCall[] {
  const all = items.map(stagesOf);
  return all[0]!.map(({ type }, i) => {
    let times = i === 0 ? least : 0;
    let rows = 0;
    let useful = 0;
    for (const stages of all) {
      const stage = stages[i];
      if (stage?.type !== type || stages.length !== all[0]!.length)
        throw new CellularError('E_ARGUMENT', 'only requests with the same stages can be padded to one another');
      times = Math.max(times, stage.steps);
      rows += stage.rows;
      useful += stage.rows * stage.steps;
    }
    return { type, rows, times, useful };
  });
}

/** By depth, as TensorFlow Fold: step d of the batch runs, type by type, all nodes of depth d of all its requests. */
export function byDepth(items: readonly WorkItem[]): CellCall[] {
  const calls: Map<number, number>[] = [];
  for (const item of items) {
    let depth = 0;
    for (const { type, steps, rows } of stagesOf(item))
      for (let step = 0; step < steps; step++, depth++) {
        calls[depth] ??= new Map();
        calls[depth]!.set(type, (calls[depth]!.get(type) ?? 0) + rows);
      }
  }
  return calls.flatMap((types) => Array.from(types, ([type, rows]) => ({ type, rows, times: 1, useful: rows })));
}
