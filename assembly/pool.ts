// Pooling of float32 over up to three spatial axes (missing ones have length 1). A unit is one row of the output. First
// the input rows of the window are joined, vertically, into one padded row of scratch; then that row is joined
// horizontally:
//
//   input rows  ─┐
//                ├─ max / sum ─▶  |pad|  one row  |pad|  ─ max / sum over kw, every strideW ─▶  output row
//   input rows  ─┘
//
// so neither padding nor strides need a branch in a loop, and the order of additions is the window's.
import { splat } from './math';

const MAX: i32 = 0;
const AVERAGE: i32 = 1;
const L1: i32 = 2;
const L2: i32 = 3;

@unmanaged
class PoolF32 {
  x: usize;
  y: usize;
  op: i32;
  inD: i32;
  inH: i32;
  inW: i32;
  outD: i32;
  outH: i32;
  outW: i32;
  kernelD: i32;
  kernelH: i32;
  kernelW: i32;
  strideD: i32;
  strideH: i32;
  strideW: i32;
  dilationD: i32;
  dilationH: i32;
  dilationW: i32;
  padD: i32;
  padH: i32;
  padW: i32;
  /** Average: by output index of each axis, how many window positions count. */
  countD: usize;
  countH: usize;
  countW: usize;
}

// @ts-ignore: decorator
@inline
function join(op: i32, a: v128, b: v128): v128 {
  return op == MAX ? f32x4.max(a, b) : f32x4.add(a, b);
}

// @ts-ignore: decorator
@inline
function prepared(op: i32, x: v128): v128 {
  if (op == L1) return f32x4.abs(x);
  if (op == L2) return f32x4.mul(x, x);
  return x;
}

/** to[i] = to[i] ∘ x[i] for n floats. */
// @ts-ignore: decorator
@inline
function joinRow(op: i32, to: usize, x: usize, n: i32): void {
  let i = 0;
  for (; i + 4 <= n; i += 4) {
    const at = to + (<usize>i << 2);
    v128.store(at, join(op, v128.load(at), prepared(op, v128.load(x + (<usize>i << 2)))));
  }
  for (; i < n; i++) {
    const at = to + (<usize>i << 2);
    f32.store(at, f32x4.extract_lane(join(op, v128.load32_zero(at), prepared(op, v128.load32_zero(x + (<usize>i << 2)))), 0));
  }
}

/** Four outputs' inputs: four neighbours, or every second, or gathered. */
// @ts-ignore: decorator
@inline
function four(at: usize, stride: i32): v128 {
  if (stride == 1) return v128.load(at);
  if (stride == 2) return v128.shuffle<f32>(v128.load(at), v128.load(at, 16), 0, 2, 4, 6);
  const step = <usize>stride << 2;
  let v = v128.load32_zero(at);
  v = v128.load32_lane(at + step, v, 1);
  v = v128.load32_lane(at + 2 * step, v, 2);
  return v128.load32_lane(at + 3 * step, v, 3);
}

// @ts-ignore: decorator
@inline
function across(op: i32, p: PoolF32, from: usize, y: usize, rows: i32): void {
  const kernel = p.kernelW;
  const stride = p.strideW;
  const dilation = <usize>p.dilationW << 2;
  const counted = splat(<f32>rows);
  // Scratch holds more than a whole number of vectors, so the last vector may be computed in full and stored in part.
  for (let o = 0; o < p.outW; o += 4) {
    let at = from + (<usize>(o * stride) << 2);
    let v = four(at, stride);
    for (let k = 1; k < kernel; k++) {
      at += dilation;
      v = join(op, v, four(at, stride));
    }
    if (op == L2) v = f32x4.sqrt(v);
    if (op == AVERAGE) {
      const count = f32x4.convert_i32x4_s(o + 4 <= p.outW ? v128.load(p.countW + (<usize>o << 2)) : partial(p.countW, o, p.outW));
      v = f32x4.div(v, f32x4.mul(count, counted));
    }
    const to = y + (<usize>o << 2);
    const left = p.outW - o;
    if (left >= 4) v128.store(to, v);
    else {
      v128.store32_lane(to, v, 0);
      if (left > 1) v128.store32_lane(to, v, 1, 4);
      if (left > 2) v128.store32_lane(to, v, 2, 8);
    }
  }
}

// @ts-ignore: decorator
@inline
function partial(list: usize, from: i32, length: i32): v128 {
  let v = v128.load32_zero(list + (<usize>from << 2));
  if (from + 1 < length) v = v128.load32_lane(list + (<usize>(from + 1) << 2), v, 1);
  if (from + 2 < length) v = v128.load32_lane(list + (<usize>(from + 2) << 2), v, 2);
  return v;
}

// @ts-ignore: decorator
@inline
function pool(op: i32, p: PoolF32, begin: i32, end: i32, scratch: usize): void {
  // Floats that across() may read: the outputs rounded up to a vector, their windows, and a vector that stride 2 reads over.
  const length = (((p.outW + 3) & ~3) - 1) * p.strideW + (p.kernelW - 1) * p.dilationW + 1 + 8;
  const skip = min(p.padW, length);
  const used = max(min(p.inW, length - skip), 0);
  for (let u = begin; u < end; u++) {
    const h = u % p.outH;
    const rest = u / p.outH;
    const d = rest % p.outD;
    const plane = rest / p.outD;
    const identity = op == MAX ? splat(-Infinity) : splat(0);
    for (let i = 0; i < length; i += 4) v128.store(scratch + (<usize>i << 2), identity);
    const volume = p.x + (<usize>plane * <usize>(p.inD * p.inH * p.inW) << 2);
    for (let kd = 0; kd < p.kernelD; kd++) {
      const z = d * p.strideD - p.padD + kd * p.dilationD;
      if (z < 0 || z >= p.inD) continue;
      for (let kh = 0; kh < p.kernelH; kh++) {
        const row = h * p.strideH - p.padH + kh * p.dilationH;
        if (row < 0 || row >= p.inH) continue;
        joinRow(op, scratch + (<usize>skip << 2), volume + (<usize>((z * p.inH + row) * p.inW) << 2), used);
      }
    }
    let rows = 1;
    if (op == AVERAGE) rows = load<i32>(p.countD + (<usize>d << 2)) * load<i32>(p.countH + (<usize>h << 2));
    across(op, p, scratch, p.y + (<usize>u * <usize>p.outW << 2), rows);
  }
}

export function poolF32(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<PoolF32>(params);
  switch (p.op) {
    case MAX: pool(MAX, p, begin, end, scratch); break;
    case AVERAGE: pool(AVERAGE, p, begin, end, scratch); break;
    case L1: pool(L1, p, begin, end, scratch); break;
    default: pool(L2, p, begin, end, scratch);
  }
}
