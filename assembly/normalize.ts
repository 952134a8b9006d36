// Normalizations of float32. rowNorm: rows of n contiguous floats, each brought to mean 0 and variance 1 (or root mean
// square 1), then scaled and shifted. Sums run in 16 lanes by position in the row and are joined in a fixed order: a
// row's bits depend on its length alone. channelNorm: y = x · a + b with a and b of the channel. lrn: across channels.
import { exp, log, splat } from './math';
import { activateSpan, NONE } from './activation';

@unmanaged
class RowNorm {
  x: usize;
  y: usize;
  /** Scale and bias, or 0. */
  scale: usize;
  bias: usize;
  /** Mean and 1 / standard deviation of each row, or 0. */
  mean: usize;
  inverse: usize;
  n: i32;
  /** 1: without mean (RMS). */
  rms: i32;
  epsilon: f32;
  /** How a row finds its scale: element i uses scale[(row % cycle) · perRow + i / span]. */
  cycle: i32;
  perRow: i32;
  span: i32;
}

// @ts-ignore: decorator
@inline
function joined(a: v128, b: v128, c: v128, d: v128, t: v128): f32 {
  let v = f32x4.add(f32x4.add(a, b), f32x4.add(c, d));
  v = f32x4.add(v, v128.shuffle<f32>(v, v, 2, 3, 0, 1));
  v = f32x4.add(v, v128.shuffle<f32>(v, v, 1, 0, 3, 2));
  return f32x4.extract_lane(f32x4.add(v, t), 0);
}

/** Σ x, or Σ (x − mean)². */
// @ts-ignore: decorator
@inline
function sum(x: usize, n: i32, squared: bool, mean: v128): f32 {
  let a = splat(0);
  let b = a;
  let c = a;
  let d = a;
  let t = a;
  let i = 0;
  for (; i + 16 <= n; i += 16) {
    a = f32x4.add(a, term(v128.load(x), squared, mean));
    b = f32x4.add(b, term(v128.load(x, 16), squared, mean));
    c = f32x4.add(c, term(v128.load(x, 32), squared, mean));
    d = f32x4.add(d, term(v128.load(x, 48), squared, mean));
    x += 64;
  }
  for (; i + 4 <= n; i += 4) {
    a = f32x4.add(a, term(v128.load(x), squared, mean));
    x += 16;
  }
  for (; i < n; i++) {
    t = f32x4.add(t, term(v128.load32_splat(x), squared, mean));
    x += 4;
  }
  return joined(a, b, c, d, t);
}

// @ts-ignore: decorator
@inline
function term(x: v128, squared: bool, mean: v128): v128 {
  if (!squared) return x;
  const d = f32x4.sub(x, mean);
  return f32x4.mul(d, d);
}

/** y = (x − m) · r · scale + bias, scale and bias by element (stride 4 bytes) or constant over the piece (stride 0). */
// @ts-ignore: decorator
@inline
function affine(x: usize, y: usize, n: i32, m: v128, r: v128, scale: usize, bias: usize, each: bool): void {
  let i = 0;
  let s = splat(1);
  let b = splat(0);
  if (!each) {
    if (scale) s = v128.load32_splat(scale);
    if (bias) b = v128.load32_splat(bias);
  }
  for (; i + 4 <= n; i += 4) {
    if (each) {
      if (scale) s = v128.load(scale + (<usize>i << 2));
      if (bias) b = v128.load(bias + (<usize>i << 2));
    }
    const v = f32x4.mul(f32x4.sub(v128.load(x + (<usize>i << 2)), m), r);
    v128.store(y + (<usize>i << 2), f32x4.add(f32x4.mul(v, s), b));
  }
  for (; i < n; i++) {
    if (each) {
      if (scale) s = v128.load32_splat(scale + (<usize>i << 2));
      if (bias) b = v128.load32_splat(bias + (<usize>i << 2));
    }
    const v = f32x4.mul(f32x4.sub(v128.load32_splat(x + (<usize>i << 2)), m), r);
    f32.store(y + (<usize>i << 2), f32x4.extract_lane(f32x4.add(f32x4.mul(v, s), b), 0));
  }
}

