// Parameter blocks of the kernels that interpolate float32 images (assembly/sampling.ts) and that select the largest
// elements (assembly/selection.ts).

export const sampling = {
  /**
   * One axis of Resize: output[o, i] = Σ_t weights[i, t] · input[o, indices[i, t]], rows of `inner` elements; a first index
   * of −1 gives `outside`. Unit: with inner 1 all of one o, otherwise one row.
   */
  resample: {
    input: 'ptr',
    output: 'ptr',
    indices: 'ptr',
    weights: 'ptr',
    n: 'i32',
    count: 'i32',
    taps: 'i32',
    inner: 'i32',
    outside: 'f32',
  },
  /**
   * GridSample of images: mode 0 nearest, 1 linear, 2 cubic; padding 0 zeros, 1 border, 2 reflection. Unit: one row of the
   * grid. Thread scratch: 128 bytes (taps of one point).
   */
  gridSample: {
    input: 'ptr',
    grid: 'ptr',
    output: 'ptr',
    channels: 'i32',
    height: 'i32',
    width: 'i32',
    outHeight: 'i32',
    outWidth: 'i32',
    mode: 'i32',
    padding: 'i32',
    alignCorners: 'i32',
  },
  /** RoiAlign: mode 0 average, 1 max; `ratio` 0 adapts. Unit: one channel of one region. */
  roiAlign: {
    input: 'ptr',
    rois: 'ptr',
    batch: 'ptr',
    output: 'ptr',
    batches: 'i32',
    channels: 'i32',
    height: 'i32',
    width: 'i32',
    outHeight: 'i32',
    outWidth: 'i32',
    ratio: 'i32',
    mode: 'i32',
    scale: 'f32',
    offset: 'f32',
    wide: 'i32',
  },
  /** TopK of float32: values and int64 indices, sorted, ties by index, NaN above all. Unit: one line along the axis. */
  topK: { input: 'ptr', values: 'ptr', indices: 'ptr', n: 'i32', k: 'i32', inner: 'i32', largest: 'i32' },
} as const;
