// Element-wise operators: kernels against the reference over random shapes that broadcast, exact integers, casts between
// all types, and what old versions mean by `axis` and `broadcast`.
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Attribute } from '../../src/graph/graph.js';
import { activations } from '../../src/kernels/activation.js';
import { rowsOf } from '../../src/operators/broadcast.js';
import { SkepError } from '../../src/tensor/errors.js';
import { broadcastStrides, forEachOffset, sizeOf } from '../../src/tensor/shape.js';
import { bytesOf, Tensor } from '../../src/tensor/tensor.js';
import type { DataType } from '../../src/tensor/types.js';
import { assertSameBits, builds, check, runKernels, runReference } from './harness.js';
import { randomFrom, randomTensor } from './random.js';

const int = (value: number): Attribute => ({ kind: 'int', value });
const float = (value: number): Attribute => ({ kind: 'float', value });
const string = (value: string): Attribute => ({ kind: 'string', value });

/** Floats in [−3, 3). */
function floats(random: () => number, dims: readonly number[]): Tensor {
  const t = randomTensor(random, dims);
  return new Tensor(
    'float32',
    t.data.map((x) => 3 * x),
    dims,
  );
}

function integers(random: () => number, type: 'int32' | 'int64' | 'bool', dims: readonly number[]): Tensor {
  const size = sizeOf(dims);
  // Few values, so that equality happens, and some at the edges, so that overflow does.
  const pick = () => [0, 1, -1, 2, 7, -5, 2147483647, -2147483648][Math.floor(random() * 8)]!;
  return new Tensor(
    type,
    Array.from({ length: size }, () => (type === 'bool' ? pick() & 1 : pick())),
    dims,
  );
}

/** Shapes that broadcast together, of rank 0 to 4, now and then with a long or an empty axis. */
const shapes = (count: number) =>
  fc
    .record({
      dims: fc.array(fc.oneof({ weight: 8, arbitrary: fc.integer({ min: 1, max: 5 }) }, fc.constantFrom(0, 37)), {
        maxLength: 4,
      }),
      ones: fc.array(fc.array(fc.boolean(), { minLength: 4, maxLength: 4 }), { minLength: count, maxLength: count }),
      cut: fc.array(fc.nat(4), { minLength: count, maxLength: count }),
    })
    .map(({ dims, ones, cut }) => ones.map((o, k) => dims.map((d, i) => (o[i] ? 1 : d)).slice(k === 0 ? 0 : cut[k])));

const seed = fc.integer();

test('merged axes visit the same elements', () => {
  fc.assert(
    fc.property(shapes(3), (list) => {
      const dims = list.reduce((a, b) => {
        const rank = Math.max(a.length, b.length);
        return Array.from({ length: rank }, (_, i) => {
          const x = a[a.length - rank + i] ?? 1;
          const y = b[b.length - rank + i] ?? 1;
          return x === 1 ? y : x;
        });
      }, [] as number[]);
      const plain: number[][] = [];
      forEachOffset(
        dims,
        list.map((s) => broadcastStrides(s, dims)),
        (at) => plain.push([...at]),
      );
      const rows = rowsOf(dims, list);
      const merged: number[][] = [];
      if (sizeOf(dims) > 0)
        forEachOffset(rows.dims, rows.strides, (at) => {
          for (let i = 0; i < rows.inner; i++) merged.push(at.map((o, k) => o + (rows.vector[k] ? i : 0)));
        });
      assert.equal(merged, plain);
    }),
  );
});

for (const op of [
  'Add',
  'Sub',
  'Mul',
  'Div',
  'Min',
  'Max',
  'Less',
  'Greater',
  'LessOrEqual',
  'GreaterOrEqual',
  'Equal',
])
  test(`${op} on floats that broadcast`, () => {
    fc.assert(
      fc.property(seed, shapes(2), (s, [a, b]) => {
        const random = randomFrom(s);
        check({ op, inputs: [floats(random, a!), floats(random, b!)] }, { rtol: 0, atol: 0 });
      }),
      { numRuns: 5 },
    );
  });

