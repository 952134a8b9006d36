// Data movement, kernels against reference on random shapes, types and attributes; and the references against formulas
// written out independently (a coordinate function of each operator).
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Attribute } from '../../src/graph/graph.js';
import { decode, encode } from '../../src/tensor/convert.js';
import { SkepError } from '../../src/tensor/errors.js';
import { sizeOf, stridesOf } from '../../src/tensor/shape.js';
import { Tensor } from '../../src/tensor/tensor.js';
import type { DataType } from '../../src/tensor/types.js';
import { check, type NodeTest, runReference } from './harness.js';

const types: readonly DataType[] = ['float32', 'int64', 'uint8', 'float16', 'bool', 'int32', 'float64', 'int8'];
const anyType = fc.constantFrom(...types);
const anyDims = (least: number, most: number, size = 7) =>
  fc.array(fc.integer({ min: 0, max: size }), { minLength: least, maxLength: most });
const someDims = (least: number, most: number, size = 7) =>
  fc.array(fc.integer({ min: 1, max: size }), { minLength: least, maxLength: most });

/** A tensor whose elements tell their places apart as far as the type can. */
export function iota(type: DataType, dims: readonly number[]): Tensor {
  const values = Array.from({ length: sizeOf(dims) }, (_, i) => (type === 'bool' ? ((i * 7) % 3) & 1 : (i % 127) + 1));
  return new Tensor(type, encode(type, values), dims);
}

const int64 = (values: readonly number[], dims?: readonly number[]) => new Tensor('int64', [...values], dims);
const int = (value: number): Attribute => ({ kind: 'int', value });
const ints = (value: readonly number[]): Attribute => ({ kind: 'ints', value });
const string = (value: string): Attribute => ({ kind: 'string', value });

/** Asserts that output 0 at every index is the input at `at(index)` (undefined: zero). */
function assertPicked(
  t: NodeTest,
  dims: readonly number[],
  at: (index: readonly number[]) => readonly number[] | undefined,
) {
  const got = runReference(t)[0] as Tensor;
  const from = t.inputs[0] as Tensor;
  assert.equal(got.dims, dims);
  const values = decode(got);
  const source = decode(from);
  const strides = stridesOf(from.dims);
  const own = stridesOf(dims);
  for (let i = 0; i < got.size; i++) {
    const index = dims.map((d, a) => Math.floor(i / own[a]!) % d);
    const place = at(index);
    assert.is(
      values[i],
      place === undefined ? 0 : source[place.reduce((s, x, a) => s + x * strides[a]!, 0)],
      `at ${index}`,
    );
  }
}

function property<T>(name: string, arbitrary: fc.Arbitrary<T>, body: (x: T) => void, numRuns = 30): void {
  test(name, () => fc.assert(fc.property(arbitrary, body), { numRuns, includeErrorInReport: true }));
}

property(
  'Transpose permutes coordinates',
  anyDims(0, 5).chain((dims) =>
    fc.record({
      type: anyType,
      dims: fc.constant(dims),
      perm: fc.shuffledSubarray([...dims.keys()], { minLength: dims.length, maxLength: dims.length }),
    }),
  ),
  ({ type, dims, perm }) => {
    const t = { op: 'Transpose', inputs: [iota(type, dims)], attributes: { perm: ints(perm) } };
    check(t);
    assertPicked(
      t,
      perm.map((p) => dims[p]!),
      (index) => dims.map((_, a) => index[perm.indexOf(a)]!),
    );
  },
  60,
);

test('Transpose in tiles: large matrices of every element size', () => {
  for (const type of types)
    for (const dims of [
      [33, 70],
      [2, 64, 48],
      [3, 130, 5],
      [1, 4, 4],
    ])
      check({
        op: 'Transpose',
        inputs: [iota(type, dims)],
        attributes: { perm: ints([...dims.keys()].map((a) => (a < dims.length - 2 ? a : 2 * dims.length - 3 - a))) },
      });
});

