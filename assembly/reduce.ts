// Reductions of float32 tensors. Axes come in groups, kept and reduced by turns, as they stand in the tensor:
//
//   last group reduced   rows: an output element is the reduction of runs of n contiguous floats. Element j of a run goes
//                        to accumulator lane j % 16; the lanes are joined at the end in a fixed order.
//   last group kept      columns: a unit is 16 neighbouring output elements, one accumulator each, in the order of the
//                        reduced axes.
//
// Either way the order of additions depends on the lengths of the reduced axes alone, so a row has the same bits whatever
// else is in the tensor.
import { exp, log, splat } from './math';

const SUM: i32 = 0;
const MAX: i32 = 1;
const MIN: i32 = 2;
const PROD: i32 = 3;
const SUM_SQUARE: i32 = 4;
const L1: i32 = 5;
const L2: i32 = 6;
const LOG_SUM: i32 = 7;
const LOG_SUM_EXP: i32 = 8;

const COLUMNS: i32 = 16;

@unmanaged
class ReduceF32 {
  x: usize;
  y: usize;
  op: i32;
  /** 1: rows; 0: columns. */
  rows: i32;
  /** Kept elements beside each other (columns); 1 for rows. */
  inner: i32;
  keptRank: i32;
  keptDims: usize;
  keptStrides: usize;
  /** Reduced groups but the last one, and how many index combinations they have. */
  outerRank: i32;
  outerDims: usize;
  outerStrides: usize;
  outerCount: i32;
  /** The last reduced group: length and stride. */
  n: i32;
  stride: i32;
  /** A sum is divided by this: 1, or for a mean how many elements are joined. */
  divisor: i32;
}

// @ts-ignore: decorator
@inline
function offsetOf(index: i32, rank: i32, dims: usize, strides: usize): i32 {
  let offset = 0;
  for (let axis = rank - 1; axis >= 0; axis--) {
    const d = load<i32>(dims + (<usize>axis << 2));
    const q = index / d;
    offset += (index - q * d) * load<i32>(strides + (<usize>axis << 2));
    index = q;
  }
  return offset;
}

// @ts-ignore: decorator
@inline
function identityOf(op: i32): v128 {
  if (op == MAX) return splat(-Infinity);
  if (op == MIN) return splat(Infinity);
  if (op == PROD) return splat(1);
  return splat(0);
}

/** acc ∘ x; `m` is the maximum, for LogSumExp. */
// @ts-ignore: decorator
@inline
function join(op: i32, acc: v128, x: v128, m: v128): v128 {
  if (op == MAX) return f32x4.max(acc, x);
  if (op == MIN) return f32x4.min(acc, x);
  if (op == PROD) return f32x4.mul(acc, x);
  if (op == SUM_SQUARE || op == L2) return f32x4.add(acc, f32x4.mul(x, x));
  if (op == L1) return f32x4.add(acc, f32x4.abs(x));
  if (op == LOG_SUM_EXP) return f32x4.add(acc, exp(f32x4.sub(x, m)));
  return f32x4.add(acc, x);
}

/** Two partial results. */
// @ts-ignore: decorator
@inline
function merge(op: i32, a: v128, b: v128): v128 {
  if (op == MAX) return f32x4.max(a, b);
  if (op == MIN) return f32x4.min(a, b);
  if (op == PROD) return f32x4.mul(a, b);
  return f32x4.add(a, b);
}

// @ts-ignore: decorator
@inline
function finish(op: i32, v: v128, m: v128): v128 {
  if (op == L2) return f32x4.sqrt(v);
  if (op == LOG_SUM) return log(v);
  if (op == LOG_SUM_EXP) return f32x4.add(log(v), m);
  return v;
}

// @ts-ignore: decorator
@inline
function across(op: i32, v: v128): v128 {
  v = merge(op, v, v128.shuffle<f32>(v, v, 2, 3, 0, 1));
  return merge(op, v, v128.shuffle<f32>(v, v, 1, 0, 3, 2));
}

