// Memory planning: gives every buffer of a plan an offset in one arena so that buffers alive at the same step never
// overlap. Largest first, each at the lowest offset where it fits among those placed whose lifetimes cross its own
// (greedy by size). Pure arithmetic on lifetimes.

/** A buffer's size in bytes and the steps, both ends included, between which it holds something. */
export interface Lifetime {
  readonly bytes: number;
  readonly first: number;
  readonly last: number;
}

/** Every address in an arena is a multiple of this: a cache line, and room for SIMD loads. */
export const ALIGNMENT = 64;

/** Rounds up to the alignment. */
export function align(bytes: number): number {
  return Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
}

/** Offsets for the buffers, in their order, and the arena's size. */
export function layOut(buffers: readonly Lifetime[]): { readonly offsets: number[]; readonly bytes: number } {
  const offsets = new Array<number>(buffers.length).fill(0);
  const order = buffers.map((_, i) => i).sort((a, b) => buffers[b]!.bytes - buffers[a]!.bytes || a - b);
  // Kept sorted by offset.
  const placed: number[] = [];
  let total = 0;
  for (const i of order) {
    const b = buffers[i]!;
    const size = align(b.bytes);
    let at = 0;
    for (const p of placed) {
      const r = buffers[p]!;
      if (r.first > b.last || b.first > r.last) continue;
      if (at + size <= offsets[p]!) break;
      at = Math.max(at, offsets[p]! + align(r.bytes));
    }
    offsets[i] = at;
    let k = placed.length;
    while (k > 0 && offsets[placed[k - 1]!]! > at) k--;
    placed.splice(k, 0, i);
    total = Math.max(total, at + size);
  }
  return { offsets, bytes: total };
}
