// The simulator against what is known: queueing theory, counting by hand, and itself.
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Aimd, Buckets, DepthWise, OneByOne, Padding, Timeout } from '../../src/cellular/baselines.js';
import { CellularPolicy } from '../../src/cellular/cellular-policy.js';
import { CellularError } from '../../src/cellular/errors.js';
import type { WorkItem } from '../../src/cellular/policy.js';
import { byDepth, padded } from '../../src/cellular/stages.js';
import { arrivals } from '../../src/simulator/arrivals.js';
import { costOf, flat, knee, table } from '../../src/simulator/cost.js';
import { Random } from '../../src/simulator/random.js';
import { distribution } from '../../src/simulator/report.js';
import { simulate } from '../../src/simulator/simulate.js';
import { chains, drawFrom, pairs, randomTree, treeFromBits, trees } from '../../src/simulator/workload.js';

const near = (actual: number, wanted: number, share: number, what = ''): void =>
  assert.ok(Math.abs(actual - wanted) <= share * Math.abs(wanted), `${what} expected ${wanted}, got ${actual}`);
const chain = (length: number): WorkItem => chains([length])[0]!;

test('a seed names the numbers, and they look uniform', () => {
  const a = new Random(7);
  const b = new Random(7);
  const numbers = Array.from({ length: 20_000 }, () => a.uniform());
  assert.equal(
    numbers,
    Array.from({ length: 20_000 }, () => b.uniform()),
  );
  near(numbers.reduce((x, y) => x + y) / 20_000, 0.5, 0.02);
  assert.is.not(new Random(8).uint32(), new Random(7).uint32());
  const normal = Array.from({ length: 20_000 }, () => a.normal());
  near(normal.reduce((x, y) => x + y * y, 0) / 20_000, 1, 0.05);
});

test('arrival processes keep their rate, and vary as they should', () => {
  const variation = (times: Float64Array): number => {
    const gaps = Array.from(times.subarray(1), (t, i) => t - times[i]!);
    const mean = gaps.reduce((a, b) => a + b) / gaps.length;
    return Math.sqrt(gaps.reduce((a, g) => a + (g - mean) ** 2, 0) / gaps.length) / mean;
  };
  const n = 50_000;
  const rate = (times: Float64Array): number => (1000 * n) / times[n - 1]!;
  const poisson = arrivals({ kind: 'poisson', rate: 50 }, n, new Random(1));
  near(rate(poisson), 50, 0.02);
  near(variation(poisson), 1, 0.03);
  const constant = arrivals({ kind: 'constant', rate: 50 }, n, new Random(1));
  near(rate(constant), 50, 1e-9);
  const bursty = arrivals({ kind: 'bursty', rate: 50, burst: 4, share: 0.2, meanBurst: 500 }, n, new Random(1));
  near(rate(bursty), 50, 0.05);
  assert.ok(variation(bursty) > 1.5);
  const trace = arrivals({ kind: 'trace', gaps: [1, 2, 3], rate: 100 }, 6, new Random(1));
  assert.equal([...trace], [5, 15, 30, 35, 45, 60]);
  for (const t of [poisson, constant, bursty]) assert.ok(t.every((v, i) => i === 0 || v >= t[i - 1]!));
  assert.throws(() => arrivals({ kind: 'poisson', rate: 0 }, 1, new Random(1)));
  assert.throws(() => arrivals({ kind: 'bursty', rate: 1, burst: 6, share: 0.2, meanBurst: 1 }, 1, new Random(1)));
});

test('costs: linear between points, on beyond the last; the knee; interference', () => {
  const cost = table({ 1: 1, 4: 2.5, 8: 4.5 });
  assert.equal([1, 2, 4, 6, 8, 10].map(cost), [1, 1.5, 2.5, 3.5, 4.5, 5.5]);
  assert.is(knee(table({ 1: 1, 2: 1.1, 4: 1.2, 8: 2.4 }), 8), 4);
  assert.is(flat(0.2, 512)(512), 0.2);
  assert.is(flat(0.2, 512)(1024), 0.4);
  const calls = [{ type: 0, rows: 4, times: 3, useful: 12 }];
  assert.is(costOf({ steps: [cost], dispatch: 1, interference: [1, 2] }, calls, 5), 17);
});

test('percentiles are those of the sorted values', () => {
  const d = distribution(Array.from({ length: 100 }, (_, i) => 100 - i));
  assert.equal([d.p50, d.p90, d.p99, d.max, d.mean], [50, 90, 99, 100, 50.5]);
});

test('one server with constant service: the mean wait is Pollaczek and Khinchine’s', () => {
  for (const load of [0.3, 0.6, 0.8]) {
    const service = 10;
    const due = arrivals({ kind: 'poisson', rate: (1000 * load) / service }, 60_000, new Random(3));
    const policy = new OneByOne();
    const r = simulate({ policy, cost: { steps: [() => service] }, arrivals: due, item: () => chain(1) });
    near(r.queueing.mean, (service * load) / (2 * (1 - load)), 0.05, `load ${load}:`);
    near(r.computing.mean, service, 1e-6);
    near(r.utilisation, load, 0.02);
    assert.ok(r.stable);
  }
});

test('an overload shows as a backlog that grows by what is too much', () => {
  const due = arrivals({ kind: 'poisson', rate: 125 }, 20_000, new Random(3));
  const r = simulate({ policy: new OneByOne(), cost: { steps: [() => 10] }, arrivals: due, item: () => chain(1) });
  near(r.backlog.growth, 25, 0.1);
  near(r.throughput, 100, 0.01);
  assert.not.ok(r.stable);
});