property(
  'Slice clamps starts and ends as its specification says, negative steps included',
  anyDims(1, 4).chain((dims) =>
    fc.record({
      type: anyType,
      dims: fc.constant(dims),
      cuts: fc.tuple(
        ...dims.map((d) =>
          fc.record({
            start: fc.integer({ min: -d - 2, max: d + 2 }),
            end: fc.oneof(fc.integer({ min: -d - 2, max: d + 2 }), fc.constant(2 ** 62), fc.constant(-(2 ** 62))),
            step: fc.constantFrom(1, 1, 2, 3, -1, -2, 2 ** 40),
          }),
        ),
      ),
    }),
  ),
  ({ type, dims, cuts }) => {
    const t = {
      op: 'Slice',
      inputs: [
        iota(type, dims),
        int64(cuts.map((c) => c.start)),
        int64(cuts.map((c) => c.end)),
        int64([...dims.keys()]),
        int64(cuts.map((c) => c.step)),
      ],
      constants: [1, 2, 3, 4],
    };
    check(t);
    const taken = cuts.map(({ start, end, step }, a) => {
      const n = dims[a]!;
      const kept: number[] = [];
      const from = start < 0 ? start + n : start;
      const to = end < 0 ? end + n : end;
      if (step > 0) for (let i = Math.max(0, from); i < Math.min(n, to); i += step) kept.push(i);
      else for (let i = Math.max(0, Math.min(n - 1, from)); n > 0 && i > Math.max(-1, to); i += step) kept.push(i);
      return kept;
    });
    assertPicked(
      t,
      taken.map((k) => k.length),
      (index) => index.map((i, a) => taken[a]![i]!),
    );
  },
  80,
);

property(
  'Expand repeats axes of size 1',
  fc.record({
    type: anyType,
    dims: fc.array(fc.constantFrom(1, 1, 3, 5), { maxLength: 4 }),
    lead: anyDims(0, 2, 3),
    stretch: fc.integer({ min: 0, max: 6 }),
  }),
  ({ type, dims, lead, stretch }) => {
    const shape = [...lead, ...dims.map((d) => (d === 1 ? stretch : 1))];
    const t = { op: 'Expand', inputs: [iota(type, dims), int64(shape)], constants: [1] };
    check(t);
    const out = [...lead, ...dims.map((d) => (d === 1 ? stretch : d))];
    assertPicked(t, out, (index) => dims.map((d, a) => (d === 1 ? 0 : index[lead.length + a]!)));
  },
);

property(
  'Tile repeats whole axes',
  anyDims(1, 4, 4).chain((dims) =>
    fc.record({
      type: anyType,
      dims: fc.constant(dims),
      repeats: fc.tuple(...dims.map(() => fc.integer({ min: 0, max: 3 }))),
    }),
  ),
  ({ type, dims, repeats }) => {
    const t = { op: 'Tile', inputs: [iota(type, dims), int64(repeats)], constants: [1] };
    check(t);
    assertPicked(
      t,
      dims.map((d, a) => d * repeats[a]!),
      (index) => index.map((i, a) => i % dims[a]!),
    );
  },
);

property(
  'Concat and Split undo each other',
  someDims(1, 4).chain((dims) =>
    fc.record({
      type: anyType,
      dims: fc.constant(dims),
      axis: fc.integer({ min: -dims.length, max: dims.length - 1 }),
      parts: fc.array(fc.integer({ min: 0, max: 5 }), { minLength: 1, maxLength: 4 }),
    }),
  ),
  ({ type, dims, axis, parts }) => {
    const a = axis < 0 ? axis + dims.length : axis;
    const whole = iota(
      type,
      dims.with(
        a,
        parts.reduce((s, p) => s + p, 0),
      ),
    );
    const split = {
      op: 'Split',
      inputs: [whole, int64(parts)],
      constants: [1],
      attributes: { axis: int(axis) },
      outputs: parts.length,
    };
    check(split);
    const pieces = runReference(split);
    const concat = { op: 'Concat', inputs: pieces, attributes: { axis: int(axis) } };
    check(concat);
    const joined = runReference(concat)[0] as Tensor;
    assert.equal(joined.dims, whole.dims);
    assert.equal(joined.data, whole.data);
  },
);

