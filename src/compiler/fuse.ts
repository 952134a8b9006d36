// Fusion: rewrites the settled nodes of a segment into fewer, larger ones before they are lowered. fusion/rewriter.ts is
// the mechanism, the files beside it the patterns by family; here they meet, in the order in which a root tries them.

import type { ModelConstants } from './constants.js';
import { activationRules, affineRules } from './fusion/activations.js';
import { attentionRules } from './fusion/attention.js';
import { binaryRules, linearRules } from './fusion/linear.js';
import { normalizationRules } from './fusion/normalizations.js';
import { Rewriter, type Rule, type Rules } from './fusion/rewriter.js';
import { simplifications } from './fusion/simplify.js';
import type { SettledNode } from './lowering.js';

const families: readonly Rules[] = [simplifications, normalizationRules, activationRules, attentionRules, linearRules];

function merge(list: readonly Rules[]): Rules {
  const merged: Record<string, Rule[]> = {};
  for (const family of list)
    for (const [kind, rules] of Object.entries(family)) merged[kind] = [...(merged[kind] ?? []), ...rules];
  return merged;
}

const rules = merge(families);
/** What would break larger patterns if it came first. */
const lateRules = merge([affineRules, binaryRules]);

/** Fuses `items`; values in `keep` must still be computed under their names. */
export function fuse(
  items: readonly SettledNode[],
  keep: ReadonlySet<string>,
  constants: ModelConstants,
): SettledNode[] {
  const fused = new Rewriter(items, keep, constants).run(rules);
  return new Rewriter(fused, keep, constants).run(lateRules);
}