/** One output element from runs of n contiguous floats. */
// @ts-ignore: decorator
@inline
function row(op: i32, x: usize, p: ReduceF32, m: v128): v128 {
  const n = p.n;
  let a = identityOf(op);
  let b = a;
  let c = a;
  let d = a;
  let t = a;
  for (let o = 0; o < p.outerCount; o++) {
    let at = x + (<usize>offsetOf(o, p.outerRank, p.outerDims, p.outerStrides) << 2);
    let i = 0;
    for (; i + 16 <= n; i += 16) {
      a = join(op, a, v128.load(at), m);
      b = join(op, b, v128.load(at, 16), m);
      c = join(op, c, v128.load(at, 32), m);
      d = join(op, d, v128.load(at, 48), m);
      at += 64;
    }
    for (; i + 4 <= n; i += 4) {
      a = join(op, a, v128.load(at), m);
      at += 16;
    }
    // What is left of a run, repeated in all lanes: only lane 0 of t is used.
    for (; i < n; i++) {
      t = join(op, t, v128.load32_splat(at), m);
      at += 4;
    }
  }
  return merge(op, across(op, merge(op, merge(op, a, b), merge(op, c, d))), t);
}

// Sums and means are added up in float64 and rounded once: as exact as the reference, whatever the length, so that a
// quantizer behind a mean rounds the same way.

/** Sum of runs of n contiguous floats, over the divisor. */
// @ts-ignore: decorator
@inline
function sumRow(x: usize, p: ReduceF32): f32 {
  const n = p.n;
  let a = f64x2.splat(0);
  let b = a;
  let t: f64 = 0;
  for (let o = 0; o < p.outerCount; o++) {
    let at = x + (<usize>offsetOf(o, p.outerRank, p.outerDims, p.outerStrides) << 2);
    let i = 0;
    for (; i + 4 <= n; i += 4) {
      const v = v128.load(at);
      a = f64x2.add(a, f64x2.promote_low_f32x4(v));
      b = f64x2.add(b, f64x2.promote_low_f32x4(v128.shuffle<f32>(v, v, 2, 3, 0, 1)));
      at += 16;
    }
    for (; i < n; i++) {
      t += <f64>f32.load(at);
      at += 4;
    }
  }
  a = f64x2.add(a, b);
  return <f32>((f64x2.extract_lane(a, 0) + f64x2.extract_lane(a, 1) + t) / <f64>p.divisor);
}

/** Sums of up to 16 neighbouring columns. */
function sumColumns(width: i32, x: usize, y: usize, p: ReduceF32): void {
  const n = p.n;
  const stride = <usize>p.stride << 2;
  const divisor = f64x2.splat(<f64>p.divisor);
  let column = 0;
  for (; column + 4 <= width; column += 4) {
    let a = f64x2.splat(0);
    let b = a;
    for (let o = 0; o < p.outerCount; o++) {
      let at = x + (<usize>offsetOf(o, p.outerRank, p.outerDims, p.outerStrides) << 2);
      for (let i = 0; i < n; i++) {
        const v = v128.load(at);
        a = f64x2.add(a, f64x2.promote_low_f32x4(v));
        b = f64x2.add(b, f64x2.promote_low_f32x4(v128.shuffle<f32>(v, v, 2, 3, 0, 1)));
        at += stride;
      }
    }
    const low = f32x4.demote_f64x2_zero(f64x2.div(a, divisor));
    const high = f32x4.demote_f64x2_zero(f64x2.div(b, divisor));
    v128.store(y, v128.shuffle<f32>(low, high, 0, 1, 4, 5));
    x += 16;
    y += 16;
  }
  for (; column < width; column++) {
    let sum: f64 = 0;
    for (let o = 0; o < p.outerCount; o++) {
      let at = x + (<usize>offsetOf(o, p.outerRank, p.outerDims, p.outerStrides) << 2);
      for (let i = 0; i < n; i++) {
        sum += <f64>f32.load(at);
        at += stride;
      }
    }
    f32.store(y, <f32>(sum / <f64>p.divisor));
    x += 4;
    y += 4;
  }
}

