// Parameter block of pooling; how a window is joined is told in assembly/pool.ts.

export const pool = {
  /** Units: output rows. Scratch: `poolScratch` bytes. The counts are of `average` only. */
  poolF32: {
    x: 'ptr',
    y: 'ptr',
    op: 'i32',
    inD: 'i32',
    inH: 'i32',
    inW: 'i32',
    outD: 'i32',
    outH: 'i32',
    outW: 'i32',
    kernelD: 'i32',
    kernelH: 'i32',
    kernelW: 'i32',
    strideD: 'i32',
    strideH: 'i32',
    strideW: 'i32',
    dilationD: 'i32',
    dilationH: 'i32',
    dilationW: 'i32',
    padD: 'i32',
    padH: 'i32',
    padW: 'i32',
    countD: 'i32s',
    countH: 'i32s',
    countW: 'i32s',
  },
} as const;

export const poolCodes = { max: 0, average: 1, l1: 2, l2: 3 } as const;

/** Bytes of scratch that a row of `outW` outputs needs. */
export function poolScratch(outW: number, strideW: number, kernelW: number, dilationW: number): number {
  const rounded = Math.ceil(outW / 4) * 4;
  return 4 * ((rounded - 1) * strideW + (kernelW - 1) * dilationW + 1 + 8 + 4);
}
