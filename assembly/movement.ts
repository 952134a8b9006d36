// Kernels that move data: strided copies of any rank and element size, tiled transposes, copies through offset tables.
// Picture: the lowering has merged axes until what is left is an outer odometer and a short inner loop; here the odometer
// is set by divisions once and then runs along the second-last axis. Which view to copy is src/operators/copy.ts.

/** Copies n bytes; short runs without the call that memory.copy costs. */
// @ts-ignore: decorator
@inline
export function copyBytes(to: usize, from: usize, n: i32): void {
  if (n >= 512) {
    memory.copy(to, from, n);
    return;
  }
  let i: i32 = 0;
  for (; i <= n - 16; i += 16) v128.store(to + i, v128.load(from + i));
  if (n & 8) {
    store<u64>(to + i, load<u64>(from + i));
    i += 8;
  }
  if (n & 4) {
    store<u32>(to + i, load<u32>(from + i));
    i += 4;
  }
  if (n & 2) {
    store<u16>(to + i, load<u16>(from + i));
    i += 2;
  }
  if (n & 1) store<u8>(to + i, load<u8>(from + i));
}

// @ts-ignore: decorator
@inline
function strided<T>(from: usize, to: usize, n: i32, inStride: i32, outStride: i32): void {
  for (let i = 0; i < n; i++) {
    store<T>(to, load<T>(from));
    from += inStride;
    to += outStride;
  }
}

// @ts-ignore: decorator
@inline
function strided16(from: usize, to: usize, n: i32, inStride: i32, outStride: i32): void {
  for (let i = 0; i < n; i++) {
    v128.store(to, v128.load(from));
    from += inStride;
    to += outStride;
  }
}

/** Fills a dense run with one element. */
// @ts-ignore: decorator
@inline
function fillRun(from: usize, to: usize, n: i32, size: i32): void {
  let v: v128;
  if (size == 1) v = v128.load8_splat(from);
  else if (size == 2) v = v128.load16_splat(from);
  else if (size == 4) v = v128.load32_splat(from);
  else if (size == 8) v = v128.load64_splat(from);
  else v = v128.load(from);
  const bytes = n * size;
  let i: i32 = 0;
  for (; i <= bytes - 16; i += 16) v128.store(to + i, v);
  for (; i < bytes; i += size) {
    if (size == 1) store<u8>(to + i, load<u8>(from));
    else if (size == 2) store<u16>(to + i, load<u16>(from));
    else if (size == 4) store<u32>(to + i, load<u32>(from));
    else store<u64>(to + i, load<u64>(from));
  }
}

// @ts-ignore: decorator
@unmanaged
class CopyParams {
  input: usize;
  output: usize;
  dims: usize;
  inStrides: usize;
  outStrides: usize;
  rank: i32;
  size: i32;
}

// @ts-ignore: decorator
@inline
function at(list: usize, i: i32): i32 {
  return load<i32>(list + (<usize>i << 2));
}

export function copy(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<CopyParams>(params);
  const dims = p.dims;
  const inStrides = p.inStrides;
  const outStrides = p.outStrides;
  const size = p.size;
  const last = p.rank - 1;
  const n = at(dims, last);
  const inStride = at(inStrides, last);
  const outStride = at(outStrides, last);
  const rows = at(dims, last - 1);
  const inRow = at(inStrides, last - 1);
  const outRow = at(outStrides, last - 1);
  const dense = inStride == size && outStride == size;
  const fill = inStride == 0 && outStride == size;
  let u = begin;
  while (u < end) {
    let outer = u / rows;
    const row = u - outer * rows;
    let from = p.input + row * inRow;
    let to = p.output + row * outRow;
    for (let a = last - 2; a >= 0; a--) {
      const d = at(dims, a);
      const q = outer / d;
      const i = outer - q * d;
      from += i * at(inStrides, a);
      to += i * at(outStrides, a);
      outer = q;
    }
    const m = min(rows - row, end - u);
    if (dense) {
      for (let r = 0; r < m; r++) copyBytes(to + r * outRow, from + r * inRow, n * size);
    } else if (fill) {
      for (let r = 0; r < m; r++) fillRun(from + r * inRow, to + r * outRow, n, size);
    } else if (size == 4) {
      for (let r = 0; r < m; r++) strided<u32>(from + r * inRow, to + r * outRow, n, inStride, outStride);
    } else if (size == 1) {
      for (let r = 0; r < m; r++) strided<u8>(from + r * inRow, to + r * outRow, n, inStride, outStride);
    } else if (size == 2) {
      for (let r = 0; r < m; r++) strided<u16>(from + r * inRow, to + r * outRow, n, inStride, outStride);
    } else if (size == 8) {
      for (let r = 0; r < m; r++) strided<u64>(from + r * inRow, to + r * outRow, n, inStride, outStride);
    } else {
      for (let r = 0; r < m; r++) strided16(from + r * inRow, to + r * outRow, n, inStride, outStride);
    }
    u += m;
  }
}

