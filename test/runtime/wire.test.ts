import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { HostValue } from '../../src/operators/operator.js';
import { Heap, ModelMemory } from '../../src/runtime/memory.js';
import { copyOut } from '../../src/runtime/staged.js';
import { readValues, writeValues } from '../../src/runtime/wire.js';
import { Tensor, zeros } from '../../src/tensor/tensor.js';
import { type DataType, dataTypes } from '../../src/tensor/types.js';

function through(values: readonly (HostValue | undefined)[]): (HostValue | undefined)[] {
  const memory = new ModelMemory();
  const heap = new Heap(memory);
  const block = writeValues(memory, heap, values);
  const back = readValues(memory, block).map((v) => (v === undefined ? undefined : copyOut(memory, v)));
  heap.free(block);
  assert.is(heap.usedBytes, 0);
  return back;
}

test('tensors of every type arrive as they were sent', () => {
  for (const type of Object.keys(dataTypes) as DataType[]) {
    if (type === 'string') continue;
    const sent = zeros(type, [2, 3]);
    new Uint8Array((sent.data as Uint8Array).buffer).forEach((_, i, all) => {
      all[i] = (i * 37 + 11) & 255;
    });
    const [got] = through([sent]);
    assert.equal(got, sent, type);
  }
});

test('strings, sequences, empty optionals, omitted inputs and zero sizes arrive too', () => {
  const values = [
    new Tensor('string', ['', 'größe', '🐝'], [3, 1]),
    undefined,
    null,
    [new Tensor('float32', [1, 2]), new Tensor('string', ['x'], [])],
    [],
    zeros('float32', [0, 4]),
    new Tensor('int64', [2n ** 60n, -1], [2]),
    new Tensor('float64', [Math.PI], []),
  ];
  assert.equal(through(values), values);
});

test('what was copied out stays when the memory is reused', () => {
  const memory = new ModelMemory();
  const heap = new Heap(memory);
  const block = writeValues(memory, heap, [new Tensor('int32', [1, 2, 3])]);
  const got = copyOut(memory, readValues(memory, block)[0]!) as Tensor<'int32'>;
  heap.free(block);
  memory.u8.fill(255);
  assert.equal(Array.from(got.data), [1, 2, 3]);
  assert.instance(got.data.buffer, ArrayBuffer);
});

test.run();
