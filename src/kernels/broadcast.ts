// The kernel of element-wise functions of two or three tensors with broadcasting; layout in assembly/broadcast.ts.

export const broadcast = {
  /**
   * y = op(a, b), or c ? a : b. The output is rows of `inner` elements; `vectorA` says whether a moves within a row.
   * `dims` are the outer axes; strides are in elements. Units: blocks of 1024 output elements. Needs 32 bytes of scratch.
   */
  broadcast: {
    a: 'ptr',
    b: 'ptr',
    c: 'ptr',
    y: 'ptr',
    op: 'i32',
    type: 'i32',
    size: 'i32',
    inner: 'i32',
    vectorA: 'i32',
    vectorB: 'i32',
    vectorC: 'i32',
    rank: 'i32',
    dims: 'i32s',
    stridesA: 'i32s',
    stridesB: 'i32s',
    stridesC: 'i32s',
    activation: 'i32',
    alpha: 'f32',
    beta: 'f32',
  },
} as const;

/** Codes of the functions. pow and prelu are of float32, and to mod of integers and bools. */
export const broadcastCodes = {
  add: 0,
  sub: 1,
  mul: 2,
  div: 3,
  min: 4,
  max: 5,
  pow: 6,
  prelu: 7,
  equal: 8,
  less: 9,
  greater: 10,
  lessOrEqual: 11,
  greaterOrEqual: 12,
  and: 13,
  or: 14,
  xor: 15,
  where: 16,
  mod: 17,
} as const;

export type BroadcastOp = keyof typeof broadcastCodes;

/** Codes of the element types. Where takes any type of 8, 32 or 64 bits by its size. */
export const broadcastTypes = { float32: 0, int32: 1, int64: 2, bool: 3 } as const;
