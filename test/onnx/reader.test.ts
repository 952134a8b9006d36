// The reader on models as exporters write them: every way to store a tensor, functions, references, types, subgraphs.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { verify } from '../../src/graph/verify.js';
import { readModel } from '../../src/onnx/reader.js';
import { decode, encode } from '../../src/tensor/convert.js';
import { SkepError } from '../../src/tensor/errors.js';
import { bytesOf, Tensor, tensorFromBytes } from '../../src/tensor/tensor.js';
import { readTensorProto, writeTensorProto } from '../../src/tensor/tensor-proto.js';
import { byteLength, type DataType, dataTypes } from '../../src/tensor/types.js';
import { type Field, f, info, message, model, node, nodeFields } from './protobuf.js';

function refuses(run: () => unknown, pattern: RegExp, code = 'INVALID_MODEL'): void {
  try {
    run();
  } catch (error) {
    assert.instance(error, SkepError);
    assert.match((error as Error).message, pattern);
    assert.is((error as SkepError).code, code);
    return;
  }
  assert.unreachable(`expected an error like ${pattern}`);
}

const varints = (...values: readonly number[]) => {
  const w = message(...values.map((v): Field => [1, v]));
  // Drop the tags (one byte before each number).
  const out: number[] = [];
  for (let i = 0; i < w.length; ) {
    i++;
    do out.push(w[i]!);
    while (w[i++]! >= 128);
  }
  return Uint8Array.from(out);
};

test('every numeric type is read from raw data as a view, and written back to the same bytes', () => {
  for (const type of Object.keys(dataTypes) as DataType[]) {
    if (type === 'string') continue;
    const data = Uint8Array.from({ length: byteLength(type, 6) }, (_, i) => (type === 'bool' ? i % 2 : i + 1));
    const tensor = tensorFromBytes(type, [2, 3], data);
    const file = writeTensorProto(tensor, 'w');
    const back = readTensorProto(file);
    assert.is(back.name, 'w');
    assert.equal([back.tensor.type, back.tensor.dims], [type, [2, 3]], type);
    assert.equal(bytesOf(back.tensor), data, type);
    if (dataTypes[type].array.BYTES_PER_ELEMENT === 1) assert.is(bytesOf(back.tensor).buffer, file.buffer, type);
  }
  const strings = new Tensor('string', ['', 'å', 'b'], [3, 1]);
  assert.equal(readTensorProto(writeTensorProto(strings)).tensor, strings);
});

test('raw data that is aligned in the file stays a view, whatever its type', () => {
  for (let pad = 0; pad < 8; pad++) {
    const file = message([8, 'n'.repeat(pad)], [1, 2], [2, 11], [9, new Uint8Array(16).fill(1)]);
    const { tensor } = readTensorProto(file);
    const aligned = (file.length - 16) % 8 === 0;
    assert.is((tensor.data as Float64Array).buffer === file.buffer, aligned);
  }
});

