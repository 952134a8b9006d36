// Quantization, element by element: y = clamp(round(x / scale) + zero) and back, y = (x − zero) · scale. How to picture
// the operands: x is rows of `width` elements; a row has one scale (per tensor, per axis, blocks along the last axis) or
// one for each of its elements, and the scale of row r lies at
//
//   r / rows · outerStride + (r mod rows) / block · axisStride
//
// with its zero point at the same place of another array. Arithmetic is in float32 with one rounding an operation and
// ties to even, so results equal those of any other implementation to the last bit. DynamicQuantizeLinear finds its
// scale first: blocks of minima and maxima, which no order changes.

/** Elements of a row a unit takes. */
const CHUNK: i32 = 4096;

const INT8: i32 = 0;
const UINT8: i32 = 1;
const INT16: i32 = 2;
const UINT16: i32 = 3;
const INT4: i32 = 5;
const UINT4: i32 = 6;

@unmanaged
class Quantize {
  x: usize;
  scale: usize;
  /** 0: zero points are zero. */
  zero: usize;
  y: usize;
  /** Element type of the quantized side, a code above; 4 is int32. */
  type: i32;
  width: i32;
  /** 1: a scale an element of the row. */
  vector: i32;
  rows: i32;
  block: i32;
  outerStride: i32;
  axisStride: i32;
}

/** Element i of an array of a quantized type. */
// @ts-ignore: decorator
@inline
export function loadInteger(type: i32, p: usize, i: usize): i32 {
  switch (type) {
    case INT8: return load<i8>(p + i);
    case UINT8: return load<u8>(p + i);
    case INT16: return load<i16>(p + (i << 1));
    case UINT16: return load<u16>(p + (i << 1));
    case INT4: return ((<i32>load<u8>(p + (i >> 1)) >> <i32>((i & 1) << 2)) << 28) >> 28;
    case UINT4: return (<i32>load<u8>(p + (i >> 1)) >> <i32>((i & 1) << 2)) & 15;
    default: return load<i32>(p + (i << 2));
  }
}

// @ts-ignore: decorator
@inline
function storeInteger(type: i32, p: usize, i: usize, v: i32): void {
  if (type <= UINT8) store<u8>(p + i, v);
  else store<u16>(p + (i << 1), v);
}

// @ts-ignore: decorator
@inline
function least(type: i32): f32 {
  return type == INT8 ? -128 : type == INT16 ? -32768 : 0;
}

// @ts-ignore: decorator
@inline
function most(type: i32): f32 {
  return type == INT8 ? 127 : type == UINT8 ? 255 : type == INT16 ? 32767 : 65535;
}

/** Where the scale of a row is, in elements. */
// @ts-ignore: decorator
@inline
function scaleOf(p: Quantize, row: i32): usize {
  const outer = row / p.rows;
  return <usize>outer * p.outerStride + <usize>((row - outer * p.rows) / p.block) * p.axisStride;
}

/** round(q) + zero, saturated; NaN is the least value. `low` and `high` are the range less the zero point. */
// @ts-ignore: decorator
@inline
export function saturate4(q: v128, zero: v128, low: v128, high: v128): v128 {
  const kept = f32x4.pmin(high, f32x4.pmax(low, q));
  return i32x4.add(i32x4.trunc_sat_f32x4_s(f32x4.nearest(kept)), zero);
}

// @ts-ignore: decorator
@inline
function quantize4(x: v128, scale: v128, zero: v128, low: v128, high: v128): v128 {
  return saturate4(f32x4.div(x, scale), zero, low, high);
}

/** Four lanes to bytes. */
// @ts-ignore: decorator
@inline
export function storeBytes4(p: usize, v: v128): void {
  v128.store_lane<u32>(p, v128.shuffle<u8>(v, v, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12), 0);
}

// @ts-ignore: decorator
@inline
function quantizeOne(type: i32, x: f32, scale: f32, zero: i32): i32 {
  const z = f32x4.splat(<f32>zero);
  const low = f32x4.sub(f32x4.splat(least(type)), z);
  const high = f32x4.sub(f32x4.splat(most(type)), z);
  return i32x4.extract_lane(quantize4(f32x4.splat(x), f32x4.splat(scale), i32x4.splat(zero), low, high), 0);
}

