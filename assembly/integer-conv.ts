// Convolutions of 8-bit integers, after the manner of conv.ts: the input becomes padded planes of 16-bit differences from
// its zero point, so that padding is zero and windows are reached by offsets alone.
//
//   integerConv       implicit product: a unit packs the windows of a few panels of 8 pixels as B and sweeps channels
//   integerDepthwise  one input channel an output channel: taps are summed directly, 8 pixels at a time
import { finishIntegers, IntegerResult, sweepIntegers } from './integer-product';

@unmanaged
class PadIntegers {
  x: usize;
  zero: usize;
  y: usize;
  signed: i32;
  depth: i32;
  height: i32;
  width: i32;
  paddedDepth: i32;
  paddedHeight: i32;
  paddedWidth: i32;
  front: i32;
  top: i32;
  left: i32;
}

// @ts-ignore: decorator
@inline
function widen(signed: bool, from: usize, to: usize, n: i32, zero: i32): void {
  const z = i16x8.splat(<i16>zero);
  for (; n >= 8; n -= 8, from += 8, to += 16) {
    const r = v128.load64_zero(from);
    v128.store(to, i16x8.sub(signed ? i16x8.extend_low_i8x16_s(r) : i16x8.extend_low_i8x16_u(r), z));
  }
  for (; n > 0; --n, ++from, to += 2) store<i16>(to, (signed ? <i32>load<i8>(from) : <i32>load<u8>(from)) - zero);
}

/** x − zero as 16-bit integers, zeros around every plane. Units: planes. */
export function padIntegers(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<PadIntegers>(params);
  const plane = p.depth * p.height * p.width;
  const paddedPlane = <usize>(p.paddedDepth * p.paddedHeight) * p.paddedWidth;
  let zero: i32 = 0;
  if (p.zero) zero = p.signed ? <i32>load<i8>(p.zero) : <i32>load<u8>(p.zero);
  for (let u = begin; u < end; u++) {
    let from = p.x + <usize>u * plane;
    const to = p.y + ((<usize>u * paddedPlane) << 1);
    if (paddedPlane != <usize>plane) memory.fill(to, 0, paddedPlane << 1);
    for (let d = 0; d < p.depth; d++) {
      for (let h = 0; h < p.height; h++) {
        const row = ((d + p.front) * p.paddedHeight + h + p.top) * p.paddedWidth + p.left;
        if (p.signed) widen(true, from, to + (<usize>row << 1), p.width, zero);
        else widen(false, from, to + (<usize>row << 1), p.width, zero);
        from += p.width;
      }
    }
  }
}

@unmanaged
class Windows extends IntegerResult {
  /** Padded planes of 16-bit differences. */
  x: usize;
  /** Packed as A, a matrix of m rows a group. */
  w: usize;
  y: usize;
  groups: i32;
  m: i32;
  channels: i32;
  /** Strides of x in elements. */
  imageStride: i32;
  channelStride: i32;
  pixels: i32;
  height: i32;
  width: i32;
  strideDepth: i32;
  strideHeight: i32;
  strideWidth: i32;
  taps: usize;
  tapCount: i32;
  /** Pixel panels a unit packs; output channels a unit computes. */
  panels: i32;
  chunk: i32;
}

/** Output channels swept at a time. */
const BLOCK: i32 = 32;

/** Elements from the start of a channel to the window of pixel `p`, the last one beyond the end. */
// @ts-ignore: decorator
@inline
function windowOffset(c: Windows, p: i32): i32 {
  p = min(p, c.pixels - 1);
  const q = p / c.width;
  const d = q / c.height;
  return (p - q * c.width) * c.strideWidth + (q - d * c.height) * c.strideHeight + d * c.strideDepth;
}

/** 8 neighbours, `step` elements apart: 1 and 2 are vectors. */
// @ts-ignore: decorator
@inline
function eight(s: usize, step: i32): v128 {
  if (step == 1) return v128.load(s);
  return v128.shuffle<i16>(v128.load(s), v128.load(s, 14), 0, 2, 4, 6, 9, 11, 13, 15);
}

// @ts-ignore: decorator
@inline
function packSteps(c: Windows, x: usize, to: usize, step: i32): void {
  const k = c.channels * c.tapCount;
  let base = x;
  let t = 0;
  let held = i16x8.splat(0);
  for (let i = 0; i < k; i++) {
    const v = eight(base + (<usize>load<i32>(c.taps + (<usize>t << 2)) << 1), step);
    if (i & 1) {
      v128.store(to, v128.shuffle<i16>(held, v, 0, 8, 1, 9, 2, 10, 3, 11));
      v128.store(to, v128.shuffle<i16>(held, v, 4, 12, 5, 13, 6, 14, 7, 15), 16);
      to += 32;
    } else held = v;
    if (++t == c.tapCount) {
      t = 0;
      base += <usize>c.channelStride << 1;
    }
  }
  if (k & 1) {
    const none = i16x8.splat(0);
    v128.store(to, v128.shuffle<i16>(held, none, 0, 8, 1, 9, 2, 10, 3, 11));
    v128.store(to, v128.shuffle<i16>(held, none, 4, 12, 5, 13, 6, 14, 7, 15), 16);
  }
}