test('typed fields, packed and unpacked, hold what raw data would', () => {
  const f32 = new Uint8Array(Float32Array.of(1.5, -2).buffer);
  assert.equal(
    readTensorProto(message([1, 2], [2, 1], [4, f32])).tensor,
    new Tensor('float32', Float32Array.of(1.5, -2)),
  );
  const fixed = Uint8Array.of(8, 2, 16, 1, 0x25, ...f32.subarray(0, 4), 0x25, ...f32.subarray(4));
  assert.equal(readTensorProto(fixed).tensor, new Tensor('float32', Float32Array.of(1.5, -2)));
  const f64 = new Uint8Array(Float64Array.of(1.5, -2).buffer);
  assert.equal(
    readTensorProto(message([1, 2], [2, 11], [10, f64])).tensor,
    new Tensor('float64', Float64Array.of(1.5, -2)),
  );
  assert.equal(
    readTensorProto(message([1, 1], [2, 14], [4, f32])).tensor,
    new Tensor('complex64', Float32Array.of(1.5, -2), [1]),
  );
  // int32_data: everything of 32 bits and fewer.
  for (const type of Object.keys(dataTypes) as DataType[]) {
    const { kind, bits, onnx } = dataTypes[type];
    if (bits === 0 || bits > 32 || kind === 'complex' || type === 'float32' || type === 'uint32') continue;
    const per = bits < 8 ? 8 / bits : 1;
    const values = type === 'bool' ? [1, 0] : type === 'float8e8m0' ? [2, 4] : [1, kind === 'signed' ? -2 : 1];
    const stored = encode(type, values);
    const numbers = Array.from(stored as Int8Array);
    const dims: Field[] = [[1, values.length]];
    for (const data of [numbers.map((x): Field => [5, x]), [[5, varints(...numbers)] as Field]]) {
      const { tensor } = readTensorProto(message(...dims, [2, onnx], ...data));
      assert.equal(Array.from(decode(tensor)), values, `${type}, ${per} a number`);
    }
  }
  const big = [2 ** 53, -1, 0];
  for (const data of [big.map((x): Field => [7, x]), [[7, varints(...big)] as Field]])
    assert.equal(readTensorProto(message([1, 3], [2, 7], ...data)).tensor, new Tensor('int64', big));
  assert.equal(readTensorProto(message([1, 1], [2, 13], [11, -1])).tensor, new Tensor('uint64', [2n ** 64n - 1n]));
  assert.equal(
    readTensorProto(message([1, 2], [2, 12], [11, varints(7, 2 ** 32 - 1)])).tensor,
    new Tensor('uint32', Uint32Array.of(7, 2 ** 32 - 1)),
  );
  // Packed parts and single values by turns.
  assert.equal(
    readTensorProto(message([1, 4], [2, 6], [5, varints(1, 2)], [5, 3], [5, varints(4)])).tensor,
    new Tensor('int32', Int32Array.of(1, 2, 3, 4)),
  );
  assert.equal(
    readTensorProto(message([1, 2], [2, 9], [9, Uint8Array.of(7, 0)])).tensor,
    new Tensor('bool', [true, false]),
  );
});

test('a tensor whose data does not fit its shape says both', () => {
  refuses(
    () => readTensorProto(message([1, 3], [2, 1], [8, 'w'], [9, new Uint8Array(8)])),
    /tensor 'w': .*needs 12 bytes, got 8/,
  );
  refuses(
    () => readTensorProto(message([1, 3], [2, 7], [8, 'w'], [7, 1])),
    /tensor 'w': its shape asks for 3 values, got 1/,
  );
  refuses(() => readTensorProto(message([1, 1 << 20], [1, 1 << 20], [2, 1])), /has 1099511627776 elements/);
  refuses(() => readTensorProto(message([1, 0], [1, 2 ** 40], [2, 1])), /at most 2147483647/);
  refuses(() => readTensorProto(message([1, -1], [2, 1])), /non-negative/);
  refuses(() => readTensorProto(message([1, 1], [2, 99])), /unknown element type 99/);
  refuses(() => readTensorProto(message([1, 1], [2, 1], [5, 1])), /float32 data must be in float_data/);
  refuses(
    () => readTensorProto(message([1, 1], [2, 1], [4, new Uint8Array(4)], [9, new Uint8Array(4)])),
    /more than one field/,
  );
});

const entry = (field: number, key: string, value: string): Field => [
  field,
  [
    [1, key],
    [2, value],
  ],
];

function external(location: string, ...more: readonly Field[]): Uint8Array {
  const w: Field = f(5, f(1, 3), f(2, 1), f(8, 'w'), entry(13, 'location', location), f(14, 1), ...more);
  return model([w, node('Relu', ['w'], ['y']), info(12, 'y')]);
}

