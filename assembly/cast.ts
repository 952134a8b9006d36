// Conversions between element types, as Cast defines them: floats to integers by truncation (saturating where the value
// does not fit), integers to smaller ones by wrap-around, anything to bool by x ≠ 0. float16 and bfloat16 are to and
// from float32 only.
// Units are blocks of 1024 elements.

const BLOCK: i32 = 1024;

const F32: i32 = 0;
const I32: i32 = 1;
const I64: i32 = 2;
const U8: i32 = 3;
const I8: i32 = 4;
const BOOL: i32 = 5;
const F16: i32 = 6;
const BF16: i32 = 7;

@unmanaged
class CastParams {
  x: usize;
  y: usize;
  size: i32;
  from: i32;
  to: i32;
}

// @ts-ignore: decorator
@inline
function sizeShift(type: i32): usize {
  return type == I64 ? 3 : type >= F16 ? 1 : type >= U8 ? 0 : 2;
}

// @ts-ignore: decorator
@inline
function row<F, T>(x: usize, y: usize, n: i32): void {
  for (let i = 0; i < n; i++) {
    const v = load<F>(x);
    if (isFloat<F>() && isInteger<T>()) {
      // Small integers are cut from a saturated 32-bit one, as C compilers do it.
      if (sizeof<T>() == 8) store<T>(y, <T>(<i64>v));
      else store<T>(y, <T>(<i32>v));
    } else if (sizeof<F>() == 8 && isFloat<T>()) store<T>(y, <T>(<f64>v));
    else store<T>(y, <T>v);
    x += sizeof<F>();
    y += sizeof<T>();
  }
}

// @ts-ignore: decorator
@inline
function toBool<F>(x: usize, y: usize, n: i32): void {
  for (let i = 0; i < n; i++) {
    store<u8>(y, <u8>(load<F>(x) != 0));
    x += sizeof<F>();
    y++;
  }
}

function castFrom<F>(to: i32, x: usize, y: usize, n: i32): void {
  switch (to) {
    case F32: row<F, f32>(x, y, n); break;
    case I32: row<F, i32>(x, y, n); break;
    case I64: row<F, i64>(x, y, n); break;
    case U8: row<F, u8>(x, y, n); break;
    case I8: row<F, i8>(x, y, n); break;
    default: toBool<F>(x, y, n);
  }
}

/** float16 bits to float32: the exponent is moved by a multiplication, which makes denormals right too. */
// @ts-ignore: decorator
@inline
export function fromHalf(h: v128): v128 {
  const magnitude = i32x4.shl(v128.and(h, i32x4.splat(0x7fff)), 13);
  let v = f32x4.mul(magnitude, f32x4.splat(reinterpret<f32>((254 - 15) << 23)));
  // Infinity and NaN keep an exponent of all ones.
  const odd = i32x4.ge_s(magnitude, i32x4.splat(0x7c00 << 13));
  v = v128.or(v, v128.and(odd, i32x4.splat(0x7f800000)));
  return v128.or(v, i32x4.shl(v128.and(h, i32x4.splat(0x8000)), 16));
}

/** float32 to float16 bits in 32-bit lanes, to nearest, ties to even. */
// @ts-ignore: decorator
@inline
export function toHalf(x: v128): v128 {
  const sign = v128.and(i32x4.shr_u(x, 16), i32x4.splat(0x8000));
  const a = v128.and(x, i32x4.splat(0x7fffffff));
  // Normal: move the exponent and round the 13 bits that fall off.
  const odd = v128.and(i32x4.shr_u(a, 13), i32x4.splat(1));
  let normal = i32x4.sub(a, i32x4.splat((127 - 15) << 23));
  normal = i32x4.shr_u(i32x4.add(i32x4.add(normal, i32x4.splat(0xfff)), odd), 13);
  // Denormal: adding 0.5 puts the result's bits at the bottom of the float, rounded by the addition itself.
  const small = i32x4.sub(f32x4.add(a, f32x4.splat(0.5)), i32x4.splat(0x3f000000));
  let r = v128.bitselect(small, normal, i32x4.lt_s(a, i32x4.splat(113 << 23)));
  r = v128.bitselect(i32x4.splat(0x7c00), r, i32x4.ge_s(a, i32x4.splat(0x477ff000)));
  r = v128.bitselect(i32x4.splat(0x7e00), r, i32x4.gt_s(a, i32x4.splat(0x7f800000)));
  return v128.or(r, sign);
}

