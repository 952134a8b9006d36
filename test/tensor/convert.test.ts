// Conversions between stored elements and numbers, over every bit pattern, against a slow definition of nearest.
import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import {
  bfloat16ToNumber,
  decode,
  decodeBig,
  encode,
  encodeBig,
  float16ToNumber,
  numberToBfloat16,
  numberToFloat16,
} from '../../src/tensor/convert.js';
import { isMinifloat, minifloatTable, numberToMinifloat } from '../../src/tensor/minifloat.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { type DataType, dataTypes } from '../../src/tensor/types.js';

/** The code whose value is nearest; of two, the even one. `values` are the non-negative codes' values, ascending. */
function nearest(values: readonly number[], a: number): number {
  let low = 0;
  let high = values.length - 1;
  while (high - low > 1) {
    const mid = (low + high) >> 1;
    if (values[mid]! <= a) low = mid;
    else high = mid;
  }
  const below = a - values[low]!;
  const above = values[high]! - a;
  if (below !== above) return below < above ? low : high;
  return low % 2 === 0 ? low : high;
}

test('every float16 survives a round trip, NaNs as NaN', () => {
  for (let bits = 0; bits < 65536; bits++) {
    const x = float16ToNumber(bits);
    if (Number.isNaN(x)) assert.is(numberToFloat16(x) & 0x7c00, 0x7c00);
    else assert.is(numberToFloat16(x), bits);
  }
  const all = new Tensor(
    'float16',
    Uint16Array.from({ length: 65536 }, (_, i) => i),
  );
  // uvu compares typed arrays with ===, which NaN fails.
  assert.equal(
    Array.from(decode(all)),
    Array.from({ length: 65536 }, (_, i) => float16ToNumber(i)),
  );
});

test('rounding to float16 is to the nearest, ties to even', () => {
  const values = Array.from({ length: 0x7c00 }, (_, bits) => float16ToNumber(bits));
  for (let bits = 0; bits + 1 < values.length; bits++) {
    const middle = (values[bits]! + values[bits + 1]!) / 2;
    const even = bits % 2 === 0 ? bits : bits + 1;
    assert.is(numberToFloat16(middle), even);
    assert.is(numberToFloat16(-middle), even | 0x8000);
    assert.is(numberToFloat16(middle * (1 - 2 ** -40)), bits);
    assert.is(numberToFloat16(middle * (1 + 2 ** -40)), bits + 1);
  }
  fc.assert(
    fc.property(fc.double({ min: -65519, max: 65519, noNaN: true }), (x) => {
      const sign = x < 0 || Object.is(x, -0) ? 0x8000 : 0;
      assert.is(numberToFloat16(x), sign | nearest(values, Math.abs(x)));
    }),
  );
  assert.is(numberToFloat16(65519.99), 0x7bff);
  assert.is(numberToFloat16(65520), 0x7c00);
  assert.is(numberToFloat16(-Infinity), 0xfc00);
});

test('where the platform has Float16Array, it agrees', () => {
  type Half = new (values: readonly number[]) => ArrayBufferView;
  const Float16 = (globalThis as { Float16Array?: Half }).Float16Array;
  if (Float16 === undefined) return;
  const one = (x: number) => new Uint16Array(new Float16([x]).buffer as ArrayBuffer)[0]!;
  fc.assert(
    fc.property(fc.double({ noNaN: true }), fc.float({ noNaN: true }), (x, y) => {
      assert.is(numberToFloat16(x), one(x));
      assert.is(numberToFloat16(y), one(y));
    }),
    { numRuns: 2000 },
  );
});

test('every bfloat16 survives a round trip, and float32 rounds to the nearest', () => {
  for (let bits = 0; bits < 65536; bits++) {
    const x = bfloat16ToNumber(bits);
    if (Number.isNaN(x)) assert.ok(Number.isNaN(bfloat16ToNumber(numberToBfloat16(x))));
    else assert.is(numberToBfloat16(x), bits);
  }
  const values = Array.from({ length: 0x7f80 }, (_, bits) => bfloat16ToNumber(bits));
  fc.assert(
    fc.property(fc.float({ min: 0, max: Math.fround(3.3e38), noNaN: true }), (x) => {
      assert.is(numberToBfloat16(Math.abs(x)), nearest(values, Math.abs(x)));
    }),
  );
});

/** The largest value, infinity and NaN of each type (ONNX, "Float stored in 8 bits" and "… 4 bits"). */
const facts = [
  ['float8e4m3fn', 448, NaN, 2 ** -9],
  ['float8e4m3fnuz', 240, NaN, 2 ** -10],
  ['float8e5m2', 57344, Infinity, 2 ** -16],
  ['float8e5m2fnuz', 57344, NaN, 2 ** -17],
  ['float4e2m1', 6, 6, 0.5],
] as const;