test('external data is read where it says, once a file, and never outside the folder', () => {
  const file = new Uint8Array(Float32Array.of(9, 1, 2, 3).buffer);
  const asked: string[] = [];
  const externalData = (location: string) => {
    asked.push(location);
    return file;
  };
  const { graph } = readModel(external('sub/w.bin', entry(13, 'offset', '4'), entry(13, 'length', '12')), {
    externalData,
  });
  assert.equal(graph.initializers.get('w'), new Tensor('float32', Float32Array.of(1, 2, 3)));
  assert.is((graph.initializers.get('w')!.data as Float32Array).buffer, file.buffer);
  assert.equal(asked, ['sub/w.bin']);
  for (const bad of ['../w', 'a/../../w', '/etc/passwd', 'C:\\w', '..\\w', 'a\0b', 'file:w'])
    refuses(
      () => readModel(external(bad), { externalData }),
      /tensor 'w': external data .* outside the model's folder/,
    );
  refuses(
    () => readModel(external('w', entry(13, 'offset', '8')), { externalData }),
    /needs bytes 8 to 20 of 'w', which has 16/,
  );
  refuses(() => readModel(external('w', entry(13, 'length', '16')), { externalData }), /needs 12 bytes, .* length 16/);
  refuses(() => readModel(external('w', entry(13, 'offset', '-4')), { externalData }), /offset '-4'/);
  refuses(() => readModel(external('w', entry(13, 'offset', '1e3')), { externalData }), /offset '1e3'/);
  refuses(() => readModel(external('')), /without a location/);
  refuses(() => readModel(external('w')), /in the file 'w' beside the model/, 'INVALID_INPUT');
  assert.equal(asked, ['sub/w.bin', 'w', 'w', 'w', 'w'].slice(0, asked.length));
});

test('sparse initializers and attributes become dense', () => {
  const values = (name: string): Field =>
    f(1, f(1, 2), f(2, 1), f(8, name), f(9, new Uint8Array(Float32Array.of(5, 7).buffer)));
  const flat: Field = f(2, f(1, 2), f(2, 7), f(7, 1), f(7, 5));
  const pairs: Field = f(2, f(1, 2), f(1, 2), f(2, 7), f(7, varints(0, 1, 1, 2)));
  const dims: Field[] = [
    [3, 2],
    [3, 3],
  ];
  const dense = new Tensor('float32', Float32Array.of(0, 5, 0, 0, 0, 7), [2, 3]);
  for (const indices of [flat, pairs]) {
    const { graph } = readModel(model([f(15, values('w'), indices, ...dims), node('Relu', ['w'], ['y'])]));
    assert.equal(graph.initializers.get('w'), dense);
    const constant = node(
      'Constant',
      [],
      ['y'],
      f(5, f(1, 'sparse_value'), f(22, values(''), indices, ...dims), f(20, 11)),
    );
    assert.equal(readModel(model([constant])).graph.nodes[0]!.attributes.sparse_value, {
      kind: 'tensor',
      value: dense,
    });
  }
  const beyond: Field = f(2, f(1, 2), f(2, 7), f(7, 1), f(7, 6));
  refuses(() => readModel(model([f(15, values('w'), beyond, ...dims)])), /sparse tensor 'w': index 6 is outside/);
  refuses(
    () => readModel(model([f(15, values('w'), flat, f(3, 2 ** 29))])),
    /takes 2147483648 bytes when dense, out of proportion/,
  );
});

test('small files cannot ask for much memory', () => {
  // Each of a thousand sparse tensors, of some forty bytes, wants a megabyte of zeros.
  const sparse = Array.from({ length: 1000 }, (_, i) =>
    f(15, f(1, f(1, 0), f(2, 1), f(8, `w${i}`), f(9, new Uint8Array())), f(3, 2 ** 18)),
  );
  refuses(() => readModel(model(sparse)), /takes 1048576 bytes when dense, out of proportion to the file/);
  // Each of a thousand tensors is the same external data, out of alignment.
  const outside = Array.from({ length: 1000 }, (_, i) =>
    f(5, f(1, 2 ** 16), f(2, 1), f(8, `w${i}`), entry(13, 'location', 'w'), entry(13, 'offset', '1'), f(14, 1)),
  );
  const file = new Uint8Array(2 ** 18 + 1);
  refuses(() => readModel(model(outside), { externalData: () => file }), /tensor 'w2': 'w' is read over and over/);
});

