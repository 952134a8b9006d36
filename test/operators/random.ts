// Random tensors for property tests, from a seed so that fast-check can shrink and replay.

import { sizeOf } from '../../src/tensor/shape.js';
import { Tensor } from '../../src/tensor/tensor.js';

/** Numbers in [0, 1) from a seed (mulberry32). */
export function randomFrom(seed: number): () => number {
  let s = seed | 0;
  return () => {
    s = (s + 0x6d2b79f5) | 0;
    let t = Math.imul(s ^ (s >>> 15), 1 | s);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** A float32 tensor of values in [−1, 1). */
export function randomTensor(random: () => number, dims: readonly number[]): Tensor<'float32'> {
  return new Tensor(
    'float32',
    Float32Array.from({ length: sizeOf(dims) }, () => 2 * random() - 1),
    dims,
  );
}
