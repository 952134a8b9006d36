// The matrix-product micro-kernels: C = A · B over packed panels. How to picture the panels, for tiles R rows high:
//
//   A  panels of R rows, k-major:    a00 a10 … aR0 | a01 a11 … aR1 | …      the last panel has fewer rows, none of padding
//   B  panels of 8 columns, k-major: b00 b01 … b07 | b10 b11 … b17 | …     the last panel is padded with zeros
//
// A sweep holds one B panel (it stays in the L1 cache) and runs down the A panels, one tile of registers each. Which tile
// is fastest depends on the build and on V8, so there are several; B's panels are the same for all, A's are 4 or 6 high
// (a low last panel has tiles of its own height):
//
//   4×8   the largest that spills in neither build on any version: V8 leaves 15 vector registers (8 sums, 2 of B, one of
//         A, one product)
//   6×8   12 sums: with fused products it needs no register for the product and wins a tenth, without it spills
//   4×16, 6×16   two B panels; where V8 fuses neighbouring instructions into 256-bit ones (8, 12 sums of 8 floats)
//   1×24, 1×32, 2×16   few rows: enough independent sums to keep up with reading B
//
// Every element of C is one accumulator that adds its products in the order of k, from zero: all tiles give the same
// bits. What follows the product (bias, activation) is epilogue.ts.
import { madd } from './math';

