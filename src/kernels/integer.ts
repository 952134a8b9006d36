// Parameter blocks of products and convolutions of 8-bit integers (assembly/integer-product.ts, integer-conv.ts), and
// their packed form on this side: panels of 16-bit differences, two neighbours along k side by side.
import type { Fields } from './abi.js';

/** The first fields of every kernel with integer sums: what becomes of them. */
export const integerResultFields = {
  kind: 'i32',
  bias: 'ptr',
  biasRow: 'i32',
  biasColumn: 'i32',
  scaleA: 'ptr',
  scaleAMatrix: 'i32',
  scaleARow: 'i32',
  scaleB: 'ptr',
  scaleBMatrix: 'i32',
  scaleBColumn: 'i32',
  scaleY: 'ptr',
  zeroY: 'ptr',
} as const satisfies Fields;

/** Codes of `kind`. */
export const integerResults = { int32: 0, int8: 1, uint8: 2, float32: 3 } as const;

const windows = {
  ...integerResultFields,
  x: 'ptr',
  w: 'ptr',
  y: 'ptr',
  groups: 'i32',
  m: 'i32',
  channels: 'i32',
  imageStride: 'i32',
  channelStride: 'i32',
  pixels: 'i32',
  height: 'i32',
  width: 'i32',
  strideDepth: 'i32',
  strideHeight: 'i32',
  strideWidth: 'i32',
  taps: 'i32s',
  tapCount: 'i32',
  panels: 'i32',
  chunk: 'i32',
} as const;

export const integer = {
  packIntegers: {
    x: 'ptr',
    zero: 'ptr',
    packed: 'ptr',
    signed: 'i32',
    matrices: 'i32',
    lines: 'i32',
    k: 'i32',
    stride: 'i32',
    line: 'i32',
    step: 'i32',
    zeroMatrix: 'i32',
    zeroLine: 'i32',
    panel: 'i32',
  },
  integerProduct: {
    ...integerResultFields,
    a: 'ptr',
    b: 'ptr',
    y: 'ptr',
    batches: 'i32',
    aIndex: 'i32s',
    bIndex: 'i32s',
    m: 'i32',
    n: 'i32',
    pairs: 'i32',
    chunk: 'i32',
  },
  padIntegers: {
    x: 'ptr',
    zero: 'ptr',
    y: 'ptr',
    signed: 'i32',
    depth: 'i32',
    height: 'i32',
    width: 'i32',
    paddedDepth: 'i32',
    paddedHeight: 'i32',
    paddedWidth: 'i32',
    front: 'i32',
    top: 'i32',
    left: 'i32',
  },
  integerConv: windows,
  integerDepthwise: windows,
} as const satisfies Record<string, Fields>;

/** How lines (rows of A, columns of B) lie in an array of 8-bit integers, and their zero points. */
export interface IntegerLines {
  readonly matrices: number;
  readonly lines: number;
  readonly k: number;
  readonly stride: number;
  readonly line: number;
  readonly step: number;
  readonly zeroMatrix: number;
  readonly zeroLine: number;
  readonly panel: 4 | 8;
}

/** Bytes of the packed form. */
export function packedIntegers({ matrices, lines, k, panel }: IntegerLines): number {
  return matrices * (panel === 8 ? Math.ceil(lines / 8) * 8 : lines) * Math.ceil(k / 2) * 4;
}

/** Packs as the kernel does (`into` is zero before). */
export function packIntegers(
  into: Int16Array,
  x: ArrayLike<number>,
  zeros: ArrayLike<number> | undefined,
  l: IntegerLines,
): void {
  const pairs = Math.ceil(l.k / 2);
  const packedLines = l.panel === 8 ? Math.ceil(l.lines / 8) * 8 : l.lines;
  for (let matrix = 0; matrix < l.matrices; matrix++)
    for (let first = 0; first < l.lines; first += l.panel) {
      const width = l.panel === 8 ? 8 : Math.min(4, l.lines - first);
      const at = (matrix * packedLines + first) * pairs * 2;
      for (let j = 0; j < Math.min(width, l.lines - first); j++) {
        const zero = zeros === undefined ? 0 : zeros[matrix * l.zeroMatrix + (first + j) * l.zeroLine]!;
        const from = matrix * l.stride + (first + j) * l.line;
        for (let i = 0; i < l.k; i++) into[at + ((i >> 1) * width + j) * 2 + (i & 1)] = x[from + i * l.step]! - zero;
      }
    }
}
