// Convolutions of up to three spatial dimensions over an input that is padded already. Offsets replace coordinates: tap t
// of the window at output pixel p reads x[offset(p) + taps[t]], whatever the dimensions, strides and dilations are.
//
//   conv       implicit matrix product, per image and group: W [m, k] · X [k, pixels], k = (channel, tap). A unit packs
//              the columns of a few panels of 8 pixels into scratch and sweeps output channels over them; the whole
//              matrix of columns never exists.
//   col2im     the second half of a transposed convolution
//   interleave the same where windows of width 2 lie side by side
//
// The products of an output element are added in the order of k, from zero. One input channel an output channel is
// depthwise.ts.
import { at, Epilogue, finish, hasEpilogue } from './epilogue';
import { loadLanes, storeLanes } from './simd';
import { sweep, sweepPair, sweepTall } from './tile';

@unmanaged
class PadSpatial {
  x: usize;
  y: usize;
  /** Rows of x a unit's plane has, in depth and height. */
  depth: i32;
  height: i32;
  width: i32;
  /** The same of y, and where x starts in it. */
  paddedDepth: i32;
  paddedHeight: i32;
  paddedWidth: i32;
  front: i32;
  top: i32;
  left: i32;
}

/** n zeros. */
function clear(p: usize, n: i32): void {
  for (; n >= 4; n -= 4, p += 16) v128.store(p, f32x4.splat(0));
  if (n > 0) storeLanes(p, f32x4.splat(0), n);
}

/** n floats. */
function copy(to: usize, from: usize, n: i32): void {
  for (; n >= 4; n -= 4, to += 16, from += 16) v128.store(to, v128.load(from));
  if (n > 0) storeLanes(to, loadLanes(from, n), n);
}

/** One plane and zeros around it. */
export function padPlane(
  from: usize, to: usize, depth: i32, height: i32, width: i32,
  paddedDepth: i32, paddedHeight: i32, paddedWidth: i32, front: i32, top: i32, left: i32,
): void {
  const right = left + width;
  for (let d = 0; d < paddedDepth; d++) {
    const inDepth = d >= front && d < front + depth;
    for (let h = 0; h < paddedHeight; h++) {
      if (inDepth && h >= top && h < top + height) {
        clear(to, left);
        copy(to + (<usize>left << 2), from, width);
        clear(to + (<usize>right << 2), paddedWidth - right);
        from += <usize>width << 2;
      } else {
        clear(to, paddedWidth);
      }
      to += <usize>paddedWidth << 2;
    }
  }
}

/** Zeros around every plane of x. Units: planes. */
export function padSpatial(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<PadSpatial>(params);
  const planeBytes = (<usize>p.depth * <usize>p.height * <usize>p.width) << 2;
  const paddedBytes = (<usize>p.paddedDepth * <usize>p.paddedHeight * <usize>p.paddedWidth) << 2;
  for (let u = begin; u < end; u++) {
    padPlane(
      p.x + <usize>u * planeBytes, p.y + <usize>u * paddedBytes, p.depth, p.height, p.width,
      p.paddedDepth, p.paddedHeight, p.paddedWidth, p.front, p.top, p.left,
    );
  }
}

@unmanaged
class Conv extends Epilogue {
  x: usize;
  /** Packed as A, a matrix of m×k a group. */
  w: usize;
  y: usize;
  groups: i32;
  /** Output channels and input channels of a group. */
  m: i32;
  channels: i32;
  /** Strides of x in floats: from image to image, channel to channel. */
  imageStride: i32;
  channelStride: i32;
  /** Output pixels of an image, its rows and columns, and how far apart neighbours' windows are in x. */
  pixels: i32;
  height: i32;
  width: i32;
  strideDepth: i32;
  strideHeight: i32;
  strideWidth: i32;
  taps: usize;
  tapCount: i32;
  /** Pixel panels a unit packs; output channels a unit computes, and those it sweeps at a time. */
  panels: i32;
  chunk: i32;
  block: i32;
  /** Rows of a panel of W, 4 or 6, and panels of pixels taken at a time, 1 or 2. */
  tall: i32;
  wide: i32;
}

