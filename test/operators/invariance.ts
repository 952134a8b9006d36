// Batch invariance of one node: a row of the input gets the same bits alone as among others, wherever it stands.
import * as assert from 'uvu/assert';
import { sizeOf } from '../../src/tensor/shape.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { assertSameBits, builds, type NodeTest, runKernels } from './harness.js';

/** Elements [from, from + count) along an axis. */
export function sliceOf(t: Tensor, axis: number, from: number, count: number): Tensor {
  const outer = sizeOf(t.dims.slice(0, axis));
  const inner = sizeOf(t.dims.slice(axis + 1));
  const n = t.dims[axis]!;
  const data = t.data as Float32Array;
  const parts = Array.from({ length: outer }, (_, o) =>
    Array.from(data.subarray((o * n + from) * inner, (o * n + from + count) * inner)),
  );
  return new Tensor(t.type, t.type === 'float32' ? Float32Array.from(parts.flat()) : parts.flat(), [
    ...t.dims.slice(0, axis),
    count,
    ...t.dims.slice(axis + 1),
  ]);
}

/** Runs `t` on all rows of input 0 along `axis`, and on each row alone, with every build; output 0 keeps the axis. */
export function checkRows(t: NodeTest, axis = 0, outputAxis = axis): void {
  const x = t.inputs[0] as Tensor;
  for (const build of builds) {
    const { outputs, references } = runKernels(t, build);
    assert.equal(references, [], `${t.op} fell back to the reference`);
    for (let row = 0; row < x.dims[axis]!; row++) {
      const alone = runKernels({ ...t, inputs: [sliceOf(x, axis, row, 1), ...t.inputs.slice(1)] }, build).outputs[0]!;
      const among = sliceOf(outputs[0] as Tensor, outputAxis, row, 1);
      assertSameBits(alone, among, `${t.op} (${build}) row ${row}`);
    }
  }
}
