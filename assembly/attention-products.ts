// The products of attention.ts: queries with a block of at most 64 keys, and weights with the values. Keys are transposed to
// panels of eight, queries to panels of four, so that a tile is 4 × 8 sums; rows of scores and weights are 256 bytes apart.
// Every sum has one accumulator and takes its terms in order, so that all forms here give the same bits.
import { madd } from './math';
import { loadLanes } from './simd';

/** Four rows of four floats become columns, stored at y and every 32 bytes on, `n` of them. */
// @ts-ignore: decorator
@inline
function storeTransposed(a: v128, b: v128, c: v128, d: v128, y: usize, n: i32): void {
  const ab0 = v128.shuffle<f32>(a, b, 0, 4, 1, 5), ab1 = v128.shuffle<f32>(a, b, 2, 6, 3, 7);
  const cd0 = v128.shuffle<f32>(c, d, 0, 4, 1, 5), cd1 = v128.shuffle<f32>(c, d, 2, 6, 3, 7);
  v128.store(y, v128.shuffle<f64>(ab0, cd0, 0, 2));
  if (n > 1) v128.store(y, v128.shuffle<f64>(ab0, cd0, 1, 3), 32);
  if (n > 2) v128.store(y, v128.shuffle<f64>(ab1, cd1, 0, 2), 64);
  if (n > 3) v128.store(y, v128.shuffle<f64>(ab1, cd1, 1, 3), 96);
}

/** Keys [0, count) at k into panels of eight at y, [panel][element][key]; what is missing of the last is zeros. */
export function packKeys(k: usize, step: usize, count: i32, size: i32, y: usize): void {
  const panel = <usize>size << 5;
  const zero = f32x4.splat(0);
  for (let t = 0; t < count; t += 8, y += panel) {
    for (let half = 0; half < 8; half += 4) {
      const n = count - t - half;
      const to = y + (<usize>half << 2);
      if (n <= 0) {
        for (let d: usize = 0; d < panel; d += 32) v128.store(to + d, zero);
        continue;
      }
      const a = k + <usize>(t + half) * step;
      const b = n > 1 ? a + step : a, c = n > 2 ? b + step : b, e = n > 3 ? c + step : c;
      let i = 0;
      for (; i + 4 <= size; i += 4) {
        const o = <usize>i << 2;
        storeTransposed(v128.load(a + o), v128.load(b + o), v128.load(c + o), v128.load(e + o), to + (o << 3), 4);
      }
      if (i < size) {
        const o = <usize>i << 2;
        const m = size - i;
        const x = loadLanes(a + o, m), z = loadLanes(b + o, m);
        storeTransposed(x, z, loadLanes(c + o, m), loadLanes(e + o, m), to + (o << 3), m);
      }
    }
  }
}

/** Four rows of queries into a panel [element][row]. */
export function packQueries(a: usize, b: usize, c: usize, d: usize, size: i32, y: usize): void {
  const n = <usize>size << 2;
  for (let o: usize = 0; o < n; o += 4, y += 16) {
    store<f32>(y, load<f32>(a + o));
    store<f32>(y, load<f32>(b + o), 4);
    store<f32>(y, load<f32>(c + o), 8);
    store<f32>(y, load<f32>(d + o), 12);
  }
}

/** Scaled products of a panel of four queries with panels of keys. */
export function products4(q: usize, k: usize, size: i32, count: i32, scale: v128, s: usize): void {
  const end = q + (<usize>size << 4);
  for (let t = 0; t < count; t += 8, s += 32) {
    let a0 = f32x4.splat(0), a1 = f32x4.splat(0), b0 = f32x4.splat(0), b1 = f32x4.splat(0);
    let c0 = f32x4.splat(0), c1 = f32x4.splat(0), d0 = f32x4.splat(0), d1 = f32x4.splat(0);
    for (let p = q; p != end; p += 16, k += 32) {
      const x = v128.load(k), y = v128.load(k, 16);
      let w = v128.load32_splat(p);
      a0 = madd(w, x, a0);
      a1 = madd(w, y, a1);
      w = v128.load32_splat(p, 4);
      b0 = madd(w, x, b0);
      b1 = madd(w, y, b1);
      w = v128.load32_splat(p, 8);
      c0 = madd(w, x, c0);
      c1 = madd(w, y, c1);
      w = v128.load32_splat(p, 12);
      d0 = madd(w, x, d0);
      d1 = madd(w, y, d1);
    }
    v128.store(s, f32x4.mul(a0, scale));
    v128.store(s, f32x4.mul(a1, scale), 16);
    v128.store(s, f32x4.mul(b0, scale), 256);
    v128.store(s, f32x4.mul(b1, scale), 272);
    v128.store(s, f32x4.mul(c0, scale), 512);
    v128.store(s, f32x4.mul(c1, scale), 528);
    v128.store(s, f32x4.mul(d0, scale), 768);
    v128.store(s, f32x4.mul(d1, scale), 784);
  }
}

/** The same of one query, two panels at a time. */
export function products1(q: usize, k: usize, size: i32, count: i32, scale: v128, s: usize): void {
  const n = <usize>size << 2;
  const panel = <usize>size << 5;
  for (let t = 0; t < count; t += 16, s += 64, k += 2 * panel) {
    let a0 = f32x4.splat(0), a1 = f32x4.splat(0), b0 = f32x4.splat(0), b1 = f32x4.splat(0);
    // An odd last panel is computed twice.
    let x = k, y = count - t > 8 ? k + panel : k;
    for (let o: usize = 0; o < n; o += 4, x += 32, y += 32) {
      const w = v128.load32_splat(q + o);
      a0 = madd(w, v128.load(x), a0);
      a1 = madd(w, v128.load(x, 16), a1);
      b0 = madd(w, v128.load(y), b0);
      b1 = madd(w, v128.load(y, 16), b1);
    }
    v128.store(s, f32x4.mul(a0, scale));
    v128.store(s, f32x4.mul(a1, scale), 16);
    v128.store(s, f32x4.mul(b0, scale), 32);
    v128.store(s, f32x4.mul(b1, scale), 48);
  }
}

