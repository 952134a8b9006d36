// Bytes at odd places: files come as Buffers out of a pool, at any offset.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Tensor, tensorFromBytes } from '../../src/tensor/tensor.js';
import { readTensorProto, writeTensorProto } from '../../src/tensor/tensor-proto.js';

/** The same bytes as a Buffer and as a Uint8Array, `shift` bytes into a larger buffer. */
function shifted(bytes: Uint8Array, shift: number): Uint8Array[] {
  const large = new Uint8Array(bytes.length + shift + 8);
  large.set(bytes, shift);
  return [Buffer.from(large.buffer, shift, bytes.length), large.subarray(shift, shift + bytes.length)];
}

test('tensors are read from Buffers and arrays at any offset', () => {
  const t = new Tensor('float32', [1.5, -2, 3], [3]);
  const raw = new Uint8Array((t.data as Float32Array).buffer);
  const proto = writeTensorProto(t);
  // float_data, packed: field 4.
  const typed = Uint8Array.of(0x08, 3, 0x10, 1, 0x22, 12, ...raw);
  for (let shift = 0; shift < 8; shift++) {
    for (const bytes of shifted(raw, shift)) assert.equal(tensorFromBytes('float32', [3], bytes).data, t.data);
    for (const form of [proto, typed])
      for (const bytes of shifted(form, shift)) assert.equal(readTensorProto(bytes).tensor.data, t.data);
  }
});

test.run();
