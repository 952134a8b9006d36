// Depthwise convolutions: one input channel an output channel, so there is no matrix product; the window is summed directly,
// 16 outputs of a row at a time, or for 3×3 windows 4 with all weights in registers. A plane is padded into scratch just
// before it is read, while it is in the cache. Like conv.ts: offsets replace coordinates, products are added in the order of taps, from zero.
import { activateSpan, CLIP, NONE, RELU } from './activation';
import { padPlane } from './conv';
import { at, Epilogue, finish } from './epilogue';
import { clamp, madd } from './math';
import { storeLanes } from './simd';

@unmanaged
class Depthwise extends Epilogue {
  x: usize;
  /** Taps of channel 0, of channel 1, … */
  w: usize;
  y: usize;
  channels: i32;
  /** A plane of x. */
  inDepth: i32;
  inHeight: i32;
  inWidth: i32;
  /** The same with its padding, and where x starts in it. No depth: there is no padding. */
  paddedDepth: i32;
  paddedHeight: i32;
  paddedWidth: i32;
  front: i32;
  top: i32;
  left: i32;
  pixels: i32;
  height: i32;
  width: i32;
  strideDepth: i32;
  strideHeight: i32;
  strideWidth: i32;
  taps: usize;
  tapCount: i32;
}

/** Four inputs of neighbouring outputs; `stride` in floats is a constant of the caller where it is 1 or 2. */
// @ts-ignore: decorator
@inline
function gather(s: usize, stride: i32): v128 {
  if (stride == 1) return v128.load(s);
  if (stride == 2) return v128.shuffle<f32>(v128.load(s), v128.load(s, 12), 0, 2, 5, 7);
  const step = <usize>stride << 2;
  let v = v128.load32_zero(s);
  v = v128.load_lane<f32>(s + step, v, 1);
  v = v128.load_lane<f32>(s + 2 * step, v, 2);
  return v128.load_lane<f32>(s + 3 * step, v, 3);
}

// @ts-ignore: decorator
@inline
function gatherLanes(s: usize, stride: i32, n: i32): v128 {
  const step = <usize>stride << 2;
  let v = v128.load32_zero(s);
  if (n > 1) v = v128.load_lane<f32>(s + step, v, 1);
  if (n > 2) v = v128.load_lane<f32>(s + 2 * step, v, 2);
  return v;
}

/** Bias, and the activations that are bounds; the others follow when the row is done. */
// @ts-ignore: decorator
@inline
function bounded(x: v128, bias: v128, low: v128, high: v128): v128 {
  return clamp(f32x4.add(x, bias), low, high);
}

/** One row of outputs. */
// @ts-ignore: decorator
@inline
function row(x: usize, w: usize, y: usize, width: i32, stride: i32, taps: usize, tapCount: i32, bias: v128, low: v128, high: v128): void {
  const tapsEnd = taps + (<usize>tapCount << 2);
  const step = <usize>stride << 4;
  let j = 0;
  for (; j + 16 <= width; j += 16) {
    let c0 = f32x4.splat(0), c1 = f32x4.splat(0), c2 = f32x4.splat(0), c3 = f32x4.splat(0);
    let v = w;
    for (let t = taps; t != tapsEnd; t += 4) {
      const s = x + (<usize>load<i32>(t) << 2);
      const a = v128.load32_splat(v);
      c0 = madd(a, gather(s, stride), c0);
      c1 = madd(a, gather(s + step, stride), c1);
      c2 = madd(a, gather(s + 2 * step, stride), c2);
      c3 = madd(a, gather(s + 3 * step, stride), c3);
      v += 4;
    }
    v128.store(y, bounded(c0, bias, low, high));
    v128.store(y, bounded(c1, bias, low, high), 16);
    v128.store(y, bounded(c2, bias, low, high), 32);
    v128.store(y, bounded(c3, bias, low, high), 48);
    x += 4 * step;
    y += 64;
  }
  for (; j < width; j += 4) {
    const n = width - j;
    let c = f32x4.splat(0);
    let v = w;
    for (let t = taps; t != tapsEnd; t += 4) {
      const s = x + (<usize>load<i32>(t) << 2);
      c = madd(v128.load32_splat(v), n >= 4 ? gather(s, stride) : gatherLanes(s, stride, n), c);
      v += 4;
    }
    storeLanes(y, bounded(c, bias, low, high), n);
    x += step;
    y += 16;
  }
}

function row1(x: usize, w: usize, y: usize, width: i32, taps: usize, count: i32, bias: v128, low: v128, high: v128): void {
  row(x, w, y, width, 1, taps, count, bias, low, high);
}
function row2(x: usize, w: usize, y: usize, width: i32, taps: usize, count: i32, bias: v128, low: v128, high: v128): void {
  row(x, w, y, width, 2, taps, count, bias, low, high);
}
function rowAny(x: usize, w: usize, y: usize, width: i32, stride: i32, taps: usize, count: i32, bias: v128, low: v128, high: v128): void {
  row(x, w, y, width, stride, taps, count, bias, low, high);
}