/** Packs the windows of pixels p … p + 7 as a panel of B. */
function packWindows(c: Windows, x: usize, p: i32, to: usize): void {
  const o0 = windowOffset(c, p);
  let step = windowOffset(c, p + 1) - o0;
  for (let j = 1; j < 8; j++) if (windowOffset(c, p + j) != o0 + j * step) step = 0;
  if (step == 1) {
    packSteps(c, x + (<usize>o0 << 1), to, 1);
    return;
  }
  if (step == 2) {
    packSteps(c, x + (<usize>o0 << 1), to, 2);
    return;
  }
  const k = c.channels * c.tapCount;
  for (let j = 0; j < 8; j++) {
    let base = x + (<usize>windowOffset(c, p + j) << 1);
    let o = to + (<usize>j << 2);
    let t = 0;
    for (let i = 0; i < k; i++) {
      const v = load<i16>(base + (<usize>load<i32>(c.taps + (<usize>t << 2)) << 1));
      if (i & 1) {
        store<i16>(o, v, 2);
        o += 32;
      } else store<i32>(o, <i32>v & 0xffff);
      if (++t == c.tapCount) {
        t = 0;
        base += <usize>c.channelStride << 1;
      }
    }
  }
}

/** Units: images × groups × groups of pixel panels × chunks of output channels. Scratch: 32 × 32 bytes, the panels. */
export function integerConv(params: usize, begin: i32, end: i32, scratch: usize): void {
  const c = changetype<Windows>(params);
  const pairs = (c.channels * c.tapCount + 1) >> 1;
  const panelBytes = <usize>pairs << 5;
  const span = c.panels << 3;
  const spans = (c.pixels + span - 1) / span;
  const chunks = (c.m + c.chunk - 1) / c.chunk;
  const packed = scratch + (BLOCK << 5);
  let held = -1;
  for (let u = begin; u < end; u++) {
    const where = u / chunks;
    const first = (u - where * chunks) * c.chunk;
    const last = min(first + c.chunk, c.m);
    const matrix = where / spans;
    const pixel = (where - matrix * spans) * span;
    const image = matrix / c.groups;
    const group = matrix - image * c.groups;
    const pixelEnd = min(pixel + span, c.pixels);
    if (where != held) {
      held = where;
      const x = c.x + ((<usize>image * c.imageStride + <usize>(group * c.channels) * c.channelStride) << 1);
      let to = packed;
      for (let p = pixel; p < pixelEnd; p += 8, to += panelBytes) packWindows(c, x, p, to);
    }
    for (let row = first; row < last; row += BLOCK) {
      const rows = min(BLOCK, last - row);
      const channel = group * c.m + row;
      const w = c.w + ((<usize>channel * <usize>pairs) << 2);
      let b = packed;
      for (let p = pixel; p < pixelEnd; p += 8, b += panelBytes) {
        sweepIntegers(w, b, scratch, pairs, rows);
        const element = (<usize>matrix * c.m + row) * c.pixels + p;
        finishIntegers(c, scratch, 32, c.y, element, c.pixels, rows, min(8, c.pixels - p), channel, p, 0, 0, channel);
      }
    }
  }
}

/** Units: planes. `groups` is the number of channels. Scratch: a row of sums, to a multiple of 8. */
export function integerDepthwise(params: usize, begin: i32, end: i32, scratch: usize): void {
  const c = changetype<Windows>(params);
  const rows = c.pixels / c.width;
  // Taps of a channel, to an even number.
  const tapBytes = <usize>(c.tapCount + 1 & ~1) << 1;
  const step = c.strideWidth;
  for (let u = begin; u < end; u++) {
    const channel = u % c.groups;
    const w = c.w + <usize>channel * tapBytes;
    const x = c.x + ((<usize>u * c.channelStride) << 1);
    for (let r = 0; r < rows; r++) {
      const d = r / c.height;
      const from = x + (<usize>(d * c.strideDepth + (r - d * c.height) * c.strideHeight) << 1);
      let j = 0;
      if (step <= 2) {
        for (; j + 8 <= c.width; j += 8) {
          let low = i32x4.splat(0), high = i32x4.splat(0);
          const s = from + (<usize>(j * step) << 1);
          for (let t = 0; t < c.tapCount; t++) {
            const v = eight(s + (<usize>load<i32>(c.taps + (<usize>t << 2)) << 1), step);
            const tap = v128.load16_splat(w + (<usize>t << 1));
            low = i32x4.add(low, i32x4.extmul_low_i16x8_s(v, tap));
            high = i32x4.add(high, i32x4.extmul_high_i16x8_s(v, tap));
          }
          v128.store(scratch + (<usize>j << 2), low);
          v128.store(scratch + (<usize>j << 2), high, 16);
        }
      }
      for (; j < c.width; j++) {
        const s = from + (<usize>(j * step) << 1);
        let sum: i32 = 0;
        for (let t = 0; t < c.tapCount; t++) {
          sum += <i32>load<i16>(s + (<usize>load<i32>(c.taps + (<usize>t << 2)) << 1)) * <i32>load<i16>(w + (<usize>t << 1));
        }
        store<i32>(scratch + (<usize>j << 2), sum);
      }
      const element = <usize>u * c.pixels + <usize>r * c.width;
      finishIntegers(c, scratch, 0, c.y, element, 0, 1, c.width, channel, r * c.width, 0, 0, channel);
    }
  }
}
