// Matrix products: packing of A and B into the panels of tile.ts, and the product itself over a batch of matrices.
//
//   unit of gemm = (batch, chunk of rows, B panel), the panel running fastest: a chunk of A stays in the L2 cache while
//   the panels of B pass. Up to three rows, the units are B panels and B is read once, as fast as memory gives it.
import { at, Epilogue, finish, hasEpilogue } from './epilogue';
import { loadLanes, storeLanes } from './simd';
import { sweep, sweepPair, sweepTall, wide1x4 } from './tile';

@unmanaged
class PackA {
  a: usize;
  packed: usize;
  /** Matrices of m×k each, `stride` floats apart; packed ones follow each other. */
  matrices: i32;
  stride: i32;
  m: i32;
  k: i32;
  /** Strides of an element in floats; one of the two is 1. */
  row: i32;
  column: i32;
  /** Rows of a panel. */
  height: i32;
}

/** Units: row panels of all matrices. */
export function packA(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<PackA>(params);
  const height = p.height;
  const panels = (p.m + height - 1) / height;
  const row = <usize>p.row << 2;
  const column = <usize>p.column << 2;
  for (let u = begin; u < end; u++) {
    const matrix = u / panels;
    const first = (u - matrix * panels) * height;
    const rows = min(height, p.m - first);
    const src = p.a + ((<usize>matrix * <usize>p.stride) << 2) + <usize>first * row;
    const dst = p.packed + (((<usize>matrix * <usize>p.m + <usize>first) * <usize>p.k) << 2);
    if (column == 4) packRows(dst, src, row, rows, p.k);
    else packColumns(dst, src, column, rows, p.k);
  }
}

/** A panel of rows that lie along memory: blocks of four rows and four columns are turned in registers. */
function packRows(dst: usize, src: usize, row: usize, rows: i32, k: i32): void {
  const step = <usize>rows << 2;
  let r = 0;
  for (; r + 4 <= rows; r += 4) {
    let s = src + <usize>r * row;
    let d = dst + (<usize>r << 2);
    let i = 0;
    for (; i + 4 <= k; i += 4) {
      const x0 = v128.load(s);
      const x1 = v128.load(s + row);
      const x2 = v128.load(s + 2 * row);
      const x3 = v128.load(s + 3 * row);
      const lo01 = v128.shuffle<f32>(x0, x1, 0, 4, 1, 5);
      const hi01 = v128.shuffle<f32>(x0, x1, 2, 6, 3, 7);
      const lo23 = v128.shuffle<f32>(x2, x3, 0, 4, 1, 5);
      const hi23 = v128.shuffle<f32>(x2, x3, 2, 6, 3, 7);
      v128.store(d, v128.shuffle<f64>(lo01, lo23, 0, 2));
      v128.store(d + step, v128.shuffle<f64>(lo01, lo23, 1, 3));
      v128.store(d + 2 * step, v128.shuffle<f64>(hi01, hi23, 0, 2));
      v128.store(d + 3 * step, v128.shuffle<f64>(hi01, hi23, 1, 3));
      s += 16;
      d += 4 * step;
    }
    for (; i < k; i++) {
      for (let j: usize = 0; j < 4; j++) f32.store(d + (j << 2), f32.load(s + j * row));
      s += 4;
      d += step;
    }
  }
  for (; r < rows; r++) {
    let s = src + <usize>r * row;
    let d = dst + (<usize>r << 2);
    for (let i = 0; i < k; i++) {
      f32.store(d, f32.load(s));
      s += 4;
      d += step;
    }
  }
}

/** A panel of a transposed matrix: the rows of one k lie side by side already. */
function packColumns(dst: usize, src: usize, column: usize, rows: i32, k: i32): void {
  const step = <usize>rows << 2;
  for (let i = 0; i < k; i++) {
    let r = 0;
    for (; r < rows; r += 4) storeLanes(dst + (<usize>r << 2), loadLanes(src + (<usize>r << 2), rows - r), rows - r);
    src += column;
    dst += step;
  }
}

@unmanaged
class PackB {
  b: usize;
  packed: usize;
  matrices: i32;
  stride: i32;
  k: i32;
  n: i32;
  /** Strides of an element in floats. */
  row: i32;
  column: i32;
}

