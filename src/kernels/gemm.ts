// Parameter blocks of the matrix product kernels (assembly/gemm.ts) and the layout of packed matrices on this side: B in
// panels of 8 columns, A in panels of 4 or 6 rows, k-major, as assembly/tile.ts pictures them.
import type { Fields } from './abi.js';

/** The first fields of every kernel with an epilogue (assembly/epilogue.ts). */
export const epilogueFields = {
  bias: 'ptr',
  biasRow: 'i32',
  biasColumn: 'i32',
  residual: 'ptr',
  residualRow: 'i32',
  residualColumn: 'i32',
  residualScale: 'f32',
  scale: 'f32',
  activation: 'i32',
  alpha: 'f32',
  beta: 'f32',
} as const satisfies Fields;

export const gemm = {
  packA: {
    a: 'ptr',
    packed: 'ptr',
    matrices: 'i32',
    stride: 'i32',
    m: 'i32',
    k: 'i32',
    row: 'i32',
    column: 'i32',
    height: 'i32',
  },
  packB: {
    b: 'ptr',
    packed: 'ptr',
    matrices: 'i32',
    stride: 'i32',
    k: 'i32',
    n: 'i32',
    row: 'i32',
    column: 'i32',
  },
  gemm: {
    ...epilogueFields,
    a: 'ptr',
    b: 'ptr',
    c: 'ptr',
    batches: 'i32',
    aIndex: 'i32s',
    bIndex: 'i32s',
    m: 'i32',
    n: 'i32',
    k: 'i32',
    chunk: 'i32',
    height: 'i32',
    width: 'i32',
  },
} as const satisfies Record<string, Fields>;

/** Columns of a B panel. */
export const PANEL_COLUMNS = 8;

/** A matrix in an array: where it starts and the strides of an element. */
export interface MatrixView {
  readonly data: ArrayLike<number>;
  readonly offset: number;
  readonly row: number;
  readonly column: number;
}

/** Floats that a packed k×n matrix takes: its last panel is padded. */
export function packedSizeB(k: number, n: number): number {
  return Math.ceil(n / PANEL_COLUMNS) * PANEL_COLUMNS * k;
}

/** Packs m×k of A: panels of `height` rows, the last one lower. Takes m·k floats. */
export function packRowPanels(
  into: Float32Array,
  at: number,
  { data, offset, row, column }: MatrixView,
  m: number,
  k: number,
  height: number,
) {
  let o = at;
  for (let first = 0; first < m; first += height) {
    const rows = Math.min(height, m - first);
    for (let i = 0; i < k; i++)
      for (let r = 0; r < rows; r++) into[o++] = data[offset + (first + r) * row + i * column]!;
  }
}

/** Packs k×n of B: panels of 8 columns, the last one padded with zeros (`into` is zero before). */
export function packColumnPanels(
  into: Float32Array,
  at: number,
  { data, offset, row, column }: MatrixView,
  k: number,
  n: number,
) {
  let o = at;
  for (let first = 0; first < n; first += PANEL_COLUMNS) {
    const columns = Math.min(PANEL_COLUMNS, n - first);
    for (let i = 0; i < k; i++, o += PANEL_COLUMNS)
      for (let j = 0; j < columns; j++) into[o + j] = data[offset + i * row + (first + j) * column]!;
  }
}