test('attributes of every kind', () => {
  const tensor: readonly Field[] = [
    [2, 1],
    [9, new Uint8Array(4)],
  ];
  const all: Field[] = [
    f(5, f(1, 'int'), f(3, -5), f(20, 2)),
    f(5, f(1, 'string'), f(4, 'abc'), f(20, 3)),
    f(5, f(1, 'tensor'), f(5, tensor), f(20, 4)),
    f(5, f(1, 'ints'), f(8, 1), f(8, varints(2, -3)), f(20, 7)),
    f(5, f(1, 'none'), f(20, 7)),
    f(5, f(1, 'floats'), f(7, new Uint8Array(Float32Array.of(0.5, 2).buffer)), f(20, 6)),
    f(5, f(1, 'strings'), f(9, 'a'), f(9, 'b'), f(20, 8)),
    f(5, f(1, 'tensors'), f(10, tensor), f(20, 9)),
    f(5, f(1, 'type'), f(14, f(4, f(1, f(1, f(1, 7))))), f(20, 13)),
    f(5, f(1, 'old'), f(3, 3)),
    f(5, f(1, 'zero'), f(20, 1)),
    f(5, f(1, 'bare')),
    f(5, f(1, '__proto__'), f(3, 1), f(20, 2)),
  ];
  const { attributes } = readModel(model([node('Foo', [], ['y'], ...all)])).graph.nodes[0]!;
  const zero = new Tensor('float32', Float32Array.of(0), []);
  assert.equal(Object.entries(attributes), [
    ['int', { kind: 'int', value: -5 }],
    ['string', { kind: 'string', value: 'abc' }],
    ['tensor', { kind: 'tensor', value: zero }],
    ['ints', { kind: 'ints', value: [1, 2, -3] }],
    ['none', { kind: 'ints', value: [] }],
    ['floats', { kind: 'floats', value: [0.5, 2] }],
    ['strings', { kind: 'strings', value: ['a', 'b'] }],
    ['tensors', { kind: 'tensors', value: [zero] }],
    ['type', { kind: 'type', value: { kind: 'sequence', element: { kind: 'tensor', type: 'int64' } } }],
    ['old', { kind: 'int', value: 3 }],
    ['zero', { kind: 'float', value: 0 }],
    ['bare', { kind: 'ints', value: [] }],
    ['__proto__', { kind: 'int', value: 1 }],
  ]);
  refuses(
    () => readModel(model([node('Foo', [], ['y'], f(5, f(1, 'a'), f(20, 99)))])),
    /attribute 'a': unknown attribute type 99/,
  );
  refuses(
    () => readModel(model([node('Foo', [], ['y'], f(5, f(1, 'a'), f(20, 5)))])),
    /declared graph but has no such value/,
  );
});

test('value types of every kind, with what exporters leave unsaid', () => {
  const of = (type: readonly Field[]) => readModel(model([f(11, f(1, 'x'), f(2, type))])).graph.inputs[0]!.type;
  const f32: readonly Field[] = [f(1, f(1, 1))];
  assert.equal(of(f32), { kind: 'tensor', type: 'float32' });
  assert.equal(of([f(1, f(1, 7), f(2, f(1, f(1, 4)), f(1, f(2, 'n')), f(1), f(1, f(1, -1))))]), {
    kind: 'tensor',
    type: 'int64',
    dims: [4, 'n', null, null],
  });
  assert.equal(of([f(9, f(1, f(4, f(1, f32))))]), {
    kind: 'optional',
    element: { kind: 'sequence', element: { kind: 'tensor', type: 'float32' } },
  });
  assert.equal(of([f(5, f(1, 7), f(2, f32))]), {
    kind: 'map',
    key: 'int64',
    value: { kind: 'tensor', type: 'float32' },
  });
  assert.equal(of([]), undefined);
  assert.equal(of([f(1)]), undefined);
});

