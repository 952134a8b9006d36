// Attention and rotary embeddings: kernels against the reference in every layout, and rows that do not depend on company.
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Attribute } from '../../src/graph/graph.js';
import { sizeOf } from '../../src/tensor/shape.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { builds, check, type NodeTest, runKernels, runReference } from './harness.js';
import { randomFrom, randomTensor } from './random.js';

const int = (value: number): Attribute => ({ kind: 'int', value });
const float = (value: number): Attribute => ({ kind: 'float', value });
const tolerance = { rtol: 2e-5, atol: 2e-6 };

const shape = fc.record({
  seed: fc.integer(),
  batch: fc.integer({ min: 1, max: 3 }),
  keyHeads: fc.integer({ min: 1, max: 2 }),
  group: fc.integer({ min: 1, max: 3 }),
  queries: fc.integer({ min: 1, max: 5 }),
  keys: fc.integer({ min: 1, max: 9 }),
  past: fc.constantFrom(undefined, 0, 1, 6),
  size: fc.constantFrom(1, 4, 6, 16, 23),
  valueSize: fc.constantFrom(1, 3, 8, 20),
  beside: fc.boolean(),
  mask: fc.constantFrom('none', 'float', 'bool', 'short'),
  maskRank: fc.integer({ min: 2, max: 4 }),
  causal: fc.boolean(),
  softcap: fc.constantFrom(0, 0.7),
  scale: fc.constantFrom(undefined, 0.3),
  lengths: fc.boolean(),
  mode: fc.integer({ min: 0, max: 3 }),
  outputs: fc.constantFrom(1, 3, 4),
});
type Shape = typeof shape extends fc.Arbitrary<infer T> ? T : never;

function attentionOf(s: Shape): NodeTest {
  const random = randomFrom(s.seed);
  const heads = s.keyHeads * s.group;
  const input = (n: number, rows: number, size: number) =>
    randomTensor(random, s.beside ? [s.batch, rows, n * size] : [s.batch, n, rows, size]);
  const total = s.keys + (s.past ?? 0);
  const dims = [
    random() < 0.5 ? 1 : s.batch,
    random() < 0.5 ? 1 : heads,
    s.queries,
    s.mask === 'short' ? Math.ceil(total / 2) : total,
  ].slice(-s.maskRank);
  const mask =
    s.mask === 'none'
      ? undefined
      : s.mask === 'bool'
        ? new Tensor(
            'bool',
            Uint8Array.from({ length: sizeOf(dims) }, () => (random() < 0.7 ? 1 : 0)),
            dims,
          )
        : randomTensor(random, dims);
  const past = (size: number) =>
    s.past === undefined ? undefined : randomTensor(random, [s.batch, s.keyHeads, s.past, size]);
  const lengths =
    s.lengths && s.past === undefined
      ? new Tensor(
          'int64',
          Array.from({ length: s.batch }, () => Math.floor(random() * (total + 1))),
        )
      : undefined;
  return {
    op: 'Attention',
    inputs: [
      input(heads, s.queries, s.size),
      input(s.keyHeads, s.keys, s.size),
      input(s.keyHeads, s.keys, s.valueSize),
      mask,
      past(s.size),
      past(s.valueSize),
      lengths,
    ],
    attributes: {
      ...(s.beside && { q_num_heads: int(heads), kv_num_heads: int(s.keyHeads) }),
      ...(s.scale !== undefined && { scale: float(s.scale) }),
      is_causal: int(s.causal ? 1 : 0),
      softcap: float(s.softcap),
      qk_matmul_output_mode: int(s.mode),
    },
    outputs: s.outputs,
  };
}

test('Attention in every layout, with masks, groups, caches and lengths', () => {
  fc.assert(
    fc.property(shape, (s) => check(attentionOf(s), tolerance)),
    { numRuns: 80 },
  );
});

test('the bits of a row do not depend on its batch', () => {
  const property = fc.property(shape, fc.nat(2), (s, which) => {
    const t = attentionOf({ ...s, batch: 3, mask: 'none', outputs: 1 });
    const part = (x: NodeTest['inputs'][number]) => {
      if (!(x instanceof Tensor)) return x;
      const size = x.data.length / 3;
      return new Tensor(x.type, (x.data as Float32Array).slice(which * size, (which + 1) * size), [
        1,
        ...x.dims.slice(1),
      ]);
    };
    for (const build of builds) {
      const all = runKernels(t, build).outputs[0] as Tensor<'float32'>;
      const alone = runKernels({ ...t, inputs: t.inputs.map(part) }, build).outputs[0] as Tensor<'float32'>;
      assert.equal(all.data.slice(which * alone.size, (which + 1) * alone.size), alone.data);
    }
  });
  fc.assert(property, { numRuns: 30 });
});

