// Every network at its tiny size: the file is the model, weights come from the seed, the kernels agree with the reference,
// and a row gets the same bits in any batch.
import { createHash } from 'node:crypto';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { networks } from '../../models/index.js';
import type { Network } from '../../models/network.js';
import { verify } from '../../src/graph/verify.js';
import { readModel } from '../../src/onnx/reader.js';
import { writeModel } from '../../src/onnx/writer.js';
import { interpret } from '../../src/operators/evaluate.js';
import { SkepError } from '../../src/tensor/errors.js';
import type { Tensor } from '../../src/tensor/tensor.js';
import { assertClose, assertSameBits, builds, GraphRunner } from '../operators/harness.js';
import { sliceOf } from '../operators/invariance.js';
import { rowsOf } from './graphs.js';

const axes = { batch: 8, sequence: 5, source: 6, past: 3, children: 3 };

/** Tiny, or with the numbers given. */
const variants: readonly [Network, Readonly<Record<string, number>>][] = [
  ...[...networks.values()].map((n): [Network, Record<string, number>] => [n, {}]),
  [networks.get('resnet50')!, { depth: 26, size: 40 }],
  [networks.get('inception-v3')!, { size: 107 }],
  [networks.get('mobilenet-v2')!, { width: 15 }],
  [networks.get('lstm-lm')!, { layers: 1, hidden: 20 }],
];

for (const [network, set] of variants) {
  const what = [network.name, ...Object.entries(set).map(([k, v]) => `${k}=${v}`)].join(' ');
  const options = { size: 'tiny', set } as const;

  test(`${what}: the file is the model`, () => {
    const model = network.build(options);
    verify(model);
    assert.is(model.graph.name, network.name);
    assert.equal(readModel(writeModel(model)), model);
    for (const { name, type } of model.graph.outputs)
      assert.ok(type?.kind === 'tensor' && type.dims !== undefined && !type.dims.includes(null), `type of ${name}`);
  });

  test(`${what}: weights depend on the seed alone`, () => {
    const hash = (seed: number) =>
      createHash('sha256')
        .update(writeModel(network.build({ ...options, seed })))
        .digest('hex');
    assert.is(hash(7), hash(7));
    assert.is.not(hash(7), hash(8));
  });

  test(`${what}: kernels agree with the reference, and a row does not depend on its batch`, () => {
    const { graph } = network.build(options);
    const feeds = network.feeds(network.build(options), axes, options);
    const few = rowsOf(graph, feeds, 0, 2);
    const want = interpret(graph, few);
    for (const build of builds) {
      const runner = new GraphRunner(graph, build);
      const got = runner.run(few).outputs;
      for (const [name, w] of want)
        assertClose(got.get(name)!, w, { rtol: 1e-4, atol: 2e-6 * most(w as Tensor) }, `${name} (${build})`);
      const all = runner.run(feeds).outputs;
      const same = (from: number, count: number) => {
        const { outputs } = runner.run(rowsOf(graph, feeds, from, count));
        for (const { name, type } of graph.outputs) {
          const axis = type!.kind === 'tensor' ? type!.dims!.indexOf('batch') : -1;
          assert.ok(axis >= 0, name);
          compareRows(
            outputs.get(name) as Tensor,
            sliceOf(all.get(name) as Tensor, axis, from, count),
            `${name} (${build})`,
          );
        }
      };
      for (const i of [0, 3, 7]) same(i, 1);
      for (const i of [0, 4, 5]) same(i, 3);
    }
  });
}

/** The same bits; where a batch went on for longer, because another row was longer, it went on with zeros. */
function compareRows(alone: Tensor, among: Tensor, what: string): void {
  const steps = alone.dims[1];
  if (alone.dims.length !== 2 || alone.type !== 'int64' || steps === among.dims[1]) {
    assertSameBits(alone, among, what);
    return;
  }
  const longer = among.dims[1]! - steps!;
  assertSameBits(alone, sliceOf(among, 1, 0, steps!), what);
  assert.ok(
    (sliceOf(among, 1, steps!, longer).data as BigInt64Array).every((x) => x === 0n),
    `${what}: the end`,
  );
}

function most(t: Tensor): number {
  let m = 1;
  for (const x of t.data) m = Math.max(m, Math.abs(Number(x)));
  return m;
}

test('every operator set the builder writes', () => {
  for (const network of networks.values())
    for (const opset of [17, 18, 21, 24, 27]) {
      const model = network.build({ size: 'tiny', opset });
      assert.is(model.opsets.get(''), opset);
      const feeds = network.feeds(model, { sequence: 4, source: 3, past: 2, children: 2 }, { size: 'tiny' });
      const want = interpret(model.graph, feeds);
      const { outputs } = new GraphRunner(model.graph).run(feeds);
      for (const [name, w] of want)
        assertClose(
          outputs.get(name)!,
          w,
          { rtol: 1e-4, atol: 2e-6 * most(w as Tensor) },
          `${network.name} ${opset} ${name}`,
        );
    }
});

test('settings that are none are refused', () => {
  const refuses = (run: () => unknown, pattern: RegExp) =>
    assert.throws(run, (e: unknown) => e instanceof SkepError && e.code === 'INVALID_INPUT' && pattern.test(e.message));
  const lenet = networks.get('lenet')!;
  refuses(() => lenet.build({ set: { hidden: 3 } }), /lenet has no option 'hidden'; it has width/);
  refuses(() => lenet.build({ set: { width: 0.5 } }), /lenet: width must be a positive whole number, got 0\.5/);
  refuses(() => networks.get('resnet50')!.build({ set: { depth: 51 } }), /depth must be one of 14, 26, 50/);
  refuses(() => networks.get('gpt2')!.build({ size: 'tiny', set: { heads: 3 } }), /hidden 16 does not divide into 3/);
  refuses(() => networks.get('bert-base')!.build({ size: 'tiny', set: { heads: 3 } }), /16 does not divide into 3/);
  refuses(() => networks.get('inception-v3')!.build({ set: { size: 40 }, zeros: true }), /does not fit/);
});

test.run();
