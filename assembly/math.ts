// Elementary functions on four floats at once. How to picture one: reduce the argument to a small interval, evaluate a
// polynomial or a rational function there (coefficients fitted by weighted minimax in double precision), put the
// exponent back. No tables: every constant is an immediate. Lanes never mix, so a padded tail gives the same bits.
// Errors, against double precision: exp 2 ulp, log 2 ulp, tanh 4e-7 (absolute and relative), sigmoid 3e-7 relative for
// results above 1e-37, erf 4e-7. NaN stays NaN, infinities give the limits. What a kernel does with rows is not here.

/** a · b + c: fused (one rounding) in the FMA build, two roundings in the plain one. */
// @ts-ignore: decorator
@inline
export function madd(a: v128, b: v128, c: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return f32x4.relaxed_madd(a, b, c);
  return f32x4.add(f32x4.mul(a, b), c);
}

// @ts-ignore: decorator
@inline
export function splat(x: f32): v128 {
  return f32x4.splat(x);
}

/** The larger; x where one is NaN. One instruction, where `max` is seven: the order of NaN and of zeros' signs is free. */
// @ts-ignore: decorator
@inline
export function atLeast(x: v128, low: v128): v128 {
  return f32x4.pmax(x, low);
}

/** x within [low, high]; NaN stays NaN. */
// @ts-ignore: decorator
@inline
export function clamp(x: v128, low: v128, high: v128): v128 {
  return f32x4.pmin(f32x4.pmax(x, low), high);
}

/** 2^n for integer-valued lanes n in [-126, 127]. */
// @ts-ignore: decorator
@inline
function pow2(n: v128): v128 {
  return i32x4.shl(i32x4.add(n, i32x4.splat(127)), 23);
}

/** r² · P(r), where e^r = 1 + r + r² · P(r) on |r| <= ln 2 / 2. */
// @ts-ignore: decorator
@inline
function expTail(r: v128): v128 {
  let p = splat(0.001381446490995586);
  p = madd(p, r, splat(0.008368780836462975));
  p = madd(p, r, splat(0.04166839271783829));
  p = madd(p, r, splat(0.1666651964187622));
  p = madd(p, r, splat(0.4999999403953552));
  return f32x4.mul(p, f32x4.mul(r, r));
}

/** x − n · ln 2, the constant in two parts. */
// @ts-ignore: decorator
@inline
function reduceLn2(x: v128, n: v128): v128 {
  const r = madd(n, splat(-0.693359375), x);
  return madd(n, splat(2.12194440054690583e-4), r);
}

/** e^x. Underflows through denormals to 0, overflows to infinity. */
// @ts-ignore: decorator
@inline
export function exp(x: v128): v128 {
  x = clamp(x, splat(-104), splat(89));
  const n = f32x4.nearest(f32x4.mul(x, splat(1.44269504088896341)));
  const r = reduceLn2(x, n);
  const p = f32x4.add(f32x4.add(expTail(r), r), splat(1));
  // 2^n in two factors: n reaches from -150 to 128.
  const i = i32x4.trunc_sat_f32x4_s(n);
  const half = i32x4.shr_s(i, 1);
  return f32x4.mul(f32x4.mul(p, pow2(half)), pow2(i32x4.sub(i, half)));
}

/**
 * e^x for x <= 0, as a softmax needs it: 0 below −86, where the result would weigh nothing. NaN stays NaN where its low
 * bits are zero, as those are that arithmetic makes.
 */
// @ts-ignore: decorator
@inline
export function expBelow(x: v128): v128 {
  const tiny = f32x4.lt(x, splat(-86));
  x = atLeast(x, splat(-86));
  // Adding 1.5 · 2^23 rounds to an integer, and leaves it in the low bits.
  const t = madd(x, splat(1.44269504088896341), splat(12582912));
  const r = reduceLn2(x, f32x4.sub(t, splat(12582912)));
  const p = f32x4.add(f32x4.add(expTail(r), r), splat(1));
  return v128.andnot(i32x4.add(p, i32x4.shl(t, 23)), tiny);
}

/** e^x − 1, accurate near 0 too. */
// @ts-ignore: decorator
@inline
export function expm1(x: v128): v128 {
  const y = clamp(x, splat(-104), splat(88));
  const n = f32x4.nearest(f32x4.mul(y, splat(1.44269504088896341)));
  const r = reduceLn2(y, n);
  // Below 2^-126 the scale does not matter: the result is -1.
  const s = pow2(i32x4.trunc_sat_f32x4_s(atLeast(n, splat(-126))));
  const e = madd(f32x4.add(expTail(r), r), s, f32x4.sub(s, splat(1)));
  // Above 88 plain e^x is right and may overflow.
  return v128.bitselect(exp(x), e, f32x4.gt(x, splat(88)));
}

