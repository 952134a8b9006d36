// Workloads from plain arrays: lengths, pairs of lengths, tree shapes. Reading files is for others. A workload says what
// the i-th request is; requests are drawn from the given shapes at random, by seed, so that a run can be repeated.

import type { WorkItem } from '../cellular/policy.js';
import { Random } from './random.js';

export type Workload = (i: number) => WorkItem;

/** Draws requests from `items`, the i-th always the same for a seed. */
export function drawFrom(items: readonly WorkItem[], seed: number): Workload {
  if (items.length === 0) throw new RangeError('a workload needs an item');
  const random = new Random(seed);
  const drawn: WorkItem[] = [];
  return (i) => {
    while (drawn.length <= i) drawn.push(items[random.below(items.length)]!);
    return drawn[i]!;
  };
}

export function chains(lengths: readonly number[], type = 0): WorkItem[] {
  return lengths.map((length) => ({ unfolding: { kind: 'chain', type, length } }));
}

/** Encoder–decoder requests from [source, target] lengths; the decoder may take up to `maximum` steps. */
export function pairs(lengths: readonly (readonly number[])[], maximum: number, encoder = 0, decoder = 1): WorkItem[] {
  return lengths.map(([source, target]) => ({
    unfolding: { kind: 'encoder-decoder', encoder, decoder, source: source!, maximum },
    steps: Math.min(target!, maximum),
  }));
}

export function trees(shapes: readonly ArrayLike<number>[], leaf = 0, inner = 1): WorkItem[] {
  return shapes.map((parents) => ({ unfolding: { kind: 'tree', leaf, inner, parents } }));
}

/**
 * The parents (children first, root last) of a binary tree written in preorder, one bit a node: 1 has two children, 0 is
 * a leaf; hexadecimal, the first bit highest, padded with zeros.
 */
export function treeFromBits(leaves: number, hex: string): Int32Array {
  const count = 2 * leaves - 1;
  const parents = new Int32Array(count).fill(-1);
  // Preorder from its end is children before parents, right to left: node j of that order is preorder node count−1−j.
  // Keep a stack of finished subtrees; an inner node takes the two on top.
  const open: number[] = [];
  for (let at = count - 1, node = 0; at >= 0; at--, node++) {
    const digit = Number.parseInt(hex[at >> 2] ?? '', 16);
    if (Number.isNaN(digit)) throw new RangeError(`tree bits end at ${at} of ${count}`);
    if (((digit >> (3 - (at & 3))) & 1) === 1) {
      const left = open.pop();
      const right = open.pop();
      if (left === undefined || right === undefined) throw new RangeError('tree bits are not a binary tree');
      parents[left] = parents[right] = node;
    }
    open.push(node);
  }
  if (open.length !== 1) throw new RangeError('tree bits are not one binary tree');
  return parents;
}

/** Lengths as sentences have them: log-normal with this mean and coefficient of variation, at least 1, at most `max`. */
export function logNormalLengths(count: number, mean: number, variation: number, max: number, seed: number): number[] {
  const random = new Random(seed);
  const sigma = Math.sqrt(Math.log(1 + variation ** 2));
  const mu = Math.log(mean) - sigma ** 2 / 2;
  return Array.from({ length: count }, () =>
    Math.min(max, Math.max(1, Math.round(Math.exp(mu + sigma * random.normal())))),
  );
}

/**
 * A random binary tree with so many leaves: two neighbours are joined until one is left, the last two with probability
 * `lean`, any two otherwise. Parse trees of English lean: 0.4 gives 19 leaves the depth of about 10 they have.
 */
export function randomTree(leaves: number, random: Random, lean = 0): Int32Array {
  const parents = new Int32Array(2 * leaves - 1).fill(-1);
  const open = Array.from({ length: leaves }, (_, i) => i);
  for (let node = leaves; node < parents.length; node++) {
    const at = random.uniform() < lean ? open.length - 2 : random.below(open.length - 1);
    const [left, right] = open.splice(at, 2, node);
    parents[left!] = parents[right!] = node;
  }
  return parents;
}
