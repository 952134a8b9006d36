// Activation functions by code, for every kernel with an epilogue. The codes are those of src/kernels/activation.ts.
// Three ways to apply one, by how often the kind is asked:
//   activate      any kind, one vector: a call and a switch; for cold places
//   epilogue      none, relu and clip inline, the rest by the call: for tiles that are about to be stored
//   activateSpan  a whole span in place, the kind asked once: for what has just been stored and is still in cache
import { atLeast, clamp, erf, exp, expm1, log1p, madd, sigmoid, splat, tanh } from './math';

export const NONE: i32 = 0;
export const RELU: i32 = 1;
export const LEAKY_RELU: i32 = 2;
export const CLIP: i32 = 3;
export const HARD_SIGMOID: i32 = 4;
export const HARD_SWISH: i32 = 5;
export const SIGMOID: i32 = 6;
export const TANH: i32 = 7;
export const SILU: i32 = 8;
export const GELU: i32 = 9;
export const GELU_TANH: i32 = 10;
export const ELU: i32 = 11;
export const CELU: i32 = 12;
export const SELU: i32 = 13;
export const SOFTPLUS: i32 = 14;
export const SOFTSIGN: i32 = 15;
export const MISH: i32 = 16;
export const THRESHOLDED_RELU: i32 = 17;
export const AFFINE: i32 = 18;
export const SCALED_TANH: i32 = 19;

// @ts-ignore: decorator
@inline
function hardSigmoid(x: v128, alpha: v128, beta: v128): v128 {
  return clamp(f32x4.add(f32x4.mul(x, alpha), beta), splat(0), splat(1));
}

// @ts-ignore: decorator
@inline
export function softplus(x: v128): v128 {
  return f32x4.add(atLeast(x, splat(0)), log1p(exp(f32x4.neg(f32x4.abs(x)))));
}

/** One vector; `kind` is meant to be a constant, everything else then falls away. */
// @ts-ignore: decorator
@inline
export function activateConst(kind: i32, x: v128, alpha: v128, beta: v128): v128 {
  if (kind == RELU) return atLeast(x, splat(0));
  if (kind == LEAKY_RELU) return v128.bitselect(f32x4.mul(x, alpha), x, f32x4.lt(x, splat(0)));
  if (kind == CLIP) return clamp(x, alpha, beta);
  if (kind == HARD_SIGMOID) return hardSigmoid(x, alpha, beta);
  if (kind == HARD_SWISH) return f32x4.mul(x, hardSigmoid(x, alpha, beta));
  if (kind == SIGMOID) return sigmoid(x);
  if (kind == TANH) return tanh(x);
  if (kind == SILU) return f32x4.mul(x, sigmoid(f32x4.mul(x, alpha)));
  if (kind == GELU) {
    const half = f32x4.mul(x, splat(0.5));
    return madd(half, erf(f32x4.mul(x, splat(0.70710678118654752))), half);
  }
  if (kind == GELU_TANH) {
    const half = f32x4.mul(x, splat(0.5));
    const u = f32x4.mul(x, madd(f32x4.mul(x, x), splat(0.035677408136300125), splat(0.79788456080286536)));
    return madd(half, tanh(u), half);
  }
  if (kind == ELU) return v128.bitselect(f32x4.mul(alpha, expm1(x)), x, f32x4.lt(x, splat(0)));
  if (kind == CELU) return v128.bitselect(f32x4.mul(alpha, expm1(f32x4.div(x, alpha))), x, f32x4.lt(x, splat(0)));
  if (kind == SELU) {
    return f32x4.mul(beta, v128.bitselect(f32x4.mul(alpha, expm1(x)), x, f32x4.lt(x, splat(0))));
  }
  if (kind == SOFTPLUS) return softplus(x);
  if (kind == SOFTSIGN) return f32x4.div(x, f32x4.add(splat(1), f32x4.abs(x)));
  if (kind == MISH) return f32x4.mul(x, tanh(softplus(x)));
  if (kind == THRESHOLDED_RELU) return v128.and(x, f32x4.gt(x, alpha));
  if (kind == AFFINE) return f32x4.add(f32x4.mul(x, alpha), beta);
  if (kind == SCALED_TANH) return f32x4.mul(alpha, tanh(f32x4.mul(x, beta)));
  return x;
}