test('a row that may see nothing gives zeros', () => {
  const random = randomFrom(3);
  const x = () => randomTensor(random, [1, 1, 2, 4]);
  const mask = new Tensor('bool', new Uint8Array([0, 0, 1, 1]), [2, 2]);
  const t: NodeTest = { op: 'Attention', inputs: [x(), x(), x(), mask] };
  assert.equal((runReference(t)[0] as Tensor<'float32'>).data.slice(0, 4), new Float32Array(4));
  check(t, tolerance);
});

test('RotaryEmbedding of both domains', () => {
  const arbitrary = fc.record({
    seed: fc.integer(),
    batch: fc.integer({ min: 1, max: 3 }),
    heads: fc.integer({ min: 1, max: 3 }),
    rows: fc.integer({ min: 1, max: 4 }),
    half: fc.integer({ min: 1, max: 6 }),
    rest: fc.constantFrom(0, 2, 6),
    beside: fc.boolean(),
    interleaved: fc.boolean(),
    positions: fc.boolean(),
  });
  fc.assert(
    fc.property(arbitrary, (s) => {
      const random = randomFrom(s.seed);
      const size = 2 * s.half + s.rest;
      const x = randomTensor(random, s.beside ? [s.batch, s.rows, s.heads * size] : [s.batch, s.heads, s.rows, size]);
      const table = () => randomTensor(random, s.positions ? [7, s.half] : [s.batch, s.rows, s.half]);
      const positions = new Tensor(
        'int64',
        Array.from({ length: s.batch * s.rows }, () => Math.floor(random() * 7)),
        [s.batch, s.rows],
      );
      const attributes = {
        num_heads: int(s.heads),
        interleaved: int(s.interleaved ? 1 : 0),
        rotary_embedding_dim: int(2 * s.half),
      };
      const [cos, sin] = [table(), table()];
      check(
        { op: 'RotaryEmbedding', inputs: [x, cos, sin, ...(s.positions ? [positions] : [])], attributes },
        tolerance,
      );
      if (s.positions)
        check(
          { op: 'RotaryEmbedding', domain: 'com.microsoft', opset: 1, inputs: [x, positions, cos, sin], attributes },
          tolerance,
        );
    }),
    { numRuns: 60 },
  );
});

test('blocks of keys and rows: ranges, masks and values of every length', () => {
  const arbitrary = fc.record({
    seed: fc.integer(),
    batch: fc.integer({ min: 1, max: 2 }),
    keyHeads: fc.integer({ min: 1, max: 2 }),
    group: fc.constantFrom(1, 2, 3),
    queries: fc.constantFrom(1, 2, 5, 13, 33, 40),
    keys: fc.constantFrom(1, 7, 16, 63, 64, 65, 130, 150),
    size: fc.constantFrom(1, 3, 4, 8, 17),
    valueSize: fc.constantFrom(1, 4, 6, 8, 19),
    causal: fc.boolean(),
    softcap: fc.constantFrom(0, 0, 2),
    mask: fc.constantFrom('none', 'float', 'bool', 'short'),
    lengths: fc.boolean(),
  });
  fc.assert(
    fc.property(arbitrary, (s) => {
      const random = randomFrom(s.seed);
      const t = (...dims: number[]) => randomTensor(random, dims);
      const heads = s.keyHeads * s.group;
      const known = s.mask === 'short' ? Math.ceil(s.keys / 2) : s.keys;
      const floats = t(s.queries, known);
      const mask =
        s.mask === 'none'
          ? undefined
          : s.mask === 'float'
            ? floats
            : new Tensor(
                'bool',
                Array.from(floats.data as Float32Array, (x) => x > -0.5),
                floats.dims,
              );
      const lengths = new Tensor(
        'int64',
        Array.from({ length: s.batch }, () => Math.floor(random() * (s.keys + 1))),
        [s.batch],
      );
      const inputs = [
        t(s.batch, heads, s.queries, s.size),
        t(s.batch, s.keyHeads, s.keys, s.size),
        t(s.batch, s.keyHeads, s.keys, s.valueSize),
        mask,
        undefined,
        undefined,
        s.lengths ? lengths : undefined,
      ];
      while (inputs.at(-1) === undefined) inputs.pop();
      const attributes = { is_causal: int(s.causal ? 1 : 0), softcap: float(s.softcap) };
      check({ op: 'Attention', inputs, attributes }, tolerance);
    }),
    { numRuns: 25 },
  );
});

