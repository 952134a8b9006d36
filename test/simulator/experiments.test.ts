// The paper's experiments in virtual time, with lengths and trees made by seed. What must hold is asserted; the tables
// are printed by bench/cellular/virtual.ts. With the lengths of real sentences: test/conformance/workloads.test.ts.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Priority } from '../../src/cellular/priority.js';
import { Random } from '../../src/simulator/random.js';
import { chains, logNormalLengths, pairs, randomTree, trees } from '../../src/simulator/workload.js';
import { buckets, cellular, depthWise, oneByOne, padding, run, type Setup, saturated } from './experiments.js';
import { decoder1024, lstm256, lstm1024, lstmGpu, treeInner1024, treeLeaf1024 } from './step-costs.js';

const sentences = chains(logNormalLengths(4000, 25, 0.6, 200, 3));
const h1024: Setup = { items: sentences, steps: [lstm1024] };
const h256: Setup = { items: sentences, steps: [lstm256] };
const translation: Setup = {
  items: pairs(
    logNormalLengths(2000, 13, 0.3, 40, 3).map((source, i) => [source, logNormalLengths(1, source, 0.2, 50, i)[0]!]),
    50,
  ),
  steps: [lstm1024, decoder1024],
  requests: 3000,
};
const random = new Random(11);
const parses: Setup = {
  items: trees(logNormalLengths(500, 19, 0.45, 56, 5).map((leaves) => randomTree(Math.max(2, leaves), random, 0.4))),
  steps: [treeLeaf1024, treeInner1024],
  requests: 2000,
};

/** Under overload the p90 of an open loop has no bound: it counts as infinite. */
const p90 = (r: { stable: boolean; latency: { p90: number } }): number =>
  r.stable ? r.latency.p90 : Number.POSITIVE_INFINITY;

for (const [name, setup, least] of [
  ['hidden 1024', h1024, [1.5, 2.5, 4]],
  ['hidden 256', h256, [1.2, 1.8, 4]],
] as const) {
  test(`B2: ${name}: latency holds with load, and buckets fall behind`, () => {
    const tenth = run(setup, 0.1, cellular());
    const half = run(setup, 0.5, cellular());
    assert.ok(half.latency.p90 <= 2 * tenth.latency.p90, `${half.latency.p90} against ${tenth.latency.p90}`);
    assert.ok(run(setup, 0.95, cellular()).stable);
    assert.not.ok(run(setup, 0.9, buckets()).stable);
    [0.5, 0.7, 0.8].forEach((load, i) => {
      const ratio = p90(run(setup, load, buckets())) / run(setup, load, cellular()).latency.p90;
      assert.ok(ratio >= least[i]!, `at ${load}: ${ratio}`);
    });
  });
}

test('B2: with a GPU’s flat step cost the gap at a tenth of the load is the paper’s', () => {
  // At full width (512 rows) a tenth of capacity is 11,000 requests a second, and buckets wait for their turn.
  const gpu: Setup = { items: sentences, steps: [lstmGpu], maxBatch: 512, requests: 20_000 };
  const cells = run(gpu, 0.1, cellular());
  const rivals = run(gpu, 0.1, buckets());
  assert.ok(cells.latency.p90 < 10, `${cells.latency.p90}`);
  assert.ok(rivals.latency.p90 > 5 * cells.latency.p90, `${rivals.latency.p90}`);
});

test('B3: with equal lengths cells cost no throughput against plain padding', () => {
  const equal: Setup = { ...h1024, items: chains([25]), requests: 2000 };
  const ratio = saturated(equal, cellular()) / saturated(equal, padding);
  assert.ok(ratio > 0.9 && ratio < 1.1, `${ratio}`);
});

test('B4: below 80 % load half of the requests wait at most two step times', () => {
  for (const setup of [h1024, h256])
    for (const load of [0.3, 0.5, 0.7, 0.79]) {
      const r = run(setup, load, cellular());
      assert.ok(r.queueing.p50 <= 2 * r.batch.stepTime, `at ${load}: ${r.queueing.p50} ms of ${r.batch.stepTime}`);
    }
});

