// Scaled dot-product attention, shared by every operator that contains it: what it is, its reference, and its step.
// How to picture it, for one query row of one head:
//
//   scores[t] = cap(scale · q · k[t]) + mask[t] + bias[t]     −∞ outside what causality, window and lengths let it see
//   y = Σ softmax(scores)[t] · v[t]                           a row that sees nothing gives zeros, or NaN
//
// Operands are reached by strides, so that [batch, head, row, size] and [batch, row, head · size] are one thing, and
// each key head serves a group of query heads.
import { attentionRows, attentionScratch } from '../kernels/attention.js';
import type { Address, LowerCall } from './operator.js';
import { grainOf } from './product.js';

/** Strides in elements. */
export interface Strides {
  readonly batch: number;
  readonly head: number;
  readonly row: number;
}

/** Rows of heads side by side: [batch, rows, heads · size], or more before the next row. */
export function besideStrides(rows: number, heads: number, size: number, row = heads * size): Strides {
  return { batch: rows * row, head: size, row };
}

/** Heads apart: [batch, heads, rows, size]. */
export function apartStrides(rows: number, heads: number, size: number): Strides {
  return { batch: heads * rows * size, head: rows * size, row: size };
}

export interface AttentionShape {
  readonly batch: number;
  readonly heads: number;
  readonly keyHeads: number;
  readonly queries: number;
  readonly keys: number;
  readonly size: number;
  readonly valueSize: number;
  readonly q: Strides;
  readonly k: Strides;
  readonly v: Strides;
  readonly y: Strides;
  readonly scale: number;
  /** 0: none. */
  readonly softcap: number;
  readonly causal: boolean;
  /** Keys before the first query; −1: what the lengths leave. */
  readonly past: number;
  /** Keys a query sees, itself included; 0: all. */
  readonly window: number;
  readonly mask?: MaskShape;
  readonly bias?: Strides;
  /** Added to every length. */
  readonly lengthsPlus: number;
  /** What the scores, where wanted, are: 0 products, 1 capped, 2 masked and biased, 3 after softmax. */
  readonly mode: number;
  /** What a query whose scores are all −∞ gives: NaN, as the softmax of nothing, rather than zeros. Default false. */
  readonly emptyIsNaN?: boolean;
}

/**
 * A mask of floats to add, of booleans where false is `filter`, of integers where 0 adds `filter`, or of int32 ends by batch from which on `filter`
 * is added; `spans` has starts, before which it is added, after the ends.
 */
export interface MaskShape extends Strides {
  readonly kind: 'add' | 'bool' | 'int' | 'ends' | 'spans';
  /** Keys it tells of; those beyond are masked. */
  readonly keys: number;
  readonly filter: number;
}

/** Strides of a tensor broadcast to [batch, heads, queries, …] from its shape (of rank 2 to 4). */
export function broadcastMask(dims: readonly number[]): Strides {
  const full = [...new Array<number>(4 - dims.length).fill(1), ...dims] as [number, number, number, number];
  const [b, h, r, k] = full;
  return { batch: b === 1 ? 0 : h * r * k, head: h === 1 ? 0 : r * k, row: r === 1 ? 0 : k };
}

/** Where operands are. */
export interface AttentionPlaces<P> {
  readonly q: P;
  readonly k: P;
  readonly v: P;
  readonly mask?: P;
  readonly bias?: P;
  readonly lengths?: P;
  /** By head, a score that takes its part of the weights and has no value. */
  readonly sinks?: P;
}

type Numbers = ArrayLike<number>;

/** The reference: fills y, and the scores where given. */
export function attend(
  s: AttentionShape,
  { q, k, v, mask, bias, lengths, sinks }: AttentionPlaces<Numbers>,
  y: Float64Array,
  wanted?: Float64Array,
): void {
  const group = s.heads / s.keyHeads;
  for (let b = 0; b < s.batch; b++)
    for (let h = 0; h < s.heads; h++)
      for (let r = 0; r < s.queries; r++) {
        const at = (t: Strides, head: number, row: number) => b * t.batch + head * t.head + row * t.row;
        const shared = Math.floor(h / group);
        let last = s.keys;
        let { past } = s;
        if (lengths !== undefined) {
          last = Math.max(0, Math.min(s.keys, lengths[b]! + s.lengthsPlus));
          if (past < 0) past = last - s.queries;
        }
        if (s.causal) last = Math.min(last, r + past + 1);
        const first = s.window > 0 ? Math.max(0, r + past + 1 - s.window) : 0;
        const scores = new Float64Array(s.keys);
        const keep = (mode: number) => {
          if (wanted !== undefined && s.mode === mode) wanted.set(scores, ((b * s.heads + h) * s.queries + r) * s.keys);
        };
        const from = at(s.q, h, r);
        for (let t = 0; t < s.keys; t++) {
          const to = at(s.k, shared, t);
          let sum = 0;
          for (let i = 0; i < s.size; i++) sum += q[from + i]! * k[to + i]!;
          scores[t] = sum * s.scale;
        }
        keep(0);
        if (s.softcap !== 0) for (let t = 0; t < s.keys; t++) scores[t] = Math.tanh(scores[t]! / s.softcap) * s.softcap;
        keep(1);
        for (let t = 0; t < s.keys; t++) {
          if (s.mask !== undefined) scores[t] = masked(s, s.mask, mask!, b, at(s.mask, h, r) + t, t, scores[t]!);
          if (s.bias !== undefined) scores[t]! += bias![at(s.bias, h, r) + t]!;
          if (t < first || t >= last) scores[t] = -Infinity;
        }
        keep(2);
        softmax(scores, s.emptyIsNaN === true ? Number.NaN : 0, sinks?.[h]);
        keep(3);
        const out = at(s.y, h, r);
        for (let i = 0; i < s.valueSize; i++) y[out + i] = 0;
        for (let t = 0; t < s.keys; t++) {
          const p = scores[t]!;
          if (p === 0) continue;
          const value = at(s.v, shared, t);
          for (let i = 0; i < s.valueSize; i++) y[out + i]! += p * v[value + i]!;
        }
      }
}

