// Products with weights kept as float16: half the bytes to read and keep, and otherwise the products of gemm.ts and tile.ts
// with the weights rounded. How to picture one:
//
//   weights  panels of 8 columns, k-major: b00 b01 … b07 | b10 …             16 bytes a row, scaled by a power of two
//   few      one row: a panel's weights become floats in registers on their way into the sums
//   many     rows: a panel becomes floats in scratch, then tile.ts sweeps over it
//
// A float16 whose bits stand in a float32's place is 2^112 too small, for the exponents' biases differ: one product, exact,
// with `factor` makes it the weight, scale and all. Every element adds its products in the order of k: both ways the same
// bits as float32 weights of these values give.
import { at, Epilogue, finish } from './epilogue';
import { madd } from './math';
import { sweep, sweepTall } from './tile';

/** Four weights. */
// @ts-ignore: decorator
@inline
function widen(p: usize, offset: usize, factor: v128): v128 {
  // Sign extension fills the sign bit and the bits between it and the exponent, which are cleared.
  const bits = v128.and(i32x4.shl(v128.load_ext<i16>(p + offset), 13), i32x4.splat(0x8fffe000));
  return f32x4.mul(bits, factor);
}

/** A panel of k rows as floats. */
export function expandHalf(b: usize, to: usize, k: i32, factor: f32): void {
  const by = f32x4.splat(factor);
  const end = b + (<usize>k << 4);
  for (; b != end; b += 16, to += 32) {
    v128.store(to, widen(b, 0, by));
    v128.store(to, widen(b, 8, by), 16);
  }
}

// @ts-ignore: decorator
@inline
function row(panels: i32, a: usize, b: usize, panel: usize, c: usize, gap: usize, k: i32, factor: f32): void {
  const by = f32x4.splat(factor);
  let c0 = f32x4.splat(0), c1 = f32x4.splat(0), c2 = f32x4.splat(0), c3 = f32x4.splat(0);
  const end = b + (<usize>k << 4);
  let q = b + panel;
  for (; b != end; b += 16) {
    const x = v128.load32_splat(a);
    c0 = madd(x, widen(b, 0, by), c0);
    c1 = madd(x, widen(b, 8, by), c1);
    if (panels > 1) {
      c2 = madd(x, widen(q, 0, by), c2);
      c3 = madd(x, widen(q, 8, by), c3);
      q += 16;
    }
    a += 4;
  }
  v128.store(c, c0);
  v128.store(c, c1, 16);
  if (panels > 1) {
    v128.store(c + gap, c2);
    v128.store(c + gap, c3, 16);
  }
}

function row1(a: usize, b: usize, c: usize, k: i32, factor: f32): void {
  row(1, a, b, 0, c, 0, k, factor);
}
function row2(a: usize, b: usize, panel: usize, c: usize, gap: usize, k: i32, factor: f32): void {
  row(2, a, b, panel, c, gap, k, factor);
}

/** One row times `panels` panels, `panel` bytes apart; their products lie `gap` bytes apart. */
export function wideHalf(panels: i32, a: usize, b: usize, panel: usize, c: usize, gap: usize, k: i32, factor: f32): void {
  for (; panels > 1; panels -= 2) {
    row2(a, b, panel, c, gap, k, factor);
    b += panel << 1;
    c += gap << 1;
  }
  if (panels > 0) row1(a, b, c, k, factor);
}

@unmanaged
class GemmHalf extends Epilogue {
  a: usize;
  b: usize;
  c: usize;
  batches: i32;
  /** Which matrix of A, of B each product takes. */
  aIndex: usize;
  bIndex: usize;
  m: i32;
  n: i32;
  k: i32;
  /** Rows a unit computes, a multiple of the panel height; rows of a panel of A, 4 or 6. */
  chunk: i32;
  height: i32;
  factor: f32;
}

/** Rows whose unfinished products are in scratch; a multiple of every panel height. */
const BLOCK: i32 = 60;
/** One row's panels at a time. */
const WIDE: i32 = 4;

/** Units: batches × chunks of rows × panels of weights. */
export function gemmHalf(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<GemmHalf>(params);
  const k = p.k;
  const panels = (p.n + 7) >> 3;
  const chunks = (p.m + p.chunk - 1) / p.chunk;
  const ldc = <usize>p.n << 2;
  const panelBytes = <usize>k << 4;
  // Scratch: a block of products, then a panel as floats.
  const floats = scratch + (<usize>BLOCK << 5);
  for (let u = begin; u < end; ) {
    const batchChunk = u / panels;
    const panel = u - batchChunk * panels;
    const batch = batchChunk / chunks;
    const first = (batchChunk - batch * chunks) * p.chunk;
    const rows = min(p.chunk, p.m - first);
    const column = panel << 3;
    const aRow = load<i32>(p.aIndex + (<usize>batch << 2)) * p.m + first;
    const b = p.b + <usize>(load<i32>(p.bIndex + (<usize>batch << 2)) * panels + panel) * panelBytes;
    const a = p.a + ((<usize>aRow * <usize>k) << 2);
    const outRow = batch * p.m + first;
    const c = p.c + ((<usize>outRow * <usize>p.n + <usize>column) << 2);
    if (p.m == 1) {
      const taken = min(WIDE, min(end - u, panels - panel));
      const columns = min(taken << 3, p.n - column);
      wideHalf(taken, a, b, panelBytes, scratch, 32, k, p.factor);
      const bias = at(p.bias, outRow, p.biasRow, column, p.biasColumn);
      const residual = at(p.residual, outRow, p.residualRow, column, p.residualColumn);
      finish(p, scratch, <usize>taken << 5, c, ldc, 1, columns, bias, residual);
      u += taken;
      continue;
    }
    expandHalf(b, floats, k, p.factor);
    const columns = min(8, p.n - column);
    for (let r = 0; r < rows; r += BLOCK) {
      const some = min(BLOCK, rows - r);
      const from = a + ((<usize>r * <usize>k) << 2);
      if (p.height == 6) sweepTall(from, floats, scratch, 32, k, some);
      else sweep(from, floats, scratch, 32, k, some);
      const bias = at(p.bias, outRow + r, p.biasRow, column, p.biasColumn);
      const residual = at(p.residual, outRow + r, p.residualRow, column, p.residualColumn);
      finish(p, scratch, 32, c + <usize>r * ldc, ldc, some, columns, bias, residual);
    }
    u++;
  }
}