for (const op of [
  'Add',
  'Sub',
  'Mul',
  'Div',
  'Mod',
  'Min',
  'Max',
  'Less',
  'Greater',
  'LessOrEqual',
  'GreaterOrEqual',
  'Equal',
  'BitwiseAnd',
  'BitwiseOr',
  'BitwiseXor',
])
  test(`${op} on integers is exact and wraps around`, () => {
    fc.assert(
      fc.property(seed, shapes(2), fc.constantFrom('int32' as const, 'int64' as const), (s, [a, b], type) => {
        const random = randomFrom(s);
        const inputs = [integers(random, type, a!), integers(random, type, b!)];
        const [want] = runReference({ op, inputs });
        for (const build of builds) {
          const { outputs, references } = runKernels({ op, inputs }, build);
          assert.equal(references, []);
          assertSameBits(outputs[0]!, want!);
        }
      }),
      { numRuns: 5 },
    );
  });

test('Pow, PRelu, Sum, Mean, Min and Max of several', () => {
  fc.assert(
    fc.property(seed, shapes(3), (s, [a, b, c]) => {
      const random = randomFrom(s);
      const inputs = [floats(random, a!), floats(random, b!), floats(random, c!)];
      for (const op of ['Sum', 'Mean', 'Min', 'Max']) check({ op, inputs }, { rtol: 1e-6, atol: 1e-6 });
      const base = floats(random, a!);
      const positive = new Tensor('float32', (base.data as Float32Array).map(Math.abs), base.dims);
      check({ op: 'Pow', inputs: [positive, inputs[1]!] }, { rtol: 1e-6, atol: 0 });
      check({
        op: 'PRelu',
        inputs: [
          inputs[0]!,
          floats(
            random,
            a!.map((d, i) => (i % 2 ? 1 : d)),
          ),
        ],
      });
    }),
    { numRuns: 6 },
  );
});

test('Pow follows C at zeros, infinities and negative bases', () => {
  const values = [0, -0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, Infinity, -Infinity, Number.NaN, 1e30, 1e-30, 127, 2147483648];
  const n = values.length;
  const x = new Tensor('float32', Float32Array.from(values), [n, 1]);
  const y = new Tensor('float32', Float32Array.from(values), [1, n]);
  check({ op: 'Pow', inputs: [x, y] }, { rtol: 1e-6, atol: 1e-38 });
  for (const exponent of [1, 2, 3, 0.5, -1])
    check(
      { op: 'Pow', inputs: [x, new Tensor('float32', Float32Array.of(exponent), [])], constants: [1] },
      { rtol: 1e-6, atol: 0 },
    );
});

test('Where selects elements of any size', () => {
  fc.assert(
    fc.property(seed, shapes(3), (s, [c, a, b]) => {
      const random = randomFrom(s);
      const condition = integers(random, 'bool', c!);
      for (const make of [
        floats,
        (r: () => number, d: readonly number[]) => integers(r, 'int64', d),
        (r: () => number, d: readonly number[]) => integers(r, 'bool', d),
      ])
        check({ op: 'Where', inputs: [condition, make(random, a!), make(random, b!)] });
    }),
    { numRuns: 5 },
  );
});

test('And, Or, Xor, Not on bools', () => {
  const x = new Tensor('bool', [0, 0, 1, 1], [4]);
  const y = new Tensor('bool', [0, 1, 0, 1], [4]);
  const results = { And: [0, 0, 0, 1], Or: [0, 1, 1, 1], Xor: [0, 1, 1, 0] };
  for (const [op, want] of Object.entries(results)) {
    assert.equal([...(runReference({ op, inputs: [x, y] })[0] as Tensor<'bool'>).data], want);
    check({ op, inputs: [x, y] });
  }
  check({
    op: 'Not',
    inputs: [
      new Tensor(
        'bool',
        Array.from({ length: 1030 }, (_, i) => i % 3 === 0),
      ),
    ],
  });
});

test('functions of one tensor', () => {
  const random = randomFrom(3);
  const x = floats(random, [3, 700]);
  const positive = new Tensor('float32', (x.data as Float32Array).map(Math.abs), x.dims);
  for (const op of [
    'Abs',
    'Neg',
    'Relu',
    'Sign',
    'Floor',
    'Ceil',
    'Round',
    'Reciprocal',
    'Exp',
    'Erf',
    'Tanh',
    'Sigmoid',
    'Softplus',
    'Softsign',
    'Mish',
    'HardSwish',
    'Sin',
    'Cos',
    'LeakyRelu',
    'Elu',
    'Celu',
    'ThresholdedRelu',
    'Swish',
    'Selu',
    'HardSigmoid',
    'Shrink',
    'Gelu',
  ])
    check({ op, inputs: [x] }, { rtol: 2e-6, atol: 5e-7 });
  for (const op of ['Sqrt', 'Log']) check({ op, inputs: [positive] }, { rtol: 1e-6, atol: 1e-7 });
  for (const op of ['Tan', 'Atan', 'Sinh', 'Cosh', 'Asinh']) check({ op, inputs: [x] }, { fallback: true });
  check({ op: 'Gelu', inputs: [x], attributes: { approximate: string('tanh') } }, { rtol: 2e-6, atol: 1e-6 });
  check({ op: 'Elu', inputs: [x], attributes: { alpha: float(0.3) } });
});

