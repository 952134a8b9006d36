// What an engine must refuse, by the reference and by the kernels alike, in words that name the node: inputs of types that
// do not go together, outputs and inputs an operator does not have, indices outside their axis. And damaged nodes of
// every operator: the engines agree on an answer, or refuse.
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Attribute } from '../../src/graph/graph.js';
import { allOperators } from '../../src/operators/registry.js';
import { SkepError } from '../../src/tensor/errors.js';
import { sizeOf } from '../../src/tensor/shape.js';
import { Tensor, zeros } from '../../src/tensor/tensor.js';
import { damage } from '../stress/differential/damage.js';
import { families } from '../stress/differential/families.js';
import { Generator } from '../stress/differential/generator.js';
import { assertClose, builds, type NodeTest, runKernels, runReference } from './harness.js';

const int64 = (values: readonly number[], dims = [values.length]) => new Tensor('int64', values, dims);

function refused(t: NodeTest, words: RegExp, code = 'INVALID_MODEL'): void {
  const says = (e: unknown) =>
    e instanceof SkepError && e.code === code && words.test(e.message) && /'test'/.test(e.message);
  assert.throws(() => runReference(t), says, `${t.op} by the reference`);
  for (const build of builds) assert.throws(() => runKernels(t, build), says, `${t.op} by ${build} kernels`);
}

test('inputs of types that do not go together are refused', () => {
  const x = zeros('float32', [1, 1, 3]);
  refused(
    { op: 'Conv', inputs: [x, x, zeros('uint16', [1])] },
    /input 0 is float32 \[1, 1, 3\] and input 2 is uint16 \[1\]/,
  );
  refused(
    { op: 'Sin', inputs: [zeros('uint64', [2])] },
    /it must be float32, float64, float16 or bfloat16 in version 24/,
  );
  refused(
    { op: 'Squeeze', inputs: [x, new Tensor('string', ['0'], [1])] },
    /input 1 is string \[1\]; it must be int64/,
  );
  refused({ op: 'Gather', inputs: [x, zeros('float32', [1])] }, /it must be int32 or int64/);
  refused({ op: 'Where', inputs: [x, x, x] }, /it must be bool/);
  refused(
    { op: 'Concat', inputs: [x, x, zeros('int32', [1, 1, 3])], attributes: { axis: { kind: 'int', value: 0 } } },
    /one type/,
  );
});

test('inputs and outputs that an operator does not have are refused', () => {
  const x = zeros('float32', [1, 3]);
  refused({ op: 'Relu', inputs: [x], outputs: 2 }, /no output 1 \('y1'\)/);
  refused({ op: 'NonZero', inputs: [x], outputs: 2 }, /no output 1 \('y1'\)/);
  refused({ op: 'NonZero', inputs: [x], outputs: 2, constants: [0] }, /no output 1 \('y1'\)/);
  refused({ op: 'Squeeze', opset: 11, inputs: [x, int64([0])] }, /at most 1 input in version 11/);
  refused({ op: 'Expand', inputs: [x, undefined] }, /input 1 is missing/);
});

test('indices outside their axis are refused before a kernel reads them', () => {
  const axis = { kind: 'int', value: 1 } as const;
  const data = zeros('float32', [3, 4]);
  const bad = fc.oneof(
    fc.integer({ min: 4, max: 2 ** 31 - 1 }),
    fc.integer({ min: -(2 ** 31), max: -5 }),
    fc.constantFrom(2 ** 40, -(2 ** 40), 2 ** 32, 2 ** 32 + 1, 2 ** 31, -(2 ** 32)),
  );
  fc.assert(
    fc.property(bad, fc.boolean(), fc.nat({ max: 2 }), (index, constant, place) => {
      const one = [0, -4, 3].with(place, index);
      const constants = constant ? [1] : [];
      const nodes: NodeTest[] = [
        { op: 'Gather', inputs: [data, int64(one)], attributes: { axis }, constants },
        { op: 'GatherElements', inputs: [data, int64(one, [3, 1])], attributes: { axis }, constants },
        { op: 'GatherND', inputs: [data, int64([0, one[0]!, -1, one[1]!, 2, one[2]!], [3, 2])], constants },
        {
          op: 'ScatterElements',
          inputs: [data, int64(one, [3, 1]), zeros('float32', [3, 1])],
          attributes: { axis },
          constants,
        },
        {
          op: 'ScatterND',
          inputs: [data, int64([0, one[0]!, -1, one[1]!, 2, one[2]!], [3, 2]), zeros('float32', [3])],
          constants,
        },
      ];
      for (const t of nodes) refused(t, /outside/, 'INVALID_INPUT');
    }),
    { numRuns: 20 },
  );
  const cache = zeros('float32', [2, 1, 5, 1]);
  for (const at of [
    [0, -1],
    [4, 0],
  ])
    refused({ op: 'TensorScatter', inputs: [cache, zeros('float32', [2, 1, 2, 1]), int64(at)] }, /./, 'INVALID_INPUT');
});