/**
 * W's rows times `taken` panels of 8 columns side by side, `panel` bytes apart; a panel's products go to `c`, rows `ldc`
 * bytes apart, the next one's `gap` bytes behind. With all the tiles the same bits.
 */
// @ts-ignore: decorator
@inline
export function multiplyPanels(
  w: usize, b: usize, panel: usize, taken: i32, c: usize, gap: usize, ldc: usize, k: i32, rows: i32, tall: i32, wide: i32,
): void {
  for (; wide == 2 && taken > 1; taken -= 2) {
    sweepPair(w, b, panel, c, gap, ldc, k, rows, tall);
    b += panel << 1;
    c += gap << 1;
  }
  for (; taken > 0; --taken) {
    if (tall == 6) sweepTall(w, b, c, ldc, k, rows);
    else sweep(w, b, c, ldc, k, rows);
    b += panel;
    c += gap;
  }
}

/** Floats from the start of a channel to the window of pixel `p`, the last one beyond the end. */
// @ts-ignore: decorator
@inline
function windowOffset(c: Conv, p: i32): i32 {
  p = min(p, c.pixels - 1);
  const q = p / c.width;
  const d = q / c.height;
  return (p - q * c.width) * c.strideWidth + (q - d * c.height) * c.strideHeight + d * c.strideDepth;
}

/** Packs columns p … p + 3 of the matrix of windows: four floats every 32 bytes. */
function packHalf(c: Conv, x: usize, p: i32, to: usize): void {
  const o0 = windowOffset(c, p);
  const o1 = windowOffset(c, p + 1);
  const o2 = windowOffset(c, p + 2);
  const o3 = windowOffset(c, p + 3);
  const taps = c.taps;
  const tapsEnd = taps + (<usize>c.tapCount << 2);
  const step = <usize>c.channelStride << 2;
  let base = x + (<usize>o0 << 2);
  if (o1 - o0 == 1 && o2 - o1 == 1 && o3 - o2 == 1) {
    for (let i = c.channels; i > 0; --i) {
      for (let t = taps; t != tapsEnd; t += 4) {
        v128.store(to, v128.load(base + (<usize>load<i32>(t) << 2)));
        to += 32;
      }
      base += step;
    }
  } else if (o1 - o0 == 2 && o2 - o1 == 2 && o3 - o2 == 2) {
    for (let i = c.channels; i > 0; --i) {
      for (let t = taps; t != tapsEnd; t += 4) {
        const s = base + (<usize>load<i32>(t) << 2);
        v128.store(to, v128.shuffle<f32>(v128.load(s), v128.load(s, 12), 0, 2, 5, 7));
        to += 32;
      }
      base += step;
    }
  } else {
    const d1 = <usize>(o1 - o0) << 2;
    const d2 = <usize>(o2 - o0) << 2;
    const d3 = <usize>(o3 - o0) << 2;
    for (let i = c.channels; i > 0; --i) {
      for (let t = taps; t != tapsEnd; t += 4) {
        const s = base + (<usize>load<i32>(t) << 2);
        let v = v128.load32_zero(s);
        v = v128.load_lane<f32>(s + d1, v, 1);
        v = v128.load_lane<f32>(s + d2, v, 2);
        v = v128.load_lane<f32>(s + d3, v, 3);
        v128.store(to, v);
        to += 32;
      }
      base += step;
    }
  }
}

/** Packs whole panels of pixels that are neighbours in a row, channel by channel: every line of x is touched once a tap. */
function packSpan(c: Conv, x: usize, p: i32, panels: i32, to: usize, panelBytes: usize): void {
  const tapsEnd = c.taps + (<usize>c.tapCount << 2);
  const step = <usize>c.channelStride << 2;
  let base = x + (<usize>windowOffset(c, p) << 2);
  for (let i = c.channels; i > 0; --i) {
    for (let t = c.taps; t != tapsEnd; t += 4) {
      let s = base + (<usize>load<i32>(t) << 2);
      let d = to;
      for (let q = panels; q > 0; --q) {
        v128.store(d, v128.load(s));
        v128.store(d, v128.load(s, 16), 16);
        s += 32;
        d += panelBytes;
      }
      to += 32;
    }
    base += step;
  }
}

