// Kernels that interpolate float32 images: one axis of Resize by a table of taps, GridSample, RoiAlign. Sums run over the
// taps in order; vector bodies and scalar tails do the same single multiplications and additions, so that both give the
// same bits (no fused multiply-add here).

// @ts-ignore: decorator
@unmanaged
class ResampleParams {
  input: usize;
  output: usize;
  indices: usize;
  weights: usize;
  n: i32;
  count: i32;
  taps: i32;
  inner: i32;
  outside: f32;
}

/** A whole line by two taps an element: linear interpolation along the innermost axis. */
// @ts-ignore: decorator
@inline
function line2(from: usize, to: usize, index: usize, weight: usize, count: i32, outside: f32): void {
  for (let i = 0; i < count; i++) {
    const first = load<i32>(index);
    store<f32>(
      to,
      first < 0
        ? outside
        : load<f32>(weight) * load<f32>(from + (first << 2)) +
            load<f32>(weight, 4) * load<f32>(from + (load<i32>(index, 4) << 2)),
    );
    index += 8;
    weight += 8;
    to += 4;
  }
}

/** A row as a mixture of two rows. */
// @ts-ignore: decorator
@inline
function mix2(a: usize, b: usize, to: usize, wa: f32, wb: f32, n: i32): void {
  const va = f32x4.splat(wa);
  const vb = f32x4.splat(wb);
  let k: i32 = 0;
  for (; k <= n - 4; k += 4) {
    const at = k << 2;
    v128.store(to + at, f32x4.add(f32x4.mul(va, v128.load(a + at)), f32x4.mul(vb, v128.load(b + at))));
  }
  for (; k < n; k++) store<f32>(to + (k << 2), wa * load<f32>(a + (k << 2)) + wb * load<f32>(b + (k << 2)));
}

export function resample(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<ResampleParams>(params);
  const n = p.n;
  const count = p.count;
  const taps = p.taps;
  const inner = p.inner;
  if (inner == 1) {
    for (let u = begin; u < end; u++) {
      const from = p.input + ((<usize>u * n) << 2);
      const to = p.output + ((<usize>u * count) << 2);
      let index = p.indices;
      let weight = p.weights;
      if (taps == 2) {
        line2(from, to, index, weight, count, p.outside);
        continue;
      }
      for (let i = 0; i < count; i++) {
        let sum: f32 = 0;
        if (load<i32>(index) < 0) sum = p.outside;
        else {
          for (let t = 0; t < taps; t++) {
            sum += load<f32>(weight + (t << 2)) * load<f32>(from + (load<i32>(index + (t << 2)) << 2));
          }
        }
        store<f32>(to + (i << 2), sum);
        index += taps << 2;
        weight += taps << 2;
      }
    }
    return;
  }
  for (let u = begin; u < end; u++) {
    const o = u / count;
    const i = u - o * count;
    const index = p.indices + ((i * taps) << 2);
    const weight = p.weights + ((i * taps) << 2);
    const from = p.input + ((<usize>o * n * inner) << 2);
    const to = p.output + ((<usize>u * inner) << 2);
    if (load<i32>(index) < 0) {
      for (let k = 0; k < inner; k++) store<f32>(to + (k << 2), p.outside);
      continue;
    }
    if (taps == 2) {
      const a = from + ((load<i32>(index) * inner) << 2);
      const b = from + ((load<i32>(index, 4) * inner) << 2);
      mix2(a, b, to, load<f32>(weight), load<f32>(weight, 4), inner);
      continue;
    }
    let k: i32 = 0;
    for (; k <= inner - 4; k += 4) {
      let sum = f32x4.splat(0);
      for (let t = 0; t < taps; t++) {
        const row = from + ((load<i32>(index + (t << 2)) * inner + k) << 2);
        sum = f32x4.add(sum, f32x4.mul(v128.load32_splat(weight + (t << 2)), v128.load(row)));
      }
      v128.store(to + (k << 2), sum);
    }
    for (; k < inner; k++) {
      let sum: f32 = 0;
      for (let t = 0; t < taps; t++) {
        sum += load<f32>(weight + (t << 2)) * load<f32>(from + ((load<i32>(index + (t << 2)) * inner + k) << 2));
      }
      store<f32>(to + (k << 2), sum);
    }
  }
}

// @ts-ignore: decorator
@unmanaged
class GridSampleParams {
  input: usize;
  grid: usize;
  output: usize;
  channels: i32;
  height: i32;
  width: i32;
  outHeight: i32;
  outWidth: i32;
  mode: i32;
  padding: i32;
  alignCorners: i32;
}