test('Split without sizes: equal parts; from version 18 the last may be smaller', () => {
  const parts = runReference({
    op: 'Split',
    inputs: [iota('float32', [7])],
    outputs: 3,
    attributes: { num_outputs: int(3) },
  });
  assert.equal(
    parts.map((p) => (p as Tensor).dims),
    [[3], [3], [1]],
  );
  assert.throws(
    () => runReference({ op: 'Split', opset: 13, inputs: [iota('float32', [7])], outputs: 3 }),
    /does not divide/,
  );
});

const padMode = fc.constantFrom('constant', 'edge', 'reflect', 'wrap');
property(
  'Pad takes the coordinates its mode says, and crops where pads are negative',
  someDims(1, 4, 5).chain((dims) =>
    fc.record({
      type: anyType,
      dims: fc.constant(dims),
      mode: padMode,
      pads: fc.tuple(...dims.map((d) => fc.tuple(fc.integer({ min: 1 - d, max: 4 }), fc.integer({ min: 0, max: 4 })))),
    }),
  ),
  ({ type, dims, mode, pads }) => {
    const list = int64([...pads.map((p) => p[0]), ...pads.map((p) => p[1])]);
    const t = { op: 'Pad', inputs: [iota(type, dims), list], constants: [1], attributes: { mode: string(mode) } };
    check(t);
    assertPicked(
      t,
      dims.map((d, a) => d + pads[a]![0] + pads[a]![1]),
      (index) => {
        const at = index.map((o, a) => {
          const low = Math.max(0, -pads[a]![0]);
          const n = dims[a]! - low;
          let i = o - Math.max(0, pads[a]![0]);
          // Walk to the place step by step, as the words of the specification do.
          if (mode === 'edge') i = Math.min(n - 1, Math.max(0, i));
          if (mode === 'wrap') while (i < 0 || i >= n) i += i < 0 ? n : -n;
          if (mode === 'reflect')
            while (n > 1 ? i < 0 || i >= n : i !== 0) i = n === 1 ? 0 : i < 0 ? -i : 2 * (n - 1) - i;
          return i < 0 || i >= n ? -1 : low + i;
        });
        return at.includes(-1) ? undefined : at;
      },
    );
  },
  60,
);

test('Pad: a value that is computed, axes, and an empty input', () => {
  const value = new Tensor('float32', Float32Array.of(2.5), []);
  const t = {
    op: 'Pad',
    inputs: [iota('float32', [2, 3]), int64([1, 2]), value, int64([-1])],
    constants: [1, 3],
  };
  check(t);
  const got = runReference(t)[0] as Tensor;
  assert.equal([...(got.data as Float32Array)], [2.5, 1, 2, 3, 2.5, 2.5, 2.5, 4, 5, 6, 2.5, 2.5]);
  check({ op: 'Pad', inputs: [iota('float32', [0, 3]), int64([1, 0, 0, 0])], constants: [1] });
});

property(
  'CenterCropPad crops and pads around the middle',
  fc.record({ type: anyType, from: someDims(3, 3, 9), to: anyDims(3, 3, 9) }),
  ({ type, from, to }) => check({ op: 'CenterCropPad', inputs: [iota(type, from), int64(to)], constants: [1] }),
);

property(
  'Trilu keeps a triangle',
  fc.record({
    type: anyType,
    dims: anyDims(2, 4, 6),
    k: fc.integer({ min: -8, max: 8 }),
    upper: fc.constantFrom(0, 1),
  }),
  ({ type, dims, k, upper }) => {
    const t = {
      op: 'Trilu',
      inputs: [iota(type, dims), int64([k], [])],
      constants: [1],
      attributes: { upper: int(upper) },
    };
    check(t);
    assertPicked(t, dims, (index) => {
      const [r, c] = index.slice(-2) as [number, number];
      return (upper ? c - r >= k : c - r <= k) ? index : undefined;
    });
  },
);

