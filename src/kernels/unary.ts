// Parameter blocks of element-wise functions of one tensor, and the functions' codes. Activations have the codes of
// activation.ts; other functions follow from 32. Codes are those of assembly/unary.ts.

export const unary = {
  /** y[i] = f(x[i]) on float32. Units: blocks of 1024 elements, the last one shorter. */
  unaryF32: { x: 'ptr', y: 'ptr', size: 'i32', kind: 'i32', alpha: 'f32', beta: 'f32' },
} as const;

/** Elements of a unit. */
export const unaryBlock = 1024;

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
} as const;
