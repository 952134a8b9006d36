// .npy files both ways, and the forms NumPy writes that we do not.
import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SkepError } from '../../src/tensor/errors.js';
import { readNpy, writeNpy } from '../../src/tensor/npy.js';
import { sizeOf } from '../../src/tensor/shape.js';
import { bytesOf, Tensor, tensorFromBytes } from '../../src/tensor/tensor.js';
import { byteLength, type DataType } from '../../src/tensor/types.js';

/** A file as NumPy would write it. */
function npy(header: string, data: Uint8Array, version = 1): Uint8Array {
  const text = new TextEncoder().encode(`${header}\n`);
  const head = version === 1 ? [text.length & 255, text.length >> 8] : [text.length & 255, text.length >> 8, 0, 0];
  return Uint8Array.of(0x93, ...new TextEncoder().encode('NUMPY'), version, 0, ...head, ...text, ...data);
}

const named = [
  'float32',
  'float64',
  'float16',
  'int8',
  'int16',
  'int32',
  'int64',
  'uint8',
  'uint16',
  'uint32',
  'uint64',
];
const types = [...named, 'complex64', 'complex128'] as DataType[];

test('writing then reading gives the same tensor, for every type NumPy has', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...types),
      fc.array(fc.nat(4), { maxLength: 4 }),
      fc.infiniteStream(fc.nat(255)),
      (type, dims, bytes) => {
        const n = byteLength(type, sizeOf(dims));
        const tensor = tensorFromBytes(
          type,
          dims,
          Uint8Array.from({ length: n }, () => bytes.next().value),
        );
        const file = writeNpy(tensor);
        assert.is((file.length - n) % 64, 0);
        const back = readNpy(file);
        assert.equal([back.type, back.dims], [tensor.type, tensor.dims]);
        assert.equal(bytesOf(back), bytesOf(tensor));
      },
    ),
  );
  const bool = new Tensor('bool', [true, false]);
  assert.equal(readNpy(writeNpy(bool)), bool);
});

test('types NumPy lacks go out as their bits', () => {
  assert.is(readNpy(writeNpy(new Tensor('bfloat16', Uint16Array.of(1, 2), [2, 1]))).type, 'uint16');
  assert.equal(readNpy(writeNpy(new Tensor('int4', Uint8Array.of(0x21, 3), [3]))).dims, [2]);
  assert.throws(() => writeNpy(new Tensor('string', ['a'])), /strings/);
});

test('versions 2 and 3, big-endian and column-major files are read', () => {
  const data = Uint8Array.of(1, 2, 3, 4, 5, 6);
  for (const version of [1, 2, 3]) {
    const file = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }", data, version);
    assert.equal(readNpy(file), new Tensor('uint8', data, [2, 3]));
  }
  const columns = npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", data);
  assert.equal(readNpy(columns), new Tensor('uint8', Uint8Array.of(1, 3, 5, 2, 4, 6), [2, 3]));
  const big = npy("{'shape': (2,), 'fortran_order': False, 'descr': '>i2'}", Uint8Array.of(1, 2, 255, 254));
  assert.equal(readNpy(big), new Tensor('int16', Int16Array.of(258, -2)));
  const scalar = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", Uint8Array.of(0, 0, 128, 63));
  assert.equal(readNpy(scalar), new Tensor('float32', Float32Array.of(1), []));
});

test('column-major files of any rank hold what a row-major index says', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 2, maxLength: 4 }), (dims) => {
      const n = sizeOf(dims);
      const stored = Uint16Array.from({ length: n }, (_, i) => i);
      const header = `{'descr': '<u2', 'fortran_order': True, 'shape': (${dims.join(', ')},), }`;
      const { data } = readNpy(npy(header, new Uint8Array(stored.buffer))) as Tensor<'uint16'>;
      for (let i = 0; i < n; i++) {
        // Row-major i is an index; its column-major position is what was stored there.
        let rest = i;
        let position = 0;
        for (let axis = dims.length - 1; axis >= 0; axis--) {
          const index = rest % dims[axis]!;
          rest = Math.floor(rest / dims[axis]!);
          position += index * sizeOf(dims.slice(0, axis));
        }
        assert.is(data[i], position);
      }
    }),
  );
});

test('what is not a .npy file says why', () => {
  const refuse = (file: Uint8Array, pattern: RegExp) =>
    assert.throws(
      () => readNpy(file),
      (e: unknown) => e instanceof SkepError && pattern.test(e.message),
    );
  refuse(Uint8Array.of(), /no magic number/);
  const header = (descr: string, shape: string) => `{'descr': ${descr}, 'fortran_order': False, 'shape': ${shape}, }`;
  refuse(npy(header("'<f4'", '(1000000, 1000)'), Uint8Array.of(1)), /needs 4000000000 bytes, but 1 are left/);
  refuse(npy(header("'<f4'", '(99999999999, 0)'), Uint8Array.of()), /at most 2147483647/);
  refuse(npy(header("'<M8[ns]'", '(1,)'), Uint8Array.of()), /not supported/);
  refuse(npy(header("'|O8'", '(1,)'), Uint8Array.of()), /type 'O8'/);
  refuse(npy(header("'<f4'", '(1,)'), Uint8Array.of(), 9), /version 9/);
  const whole = writeNpy(new Tensor('float32', [1, 2, 3].map(Math.fround)));
  for (let n = 0; n < whole.length; n++) refuse(whole.subarray(0, n), /./);
});

test.run();