/** Natural logarithm. log 0 = -infinity, log of a negative is NaN. */
// @ts-ignore: decorator
@inline
export function log(x: v128): v128 {
  const tiny = f32x4.lt(x, splat(1.17549435e-38));
  const y = v128.bitselect(f32x4.mul(x, splat(8388608)), x, tiny);
  // y = m · 2^e with m in [√½, √2).
  const above = i32x4.sub(y, i32x4.splat(0x3f3504f3));
  const e = i32x4.shr_s(above, 23);
  const f = f32x4.sub(i32x4.sub(y, i32x4.shl(e, 23)), splat(1));
  const k = f32x4.sub(f32x4.convert_i32x4_s(e), v128.and(splat(23), tiny));
  let p = splat(-0.07634429633617401);
  p = madd(p, f, splat(0.12761549651622772));
  p = madd(p, f, splat(-0.131601944565773));
  p = madd(p, f, splat(0.14201761782169342));
  p = madd(p, f, splat(-0.16623356938362122));
  p = madd(p, f, splat(0.20001226663589478));
  p = madd(p, f, splat(-0.250008225440979));
  p = madd(p, f, splat(0.3333333134651184));
  const ff = f32x4.mul(f, f);
  // Small parts first: f³P(f) + k·ln2_low − f²/2, then f, then k·ln2_high.
  let r = f32x4.mul(p, f32x4.mul(ff, f));
  r = madd(k, splat(-2.12194440054690583e-4), r);
  r = madd(ff, splat(-0.5), r);
  r = madd(k, splat(0.693359375), f32x4.add(r, f));
  r = v128.bitselect(splat(-Infinity), r, f32x4.eq(x, splat(0)));
  // Negative, NaN or +infinity: NaN, NaN, +infinity.
  const odd = v128.not(v128.and(f32x4.ge(x, splat(0)), f32x4.lt(x, splat(Infinity))));
  return v128.bitselect(f32x4.add(f32x4.sqrt(x), x), r, odd);
}

/** log(1 + x) for x > −1, accurate near 0. */
// @ts-ignore: decorator
@inline
export function log1p(x: v128): v128 {
  const w = f32x4.add(splat(1), x);
  // What rounding 1 + x lost, as a first-order correction.
  const lost = f32x4.div(f32x4.sub(x, f32x4.sub(w, splat(1))), w);
  return f32x4.add(log(w), v128.bitselect(lost, splat(0), f32x4.lt(f32x4.abs(x), splat(1e10))));
}

/** y clamped to [-1, 1], and exactly ±1 where x is at ±limit: 1 + tanh x must vanish for a Gelu far from 0. */
// @ts-ignore: decorator
@inline
function saturate(y: v128, x: v128, limit: f32): v128 {
  y = clamp(y, splat(-1), splat(1));
  const one = v128.or(v128.and(x, splat(-0.0)), splat(1));
  return v128.bitselect(one, y, f32x4.eq(f32x4.abs(x), splat(limit)));
}

/** Hyperbolic tangent: x · P(x²) / Q(x²), exactly ±1 where that is the float result. */
// @ts-ignore: decorator
@inline
export function tanh(x: v128): v128 {
  x = clamp(x, splat(-9), splat(9));
  const u = f32x4.mul(x, x);
  let p = splat(1.3354697792067327e-8);
  p = madd(p, u, splat(2.060915903712157e-5));
  p = madd(p, u, splat(0.003495595185086131));
  p = madd(p, u, splat(0.13381032645702362));
  p = madd(p, u, splat(1));
  let q = splat(7.776587267471768e-7);
  q = madd(q, u, splat(0.00032856446341611445));
  q = madd(q, u, splat(0.025877011939883232));
  q = madd(q, u, splat(0.4671434760093689));
  q = madd(q, u, splat(1));
  return saturate(f32x4.div(f32x4.mul(x, p), q), x, 9);
}

/** 1 / (1 + e^−x). */
// @ts-ignore: decorator
@inline
export function sigmoid(x: v128): v128 {
  return f32x4.div(splat(1), f32x4.add(splat(1), exp(f32x4.neg(x))));
}

/** The error function: x · P(x²) / Q(x²), exactly ±1 where that is the float result. */
// @ts-ignore: decorator
@inline
export function erf(x: v128): v128 {
  x = clamp(x, splat(-3.92), splat(3.92));
  const u = f32x4.mul(x, x);
  let p = splat(1.9923151128864447e-8);
  p = madd(p, u, splat(-1.957656650120043e-6));
  p = madd(p, u, splat(0.00014182651648296902));
  p = madd(p, u, splat(0.003700794419273734));
  p = madd(p, u, splat(0.05057089403271675));
  p = madd(p, u, splat(0.19990675151348114));
  p = madd(p, u, splat(1.1283791065216064));
  let q = splat(0.0009558266028761864);
  q = madd(q, u, splat(0.014351614750921726));
  q = madd(q, u, splat(0.11499098688364029));
  q = madd(q, u, splat(0.5104944109916687));
  q = madd(q, u, splat(1));
  return saturate(f32x4.div(f32x4.mul(x, p), q), x, 3.92);
}