/** Adds four elements, from o on, of four keys to their products: each key's elements in order. */
// @ts-ignore: decorator
@inline
function add4(q: usize, a: usize, b: usize, c: usize, d: usize, sum: v128): v128 {
  const x = v128.load(a), y = v128.load(b), z = v128.load(c), w = v128.load(d);
  const xy0 = v128.shuffle<f32>(x, y, 0, 4, 1, 5), xy1 = v128.shuffle<f32>(x, y, 2, 6, 3, 7);
  const zw0 = v128.shuffle<f32>(z, w, 0, 4, 1, 5), zw1 = v128.shuffle<f32>(z, w, 2, 6, 3, 7);
  sum = madd(v128.load32_splat(q), v128.shuffle<f64>(xy0, zw0, 0, 2), sum);
  sum = madd(v128.load32_splat(q, 4), v128.shuffle<f64>(xy0, zw0, 1, 3), sum);
  sum = madd(v128.load32_splat(q, 8), v128.shuffle<f64>(xy1, zw1, 0, 2), sum);
  return madd(v128.load32_splat(q, 12), v128.shuffle<f64>(xy1, zw1, 1, 3), sum);
}

/** Products of one query with sixteen keys as they lie: the same bits as with packed ones, for a size of whole fours. */
export function productsOf16(q: usize, k: usize, step: usize, size: i32, scale: v128, s: usize): void {
  let s0 = f32x4.splat(0), s1 = f32x4.splat(0), s2 = f32x4.splat(0), s3 = f32x4.splat(0);
  const two = 2 * step, four = 4 * step;
  for (const end = q + (<usize>size << 2); q != end; q += 16, k += 16) {
    let a = k;
    s0 = add4(q, a, a + step, a + two, a + two + step, s0);
    a += four;
    s1 = add4(q, a, a + step, a + two, a + two + step, s1);
    a += four;
    s2 = add4(q, a, a + step, a + two, a + two + step, s2);
    a += four;
    s3 = add4(q, a, a + step, a + two, a + two + step, s3);
  }
  v128.store(s, f32x4.mul(s0, scale));
  v128.store(s, f32x4.mul(s1, scale), 16);
  v128.store(s, f32x4.mul(s2, scale), 32);
  v128.store(s, f32x4.mul(s3, scale), 48);
}

/** acc += Σ w[t] · v[t] of one row, t in order. */
export function weigh1(w: usize, v: usize, step: usize, lo: i32, hi: i32, acc: usize, n: i32): void {
  if (lo >= hi) return;
  const end = w + (<usize>hi << 2);
  w += <usize>lo << 2;
  v += <usize>lo * step;
  for (; n >= 16; n -= 16, v += 64, acc += 64) {
    let a = v128.load(acc), b = v128.load(acc, 16), c = v128.load(acc, 32), d = v128.load(acc, 48);
    for (let t = w, from = v; t != end; t += 4, from += step) {
      const x = v128.load32_splat(t);
      a = madd(x, v128.load(from), a);
      b = madd(x, v128.load(from, 16), b);
      c = madd(x, v128.load(from, 32), c);
      d = madd(x, v128.load(from, 48), d);
    }
    v128.store(acc, a);
    v128.store(acc, b, 16);
    v128.store(acc, c, 32);
    v128.store(acc, d, 48);
  }
  for (; n > 0; n -= 4, v += 16, acc += 16) {
    let a = v128.load(acc);
    for (let t = w, from = v; t != end; t += 4, from += step) a = madd(v128.load32_splat(t), loadLanes(from, n), a);
    v128.store(acc, a);
  }
}

/** The same of four rows. */
export function weigh4(w: usize, v: usize, step: usize, lo: i32, hi: i32, acc: usize, stride: usize, n: i32): void {
  const end = w + (<usize>hi << 2);
  const first = w + (<usize>lo << 2);
  v += <usize>lo * step;
  for (; n >= 8; n -= 8, v += 32, acc += 32) {
    const y1 = acc + stride, y2 = y1 + stride, y3 = y2 + stride;
    let a0 = v128.load(acc), a1 = v128.load(acc, 16), b0 = v128.load(y1), b1 = v128.load(y1, 16);
    let c0 = v128.load(y2), c1 = v128.load(y2, 16), d0 = v128.load(y3), d1 = v128.load(y3, 16);
    for (let t = first, from = v; t != end; t += 4, from += step) {
      const x = v128.load(from), y = v128.load(from, 16);
      let p = v128.load32_splat(t);
      a0 = madd(p, x, a0);
      a1 = madd(p, y, a1);
      p = v128.load32_splat(t, 256);
      b0 = madd(p, x, b0);
      b1 = madd(p, y, b1);
      p = v128.load32_splat(t, 512);
      c0 = madd(p, x, c0);
      c1 = madd(p, y, c1);
      p = v128.load32_splat(t, 768);
      d0 = madd(p, x, d0);
      d1 = madd(p, y, d1);
    }
    v128.store(acc, a0);
    v128.store(acc, a1, 16);
    v128.store(y1, b0);
    v128.store(y1, b1, 16);
    v128.store(y2, c0);
    v128.store(y2, c1, 16);
    v128.store(y3, d0);
    v128.store(y3, d1, 16);
  }
  if (n > 0) for (let r = 0; r < 4; r++, w += 256, acc += stride) weigh1(w, v - <usize>lo * step, step, lo, hi, acc, n);
}
