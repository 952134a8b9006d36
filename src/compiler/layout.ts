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

/** Buffer `from` is read for the last time, if ever, by the step that may overwrite it element by element with `to`. */
export interface Share {
  readonly from: number;
  readonly to: number;
  readonly step: number;
}

/**
 * Which buffers may be one: gives for each the index of the buffer that stands for its group, and the groups' lifetimes
 * (by that index). A share holds when `from` is dead after the step and `to` begins with it.
 */
export function mergeInPlace(
  buffers: readonly Lifetime[],
  shares: readonly Share[],
): { readonly group: number[]; readonly lifetimes: Map<number, Lifetime> } {
  const parent = buffers.map((_, i) => i);
  const lifetimes = new Map(buffers.map((b, i) => [i, b] as const));
  const find = (i: number): number => {
    let at = i;
    while (parent[at] !== at) at = parent[at]!;
    return at;
  };
  for (const { from, to, step } of shares) {
    const a = find(from);
    const b = find(to);
    const before = lifetimes.get(a)!;
    const after = lifetimes.get(b)!;
    // One input only: a second one has to be read at the same step.
    if (b !== to || a === b || before.last > step || after.first < step || before.bytes !== after.bytes) continue;
    parent[b] = a;
    lifetimes.set(a, { bytes: before.bytes, first: before.first, last: after.last });
    lifetimes.delete(b);
  }
  return { group: buffers.map((_, i) => find(i)), lifetimes };
}

/** The most bytes alive at one step. */
export function peakOf(buffers: readonly Lifetime[]): number {
  const changes: [step: number, bytes: number][] = [];
  for (const b of buffers) changes.push([b.first, align(b.bytes)], [b.last + 1, -align(b.bytes)]);
  changes.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let now = 0;
  let most = 0;
  for (const [, bytes] of changes) {
    now += bytes;
    most = Math.max(most, now);
  }
  return most;
}