/** Rows of a full A panel where the kernel does not say otherwise. */
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
    let c40 = f32x4.splat(0), c41 = f32x4.splat(0);
    let c50 = f32x4.splat(0), c51 = f32x4.splat(0);
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
      if (rows > 4) {
        const a4 = v128.load32_splat(a, 16);
        c40 = madd(a4, b0, c40);
        c41 = madd(a4, b1, c41);
      }
      if (rows > 5) {
        const a5 = v128.load32_splat(a, 20);
        c50 = madd(a5, b0, c50);
        c51 = madd(a5, b1, c51);
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
    if (rows > 4) {
      v128.store(c, c40);
      v128.store(c, c41, 16);
      c += ldc;
    }
    if (rows > 5) {
      v128.store(c, c50);
      v128.store(c, c51, 16);
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
function sweep5(a: usize, b: usize, c: usize, ldc: usize, k: i32): void {
  sweepTiles(5, a, b, c, ldc, k, 1);
}
function sweep4(a: usize, b: usize, c: usize, ldc: usize, k: i32, panels: i32): void {
  sweepTiles(4, a, b, c, ldc, k, panels);
}
function sweep6(a: usize, b: usize, c: usize, ldc: usize, k: i32, panels: i32): void {
  sweepTiles(6, a, b, c, ldc, k, panels);
}

/** The last, lower panel. */
function sweepRest(a: usize, b: usize, c: usize, ldc: usize, k: i32, rows: i32): void {
  switch (rows) {
    case 1: sweep1(a, b, c, ldc, k); break;
    case 2: sweep2(a, b, c, ldc, k); break;
    case 3: sweep3(a, b, c, ldc, k); break;
    case 4: sweep4(a, b, c, ldc, k, 1); break;
    case 5: sweep5(a, b, c, ldc, k); break;
  }
}

/**
 * `rows` rows of A (packed from `a`, a panel's start, panels `ROWS` high) times one B panel, stored at `c`, 8 floats a row,
 * rows `ldc` bytes apart.
 */
export function sweep(a: usize, b: usize, c: usize, ldc: usize, k: i32, rows: i32): void {
  const full = rows / ROWS;
  if (full > 0) sweep4(a, b, c, ldc, k, full);
  const done = full * ROWS;
  sweepRest(a + <usize>done * <usize>k * 4, b, c + <usize>done * ldc, ldc, k, rows - done);
}

/** The same with A's panels 6 high. */
export function sweepTall(a: usize, b: usize, c: usize, ldc: usize, k: i32, rows: i32): void {
  const full = rows / 6;
  if (full > 0) sweep6(a, b, c, ldc, k, full);
  const done = full * 6;
  sweepRest(a + <usize>done * <usize>k * 4, b, c + <usize>done * ldc, ldc, k, rows - done);
}

// Two B panels, `panel` bytes apart; the second one's products go `gap` bytes behind the first's.
// @ts-ignore: decorator
@inline
function pairTiles(
  rows: i32,
  a: usize,
  b: usize,
  panel: usize,
  c: usize,
  gap: usize,
  ldc: usize,
  k: i32,
  panels: i32,
): void {
  const end = b + ((<usize>k) << 5);
  for (; panels > 0; --panels) {
    let c00 = f32x4.splat(0), c01 = f32x4.splat(0), c02 = f32x4.splat(0), c03 = f32x4.splat(0);
    let c10 = f32x4.splat(0), c11 = f32x4.splat(0), c12 = f32x4.splat(0), c13 = f32x4.splat(0);
    let c20 = f32x4.splat(0), c21 = f32x4.splat(0), c22 = f32x4.splat(0), c23 = f32x4.splat(0);
    let c30 = f32x4.splat(0), c31 = f32x4.splat(0), c32 = f32x4.splat(0), c33 = f32x4.splat(0);
    let c40 = f32x4.splat(0), c41 = f32x4.splat(0), c42 = f32x4.splat(0), c43 = f32x4.splat(0);
    let c50 = f32x4.splat(0), c51 = f32x4.splat(0), c52 = f32x4.splat(0), c53 = f32x4.splat(0);
    for (let p = b, q = b + panel; p != end; p += 32, q += 32) {
      const b0 = v128.load(p);
      const b1 = v128.load(p, 16);
      const b2 = v128.load(q);
      const b3 = v128.load(q, 16);
      const a0 = v128.load32_splat(a);
      c00 = madd(a0, b0, c00);
      c01 = madd(a0, b1, c01);
      c02 = madd(a0, b2, c02);
      c03 = madd(a0, b3, c03);
      if (rows > 1) {
        const a1 = v128.load32_splat(a, 4);
        c10 = madd(a1, b0, c10);
        c11 = madd(a1, b1, c11);
        c12 = madd(a1, b2, c12);
        c13 = madd(a1, b3, c13);
      }
      if (rows > 2) {
        const a2 = v128.load32_splat(a, 8);
        c20 = madd(a2, b0, c20);
        c21 = madd(a2, b1, c21);
        c22 = madd(a2, b2, c22);
        c23 = madd(a2, b3, c23);
      }
      if (rows > 3) {
        const a3 = v128.load32_splat(a, 12);
        c30 = madd(a3, b0, c30);
        c31 = madd(a3, b1, c31);
        c32 = madd(a3, b2, c32);
        c33 = madd(a3, b3, c33);
      }
      if (rows > 4) {
        const a4 = v128.load32_splat(a, 16);
        c40 = madd(a4, b0, c40);
        c41 = madd(a4, b1, c41);
        c42 = madd(a4, b2, c42);
        c43 = madd(a4, b3, c43);
      }
      if (rows > 5) {
        const a5 = v128.load32_splat(a, 20);
        c50 = madd(a5, b0, c50);
        c51 = madd(a5, b1, c51);
        c52 = madd(a5, b2, c52);
        c53 = madd(a5, b3, c53);
      }
      a += <usize>(rows * 4);
    }
    let d = c + gap;
    v128.store(c, c00);
    v128.store(c, c01, 16);
    v128.store(d, c02);
    v128.store(d, c03, 16);
    c += ldc;
    d += ldc;
    if (rows > 1) {
      v128.store(c, c10);
      v128.store(c, c11, 16);
      v128.store(d, c12);
      v128.store(d, c13, 16);
      c += ldc;
      d += ldc;
    }
    if (rows > 2) {
      v128.store(c, c20);
      v128.store(c, c21, 16);
      v128.store(d, c22);
      v128.store(d, c23, 16);
      c += ldc;
      d += ldc;
    }
    if (rows > 3) {
      v128.store(c, c30);
      v128.store(c, c31, 16);
      v128.store(d, c32);
      v128.store(d, c33, 16);
      c += ldc;
      d += ldc;
    }
    if (rows > 4) {
      v128.store(c, c40);
      v128.store(c, c41, 16);
      v128.store(d, c42);
      v128.store(d, c43, 16);
      c += ldc;
      d += ldc;
    }
    if (rows > 5) {
      v128.store(c, c50);
      v128.store(c, c51, 16);
      v128.store(d, c52);
      v128.store(d, c53, 16);
      c += ldc;
      d += ldc;
    }
  }
}

function pair1(a: usize, b: usize, panel: usize, c: usize, gap: usize, ldc: usize, k: i32): void {
  pairTiles(1, a, b, panel, c, gap, ldc, k, 1);
}
function pair2(a: usize, b: usize, panel: usize, c: usize, gap: usize, ldc: usize, k: i32): void {
  pairTiles(2, a, b, panel, c, gap, ldc, k, 1);
}
function pair3(a: usize, b: usize, panel: usize, c: usize, gap: usize, ldc: usize, k: i32): void {
  pairTiles(3, a, b, panel, c, gap, ldc, k, 1);
}
function pair5(a: usize, b: usize, panel: usize, c: usize, gap: usize, ldc: usize, k: i32): void {
  pairTiles(5, a, b, panel, c, gap, ldc, k, 1);
}
function pair4(a: usize, b: usize, panel: usize, c: usize, gap: usize, ldc: usize, k: i32, panels: i32): void {
  pairTiles(4, a, b, panel, c, gap, ldc, k, panels);
}
function pair6(a: usize, b: usize, panel: usize, c: usize, gap: usize, ldc: usize, k: i32, panels: i32): void {
  pairTiles(6, a, b, panel, c, gap, ldc, k, panels);
}

/** A's panels, `height` high, times two B panels. */
export function sweepPair(
  a: usize,
  b: usize,
  panel: usize,
  c: usize,
  gap: usize,
  ldc: usize,
  k: i32,
  rows: i32,
  height: i32,
): void {
  const full = rows / height;
  if (full > 0) {
    if (height == 6) pair6(a, b, panel, c, gap, ldc, k, full);
    else pair4(a, b, panel, c, gap, ldc, k, full);
  }
  const done = full * height;
  a += <usize>done * <usize>k * 4;
  c += <usize>done * ldc;
  switch (rows - done) {
    case 1: pair1(a, b, panel, c, gap, ldc, k); break;
    case 2: pair2(a, b, panel, c, gap, ldc, k); break;
    case 3: pair3(a, b, panel, c, gap, ldc, k); break;
    case 4: pair4(a, b, panel, c, gap, ldc, k, 1); break;
    case 5: pair5(a, b, panel, c, gap, ldc, k); break;
  }
}

// One row of A times `panels` (2 to 4) B panels, `panel` bytes apart; their products lie `gap` bytes apart.
// @ts-ignore: decorator
@inline
function wideRow(panels: i32, a: usize, b: usize, panel: usize, c: usize, gap: usize, k: i32): void {
  let c0 = f32x4.splat(0), c1 = f32x4.splat(0), c2 = f32x4.splat(0), c3 = f32x4.splat(0);
  let c4 = f32x4.splat(0), c5 = f32x4.splat(0), c6 = f32x4.splat(0), c7 = f32x4.splat(0);
  const end = b + ((<usize>k) << 5);
  let q = b + panel;
  let r = q + panel;
  let s = r + panel;
  for (; b != end; b += 32) {
    const x = v128.load32_splat(a);
    c0 = madd(x, v128.load(b), c0);
    c1 = madd(x, v128.load(b, 16), c1);
    c2 = madd(x, v128.load(q), c2);
    c3 = madd(x, v128.load(q, 16), c3);
    q += 32;
    if (panels > 2) {
      c4 = madd(x, v128.load(r), c4);
      c5 = madd(x, v128.load(r, 16), c5);
      r += 32;
    }
    if (panels > 3) {
      c6 = madd(x, v128.load(s), c6);
      c7 = madd(x, v128.load(s, 16), c7);
      s += 32;
    }
    a += 4;
  }
  v128.store(c, c0);
  v128.store(c, c1, 16);
  c += gap;
  v128.store(c, c2);
  v128.store(c, c3, 16);
  if (panels > 2) {
    c += gap;
    v128.store(c, c4);
    v128.store(c, c5, 16);
  }
  if (panels > 3) {
    c += gap;
    v128.store(c, c6);
    v128.store(c, c7, 16);
  }
}

/** One row of A times four B panels, `panel` bytes apart; their products lie `gap` bytes apart. */
export function wide1x4(a: usize, b: usize, panel: usize, c: usize, gap: usize, k: i32): void {
  wideRow(4, a, b, panel, c, gap, k);
}

/** The same with three panels. */
export function wide1x3(a: usize, b: usize, panel: usize, c: usize, gap: usize, k: i32): void {
  wideRow(3, a, b, panel, c, gap, k);
}