/** Units: column panels of all matrices. */
export function packB(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<PackB>(params);
  const panels = (p.n + 7) >> 3;
  const row = <usize>p.row << 2;
  const column = <usize>p.column << 2;
  for (let u = begin; u < end; u++) {
    const matrix = u / panels;
    const first = (u - matrix * panels) << 3;
    const columns = min(8, p.n - first);
    let src = p.b + ((<usize>matrix * <usize>p.stride) << 2) + <usize>first * column;
    let dst = p.packed + ((<usize>u * <usize>p.k) << 5);
    if (column == 4) {
      for (let i = p.k; i > 0; --i) {
        v128.store(dst, loadLanes(src, columns));
        v128.store(dst, columns > 4 ? loadLanes(src + 16, columns - 4) : f32x4.splat(0), 16);
        src += row;
        dst += 32;
      }
    } else if (columns == 8) {
      packRows(dst, src, column, 8, p.k);
    } else {
      for (let i = p.k; i > 0; --i) {
        for (let j: usize = 0; j < 8; j++) f32.store(dst + (j << 2), <i32>j < columns ? f32.load(src + j * column) : 0);
        src += row;
        dst += 32;
      }
    }
  }
}

@unmanaged
class Gemm extends Epilogue {
  /** Packed matrices; a one-row matrix is its own packed form. */
  a: usize;
  b: usize;
  /** Products follow each other, m×n each. */
  c: usize;
  batches: i32;
  /** Which matrix of A, of B each product takes; absent: the first. */
  aIndex: usize;
  bIndex: usize;
  m: i32;
  n: i32;
  k: i32;
  /** Rows a unit computes, a multiple of the panel height. */
  chunk: i32;
  /** Rows of a panel of A, 4 or 6, and panels of B taken at a time, 1 or 2. */
  height: i32;
  width: i32;
}

// @ts-ignore: decorator
@inline
function indexed(table: usize, i: i32): usize {
  return table == 0 ? 0 : <usize>load<i32>(table + (<usize>i << 2));
}

// @ts-ignore: decorator
@inline
function multiply(p: Gemm, taken: i32, a: usize, b: usize, c: usize, ldc: usize, rows: i32): void {
  const k = p.k;
  const panel = <usize>k << 5;
  if (taken == 4) wide1x4(a, b, panel, c, 32, k);
  else if (taken == 2) sweepPair(a, b, panel, c, 32, ldc, k, rows, p.height);
  else if (p.height == 6) sweepTall(a, b, c, ldc, k, rows);
  else sweep(a, b, c, ldc, k, rows);
}

/** Rows whose unfinished products fit the L1 cache beside a panel of B; a multiple of every panel height. */
const BLOCK: i32 = 60;

/** Units: batches × chunks × B panels. */
export function gemm(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<Gemm>(params);
  const panels = (p.n + 7) >> 3;
  const chunks = (p.m + p.chunk - 1) / p.chunk;
  const ldc = <usize>p.n << 2;
  const k = <usize>p.k;
  const finishing = hasEpilogue(p);
  // How many panels a wide tile takes at once.
  const wide = p.m == 1 ? 4 : p.m == 2 ? 2 : p.width;
  for (let u = begin; u < end; ) {
    const batchChunk = u / panels;
    const panel = u - batchChunk * panels;
    const batch = batchChunk / chunks;
    const first = (batchChunk - batch * chunks) * p.chunk;
    const rows = min(p.chunk, p.m - first);
    const column = panel << 3;
    const a = p.a + (((indexed(p.aIndex, batch) * <usize>p.m + <usize>first) * k) << 2);
    const b = p.b + (((indexed(p.bIndex, batch) * <usize>panels + <usize>panel) * k) << 5);
    const row = batch * p.m + first;
    const c = p.c + ((<usize>row * <usize>p.n + <usize>column) << 2);
    let taken = 1;
    if (wide > 1 && u + wide <= end && panel + wide <= panels) taken = wide;
    const columns = min(taken << 3, p.n - column);
    if (finishing || columns < taken << 3) {
      // What is not the result yet, or reaches beyond the last column, goes through scratch in blocks.
      const ldt = <usize>taken << 5;
      for (let r = 0; r < rows; r += BLOCK) {
        const some = min(BLOCK, rows - r);
        multiply(p, taken, a + ((<usize>r * k) << 2), b, scratch, ldt, some);
        const bias = at(p.bias, row + r, p.biasRow, column, p.biasColumn);
        const residual = at(p.residual, row + r, p.residualRow, column, p.residualColumn);
        finish(p, scratch, ldt, c + <usize>r * ldc, ldc, some, columns, bias, residual);
      }
    } else {
      multiply(p, taken, a, b, c, ldc, rows);
    }
    u += taken;
  }
}