/**
 * One row of a 3×3 window without gaps, at least 4 outputs wide; rows of x are `line` bytes apart. The weights stay in
 * registers; a second row at once would share loads, but spills.
 */
function row3x3(x: usize, line: usize, w: usize, y: usize, width: i32, bias: v128, low: v128, high: v128): void {
  const w0 = v128.load32_splat(w), w1 = v128.load32_splat(w, 4), w2 = v128.load32_splat(w, 8);
  const w3 = v128.load32_splat(w, 12), w4 = v128.load32_splat(w, 16), w5 = v128.load32_splat(w, 20);
  const w6 = v128.load32_splat(w, 24), w7 = v128.load32_splat(w, 28), w8 = v128.load32_splat(w, 32);
  const last = <usize>(width - 4) << 2;
  for (let o: usize = 0; ; o = min(o + 16, last)) {
    const s0 = x + o;
    const s1 = s0 + line;
    const s2 = s1 + line;
    let a = madd(w0, v128.load(s0), f32x4.splat(0));
    a = madd(w1, v128.load(s0, 4), a);
    a = madd(w2, v128.load(s0, 8), a);
    a = madd(w3, v128.load(s1), a);
    a = madd(w4, v128.load(s1, 4), a);
    a = madd(w5, v128.load(s1, 8), a);
    a = madd(w6, v128.load(s2), a);
    a = madd(w7, v128.load(s2, 4), a);
    a = madd(w8, v128.load(s2, 8), a);
    v128.store(y + o, bounded(a, bias, low, high));
    // The last vector may overlap the one before: it computes the same bits again.
    if (o == last) break;
  }
}

/** Two rows of outputs, `line` bytes apart in x: rows of x between them are loaded once. `limits`: bias, low, high. */
function rows3x3(x: usize, line: usize, w: usize, y: usize, rowBytes: usize, width: i32, limits: usize): void {
  const w0 = v128.load32_splat(w), w1 = v128.load32_splat(w, 4), w2 = v128.load32_splat(w, 8);
  const w3 = v128.load32_splat(w, 12), w4 = v128.load32_splat(w, 16), w5 = v128.load32_splat(w, 20);
  const w6 = v128.load32_splat(w, 24), w7 = v128.load32_splat(w, 28), w8 = v128.load32_splat(w, 32);
  const last = <usize>(width - 4) << 2;
  for (let o: usize = 0; ; o = min(o + 16, last)) {
    let s = x + o;
    let v = v128.load(s);
    let a = madd(w0, v, f32x4.splat(0));
    v = v128.load(s, 4);
    a = madd(w1, v, a);
    v = v128.load(s, 8);
    a = madd(w2, v, a);
    s += line;
    v = v128.load(s);
    a = madd(w3, v, a);
    let b = madd(w0, v, f32x4.splat(0));
    v = v128.load(s, 4);
    a = madd(w4, v, a);
    b = madd(w1, v, b);
    v = v128.load(s, 8);
    a = madd(w5, v, a);
    b = madd(w2, v, b);
    s += line;
    v = v128.load(s);
    a = madd(w6, v, a);
    b = madd(w3, v, b);
    v = v128.load(s, 4);
    a = madd(w7, v, a);
    b = madd(w4, v, b);
    v = v128.load(s, 8);
    a = madd(w8, v, a);
    b = madd(w5, v, b);
    s += line;
    v = v128.load(s);
    b = madd(w6, v, b);
    v = v128.load(s, 4);
    b = madd(w7, v, b);
    v = v128.load(s, 8);
    b = madd(w8, v, b);
    const to = y + o;
    v128.store(to, bounded(a, v128.load(limits), v128.load(limits, 16), v128.load(limits, 32)));
    v128.store(to + rowBytes, bounded(b, v128.load(limits), v128.load(limits, 16), v128.load(limits, 32)));
    if (o == last) break;
  }
}