// @ts-ignore: decorator
@unmanaged
class TransposeParams {
  input: usize;
  output: usize;
  dims: usize;
  inStrides: usize;
  outStrides: usize;
  rank: i32;
  size: i32;
  rows: i32;
  columns: i32;
  inColumn: i32;
  outRow: i32;
}

/** A tile by single elements: `rows` × `columns`, rows contiguous in the input, columns in the output. */
// @ts-ignore: decorator
@inline
function tile<T>(from: usize, to: usize, rows: i32, columns: i32, inColumn: i32, outRow: i32): void {
  for (let r = 0; r < rows; r++) {
    strided<T>(from + r * sizeof<T>(), to + r * outRow, columns, inColumn, sizeof<T>());
  }
}

/** Four columns of four rows of 32-bit elements. */
// @ts-ignore: decorator
@inline
function block4(from: usize, to: usize, inColumn: i32, outRow: i32): void {
  const a = v128.load(from);
  const b = v128.load(from + inColumn);
  const c = v128.load(from + 2 * inColumn);
  const d = v128.load(from + 3 * inColumn);
  const ab0 = v128.shuffle<i32>(a, b, 0, 4, 1, 5);
  const ab1 = v128.shuffle<i32>(a, b, 2, 6, 3, 7);
  const cd0 = v128.shuffle<i32>(c, d, 0, 4, 1, 5);
  const cd1 = v128.shuffle<i32>(c, d, 2, 6, 3, 7);
  v128.store(to, v128.shuffle<i64>(ab0, cd0, 0, 2));
  v128.store(to + outRow, v128.shuffle<i64>(ab0, cd0, 1, 3));
  v128.store(to + 2 * outRow, v128.shuffle<i64>(ab1, cd1, 0, 2));
  v128.store(to + 3 * outRow, v128.shuffle<i64>(ab1, cd1, 1, 3));
}

/** 32-bit elements in 4 × 4 blocks; what is left over goes one by one. */
// @ts-ignore: decorator
@inline
function tile32(from: usize, to: usize, rows: i32, columns: i32, inColumn: i32, outRow: i32): void {
  const wholeColumns = columns & ~3;
  const wholeRows = rows & ~3;
  for (let c = 0; c < wholeColumns; c += 4) {
    for (let r = 0; r < wholeRows; r += 4) {
      block4(from + c * inColumn + (r << 2), to + r * outRow + (c << 2), inColumn, outRow);
    }
  }
  if (wholeColumns < columns)
    tile<u32>(
      from + wholeColumns * inColumn,
      to + (wholeColumns << 2),
      wholeRows,
      columns - wholeColumns,
      inColumn,
      outRow,
    );
  if (wholeRows < rows)
    tile<u32>(from + (wholeRows << 2), to + wholeRows * outRow, rows - wholeRows, columns, inColumn, outRow);
}

