// The matrix-product micro-kernels: C = A · B over packed panels. How to picture the panels, for tiles of R rows:
//
//   A  panels of R rows, k-major:   a00 a10 … aR0 | a01 a11 … aR1 | …      the last panel has fewer rows, none of padding
//   B  panels of 8 columns, k-major: b00 b01 … b07 | b10 b11 … b17 | …     the last panel is padded with zeros
//
// A sweep holds one B panel (it stays in the L1 cache) and runs down the A panels, one R×8 tile of registers each. Every
// element of C is one accumulator that adds its products in the order of k, from zero: all tile heights, and the wide
// tiles for one and two rows, give the same bits. What follows the product (bias, activation) is epilogue.ts.
import { madd } from './math';

/**
 * Rows of a full A panel. V8 leaves 15 vector registers: 4×8 is the largest tile that spills in neither build on any
 * version (8 sums, 2 of B, one of A, one product); 6×8 wins some percent with fused products on Node 24 and loses a
 * quarter on Node 20.
 */
export const ROWS: i32 = 4;

// `rows` is a constant of each caller: the conditions on it vanish, one function a tile height remains.
// @ts-ignore: decorator
@inline
function sweepTiles(rows: i32, a: usize, b: usize, c: usize, ldc: usize, k: i32, panels: i32): void {
  const end = b + ((<usize>k) << 5);
  for (; panels > 0; --panels) {
    let c00 = f32x4.splat(0), c01 = f32x4.splat(0);
    let c10 = f32x4.splat(0), c11 = f32x4.splat(0);
    let c20 = f32x4.splat(0), c21 = f32x4.splat(0);
    let c30 = f32x4.splat(0), c31 = f32x4.splat(0);
    for (let p = b; p != end; p += 32) {
      const b0 = v128.load(p);
      const b1 = v128.load(p, 16);
      const a0 = v128.load32_splat(a);
      c00 = madd(a0, b0, c00);
      c01 = madd(a0, b1, c01);
      if (rows > 1) {
        const a1 = v128.load32_splat(a, 4);
        c10 = madd(a1, b0, c10);
        c11 = madd(a1, b1, c11);
      }
      if (rows > 2) {
        const a2 = v128.load32_splat(a, 8);
        c20 = madd(a2, b0, c20);
        c21 = madd(a2, b1, c21);
      }
      if (rows > 3) {
        const a3 = v128.load32_splat(a, 12);
        c30 = madd(a3, b0, c30);
        c31 = madd(a3, b1, c31);
      }
      a += <usize>(rows * 4);
    }
    v128.store(c, c00);
    v128.store(c, c01, 16);
    c += ldc;
    if (rows > 1) {
      v128.store(c, c10);
      v128.store(c, c11, 16);
      c += ldc;
    }
    if (rows > 2) {
      v128.store(c, c20);
      v128.store(c, c21, 16);
      c += ldc;
    }
    if (rows > 3) {
      v128.store(c, c30);
      v128.store(c, c31, 16);
      c += ldc;
    }
  }
}

function sweep1(a: usize, b: usize, c: usize, ldc: usize, k: i32): void {
  sweepTiles(1, a, b, c, ldc, k, 1);
}
function sweep2(a: usize, b: usize, c: usize, ldc: usize, k: i32): void {
  sweepTiles(2, a, b, c, ldc, k, 1);
}
function sweep3(a: usize, b: usize, c: usize, ldc: usize, k: i32): void {
  sweepTiles(3, a, b, c, ldc, k, 1);
}
function sweep4(a: usize, b: usize, c: usize, ldc: usize, k: i32, panels: i32): void {
  sweepTiles(4, a, b, c, ldc, k, panels);
}

/**
 * `rows` rows of A (packed from `a`, a panel's start) times one B panel, stored at `c`, 8 floats a row, rows `ldc` bytes
 * apart.
 */
export function sweep(a: usize, b: usize, c: usize, ldc: usize, k: i32, rows: i32): void {
  const full = rows / ROWS;
  if (full > 0) sweep4(a, b, c, ldc, k, full);
  const done = full * ROWS;
  a += <usize>done * <usize>k * 4;
  c += <usize>done * ldc;
  switch (rows - done) {
    case 1: sweep1(a, b, c, ldc, k); break;
    case 2: sweep2(a, b, c, ldc, k); break;
    case 3: sweep3(a, b, c, ldc, k); break;
  }
}

/** One row of A times four B panels, `panel` bytes apart: enough independent sums to keep up with reading B. */
export function wide1(a: usize, b: usize, panel: usize, c: usize, k: i32): void {
  let c0 = f32x4.splat(0), c1 = f32x4.splat(0), c2 = f32x4.splat(0), c3 = f32x4.splat(0);
  let c4 = f32x4.splat(0), c5 = f32x4.splat(0), c6 = f32x4.splat(0), c7 = f32x4.splat(0);
  const end = b + ((<usize>k) << 5);
  let q = b + panel;
  let r = q + panel;
  let s = r + panel;
  for (; b != end; b += 32, q += 32, r += 32, s += 32) {
    const x = v128.load32_splat(a);
    c0 = madd(x, v128.load(b), c0);
    c1 = madd(x, v128.load(b, 16), c1);
    c2 = madd(x, v128.load(q), c2);
    c3 = madd(x, v128.load(q, 16), c3);
    c4 = madd(x, v128.load(r), c4);
    c5 = madd(x, v128.load(r, 16), c5);
    c6 = madd(x, v128.load(s), c6);
    c7 = madd(x, v128.load(s, 16), c7);
    a += 4;
  }
  v128.store(c, c0);
  v128.store(c, c1, 16);
  v128.store(c, c2, 32);
  v128.store(c, c3, 48);
  v128.store(c, c4, 64);
  v128.store(c, c5, 80);
  v128.store(c, c6, 96);
  v128.store(c, c7, 112);
}

/** Two rows of A times two B panels, `panel` bytes apart. */
export function wide2(a: usize, b: usize, panel: usize, c: usize, ldc: usize, k: i32): void {
  let c00 = f32x4.splat(0), c01 = f32x4.splat(0), c02 = f32x4.splat(0), c03 = f32x4.splat(0);
  let c10 = f32x4.splat(0), c11 = f32x4.splat(0), c12 = f32x4.splat(0), c13 = f32x4.splat(0);
  const end = b + ((<usize>k) << 5);
  for (let q = b + panel; b != end; b += 32, q += 32) {
    const x = v128.load32_splat(a);
    const y = v128.load32_splat(a, 4);
    const b0 = v128.load(b);
    const b1 = v128.load(b, 16);
    const b2 = v128.load(q);
    const b3 = v128.load(q, 16);
    c00 = madd(x, b0, c00);
    c01 = madd(x, b1, c01);
    c02 = madd(x, b2, c02);
    c03 = madd(x, b3, c03);
    c10 = madd(y, b0, c10);
    c11 = madd(y, b1, c11);
    c12 = madd(y, b2, c12);
    c13 = madd(y, b3, c13);
    a += 8;
  }
  v128.store(c, c00);
  v128.store(c, c01, 16);
  v128.store(c, c02, 32);
  v128.store(c, c03, 48);
  c += ldc;
  v128.store(c, c10);
  v128.store(c, c11, 16);
  v128.store(c, c12, 32);
  v128.store(c, c13, 48);
}