/** The same for windows 2 columns apart. */
function row3x3by2(x: usize, line: usize, w: usize, y: usize, width: i32, bias: v128, low: v128, high: v128): void {
  const w0 = v128.load32_splat(w), w1 = v128.load32_splat(w, 4), w2 = v128.load32_splat(w, 8);
  const w3 = v128.load32_splat(w, 12), w4 = v128.load32_splat(w, 16), w5 = v128.load32_splat(w, 20);
  const w6 = v128.load32_splat(w, 24), w7 = v128.load32_splat(w, 28), w8 = v128.load32_splat(w, 32);
  const last = <usize>(width - 4) << 2;
  for (let o: usize = 0; ; o = min(o + 16, last)) {
    const s0 = x + 2 * o;
    const s1 = s0 + line;
    const s2 = s1 + line;
    // Columns 0 … 7 are two vectors; 2 … 8 reach no further than the last window.
    let p = v128.load(s0), q = v128.load(s0, 16);
    let a = madd(w0, v128.shuffle<f32>(p, q, 0, 2, 4, 6), f32x4.splat(0));
    a = madd(w1, v128.shuffle<f32>(p, q, 1, 3, 5, 7), a);
    a = madd(w2, v128.shuffle<f32>(v128.load(s0, 8), v128.load(s0, 20), 0, 2, 5, 7), a);
    p = v128.load(s1);
    q = v128.load(s1, 16);
    a = madd(w3, v128.shuffle<f32>(p, q, 0, 2, 4, 6), a);
    a = madd(w4, v128.shuffle<f32>(p, q, 1, 3, 5, 7), a);
    a = madd(w5, v128.shuffle<f32>(v128.load(s1, 8), v128.load(s1, 20), 0, 2, 5, 7), a);
    p = v128.load(s2);
    q = v128.load(s2, 16);
    a = madd(w6, v128.shuffle<f32>(p, q, 0, 2, 4, 6), a);
    a = madd(w7, v128.shuffle<f32>(p, q, 1, 3, 5, 7), a);
    a = madd(w8, v128.shuffle<f32>(v128.load(s2, 8), v128.load(s2, 20), 0, 2, 5, 7), a);
    v128.store(y + o, bounded(a, bias, low, high));
    if (o == last) break;
  }
}

/** True when the taps are three rows of three neighbours, the rows equally far apart. */
function is3x3(c: Depthwise): bool {
  if (c.tapCount != 9) return false;
  const line = load<i32>(c.taps, 12);
  for (let i = 0; i < 9; i++) {
    if (load<i32>(c.taps + (<usize>i << 2)) != (i / 3) * line + (i % 3)) return false;
  }
  return true;
}

/** Units: planes, images × channels. */
export function depthwise(params: usize, begin: i32, end: i32, scratch: usize): void {
  const c = changetype<Depthwise>(params);
  const rowBytes = <usize>c.width << 2;
  const rows = c.pixels / c.width;
  const three = c.strideWidth <= 2 && c.width >= 4 && is3x3(c);
  const line = three ? <usize>load<i32>(c.taps, 12) << 2 : 0;
  const pairs = three && c.strideWidth == 1 && c.height == rows && <usize>c.strideHeight << 2 == line;
  const planeBytes = (<usize>c.inDepth * <usize>c.inHeight * <usize>c.inWidth) << 2;
  // Scratch: bias and bounds, then a padded plane.
  const padded = scratch + 64;
  const kind = c.activation;
  // What is neither a bias nor a bound is applied to the plane when it is done.
  const simple = c.residual == 0 && c.scale == 1;
  const bounds = simple && (kind == RELU || kind == CLIP);
  const low = f32x4.splat(bounds ? (kind == RELU ? 0 : c.alpha) : -Infinity);
  const high = f32x4.splat(bounds && kind == CLIP ? c.beta : Infinity);
  for (let u = begin; u < end; u++) {
    const channel = u % c.channels;
    let x = c.x + <usize>u * planeBytes;
    if (c.paddedDepth != 0) {
      padPlane(
        x, padded, c.inDepth, c.inHeight, c.inWidth,
        c.paddedDepth, c.paddedHeight, c.paddedWidth, c.front, c.top, c.left,
      );
      x = padded;
    }
    const w = c.w + ((<usize>channel * <usize>c.tapCount) << 2);
    const plane = c.y + ((<usize>u * <usize>c.pixels) << 2);
    const biasAt = at(c.bias, channel, c.biasRow, 0, 0);
    const bias = simple && biasAt != 0 ? v128.load32_splat(biasAt) : f32x4.splat(0);
    let y = plane;
    v128.store(scratch, bias);
    v128.store(scratch, low, 16);
    v128.store(scratch, high, 32);
    for (let r = 0; r < rows; r++) {
      const d = r / c.height;
      const s = x + (<usize>(d * c.strideDepth + (r - d * c.height) * c.strideHeight) << 2);
      if (pairs && r + 1 < rows) {
        rows3x3(s, line, w, y, rowBytes, c.width, scratch);
        y += rowBytes;
        r++;
      } else if (three && c.strideWidth == 1) row3x3(s, line, w, y, c.width, bias, low, high);
      else if (three) row3x3by2(s, line, w, y, c.width, bias, low, high);
      else if (c.strideWidth == 1) row1(s, w, y, c.width, c.taps, c.tapCount, bias, low, high);
      else if (c.strideWidth == 2) row2(s, w, y, c.width, c.taps, c.tapCount, bias, low, high);
      else rowAny(s, w, y, c.width, c.strideWidth, c.taps, c.tapCount, bias, low, high);
      y += rowBytes;
    }
    if (!simple) finish(c, plane, 0, plane, 0, 1, c.pixels, biasAt, at(c.residual, u, c.residualRow, 0, 0));
    else if (!bounds && kind != NONE) activateSpan(kind, plane, plane, c.pixels, c.alpha, c.beta);
  }
}