test('indices at the ends of their axis are taken, int32 and int64', () => {
  for (const type of ['int32', 'int64'] as const) {
    const t: NodeTest = {
      op: 'Gather',
      inputs: [new Tensor('int32', [5, 6, 7], [3]), new Tensor(type, [-3, 2, -1, 0], [4])],
    };
    for (const build of builds)
      assert.equal([...(runKernels(t, build).outputs[0] as Tensor<'int32'>).data], [5, 7, 7, 5]);
  }
});

test('an operator that is not there: the node, the version, and what would work', () => {
  const unsupported = (op: string, domain: string, opset: number, words: RegExp) =>
    refused({ op, domain, opset, inputs: [zeros('float32', [1])] }, words, 'UNSUPPORTED');
  unsupported(
    'Convv',
    '',
    21,
    /^Convv 'test': operator of domain 'ai.onnx' version 21 is not supported; did you mean Conv\?/,
  );
  unsupported('BiasGelu', '', 21, /BiasGelu of domain 'com.microsoft' is/);
  unsupported('zzz', 'aten', 1, /dynamo=True/);
  unsupported('zzz', 'com.microsoft', 1, /level 'basic'/);
  unsupported('zzz', 'my.own', 1, /save the model with its functions/);
  unsupported('y'.repeat(1 << 20), '', 21, /docs\/operators.md/);
  unsupported('Upsample', '', 10, /it ended with version 9, and the model is of version 10: Resize replaces it/);
  unsupported('Scatter', '', 11, /ScatterElements replaces it/);
  unsupported('Gelu', '', 19, /version 19 is not supported; versions 20 and later are/);
});

test('a clip of recurrent layers that is no bound is refused', () => {
  for (const clip of [Number.NaN, -1]) {
    const inputs = [zeros('float32', [2, 1, 3]), zeros('float32', [1, 4, 3]), zeros('float32', [1, 4, 4])];
    refused({ op: 'RNN', inputs, attributes: { clip: { kind: 'float', value: clip } } }, /clip must not be negative/);
  }
});

test('Cast of versions before 6 takes the name of a type', () => {
  const x = new Tensor('float32', [1.5, -2], [2]);
  const cast = (opset: number, to: Attribute): NodeTest => ({ op: 'Cast', opset, inputs: [x], attributes: { to } });
  for (const [name, type] of [
    ['INT32', 'int32'],
    ['DOUBLE', 'float64'],
    ['FLOAT', 'float32'],
    ['BOOL', 'bool'],
  ] as const) {
    const t = cast(1, { kind: 'string', value: name });
    assert.is((runReference(t)[0] as Tensor).type, type);
    assert.is((runKernels(t).outputs[0] as Tensor).type, type);
  }
  refused(cast(1, { kind: 'int', value: 6 }), /must be a type's name in version 1/);
  refused(cast(6, { kind: 'string', value: 'INT32' }), /must be an int in version 6/);
  refused(cast(1, { kind: 'string', value: 'toString' }), /unknown element type toString/);
});

test('damaged nodes of every operator are answered alike or refused in words', () => {
  const attempt = (run: () => ReturnType<typeof runReference>) => {
    try {
      return run();
    } catch (error) {
      assert.ok(error instanceof SkepError, `${String((error as Error).stack)}`);
      assert.ok(['INVALID_MODEL', 'UNSUPPORTED', 'INVALID_INPUT'].includes(error.code), error.message);
      return undefined;
    }
  };
  for (const { name, domain, since, ended } of allOperators()) {
    const make = families[domain === '' ? name : `${domain}:${name}`];
    // Training draws random numbers.
    if (domain === 'skep' || make === undefined || name === 'Dropout') continue;
    for (let i = 0; i < 2; i++) {
      const g = new Generator(1000 * i + name.length);
      const opset = domain === '' && ended === undefined ? Math.max(24, since[0]!) : since.at(-1)!;
      const c = damage(g, { op: name, domain, opset, ...make(g, opset) });
      const want = attempt(() => runReference(c));
      const got = attempt(() => runKernels(c).outputs);
      assert.is(got === undefined, want === undefined, `${name} ${i}: one engine refuses`);
      const size = (want?.[0] instanceof Tensor ? sizeOf(want[0].dims) : 0) > 0;
      if (want !== undefined && size && c.shapeOnly !== true)
        for (const [k, w] of want.entries())
          assertClose(got![k]!, w, { rtol: 1e-2, atol: 1e-2 }, `${name} ${i}: output ${k}`);
    }
  }
});

test.run();
