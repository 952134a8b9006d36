// Whatever the IR can hold is written and read back the same.
import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Attribute, Dim, Graph, Model, Node, ValueInfo, ValueType } from '../../src/graph/graph.js';
import { readModel } from '../../src/onnx/reader.js';
import { writeModel } from '../../src/onnx/writer.js';
import { encode } from '../../src/tensor/convert.js';
import { sizeOf } from '../../src/tensor/shape.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { type DataType, dataTypes } from '../../src/tensor/types.js';

const dataType = fc.constantFrom(...(Object.keys(dataTypes) as DataType[]));
const numeric = dataType.filter((t) => t !== 'string' && dataTypes[t].kind !== 'complex');
/** fast-check's records have no prototype by default, which deep equality minds. */
const record = <T>(fields: { [K in keyof T]: fc.Arbitrary<T[K]> }) =>
  fc.record(fields, { noNullPrototype: true }) as fc.Arbitrary<T>;

// Any text, but no lone surrogates: those have no UTF-8.
const text = fc.string({ unit: 'binary', maxLength: 8 });
const float32 = fc.float({ noNaN: true });
const integer = fc.oneof(fc.maxSafeInteger(), fc.constantFrom(0, -1, 127, 128, 2 ** 63, -(2 ** 63)));

const tensor: fc.Arbitrary<Tensor> = fc.oneof(
  fc
    .tuple(numeric, fc.array(fc.nat(3), { maxLength: 3 }), fc.infiniteStream(fc.integer({ min: 0, max: 1 })))
    .map(([type, dims, values]) => {
      const numbers = Array.from({ length: sizeOf(dims) }, () => values.next().value);
      return new Tensor(type, encode(type, numbers), dims);
    }),
  fc.array(text, { maxLength: 3 }).map((strings) => new Tensor('string', strings)),
);

const dim: fc.Arbitrary<Dim> = fc.oneof(fc.nat(2 ** 31), fc.string({ minLength: 1, maxLength: 4 }), fc.constant(null));
const { type: valueType } = fc.letrec<{ type: ValueType }>((tie) => ({
  type: fc.oneof(
    { maxDepth: 3 },
    record({ kind: fc.constant('tensor' as const), type: dataType, dims: fc.array(dim, { maxLength: 4 }) }),
    record({ kind: fc.constant('tensor' as const), type: dataType }),
    record({ kind: fc.constantFrom('sequence' as const, 'optional' as const), element: tie('type') }),
    record({ kind: fc.constant('map' as const), key: fc.constantFrom('int64', 'string'), value: tie('type') }),
  ) as fc.Arbitrary<ValueType>,
}));

const plain: fc.Arbitrary<Attribute> = fc.oneof(
  integer.map((value): Attribute => ({ kind: 'int', value })),
  float32.map((value): Attribute => ({ kind: 'float', value })),
  text.map((value): Attribute => ({ kind: 'string', value })),
  tensor.map((value): Attribute => ({ kind: 'tensor', value })),
  valueType.map((value): Attribute => ({ kind: 'type', value })),
  fc.array(integer).map((value): Attribute => ({ kind: 'ints', value })),
  fc.array(float32).map((value): Attribute => ({ kind: 'floats', value })),
  fc.array(text).map((value): Attribute => ({ kind: 'strings', value })),
  fc.array(tensor, { maxLength: 2 }).map((value): Attribute => ({ kind: 'tensors', value })),
);

/** A graph of nodes that each read values before them; names unique by the prefix. */
function graph(prefix: string, outer: readonly string[], depth: number): fc.Arbitrary<Graph> {
  const shape = record({
    inputs: fc.array(fc.option(valueType, { nil: undefined }), { maxLength: 2 }),
    initializers: fc.array(tensor, { maxLength: 2 }),
    nodes: fc.array(
      record({
        reads: fc.array(fc.nat(), { maxLength: 3 }),
        outputs: fc.array(fc.boolean(), { minLength: 1, maxLength: 2 }),
        attributes: fc.dictionary(fc.string({ minLength: 1, maxLength: 4 }), plain, {
          maxKeys: 2,
          noNullPrototype: true,
        }),
        domain: fc.constantFrom('', 'com.microsoft'),
        name: text,
        nested: fc.boolean(),
      }),
      { maxLength: 4 },
    ),
    name: text,
    gives: fc.array(fc.nat(), { maxLength: 2 }),
  });
  return shape.chain((s) => {
    const inputs = s.inputs.map((type, i): ValueInfo => {
      const name = `${prefix}in${i}`;
      return type === undefined ? { name } : { name, type };
    });
    const initializers = new Map(s.initializers.map((t, i) => [`${prefix}w${i}`, t]));
    const known = [...outer, ...inputs.map((v) => v.name), ...initializers.keys()];
    const inner = depth > 0 ? graph(`${prefix}s`, [...known], depth - 1) : fc.constant(undefined);
    return inner.map((sub): Graph => {
      let used = false;
      const nodes = s.nodes.map((n, i): Node => {
        const pick = (k: number) => ['', ...known][k % (known.length + 1)]!;
        const attributes: Record<string, Attribute> = { ...n.attributes };
        if (n.nested && sub !== undefined && !used) {
          attributes.body = { kind: 'graph', value: sub };
          used = true;
        }
        const inputNames = n.reads.map(pick);
        const outputs = n.outputs.map((wanted, k) => (wanted ? `${prefix}v${i}.${k}` : ''));
        known.push(...outputs.filter((o) => o !== ''));
        return {
          op: `Op${i}`,
          domain: n.domain,
          opset: n.domain === '' ? 19 : 1,
          name: n.name,
          inputs: inputNames,
          outputs,
          attributes: Object.fromEntries(Object.entries(attributes)),
        };
      });
      const names = new Set(known.length === 0 ? [] : s.gives.map((k) => known[k % known.length]!));
      return { name: s.name, inputs, outputs: [...names].map((name) => ({ name })), initializers, nodes };
    });
  });
}

