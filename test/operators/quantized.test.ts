// Quantized operators: kernels against the reference, to the last bit, over random layouts of scales and zero points.
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Attribute } from '../../src/graph/graph.js';
import { decode, encode } from '../../src/tensor/convert.js';
import { sizeOf } from '../../src/tensor/shape.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { type DataType, typeInfo } from '../../src/tensor/types.js';
import { check, type NodeTest, runReference } from './harness.js';
import { randomFrom, randomTensor } from './random.js';

const int = (value: number): Attribute => ({ kind: 'int', value });
const ints = (value: readonly number[]): Attribute => ({ kind: 'ints', value });
const exact = { rtol: 0, atol: 0 };

/** Random values over the whole range of an integer type. */
function integers(random: () => number, type: DataType, dims: readonly number[]): Tensor {
  const { bits, kind } = typeInfo(type);
  const low = kind === 'signed' ? -(2 ** (bits - 1)) : 0;
  const values = Array.from({ length: sizeOf(dims) }, () => low + Math.floor(random() * 2 ** bits));
  return new Tensor(type, encode(type, values), dims);
}

/** Positive scales, so that quotients reach beyond the range of 8 bits and ties are met. */
function scales(random: () => number, dims: readonly number[]): Tensor {
  const values = Float32Array.from({ length: sizeOf(dims) }, () => (random() < 0.3 ? 1 / 64 : 0.002 + random() / 64));
  return new Tensor('float32', values, dims);
}

const small = fc.integer({ min: 1, max: 5 });
const dimsOf = fc.array(small, { minLength: 1, maxLength: 4 });

const layout = fc.record({
  seed: fc.integer(),
  dims: dimsOf,
  last: fc.constantFrom(1, 3, 16, 37),
  axis: fc.nat(3),
  kind: fc.constantFrom('tensor', 'axis', 'blocks'),
  block: fc.integer({ min: 1, max: 4 }),
  zero: fc.boolean(),
});
type Layout = typeof layout extends fc.Arbitrary<infer T> ? T : never;

function granularity(l: Layout) {
  const dims = [...l.dims, l.last];
  const axis = l.axis % dims.length;
  const attributes: Record<string, Attribute> = { axis: int(axis - (l.seed % 2 === 0 ? dims.length : 0)) };
  if (l.kind === 'tensor') return { dims, scale: [], attributes };
  if (l.kind === 'axis') return { dims, scale: [dims[axis]!], attributes };
  const scale = dims.map((d, i) => (i === axis ? Math.ceil(d / l.block) : d));
  return { dims, scale, attributes: { ...attributes, block_size: int(l.block) } };
}

/** Blocks that the last axis does not divide into have no kernel. */
function hasKernel(l: Layout): boolean {
  const dims = [...l.dims, l.last];
  const axis = l.axis % dims.length;
  return l.kind !== 'blocks' || sizeOf(dims.slice(axis + 1)) > 1 || dims[axis]! % l.block === 0;
}

test('QuantizeLinear by tensor, axis and blocks', () => {
  const types = fc.constantFrom<DataType>('int8', 'uint8', 'int16', 'uint16');
  fc.assert(
    fc.property(layout, types, (l, type) => {
      const random = randomFrom(l.seed);
      const { dims, scale, attributes } = granularity(l);
      const x = randomTensor(random, dims).data.map((v) => (random() < 0.05 ? Number.NaN : v * 3));
      if (x.length > 2) x.set([Infinity, -Infinity], 0);
      const inputs = [new Tensor('float32', x, dims), scales(random, scale), integers(random, type, scale)];
      check({ op: 'QuantizeLinear', opset: 25, inputs, attributes }, { ...exact, fallback: !hasKernel(l) });
    }),
    { numRuns: 60 },
  );
});

test('DequantizeLinear by tensor, axis and blocks, from 4 bits on', () => {
  const types = fc.constantFrom<DataType>('int8', 'uint8', 'int16', 'uint16', 'int32', 'int4', 'uint4');
  fc.assert(
    fc.property(layout, types, (l, type) => {
      const random = randomFrom(l.seed);
      const { dims, scale, attributes } = granularity(l);
      const zero = l.zero && type !== 'int32' ? [integers(random, type, scale)] : [];
      const inputs = [integers(random, type, dims), scales(random, scale), ...zero];
      check({ op: 'DequantizeLinear', opset: 25, inputs, attributes }, { ...exact, fallback: !hasKernel(l) });
    }),
    { numRuns: 60 },
  );
});

test('quantizing what was dequantized gives the same integers, in every type', () => {
  const types = ['int2', 'uint2', 'int4', 'uint4', 'int8', 'uint8', 'int16', 'uint16'] as const;
  for (const type of types) {
    const random = randomFrom(7);
    const x = integers(random, type, [3, 8]);
    const zero = integers(random, type, [3]);
    const scale = new Tensor('float32', new Float32Array([0.25, 0.1, 3]), [3]);
    const attributes = { axis: int(0) };
    const [y] = runReference({ op: 'DequantizeLinear', opset: 25, inputs: [x, scale, zero], attributes });
    const [back] = runReference({ op: 'QuantizeLinear', opset: 25, inputs: [y!, scale, zero], attributes });
    assert.equal(back, x, type);
  }
});