/** 1, 4 or 16 neighbouring columns; a single one is repeated in all lanes. */
// @ts-ignore: decorator
@inline
function columns(op: i32, width: i32, x: usize, y: usize, p: ReduceF32): void {
  const n = p.n;
  const stride = <usize>p.stride << 2;
  let m0 = splat(0);
  let m1 = m0;
  let m2 = m0;
  let m3 = m0;
  if (op == LOG_SUM_EXP) {
    m0 = m1 = m2 = m3 = identityOf(MAX);
    for (let o = 0; o < p.outerCount; o++) {
      let at = x + (<usize>offsetOf(o, p.outerRank, p.outerDims, p.outerStrides) << 2);
      for (let i = 0; i < n; i++) {
        m0 = f32x4.max(m0, width == 1 ? v128.load32_splat(at) : v128.load(at));
        if (width == 16) {
          m1 = f32x4.max(m1, v128.load(at, 16));
          m2 = f32x4.max(m2, v128.load(at, 32));
          m3 = f32x4.max(m3, v128.load(at, 48));
        }
        at += stride;
      }
    }
    m0 = finite(m0);
    m1 = finite(m1);
    m2 = finite(m2);
    m3 = finite(m3);
  }
  let a = identityOf(op);
  let b = a;
  let c = a;
  let d = a;
  for (let o = 0; o < p.outerCount; o++) {
    let at = x + (<usize>offsetOf(o, p.outerRank, p.outerDims, p.outerStrides) << 2);
    for (let i = 0; i < n; i++) {
      a = join(op, a, width == 1 ? v128.load32_splat(at) : v128.load(at), m0);
      if (width == 16) {
        b = join(op, b, v128.load(at, 16), m1);
        c = join(op, c, v128.load(at, 32), m2);
        d = join(op, d, v128.load(at, 48), m3);
      }
      at += stride;
    }
  }
  a = finish(op, a, m0);
  if (width == 1) f32.store(y, f32x4.extract_lane(a, 0));
  else v128.store(y, a);
  if (width == 16) {
    v128.store(y, finish(op, b, m1), 16);
    v128.store(y, finish(op, c, m2), 32);
    v128.store(y, finish(op, d, m3), 48);
  }
}

/** x where it is finite, 0 elsewhere: subtracting an infinite maximum would make NaN of it. */
// @ts-ignore: decorator
@inline
function finite(x: v128): v128 {
  return v128.and(x, f32x4.lt(f32x4.abs(x), splat(Infinity)));
}

// @ts-ignore: decorator
@inline
function reduce(op: i32, p: ReduceF32, begin: i32, end: i32): void {
  if (p.rows) {
    for (let u = begin; u < end; u++) {
      const x = p.x + (<usize>offsetOf(u, p.keptRank, p.keptDims, p.keptStrides) << 2);
      if (op == SUM) {
        f32.store(p.y + (<usize>u << 2), sumRow(x, p));
        continue;
      }
      let m = splat(0);
      if (op == LOG_SUM_EXP) m = finite(row(MAX, x, p, m));
      f32.store(p.y + (<usize>u << 2), f32x4.extract_lane(finish(op, row(op, x, p, m), m), 0));
    }
    return;
  }
  const inner = p.inner;
  const chunks = (inner + COLUMNS - 1) / COLUMNS;
  for (let u = begin; u < end; u++) {
    const outer = u / chunks;
    let column = (u - outer * chunks) * COLUMNS;
    const last = min(column + COLUMNS, inner);
    let x = p.x + (<usize>(offsetOf(outer, p.keptRank, p.keptDims, p.keptStrides) + column) << 2);
    let y = p.y + (<usize>(outer * inner + column) << 2);
    if (op == SUM) {
      sumColumns(last - column, x, y, p);
      continue;
    }
    if (last - column == COLUMNS) {
      columns(op, 16, x, y, p);
      continue;
    }
    for (; column + 4 <= last; column += 4) {
      columns(op, 4, x, y, p);
      x += 16;
      y += 16;
    }
    for (; column < last; column++) {
      columns(op, 1, x, y, p);
      x += 4;
      y += 4;
    }
  }
}