const model: fc.Arbitrary<Model> = record({
  graph: graph('', [], 2),
  irVersion: fc.integer({ min: 3, max: 13 }),
  opsets: fc.constant(
    new Map([
      ['', 19],
      ['com.microsoft', 1],
    ] as const),
  ) as fc.Arbitrary<Map<string, number>>,
  producer: text,
  metadata: fc.array(fc.tuple(text, text), { maxLength: 2 }).map((pairs) => new Map(pairs)),
});

test('reading what was written gives the same model', () => {
  fc.assert(
    fc.property(model, (m) => {
      assert.equal(readModel(writeModel(m)), m);
    }),
    { numRuns: 300 },
  );
});

test('weights are raw data, at one copy', () => {
  const data = new Float32Array(1 << 20).fill(0.5);
  const m: Model = {
    graph: {
      name: 'g',
      inputs: [],
      outputs: [],
      initializers: new Map([['w', new Tensor('float32', data)]]),
      nodes: [],
    },
    irVersion: 8,
    opsets: new Map([['', 17]]),
    producer: '',
    metadata: new Map(),
  };
  const bytes = writeModel(m);
  assert.ok(bytes.length < data.byteLength + 100);
  assert.equal(readModel(bytes), m);
});

test('with external data, large initializers are in the other file, aligned, and the model reads back the same', () => {
  const names = ['a', 'b', 'c', 'small', 'words'];
  const tensors = [
    new Tensor(
      'float32',
      Float32Array.from({ length: 300 }, (_, i) => i),
    ),
    new Tensor(
      'int8',
      Int8Array.from({ length: 1025 }, (_, i) => i),
    ),
    new Tensor(
      'float64',
      Float64Array.from({ length: 256 }, (_, i) => -i),
    ),
    new Tensor('int64', BigInt64Array.of(1n, 2n)),
    new Tensor('string', new Array<string>(2000).fill('x')),
  ];
  const m: Model = {
    graph: {
      name: 'g',
      inputs: [],
      outputs: [],
      initializers: new Map(names.map((n, i) => [n, tensors[i]!])),
      nodes: [],
    },
    irVersion: 8,
    opsets: new Map([['', 17]]),
    producer: '',
    metadata: new Map(),
  };
  const { model, data } = writeModel(m, { externalData: 'weights.bin' });
  // 1200 bytes, then 1025 at 1216, then 2048 at 2304.
  assert.is(data.length, 2304 + 2048);
  const read = readModel(model, {
    externalData: (location) => {
      assert.is(location, 'weights.bin');
      return data;
    },
  });
  assert.equal(read, m);
  for (const name of ['a', 'b', 'c'])
    assert.is((read.graph.initializers.get(name)!.data as Float32Array).buffer, data.buffer, `${name} is a view`);
  assert.throws(() => readModel(model), /tensor 'a' is in the file 'weights\.bin'/);
  for (const name of ['', '..', '../up', '/abs', 'a\\b', 'c:d'])
    assert.throws(() => writeModel(m, { externalData: name }), /must be a file beside the model/);
});

test('a node of another operator set than the model imports is refused', () => {
  const n: Node = { op: 'Relu', domain: '', opset: 13, name: 'r', inputs: [], outputs: [], attributes: {} };
  const g: Graph = { name: 'g', inputs: [], outputs: [], initializers: new Map(), nodes: [n] };
  const m: Model = { graph: g, irVersion: 8, opsets: new Map([['', 17]]), producer: '', metadata: new Map() };
  assert.throws(() => writeModel(m), /Relu 'r' is of operator set 13 of 'ai.onnx', but the model imports 17/);
});

test.run();