test('versions: old files, aliases of domains, and what is too new', () => {
  const graph: Field = f(7, node('Relu', ['x'], ['y']), info(11, 'x'), info(12, 'y'));
  const opset = (domain: string, version: number): Field => f(8, f(1, domain), f(2, version));
  assert.is(readModel(message([1, 1], graph)).graph.nodes[0]!.opset, 1);
  const aliased = readModel(message([1, 8], graph, opset('ai.onnx', 13), opset('', 11), opset('com.microsoft', 1)));
  assert.equal(
    [...aliased.opsets],
    [
      ['', 13],
      ['com.microsoft', 1],
    ],
  );
  assert.is(aliased.graph.nodes[0]!.opset, 13);
  refuses(() => readModel(message([1, 14], graph, opset('', 17))), /IR version 14; Skep reads up to 13/, 'UNSUPPORTED');
  refuses(
    () => readModel(message([1, 13], graph, opset('', 28))),
    /operator set 28 of ai.onnx; Skep knows up to 27/,
    'UNSUPPORTED',
  );
  refuses(() => readModel(message([1, 8], graph)), /Relu \(byte \d+\): the model imports no operator set of ai.onnx/);
  refuses(() => readModel(message(graph, opset('', 17))), /no IR version/);
  refuses(() => readModel(message([1, 8], opset('', 17))), /no graph/);
  refuses(() => readModel(message([1, 8], graph, opset('', 0))), /version 0/);
});

test('nodes out of order are sorted; a cycle is named', () => {
  const { graph } = readModel(
    model([
      node('C', ['b'], ['c']),
      node('B', ['a'], ['b']),
      node('A', ['x'], ['a']),
      node('D', ['x'], ['d']),
      info(11, 'x'),
    ]),
  );
  assert.equal(
    graph.nodes.map((n) => n.op),
    ['A', 'B', 'C', 'D'],
  );
  refuses(
    () => readModel(model([node('A', ['c'], ['a']), node('B', ['a'], ['b'], [3, 'mid']), node('C', ['b'], ['c'])])),
    /graph 'g' has a cycle: A → 'a', C → 'c', B 'mid' → 'b'/,
  );
  refuses(() => readModel(model([node('A', ['a'], ['a'])])), /cycle: A → 'a'/);
});

test('names defined twice, or not at all, are named', () => {
  refuses(() => readModel(model([info(11, 'x'), info(11, 'x')])), /input 'x' is already defined/);
  refuses(
    () => readModel(model([info(11, 'x'), node('A', [], ['x'])])),
    /the output of A \(byte \d+\) 'x' is already defined/,
  );
  refuses(() => readModel(model([node('A', [], ['y']), node('B', [], ['y'])])), /the output of B \(byte \d+\) 'y'/);
  refuses(() => readModel(model([node('A', [], ['y', 'y'])])), /'y' is already defined/);
  refuses(() => readModel(model([node('A', ['q'], ['y'])])), /A \(byte \d+\) reads 'q', which nothing defines/);
  refuses(() => readModel(model([info(12, 'q')])), /nothing defines its output 'q'/);
  refuses(
    () => readModel(model([info(11, 'x'), info(12, 'x'), info(12, 'x')])),
    /output 'x' of the model is there twice/,
  );
  const w: Field = f(5, f(2, 1), f(8, 'w'), f(9, new Uint8Array(4)));
  refuses(() => readModel(model([w, w])), /a second initializer 'w'/);
  // An initializer that is an input too is that input's default.
  const { graph } = readModel(model([w, info(11, 'w'), node('A', ['w'], ['y'])]));
  assert.is(graph.inputs[0]!.name, 'w');
  assert.ok(graph.initializers.has('w'));
});

test('a subgraph that reuses a name of the graph around it is renamed inside', () => {
  const branch: readonly Field[] = [f(2, 'then'), node('Neg', ['x'], ['y']), node('Abs', ['y'], ['z']), info(12, 'z')];
  const attribute: Field = f(5, f(1, 'then_branch'), f(6, branch), f(20, 5));
  const m = readModel(
    model([info(11, 'x'), node('Relu', ['x'], ['y']), node('If', ['y'], ['r'], attribute), info(12, 'r')]),
  );
  verify(m);
  const then = m.graph.nodes[1]!.attributes.then_branch!;
  assert.is(then.kind, 'graph');
  if (then.kind !== 'graph') return;
  assert.equal(
    then.value.nodes.map((n) => [n.inputs[0], n.outputs[0]]),
    [
      ['x', 'y_1'],
      ['y_1', 'z'],
    ],
  );
});

// A function: twice(x) = x · 2 + bias, with attributes passed on, an optional input, and a pass-through output.
const attributeRef = (name: string, to: string): Field => f(5, f(1, name), f(20, 1), f(21, to));

