// Kernels that move data where a tensor of indices says: the Gather and Scatter families. Indices are int32 or int64,
// negative ones count from the end. A kernel cannot raise an error: an index outside its axis is clamped, so that no
// address ever leaves the tensor. Scatters divide the output, never the updates: duplicates are applied in order.
import { copyBytes } from './movement';

// @ts-ignore: decorator
@inline
function at(list: usize, i: i32): i32 {
  return load<i32>(list + (<usize>i << 2));
}

/** Index number `i`, made non-negative and kept inside [0, dim). */
// @ts-ignore: decorator
@inline
function indexAt(indices: usize, i: i32, wide: i32, dim: i32): i32 {
  let v: i64 = wide ? load<i64>(indices + (<usize>i << 3)) : <i64>load<i32>(indices + (<usize>i << 2));
  if (v < 0) v += dim;
  return <i32>max<i64>(0, min<i64>(v, dim - 1));
}

// @ts-ignore: decorator
@unmanaged
class GatherParams {
  data: usize;
  indices: usize;
  output: usize;
  count: i32;
  axisDim: i32;
  run: i32;
  wide: i32;
}

export function gather(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<GatherParams>(params);
  const run = p.run;
  const wide = p.wide;
  const dim = p.axisDim;
  const count = p.count;
  for (let u = begin; u < end; u++) {
    const outer = u / count;
    const index = indexAt(p.indices, u - outer * count, wide, dim);
    const from = p.data + (<usize>outer * dim + index) * run;
    const to = p.output + <usize>u * run;
    if (run == 4) store<u32>(to, load<u32>(from));
    else copyBytes(to, from, run);
  }
}

// @ts-ignore: decorator
@unmanaged
class GatherElementsParams {
  data: usize;
  indices: usize;
  output: usize;
  dims: usize;
  strides: usize;
  rank: i32;
  axisDim: i32;
  axisStride: i32;
  size: i32;
  wide: i32;
}

// @ts-ignore: decorator
@inline
function store1(to: usize, from: usize, size: i32): void {
  if (size == 4) store<u32>(to, load<u32>(from));
  else if (size == 1) store<u8>(to, load<u8>(from));
  else if (size == 2) store<u16>(to, load<u16>(from));
  else if (size == 8) store<u64>(to, load<u64>(from));
  else v128.store(to, v128.load(from));
}

export function gatherElements(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<GatherElementsParams>(params);
  const last = p.rank - 1;
  const n = at(p.dims, last);
  const step = at(p.strides, last);
  const size = p.size;
  for (let u = begin; u < end; u++) {
    let from = p.data;
    let outer = u;
    for (let a = last - 1; a >= 0; a--) {
      const d = at(p.dims, a);
      const q = outer / d;
      from += (outer - q * d) * at(p.strides, a);
      outer = q;
    }
    for (let i = 0; i < n; i++) {
      const index = indexAt(p.indices, u * n + i, p.wide, p.axisDim);
      store1(p.output + <usize>(u * n + i) * size, from + i * step + <usize>index * p.axisStride, size);
    }
  }
}

// @ts-ignore: decorator
@unmanaged
class GatherNDParams {
  data: usize;
  indices: usize;
  output: usize;
  dims: usize;
  strides: usize;
  tuple: i32;
  perBatch: i32;
  batchStride: i32;
  run: i32;
  wide: i32;
}

export function gatherND(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<GatherNDParams>(params);
  const tuple = p.tuple;
  for (let u = begin; u < end; u++) {
    let from = p.data + <usize>(u / p.perBatch) * p.batchStride;
    for (let a = 0; a < tuple; a++) {
      from += <usize>indexAt(p.indices, u * tuple + a, p.wide, at(p.dims, a)) * at(p.strides, a);
    }
    copyBytes(p.output + <usize>u * p.run, from, p.run);
  }
}

/** Puts one update in place. */
// @ts-ignore: decorator
@inline
function apply(to: usize, from: usize, size: i32, reduction: i32): void {
  if (reduction == 0) {
    store1(to, from, size);
    return;
  }
  const a = load<f32>(to);
  const b = load<f32>(from);
  if (reduction == 1) store<f32>(to, a + b);
  else if (reduction == 2) store<f32>(to, a * b);
  else if (reduction == 3) store<f32>(to, max(a, b));
  else store<f32>(to, min(a, b));
}

// @ts-ignore: decorator
@unmanaged
class ScatterElementsParams {
  output: usize;
  indices: usize;
  updates: usize;
  dims: usize;
  indexStrides: usize;
  outStrides: usize;
  rank: i32;
  count: i32;
  indexStride: i32;
  axisDim: i32;
  axisStride: i32;
  size: i32;
  reduction: i32;
  wide: i32;
}

export function scatterElements(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<ScatterElementsParams>(params);
  const size = p.size;
  for (let u = begin; u < end; u++) {
    let to = p.output;
    let index: i32 = 0;
    let outer = u;
    for (let a = p.rank - 1; a >= 0; a--) {
      const d = at(p.dims, a);
      const q = outer / d;
      const i = outer - q * d;
      to += i * at(p.outStrides, a);
      index += i * at(p.indexStrides, a);
      outer = q;
    }
    for (let i = 0; i < p.count; i++) {
      const where = indexAt(p.indices, index, p.wide, p.axisDim);
      apply(to + <usize>where * p.axisStride, p.updates + <usize>index * size, size, p.reduction);
      index += p.indexStride;
    }
  }
}

// @ts-ignore: decorator
@unmanaged
class ScatterNDParams {
  output: usize;
  indices: usize;
  updates: usize;
  dims: usize;
  strides: usize;
  tuple: i32;
  count: i32;
  run: i32;
  size: i32;
  reduction: i32;
  wide: i32;
}

export function scatterND(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<ScatterNDParams>(params);
  const tuple = p.tuple;
  const size = p.size;
  for (let t = 0; t < p.count; t++) {
    let to = p.output;
    for (let a = 0; a < tuple; a++) {
      to += <usize>indexAt(p.indices, t * tuple + a, p.wide, at(p.dims, a)) * at(p.strides, a);
    }
    const from = p.updates + <usize>t * p.run * size;
    if (p.reduction == 0) copyBytes(to + begin * size, from + begin * size, (end - begin) * size);
    else for (let i = begin; i < end; i++) apply(to + i * size, from + i * size, size, p.reduction);
  }
}

// @ts-ignore: decorator
@unmanaged
class TensorScatterParams {
  output: usize;
  updates: usize;
  indices: usize;
  perBatch: i32;
  sequence: i32;
  capacity: i32;
  circular: i32;
  run: i32;
  wide: i32;
}

export function tensorScatter(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<TensorScatterParams>(params);
  const sequence = p.sequence;
  const capacity = p.capacity;
  const run = p.run;
  for (let u = begin; u < end; u++) {
    const prefix = u / sequence;
    const batch = prefix / p.perBatch;
    let where: i64 = u - prefix * sequence;
    if (p.indices) where += p.wide ? load<i64>(p.indices + (batch << 3)) : <i64>load<i32>(p.indices + (batch << 2));
    if (p.circular) where = where % capacity;
    if (where < 0 || where >= capacity) continue;
    copyBytes(p.output + (<usize>prefix * capacity + <usize>where) * run, p.updates + <usize>u * run, run);
  }
}
