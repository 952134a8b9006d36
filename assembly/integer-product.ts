// Products of 8-bit integers, exact in 32 bits. How to picture them: packing subtracts the zero points, so that what is
// multiplied are 16-bit differences, two neighbours along k side by side for i32x4.dot_i16x8_s:
//
//   A  panels of 4 rows:    a00 a01 | a10 a11 | a20 a21 | a30 a31 || a02 a03 | …    the last panel has fewer rows
//   B  panels of 8 columns: b00 b10 | b01 b11 | … | b07 b17 || b20 b30 | …          the last panel is padded with zeros
//
// A k of odd length ends with a zero. Integer sums do not depend on their order. What a sum becomes (int32, requantized
// to 8 bits, or a float) is `finishIntegers`, with the arithmetic of onnxruntime: scales multiplied and divided first,
// one product in float32, ties to even.
import { loadInteger, saturate4, storeBytes4 } from './quantize';

@unmanaged
class PackIntegers {
  x: usize;
  /** Zero points, of the type of x; 0: none. */
  zero: usize;
  packed: usize;
  /** 1: int8, 0: uint8. */
  signed: i32;
  matrices: i32;
  /** Rows of A, columns of B. */
  lines: i32;
  k: i32;
  /** Strides of x in elements: of matrices, of lines, along k. */
  stride: i32;
  line: i32;
  step: i32;
  /** Strides of the zero points. */
  zeroMatrix: i32;
  zeroLine: i32;
  /** 4: panels as A; 8: as B. */
  panel: i32;
}

// @ts-ignore: decorator
@inline
function byteAt(signed: bool, p: usize): i32 {
  return signed ? <i32>load<i8>(p) : <i32>load<u8>(p);
}

// @ts-ignore: decorator
@inline
function packLines(signed: bool, p: PackIntegers, x: usize, zero: usize, to: usize, count: i32, width: i32): void {
  const step = <usize>p.step;
  const rowBytes = <usize>width << 2;
  for (let j = 0; j < width; j++) {
    let o = to + (<usize>j << 2);
    if (j >= count) {
      for (let i = 0; i < p.k; i += 2, o += rowBytes) store<i32>(o, 0);
      continue;
    }
    const z = zero ? byteAt(signed, zero + j * p.zeroLine) : 0;
    let from = x + <usize>(j * p.line);
    let i = 0;
    for (; i + 2 <= p.k; i += 2, o += rowBytes, from += 2 * step) {
      store<i32>(o, ((byteAt(signed, from) - z) & 0xffff) | ((byteAt(signed, from + step) - z) << 16));
    }
    if (i < p.k) store<i32>(o, (byteAt(signed, from) - z) & 0xffff);
  }
}

/** Eight lines that lie side by side. */
// @ts-ignore: decorator
@inline
function packBeside(signed: bool, p: PackIntegers, x: usize, zero: usize, to: usize): void {
  let z = i16x8.splat(0);
  for (let j: usize = 0; j < 8; j++) {
    const v = zero ? <i16>byteAt(signed, zero + j * p.zeroLine) : <i16>0;
    // Lanes are constants: shifted in from the top.
    z = v128.shuffle<i16>(z, i16x8.splat(v), 1, 2, 3, 4, 5, 6, 7, 8);
  }
  const step = <usize>p.step;
  for (let i = 0; i < p.k; i += 2, to += 32, x += 2 * step) {
    const r = v128.load64_zero(x);
    const a = i16x8.sub(signed ? i16x8.extend_low_i8x16_s(r) : i16x8.extend_low_i8x16_u(r), z);
    let b = i16x8.splat(0);
    if (i + 1 < p.k) {
      const s = v128.load64_zero(x + step);
      b = i16x8.sub(signed ? i16x8.extend_low_i8x16_s(s) : i16x8.extend_low_i8x16_u(s), z);
    }
    v128.store(to, v128.shuffle<i16>(a, b, 0, 8, 1, 9, 2, 10, 3, 11));
    v128.store(to, v128.shuffle<i16>(a, b, 4, 12, 5, 13, 6, 14, 7, 15), 16);
  }
}

