// Functions that want more bits than a float has inside: sine, cosine and power, computed in double precision with
// polynomials and rounded to float once. No tables. Sine and cosine run on two doubles at a time; arguments beyond 2^20
// are first reduced exactly with the bits of 1 / 2π, so that the answer is right for every finite float.

/** f64x2 splat. */
// @ts-ignore: decorator
@inline
function s2(x: f64): v128 {
  return f64x2.splat(x);
}

// @ts-ignore: decorator
@inline
function step2(p: v128, z: v128, c: f64): v128 {
  return f64x2.add(f64x2.mul(p, z), s2(c));
}

/** x mod 2π in [−π, π) of a finite float with |x| >= 2^20, exact to 2^-40 turns. */
function reduceLarge(x: f32): f64 {
  const bits = reinterpret<u32>(x);
  const shift = <i32>((bits >> 23) & 255) - 150;
  const m = <u64>((bits & 0x7fffff) | 0x800000);
  // |x| = m · 2^shift; whole turns fall off the top of m · (bits of 1/2π from `shift` on).
  let w: u64;
  if (shift < 0) w = 0x28be60db9391054a >> <u64>(-shift);
  else if (shift == 0) w = 0x28be60db9391054a;
  else if (shift < 64) w = (0x28be60db9391054a << <u64>shift) | (0x7f09d5f47d4d3770 >> <u64>(64 - shift));
  else if (shift == 64) w = 0x7f09d5f47d4d3770;
  else w = (0x7f09d5f47d4d3770 << <u64>(shift - 64)) | (0x36d8a5664f10e410 >> <u64>(128 - shift));
  const turns = <f64>(<i64>(m * w)) * 5.421010862427522e-20;
  return turns * (x < 0 ? -6.283185307179586 : 6.283185307179586);
}

/** sin(r + quarter · π/2) of two doubles. */
// @ts-ignore: decorator
@inline
function sine2(x: v128, quarter: f64): v128 {
  const n = f64x2.nearest(f64x2.mul(x, s2(0.6366197723675814)));
  let r = f64x2.sub(x, f64x2.mul(n, s2(1.57079632673412561417)));
  r = f64x2.sub(r, f64x2.mul(n, s2(6.077100506506192e-11)));
  const q = f64x2.add(n, s2(quarter));
  const odd = f64x2.ne(f64x2.sub(q, f64x2.mul(s2(2), f64x2.floor(f64x2.mul(q, s2(0.5))))), s2(0));
  const minus = f64x2.ge(f64x2.sub(q, f64x2.mul(s2(4), f64x2.floor(f64x2.mul(q, s2(0.25))))), s2(2));
  const z = f64x2.mul(r, r);
  let s = s2(-2.5052108385441720e-8);
  s = step2(s, z, 2.7557319223985893e-6);
  s = step2(s, z, -1.9841269841269841e-4);
  s = step2(s, z, 8.3333333333333332e-3);
  s = step2(s, z, -1.6666666666666666e-1);
  s = f64x2.add(r, f64x2.mul(f64x2.mul(s, z), r));
  let c = s2(2.0876756987868099e-9);
  c = step2(c, z, -2.7557319223985888e-7);
  c = step2(c, z, 2.4801587301587302e-5);
  c = step2(c, z, -1.3888888888888889e-3);
  c = step2(c, z, 4.1666666666666664e-2);
  c = step2(c, z, -0.5);
  c = step2(c, z, 1);
  return v128.xor(v128.bitselect(c, s, odd), v128.and(minus, s2(-0.0)));
}

/** Lanes of |x| >= 2^20 replaced by what is left of them modulo 2π. */
// @ts-ignore: decorator
@inline
function reduced2(x: v128, a: f32, b: f32): v128 {
  if (abs(a) >= 1048576 && abs(a) < Infinity) x = f64x2.replace_lane(x, 0, reduceLarge(a));
  if (abs(b) >= 1048576 && abs(b) < Infinity) x = f64x2.replace_lane(x, 1, reduceLarge(b));
  return x;
}

// @ts-ignore: decorator
@inline
function sine(x: v128, quarter: f64): v128 {
  let lo = f64x2.promote_low_f32x4(x);
  const upper = v128.shuffle<f32>(x, x, 2, 3, 2, 3);
  let hi = f64x2.promote_low_f32x4(upper);
  if (v128.any_true(f32x4.ge(f32x4.abs(x), f32x4.splat(1048576)))) {
    lo = reduced2(lo, f32x4.extract_lane(x, 0), f32x4.extract_lane(x, 1));
    hi = reduced2(hi, f32x4.extract_lane(x, 2), f32x4.extract_lane(x, 3));
  }
  const a = f32x4.demote_f64x2_zero(sine2(lo, quarter));
  const b = f32x4.demote_f64x2_zero(sine2(hi, quarter));
  return v128.shuffle<f32>(a, b, 0, 1, 4, 5);
}

/** Sine of four floats; of an infinity NaN. */
// @ts-ignore: decorator
@inline
export function sin(x: v128): v128 {
  return sine(x, 0);
}

/** Cosine of four floats. */
// @ts-ignore: decorator
@inline
export function cos(x: v128): v128 {
  return sine(x, 1);
}

/** log2 of a positive finite number. */
// @ts-ignore: decorator
@inline
function log2of(x: f64): f64 {
  const bits = reinterpret<i64>(x);
  const e = (bits - 0x3fe6a09e667f3bcd) >> 52;
  const m = reinterpret<f64>(bits - (e << 52));
  // ln m = 2 artanh((m − 1) / (m + 1)), m in [√½, √2).
  const s = (m - 1) / (m + 1);
  const z = s * s;
  let p: f64 = 1.0 / 17;
  p = p * z + 1.0 / 15;
  p = p * z + 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  return <f64>e + (2 * s + 2 * s * z * p) * 1.4426950408889634;
}

/** 2^t for −160 < t < 140. */
// @ts-ignore: decorator
@inline
function exp2of(t: f64): f64 {
  const n = nearest(t);
  const r = (t - n) * 0.6931471805599453;
  let p: f64 = 1.0 / 39916800;
  p = p * r + 1.0 / 3628800;
  p = p * r + 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1;
  p = p * r + 1;
  return p * reinterpret<f64>((<i64>n + 1023) << 52);
}

/** x^y with C's rules for zeros, infinities and negative bases. */
export function pow(x: f32, y: f32): f32 {
  if (y == 0 || x == 1) return 1;
  if (x != x || y != y) return NaN;
  const a = abs(x);
  let r: f32;
  if (a == 0 || a == Infinity) r = (a == 0) == (y > 0) ? 0 : Infinity;
  else if (abs(y) == Infinity) r = a == 1 ? 1 : (a > 1) == (y > 0) ? Infinity : 0;
  else {
    const t = <f64>y * log2of(<f64>a);
    r = t >= 130 ? Infinity : t <= -152 ? 0 : <f32>exp2of(t);
    if (x < 0 && trunc(y) != y) return NaN;
  }
  const odd = trunc(y) == y && abs(y) < 16777216 && (<i32>y & 1) != 0;
  return odd ? copysign(r, x) : r;
}
