// Parameter blocks of the kernels that belong to no operator.

export const builtin = {
  /** Nothing; measures the cost of a call. */
  nop: {},
} as const;