function functionProto(...nodes: readonly (readonly Field[])[]): Field {
  return f(
    25,
    f(1, 'Twice'),
    f(10, 'local'),
    f(4, 'a'),
    f(4, 'b'),
    f(5, 'out'),
    f(5, 'a'),
    f(6, 'alpha'),
    f(11, f(1, 'beta'), f(20, 1)),
    ...nodes.map((n): Field => [7, n]),
    f(9, f(1, ''), f(2, 13)),
  );
}

test('functions are inlined: names fresh, attributes passed, optional inputs omitted, their own operator set', () => {
  const fn = functionProto(
    nodeFields(
      'Elu',
      ['a'],
      ['t'],
      attributeRef('alpha', 'alpha'),
      attributeRef('beta', 'beta'),
      attributeRef('gone', 'gone'),
    ),
    nodeFields('Clip', ['t', 'b', 'a'], ['u']),
    nodeFields('Neg', ['u'], ['out']),
  );
  const alpha: Field = f(5, f(1, 'alpha'), f(3, 3), f(20, 2));
  const call = (inputs: string[], outputs: string[], name: string) =>
    node('Twice', inputs, outputs, [3, name], [7, 'local'], alpha);
  // Note the main graph's own 't'.
  const { graph } = readModel(
    model(
      [
        info(11, 'x'),
        node('Relu', ['x'], ['t']),
        call(['t'], ['y', 'copy'], 'one'),
        call(['y', 'x'], ['z'], ''),
        info(12, 'z'),
        info(12, 'copy'),
      ],
      fn,
    ),
  );
  verify(graph);
  assert.equal(
    graph.nodes.map((n) => [n.op, n.opset, n.inputs, n.outputs, n.name]),
    [
      ['Relu', 17, ['x'], ['t'], ''],
      ['Elu', 13, ['t'], ['one/t'], 'one/Elu'],
      ['Clip', 13, ['one/t', '', 't'], ['one/u'], 'one/Clip'],
      ['Neg', 13, ['one/u'], ['y'], 'one/Neg'],
      ['Identity', 13, ['t'], ['copy'], ''],
      ['Elu', 13, ['y'], ['Twice/t'], 'Twice/Elu'],
      ['Clip', 13, ['Twice/t', 'x', 'y'], ['Twice/u'], 'Twice/Clip'],
      ['Neg', 13, ['Twice/u'], ['z'], 'Twice/Neg'],
    ].map((row, i) => (i === 4 ? ['Identity', 13, ['t'], ['copy'], ''] : row)),
  );
  assert.equal(graph.nodes[1]!.attributes, {
    alpha: { kind: 'int', value: 3 },
    beta: { kind: 'float', value: 0 },
  });
});

test('functions in functions and in subgraphs, whose subgraphs refer to attributes', () => {
  const inner: Field = f(
    25,
    f(1, 'Inner'),
    f(10, 'local'),
    f(4, 'p'),
    f(5, 'q'),
    f(7, nodeFields('Elu', ['p'], ['q'], attributeRef('alpha', 'scale'))),
    f(9, f(2, 17)),
  );
  const branch: readonly Field[] = [
    f(2, 'b'),
    node('Inner', ['c'], ['r'], [7, 'local'], attributeRef('scale', 'alpha')),
    info(12, 'r'),
  ];
  const outer: Field = f(
    25,
    f(1, 'Outer'),
    f(10, 'local'),
    f(4, 'c'),
    f(5, 'd'),
    f(7, nodeFields('If', ['c'], ['d'], f(5, f(1, 'then_branch'), f(6, branch), f(20, 5)))),
    f(9, f(2, 17)),
  );
  const alpha: Field = f(5, f(1, 'alpha'), f(3, 2), f(20, 2));
  const calls = ['y', 'z'].map((o) => node('Outer', ['x'], [o], [7, 'local'], alpha));
  const m = readModel(model([info(11, 'x'), ...calls, info(12, 'y'), info(12, 'z')], inner, outer));
  verify(m);
  for (const n of m.graph.nodes) {
    const then = n.attributes.then_branch!;
    if (then.kind !== 'graph') throw new Error('no branch');
    const [elu] = then.value.nodes;
    assert.equal([elu!.op, elu!.inputs, elu!.attributes], ['Elu', ['x'], { alpha: { kind: 'int', value: 2 } }]);
    assert.is(then.value.outputs[0]!.name, elu!.outputs[0]);
  }
});