/** float32 to integers. Units: rows × chunks of a row. */
export function quantize(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<Quantize>(params);
  const type = p.type;
  const chunks = (p.width + CHUNK - 1) / CHUNK;
  for (let u = begin; u < end; u++) {
    const row = u / chunks;
    const from = (u - row * chunks) * CHUNK;
    const to = min(from + CHUNK, p.width);
    const base = <usize>row * p.width;
    const where = scaleOf(p, row);
    if (p.vector) {
      for (let i = from; i < to; i++) {
        const s = where + i;
        const zero = p.zero ? loadInteger(type, p.zero, s) : 0;
        storeInteger(type, p.y, base + i, quantizeOne(type, load<f32>(p.x + ((base + i) << 2)), load<f32>(p.scale + (s << 2)), zero));
      }
      continue;
    }
    const scale = load<f32>(p.scale + (where << 2));
    const zero = p.zero ? loadInteger(type, p.zero, where) : 0;
    let i = from;
    if (type <= UINT8) {
      const z = f32x4.splat(<f32>zero);
      const low = f32x4.sub(f32x4.splat(least(type)), z);
      const high = f32x4.sub(f32x4.splat(most(type)), z);
      for (; i + 4 <= to; i += 4) {
        const x = v128.load(p.x + ((base + i) << 2));
        storeBytes4(p.y + base + i, quantize4(x, f32x4.splat(scale), i32x4.splat(zero), low, high));
      }
    }
    for (; i < to; i++) storeInteger(type, p.y, base + i, quantizeOne(type, load<f32>(p.x + ((base + i) << 2)), scale, zero));
  }
}

/** Integers to float32. Units: rows × chunks of a row. */
export function dequantize(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<Quantize>(params);
  const type = p.type;
  const chunks = (p.width + CHUNK - 1) / CHUNK;
  for (let u = begin; u < end; u++) {
    const row = u / chunks;
    const from = (u - row * chunks) * CHUNK;
    const to = min(from + CHUNK, p.width);
    const base = <usize>row * p.width;
    const where = scaleOf(p, row);
    if (p.vector) {
      for (let i = from; i < to; i++) {
        const s = where + i;
        const zero = p.zero ? loadInteger(type, p.zero, s) : 0;
        store<f32>(p.y + ((base + i) << 2), <f32>(loadInteger(type, p.x, base + i) - zero) * load<f32>(p.scale + (s << 2)));
      }
      continue;
    }
    const scale = load<f32>(p.scale + (where << 2));
    const zero = p.zero ? loadInteger(type, p.zero, where) : 0;
    let i = from;
    if (type <= UINT8) {
      for (; i + 4 <= to; i += 4) {
        const bytes = v128.load32_zero(p.x + base + i);
        const v = type == INT8
          ? i32x4.extend_low_i16x8_s(i16x8.extend_low_i8x16_s(bytes))
          : i32x4.extend_low_i16x8_u(i16x8.extend_low_i8x16_u(bytes));
        const d = f32x4.convert_i32x4_s(i32x4.sub(v, i32x4.splat(zero)));
        v128.store(p.y + ((base + i) << 2), f32x4.mul(d, f32x4.splat(scale)));
      }
    }
    for (; i < to; i++) store<f32>(p.y + ((base + i) << 2), <f32>(loadInteger(type, p.x, base + i) - zero) * scale);
  }
}

@unmanaged
class DynamicRange {
  x: usize;
  /** Two floats a unit: least and most of its elements and zero. */
  ranges: usize;
  size: i32;
}

/** Units: blocks of 4096 elements. */
export function dynamicRange(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<DynamicRange>(params);
  for (let u = begin; u < end; u++) {
    const from = u * CHUNK;
    const to = min(from + CHUNK, p.size);
    let low = f32x4.splat(0), high = f32x4.splat(0);
    let i = from;
    for (; i + 4 <= to; i += 4) {
      const x = v128.load(p.x + (<usize>i << 2));
      low = f32x4.pmin(low, x);
      high = f32x4.pmax(high, x);
    }
    for (; i < to; i++) {
      const x = f32x4.splat(load<f32>(p.x + (<usize>i << 2)));
      low = f32x4.pmin(low, x);
      high = f32x4.pmax(high, x);
    }
    low = f32x4.pmin(low, v128.shuffle<f32>(low, low, 2, 3, 0, 1));
    low = f32x4.pmin(low, v128.shuffle<f32>(low, low, 1, 0, 3, 2));
    high = f32x4.pmax(high, v128.shuffle<f32>(high, high, 2, 3, 0, 1));
    high = f32x4.pmax(high, v128.shuffle<f32>(high, high, 1, 0, 3, 2));
    store<f32>(p.ranges + (<usize>u << 3), f32x4.extract_lane(low, 0));
    store<f32>(p.ranges + (<usize>u << 3), f32x4.extract_lane(high, 0), 4);
  }
}

@unmanaged
class DynamicScale {
  ranges: usize;
  count: i32;
  scale: usize;
  zero: usize;
}

/** The scale and zero point of uint8 for what lies between the extremes. One unit. */
export function dynamicScale(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<DynamicScale>(params);
  let low: f32 = 0, high: f32 = 0;
  for (let i = 0; i < p.count; i++) {
    low = min(low, load<f32>(p.ranges + (<usize>i << 3)));
    high = max(high, load<f32>(p.ranges + (<usize>i << 3), 4));
  }
  const scale: f32 = low == high ? 1 : (high - low) / 255;
  store<f32>(p.scale, scale);
  // Saturates, and an infinite range gives 0.
  const zero = f32x4.nearest(f32x4.splat(-low / scale));
  store<u8>(p.zero, min(255, max(0, i32x4.extract_lane(i32x4.trunc_sat_f32x4_s(zero), 0))));
}