export function reduceF32(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<ReduceF32>(params);
  switch (p.op) {
    case SUM: reduce(SUM, p, begin, end); break;
    case MAX: reduce(MAX, p, begin, end); break;
    case MIN: reduce(MIN, p, begin, end); break;
    case PROD: reduce(PROD, p, begin, end); break;
    case SUM_SQUARE: reduce(SUM_SQUARE, p, begin, end); break;
    case L1: reduce(L1, p, begin, end); break;
    case L2: reduce(L2, p, begin, end); break;
    case LOG_SUM: reduce(LOG_SUM, p, begin, end); break;
    default: reduce(LOG_SUM_EXP, p, begin, end);
  }
}

@unmanaged
class ArgF32 {
  x: usize;
  y: usize;
  n: i32;
  inner: i32;
  smallest: i32;
  last: i32;
}

/** Index of the largest (or smallest) of n floats `inner` apart; the first of equals, or the last. */
export function argF32(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<ArgF32>(params);
  const n = p.n;
  const inner = p.inner;
  const stride = <usize>inner << 2;
  const sign: f32 = p.smallest ? -1 : 1;
  const last = p.last != 0;
  for (let u = begin; u < end; u++) {
    const outer = u / inner;
    let at = p.x + (<usize>(outer * n * inner + (u - outer * inner)) << 2);
    let best = f32.load(at) * sign;
    let index = 0;
    for (let i = 1; i < n; i++) {
      at += stride;
      const v = f32.load(at) * sign;
      if (v > best || (last && v == best)) {
        best = v;
        index = i;
      }
    }
    store<i64>(p.y + (<usize>u << 3), index);
  }
}

@unmanaged
class SoftmaxF32 {
  x: usize;
  y: usize;
  /** 1: along the last axis. Not the same as inner 1, which a batch of one may make. */
  rows: i32;
  n: i32;
  inner: i32;
  log: i32;
}

/** Elements of a row: the sums' lanes depend on n alone. */
// @ts-ignore: decorator
@inline
function softmaxRow(x: usize, y: usize, n: i32, logarithm: bool): void {
  const whole = n & ~3;
  let m4 = splat(-Infinity);
  let i = 0;
  for (; i < whole; i += 4) m4 = f32x4.max(m4, v128.load(x + (<usize>i << 2)));
  for (; i < n; i++) m4 = f32x4.max(m4, v128.load32_splat(x + (<usize>i << 2)));
  const m = across(MAX, m4);
  let s = splat(0);
  let t = splat(0);
  for (i = 0; i < whole; i += 4) {
    const d = f32x4.sub(v128.load(x + (<usize>i << 2)), m);
    const e = exp(d);
    s = f32x4.add(s, e);
    v128.store(y + (<usize>i << 2), logarithm ? d : e);
  }
  for (; i < n; i++) {
    const d = f32x4.sub(v128.load32_splat(x + (<usize>i << 2)), m);
    const e = exp(d);
    t = f32x4.add(t, e);
    f32.store(y + (<usize>i << 2), f32x4.extract_lane(logarithm ? d : e, 0));
  }
  s = f32x4.add(across(SUM, s), t);
  if (logarithm) s = log(s);
  for (i = 0; i < whole; i += 4) {
    const v = v128.load(y + (<usize>i << 2));
    v128.store(y + (<usize>i << 2), logarithm ? f32x4.sub(v, s) : f32x4.div(v, s));
  }
  for (; i < n; i++) {
    const v = v128.load32_splat(y + (<usize>i << 2));
    f32.store(y + (<usize>i << 2), f32x4.extract_lane(logarithm ? f32x4.sub(v, s) : f32x4.div(v, s), 0));
  }
}