function halfToFloat(x: usize, y: usize, n: i32): void {
  for (let i = 0; i + 4 <= n; i += 4) {
    v128.store(y + (<usize>i << 2), fromHalf(v128.load16x4_u(x + (<usize>i << 1))));
  }
  for (let i = n & ~3; i < n; i++) {
    f32.store(y + (<usize>i << 2), f32x4.extract_lane(fromHalf(i32x4.splat(load<u16>(x + (<usize>i << 1)))), 0));
  }
}

function floatToHalf(x: usize, y: usize, n: i32): void {
  for (let i = 0; i + 4 <= n; i += 4) {
    const h = toHalf(v128.load(x + (<usize>i << 2)));
    v128.store64_lane(y + (<usize>i << 1), i16x8.narrow_i32x4_u(h, h), 0);
  }
  for (let i = n & ~3; i < n; i++) {
    store<u16>(y + (<usize>i << 1), <u16>i32x4.extract_lane(toHalf(v128.load32_zero(x + (<usize>i << 2))), 0));
  }
}

/** bfloat16 bits are the upper half of a float32's. */
function brainToFloat(x: usize, y: usize, n: i32): void {
  for (let i = 0; i + 4 <= n; i += 4) {
    v128.store(y + (<usize>i << 2), i32x4.shl(v128.load16x4_u(x + (<usize>i << 1)), 16));
  }
  for (let i = n & ~3; i < n; i++) store<u32>(y + (<usize>i << 2), <u32>load<u16>(x + (<usize>i << 1)) << 16);
}

/** float32 to bfloat16 bits in 32-bit lanes, to nearest, ties to even. */
// @ts-ignore: decorator
@inline
function toBrain(x: v128): v128 {
  const odd = v128.and(i32x4.shr_u(x, 16), i32x4.splat(1));
  const r = i32x4.shr_u(i32x4.add(i32x4.add(x, i32x4.splat(0x7fff)), odd), 16);
  return v128.bitselect(r, i32x4.splat(0x7fc0), f32x4.eq(x, x));
}

function floatToBrain(x: usize, y: usize, n: i32): void {
  for (let i = 0; i + 4 <= n; i += 4) {
    const h = toBrain(v128.load(x + (<usize>i << 2)));
    v128.store64_lane(y + (<usize>i << 1), i16x8.narrow_i32x4_u(h, h), 0);
  }
  for (let i = n & ~3; i < n; i++) {
    store<u16>(y + (<usize>i << 1), <u16>i32x4.extract_lane(toBrain(v128.load32_zero(x + (<usize>i << 2))), 0));
  }
}

export function cast(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<CastParams>(params);
  const from = p.from;
  const to = p.to;
  const first = begin * BLOCK;
  const n = min(end * BLOCK, p.size) - first;
  const x = p.x + (<usize>first << sizeShift(from));
  const y = p.y + (<usize>first << sizeShift(to));
  if (from == F16) halfToFloat(x, y, n);
  else if (to == F16) floatToHalf(x, y, n);
  else if (from == BF16) brainToFloat(x, y, n);
  else if (to == BF16) floatToBrain(x, y, n);
  else {
    switch (from) {
      case F32: castFrom<f32>(to, x, y, n); break;
      case I32: castFrom<i32>(to, x, y, n); break;
      case I64: castFrom<i64>(to, x, y, n); break;
      case I8: castFrom<i8>(to, x, y, n); break;
      default: castFrom<u8>(to, x, y, n);
    }
  }
}
