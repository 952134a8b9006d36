// Scaled dot-product attention without a matrix of scores: blocks of 64 keys pass by a block of up to 32 query rows, each
// of which keeps its largest score so far, its sum of exponentials and its weighted sum of values (online softmax):
//
//            64 keys →                  scratch of a unit
//   rows  [ q · k, masked ]      keys: transposed, panels of 8    S: rows × 64 scores, then weights
//     ↓     m, l, acc            Q: panels of 4 rows              acc, l, m: a row each
//
// Q, K, V and Y are reached by strides (batch, head, row; in floats), so that every layout is one kernel, and the query
// heads that share a key head are rows of one unit. What may be seen of the keys is a range [first, last) that causality,
// windows and true lengths cut; a mask and a bias add to what is inside. A row that sees nothing gives `empty`.
//
// A row's bits depend on its own operands alone: blocks begin at multiples of 64 of the key's index, every product has one
// accumulator in order, and rows of a tile of four end where each of them ends.
import { packKeys, packQueries, products1, products4, productsOf16, weigh1, weigh4 } from './attention-products';
import { atLeast, exp, expBelow, tanh } from './math';
import { place } from './rotary';
import { loadLanes, storeLanes } from './simd';

/** Keys of a block, and bytes of a row of its scores. */
const KEYS: i32 = 64;
const SCORES: usize = 256;
/** Query rows of a unit. */
const ROWS: i32 = 32;

@unmanaged
class Attention {
  q: usize;
  k: usize;
  v: usize;
  y: usize;
  mask: usize;
  bias: usize;
  /** True lengths of the keys, by batch; 0: all. */
  lengths: usize;
  /** By head, a score that weighs nothing; 0: none. */
  sinks: usize;
  batch: i32;
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
  /** 1: floats to add; 2: bytes, where 0 is `filter`; 3: int32, 0 adds `filter`; 4: int32 ends by batch, from there on `filter` is
   *  added; 5: ends, then starts, before which it is added too. */
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
  /** What a row gives whose scores are all −∞: 0, or NaN as the softmax of nothing. */
  empty: f32;
}

/** What a unit keeps of a row. */
@unmanaged
class Row {
  /** Sums of exponentials, by lane; the largest score so far. */
  sums: usize;
  sums1: usize;
  sums2: usize;
  sums3: usize;
  most: f32;
  head: i32;
  query: i32;
  /** Keys it sees. */
  first: i32;
  last: i32;
  q: usize;
  pad0: i32;
  pad1: i32;
}

const ROW_BYTES: usize = 48;

// @ts-ignore: decorator
@inline
function rowAt(rows: usize, r: i32): Row {
  return changetype<Row>(rows + <usize>r * ROW_BYTES);
}

/** The bias, mask and cap of scores t … of a row, n of them left in their tensors. */
// @ts-ignore: decorator
@inline
function adjusted(p: Attention, x: v128, b: i32, t: i32, n: i32, mask: usize, bias: usize): v128 {
  if (p.softcap != 0) {
    const cap = f32x4.splat(p.softcap);
    x = f32x4.mul(tanh(f32x4.div(x, cap)), cap);
  }
  const index = i32x4.add(i32x4.splat(t), i32x4(0, 1, 2, 3));
  if (p.maskKind >= 4) {
    const ends = p.mask + (<usize>b << 2);
    let seen = i32x4.lt_s(index, v128.load32_splat(ends));
    if (p.maskKind == 5) seen = v128.and(seen, i32x4.ge_s(index, v128.load32_splat(ends + (<usize>p.batch << 2))));
    x = v128.bitselect(x, f32x4.add(x, f32x4.splat(p.filter)), seen);
  } else if (p.maskKind != 0) {
    const known = p.maskKeys - t;
    if (known > 0) {
      if (p.maskKind == 1) x = f32x4.add(x, loadLanes(mask + (<usize>t << 2), known));
      else if (p.maskKind == 2) {
        let m = i32x4.splat(0);
        if (known >= 4) m = i32x4.extend_low_i16x8_u(i16x8.extend_low_i8x16_u(v128.load32_zero(mask + t)));
        else {
          for (let i = known - 1; i >= 0; i--) {
            m = v128.shuffle<i32>(m, i32x4.splat(load<u8>(mask + t + i)), 4, 0, 1, 2);
          }
        }
        x = v128.bitselect(f32x4.splat(p.filter), x, i32x4.eq(m, i32x4.splat(0)));
      } else {
        const m = i32x4.eq(loadLanes(mask + (<usize>t << 2), known), i32x4.splat(0));
        x = v128.bitselect(f32x4.add(x, f32x4.splat(p.filter)), x, m);
      }
    }
    if (known < 4) x = v128.bitselect(x, f32x4.splat(-Infinity), i32x4.lt_s(index, i32x4.splat(p.maskKeys)));
  }
  if (p.bias) x = f32x4.add(x, loadLanes(bias + (<usize>t << 2), n));
  return x;
}