test('ties go to even before the zero point is added', () => {
  const x = new Tensor('float32', new Float32Array([0.5, 1.5, 2.5, -0.5, -1.5, 300, -300]), [7]);
  const scale = new Tensor('float32', new Float32Array([1]), []);
  const t: NodeTest = { op: 'QuantizeLinear', opset: 13, inputs: [x, scale, new Tensor('uint8', [101], [])] };
  assert.equal(Array.from(decode(runReference(t)[0] as Tensor)), [101, 103, 103, 101, 99, 255, 0]);
  check(t, exact);
});

test('float8: saturation or not', () => {
  const x = new Tensor('float32', new Float32Array([1e6, -1e6, 1, 0.3]), [4]);
  const scale = new Tensor('float32', new Float32Array([1]), []);
  const zero = new Tensor('float8e4m3fn', new Uint8Array(1), []);
  const run = (saturate: number) => {
    const attributes = { saturate: int(saturate) };
    return decode(runReference({ op: 'QuantizeLinear', opset: 19, inputs: [x, scale, zero], attributes })[0] as Tensor);
  };
  assert.equal(Array.from(run(1)), [448, -448, 1, 0.3125]);
  assert.ok(Number.isNaN(run(0)[0]));
});

test('DynamicQuantizeLinear', () => {
  fc.assert(
    fc.property(fc.integer(), fc.constantFrom(0, 1, 3, 37, 4097, 9000), fc.constantFrom(0, 1, -2), (seed, n, shift) => {
      const x = randomTensor(randomFrom(seed), [n]).data.map((v) => v + shift);
      check({ op: 'DynamicQuantizeLinear', inputs: [new Tensor('float32', x, [n])], outputs: 3 }, exact);
    }),
    { numRuns: 40 },
  );
});

const byte = fc.constantFrom<DataType>('int8', 'uint8');
const matMul = fc.record({
  seed: fc.integer(),
  a: byte,
  b: byte,
  batch: fc.constantFrom<[number[], number[]]>([[], []], [[3], []], [[2], [2]], [[2, 1], [3]], [[], [2]]),
  m: fc.constantFrom(1, 2, 3, 4, 5, 70),
  n: fc.constantFrom(1, 3, 8, 17),
  k: fc.constantFrom(0, 1, 2, 7, 32),
  perRow: fc.constantFrom<'one' | 'line' | 'full'>('one', 'line', 'full'),
  perColumn: fc.constantFrom<'one' | 'line' | 'full'>('one', 'line', 'full'),
  constant: fc.boolean(),
});
type MatMul = typeof matMul extends fc.Arbitrary<infer T> ? T : never;

function operands(g: MatMul) {
  const random = randomFrom(g.seed);
  const [aBatch, bBatch] = g.batch;
  const rows = g.perRow === 'one' ? [] : g.perRow === 'line' ? [g.m] : [...aBatch, g.m, 1];
  const columns = g.perColumn === 'one' ? [] : g.perColumn === 'line' ? [g.n] : [...bBatch, 1, g.n];
  return {
    random,
    rows,
    columns,
    a: integers(random, g.a, [...aBatch, g.m, g.k]),
    b: integers(random, g.b, [...bBatch, g.k, g.n]),
    zeroA: integers(random, g.a, rows),
    zeroB: integers(random, g.b, columns),
  };
}

test('MatMulInteger with zero points of rows and columns', () => {
  fc.assert(
    fc.property(matMul, (g) => {
      const { a, b, zeroA, zeroB } = operands(g);
      check({ op: 'MatMulInteger', inputs: [a, b, zeroA, zeroB], constants: g.constant ? [1, 3] : [] }, exact);
    }),
    { numRuns: 60 },
  );
});

test('QLinearMatMul with scales of rows and columns', () => {
  fc.assert(
    fc.property(matMul, byte, (g, type) => {
      const { random, rows, columns, a, b, zeroA, zeroB } = operands(g);
      const y = [new Tensor('float32', new Float32Array([0.05 + random()]), []), integers(random, type, [])];
      const inputs = [a, scales(random, rows), zeroA, b, scales(random, columns), zeroB, ...y];
      check({ op: 'QLinearMatMul', opset: 21, inputs, constants: g.constant ? [3, 4, 5] : [] }, exact);
    }),
    { numRuns: 60 },
  );
});

test('MatMulIntegerToFloat and DynamicQuantizeMatMul', () => {
  const domain = 'com.microsoft';
  fc.assert(
    fc.property(matMul, fc.boolean(), (g, withBias) => {
      const { random, rows, columns, a, b, zeroA, zeroB } = operands(g);
      const bias = withBias ? randomTensor(random, [g.n]) : undefined;
      const inputs = [a, b, scales(random, rows), scales(random, columns), zeroA, zeroB, bias];
      check({ op: 'MatMulIntegerToFloat', domain, opset: 1, inputs, constants: g.constant ? [1] : [] }, exact);
      const x = randomTensor(random, a.dims);
      const dynamic = [x, b, scales(random, columns), zeroB, bias];
      check(
        { op: 'DynamicQuantizeMatMul', domain, opset: 1, inputs: dynamic, constants: g.constant ? [1, 3] : [] },
        exact,
      );
    }),
    { numRuns: 60 },
  );
});