/** A grid coordinate in [−1, 1] as a pixel coordinate. */
// @ts-ignore: decorator
@inline
function toPixel(x: f32, n: i32, alignCorners: i32): f32 {
  return alignCorners ? ((x + 1) / 2) * <f32>(n - 1) : ((x + 1) * <f32>n - 1) / 2;
}

/** Reflects a coordinate into [low, high]. */
// @ts-ignore: decorator
@inline
function reflect(x: f32, low: f32, high: f32): f32 {
  const span = high - low;
  if (span <= 0) return low;
  const d = x < low ? low - x : x - low;
  const turns = floor<f32>(d / span);
  const rest = d - turns * span;
  const odd = turns - 2 * floor<f32>(turns / 2) != 0;
  return odd ? high - rest : low + rest;
}

/** The pixel that stands for coordinate i, −1 for none. */
// @ts-ignore: decorator
@inline
function pixel(i: f32, n: i32, padding: i32, alignCorners: i32): i32 {
  const most = <f32>(n - 1);
  if (padding == 0) return i >= 0 && i <= most ? <i32>i : -1;
  // NaN and infinities end up at a border, never outside.
  const inside = padding == 1 ? i : alignCorners ? reflect(i, 0, most) : reflect(i, -0.5, <f32>n - 0.5);
  return inside >= 0 ? <i32>min<f32>(inside, most) : 0;
}

// @ts-ignore: decorator
@inline
function cubicWeight(distance: f32): f32 {
  const a: f32 = -0.75;
  const d = abs<f32>(distance);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return 0;
}

/** A point beyond the image's edge moved back by border or reflection padding, before its taps are taken. */
// @ts-ignore: decorator
@inline
function inside(x: f32, n: i32, padding: i32, alignCorners: i32): f32 {
  const low: f32 = alignCorners ? 0 : -0.5;
  const high: f32 = alignCorners ? <f32>(n - 1) : <f32>n - 0.5;
  if (padding == 0 || (x >= low && x <= high)) return x;
  return padding == 1 ? max<f32>(0, min<f32>(x, <f32>(n - 1))) : reflect(x, low, high);
}

export function gridSample(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<GridSampleParams>(params);
  const height = p.height;
  const width = p.width;
  const outWidth = p.outWidth;
  const plane = <usize>height * width;
  const outPlane = <usize>p.outHeight * outWidth;
  const padding = p.padding;
  const align = p.alignCorners;
  const reach = p.mode == 2 ? 4 : p.mode == 1 ? 2 : 1;
  const before: f32 = p.mode == 2 ? 1 : 0;
  for (let u = begin; u < end; u++) {
    const image = u / p.outHeight;
    const row = u - image * p.outHeight;
    let point = p.grid + ((<usize>u * outWidth) << 3);
    for (let i = 0; i < outWidth; i++, point += 8) {
      let x = toPixel(load<f32>(point), width, align);
      let y = toPixel(load<f32>(point, 4), height, align);
      if (p.mode == 0) {
        x = nearest<f32>(x);
        y = nearest<f32>(y);
      }
      x = inside(x, width, padding, align);
      y = inside(y, height, padding, align);
      const x0 = floor<f32>(x) - before;
      const y0 = floor<f32>(y) - before;
      for (let r = 0; r < reach; r++) {
        const yi = y0 + <f32>r;
        const py = pixel(yi, height, padding, align);
        const wy: f32 = p.mode == 0 ? 1 : p.mode == 1 ? 1 - abs<f32>(y - yi) : cubicWeight(y - yi);
        for (let c = 0; c < reach; c++) {
          const xi = x0 + <f32>c;
          const px = pixel(xi, width, padding, align);
          const wx: f32 = p.mode == 0 ? 1 : p.mode == 1 ? 1 - abs<f32>(x - xi) : cubicWeight(x - xi);
          const tap = scratch + ((r * reach + c) << 3);
          store<i32>(tap, px < 0 || py < 0 ? -1 : (py * width + px) << 2);
          store<f32>(tap, wx * wy, 4);
        }
      }
      let from = p.input + ((<usize>image * p.channels * plane) << 2);
      let to = p.output + ((<usize>image * p.channels * outPlane + <usize>row * outWidth + i) << 2);
      for (let c = 0; c < p.channels; c++) {
        let sum: f32 = 0;
        for (let t = 0; t < reach * reach; t++) {
          const offset = load<i32>(scratch + (t << 3));
          if (offset >= 0) sum += load<f32>(scratch + (t << 3), 4) * load<f32>(from + offset);
        }
        store<f32>(to, sum);
        from += plane << 2;
        to += outPlane << 2;
      }
    }
  }
}