for (const [type, largest, beyond, smallest] of facts) {
  test(`${type}: every code, and every midpoint between two`, () => {
    const table = minifloatTable(type);
    const positive = [...table.slice(0, table.length / 2)].filter((x) => Number.isFinite(x));
    assert.is(positive[0], 0);
    assert.is(positive[1], smallest);
    assert.is(positive.at(-1), largest);
    for (let i = 0; i < table.length; i++)
      if (!Number.isNaN(table[i])) assert.is(numberToMinifloat(type, table[i]!, { saturate: false }), i);
    for (let i = 0; i + 1 < positive.length; i++) {
      const middle = (positive[i]! + positive[i + 1]!) / 2;
      const even = i % 2 === 0 ? i : i + 1;
      assert.is(numberToMinifloat(type, middle), even);
      assert.is(table[numberToMinifloat(type, -middle)], even === 0 && type.endsWith('uz') ? 0 : -table[even]!);
      assert.is(numberToMinifloat(type, middle * 0.999999), i);
      assert.is(numberToMinifloat(type, middle * 1.000001), i + 1);
    }
  });

  test(`${type}: out of range, with and without saturation`, () => {
    const table = minifloatTable(type);
    const of = (x: number, saturate: boolean) => table[numberToMinifloat(type, x, { saturate })]!;
    const step = positiveStep(table);
    for (const x of [largest + step * 0.51, 1e6, 1e300, Infinity]) {
      assert.is(of(x, true), largest);
      assert.is(of(-x, true), -largest);
      assert.equal(of(x, false), beyond);
    }
    assert.is(of(largest + step / 4, false), largest);
    if (type === 'float4e2m1') assert.is(of(NaN, true), 6);
    else assert.ok(Number.isNaN(of(NaN, true)) && Number.isNaN(of(NaN, false)));
    assert.is(Object.is(of(-0, true), -0), !type.endsWith('uz'));
  });
}

/** The gap below the largest value. */
function positiveStep(table: Float32Array): number {
  const finite = [...table].filter((x) => Number.isFinite(x)).sort((a, b) => b - a);
  return finite[0]! - finite[1]!;
}

test('float8e8m0: powers of two, rounded up unless asked otherwise', () => {
  const of = (x: number, roundMode?: 'up' | 'down' | 'nearest', saturate = true) =>
    numberToMinifloat('float8e8m0', x, roundMode === undefined ? { saturate } : { roundMode, saturate });
  const table = minifloatTable('float8e8m0');
  for (let i = 1; i < 255; i++) {
    assert.is(table[i], 2 ** (i - 127));
    for (const mode of ['up', 'down', 'nearest'] as const) assert.is(of(table[i]!, mode), i);
  }
  assert.equal([of(3), of(3, 'down'), of(3, 'nearest'), of(2.9, 'nearest'), of(-3)], [129, 128, 129, 128, 129]);
  assert.equal([of(3.4e38), of(3.4e38, 'up', false), of(0), of(Infinity), of(NaN)], [254, 255, 0, 255, 255]);
});

test('packed integers: every byte decodes and encodes to itself', () => {
  const bytes = Uint8Array.from({ length: 256 }, (_, i) => i);
  for (const [type, per, low, high] of [
    ['int4', 2, -8, 7],
    ['uint4', 2, 0, 15],
    ['int2', 4, -2, 1],
    ['uint2', 4, 0, 3],
  ] as const) {
    const values = Array.from(decode(new Tensor(type, bytes, [256 * per])));
    assert.is(Math.min(...values), low);
    assert.is(Math.max(...values), high);
    assert.equal(encode(type, values), bytes);
    // An odd number of elements leaves the rest of the last byte 0.
    assert.equal(Array.from(decode(new Tensor(type, encode(type, [1, 0, 1, low, high]), [5]))), [1, 0, 1, low, high]);
  }
  assert.equal(encode('int4', [1, -2]), Uint8Array.of(0xe1));
  assert.equal(encode('float4e2m1', [1, -6, 0.5]), Uint8Array.of(0xf2, 0x01));
});

test('decode and encode are inverse for every numeric type', () => {
  for (const type of Object.keys(dataTypes) as DataType[]) {
    if (type === 'string' || dataTypes[type].kind === 'complex') continue;
    const values = type === 'bool' ? [0, 1] : type === 'float8e8m0' || type.startsWith('int2') ? [1] : [0, 1, 2, 3];
    const data = encode(type, values);
    assert.equal(Array.from(decode(new Tensor(type, data, [values.length]))), values, type);
    assert.is(isMinifloat(type), /^float[48]e/.test(type), type);
  }
});

test('64-bit integers keep every bit, and what is not a number has a place', () => {
  const big = [2n ** 63n - 1n, -(2n ** 63n), 0n, -1n];
  const tensor = new Tensor('int64', BigInt64Array.from(big));
  assert.equal(Array.from(decodeBig(tensor)), big);
  assert.equal(Array.from(encodeBig('int64', big) as BigInt64Array), big);
  assert.equal(Array.from(encodeBig('int32', [2n ** 32n + 5n, -7n]) as Int32Array), [5, -7]);
  assert.equal(Array.from(encodeBig('float64', [2n ** 40n]) as Float64Array), [2 ** 40]);
  assert.equal(Array.from(encode('int64', [-1.9, NaN, Infinity, -Infinity]) as BigInt64Array), [
    -1n,
    0n,
    big[0],
    big[1],
  ]);
  assert.equal(Array.from(encode('int32', [-1.9, 2 ** 32 + 3]) as Int32Array), [-1, 3]);
});

test.run();