const axis = fc.record({
  extra: fc.integer({ min: 0, max: 20 }),
  kernel: fc.integer({ min: 1, max: 3 }),
  stride: fc.integer({ min: 1, max: 3 }),
  dilation: fc.integer({ min: 1, max: 2 }),
  padBegin: fc.integer({ min: 0, max: 2 }),
  padEnd: fc.integer({ min: 0, max: 2 }),
});

const conv = fc.record({
  seed: fc.integer(),
  x: byte,
  w: byte,
  y: byte,
  batch: fc.integer({ min: 1, max: 2 }),
  groups: fc.integer({ min: 1, max: 3 }),
  channels: fc.integer({ min: 1, max: 4 }),
  m: fc.constantFrom(1, 2, 5, 37),
  depthwise: fc.boolean(),
  axes: fc.array(axis, { minLength: 1, maxLength: 3 }),
  perChannel: fc.boolean(),
  bias: fc.boolean(),
  constant: fc.boolean(),
});

test('ConvInteger and QLinearConv in one to three dimensions', () => {
  fc.assert(
    fc.property(conv, (g) => {
      const random = randomFrom(g.seed);
      const [channels, m] = g.depthwise ? [1, 1] : [g.channels, g.m];
      const extraOf = (e: number) => (g.axes.length === 3 ? e % 5 : e);
      const spatial = g.axes.map((a) => (a.kernel - 1) * a.dilation + 1 + extraOf(a.extra));
      const x = integers(random, g.x, [g.batch, g.groups * channels, ...spatial]);
      const w = integers(random, g.w, [g.groups * m, channels, ...g.axes.map((a) => a.kernel)]);
      const each = g.perChannel ? [g.groups * m] : [];
      const zeroX = integers(random, g.x, []);
      const zeroW = integers(random, g.w, each);
      const attributes = {
        group: int(g.groups),
        strides: ints(g.axes.map((a) => a.stride)),
        dilations: ints(g.axes.map((a) => a.dilation)),
        pads: ints([...g.axes.map((a) => a.padBegin), ...g.axes.map((a) => a.padEnd)]),
      };
      check(
        { op: 'ConvInteger', inputs: [x, w, zeroX, zeroW], attributes, constants: g.constant ? [1, 3] : [] },
        exact,
      );
      const bias = new Tensor(
        'int32',
        Int32Array.from({ length: g.groups * m }, () => random() * 1e5 - 5e4),
        [g.groups * m],
      );
      const y = [new Tensor('float32', new Float32Array([0.05 + random()]), []), integers(random, g.y, [])];
      const inputs = [x, scales(random, []), zeroX, w, scales(random, each), zeroW, ...y, ...(g.bias ? [bias] : [])];
      check({ op: 'QLinearConv', inputs, attributes, constants: g.constant ? [3, 4, 5] : [] }, exact);
    }),
    { numRuns: 60 },
  );
});

test('what does not fit is named', () => {
  const random = randomFrom(1);
  const x = randomTensor(random, [2, 4]);
  const fails = (op: string, inputs: NodeTest['inputs'], message: RegExp, attributes: Record<string, Attribute> = {}) =>
    assert.throws(() => runReference({ op, opset: 25, inputs, attributes }), message);
  fails(
    'QuantizeLinear',
    [x, scales(random, [3])],
    /a scale for axis 1 must have shape \[4\]: x \[2, 4\], scale \[3\]/,
  );
  fails('QuantizeLinear', [x, scales(random, [4])], /axis 5 is outside x \[2, 4\]/, { axis: int(5) });
  fails('QuantizeLinear', [x, scales(random, [])], /cannot quantize to float32/, { output_dtype: int(1) });
  fails('QuantizeLinear', [x, scales(random, [])], /output_dtype 99 is no element type/, { output_dtype: int(99) });
  fails('QuantizeLinear', [x, scales(random, [2, 4])], /need a scale of shape \[2, 2\]/, { block_size: int(2) });
  fails('QuantizeLinear', [x, scales(random, [])], /must not be negative/, { block_size: int(-1) });
  fails('DequantizeLinear', [x, scales(random, [])], /cannot dequantize float32/);
  const a = integers(random, 'uint8', [2, 3]);
  fails('MatMulInteger', [a, integers(random, 'uint8', [4, 2])], /inner dimensions differ/);
  fails(
    'MatMulInteger',
    [a, integers(random, 'uint8', [3, 2]), integers(random, 'uint8', [3])],
    /a_zero_point must be one/,
  );
  fails('MatMulInteger', [a, integers(random, 'uint8', [3, 2]), integers(random, 'int8', [])], /must be of one type/);
  fails('MatMulInteger', [x, integers(random, 'uint8', [4, 2])], /input 0 is float32 .*it must be a number of 8 bits/);
});

test.run();