/** Scores s of the keys at t0 become weights in place; the row's largest score, sum and values are brought up to date. */
function soften(p: Attention, b: i32, row: Row, t0: i32, lo: i32, hi: i32, s: usize, acc: usize, accBytes: usize): void {
  const from = <usize>(lo & ~3) << 2;
  const end = <usize>((hi + 3) & ~3) << 2;
  const none = f32x4.splat(-Infinity);
  const plain = p.softcap == 0 && p.maskKind == 0 && !p.bias;
  let mask: usize = 0, bias: usize = 0;
  if (!plain) {
    const at = <usize>b * p.maskBatch + <usize>row.head * p.maskHead + <usize>row.query * p.maskRow;
    mask = p.mask + (p.maskKind == 2 ? at : at << 2);
    bias = place(p.bias, b, row.head, row.query, p.biasBatch, p.biasHead, p.biasRow);
  }
  let most = none;
  let odd = i32x4.splat(0);
  for (let o = from; o < end; o += 16) {
    const t = <i32>(o >> 2);
    let x = v128.load(s + o);
    if (!plain) {
      x = adjusted(p, x, b, t0 + t, p.keys - t0 - t, mask, bias);
      v128.store(s + o, x);
    }
    if (t < lo || t + 4 > hi) {
      const i = i32x4.add(i32x4.splat(t), i32x4(0, 1, 2, 3));
      const inside = v128.and(i32x4.ge_s(i, i32x4.splat(lo)), i32x4.lt_s(i, i32x4.splat(hi)));
      x = v128.bitselect(x, none, inside);
      v128.store(s + o, x);
    }
    most = atLeast(most, x);
    odd = v128.or(odd, f32x4.ne(x, x));
  }
  // The largest of numbers alone; with NaN among them the row is NaN.
  if (v128.any_true(odd)) most = f32x4.splat(NaN);
  most = f32x4.max(most, v128.shuffle<f32>(most, most, 2, 3, 0, 1));
  most = f32x4.max(most, v128.shuffle<f32>(most, most, 1, 0, 3, 2));
  const before = f32x4.splat(row.most);
  most = f32x4.max(most, before);
  const largest = f32x4.extract_lane(most, 0);
  if (largest == -Infinity) {
    for (let o = from; o < end; o += 16) v128.store(s + o, f32x4.splat(0));
    return;
  }
  const sums = changetype<usize>(row);
  let sum = v128.load(sums);
  if (largest != row.most) {
    const shrink = exp(f32x4.sub(before, most));
    sum = f32x4.mul(sum, shrink);
    for (let o: usize = 0; o < accBytes; o += 16) v128.store(acc + o, f32x4.mul(v128.load(acc + o), shrink));
    row.most = largest;
  }
  for (let o = from; o < end; o += 16) {
    const e = expBelow(f32x4.sub(v128.load(s + o), most));
    v128.store(s + o, e);
    sum = f32x4.add(sum, e);
  }
  v128.store(sums, sum);
}

/** What row r of a unit is: its head and query, the keys it sees. */
function describe(p: Attention, b: i32, shared: i32, index: i32, row: Row): void {
  const inGroup = index / p.queries;
  row.head = shared * p.group + inGroup;
  row.query = index - inGroup * p.queries;
  row.most = -Infinity;
  row.q = place(p.q, b, row.head, row.query, p.qBatch, p.qHead, p.qRow);
  v128.store(changetype<usize>(row), f32x4.splat(0));
  let first = 0;
  let last = p.keys;
  let past = p.past;
  if (p.lengths) {
    const length: i64 = p.lengthsWide ? load<i64>(p.lengths + (<usize>b << 3)) : <i64>load<i32>(p.lengths + (<usize>b << 2));
    last = <i32>max<i64>(0, min<i64>(<i64>p.keys, length + p.lengthsPlus));
    if (past < 0) past = last - p.queries;
  }
  if (p.causal) last = min(last, row.query + past + 1);
  if (p.window > 0) first = max(0, row.query + past + 1 - p.window);
  row.last = max(last, 0);
  row.first = min(first, row.last);
}

/** y = acc / sum. */
function finish(p: Attention, b: i32, row: Row, acc: usize): void {
  let y = place(p.y, b, row.head, row.query, p.yBatch, p.yHead, p.yRow);
  let sum = v128.load(changetype<usize>(row));
  sum = f32x4.add(sum, v128.shuffle<f32>(sum, sum, 2, 3, 0, 1));
  sum = f32x4.add(sum, v128.shuffle<f32>(sum, sum, 1, 0, 3, 2));
  let factor = f32x4.splat(1);
  if (p.sinks) {
    const sink = v128.load32_splat(p.sinks + (<usize>row.head << 2));
    const before = f32x4.splat(row.most);
    const most = f32x4.max(before, sink);
    factor = row.most == -Infinity ? f32x4.splat(0) : exp(f32x4.sub(before, most));
    sum = f32x4.add(f32x4.mul(sum, factor), exp(f32x4.sub(sink, most)));
  }
  const empty = row.most == -Infinity;
  for (let n = p.valueSize; n > 0; n -= 4, y += 16, acc += 16) {
    storeLanes(y, empty ? f32x4.splat(p.empty) : f32x4.div(f32x4.mul(v128.load(acc), factor), sum), n);
  }
}