/** Panels whose outputs are stored together: rows of y lie far apart, so each is written in long pieces. */
const TOGETHER: i32 = 8;

/** Units: images × groups × groups of pixel panels × chunks of output channels. */
export function conv(params: usize, begin: i32, end: i32, scratch: usize): void {
  const c = changetype<Conv>(params);
  const k = c.channels * c.tapCount;
  const panelBytes = <usize>k << 5;
  const pixels = c.pixels;
  const span = c.panels << 3;
  const spans = (pixels + span - 1) / span;
  const chunks = (c.m + c.chunk - 1) / c.chunk;
  const ldy = <usize>pixels << 2;
  const ldt: usize = TOGETHER << 5;
  // Scratch: a block of outputs of some panels, then the packed panels.
  const packed = scratch + <usize>c.block * ldt;
  let held = -1;
  for (let u = begin; u < end; u++) {
    const where = u / chunks;
    const first = (u - where * chunks) * c.chunk;
    const last = min(first + c.chunk, c.m);
    const matrix = where / spans;
    const pixel = (where - matrix * spans) * span;
    const image = matrix / c.groups;
    const group = matrix - image * c.groups;
    const pixelEnd = min(pixel + span, pixels);
    if (where != held) {
      held = where;
      const x = c.x + ((<usize>image * <usize>c.imageStride + <usize>(group * c.channels) * <usize>c.channelStride) << 2);
      let p = pixel;
      let to = packed;
      if (c.strideWidth == 1 && pixel % c.width + (pixelEnd - pixel) <= c.width) {
        const whole = (pixelEnd - pixel) >> 3;
        packSpan(c, x, p, whole, to, panelBytes);
        p += whole << 3;
        to += <usize>whole * panelBytes;
      }
      for (; p < pixelEnd; p += 8) {
        packHalf(c, x, p, to);
        packHalf(c, x, p + 4, to + 16);
        to += panelBytes;
      }
    }
    for (let row = first; row < last; row += c.block) {
      const rows = min(c.block, last - row);
      const channel = group * c.m + row;
      const outRow = matrix * c.m + row;
      const w = c.w + ((<usize>channel * <usize>k) << 2);
      let b = packed;
      for (let p = pixel; p < pixelEnd; p += TOGETHER << 3) {
        const columns = min(TOGETHER << 3, pixelEnd - p);
        const taken = (columns + 7) >> 3;
        multiplyPanels(w, b, panelBytes, taken, scratch, 32, ldt, k, rows, c.tall, c.wide);
        b += <usize>taken * panelBytes;
        const y = c.y + ((<usize>outRow * <usize>pixels + <usize>p) << 2);
        const bias = at(c.bias, channel, c.biasRow, p, c.biasColumn);
        const residual = at(c.residual, outRow, c.residualRow, p, c.residualColumn);
        finish(c, scratch, ldt, y, ldy, rows, columns, bias, residual);
      }
    }
  }
}

@unmanaged
class Col2Im extends Epilogue {
  /** [planes, taps, input pixels]. */
  columns: usize;
  /** [planes, output pixels]. */
  y: usize;
  channels: i32;
  inDepth: i32;
  inHeight: i32;
  inWidth: i32;
  depth: i32;
  height: i32;
  width: i32;
  kernelDepth: i32;
  kernelHeight: i32;
  kernelWidth: i32;
  strideDepth: i32;
  strideHeight: i32;
  strideWidth: i32;
  dilationDepth: i32;
  dilationHeight: i32;
  dilationWidth: i32;
  padDepth: i32;
  padHeight: i32;
  padWidth: i32;
}

