// The Tensor class: what it takes, what it refuses; and arithmetic on shapes.
import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SkepError } from '../../src/tensor/errors.js';
import {
  broadcastShapes,
  broadcastStrides,
  forEachOffset,
  normalizeAxis,
  sizeOf,
  stridesOf,
} from '../../src/tensor/shape.js';
import { bytesOf, Tensor, tensorFromBytes, zeros } from '../../src/tensor/tensor.js';

function refuses(run: () => unknown, pattern: RegExp): void {
  assert.throws(run, (e: unknown) => e instanceof SkepError && e.code === 'INVALID_INPUT' && pattern.test(e.message));
}

test("the type's own array is kept, without a copy", () => {
  const data = Float32Array.of(1, 2, 3, 4);
  const t = new Tensor('float32', data, [2, 2]);
  assert.is(t.data, data);
  assert.equal([t.type, t.dims, t.size], ['float32', [2, 2], 4]);
  assert.equal(new Tensor('float32', data).dims, [4]);
  assert.equal(new Tensor('float32', [1], []).size, 1);
  assert.equal(new Tensor('float32', [], [0, 3]).size, 0);
});

test('the shape given is copied', () => {
  const dims = [2];
  const t = new Tensor('int32', [1, 2], dims);
  dims[0] = 7;
  assert.equal(t.dims, [2]);
});

test('64-bit integers come as numbers, BigInts or any integer array', () => {
  for (const data of [[1, -2], [1n, -2n], Int32Array.of(1, -2), BigInt64Array.of(1n, -2n), Int8Array.of(1, -2)])
    assert.equal(new Tensor('int64', data).data, BigInt64Array.of(1n, -2n));
  assert.equal(new Tensor('uint64', Uint8Array.of(3)).data, BigUint64Array.of(3n));
  refuses(() => new Tensor('int64', [1.5]), /value 0 of an int64 tensor must be an integer, got 1.5/);
  refuses(() => new Tensor('int64', Float32Array.of(1)), /BigInt64Array or an array, got Float32Array/);
});

test('float16 and bfloat16 come as bits or as numbers; float8 as numbers too', () => {
  assert.equal(new Tensor('float16', Uint16Array.of(0x3c00)).data, Uint16Array.of(0x3c00));
  assert.equal(new Tensor('float16', [1, -2]).data, Uint16Array.of(0x3c00, 0xc000));
  assert.equal(new Tensor('bfloat16', [1]).data, Uint16Array.of(0x3f80));
  assert.equal(new Tensor('float8e4m3fn', [1]).data, Uint8Array.of(0x38));
  refuses(() => new Tensor('float16', ['1']), /value 0 of a float16 tensor must be a number, got string/);
  refuses(() => new Tensor('float4e2m1', [1]), /must be given as bits/);
  type Half = new (values: readonly number[]) => ArrayBufferView;
  const Float16 = (globalThis as { Float16Array?: Half }).Float16Array;
  if (Float16 !== undefined) assert.equal(new Tensor('float16', new Float16([1])).data, Uint16Array.of(0x3c00));
});

test('bool takes booleans, strings are strings, packed types count elements', () => {
  assert.equal(new Tensor('bool', [true, false]).data, Uint8Array.of(1, 0));
  assert.equal(new Tensor('string', ['a', ''], [2, 1]).size, 2);
  assert.is(new Tensor('int4', Uint8Array.of(1, 2), [3]).size, 3);
  refuses(() => new Tensor('string', [1]), /needs an array of strings/);
  refuses(() => new Tensor('float32', [true]), /value 0 of a float32 tensor must be a number, got boolean/);
});

test('what does not fit says what was needed and what came', () => {
  refuses(() => new Tensor('float32', [1, 2], [3]), /float32 tensor of shape \[3\] needs 3 values, got 2/);
  refuses(() => new Tensor('float32', Int32Array.of(1)), /must be a Float32Array or an array, got Int32Array/);
  refuses(() => new Tensor('float32', [], [-1]), /non-negative/);
  refuses(() => new Tensor('float32', [], [1.5]), /non-negative integers/);
  refuses(() => new Tensor('float32', [], [2 ** 31, 0]), /at most 2147483647/);
  refuses(() => new Tensor('float32', [], [65536, 65536]), /has 4294967296 elements/);
  refuses(() => new Tensor('float99' as 'float32', []), /unknown element type 'float99'/);
  refuses(() => new Tensor('toString' as 'float32', []), /unknown element type/);
  refuses(() => new Tensor('float32', 'no' as unknown as number[]), /must be an array/);
});

test('bytes and tensors, aligned or not', () => {
  for (let shift = 0; shift < 9; shift++) {
    const bytes = new Uint8Array(shift + 16).subarray(shift);
    bytes[7] = 0x3f;
    bytes[6] = 0xf0;
    const t = tensorFromBytes('float64', [2], bytes);
    assert.equal(Array.from(t.data), [1, 0]);
    assert.equal(bytesOf(t), bytes);
    assert.is(t.data.buffer === bytes.buffer, shift % 8 === 0);
  }
  refuses(() => tensorFromBytes('float64', [2], new Uint8Array(15)), /needs 16 bytes, got 15/);
  assert.equal(zeros('string', [2]).data, ['', '']);
});

const shape = fc.array(fc.integer({ min: 1, max: 3 }), { maxLength: 4 });

test('offsets of a broadcast are what indices say', () => {
  fc.assert(
    fc.property(shape, shape, (a, b) => {
      const to = broadcastShapes(a, b);
      if (to === undefined) {
        const pairs = a.map((d, i) => [d, b[b.length - a.length + i] ?? 1] as const);
        assert.ok(pairs.some(([x, y]) => x !== y && x !== 1 && y !== 1));
        return;
      }
      const strides = broadcastStrides(a, to);
      let seen = 0;
      forEachOffset(to, [strides, stridesOf(to)], ([offset, own], linear) => {
        assert.is(own, linear);
        // Take the index apart, and put it together again over `a`.
        let expected = 0;
        stridesOf(to).forEach((s, i) => {
          const index = Math.floor(linear / s) % to[i]!;
          const axis = i - (to.length - a.length);
          if (axis >= 0 && a[axis] !== 1) expected += index * stridesOf(a)[axis]!;
        });
        assert.is(offset, expected);
        seen++;
      });
      assert.is(seen, sizeOf(to));
    }),
  );
  assert.equal(broadcastShapes([0], [1]), [0]);
  assert.equal(broadcastShapes([0], [2]), undefined);
});

test('axes count from either end', () => {
  assert.equal([normalizeAxis(-1, 3), normalizeAxis(2, 3), normalizeAxis(0, 0)], [2, 2, 0]);
  assert.throws(() => normalizeAxis(3, 3), /axis 3 is outside \[-3, 2\]/);
  assert.throws(() => normalizeAxis(-4, 3), /axis -4/);
});

test.run();