// @ts-ignore: decorator
@inline
function take(width: i32, at: usize): v128 {
  return width == 4 ? v128.load(at) : v128.load32_splat(at);
}

// @ts-ignore: decorator
@inline
function put(width: i32, at: usize, v: v128): void {
  if (width == 4) v128.store(at, v);
  else f32.store(at, f32x4.extract_lane(v, 0));
}

/** 1 or 4 columns of n elements, `stride` bytes apart, one accumulator a column. */
// @ts-ignore: decorator
@inline
function softmaxColumns(width: i32, x: usize, y: usize, n: i32, stride: usize, logarithm: bool): void {
  let m = splat(-Infinity);
  for (let i = 0; i < n; i++) m = f32x4.max(m, take(width, x + <usize>i * stride));
  let s = splat(0);
  for (let i = 0; i < n; i++) {
    const d = f32x4.sub(take(width, x + <usize>i * stride), m);
    const e = exp(d);
    s = f32x4.add(s, e);
    put(width, y + <usize>i * stride, logarithm ? d : e);
  }
  if (logarithm) s = log(s);
  for (let i = 0; i < n; i++) {
    const v = take(width, y + <usize>i * stride);
    put(width, y + <usize>i * stride, logarithm ? f32x4.sub(v, s) : f32x4.div(v, s));
  }
}

export function softmaxF32(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<SoftmaxF32>(params);
  const n = p.n;
  const inner = p.inner;
  const logarithm = p.log != 0;
  if (p.rows) {
    for (let u = begin; u < end; u++) {
      const offset = <usize>u * <usize>n << 2;
      if (logarithm) softmaxRow(p.x + offset, p.y + offset, n, true);
      else softmaxRow(p.x + offset, p.y + offset, n, false);
    }
    return;
  }
  const chunks = (inner + 3) >> 2;
  const stride = <usize>inner << 2;
  for (let u = begin; u < end; u++) {
    const outer = u / chunks;
    let column = (u - outer * chunks) << 2;
    let offset = <usize>(outer * n * inner + column) << 2;
    if (column + 4 <= inner) {
      if (logarithm) softmaxColumns(4, p.x + offset, p.y + offset, n, stride, true);
      else softmaxColumns(4, p.x + offset, p.y + offset, n, stride, false);
    } else {
      for (; column < inner; column++) {
        if (logarithm) softmaxColumns(1, p.x + offset, p.y + offset, n, stride, true);
        else softmaxColumns(1, p.x + offset, p.y + offset, n, stride, false);
        offset += 4;
      }
    }
  }
}

@unmanaged
class Scan {
  x: usize;
  y: usize;
  type: i32;
  product: i32;
  n: i32;
  inner: i32;
  exclusive: i32;
  reverse: i32;
}

// @ts-ignore: decorator
@inline
function scanColumn<T>(p: Scan, unit: i32, product: bool): void {
  const n = p.n;
  const outer = unit / p.inner;
  const size = <isize>sizeof<T>();
  let step = <isize>p.inner * size;
  let offset = (<isize>outer * n * p.inner + (unit - outer * p.inner)) * size;
  if (p.reverse) {
    offset += step * (n - 1);
    step = -step;
  }
  let acc: T = product ? 1 : 0;
  for (let i = 0; i < n; i++) {
    const v = load<T>(p.x + offset);
    if (p.exclusive) store<T>(p.y + offset, acc);
    acc = product ? <T>(acc * v) : <T>(acc + v);
    if (!p.exclusive) store<T>(p.y + offset, acc);
    offset += step;
  }
}

/** Running sums or products, in order. */
export function scan(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<Scan>(params);
  const product = p.product != 0;
  for (let u = begin; u < end; u++) {
    if (p.type == 0) scanColumn<f32>(p, u, product);
    else if (p.type == 1) scanColumn<i32>(p, u, product);
    else scanColumn<i64>(p, u, product);
  }
}
