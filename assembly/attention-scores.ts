// Attention that also gives its scores, one query row at a time: a row of scores in scratch, softmax, then the weighted sum
// of values, keys in order. For the few models that want them; what computes attention otherwise is attention.ts, whose
// layouts, masks and ranges these are.
import { exp, madd, tanh } from './math';
import { place } from './rotary';
import { loadLanes, storeLanes } from './simd';

@unmanaged
class Scores {
  q: usize;
  k: usize;
  v: usize;
  y: usize;
  /** [batch, heads, queries, keys] of scores as `mode` says; 0: not wanted. */
  scores: usize;
  mask: usize;
  bias: usize;
  /** True lengths of the keys, by batch; 0: all. */
  lengths: usize;
  heads: i32;
  /** Query heads a key head. */
  group: i32;
  queries: i32;
  keys: i32;
  /** Elements of a query and key, of a value. */
  size: i32;
  valueSize: i32;
  qBatch: i32;
  qHead: i32;
  qRow: i32;
  kBatch: i32;
  kHead: i32;
  kRow: i32;
  vBatch: i32;
  vHead: i32;
  vRow: i32;
  yBatch: i32;
  yHead: i32;
  yRow: i32;
  /** 1: floats to add; 2: bytes, where 0 is `filter`; 3: int32, 0 adds `filter`. */
  maskKind: i32;
  maskBatch: i32;
  maskHead: i32;
  maskRow: i32;
  /** Keys the mask tells of; those beyond are masked. */
  maskKeys: i32;
  filter: f32;
  biasBatch: i32;
  biasHead: i32;
  biasRow: i32;
  /** 1: lengths are int64, 0: int32. */
  lengthsWide: i32;
  /** Added to a length. */
  lengthsPlus: i32;
  causal: i32;
  /** Keys before the first query; −1: length − queries. */
  past: i32;
  /** Keys a query sees, itself included; 0: all. */
  window: i32;
  scale: f32;
  /** 0: none. */
  softcap: f32;
  /** What `scores` get: 0 products, 1 after the cap, 2 after mask and bias, 3 after softmax. */
  mode: i32;
}

/** Σ q[i] · k[i]; how the sum is divided among lanes depends on n alone. */
// @ts-ignore: decorator
@inline
function dot(q: usize, k: usize, n: i32): f32 {
  let s0 = f32x4.splat(0), s1 = f32x4.splat(0), s2 = f32x4.splat(0), s3 = f32x4.splat(0);
  let i = n;
  for (; i >= 16; i -= 16, q += 64, k += 64) {
    s0 = madd(v128.load(q), v128.load(k), s0);
    s1 = madd(v128.load(q, 16), v128.load(k, 16), s1);
    s2 = madd(v128.load(q, 32), v128.load(k, 32), s2);
    s3 = madd(v128.load(q, 48), v128.load(k, 48), s3);
  }
  for (; i > 0; i -= 4, q += 16, k += 16) s0 = madd(loadLanes(q, i), loadLanes(k, i), s0);
  s0 = f32x4.add(f32x4.add(s0, s1), f32x4.add(s2, s3));
  s0 = f32x4.add(s0, v128.shuffle<f32>(s0, s0, 2, 3, 0, 1));
  return f32x4.extract_lane(s0, 0) + f32x4.extract_lane(s0, 1);
}

/** y = Σ p[t] · v[t], t in order. */
function weigh(p: usize, v: usize, step: usize, count: i32, y: usize, n: i32): void {
  const end = p + (<usize>count << 2);
  for (; n >= 16; n -= 16, v += 64, y += 64) {
    let s0 = f32x4.splat(0), s1 = f32x4.splat(0), s2 = f32x4.splat(0), s3 = f32x4.splat(0);
    for (let t = p, from = v; t != end; t += 4, from += step) {
      const w = v128.load32_splat(t);
      s0 = madd(w, v128.load(from), s0);
      s1 = madd(w, v128.load(from, 16), s1);
      s2 = madd(w, v128.load(from, 32), s2);
      s3 = madd(w, v128.load(from, 48), s3);
    }
    v128.store(y, s0);
    v128.store(y, s1, 16);
    v128.store(y, s2, 32);
    v128.store(y, s3, 48);
  }
  for (; n > 0; n -= 4, v += 16, y += 16) {
    let s = f32x4.splat(0);
    for (let t = p, from = v; t != end; t += 4, from += step) s = madd(v128.load32_splat(t), loadLanes(from, n), s);
    storeLanes(y, s, n);
  }
}