/** Units: panels of all matrices. */
export function packIntegers(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<PackIntegers>(params);
  const pairs = <usize>(p.k + 1) >> 1;
  const panels = (p.lines + p.panel - 1) / p.panel;
  const padded = p.panel == 8;
  // Lines a matrix takes when packed.
  const packedLines = <usize>(padded ? panels << 3 : p.lines);
  for (let u = begin; u < end; u++) {
    const matrix = u / panels;
    const first = (u - matrix * panels) * p.panel;
    const count = min(p.panel, p.lines - first);
    const x = p.x + <usize>matrix * p.stride + <usize>first * p.line;
    const zero = p.zero ? p.zero + <usize>matrix * p.zeroMatrix + <usize>first * p.zeroLine : 0;
    const to = p.packed + (((<usize>matrix * packedLines + first) * pairs) << 2);
    const width = padded ? 8 : count;
    if (padded && count == 8 && p.line == 1) {
      if (p.signed) packBeside(true, p, x, zero, to);
      else packBeside(false, p, x, zero, to);
    } else if (p.signed) packLines(true, p, x, zero, to, count, width);
    else packLines(false, p, x, zero, to, count, width);
  }
}

/** What becomes of sums: the last fields of every kernel that has them. */
@unmanaged
export class IntegerResult {
  /** 0: int32; 1: int8 and 2: uint8, requantized; 3: float32. */
  kind: i32;
  /** Added: int32, or float32 to a float result; strides in elements. */
  bias: usize;
  biasRow: i32;
  biasColumn: i32;
  /** Scales of the factors, by matrix and row or column. */
  scaleA: usize;
  scaleAMatrix: i32;
  scaleARow: i32;
  scaleB: usize;
  scaleBMatrix: i32;
  scaleBColumn: i32;
  /** Of the requantized result. */
  scaleY: usize;
  zeroY: usize;
}

// @ts-ignore: decorator
@inline
function storeInts(p: usize, v: v128, n: i32): void {
  if (n >= 4) v128.store(p, v);
  else {
    v128.store_lane<i32>(p, v, 0);
    if (n > 1) v128.store_lane<i32>(p, v, 1, 4);
    if (n > 2) v128.store_lane<i32>(p, v, 2, 8);
  }
}

// @ts-ignore: decorator
@inline
function loadInts(p: usize, n: i32): v128 {
  if (n >= 4) return v128.load(p);
  let v = v128.load32_zero(p);
  if (n > 1) v = v128.load_lane<i32>(p, v, 1, 4);
  if (n > 2) v = v128.load_lane<i32>(p, v, 2, 8);
  return v;
}

// @ts-ignore: decorator
@inline
function storeBytes(p: usize, v: v128, n: i32): void {
  if (n >= 4) storeBytes4(p, v);
  else {
    store<u8>(p, i32x4.extract_lane(v, 0));
    if (n > 1) store<u8>(p, i32x4.extract_lane(v, 1), 1);
    if (n > 2) store<u8>(p, i32x4.extract_lane(v, 2), 2);
  }
}

/**
 * Finishes `rows` rows of `columns` sums at t (rows `ldt` bytes apart, readable to the next multiple of four columns)
 * into y: `element` is the index of the first result, `ldy` results a row apart. `row` and `column` say where bias is;
 * the scales' rows are `scaleRow` on.
 */
