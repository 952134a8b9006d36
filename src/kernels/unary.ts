// Parameter blocks of element-wise functions of one tensor, and the functions' codes. Activations have the codes of
// activation.ts; other functions follow from 32. Codes are those of assembly/unary.ts.

export const unary = {
  /** y[i] = f(x[i]) on float32. Units: blocks of 1024 elements, the last one shorter. */
  unaryF32: { x: 'ptr', y: 'ptr', size: 'i32', kind: 'i32', alpha: 'f32', beta: 'f32' },
  /** y[i] = x[i] = 0 on bools. Units as above. */
  notU8: { x: 'ptr', y: 'ptr', size: 'i32' },
  /** y[i] = x[i] is NaN (class 1), +infinity (2) or −infinity (4). Units as above. */
  classifyF32: { x: 'ptr', y: 'ptr', size: 'i32', classes: 'i32' },
  /** y[i] = (to) x[i] between types of `castCodes`; float16 and bfloat16 with float32 only. Units as above. */
  cast: { x: 'ptr', y: 'ptr', size: 'i32', from: 'i32', to: 'i32' },
} as const;

/** Elements of a unit. */
export const unaryBlock = 1024;

/** Codes of element types in the cast kernel. */
export const castCodes = {
  float32: 0,
  int32: 1,
  int64: 2,
  uint8: 3,
  int8: 4,
  bool: 5,
  float16: 6,
  bfloat16: 7,
} as const;

/** Codes of functions that are no activations. */
export const unaryCodes = {
  abs: 32,
  neg: 33,
  exp: 34,
  log: 35,
  sqrt: 36,
  reciprocal: 37,
  erf: 38,
  floor: 39,
  ceil: 40,
  round: 41,
  sign: 42,
  sin: 43,
  cos: 44,
  /** alpha is lambd, beta is bias. */
  shrink: 45,
  square: 46,
  cube: 47,
} as const;
