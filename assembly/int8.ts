// Products with weights kept as int8, a scale a column. How to picture one:
//
//   weights      w[k, j] ≈ q[k, j] · column[j], q in [-127, 127]; panels of 8 columns, pairs of k side by side:
//                q00 q10 q01 q11 … q07 q17 | q20 q30 …                      16 bytes a pair of k
//   activations  x[i, k] ≈ p[i, k] · row[i], p as many bits as a sum over k leaves in 32, at least 11; panels of 4 rows,
//                pairs of k side by side: p00 p01 p10 p11 … | p02 p03 …     4 bytes a row
//   product      y[i, j] = (sum of p · q, exact) · column[j] · row[i]
//
// Weights are read once, a quarter of the bytes of floats, and never become floats. The activations' rounding is a
// hundredth of the weights'. Sums are exact, so the order does not matter; a row's scale is its own, so a row's bits do not
// depend on its company. Rounding the weights is the compiler's work.
import { at, Epilogue, finish, hasEpilogue } from './epilogue';

/** Rows of an activation panel. */
const HEIGHT: i32 = 4;

@unmanaged
class QuantizeRows {
  /** Matrices of m×k, `stride` floats apart, rows `row` floats apart, elements `column` floats apart. */
  x: usize;
  /** Packed matrices follow each other, m · pairs words each; m scales each. */
  packed: usize;
  scales: usize;
  matrices: i32;
  stride: i32;
  m: i32;
  k: i32;
  row: i32;
  column: i32;
  /** The largest integer a row is rounded to. */
  limit: f32;
}

/** The largest magnitude of a row; NaN where one is. */
function magnitude(x: usize, k: i32, column: usize): f32 {
  let most = f32x4.splat(0);
  let i = 0;
  if (column == 4) for (; i + 4 <= k; i += 4, x += 16) most = f32x4.max(most, f32x4.abs(v128.load(x)));
  let r = max(
    max(f32x4.extract_lane(most, 0), f32x4.extract_lane(most, 1)),
    max(f32x4.extract_lane(most, 2), f32x4.extract_lane(most, 3)),
  );
  for (; i < k; i++, x += column) r = max(r, abs(f32.load(x)));
  return r;
}

/** Units: panels of 4 rows of all matrices. */
export function quantizeRows(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<QuantizeRows>(params);
  const panels = (p.m + HEIGHT - 1) / HEIGHT;
  const k = p.k;
  const pairs = (k + 1) >> 1;
  const column = <usize>p.column << 2;
  for (let u = begin; u < end; u++) {
    const matrix = u / panels;
    const first = (u - matrix * panels) * HEIGHT;
    const rows = min(HEIGHT, p.m - first);
    const step = <usize>rows << 2;
    const to = p.packed + (<usize>((matrix * p.m + first) * pairs) << 2);
    for (let r = 0; r < rows; r++) {
      let x = p.x + (<usize>(matrix * p.stride + (first + r) * p.row) << 2);
      const most = magnitude(x, k, column);
      const factor = most > 0 ? p.limit / most : 0;
      // Where the largest is so small that its factor overflows, or is not finite, nothing sensible is left to compute.
      const fine = factor < Infinity && most < Infinity;
      const scale: f32 = fine ? most / p.limit : most < Infinity ? 0 : NaN;
      f32.store(p.scales + (<usize>(matrix * p.m + first + r) << 2), scale);
      const by = f32x4.splat(fine ? factor : 0);
      let d = to + (<usize>r << 2);
      let i = 0;
      if (column == 4) {
        for (; i + 4 <= k; i += 4, x += 16) {
          const q = i32x4.trunc_sat_f32x4_s(f32x4.nearest(f32x4.mul(v128.load(x), by)));
          const n = i16x8.narrow_i32x4_s(q, q);
          v128.store_lane<i32>(d, n, 0);
          v128.store_lane<i32>(d + step, n, 1);
          d += 2 * step;
        }
      }
      for (; i < k; i += 2) {
        let v = f32x4.splat(f32.load(x));
        v = f32x4.replace_lane(v, 1, i + 1 < k ? f32.load(x + column) : 0);
        const q = i32x4.trunc_sat_f32x4_s(f32x4.nearest(f32x4.mul(v, by)));
        v128.store_lane<i32>(d, i16x8.narrow_i32x4_s(q, q), 0);
        x += 2 * column;
        d += step;
      }
    }
  }
}

// @ts-ignore: decorator
@inline
function add(sum: v128, p: v128, q: v128): v128 {
  return i32x4.add(sum, i32x4.dot_i16x8_s(p, q));
}

// @ts-ignore: decorator
@inline
function dequantize(sum: v128, column: v128, row: v128): v128 {
  return f32x4.mul(f32x4.mul(f32x4.convert_i32x4_s(sum), column), row);
}