property(
  'DepthToSpace and SpaceToDepth undo each other',
  fc.record({
    type: anyType,
    n: fc.integer({ min: 0, max: 2 }),
    c: fc.integer({ min: 1, max: 3 }),
    h: fc.integer({ min: 1, max: 4 }),
    w: fc.integer({ min: 1, max: 4 }),
    b: fc.integer({ min: 1, max: 3 }),
    mode: fc.constantFrom('DCR', 'CRD'),
  }),
  ({ type, n, c, h, w, b, mode }) => {
    const image = iota(type, [n, c * b * b, h, w]);
    const up = { op: 'DepthToSpace', inputs: [image], attributes: { blocksize: int(b), mode: string(mode) } };
    check(up);
    assertPicked(up, [n, c, h * b, w * b], ([i, ch, y, x]) => {
      const inside = (y! % b) * b + (x! % b);
      return [i!, mode === 'DCR' ? inside * c + ch! : ch! * b * b + inside, Math.floor(y! / b), Math.floor(x! / b)];
    });
    if (mode === 'CRD') return;
    const down = { op: 'SpaceToDepth', inputs: runReference(up), attributes: { blocksize: int(b) } };
    check(down);
    assert.equal((runReference(down)[0] as Tensor).data, image.data);
  },
);

const anyIndex = (n: number) => fc.integer({ min: -n, max: n - 1 });
const indexType = fc.constantFrom<DataType>('int64', 'int32');
const indices = (type: DataType, values: readonly number[], dims: readonly number[]) =>
  new Tensor(type, encode(type, values), dims);

property(
  'Gather picks slices',
  someDims(1, 4).chain((dims) =>
    fc.integer({ min: 0, max: dims.length - 1 }).chain((axis) =>
      fc.record({
        type: anyType,
        dims: fc.constant(dims),
        axis: fc.constant(axis),
        wide: indexType,
        list: fc.array(anyIndex(dims[axis]!), { maxLength: 6 }),
        scalar: fc.boolean(),
      }),
    ),
  ),
  ({ type, dims, axis, wide, list, scalar }) => {
    const one = scalar && list.length > 0;
    const index = indices(wide, one ? [list[0]!] : list, one ? [] : [list.length]);
    const t = { op: 'Gather', inputs: [iota(type, dims), index], attributes: { axis: int(axis) } };
    check(t);
    assertPicked(t, dims.toSpliced(axis, 1, ...index.dims), (at) => {
      const i = list[one ? 0 : at[axis]!]!;
      return [...at.slice(0, axis), i < 0 ? i + dims[axis]! : i, ...at.slice(axis + index.dims.length)];
    });
  },
);

const alongAxis = someDims(1, 4, 5).chain((dims) =>
  fc.integer({ min: 0, max: dims.length - 1 }).chain((axis) =>
    fc.tuple(...dims.map((d, a) => fc.integer({ min: 0, max: a === axis ? 6 : d }))).chain((indexDims) =>
      fc.record({
        type: anyType,
        dims: fc.constant(dims),
        axis: fc.constant(axis),
        indexDims: fc.constant(indexDims as number[]),
        wide: indexType,
        list: fc.array(anyIndex(dims[axis]!), { minLength: sizeOf(indexDims), maxLength: sizeOf(indexDims) }),
      }),
    ),
  ),
);

property(
  'GatherElements picks single elements along an axis',
  alongAxis,
  ({ type, dims, axis, indexDims, wide, list }) => {
    const t = {
      op: 'GatherElements',
      inputs: [iota(type, dims), indices(wide, list, indexDims)],
      attributes: { axis: int(axis) },
    };
    check(t);
    const own = stridesOf(indexDims);
    assertPicked(t, indexDims, (at) => {
      const i = list[at.reduce((s, x, a) => s + x * own[a]!, 0)]!;
      return at.with(axis, i < 0 ? i + dims[axis]! : i);
    });
  },
);

property('ScatterElements puts updates in order', alongAxis, ({ type, dims, axis, indexDims, wide, list }) => {
  for (const reduction of type === 'float32' ? ['none', 'add', 'mul', 'min', 'max'] : ['none']) {
    const updates = new Tensor(
      type,
      encode(
        type,
        list.map((_, i) => (type === 'bool' ? i & 1 : (i % 9) - 4)),
      ),
      indexDims,
    );
    const t = {
      op: 'ScatterElements',
      inputs: [iota(type, dims), indices(wide, list, indexDims), updates],
      attributes: { axis: int(axis), reduction: string(reduction) },
    };
    check(t);
    if (reduction !== 'none') continue;
    const want = Array.from(decode(t.inputs[0]!));
    const strides = stridesOf(dims);
    const own = stridesOf(indexDims);
    const values = decode(updates);
    list.forEach((x, i) => {
      const at = indexDims.map((d, a) => Math.floor(i / own[a]!) % d).with(axis, x < 0 ? x + dims[axis]! : x);
      want[at.reduce((s, y, a) => s + y * strides[a]!, 0)] = values[i]!;
    });
    assert.equal(Array.from(decode(runReference(t)[0] as Tensor)), want);
  }
});

