// Parameter blocks of reductions, softmax, running sums and normalizations. How work is split and in which order sums
// run is told in assembly/reduce.ts and assembly/normalize.ts.

export const reduce = {
  /** y = op over the reduced axes, a sum over the divisor. Units: output elements (rows), or 16 neighbouring ones (columns). */
  reduceF32: {
    x: 'ptr',
    y: 'ptr',
    op: 'i32',
    rows: 'i32',
    inner: 'i32',
    keptRank: 'i32',
    keptDims: 'i32s',
    keptStrides: 'i32s',
    outerRank: 'i32',
    outerDims: 'i32s',
    outerStrides: 'i32s',
    outerCount: 'i32',
    n: 'i32',
    stride: 'i32',
    divisor: 'i32',
  },
  /** y (int64) = index of the extreme of n floats `inner` apart. Units: output elements. */
  argF32: { x: 'ptr', y: 'ptr', n: 'i32', inner: 'i32', smallest: 'i32', last: 'i32' },
  /** Softmax or its logarithm over n floats `inner` apart. Units: rows of the last axis, or four neighbouring columns. */
  softmaxF32: { x: 'ptr', y: 'ptr', rows: 'i32', n: 'i32', inner: 'i32', log: 'i32' },
  /** Running sums or products along n elements `inner` apart. Units: output columns. */
  scan: {
    x: 'ptr',
    y: 'ptr',
    type: 'i32',
    product: 'i32',
    n: 'i32',
    inner: 'i32',
    exclusive: 'i32',
    reverse: 'i32',
  },
  /**
   * Rows of n floats to mean 0 (not when `rms`) and variance 1. Element i of row r is scaled by
   * scale[(r % cycle) · perRow + i / span] and shifted likewise; 0: not at all. Units: rows.
   */
  rowNorm: {
    x: 'ptr',
    y: 'ptr',
    scale: 'ptr',
    bias: 'ptr',
    mean: 'ptr',
    inverse: 'ptr',
    n: 'i32',
    rms: 'i32',
    epsilon: 'f32',
    cycle: 'i32',
    perRow: 'i32',
    span: 'i32',
  },
  /** Batch normalization by given statistics, then an activation. Units: planes of `inner` floats, channel u % channels. */
  channelNorm: {
    x: 'ptr',
    y: 'ptr',
    scale: 'ptr',
    bias: 'ptr',
    mean: 'ptr',
    variance: 'ptr',
    channels: 'i32',
    inner: 'i32',
    epsilon: 'f32',
    activation: 'i32',
    alpha: 'f32',
    beta: 'f32',
  },
  /** Local response normalization across channels. Units: planes of `inner` floats. */
  lrn: {
    x: 'ptr',
    y: 'ptr',
    channels: 'i32',
    inner: 'i32',
    size: 'i32',
    alpha: 'f32',
    beta: 'f32',
    bias: 'f32',
  },
} as const;

/** Codes of `reduceF32`. Mean is sum with a divisor. */
export const reduceCodes = {
  sum: 0,
  max: 1,
  min: 2,
  prod: 3,
  sumSquare: 4,
  l1: 5,
  l2: 6,
  logSum: 7,
  logSumExp: 8,
} as const;

/** Neighbouring output elements that a unit of columns computes. */
export const reduceColumns = 16;

/** Codes of the element types of `scan`. */
export const scanTypes = { float32: 0, int32: 1, int64: 2 } as const;
