// What is done to rows of heads before attention: rotation (rotary position embeddings turn pairs of elements by the angle
// of the row's position; the tables of cosines and sines are given) and laying them into a cache. Rows are reached by
// strides, as attention's are.
import { loadLanes, storeLanes } from './simd';

/** Where a row of a head is: strides in floats. */
// @ts-ignore: decorator
@inline
export function place(p: usize, b: i32, h: i32, r: i32, batch: i32, head: i32, row: i32): usize {
  return p + ((<usize>b * batch + <usize>h * head + <usize>r * row) << 2);
}

@unmanaged
class Rotary {
  x: usize;
  /** Rows of `half` floats by position. */
  cos: usize;
  sin: usize;
  /** Positions; 0: batch · rows + row. */
  positions: usize;
  y: usize;
  heads: i32;
  rows: i32;
  size: i32;
  /** Half of the elements that are rotated; the rest is copied. */
  half: i32;
  interleaved: i32;
  xBatch: i32;
  xHead: i32;
  xRow: i32;
  yBatch: i32;
  yHead: i32;
  yRow: i32;
  /** 1: int64, 0: int32. */
  wide: i32;
  /** 1: a position a batch, to which the row is added; 0: one a row. */
  offset: i32;
  /** Positions the tables have. */
  most: i32;
  /** Added to a position. */
  plus: i32;
}

/** Units: batch × heads × rows. */
export function rotary(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<Rotary>(params);
  const half = p.half;
  const halfBytes = <usize>half << 2;
  for (let u = begin; u < end; u++) {
    const bh = u / p.rows;
    const row = u - bh * p.rows;
    const b = bh / p.heads;
    const h = bh - b * p.heads;
    let position: i64 = b * p.rows + row;
    if (p.positions) {
      const i = <usize>(p.offset ? b : b * p.rows + row);
      position = p.wide ? load<i64>(p.positions + (i << 3)) : <i64>load<i32>(p.positions + (i << 2));
      position += p.plus;
      if (p.offset) position += row;
    }
    // A kernel cannot raise an error: what is outside is clamped, so that no address leaves the tables.
    const at = <usize>max<i64>(0, min<i64>(position, p.most - 1)) * halfBytes;
    const cos = p.cos + at;
    const sin = p.sin + at;
    const x = place(p.x, b, h, row, p.xBatch, p.xHead, p.xRow);
    const y = place(p.y, b, h, row, p.yBatch, p.yHead, p.yRow);
    if (p.interleaved) {
      for (let i: usize = 0; i < halfBytes; i += 4) {
        const c = load<f32>(cos + i), s = load<f32>(sin + i);
        const a = load<f32>(x + 2 * i), d = load<f32>(x + 2 * i, 4);
        store<f32>(y + 2 * i, a * c - d * s);
        store<f32>(y + 2 * i, a * s + d * c, 4);
      }
    } else {
      for (let i = 0; i < half; i += 4) {
        const n = half - i;
        const o = <usize>i << 2;
        const c = loadLanes(cos + o, n), s = loadLanes(sin + o, n);
        const a = loadLanes(x + o, n), d = loadLanes(x + halfBytes + o, n);
        storeLanes(y + o, f32x4.sub(f32x4.mul(a, c), f32x4.mul(d, s)), n);
        storeLanes(y + halfBytes + o, f32x4.add(f32x4.mul(a, s), f32x4.mul(d, c)), n);
      }
    }
    const done = 2 * halfBytes;
    memory.copy(y + done, x + done, (<usize>p.size << 2) - done);
  }
}

@unmanaged
class AppendRows {
  /** [batch, heads, before, size]; 0: none. */
  past: usize;
  x: usize;
  /** [batch, heads, keys, size]. */
  y: usize;
  /** int32, by batch. */
  lengths: usize;
  heads: i32;
  before: i32;
  keys: i32;
  rows: i32;
  size: i32;
  xBatch: i32;
  xHead: i32;
  xRow: i32;
  /** Added to a length: the rows of the past; less than 0 is none. */
  plus: i32;
}

/** A cache with new rows: y = past, rows of x, zeros. Units: batch × heads. */
export function appendRows(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<AppendRows>(params);
  const bytes = <usize>p.size << 2;
  for (let u = begin; u < end; u++) {
    const b = u / p.heads;
    // A kernel cannot raise an error: what is outside is clamped, so that no address leaves the cache.
    const past = max(0, min(load<i32>(p.lengths + (<usize>b << 2)) + p.plus, p.keys - p.rows));
    const held = p.past ? min(past, p.before) : 0;
    let y = p.y + <usize>u * p.keys * bytes;
    memory.copy(y, p.past + <usize>u * p.before * bytes, <usize>held * bytes);
    y += <usize>held * bytes;
    memory.fill(y, 0, <usize>(past - held) * bytes);
    y += <usize>(past - held) * bytes;
    for (let r = 0; r < p.rows; r++, y += bytes) {
      memory.copy(y, place(p.x, b, u - b * p.heads, r, p.xBatch, p.xHead, p.xRow), bytes);
    }
    memory.fill(y, 0, <usize>(p.keys - past - p.rows) * bytes);
  }
}