test('a query has the same bits alone, in any row and beside any others', () => {
  fc.assert(
    fc.property(
      fc.integer(),
      fc.constantFrom(2, 5, 37),
      fc.constantFrom(5, 64, 100),
      fc.constantFrom(4, 6, 64),
      (seed, queries, keys, size) => {
        const random = randomFrom(seed);
        const t = (...dims: number[]) => randomTensor(random, dims);
        const [q, k, v, mask] = [t(1, 1, queries, size), t(1, 1, keys, size), t(1, 1, keys, size), t(queries, keys)];
        const rowOf = (x: Tensor, r: number, n: number) => (x.data as Float32Array).slice(r * n, (r + 1) * n);
        for (const build of builds) {
          const all = runKernels({ op: 'Attention', inputs: [q, k, v, mask] }, build).outputs[0] as Tensor;
          for (const r of [0, queries >> 1, queries - 1]) {
            const one = new Tensor('float32', rowOf(q, r, size), [1, 1, 1, size]);
            const its = new Tensor('float32', rowOf(mask, r, keys), [1, keys]);
            const y = runKernels({ op: 'Attention', inputs: [one, k, v, its] }, build).outputs[0] as Tensor;
            assert.equal(y.data, rowOf(all, r, size));
          }
        }
      },
    ),
    { numRuns: 8 },
  );
});

test('what a row must not see does not reach it, though it is NaN', () => {
  const random = randomFrom(3);
  const t = (...dims: number[]) => randomTensor(random, dims);
  const [q, k, v] = [t(1, 1, 9, 8), t(1, 1, 9, 8), t(1, 1, 9, 8)];
  const clean = runKernels({ op: 'Attention', inputs: [q, k, v], attributes: { is_causal: int(1) } });
  for (const x of [k, v]) (x.data as Float32Array).fill(Number.NaN, 6 * 8);
  const spoilt = runKernels({ op: 'Attention', inputs: [q, k, v], attributes: { is_causal: int(1) } });
  const [a, b] = [clean, spoilt].map((r) => (r.outputs[0] as Tensor).data as Float32Array);
  assert.equal(b!.subarray(0, 48), a!.subarray(0, 48));
  assert.ok(b!.subarray(48).every(Number.isNaN));
});

test('what does not fit is named', () => {
  const random = randomFrom(1);
  const t = (...dims: number[]) => randomTensor(random, dims);
  const fails = (inputs: NodeTest['inputs'], message: RegExp, attributes: Record<string, Attribute> = {}) =>
    assert.throws(() => runReference({ op: 'Attention', inputs, attributes }), message);
  fails([t(1, 2, 8), t(1, 2, 8), t(1, 2, 8)], /needs a positive q_num_heads/);
  fails([t(1, 3, 2, 4), t(1, 2, 2, 4), t(1, 2, 2, 4)], /3 query heads cannot share 2 key heads/);
  fails([t(1, 2, 2, 4), t(1, 2, 2, 5), t(1, 2, 2, 4)], /different sizes: Q \[1, 2, 2, 4\], K \[1, 2, 2, 5\]/);
  fails(
    [t(1, 2, 2, 4), t(1, 2, 3, 4), t(1, 2, 3, 4), t(2, 7)],
    /attn_mask \[2, 7\] does not broadcast to \[1, 2, 2, 3\]/,
  );
  fails([t(1, 2, 2, 4), t(1, 2, 3, 4), t(1, 2, 3, 4), undefined, t(1, 2, 1, 4)], /go together/);
  fails([t(1, 2, 2, 4), t(1, 2, 3, 4), t(1, 2, 3, 4)], /must be 0 to 3, got 9/, { qk_matmul_output_mode: int(9) });
});

test.run();
