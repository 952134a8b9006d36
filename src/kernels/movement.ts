// Parameter blocks of the kernels that move data (assembly/movement.ts, indexing.ts). Strides, sizes and offsets are in
// bytes; `wide` is 1 where indices are int64, 0 where they are int32.
import { sampling } from './sampling.js';

export const movement = {
  ...sampling,
  /** output[Σ i·outStrides] = input[Σ i·inStrides] over dims; elements of `size` bytes (1, 2, 4, 8, 16); rank ≥ 2. Unit: a row. */
  copy: { input: 'ptr', output: 'ptr', dims: 'i32s', inStrides: 'i32s', outStrides: 'i32s', rank: 'i32', size: 'i32' },
  /**
   * The same where the input runs along another axis than the output: rows are contiguous in the input, columns in the
   * output; dims and strides are those of the outer axes. Unit: 16 rows of one outer index.
   */
  transpose: {
    input: 'ptr',
    output: 'ptr',
    dims: 'i32s',
    inStrides: 'i32s',
    outStrides: 'i32s',
    rank: 'i32',
    size: 'i32',
    rows: 'i32',
    columns: 'i32',
    inColumn: 'i32',
    outRow: 'i32',
  },
  /**
   * output[i…] = input[Σ tables[axis][i]]: every axis has a table of input offsets, one after the other in `tables`;
   * a negative entry takes the element at `fill`. Output is dense. Unit: a row of the last axis.
   */
  tableCopy: { input: 'ptr', output: 'ptr', fill: 'ptr', tables: 'ptr', dims: 'i32s', rank: 'i32', size: 'i32' },
  /** Keeps the upper (or lower) triangle of matrices, zeroes the rest; `k` is an int64. Unit: a matrix row. */
  trilu: { input: 'ptr', output: 'ptr', rows: 'i32', columns: 'i32', k: 'ptr', upper: 'i32', size: 'i32' },
  /** output[o, i] = data[o, indices[i]], runs of `run` bytes. Unit: a run of the output. */
  gather: { data: 'ptr', indices: 'ptr', output: 'ptr', count: 'i32', axisDim: 'i32', run: 'i32', wide: 'i32' },
  /** GatherElements: dims are the indices', strides the data's (that of `axis` zero). Unit: a row of the last axis. */
  gatherElements: {
    data: 'ptr',
    indices: 'ptr',
    output: 'ptr',
    dims: 'i32s',
    strides: 'i32s',
    rank: 'i32',
    axisDim: 'i32',
    axisStride: 'i32',
    size: 'i32',
    wide: 'i32',
  },
  /** GatherND: index tuples over dims and strides of the data after the batch axes. Unit: a tuple. */
  gatherND: {
    data: 'ptr',
    indices: 'ptr',
    output: 'ptr',
    dims: 'i32s',
    strides: 'i32s',
    tuple: 'i32',
    perBatch: 'i32',
    batchStride: 'i32',
    run: 'i32',
    wide: 'i32',
  },
  /**
   * ScatterElements onto an output that holds the data already: dims are the indices' without the axis, with strides of
   * indices/updates (in elements) and output (in bytes). Unit: a line along the axis, in order. `reduction` 0 none;
   * 1 add, 2 mul, 3 max, 4 min of float32.
   */
  scatterElements: {
    output: 'ptr',
    indices: 'ptr',
    updates: 'ptr',
    dims: 'i32s',
    indexStrides: 'i32s',
    outStrides: 'i32s',
    rank: 'i32',
    count: 'i32',
    indexStride: 'i32',
    axisDim: 'i32',
    axisStride: 'i32',
    size: 'i32',
    reduction: 'i32',
    wide: 'i32',
  },
  /** ScatterND onto an output that holds the data already. Unit: one element of the run, for all tuples in order. */
  scatterND: {
    output: 'ptr',
    indices: 'ptr',
    updates: 'ptr',
    dims: 'i32s',
    strides: 'i32s',
    tuple: 'i32',
    count: 'i32',
    run: 'i32',
    size: 'i32',
    reduction: 'i32',
    wide: 'i32',
  },
  /** TensorScatter onto an output that holds the cache already: runs of `run` bytes. Unit: one position of one prefix. */
  tensorScatter: {
    output: 'ptr',
    updates: 'ptr',
    indices: 'ptr',
    perBatch: 'i32',
    sequence: 'i32',
    capacity: 'i32',
    circular: 'i32',
    run: 'i32',
    wide: 'i32',
  },
} as const;