/** Softmax of n > 0 scores in place; all −∞ gives zeros. Readable and writable to the next multiple of four. */
function softmaxRow(s: usize, n: i32): void {
  const end = s + (<usize>n << 2);
  // Lanes beyond the end must not count.
  for (let p = end; (p - s) & 15; p += 4) store<f32>(p, -Infinity);
  let most = f32x4.splat(-Infinity);
  for (let p = s; p < end; p += 16) most = f32x4.max(most, v128.load(p));
  most = f32x4.max(most, v128.shuffle<f32>(most, most, 2, 3, 0, 1));
  most = f32x4.max(most, v128.shuffle<f32>(most, most, 1, 0, 3, 2));
  if (f32x4.extract_lane(most, 0) == -Infinity) {
    for (let p = s; p < end; p += 16) v128.store(p, f32x4.splat(0));
    return;
  }
  let sum = f32x4.splat(0);
  for (let p = s; p < end; p += 16) {
    const x = v128.load(p);
    const e = v128.andnot(exp(f32x4.sub(x, most)), f32x4.eq(x, f32x4.splat(-Infinity)));
    v128.store(p, e);
    sum = f32x4.add(sum, e);
  }
  sum = f32x4.add(sum, v128.shuffle<f32>(sum, sum, 2, 3, 0, 1));
  sum = f32x4.add(sum, v128.shuffle<f32>(sum, sum, 1, 0, 3, 2));
  for (let p = s; p < end; p += 16) v128.store(p, f32x4.div(v128.load(p), sum));
}

/** Units: batch × heads × queries. Scratch: keys, to a multiple of four, floats. */
export function attentionScores(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<Scores>(params);
  const keys = p.keys;
  const vStep = <usize>p.vRow << 2;
  const kStep = <usize>p.kRow << 2;
  for (let u = begin; u < end; u++) {
    const bh = u / p.queries;
    const row = u - bh * p.queries;
    const b = bh / p.heads;
    const h = bh - b * p.heads;
    const shared = h / p.group;
    const q = place(p.q, b, h, row, p.qBatch, p.qHead, p.qRow);
    const k = place(p.k, b, shared, 0, p.kBatch, p.kHead, 0);
    const v = place(p.v, b, shared, 0, p.vBatch, p.vHead, 0);
    const y = place(p.y, b, h, row, p.yBatch, p.yHead, p.yRow);
    let first = 0;
    let last = keys;
    let past = p.past;
    if (p.lengths) {
      const length: i64 = p.lengthsWide ? load<i64>(p.lengths + (<usize>b << 3)) : <i64>load<i32>(p.lengths + (<usize>b << 2));
      const n = <i32>max<i64>(0, min<i64>(<i64>keys, length + p.lengthsPlus));
      last = n;
      if (past < 0) past = n - p.queries;
    }
    if (p.causal) last = min(last, row + past + 1);
    if (p.window > 0) first = max(0, row + past + 1 - p.window);
    last = max(last, 0);
    first = min(first, last);
    const out = p.scores ? p.scores + ((<usize>u * keys) << 2) : 0;
    // All products are wanted, or those that count.
    const from = out ? 0 : first;
    const to = out ? keys : last;
    for (let t = from; t < to; t++) store<f32>(scratch + (<usize>t << 2), dot(q, k + <usize>t * kStep, p.size) * p.scale);
    if (out && p.mode == 0) memory.copy(out, scratch, <usize>keys << 2);
    if (p.softcap != 0) {
      const cap = f32x4.splat(p.softcap);
      for (let t = from; t < to; t += 4) {
        const s = scratch + (<usize>t << 2);
        storeLanes(s, f32x4.mul(tanh(f32x4.div(loadLanes(s, to - t), cap)), cap), to - t);
      }
    }
    if (out && p.mode == 1) memory.copy(out, scratch, <usize>keys << 2);
    if (p.maskKind != 0) {
      const m = p.mask;
      const at = <usize>b * p.maskBatch + <usize>h * p.maskHead + <usize>row * p.maskRow;
      for (let t = from; t < to; t++) {
        const s = scratch + (<usize>t << 2);
        if (t >= p.maskKeys) store<f32>(s, -Infinity);
        else if (p.maskKind == 1) store<f32>(s, load<f32>(s) + load<f32>(m + ((at + t) << 2)));
        else if (p.maskKind == 2) {
          if (!load<u8>(m + at + t)) store<f32>(s, p.filter);
        } else if (!load<i32>(m + ((at + t) << 2))) store<f32>(s, load<f32>(s) + p.filter);
      }
    }
    if (p.bias) {
      const bias = place(p.bias, b, h, row, p.biasBatch, p.biasHead, p.biasRow);
      for (let t = from; t < to; t++) {
        const s = scratch + (<usize>t << 2);
        store<f32>(s, load<f32>(s) + load<f32>(bias + (<usize>t << 2)));
      }
    }
    for (let t = from; t < first; t++) store<f32>(scratch + (<usize>t << 2), -Infinity);
    for (let t = last; t < to; t++) store<f32>(scratch + (<usize>t << 2), -Infinity);
    if (out && p.mode == 2) memory.copy(out, scratch, <usize>keys << 2);
    if (last > first) softmaxRow(scratch + (<usize>first << 2), last - first);
    if (out && p.mode == 3) {
      memory.fill(out, 0, <usize>keys << 2);
      memory.copy(out + (<usize>first << 2), scratch + (<usize>first << 2), <usize>(last - first) << 2);
    }
    weigh(scratch + (<usize>first << 2), v + <usize>first * vStep, vStep, last - first, y, p.valueSize);
  }
}