function masked(
  s: AttentionShape,
  m: MaskShape,
  mask: Numbers,
  batch: number,
  at: number,
  key: number,
  score: number,
): number {
  if (m.kind === 'ends' || m.kind === 'spans') {
    const start = m.kind === 'spans' ? mask[s.batch + batch]! : 0;
    return key >= start && key < mask[batch]! ? score : score + m.filter;
  }
  if (key >= m.keys) return -Infinity;
  const x = mask[at]!;
  if (m.kind === 'add') return score + x;
  if (m.kind === 'bool') return x === 0 ? m.filter : score;
  return x === 0 ? score + m.filter : score;
}

function softmax(x: Float64Array, empty: number, sink = -Infinity): void {
  let most = -Infinity;
  for (const v of x) if (v > most || Number.isNaN(v)) most = v;
  if (most === -Infinity) {
    x.fill(empty);
    return;
  }
  if (sink > most) most = sink;
  let sum = Math.exp(sink - most);
  for (let i = 0; i < x.length; i++) sum += x[i] = Math.exp(x[i]! - most);
  for (let i = 0; i < x.length; i++) x[i]! /= sum;
}

const maskKinds = { add: 1, bool: 2, int: 3, ends: 4, spans: 5 } as const;
const none: Strides = { batch: 0, head: 0, row: 0 };

/** Appends the step. `wide`: lengths are int64. False when `scores` are wanted of what no kernel gives them for. */
export function lowerAttention(
  call: LowerCall<unknown>,
  s: AttentionShape,
  places: AttentionPlaces<Address>,
  y: Address,
  scores: Address | undefined,
  wide: boolean,
): boolean {
  const rows = s.batch * s.heads * s.queries;
  const kind = s.mask?.kind;
  if (scores !== undefined && (kind === 'ends' || kind === 'spans' || places.sinks !== undefined)) return false;
  if (rows === 0) return true;
  if (s.valueSize === 0 && scores === undefined) return true;
  const mask = s.mask ?? { ...none, kind: undefined, keys: 0, filter: 0 };
  const bias = s.bias ?? none;
  const params = {
    q: places.q,
    k: places.k,
    v: places.v,
    y,
    mask: places.mask ?? (0 as const),
    bias: places.bias ?? (0 as const),
    lengths: places.lengths ?? (0 as const),
    heads: s.heads,
    group: s.heads / s.keyHeads,
    queries: s.queries,
    keys: s.keys,
    size: s.size,
    valueSize: s.valueSize,
    qBatch: s.q.batch,
    qHead: s.q.head,
    qRow: s.q.row,
    kBatch: s.k.batch,
    kHead: s.k.head,
    kRow: s.k.row,
    vBatch: s.v.batch,
    vHead: s.v.head,
    vRow: s.v.row,
    yBatch: s.y.batch,
    yHead: s.y.head,
    yRow: s.y.row,
    maskKind: mask.kind === undefined ? 0 : maskKinds[mask.kind],
    maskBatch: mask.batch,
    maskHead: mask.head,
    maskRow: mask.row,
    maskKeys: mask.keys,
    filter: mask.filter,
    biasBatch: bias.batch,
    biasHead: bias.head,
    biasRow: bias.row,
    lengthsWide: wide ? 1 : 0,
    lengthsPlus: s.lengthsPlus,
    causal: s.causal ? 1 : 0,
    past: s.past,
    window: s.window,
    scale: s.scale,
    softcap: s.softcap,
  };
  const each = 2 * s.keys * (s.size + s.valueSize);
  if (scores !== undefined) {
    call.threadScratch(Math.ceil(s.keys / 4 + 1) * 16);
    const work = { units: rows, grain: grainOf(each), flops: rows * each };
    call.step('attentionScores', { ...params, scores, mode: s.mode }, work);
    return true;
  }
  call.threadScratch(attentionScratch(s.size, s.valueSize));
  const group = (s.heads / s.keyHeads) * s.queries;
  // A sum over no keys at all is zero either way.
  const empty = s.emptyIsNaN === true && s.keys > 0 ? Number.NaN : 0;
  const units = s.batch * s.keyHeads * Math.ceil(group / attentionRows);
  const work = { units, grain: grainOf(each * Math.min(group, attentionRows)), flops: rows * each };
  call.step('attention', { ...params, sinks: places.sinks ?? 0, batch: s.batch, empty }, work);
  return true;
}