/** Adds the taps of a transposed convolution where they fall, in the order of taps. Units: planes, images × channels. */
export function col2im(params: usize, begin: i32, end: i32, scratch: usize): void {
  const c = changetype<Col2Im>(params);
  const inPixels = c.inDepth * c.inHeight * c.inWidth;
  const pixels = c.depth * c.height * c.width;
  const taps = c.kernelDepth * c.kernelHeight * c.kernelWidth;
  const step = <usize>c.strideWidth << 2;
  for (let u = begin; u < end; u++) {
    const y = c.y + ((<usize>u * <usize>pixels) << 2);
    let column = c.columns + ((<usize>u * <usize>taps * <usize>inPixels) << 2);
    clear(y, pixels);
    for (let kd = 0; kd < c.kernelDepth; kd++) {
      for (let kh = 0; kh < c.kernelHeight; kh++) {
        for (let kw = 0; kw < c.kernelWidth; kw++) {
          // Input columns whose output column exists: 0 <= iw * stride + shift < width.
          const shift = kw * c.dilationWidth - c.padWidth;
          const from = shift >= 0 ? 0 : (c.strideWidth - 1 - shift) / c.strideWidth;
          const room = c.width - 1 - shift;
          const to = room < 0 ? 0 : min(c.inWidth, room / c.strideWidth + 1);
          for (let id = 0; id < c.inDepth; id++) {
            const od = id * c.strideDepth + kd * c.dilationDepth - c.padDepth;
            for (let ih = 0; ih < c.inHeight; ih++) {
              const oh = ih * c.strideHeight + kh * c.dilationHeight - c.padHeight;
              if (od >= 0 && od < c.depth && oh >= 0 && oh < c.height) {
                let s = column + (<usize>from << 2);
                const stop = column + (<usize>to << 2);
                let o = y + (<usize>((od * c.height + oh) * c.width + from * c.strideWidth + shift) << 2);
                for (; s < stop; s += 4, o += step) f32.store(o, f32.load(o) + f32.load(s));
              }
              column += <usize>c.inWidth << 2;
            }
          }
        }
      }
    }
    if (hasEpilogue(c)) {
      const bias = at(c.bias, u % c.channels, c.biasRow, 0, 0);
      finish(c, y, 0, y, 0, 1, pixels, bias, at(c.residual, u, c.residualRow, 0, 0));
    }
  }
}

@unmanaged
class Interleave extends Epilogue {
  /** [planes, kernelHeight · 2 taps, input pixels]. */
  columns: usize;
  /** [planes, inHeight · kernelHeight, inWidth · 2]. */
  y: usize;
  channels: i32;
  inHeight: i32;
  inWidth: i32;
  kernelHeight: i32;
}

/** Taps of windows that lie side by side, 2 wide: nothing is added, rows are woven. Units: planes × input rows. */
export function interleave(params: usize, begin: i32, end: i32, scratch: usize): void {
  const c = changetype<Interleave>(params);
  const width = c.inWidth;
  const tapBytes = <usize>(c.inHeight * width) << 2;
  const rowBytes = <usize>width << 3;
  let y = c.y + <usize>begin * <usize>c.kernelHeight * rowBytes;
  for (let u = begin; u < end; u++) {
    const plane = u / c.inHeight;
    let even = c.columns + <usize>(plane * c.kernelHeight * 2) * tapBytes + ((<usize>((u - plane * c.inHeight) * width)) << 2);
    const bias = at(c.bias, plane % c.channels, c.biasRow, 0, 0);
    for (let r = 0; r < c.kernelHeight; r++) {
      const odd = even + tapBytes;
      let o: usize = 0;
      let j = 0;
      for (; j + 4 <= width; j += 4, o += 16) {
        const a = v128.load(even + o);
        const b = v128.load(odd + o);
        v128.store(y + 2 * o, v128.shuffle<f32>(a, b, 0, 4, 1, 5));
        v128.store(y + 2 * o, v128.shuffle<f32>(a, b, 2, 6, 3, 7), 16);
      }
      for (; j < width; j++, o += 4) {
        f32.store(y + 2 * o, f32.load(even + o));
        f32.store(y + 2 * o, f32.load(odd + o), 4);
      }
      if (hasEpilogue(c)) finish(c, y, 0, y, 0, 1, width << 1, bias, 0);
      even = odd + tapBytes;
      y += rowBytes;
    }
  }
}