export function finishIntegers(
  r: IntegerResult,
  t: usize,
  ldt: usize,
  y: usize,
  element: usize,
  ldy: usize,
  rows: i32,
  columns: i32,
  row: i32,
  column: i32,
  matrixA: usize,
  matrixB: usize,
  scaleRow: i32,
): void {
  const kind = r.kind;
  const type = kind - 1;
  let zero: i32 = 0;
  let low = f32x4.splat(0), high = f32x4.splat(0);
  if (kind == 1 || kind == 2) {
    zero = r.zeroY ? loadInteger(type, r.zeroY, 0) : 0;
    low = f32x4.splat((kind == 1 ? <f32>-128 : <f32>0) - <f32>zero);
    high = f32x4.splat((kind == 1 ? <f32>127 : <f32>255) - <f32>zero);
  }
  const zeros = i32x4.splat(zero);
  for (let i = 0; i < rows; i++, t += ldt, element += ldy) {
    let scaleA = f32x4.splat(0);
    if (kind != 0) scaleA = v128.load32_splat(r.scaleA + ((matrixA * r.scaleAMatrix + (scaleRow + i) * r.scaleARow) << 2));
    for (let j = 0; j < columns; j += 4) {
      const n = columns - j;
      const o = <usize>j << 2;
      let sum = v128.load(t + o);
      if (r.bias != 0 && kind != 3) {
        const b = r.bias + (<usize>((row + i) * r.biasRow + (column + j) * r.biasColumn) << 2);
        sum = i32x4.add(sum, r.biasColumn == 0 ? v128.load32_splat(b) : loadInts(b, n));
      }
      if (kind == 0) {
        storeInts(y + ((element + j) << 2), sum, n);
        continue;
      }
      const s = r.scaleB + ((matrixB * r.scaleBMatrix + (column + j) * r.scaleBColumn) << 2);
      let scale = f32x4.mul(scaleA, r.scaleBColumn == 0 ? v128.load32_splat(s) : loadInts(s, n));
      let v = f32x4.convert_i32x4_s(sum);
      if (kind == 3) {
        v = f32x4.mul(v, scale);
        if (r.bias != 0) {
          const b = r.bias + (<usize>((row + i) * r.biasRow + (column + j) * r.biasColumn) << 2);
          v = f32x4.add(v, r.biasColumn == 0 ? v128.load32_splat(b) : loadInts(b, n));
        }
        storeInts(y + ((element + j) << 2), v, n);
      } else {
        scale = f32x4.div(scale, v128.load32_splat(r.scaleY));
        storeBytes(y + element + j, saturate4(f32x4.mul(v, scale), zeros, low, high), n);
      }
    }
  }
}

// `rows` is a constant of each caller.
// @ts-ignore: decorator
@inline
function sweepIntegerTiles(rows: i32, a: usize, b: usize, c: usize, pairs: i32, panels: i32): void {
  const end = b + (<usize>pairs << 5);
  for (; panels > 0; --panels) {
    let c00 = i32x4.splat(0), c01 = i32x4.splat(0);
    let c10 = i32x4.splat(0), c11 = i32x4.splat(0);
    let c20 = i32x4.splat(0), c21 = i32x4.splat(0);
    let c30 = i32x4.splat(0), c31 = i32x4.splat(0);
    for (let p = b; p != end; p += 32) {
      const b0 = v128.load(p);
      const b1 = v128.load(p, 16);
      const a0 = v128.load32_splat(a);
      c00 = i32x4.add(c00, i32x4.dot_i16x8_s(a0, b0));
      c01 = i32x4.add(c01, i32x4.dot_i16x8_s(a0, b1));
      if (rows > 1) {
        const a1 = v128.load32_splat(a, 4);
        c10 = i32x4.add(c10, i32x4.dot_i16x8_s(a1, b0));
        c11 = i32x4.add(c11, i32x4.dot_i16x8_s(a1, b1));
      }
      if (rows > 2) {
        const a2 = v128.load32_splat(a, 8);
        c20 = i32x4.add(c20, i32x4.dot_i16x8_s(a2, b0));
        c21 = i32x4.add(c21, i32x4.dot_i16x8_s(a2, b1));
      }
      if (rows > 3) {
        const a3 = v128.load32_splat(a, 12);
        c30 = i32x4.add(c30, i32x4.dot_i16x8_s(a3, b0));
        c31 = i32x4.add(c31, i32x4.dot_i16x8_s(a3, b1));
      }
      a += <usize>(rows * 4);
    }
    v128.store(c, c00);
    v128.store(c, c01, 16);
    if (rows > 1) {
      v128.store(c, c10, 32);
      v128.store(c, c11, 48);
    }
    if (rows > 2) {
      v128.store(c, c20, 64);
      v128.store(c, c21, 80);
    }
    if (rows > 3) {
      v128.store(c, c30, 96);
      v128.store(c, c31, 112);
    }
    c += <usize>(rows * 32);
  }
}