test('sine and cosine stay right at large arguments', () => {
  const values = [
    1e3,
    12345.678,
    1048575,
    1048577,
    1e7,
    16777216,
    134217728,
    1e10,
    1e20,
    3e38,
    -1e7,
    -3e38,
    Infinity,
    Number.NaN,
  ];
  const x = new Tensor('float32', Float32Array.from(values));
  for (const op of ['Sin', 'Cos']) check({ op, inputs: [x] }, { rtol: 1e-6, atol: 1e-7 });
});

test('Clip with constant, computed and absent bounds', () => {
  const x = floats(randomFrom(5), [5, 7]);
  const low = new Tensor('float32', Float32Array.of(-1), []);
  const high = new Tensor('float32', Float32Array.of(0.5), []);
  for (const constants of [[1, 2], []])
    for (const inputs of [[x], [x, low], [x, undefined, high], [x, low, high]])
      check({ op: 'Clip', inputs, constants: constants.filter((i) => inputs[i] !== undefined) });
  check({ op: 'Clip', opset: 6, inputs: [x], attributes: { min: float(-0.5), max: float(1) } });
  const big = new Tensor('int64', [-9007199254740993n, 5n, 9007199254740993n]);
  const bound = new Tensor('int64', [9007199254740992n], []);
  const [y] = runReference({ op: 'Clip', inputs: [big, undefined, bound] });
  assert.equal([...(y as Tensor<'int64'>).data], [-9007199254740993n, 5n, 9007199254740992n]);
  check({ op: 'Clip', inputs: [big, undefined, bound] });
});

test('before version 7 `axis` places the second operand within the first', () => {
  const random = randomFrom(7);
  const x = floats(random, [2, 3, 4, 5]);
  for (const [dims, axis] of [
    [[3, 4], 1],
    [[2], 0],
    [[5], 3],
    [[4, 5], 2],
    [[3], -3],
  ] as const) {
    const attributes = { broadcast: int(1), axis: int(axis) };
    const t = { op: 'Add', opset: 6, inputs: [x, floats(random, dims)], attributes };
    check(t);
    const after = 4 - (axis < 0 ? axis + 4 : axis) - dims.length;
    const padded = new Tensor('float32', t.inputs[1]!.data, [...dims, ...new Array<number>(after).fill(1)]);
    assertSameBits(runReference(t)[0]!, runReference({ op: 'Add', inputs: [x, padded] })[0]!);
  }
  const slope = floats(random, [3]);
  check({ op: 'PRelu', opset: 6, inputs: [x, slope] });
});

test('fused Add and Mul apply their activation', () => {
  const random = randomFrom(9);
  for (const op of ['Add', 'Mul'])
    for (const name of Object.keys(activations)) {
      const attributes = { activation: string(name) };
      const inputs = [floats(random, [2, 3, 41]), floats(random, [3, 1])];
      check({ op, domain: 'skep', opset: 1, inputs, attributes }, { rtol: 2e-6, atol: 1e-6 });
    }
});

test('Cast kernels agree with the reference on every pair they cover', () => {
  const types = ['float32', 'int32', 'int64', 'uint8', 'int8', 'bool'] as const;
  const onnx = { float32: 1, int32: 6, int64: 7, uint8: 2, int8: 3, bool: 9 };
  const source = [0, 1, -1, 100, 127, -128, 200, 255, 256, 300, 70000, -70000, 2147483647, -2147483648];
  for (const from of types)
    for (const to of types) {
      const values =
        from === 'float32'
          ? [...source, 0.5, -0.9, 3e9, -3e9, 1e30, -1e30]
          : source.map((v) => (from === 'bool' ? v & 1 : v));
      const x = new Tensor(from, from === 'float32' ? Float32Array.from(values) : values);
      const t = { op: 'Cast', inputs: [x], attributes: { to: int(onnx[to]) } };
      const [want] = runReference(t);
      const { outputs, references } = runKernels(t);
      assert.equal(references, []);
      assertSameBits(outputs[0]!, want!, `${from} to ${to}`);
    }
});