test('functions that are wrong say which and where', () => {
  const call = node('F', ['x'], ['y'], [7, 'local']);
  const of = (...fields: readonly Field[]) =>
    model([info(11, 'x'), call], f(25, f(1, 'F'), f(10, 'local'), f(9, f(2, 17)), ...fields));
  refuses(
    () => readModel(of([4, 'a'], [5, 'b'], [7, nodeFields('F', ['a'], ['b'], [7, 'local'])])),
    /F in function 'F' \(byte \d+\): function 'F' calls itself/,
  );
  refuses(
    () => readModel(of([4, 'a'], [5, 'b'], [7, nodeFields('Relu', ['x'], ['b'])])),
    /Relu in function 'F' \(byte \d+\) reads 'x', which nothing defines/,
  );
  refuses(() => readModel(of([4, 'a'], [5, 'b'])), /nothing defines output 'b' of function 'F'/);
  refuses(() => readModel(of([5, 'b'])), /has 0 inputs and 1 outputs, got 1 and 1/);
  refuses(() => readModel(of([4, 'a'], [4, 'a'], [5, 'a'])), /'a' is defined twice/);
  refuses(
    () => readModel(model([node('Elu', [], ['y'], attributeRef('alpha', 'alpha'))])),
    /refers to attribute 'alpha' of a function, but is in none/,
  );
  const twice: Field = f(25, f(1, 'F'));
  refuses(() => readModel(model([], twice, twice)), /function 'F' of domain '' is there twice/);
});

test('calls of calls of calls are refused before they fill memory', () => {
  // Each level calls the next ten times: 10^12 nodes.
  const levels = Array.from({ length: 12 }, (_, i): Field => {
    const calls = Array.from(
      { length: 10 },
      (_, k): Field => [7, nodeFields(`F${i + 1}`, [k === 0 ? 'a' : `t${k - 1}`], [k === 9 ? 'b' : `t${k}`])],
    );
    return f(25, f(1, `F${i}`), f(4, 'a'), f(5, 'b'), ...calls, f(9, f(2, 17)));
  });
  refuses(
    () => readModel(model([info(11, 'x'), node('F0', ['x'], ['y'])], ...levels)),
    /unfold to more than \d+ nodes and names/,
  );
  // A chain of functions, each calling the next once.
  const chain = Array.from(
    { length: 5000 },
    (_, i): Field =>
      f(25, f(1, `F${i}`), f(4, 'a'), f(5, 'b'), f(7, nodeFields(`F${i + 1}`, ['a'], ['b'])), f(9, f(2, 17))),
  );
  refuses(() => readModel(model([info(11, 'x'), node('F0', ['x'], ['y'])], ...chain)), /nested deeper than 100/);
});

test('files that are something else are recognized', () => {
  const text = (s: string) => new TextEncoder().encode(s.padEnd(100));
  refuses(() => readModel(new Uint8Array()), /it is empty/);
  refuses(() => readModel(text('version https://git-lfs.github.com/spec/v1\noid sha256:00')), /Git LFS pointer/);
  refuses(() => readModel(text('<!DOCTYPE html>')), /web page/);
  refuses(() => readModel(text('PK\x03\x04')), /zip archive/);
  refuses(() => readModel(text('\x08\0\0\0ORTM')), /ORT format/);
  refuses(() => readModel(text('hello world')), /byte/);
});

test('metadata and producer are kept', () => {
  const m = readModel(model([], [2, 'maker'], entry(14, 'author', 'me')));
  assert.is(m.producer, 'maker');
  assert.equal([...m.metadata], [['author', 'me']]);
});

test('a Buffer is read like any bytes', () => {
  assert.is(readModel(Buffer.from(model([]))).graph.name, 'g');
});

test.run();