// @ts-ignore: decorator
@unmanaged
class RoiAlignParams {
  input: usize;
  rois: usize;
  batch: usize;
  output: usize;
  batches: i32;
  channels: i32;
  height: i32;
  width: i32;
  outHeight: i32;
  outWidth: i32;
  ratio: i32;
  mode: i32;
  scale: f32;
  offset: f32;
  wide: i32;
}

export function roiAlign(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<RoiAlignParams>(params);
  const height = p.height;
  const width = p.width;
  for (let u = begin; u < end; u++) {
    const roi = u / p.channels;
    const channel = u - roi * p.channels;
    const which = p.wide ? load<i64>(p.batch + (roi << 3)) : <i64>load<i32>(p.batch + (roi << 2));
    const image = <i32>max<i64>(0, min<i64>(which, p.batches - 1));
    const from = p.input + ((<usize>(image * p.channels + channel) * height * width) << 2);
    const box = p.rois + (roi << 4);
    const x1 = load<f32>(box) * p.scale - p.offset;
    const y1 = load<f32>(box, 4) * p.scale - p.offset;
    let w = load<f32>(box, 8) * p.scale - p.offset - x1;
    let h = load<f32>(box, 12) * p.scale - p.offset - y1;
    // Half-pixel alignment takes regions as they are; the older one makes them at least a pixel.
    if (p.offset == 0) {
      w = max<f32>(w, 1);
      h = max<f32>(h, 1);
    }
    const binW = w / <f32>p.outWidth;
    const binH = h / <f32>p.outHeight;
    // Hostile boxes do not buy endless work: a bin is sampled at most 1024 times each way.
    const wantX = ceil<f32>(binW);
    const wantY = ceil<f32>(binH);
    const samplesX = p.ratio > 0 ? p.ratio : wantX > 0 ? <i32>min<f32>(wantX, 1024) : 0;
    const samplesY = p.ratio > 0 ? p.ratio : wantY > 0 ? <i32>min<f32>(wantY, 1024) : 0;
    let to = p.output + ((<usize>u * p.outHeight * p.outWidth) << 2);
    for (let i = 0; i < p.outHeight; i++) {
      for (let j = 0; j < p.outWidth; j++, to += 4) {
        let result: f32 = 0;
        let first = true;
        for (let a = 0; a < samplesY; a++) {
          let y = y1 + <f32>i * binH + ((<f32>a + 0.5) * binH) / <f32>samplesY;
          for (let b = 0; b < samplesX; b++) {
            let x = x1 + <f32>j * binW + ((<f32>b + 0.5) * binW) / <f32>samplesX;
            let v: f32 = 0;
            let m: f32 = 0;
            if (y >= -1 && y <= <f32>height && x >= -1 && x <= <f32>width) {
              const cy = min<f32>(max<f32>(y, 0), <f32>(height - 1));
              const cx = min<f32>(max<f32>(x, 0), <f32>(width - 1));
              const yl = <i32>cy;
              const xl = <i32>cx;
              const yh = min(yl + 1, height - 1);
              const xh = min(xl + 1, width - 1);
              const ly: f32 = cy - <f32>yl;
              const lx: f32 = cx - <f32>xl;
              const hy: f32 = <f32>1 - ly;
              const hx: f32 = <f32>1 - lx;
              const q1: f32 = hy * hx * load<f32>(from + ((yl * width + xl) << 2));
              const q2: f32 = hy * lx * load<f32>(from + ((yl * width + xh) << 2));
              const q3: f32 = ly * hx * load<f32>(from + ((yh * width + xl) << 2));
              const q4: f32 = ly * lx * load<f32>(from + ((yh * width + xh) << 2));
              v = q1 + q2 + q3 + q4;
              m = max<f32>(max<f32>(q1, q2), max<f32>(q3, q4));
            }
            if (p.mode == 0) result += v;
            else {
              result = first ? m : max<f32>(result, m);
              first = false;
            }
          }
        }
        if (p.mode == 0) result /= <f32>max(samplesX * samplesY, 1);
        store<f32>(to, result);
      }
    }
  }
}