/**
 * Units: batch × key heads × blocks of 32 of a group's rows. Scratch: floats, 64 · size for the keys, 32 · size for the
 * queries, 32 · 64 for scores, 32 · valueSize to a multiple of eight, and 32 · 12 of rows.
 */
export function attention(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<Attention>(params);
  const all = p.group * p.queries;
  const blocks = (all + ROWS - 1) / ROWS;
  const keyHeads = p.heads / p.group;
  const n = p.valueSize;
  const size = p.size;
  const accBytes = <usize>((n + 7) & ~7) << 2;
  const rows = scratch;
  const scores = rows + <usize>ROWS * ROW_BYTES;
  const acc = scores + <usize>ROWS * SCORES;
  const queries = acc + <usize>ROWS * accBytes;
  const packed = queries + ((<usize>ROWS * size) << 2);
  const kStep = <usize>p.kRow << 2;
  const vStep = <usize>p.vRow << 2;
  const scale = f32x4.splat(p.scale);
  for (let u = begin; u < end; u++) {
    const bh = u / blocks;
    const from = (u - bh * blocks) * ROWS;
    const count = min(ROWS, all - from);
    const b = bh / keyHeads;
    const shared = bh - b * keyHeads;
    const fours = count & ~3;
    let first = p.keys;
    let last = 0;
    for (let r = 0; r < count; r++) {
      const row = rowAt(rows, r);
      describe(p, b, shared, from + r, row);
      if (row.first < row.last) {
        first = min(first, row.first);
        last = max(last, row.last);
      }
    }
    for (let r = 0; r < fours; r += 4) {
      const a = rowAt(rows, r).q, c = rowAt(rows, r + 1).q, d = rowAt(rows, r + 2).q, e = rowAt(rows, r + 3).q;
      packQueries(a, c, d, e, size, queries + ((<usize>r * size) << 2));
    }
    memory.fill(acc, 0, <usize>count * accBytes);
    const k = place(p.k, b, shared, 0, p.kBatch, p.kHead, 0);
    const v = place(p.v, b, shared, 0, p.vBatch, p.vHead, 0);
    for (let t0 = first & ~(KEYS - 1); t0 < last; t0 += KEYS) {
      const keys = min(KEYS, last - t0);
      const at = k + <usize>t0 * kStep;
      // Packing pays when several rows use it.
      const direct = count == 1 && !(size & 3) ? keys & ~15 : 0;
      packKeys(at + <usize>direct * kStep, kStep, keys - direct, size, packed);
      const values = v + <usize>t0 * vStep;
      for (let r = 0; r < fours; r += 4) {
        const a = rowAt(rows, r), c = rowAt(rows, r + 1), d = rowAt(rows, r + 2), e = rowAt(rows, r + 3);
        const until = max(max(a.last, c.last), max(d.last, e.last));
        if (until <= t0) continue;
        const s = scores + <usize>r * SCORES;
        products4(queries + ((<usize>r * size) << 2), packed, size, min(keys, until - t0), scale, s);
        // What all four see, and what only some of them do before and after it.
        let lo = 0;
        let hi = keys;
        for (let i = r; i < r + 4; i++) {
          const row = rowAt(rows, i);
          const l = max(0, row.first - t0), h = min(keys, row.last - t0);
          lo = max(lo, l);
          hi = min(hi, h);
          if (l < h) soften(p, b, row, t0, l, h, scores + <usize>i * SCORES, acc + <usize>i * accBytes, accBytes);
        }
        if (lo >= hi) lo = hi = keys;
        for (let i = r; i < r + 4; i++) {
          const row = rowAt(rows, i);
          const l = max(0, row.first - t0), h = min(keys, row.last - t0);
          weigh1(scores + <usize>i * SCORES, values, vStep, l, min(lo, h), acc + <usize>i * accBytes, n);
        }
        if (lo < hi) weigh4(s, values, vStep, lo, hi, acc + <usize>r * accBytes, accBytes, n);
        for (let i = r; i < r + 4; i++) {
          const row = rowAt(rows, i);
          const h = min(keys, row.last - t0);
          weigh1(scores + <usize>i * SCORES, values, vStep, hi, h, acc + <usize>i * accBytes, n);
        }
      }
      for (let r = fours; r < count; r++) {
        const row = rowAt(rows, r);
        const l = max(0, row.first - t0), h = min(keys, row.last - t0);
        if (l >= h) continue;
        const s = scores + <usize>r * SCORES;
        for (let t = 0; t < direct; t += 16) {
          productsOf16(row.q, at + <usize>t * kStep, kStep, size, scale, s + (<usize>t << 2));
        }
        products1(row.q, packed, size, keys - direct, scale, s + (<usize>direct << 2));
        soften(p, b, row, t0, l, h, s, acc + <usize>r * accBytes, accBytes);
        weigh1(s, values, vStep, l, h, acc + <usize>r * accBytes, n);
      }
    }
    for (let r = 0; r < count; r++) finish(p, b, rowAt(rows, r), acc + <usize>r * accBytes);
  }
}