export function transpose(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<TransposeParams>(params);
  const rows = p.rows;
  const columns = p.columns;
  const inColumn = p.inColumn;
  const outRow = p.outRow;
  const size = p.size;
  const blocks = (rows + 15) >> 4;
  for (let u = begin; u < end; u++) {
    let outer = u / blocks;
    const row = (u - outer * blocks) << 4;
    let from = p.input + row * size;
    let to = p.output + row * outRow;
    for (let a = p.rank - 1; a >= 0; a--) {
      const d = at(p.dims, a);
      const q = outer / d;
      const i = outer - q * d;
      from += i * at(p.inStrides, a);
      to += i * at(p.outStrides, a);
      outer = q;
    }
    const m = min(16, rows - row);
    if (size == 4) tile32(from, to, m, columns, inColumn, outRow);
    else if (size == 1) tile<u8>(from, to, m, columns, inColumn, outRow);
    else if (size == 2) tile<u16>(from, to, m, columns, inColumn, outRow);
    else if (size == 8) tile<u64>(from, to, m, columns, inColumn, outRow);
    else {
      for (let r = 0; r < m; r++) strided16(from + (r << 4), to + r * outRow, columns, inColumn, 16);
    }
  }
}

// @ts-ignore: decorator
@unmanaged
class TableCopyParams {
  input: usize;
  output: usize;
  fill: usize;
  tables: usize;
  dims: usize;
  rank: i32;
  size: i32;
}

// @ts-ignore: decorator
@inline
function lookUp<T>(from: usize, to: usize, table: usize, n: i32, fill: usize): void {
  for (let i = 0; i < n; i++) {
    const offset = at(table, i);
    store<T>(to, load<T>(offset < 0 ? fill : from + offset));
    to += sizeof<T>();
  }
}

export function tableCopy(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<TableCopyParams>(params);
  const dims = p.dims;
  const size = p.size;
  const last = p.rank - 1;
  const n = at(dims, last);
  let lastTable = p.tables;
  for (let a = 0; a < last; a++) lastTable += at(dims, a) << 2;
  for (let u = begin; u < end; u++) {
    let from = p.input;
    let outside = false;
    let outer = u;
    let table = lastTable;
    for (let a = last - 1; a >= 0; a--) {
      const d = at(dims, a);
      const q = outer / d;
      table -= d << 2;
      const offset = at(table, outer - q * d);
      if (offset < 0) outside = true;
      from += offset;
      outer = q;
    }
    const to = p.output + <usize>u * <usize>(n * size);
    if (outside) fillRun(p.fill, to, n, size);
    else if (size == 4) lookUp<u32>(from, to, lastTable, n, p.fill);
    else if (size == 1) lookUp<u8>(from, to, lastTable, n, p.fill);
    else if (size == 2) lookUp<u16>(from, to, lastTable, n, p.fill);
    else if (size == 8) lookUp<u64>(from, to, lastTable, n, p.fill);
    else {
      for (let i = 0; i < n; i++) {
        const offset = at(lastTable, i);
        v128.store(to + (i << 4), v128.load(offset < 0 ? p.fill : from + offset));
      }
    }
  }
}

// @ts-ignore: decorator
@unmanaged
class TriluParams {
  input: usize;
  output: usize;
  rows: i32;
  columns: i32;
  k: usize;
  upper: i32;
  size: i32;
}

export function trilu(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<TriluParams>(params);
  const columns = p.columns;
  const size = p.size;
  const bytes = columns * size;
  // A diagonal beyond the corners is the same as one just beyond them.
  const k = p.k ? <i32>max<i64>(-p.rows - 1, min<i64>(load<i64>(p.k), columns + 1)) : 0;
  for (let u = begin; u < end; u++) {
    const from = p.input + <usize>u * bytes;
    const to = p.output + <usize>u * bytes;
    // Columns before `edge` are left of the kept diagonal's first column (upper) or kept (lower).
    const edge = max(0, min(columns, (u % p.rows) + k + (p.upper ? 0 : 1))) * size;
    if (p.upper) {
      memory.fill(to, 0, edge);
      copyBytes(to + edge, from + edge, bytes - edge);
    } else {
      copyBytes(to, from, edge);
      memory.fill(to + edge, 0, bytes - edge);
    }
  }
}