const tuples = someDims(1, 4, 4).chain((dims) =>
  fc.integer({ min: 1, max: dims.length }).chain((tuple) =>
    fc.integer({ min: 0, max: 5 }).chain((count) =>
      fc.record({
        type: anyType,
        dims: fc.constant(dims),
        tuple: fc.constant(tuple),
        count: fc.constant(count),
        wide: indexType,
        list: fc.tuple(...Array.from({ length: count }, () => fc.tuple(...dims.slice(0, tuple).map(anyIndex)))),
      }),
    ),
  ),
);

property('GatherND picks slices at tuples', tuples, ({ type, dims, tuple, count, wide, list }) => {
  const t = { op: 'GatherND', inputs: [iota(type, dims), indices(wide, list.flat(), [count, tuple])] };
  check(t);
  assertPicked(t, [count, ...dims.slice(tuple)], ([i, ...rest]) => [
    ...list[i!]!.map((x, a) => (x < 0 ? x + dims[a]! : x)),
    ...rest,
  ]);
});

test('GatherND with batch axes', () => {
  const data = iota('float32', [2, 3, 4, 2]);
  const t = {
    op: 'GatherND',
    inputs: [data, int64([1, 0, 2, -1, 0, 3, 2, 2], [2, 2, 2])],
    attributes: { batch_dims: int(1) },
  };
  check(t);
  const list = [1, 0, 2, 3, 0, 3, 2, 2];
  assertPicked(t, [2, 2, 2], ([b, i, j]) => [b!, list[(b! * 2 + i!) * 2]!, list[(b! * 2 + i!) * 2 + 1]!, j!]);
});

property('ScatterND puts slices in order', tuples, ({ type, dims, tuple, count, wide, list }) => {
  for (const reduction of type === 'float32' ? ['none', 'add', 'mul', 'min', 'max'] : ['none'])
    check({
      op: 'ScatterND',
      inputs: [iota(type, dims), indices(wide, list.flat(), [count, tuple]), iota(type, [count, ...dims.slice(tuple)])],
      attributes: { reduction: string(reduction) },
    });
});

test('TensorScatter writes new positions of a cache, linear and circular', () => {
  for (const mode of ['linear', 'circular'])
    check({
      op: 'TensorScatter',
      inputs: [iota('float32', [2, 3, 4, 5]), iota('float32', [2, 3, 2, 5]), int64([1, mode === 'linear' ? 2 : 3])],
      attributes: { mode: string(mode) },
    });
});

test('shape operators: aliases, and every way to say a shape', () => {
  const t = iota('float32', [2, 3, 4]);
  const dimsOf = (n: NodeTest) => {
    check(n);
    const out = runReference(n)[0] as Tensor;
    assert.equal(out.data, (n.inputs[0] as Tensor).data);
    return out.dims;
  };
  const reshape = (shape: readonly number[], from = t, more = {}) =>
    dimsOf({ op: 'Reshape', inputs: [from, int64(shape)], constants: [1], attributes: more });
  assert.equal(reshape([0, -1]), [2, 12]);
  assert.equal(reshape([4, 0, -1]), [4, 3, 2]);
  assert.equal(reshape([3, 0], iota('float32', [5, 0]), { allowzero: int(1) }), [3, 0]);
  assert.equal(reshape([0, -1], iota('float32', [0, 4])), [0, 0]);
  assert.equal(dimsOf({ op: 'Reshape', opset: 1, inputs: [t], attributes: { shape: ints([6, -1]) } }), [6, 4]);
  assert.equal(dimsOf({ op: 'Flatten', inputs: [t], attributes: { axis: int(2) } }), [6, 4]);
  assert.equal(dimsOf({ op: 'Flatten', inputs: [t], attributes: { axis: int(-2) } }), [2, 12]);
  assert.equal(dimsOf({ op: 'Flatten', inputs: [t], attributes: { axis: int(0) } }), [1, 24]);
  const ones = iota('float32', [1, 3, 1]);
  assert.equal(dimsOf({ op: 'Squeeze', inputs: [ones] }), [3]);
  assert.equal(dimsOf({ op: 'Squeeze', inputs: [ones, int64([-1])], constants: [1] }), [1, 3]);
  assert.equal(dimsOf({ op: 'Squeeze', opset: 11, inputs: [ones], attributes: { axes: ints([0]) } }), [3, 1]);
  assert.equal(dimsOf({ op: 'Unsqueeze', inputs: [ones, int64([0, -1])], constants: [1] }), [1, 1, 3, 1, 1]);
  assert.equal(
    dimsOf({ op: 'Unsqueeze', opset: 11, inputs: [ones], attributes: { axes: ints([4, 0]) } }),
    [1, 1, 3, 1, 1],
  );
});