/** Any kind: a function of its own, so that its code is in the module once. */
export function activate(kind: i32, x: v128, alpha: v128, beta: v128): v128 {
  switch (kind) {
    case RELU: return activateConst(RELU, x, alpha, beta);
    case LEAKY_RELU: return activateConst(LEAKY_RELU, x, alpha, beta);
    case CLIP: return activateConst(CLIP, x, alpha, beta);
    case HARD_SIGMOID: return activateConst(HARD_SIGMOID, x, alpha, beta);
    case HARD_SWISH: return activateConst(HARD_SWISH, x, alpha, beta);
    case SIGMOID: return activateConst(SIGMOID, x, alpha, beta);
    case TANH: return activateConst(TANH, x, alpha, beta);
    case SILU: return activateConst(SILU, x, alpha, beta);
    case GELU: return activateConst(GELU, x, alpha, beta);
    case GELU_TANH: return activateConst(GELU_TANH, x, alpha, beta);
    case ELU: return activateConst(ELU, x, alpha, beta);
    case CELU: return activateConst(CELU, x, alpha, beta);
    case SELU: return activateConst(SELU, x, alpha, beta);
    case SOFTPLUS: return activateConst(SOFTPLUS, x, alpha, beta);
    case SOFTSIGN: return activateConst(SOFTSIGN, x, alpha, beta);
    case MISH: return activateConst(MISH, x, alpha, beta);
    case THRESHOLDED_RELU: return activateConst(THRESHOLDED_RELU, x, alpha, beta);
    case AFFINE: return activateConst(AFFINE, x, alpha, beta);
    case SCALED_TANH: return activateConst(SCALED_TANH, x, alpha, beta);
    default: return x;
  }
}

/** Inline for the kinds convolutional networks use everywhere, a call for the others. The same bits as `activate`. */
// @ts-ignore: decorator
@inline
export function epilogue(kind: i32, x: v128, alpha: v128, beta: v128): v128 {
  if (kind == NONE) return x;
  if (kind == RELU) return atLeast(x, splat(0));
  if (kind == CLIP) return clamp(x, alpha, beta);
  return activate(kind, x, alpha, beta);
}

// @ts-ignore: decorator
@inline
function span(kind: i32, y: usize, x: usize, n: i32, a: f32, b: f32): void {
  const alpha = splat(a);
  const beta = splat(b);
  const end = y + (<usize>(n & ~3) << 2);
  while (y < end) {
    v128.store(y, activateConst(kind, v128.load(x), alpha, beta));
    x += 16;
    y += 16;
  }
  // The tail goes through the same vector code, one element in lane 0 at a time.
  for (let i = n & ~3; i < n; i++) {
    f32.store(y, f32x4.extract_lane(activateConst(kind, v128.load32_zero(x), alpha, beta), 0));
    x += 4;
    y += 4;
  }
}

/** y[i] = activation(x[i]) for n floats; x and y may be the same. The same bits as `activate`. */
export function activateSpan(kind: i32, y: usize, x: usize, n: i32, a: f32, b: f32): void {
  switch (kind) {
    case RELU: span(RELU, y, x, n, a, b); break;
    case LEAKY_RELU: span(LEAKY_RELU, y, x, n, a, b); break;
    case CLIP: span(CLIP, y, x, n, a, b); break;
    case HARD_SIGMOID: span(HARD_SIGMOID, y, x, n, a, b); break;
    case HARD_SWISH: span(HARD_SWISH, y, x, n, a, b); break;
    case SIGMOID: span(SIGMOID, y, x, n, a, b); break;
    case TANH: span(TANH, y, x, n, a, b); break;
    case SILU: span(SILU, y, x, n, a, b); break;
    case GELU: span(GELU, y, x, n, a, b); break;
    case GELU_TANH: span(GELU_TANH, y, x, n, a, b); break;
    case ELU: span(ELU, y, x, n, a, b); break;
    case CELU: span(CELU, y, x, n, a, b); break;
    case SELU: span(SELU, y, x, n, a, b); break;
    case SOFTPLUS: span(SOFTPLUS, y, x, n, a, b); break;
    case SOFTSIGN: span(SOFTSIGN, y, x, n, a, b); break;
    case MISH: span(MISH, y, x, n, a, b); break;
    case THRESHOLDED_RELU: span(THRESHOLDED_RELU, y, x, n, a, b); break;
    case AFFINE: span(AFFINE, y, x, n, a, b); break;
    case SCALED_TANH: span(SCALED_TANH, y, x, n, a, b); break;
    default: if (x != y) memory.copy(y, x, <usize>n << 2);
  }
}