test('every float16 goes to float32 and back, and every float32 rounds as the reference does', () => {
  const bits = Uint16Array.from({ length: 65536 }, (_, i) => i).filter((b) => (b & 0x7fff) <= 0x7c00);
  const half = new Tensor('float16', bits);
  const up = { op: 'Cast', inputs: [half], attributes: { to: int(1) } };
  check(up, { rtol: 0, atol: 0 });
  const down = { op: 'Cast', inputs: [runReference(up)[0]!], attributes: { to: int(10) } };
  assert.equal(new Uint16Array((runKernels(down).outputs[0] as Tensor<'float16'>).data), bits);
  fc.assert(
    fc.property(
      fc.array(fc.oneof(fc.float(), fc.float({ min: -70000, max: 70000 })), { minLength: 1, maxLength: 9 }),
      (v) => {
        const t = { op: 'Cast', inputs: [new Tensor('float32', Float32Array.from(v))], attributes: { to: int(10) } };
        assertSameBits(runKernels(t).outputs[0]!, runReference(t)[0]!);
      },
    ),
  );
});

test('Cast to the float8 types and back', () => {
  const code: Partial<Record<DataType, number>> = {
    float8e4m3fn: 17,
    float8e4m3fnuz: 18,
    float8e5m2: 19,
    float8e5m2fnuz: 20,
  };
  const x = new Tensor('float32', Float32Array.of(0.47, 1000, -1000, 0.001, Number.NaN, Infinity, 448, 1e-6));
  const back = (to: number, saturate: number) => {
    const [y] = runReference({ op: 'Cast', inputs: [x], attributes: { to: int(to), saturate: int(saturate) } });
    return [...(runReference({ op: 'Cast', inputs: [y!], attributes: { to: int(1) } })[0] as Tensor<'float32'>).data];
  };
  const nan = Number.NaN;
  assert.equal(back(17, 1), [0.46875, 448, -448, 0.001953125, nan, 448, 448, 0]);
  assert.equal(back(17, 0), [0.46875, nan, nan, 0.001953125, nan, nan, 448, 0]);
  assert.equal(back(18, 1), [0.46875, 240, -240, 0.0009765625, nan, 240, 240, 0]);
  assert.equal(back(19, 0), [0.5, 1024, -1024, 0.0009765625, nan, Infinity, 448, 0]);
  assert.equal(back(19, 1).slice(4, 6), [nan, 57344]);
  // Every code survives the way to float32 and back.
  for (const [type, to] of Object.entries(code)) {
    const all = new Tensor(
      type as DataType,
      Uint8Array.from({ length: 256 }, (_, i) => i),
    );
    const [wide] = runReference({ op: 'Cast', inputs: [all], attributes: { to: int(1) } });
    const [again] = runReference({ op: 'Cast', inputs: [wide!], attributes: { to: int(to!), saturate: int(0) } });
    const numbers = (wide as Tensor<'float32'>).data;
    bytesOf(again as Tensor).forEach((b, i) => {
      if (!Number.isNaN(numbers[i])) assert.is(b, i, `${type} code ${i}`);
    });
  }
});

test('Cast of packed 4-bit types, strings and 64-bit integers', () => {
  const cast = (x: Tensor, to: number) =>
    runReference({ op: 'Cast', inputs: [x], attributes: { to: int(to) } })[0] as Tensor;
  const four = cast(new Tensor('int8', [-8, 7, -1, 3, 5]), 22);
  assert.equal(four.type, 'int4');
  assert.equal([...(four.data as Uint8Array)], [0x78, 0x3f, 0x05]);
  assert.equal([...(cast(four, 6).data as Int32Array)], [-8, 7, -1, 3, 5]);
  assert.equal([...(cast(new Tensor('uint8', [1, 15, 9]), 21).data as Uint8Array)], [0xf1, 0x09]);
  const e2m1 = cast(new Tensor('float32', Float32Array.of(0.4, 5, -6, 100, 0.25)), 23);
  assert.equal([...(cast(e2m1, 1).data as Float32Array)], [0.5, 4, -6, 6, 0]);
  assert.equal(
    [...cast(new Tensor('float32', Float32Array.of(0.1, 3, Number.NaN, 1e-7)), 8).data],
    ['0.1', '3.0', 'nan', '1e-7'],
  );
  assert.equal([...cast(new Tensor('string', ['1.5', '-INF', ' 7 ']), 1).data], [1.5, -Infinity, 7]);
  assert.equal([...cast(new Tensor('string', ['9007199254740993']), 7).data], [9007199254740993n]);
  assert.equal([...cast(new Tensor('int64', [-1n, 4294967298n]), 12).data], [4294967295, 2]);
  assert.throws(
    () => cast(new Tensor('string', ['seven']), 1),
    (e: unknown) => e instanceof SkepError && /'seven' is not a number/.test(e.message),
  );
});