test('B5: the advantage grows with the variance of lengths, from none', () => {
  const advantage = [0, 0.2, 0.5, 1].map((variation) => {
    const setup = { ...h1024, items: chains(logNormalLengths(3000, 25, variation, 200, 3)), requests: 2000 };
    return saturated(setup, cellular()) / saturated(setup, padding);
  });
  assert.ok(Math.abs(advantage[0]! - 1) < 0.05, `${advantage}`);
  for (let i = 1; i < advantage.length; i++) assert.ok(advantage[i]! > advantage[i - 1]! + 0.1, `${advantage}`);
  // Width 1 pads nothing, but fills its batches badly when it is not saturated; wide buckets pad much.
  const setup = { ...h1024, requests: 2000 };
  const [narrow, wide] = [1, 40].map((width) => saturated(setup, cellular()) / saturated(setup, buckets(width)));
  assert.ok(narrow! >= 1 && wide! > narrow!, `${narrow} ${wide}`);
});

test('B6: the default priority is the best, decoder-first collapses, Algorithm 1 starves encoders above the knee', () => {
  const means = new Map<Priority, number>();
  for (const instances of [1, 2])
    for (const maxBatch of [4, 32])
      for (const load of [0.3, 0.7, 0.9]) {
        const all = Object.values(Priority).map((priority) => {
          const r = run({ ...translation, instances, maxBatch }, load, cellular({ priority }));
          const mean = r.stable ? r.latency.mean : Number.POSITIVE_INFINITY;
          means.set(priority, (means.get(priority) ?? 0) + mean);
          return { priority, mean, report: r };
        });
        const best = Math.min(...all.map((a) => a.mean));
        const at = (p: Priority): (typeof all)[number] => all.find((a) => a.priority === p)!;
        const where = `${instances} instances, maxBatch ${maxBatch}, load ${load}`;
        assert.ok(at(Priority.fullest).mean <= 1.06 * best, `${where}: ${at(Priority.fullest).mean} against ${best}`);
        if (load === 0.9) assert.ok(at(Priority.laterFirst).mean > 3 * best, `${where}: decoder-first`);
        if (load === 0.9 && maxBatch === 32)
          assert.ok(at(Priority.algorithm1).mean > 1.5 * best, `${where}: Algorithm 1 ${at(Priority.algorithm1).mean}`);
      }
  const sums = [...means].sort((a, b) => a[1] - b[1]);
  assert.is(sums[0]![0], Priority.fullest);
});

test('B7: trees: more throughput and less latency than depth-wise closed batches and than one by one', () => {
  const setup = { ...parses, maxBatch: 8 };
  const throughput = saturated(setup, cellular());
  assert.ok(throughput > 2 * saturated(setup, oneByOne));
  for (const requests of [1, 4, 16])
    assert.ok(throughput > saturated(setup, depthWise(requests)), `fold of ${requests}`);
  for (const load of [0.5, 0.7, 0.8]) {
    const cells = run(setup, load, cellular()).latency;
    for (const rival of [depthWise(4), depthWise(16), oneByOne]) {
      const r = run(setup, load, rival);
      assert.ok(cells.mean < r.latency.mean, `at ${load}: mean ${cells.mean} against ${r.latency.mean}`);
      assert.ok(cells.p90 < p90(r), `at ${load}: p90 ${cells.p90} against ${r.latency.p90}`);
    }
  }
});

test('B8: where the instance pulls, one task at a time is best', () => {
  for (const load of [0.5, 0.9]) {
    const medians = [1, 2, 5, 10].map(
      (maxTasksToSubmit) => run(translation, load, cellular({ maxTasksToSubmit })).latency.p50,
    );
    assert.is(Math.min(...medians), medians[0], `at ${load}: ${medians}`);
  }
});

test.run();
