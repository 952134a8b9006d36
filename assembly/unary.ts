// Element-wise functions of one float32 tensor. Units are blocks of 1024 elements.
import { activateSpan } from './activation';
import { erf, exp, log, splat } from './math';
import { cos, sin } from './scalar';

const BLOCK: i32 = 1024;

const ABS: i32 = 32;
const NEG: i32 = 33;
const EXP: i32 = 34;
const LOG: i32 = 35;
const SQRT: i32 = 36;
const RECIPROCAL: i32 = 37;
const ERF: i32 = 38;
const FLOOR: i32 = 39;
const CEIL: i32 = 40;
const ROUND: i32 = 41;
const SIGN: i32 = 42;
const SIN: i32 = 43;
const COS: i32 = 44;
const SHRINK: i32 = 45;
const SQUARE: i32 = 46;
const CUBE: i32 = 47;

@unmanaged
class UnaryF32 {
  x: usize;
  y: usize;
  size: i32;
  kind: i32;
  alpha: f32;
  beta: f32;
}

// @ts-ignore: decorator
@inline
function apply(kind: i32, x: v128, alpha: v128, beta: v128): v128 {
  if (kind == ABS) return f32x4.abs(x);
  if (kind == NEG) return f32x4.neg(x);
  if (kind == EXP) return exp(x);
  if (kind == LOG) return log(x);
  if (kind == SQRT) return f32x4.sqrt(x);
  if (kind == RECIPROCAL) return f32x4.div(splat(1), x);
  if (kind == ERF) return erf(x);
  if (kind == FLOOR) return f32x4.floor(x);
  if (kind == CEIL) return f32x4.ceil(x);
  if (kind == ROUND) return f32x4.nearest(x);
  if (kind == SIN) return sin(x);
  if (kind == COS) return cos(x);
  if (kind == SQUARE) return f32x4.mul(x, x);
  if (kind == CUBE) return f32x4.mul(f32x4.mul(x, x), x);
  if (kind == SHRINK) {
    // With a negative lambd both conditions may hold: the first one counts.
    const above = v128.and(f32x4.sub(x, beta), f32x4.gt(x, alpha));
    return v128.bitselect(f32x4.add(x, beta), above, f32x4.lt(x, f32x4.neg(alpha)));
  }
  // Sign: ±1 with the sign of x where x is neither 0 nor NaN.
  const unit = v128.or(v128.and(x, splat(-0.0)), splat(1));
  return v128.bitselect(unit, x, v128.or(f32x4.lt(x, splat(0)), f32x4.gt(x, splat(0))));
}

// @ts-ignore: decorator
@inline
function span(kind: i32, y: usize, x: usize, n: i32, a: f32, b: f32): void {
  const alpha = splat(a);
  const beta = splat(b);
  const end = y + (<usize>(n & ~3) << 2);
  while (y < end) {
    v128.store(y, apply(kind, v128.load(x), alpha, beta));
    x += 16;
    y += 16;
  }
  for (let i = n & ~3; i < n; i++) {
    f32.store(y, f32x4.extract_lane(apply(kind, v128.load32_zero(x), alpha, beta), 0));
    x += 4;
    y += 4;
  }
}

export function unaryF32(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<UnaryF32>(params);
  const first = begin * BLOCK;
  const n = min(end * BLOCK, p.size) - first;
  const x = p.x + (<usize>first << 2);
  const y = p.y + (<usize>first << 2);
  switch (p.kind) {
    case ABS: span(ABS, y, x, n, p.alpha, p.beta); break;
    case NEG: span(NEG, y, x, n, p.alpha, p.beta); break;
    case EXP: span(EXP, y, x, n, p.alpha, p.beta); break;
    case LOG: span(LOG, y, x, n, p.alpha, p.beta); break;
    case SQRT: span(SQRT, y, x, n, p.alpha, p.beta); break;
    case RECIPROCAL: span(RECIPROCAL, y, x, n, p.alpha, p.beta); break;
    case ERF: span(ERF, y, x, n, p.alpha, p.beta); break;
    case FLOOR: span(FLOOR, y, x, n, p.alpha, p.beta); break;
    case CEIL: span(CEIL, y, x, n, p.alpha, p.beta); break;
    case ROUND: span(ROUND, y, x, n, p.alpha, p.beta); break;
    case SIGN: span(SIGN, y, x, n, p.alpha, p.beta); break;
    case SIN: span(SIN, y, x, n, p.alpha, p.beta); break;
    case COS: span(COS, y, x, n, p.alpha, p.beta); break;
    case SHRINK: span(SHRINK, y, x, n, p.alpha, p.beta); break;
    case SQUARE: span(SQUARE, y, x, n, p.alpha, p.beta); break;
    case CUBE: span(CUBE, y, x, n, p.alpha, p.beta); break;
    default: activateSpan(p.kind, y, x, n, p.alpha, p.beta);
  }
}

@unmanaged
class NotU8 {
  x: usize;
  y: usize;
  size: i32;
}

/** Logical not of bools. */
export function notU8(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<NotU8>(params);
  const last = min(end * BLOCK, p.size);
  for (let i = begin * BLOCK; i < last; i++) store<u8>(p.y + i, <u8>(load<u8>(p.x + i) == 0));
}

@unmanaged
class ClassifyF32 {
  x: usize;
  y: usize;
  size: i32;
  classes: i32;
}

/** Whether floats are of one of the classes: NaN (1), +infinity (2), -infinity (4). */
export function classifyF32(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<ClassifyF32>(params);
  const last = min(end * BLOCK, p.size);
  const nan = (p.classes & 1) != 0;
  const plus: f32 = p.classes & 2 ? Infinity : NaN;
  const minus: f32 = p.classes & 4 ? -Infinity : NaN;
  for (let i = begin * BLOCK; i < last; i++) {
    const v = f32.load(p.x + (<usize>i << 2));
    store<u8>(p.y + i, <u8>((nan && v != v) || v == plus || v == minus));
  }
}