test('padding and depth-wise batches by hand', () => {
  const items = chains([3, 5, 4]);
  assert.equal(padded(items), [{ type: 0, rows: 3, times: 5, useful: 12 }]);
  assert.equal(padded(items, 10), [{ type: 0, rows: 3, times: 10, useful: 12 }]);
  assert.equal(
    byDepth(items).map((c) => c.rows),
    [3, 3, 3, 2, 1],
  );
  const tree = trees([
    [4, 4, 5, 5, 6, 6, -1],
    [2, 2, -1],
  ]);
  assert.equal(
    byDepth(tree).map((c) => [c.type, c.rows]),
    [
      [0, 6],
      [1, 3],
      [1, 1],
    ],
  );
  assert.throws(
    () => padded([...tree, ...items]),
    (e: unknown) => e instanceof CellularError,
  );
  assert.equal(
    padded(
      pairs(
        [
          [2, 3],
          [4, 1],
        ],
        9,
      ),
    ).map((c) => [c.rows, c.times, c.useful]),
    [
      [2, 4, 6],
      [2, 3, 4],
    ],
  );
});

test('buckets take turns and pad to their edge', () => {
  const p = new Buckets(2, 10);
  [3, 15, 4, 5, 20].forEach((length, key) => void p.arrive(key, chain(length), 0));
  const work = [0, 1, 2].map((i) => p.next(i, 0)!);
  assert.equal(
    work.map((w) => w.keys),
    [[0, 2], [1, 4], [3]],
  );
  assert.equal(
    work.map((w) => w.calls[0]!.times),
    [10, 20, 10],
  );
  assert.is(p.next(3, 0), undefined);
  const ended: number[] = [];
  p.complete(1, 30, ended);
  assert.equal(ended, [1, 4]);
});

test('a timeout waits for a full batch, but not longer than it says', () => {
  const p = new Timeout(3, 20);
  assert.is(p.wakeAt(0), Number.POSITIVE_INFINITY);
  p.arrive(1, chain(1), 5);
  assert.is(p.next(0, 24), undefined);
  assert.is(p.wakeAt(24), 25);
  assert.equal(p.next(0, 25)!.keys, [1]);
  for (const key of [2, 3, 4]) p.arrive(key, chain(1), 30);
  assert.equal(p.next(1, 30)!.keys, [2, 3, 4]);
});

test('a timeout policy in the simulator wakes by itself', () => {
  const r = simulate({
    policy: new Timeout(8, 20),
    cost: { steps: [() => 1] },
    arrivals: [10, 100],
    item: () => chain(1),
    warmUp: 0,
  });
  assert.equal([r.latency.p50, r.latency.max], [21, 21]);
});

test('AIMD finds the batch size that keeps the SLO', () => {
  const p = new Aimd(64, 10);
  const due = arrivals({ kind: 'constant', rate: 5000 }, 5000, new Random(1));
  simulate({ policy: p, cost: { steps: [(rows) => rows] }, arrivals: due, item: () => chain(1) });
  assert.ok(p.limit >= 8 && p.limit <= 11, `${p.limit}`);
});

test('a full queue refuses', () => {
  const r = simulate({
    policy: new Padding(1, 2),
    cost: { steps: [() => 100] },
    arrivals: [0, 1, 2, 3, 4],
    item: () => chain(1),
    warmUp: 0,
  });
  assert.equal([r.requests.finished, r.requests.refused], [3, 2]);
});

test('tree bits: preorder, 1 has two children', () => {
  // ((a b) c): 1 1 0 0 0 → 0b11000 = c, 0
  const parents = treeFromBits(3, 'c0');
  assert.is(parents.length, 5);
  assert.is(parents[4], -1);
  const degree = (i: number): number => [...parents].filter((p) => p === i).length;
  assert.equal([0, 1, 2, 3, 4].map(degree), [0, 0, 0, 2, 2]);
  assert.is(parents[3], 4);
  assert.throws(() => treeFromBits(3, '8'));
  assert.throws(() => treeFromBits(3, 'zz'));
});

test('everything that arrives ends once, under every policy, and the same run gives the same report', () => {
  const cost = { steps: [table({ 1: 1, 8: 3 }), table({ 1: 1, 8: 3 })] };
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 1e6 }),
      fc.integer({ min: 1, max: 3 }),
      fc.boolean(),
      (seed, instances, tree) => {
        const random = new Random(seed);
        const items = tree
          ? trees(Array.from({ length: 10 }, () => randomTree(1 + random.below(12), random)))
          : pairs(
              Array.from({ length: 10 }, () => [1 + random.below(9), 1 + random.below(9)]),
              8,
            );
        const policies = [
          () => new CellularPolicy({ cells: [{ maxBatch: 4 }, { maxBatch: 3 }], instances, rows: 200 }),
          () =>
            new CellularPolicy({
              cells: [{ maxBatch: 4 }, { maxBatch: 3 }],
              instances,
              rows: 200,
              maxTasksToSubmit: 3,
            }),
          () => new OneByOne(),
          () => new DepthWise(4),
          ...(tree
            ? []
            : [() => new Padding(4), () => new Buckets(4, 3), () => new Timeout(4, 5), () => new Aimd(8, 20)]),
        ];
        for (const make of policies) {
          const once = (): ReturnType<typeof simulate> =>
            simulate({
              policy: make(),
              cost,
              arrivals: arrivals({ kind: 'poisson', rate: 60 }, 60, new Random(seed)),
              item: drawFrom(items, seed),
              instances,
            });
          const report = once();
          assert.is(report.requests.finished, 60, make().name);
          assert.equal(once(), report);
        }
      },
    ),
    { numRuns: 15 },
  );
});

test.run();