test('IsNaN and IsInf', () => {
  const values = Array.from({ length: 1100 }, (_, i) => [0, Number.NaN, Infinity, -Infinity, 1e30][i % 5]!);
  const x = new Tensor('float32', Float32Array.from(values));
  check({ op: 'IsNaN', inputs: [x] });
  for (const detect_negative of [int(0), int(1)])
    for (const detect_positive of [int(0), int(1)])
      check({ op: 'IsInf', inputs: [x], attributes: { detect_negative, detect_positive } });
});

test('Dropout keeps everything in inference and drops a part in training', () => {
  const x = new Tensor('float32', new Float32Array(1000).fill(1));
  check({ op: 'Dropout', inputs: [x] });
  const ratio = new Tensor('float32', Float32Array.of(0.25), []);
  const on = new Tensor('bool', [1], []);
  const t = { op: 'Dropout', inputs: [x, ratio, on], outputs: 2, attributes: { seed: int(1) } };
  const [y, mask] = runReference(t) as [Tensor<'float32'>, Tensor<'bool'>];
  const kept = mask.data.reduce((a, b) => a + b, 0);
  assert.ok(kept > 650 && kept < 850, `kept ${kept} of 1000`);
  for (const [i, v] of y.data.entries()) assert.ok(v === (mask.data[i] ? Math.fround(1 / 0.75) : 0));
  assertSameBits(runReference(t)[0]!, y);
});

test('what does not fit is an error that names the node', () => {
  const x = new Tensor('float32', new Float32Array(6), [2, 3]);
  const cases = [
    {
      op: 'Add',
      inputs: [x, new Tensor('float32', new Float32Array(4), [4])],
      say: /Add 'test': shapes \[2, 3\] and \[4\]/,
      // A compiled model knows that both shapes were fed, so it is whoever fed them that erred.
      compiled: 'INVALID_INPUT',
    },
    { op: 'Add', inputs: [x, new Tensor('int64', [1], [])], say: /one type/ },
    { op: 'And', inputs: [x, x], say: /must be bool/ },
    { op: 'Relu', inputs: [new Tensor('string', ['a'])], say: /got string/ },
    { op: 'Where', inputs: [x, x, x], say: /input 0 is float32 \[2, 3\]; it must be bool/ },
    { op: 'BitShift', inputs: [x, x], attributes: { direction: string('LEFT') }, say: /unsigned/ },
  ];
  const saysSo = (run: () => unknown, code: string, say: RegExp) =>
    assert.throws(run, (e: unknown) => e instanceof SkepError && e.code === code && say.test(e.message));
  for (const { say, compiled = 'INVALID_MODEL', ...t } of cases) {
    saysSo(() => runReference(t), 'INVALID_MODEL', say);
    saysSo(() => runKernels(t), compiled, say);
  }
});

test('Shrink keeps every bit of 64-bit integers', () => {
  const x = new Tensor('uint64', [2n ** 64n - 2n, 2n ** 53n + 1n, 0n], [3]);
  const attributes = { lambd: float(1), bias: float(1) };
  for (const build of builds) {
    const y = runKernels({ op: 'Shrink', inputs: [x], attributes }, build).outputs[0] as Tensor<'uint64'>;
    assert.equal([...y.data], [2n ** 64n - 3n, 2n ** 53n, 0n]);
  }
});

test('Shrink with a negative lambd asks below −lambd first', () => {
  const attributes = { lambd: float(-1), bias: float(1) };
  check({ op: 'Shrink', inputs: [new Tensor('float32', [-2, -1, -0.5, 0, 0.5, 1, 2, 3], [8])], attributes });
});

test('ThresholdedRelu of NaN is 0: it is not above alpha', () => {
  const t = { op: 'ThresholdedRelu', inputs: [new Tensor('float32', [Number.NaN, 2, 1, -1, Infinity], [5])] };
  assert.equal([...(runReference(t)[0] as Tensor<'float32'>).data], [0, 2, 0, 0, Infinity]);
  for (const build of builds)
    assert.equal([...(runKernels(t, build).outputs[0] as Tensor<'float32'>).data], [0, 2, 0, 0, Infinity]);
});

test.run();