// `rows` is a constant of each caller.
// @ts-ignore: decorator
@inline
function tile8(rows: i32, a: usize, b: usize, pairs: i32, row: usize, column: usize, c: usize, ldc: usize, panels: i32): void {
  const end = b + (<usize>pairs << 4);
  const d0 = v128.load(column);
  const d1 = v128.load(column, 16);
  for (; panels > 0; --panels) {
    let c00 = i32x4.splat(0), c01 = i32x4.splat(0);
    let c10 = i32x4.splat(0), c11 = i32x4.splat(0);
    let c20 = i32x4.splat(0), c21 = i32x4.splat(0);
    let c30 = i32x4.splat(0), c31 = i32x4.splat(0);
    for (let p = b; p != end; p += 16) {
      const b0 = v128.load_ext<i8>(p);
      const b1 = v128.load_ext<i8>(p, 8);
      const a0 = v128.load32_splat(a);
      c00 = add(c00, a0, b0);
      c01 = add(c01, a0, b1);
      if (rows > 1) {
        const a1 = v128.load32_splat(a, 4);
        c10 = add(c10, a1, b0);
        c11 = add(c11, a1, b1);
      }
      if (rows > 2) {
        const a2 = v128.load32_splat(a, 8);
        c20 = add(c20, a2, b0);
        c21 = add(c21, a2, b1);
      }
      if (rows > 3) {
        const a3 = v128.load32_splat(a, 12);
        c30 = add(c30, a3, b0);
        c31 = add(c31, a3, b1);
      }
      a += <usize>(rows * 4);
    }
    const s0 = v128.load32_splat(row);
    v128.store(c, dequantize(c00, d0, s0));
    v128.store(c, dequantize(c01, d1, s0), 16);
    c += ldc;
    if (rows > 1) {
      const s1 = v128.load32_splat(row, 4);
      v128.store(c, dequantize(c10, d0, s1));
      v128.store(c, dequantize(c11, d1, s1), 16);
      c += ldc;
    }
    if (rows > 2) {
      const s2 = v128.load32_splat(row, 8);
      v128.store(c, dequantize(c20, d0, s2));
      v128.store(c, dequantize(c21, d1, s2), 16);
      c += ldc;
    }
    if (rows > 3) {
      const s3 = v128.load32_splat(row, 12);
      v128.store(c, dequantize(c30, d0, s3));
      v128.store(c, dequantize(c31, d1, s3), 16);
      c += ldc;
    }
    row += <usize>(rows * 4);
  }
}

function tile8x1(a: usize, b: usize, pairs: i32, row: usize, column: usize, c: usize, ldc: usize): void {
  tile8(1, a, b, pairs, row, column, c, ldc, 1);
}
function tile8x2(a: usize, b: usize, pairs: i32, row: usize, column: usize, c: usize, ldc: usize): void {
  tile8(2, a, b, pairs, row, column, c, ldc, 1);
}
function tile8x3(a: usize, b: usize, pairs: i32, row: usize, column: usize, c: usize, ldc: usize): void {
  tile8(3, a, b, pairs, row, column, c, ldc, 1);
}
function tile8x4(a: usize, b: usize, pairs: i32, row: usize, column: usize, c: usize, ldc: usize, panels: i32): void {
  tile8(4, a, b, pairs, row, column, c, ldc, panels);
}

/**
 * `rows` rows of activations from a panel's start (their scales at `row`) times one panel of weights (its scales at
 * `column`), as floats at `c`, 8 a row, rows `ldc` bytes apart.
 */
export function sweepInt8(a: usize, b: usize, pairs: i32, row: usize, column: usize, c: usize, ldc: usize, rows: i32): void {
  const full = rows >> 2;
  if (full > 0) tile8x4(a, b, pairs, row, column, c, ldc, full);
  const done = full << 2;
  a += <usize>done * <usize>pairs * 4;
  row += <usize>done << 2;
  c += <usize>done * ldc;
  switch (rows - done) {
    case 1: tile8x1(a, b, pairs, row, column, c, ldc); break;
    case 2: tile8x2(a, b, pairs, row, column, c, ldc); break;
    case 3: tile8x3(a, b, pairs, row, column, c, ldc); break;
  }
}

/**
 * One row times two panels of weights `panel` bytes apart, their scales `apart` bytes apart; products lie `gap` bytes
 * apart. Two pairs at a time: V8 loads all weights of a round before it multiplies, and these just fit its registers.
 */
