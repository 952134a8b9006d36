// Parameter blocks of attention and rotary embeddings (assembly/attention.ts and -scores.ts, rotary.ts). Strides are in
// elements.
import type { Fields } from './abi.js';

/** What both attentions are told of sizes, strides, masks and ranges, in the order of their classes' fields. */
const shared = {
  heads: 'i32',
  group: 'i32',
  queries: 'i32',
  keys: 'i32',
  size: 'i32',
  valueSize: 'i32',
  qBatch: 'i32',
  qHead: 'i32',
  qRow: 'i32',
  kBatch: 'i32',
  kHead: 'i32',
  kRow: 'i32',
  vBatch: 'i32',
  vHead: 'i32',
  vRow: 'i32',
  yBatch: 'i32',
  yHead: 'i32',
  yRow: 'i32',
  maskKind: 'i32',
  maskBatch: 'i32',
  maskHead: 'i32',
  maskRow: 'i32',
  maskKeys: 'i32',
  filter: 'f32',
  biasBatch: 'i32',
  biasHead: 'i32',
  biasRow: 'i32',
  lengthsWide: 'i32',
  lengthsPlus: 'i32',
  causal: 'i32',
  past: 'i32',
  window: 'i32',
  scale: 'f32',
  softcap: 'f32',
} as const;

export const attention = {
  /** Units: batch × key heads × blocks of `attentionRows` of a group's rows. Scratch: `attentionScratch`. */
  attention: {
    q: 'ptr',
    k: 'ptr',
    v: 'ptr',
    y: 'ptr',
    mask: 'ptr',
    bias: 'ptr',
    lengths: 'ptr',
    sinks: 'ptr',
    batch: 'i32',
    ...shared,
    empty: 'f32',
  },
  /** The same with the scores given too, as `mode` says. Units: batch × heads × queries. Scratch: a row of scores, to a multiple of four. */
  attentionScores: {
    q: 'ptr',
    k: 'ptr',
    v: 'ptr',
    y: 'ptr',
    scores: 'ptr',
    mask: 'ptr',
    bias: 'ptr',
    lengths: 'ptr',
    ...shared,
    mode: 'i32',
  },
  /** Units: batch × heads × rows. */
  rotary: {
    x: 'ptr',
    cos: 'ptr',
    sin: 'ptr',
    positions: 'ptr',
    y: 'ptr',
    heads: 'i32',
    rows: 'i32',
    size: 'i32',
    half: 'i32',
    interleaved: 'i32',
    xBatch: 'i32',
    xHead: 'i32',
    xRow: 'i32',
    yBatch: 'i32',
    yHead: 'i32',
    yRow: 'i32',
    wide: 'i32',
    offset: 'i32',
    most: 'i32',
    plus: 'i32',
  },
  /** A cache with new rows after its true lengths. Units: batch × heads. */
  appendRows: {
    past: 'ptr',
    x: 'ptr',
    y: 'ptr',
    lengths: 'ptr',
    heads: 'i32',
    before: 'i32',
    keys: 'i32',
    rows: 'i32',
    size: 'i32',
    xBatch: 'i32',
    xHead: 'i32',
    xRow: 'i32',
    plus: 'i32',
  },
} as const satisfies Record<string, Fields>;

/** Query rows of a unit of `attention`. */
export const attentionRows = 32;

/** Bytes of scratch that `attention` needs: rows, scores of 64 keys, weighted sums, queries, and 64 keys. */
export function attentionScratch(size: number, valueSize: number): number {
  const values = Math.ceil(valueSize / 8) * 8;
  return 4 * (attentionRows * (12 + 64 + values + size) + 64 * size);
}