export function rowNorm(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<RowNorm>(params);
  const n = p.n;
  const inverseN = <f32>1 / <f32>n;
  for (let u = begin; u < end; u++) {
    const offset = <usize>u * <usize>n << 2;
    const x = p.x + offset;
    const y = p.y + offset;
    const zero = splat(0);
    const mean: f32 = p.rms ? 0 : sum(x, n, false, zero) * inverseN;
    const m = splat(mean);
    const variance = sum(x, n, true, m) * inverseN;
    const inverse = <f32>1 / sqrt<f32>(variance + p.epsilon);
    if (p.mean) f32.store(p.mean + (<usize>u << 2), mean);
    if (p.inverse) f32.store(p.inverse + (<usize>u << 2), inverse);
    const r = splat(inverse);
    const first = <usize>((u % p.cycle) * p.perRow) << 2;
    if (p.span == 1) {
      affine(x, y, n, m, r, p.scale ? p.scale + first : 0, p.bias ? p.bias + first : 0, true);
    } else {
      const pieces = n / p.span;
      for (let k = 0; k < pieces; k++) {
        const at = <usize>(k * p.span) << 2;
        const channel = first + (<usize>k << 2);
        affine(x + at, y + at, p.span, m, r, p.scale ? p.scale + channel : 0, p.bias ? p.bias + channel : 0, false);
      }
    }
  }
}

@unmanaged
class ChannelNorm {
  x: usize;
  y: usize;
  scale: usize;
  bias: usize;
  mean: usize;
  variance: usize;
  channels: i32;
  /** Elements of one channel beside each other. */
  inner: i32;
  epsilon: f32;
  activation: i32;
  alpha: f32;
  beta: f32;
}

/** Batch normalization in inference. Units: planes (image, channel). */
export function channelNorm(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<ChannelNorm>(params);
  const inner = p.inner;
  for (let u = begin; u < end; u++) {
    const channel = <usize>(u % p.channels) << 2;
    const scale = f32.load(p.scale + channel) / sqrt<f32>(f32.load(p.variance + channel) + p.epsilon);
    const a = splat(scale);
    const b = splat(f32.load(p.bias + channel) - f32.load(p.mean + channel) * scale);
    const offset = <usize>u * <usize>inner << 2;
    const x = p.x + offset;
    const y = p.y + offset;
    let i = 0;
    for (; i + 4 <= inner; i += 4) {
      v128.store(y + (<usize>i << 2), f32x4.add(f32x4.mul(v128.load(x + (<usize>i << 2)), a), b));
    }
    for (; i < inner; i++) {
      const v = f32x4.add(f32x4.mul(v128.load32_splat(x + (<usize>i << 2)), a), b);
      f32.store(y + (<usize>i << 2), f32x4.extract_lane(v, 0));
    }
    if (p.activation != NONE) activateSpan(p.activation, y, y, inner, p.alpha, p.beta);
  }
}

@unmanaged
class Lrn {
  x: usize;
  y: usize;
  channels: i32;
  inner: i32;
  size: i32;
  alpha: f32;
  beta: f32;
  bias: f32;
}

/** x / (bias + alpha / size · Σ x²)^beta over neighbouring channels. Units: planes. */
export function lrn(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<Lrn>(params);
  const inner = p.inner;
  const below = (p.size - 1) >> 1;
  const above = p.size - 1 - below;
  const factor = splat(p.alpha / <f32>p.size);
  const bias = splat(p.bias);
  const power = splat(-p.beta);
  for (let u = begin; u < end; u++) {
    const channel = u % p.channels;
    const low = max(channel - below, 0) - channel;
    const high = min(channel + above, p.channels - 1) - channel;
    const plane = <usize>u * <usize>inner << 2;
    for (let i = 0; i < inner; i += 4) {
      const whole = i + 4 <= inner;
      // The last few one by one.
      const last = whole ? i + 1 : inner;
      for (let j = i; j < last; j++) {
        const at = p.x + plane + (<usize>j << 2);
        let s = splat(0);
        for (let c = low; c <= high; c++) {
          const from = at + (c * inner << 2);
          const v = whole ? v128.load(from) : v128.load32_splat(from);
          s = f32x4.add(s, f32x4.mul(v, v));
        }
        const x = whole ? v128.load(at) : v128.load32_splat(at);
        const base = f32x4.add(bias, f32x4.mul(factor, s));
        const v = f32x4.mul(x, exp(f32x4.mul(power, log(base))));
        const to = p.y + plane + (<usize>j << 2);
        if (whole) v128.store(to, v);
        else f32.store(to, f32x4.extract_lane(v, 0));
      }
    }
  }
}