test('Shape and Size follow from shapes alone', () => {
  const t = iota('float32', [2, 3, 4]);
  const values = (n: NodeTest) => {
    check(n);
    return Array.from(decode(runReference(n)[0] as Tensor));
  };
  assert.equal(values({ op: 'Shape', inputs: [t] }), [2, 3, 4]);
  assert.equal(values({ op: 'Shape', inputs: [t], attributes: { start: int(-2), end: int(-1) } }), [3]);
  assert.equal(values({ op: 'Shape', inputs: [t], attributes: { start: int(2), end: int(1) } }), []);
  assert.equal(values({ op: 'Size', inputs: [t] }), [24]);
});

test('hostile shapes and values are errors in words, before memory is taken', () => {
  const t = iota('float32', [2, 3]);
  const big = 10 ** 9;
  const bad: [NodeTest, RegExp][] = [
    [{ op: 'Tile', inputs: [t, int64([big, big])] }, /larger than 2 GiB/],
    [{ op: 'Expand', inputs: [t, int64([big, 2, 3])] }, /larger than 2 GiB/],
    [{ op: 'Pad', inputs: [t, int64([big, big, 0, 0])] }, /larger than 2 GiB/],
    [{ op: 'Pad', inputs: [t, int64([-5, 0, 0, 0])] }, /remove more/],
    [{ op: 'ConstantOfShape', inputs: [int64([big, big])] }, /larger than 2 GiB/],
    [{ op: 'ConstantOfShape', inputs: [int64([-1])] }, /non-negative/],
    [{ op: 'Range', inputs: [int64([0], []), int64([5], []), int64([0], [])] }, /by 0/],
    [{ op: 'Range', inputs: [int64([0], []), int64([2 ** 40], []), int64([1], [])] }, /larger than 2 GiB/],
    [{ op: 'Reshape', inputs: [t, int64([-1, -1])] }, /more than one -1/],
    [{ op: 'Reshape', inputs: [t, int64([4, -1])] }, /do not fit/],
    [{ op: 'Reshape', inputs: [t, int64([-2, 3])] }, /is -2/],
    [{ op: 'Slice', inputs: [t, int64([0]), int64([1]), int64([0]), int64([0])] }, /step 0 is 0/],
    [{ op: 'Slice', inputs: [t, int64([0]), int64([1]), int64([7])] }, /axis 7 is outside/],
    [{ op: 'Gather', inputs: [t, int64([5])] }, /index 5 is outside/],
    [{ op: 'Transpose', inputs: [t], attributes: { perm: ints([0, 0]) } }, /not a permutation/],
    [{ op: 'Squeeze', inputs: [t, int64([0])] }, /cannot be squeezed/],
    [{ op: 'Unsqueeze', inputs: [t, int64([0, 0])] }, /twice/],
    [{ op: 'OneHot', inputs: [int64([1]), int64([big * 10], []), new Tensor('float32', [0, 1])] }, /larger than 2 GiB/],
  ];
  for (const [node, words] of bad)
    assert.throws(
      () => runReference(node),
      (e: unknown) => e instanceof SkepError && words.test(e.message) && e.message.includes("'test'"),
      node.op,
    );
});

test.run();