function sweepIntegers1(a: usize, b: usize, c: usize, pairs: i32): void {
  sweepIntegerTiles(1, a, b, c, pairs, 1);
}
function sweepIntegers2(a: usize, b: usize, c: usize, pairs: i32): void {
  sweepIntegerTiles(2, a, b, c, pairs, 1);
}
function sweepIntegers3(a: usize, b: usize, c: usize, pairs: i32): void {
  sweepIntegerTiles(3, a, b, c, pairs, 1);
}
function sweepIntegers4(a: usize, b: usize, c: usize, pairs: i32, panels: i32): void {
  sweepIntegerTiles(4, a, b, c, pairs, panels);
}

/** `rows` rows of A (packed from a panel's start) times one panel of B: sums at c, 8 a row. */
export function sweepIntegers(a: usize, b: usize, c: usize, pairs: i32, rows: i32): void {
  const full = rows >> 2;
  if (full > 0) sweepIntegers4(a, b, c, pairs, full);
  const done = full << 2;
  a += (<usize>done * <usize>pairs) << 2;
  c += <usize>done << 5;
  switch (rows - done) {
    case 1: sweepIntegers1(a, b, c, pairs); break;
    case 2: sweepIntegers2(a, b, c, pairs); break;
    case 3: sweepIntegers3(a, b, c, pairs); break;
  }
}

@unmanaged
class IntegerProduct extends IntegerResult {
  a: usize;
  b: usize;
  /** Results follow each other, m×n a product. */
  y: usize;
  batches: i32;
  aIndex: usize;
  bIndex: usize;
  m: i32;
  n: i32;
  pairs: i32;
  /** Rows a unit computes, a multiple of four. */
  chunk: i32;
}

/** Rows whose sums are held before they are finished. */
const BLOCK: i32 = 64;

/** Units: batches × chunks of rows × panels of B. Scratch: 64 × 32 bytes. */
export function integerProduct(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<IntegerProduct>(params);
  const panels = (p.n + 7) >> 3;
  const chunks = (p.m + p.chunk - 1) / p.chunk;
  const pairs = <usize>p.pairs;
  for (let u = begin; u < end; u++) {
    const batchChunk = u / panels;
    const panel = u - batchChunk * panels;
    const batch = batchChunk / chunks;
    const first = (batchChunk - batch * chunks) * p.chunk;
    const last = min(first + p.chunk, p.m);
    const column = panel << 3;
    const columns = min(8, p.n - column);
    const matrixA = <usize>load<i32>(p.aIndex + (<usize>batch << 2));
    const matrixB = <usize>load<i32>(p.bIndex + (<usize>batch << 2));
    const b = p.b + (((matrixB * panels + panel) * pairs) << 5);
    for (let row = first; row < last; row += BLOCK) {
      const rows = min(BLOCK, last - row);
      const a = p.a + (((matrixA * p.m + row) * pairs) << 2);
      sweepIntegers(a, b, scratch, p.pairs, rows);
      const element = (<usize>batch * p.m + row) * p.n + column;
      finishIntegers(p, scratch, 32, p.y, element, p.n, rows, columns, row, column, matrixA, matrixB, row);
    }
  }
}