function row8x2(
  a: usize, b: usize, panel: usize, pairs: i32, row: usize, column: usize, apart: usize, c: usize, gap: usize,
): void {
  let c0 = i32x4.splat(0), c1 = i32x4.splat(0), c2 = i32x4.splat(0), c3 = i32x4.splat(0);
  const end = b + (<usize>(pairs & ~1) << 4);
  let q = b + panel;
  for (; b != end; b += 32) {
    const x = v128.load32_splat(a);
    const y = v128.load32_splat(a, 4);
    c0 = add(c0, x, v128.load_ext<i8>(b));
    c1 = add(c1, x, v128.load_ext<i8>(b, 8));
    c0 = add(c0, y, v128.load_ext<i8>(b, 16));
    c1 = add(c1, y, v128.load_ext<i8>(b, 24));
    c2 = add(c2, x, v128.load_ext<i8>(q));
    c3 = add(c3, x, v128.load_ext<i8>(q, 8));
    c2 = add(c2, y, v128.load_ext<i8>(q, 16));
    c3 = add(c3, y, v128.load_ext<i8>(q, 24));
    q += 32;
    a += 8;
  }
  if (pairs & 1) {
    const x = v128.load32_splat(a);
    c0 = add(c0, x, v128.load_ext<i8>(b));
    c1 = add(c1, x, v128.load_ext<i8>(b, 8));
    c2 = add(c2, x, v128.load_ext<i8>(q));
    c3 = add(c3, x, v128.load_ext<i8>(q, 8));
  }
  // All loads before the stores, or V8 makes no 256-bit instructions of them.
  const scale = v128.load32_splat(row);
  const d0 = v128.load(column), d1 = v128.load(column, 16);
  const d2 = v128.load(column + apart), d3 = v128.load(column + apart, 16);
  v128.store(c, dequantize(c0, d0, scale));
  v128.store(c, dequantize(c1, d1, scale), 16);
  v128.store(c + gap, dequantize(c2, d2, scale));
  v128.store(c + gap, dequantize(c3, d3, scale), 16);
}

/** The same with any number of panels, taken two at a time. */
export function wideInt8(
  panels: i32, a: usize, b: usize, panel: usize, pairs: i32, row: usize, column: usize, apart: usize, c: usize, gap: usize,
): void {
  for (; panels > 1; panels -= 2) {
    row8x2(a, b, panel, pairs, row, column, apart, c, gap);
    b += panel << 1;
    column += apart << 1;
    c += gap << 1;
  }
  if (panels > 0) sweepInt8(a, b, pairs, row, column, c, 0, 1);
}

@unmanaged
class GemmInt8 extends Epilogue {
  a: usize;
  /** A scale a row of all matrices. */
  rows: usize;
  b: usize;
  /** A scale a column, panels of 8. */
  columns: usize;
  c: usize;
  batches: i32;
  aIndex: usize;
  bIndex: usize;
  m: i32;
  n: i32;
  k: i32;
  /** Rows a unit computes, a multiple of the panel height. */
  chunk: i32;
}

const BLOCK: i32 = 64;

/** Units: batches × chunks of rows × panels of weights. */
export function gemmInt8(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<GemmInt8>(params);
  const panels = (p.n + 7) >> 3;
  const chunks = (p.m + p.chunk - 1) / p.chunk;
  const ldc = <usize>p.n << 2;
  const pairs = (p.k + 1) >> 1;
  const finishing = hasEpilogue(p);
  for (let u = begin; u < end; ) {
    const batchChunk = u / panels;
    const panel = u - batchChunk * panels;
    const batch = batchChunk / chunks;
    const first = (batchChunk - batch * chunks) * p.chunk;
    const rows = min(p.chunk, p.m - first);
    const column = panel << 3;
    const aRow = load<i32>(p.aIndex + (<usize>batch << 2)) * p.m + first;
    const bPanel = load<i32>(p.bIndex + (<usize>batch << 2)) * panels + panel;
    const b = p.b + ((<usize>bPanel * <usize>pairs) << 4);
    const scales = p.columns + (<usize>bPanel << 5);
    const row = batch * p.m + first;
    const taken = p.m == 1 && u + 4 <= end && panel + 4 <= panels ? 4 : 1;
    const columns = min(taken << 3, p.n - column);
    if (taken == 4) {
      const a = p.a + ((<usize>aRow * <usize>pairs) << 2);
      const c = p.c + ((<usize>row * <usize>p.n + <usize>column) << 2);
      wideInt8(4, a, b, <usize>pairs << 4, pairs, p.rows + (<usize>aRow << 2), scales, 32, scratch, 32);
      const bias = at(p.bias, row, p.biasRow, column, p.biasColumn);
      const residual = at(p.residual, row, p.residualRow, column, p.residualColumn);
      finish(p, scratch, 128, c, ldc, 1, columns, bias, residual);
      u += 4;
      continue;
    }
    u++;
    for (let r = 0; r < rows; r += BLOCK) {
      const some = min(BLOCK, rows - r);
      const a = p.a + ((<usize>(aRow + r) * <usize>pairs) << 2);
      const c = p.c + ((<usize>(row + r) * <usize>p.n + <usize>column) << 2);
      const rowScales = p.rows + (<usize>(aRow + r) << 2);
      if (!finishing && columns == 8) {
        sweepInt8(a, b, pairs, rowScales, scales, c, ldc, some);
        continue;
      }
      sweepInt8(a, b, pairs, rowScales, scales, scratch, 32, some);
      const bias = at(p.bias, row + r, p.biasRow, column, p.biasColumn);
      const residual = at(p.residual, row + r, p.residualRow, column, p.residualColumn);
      finish(p, scratch, 32, c, ldc, some, columns, bias, residual);
    }
  }
}
