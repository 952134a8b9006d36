// The optimizer against brute force, its four improvements over the paper, and what must hold for any profile.
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { batchOf, type Configuration, instancesOf, threadsOf } from '../../src/optimizer/configuration.js';
import { OptimizerError } from '../../src/optimizer/errors.js';
import { makespan, type OptimizeOptions, optimize, verified } from '../../src/optimizer/packrat.js';
import { type LatencyTable, Profile, type ProfileInput } from '../../src/optimizer/profile.js';

/** Every multiset of (t, b) with Σt ≤ T and Σb = B, judged by its definition: slowest time × largest factor. */
function bruteForce(input: ProfileInput, { threads, batch, sizes }: OptimizeOptions): number[] | undefined {
  const profile = Profile.from(input);
  const items: { t: number; b: number; ms: number }[] = [];
  for (let t = 1; t <= threads; t++) {
    for (let b = 1; b <= batch; b++) {
      const ms = sizes === 'measured' ? profile.measured(t, b) : profile.latency(t, b);
      if (ms !== undefined && Number.isFinite(ms)) items.push({ t, b, ms });
    }
  }
  let best: number[] | undefined;
  const chosen: typeof items = [];
  const visit = (from: number, threadsLeft: number, rowsLeft: number): void => {
    if (rowsLeft === 0) {
      const factor = Math.max(1, ...chosen.map((i) => profile.factor(chosen.length, i.t, i.b)));
      const used = threads - threadsLeft;
      const value = [Math.max(...chosen.map((i) => i.ms)) * factor, chosen.length, used];
      const index = best === undefined ? -1 : value.findIndex((v, i) => v !== best![i]);
      if (best === undefined || (index >= 0 && value[index] < best[index])) best = value;
      return;
    }
    for (let i = from; i < items.length; i++) {
      if (items[i].t > threadsLeft || items[i].b > rowsLeft) continue;
      chosen.push(items[i]);
      visit(i, threadsLeft - items[i].t, rowsLeft - items[i].b);
      chosen.pop();
    }
  };
  visit(0, threads, batch);
  return best;
}

const score = (latency: number, configuration: Configuration) => [
  latency,
  instancesOf(configuration),
  threadsOf(configuration),
];

/** Random tables: not monotone in t nor b, with holes. Few distinct times, so that ties happen. */
const latencyTable = fc
  .dictionary(
    fc.constantFrom('1', '2', '3', '4', '5', '6'),
    fc.dictionary(fc.constantFrom('1', '2', '3', '4', '8', '12'), fc.integer({ min: 1, max: 40 }), { minKeys: 1 }),
    { minKeys: 1 },
  )
  .map((table) => table as LatencyTable);
const factors = fc.dictionary(fc.constantFrom('2', '3', '6'), fc.constantFrom(1, 1.1, 1.25, 1.5, 2), { minKeys: 1 });
const interference = fc.oneof(fc.constant(undefined), factors);
const perSize = fc.dictionary(
  fc.constantFrom('1', '3'),
  fc.dictionary(fc.constantFrom('1', '8'), factors, { minKeys: 1 }),
  {
    minKeys: 1,
  },
);

function same(profile: ProfileInput, options: OptimizeOptions): void {
  const expected = bruteForce(profile, options);
  if (expected === undefined) {
    assert.throws(
      () => optimize(profile, options),
      (e: unknown) => e instanceof OptimizerError && e.code === 'INFEASIBLE',
    );
    return;
  }
  const { latency, configuration } = optimize(profile, options);
  assert.equal(score(latency, configuration), expected);
}

for (const sizes of ['measured', 'any'] as const) {
  const shape = [
    latencyTable,
    fc.integer({ min: 1, max: 6 }),
    fc.integer({ min: 1, max: sizes === 'any' ? 7 : 12 }),
  ] as const;

  test(`${sizes}: equals brute force, ties included`, () => {
    fc.assert(
      fc.property(...shape, (latency, threads, batch) => same(latency, { threads, batch, sizes })),
      { numRuns: 120 },
    );
  });

  test(`${sizes}: equals brute force with interference by the number of instances`, () => {
    fc.assert(
      fc.property(...shape, interference, (latency, threads, batch, s) => {
        same({ latency, ...(s ? { interference: s } : {}) }, { threads, batch, sizes });
      }),
      { numRuns: 120 },
    );
  });

  test(`${sizes}: what must hold for every profile`, () => {
    fc.assert(
      fc.property(...shape, fc.oneof(interference, perSize), (latency, threads, batch, s) => {
        const profile = { latency, ...(s ? { interference: s } : {}) };
        let before = Number.POSITIVE_INFINITY;
        for (let t = 1; t <= threads; t++) {
          let result: ReturnType<typeof optimize>;
          try {
            result = optimize(profile, { threads: t, batch, sizes });
          } catch (error) {
            assert.ok(error instanceof OptimizerError && error.code === 'INFEASIBLE');
            assert.is(before, Number.POSITIVE_INFINITY, 'more threads made it infeasible');
            continue;
          }
          assert.ok(threadsOf(result.configuration) <= t);
          assert.is(batchOf(result.configuration), batch);
          assert.ok(result.latency <= before, 'more threads made it slower');
          if (result.fat) assert.ok(result.latency <= result.fat.latency, 'worse than fat');
          for (const c of result.candidates) {
            assert.ok(threadsOf(c.configuration) <= t && batchOf(c.configuration) === batch);
            assert.ok(c.latency >= result.latency);
          }
          assert.ok(result.reasons.length > 0);
          before = result.latency;
        }
      }),
      { numRuns: 120 },
    );
  });
}

test('measured: equals brute force with a factor of its own for every (t, b)', () => {
  fc.assert(
    fc.property(
      latencyTable,
      fc.integer({ min: 1, max: 6 }),
      fc.integer({ min: 1, max: 12 }),
      perSize,
      (latency, threads, batch, s) =>
        same({ latency, interference: s } as unknown as ProfileInput, { threads, batch, sizes: 'measured' }),
    ),
    { numRuns: 120 },
  );
});

test('any size is never worse than measured sizes on a monotone profile', () => {
  fc.assert(
    fc.property(
      latencyTable,
      fc.integer({ min: 1, max: 6 }),
      fc.integer({ min: 1, max: 12 }),
      (table, threads, batch) => {
        const monotone: { [t: number]: { [b: number]: number } } = {};
        for (const t of Profile.from(table).threads) {
          monotone[t] = {};
          for (const b of Profile.from(table).sizes(t)) monotone[t][b] = Profile.from(table).latency(t, b);
        }
        let measured: number;
        try {
          measured = optimize(monotone, { threads, batch, sizes: 'measured' }).latency;
        } catch {
          return;
        }
        assert.ok(optimize(monotone, { threads, batch, sizes: 'any' }).latency <= measured);
      },
    ),
  );
});

test('a machine of 1,024 threads, with interference, is no different', () => {
  const latency: { [t: number]: { [b: number]: number } } = {};
  for (let t = 1; t <= 1024; t *= 2) latency[t] = { 1: 100 / t ** 0.9, 64: 2000 / t ** 0.9, 1024: 30_000 / t ** 0.9 };
  const profile = { latency, interference: { 2: 1.01, 64: 1.2, 1024: 2 } };
  const result = optimize(profile, { threads: 1024, batch: 5000 });
  assert.is(batchOf(result.configuration), 5000);
  assert.ok(threadsOf(result.configuration) <= 1024);
  assert.is(result.latency, makespan(profile, result.configuration).latency);
});

test('threads may idle', () => {
  const { configuration, reasons } = optimize({ 12: { 1: 15.87 }, 16: { 1: 17.31 } }, { threads: 16, batch: 1 });
  assert.equal(configuration, [{ instances: 1, threads: 12, batch: 1 }]);
  assert.match(reasons.join('\n'), /4 of 16 threads idle/);
});

test('a candidate is judged with the interference of its number of instances', () => {
  const latency = { 8: { 4: 40 }, 16: { 8: 45 } };
  const split = optimize({ latency }, { threads: 16, batch: 8 });
  assert.is(instancesOf(split.configuration), 2);
  const fat = optimize({ latency, interference: { 2: 1.3 } }, { threads: 16, batch: 8 });
  assert.equal(fat.configuration, [{ instances: 1, threads: 16, batch: 8 }]);
  assert.equal(makespan({ latency, interference: { 2: 1.3 } }, split.configuration).latency, 52);
});

test('after a run the fat instance wins unless one really beats it', () => {
  const result = optimize({ 8: { 4: 40 }, 16: { 8: 45 } }, { threads: 16, batch: 8 });
  const fat = result.candidates.findIndex((c) => instancesOf(c.configuration) === 1);
  const split = result.candidates.findIndex((c) => instancesOf(c.configuration) === 2);
  const run = (fatMs: number, splitMs: number, margin?: number) => {
    const measured = result.candidates.map((_, i) => (i === fat ? fatMs : i === split ? splitMs : undefined));
    return instancesOf(verified(result, measured, margin).configuration);
  };
  assert.is(run(45, 41), 2);
  assert.is(run(45, 47), 1);
  assert.is(run(45, 45), 1);
  assert.is(run(45, 44, 0.05), 1);
  assert.throws(() => verified(result, []), /no candidate was measured/);
});

test('any batch, with pieces of any size', () => {
  const { configuration, latency } = optimize({ 1: { 1: 10, 2: 20, 4: 40 } }, { threads: 4, batch: 7, sizes: 'any' });
  assert.equal(configuration, [
    { instances: 3, threads: 1, batch: 2 },
    { instances: 1, threads: 1, batch: 1 },
  ]);
  assert.is(latency, 20);
});

test('a question without an answer says what there is', () => {
  const wrong = (options: unknown, message: RegExp, code = 'INVALID_ARGUMENT') =>
    assert.throws(
      () => optimize({ 1: { 1: 1 }, 2: { 4: 2 } }, options as OptimizeOptions),
      (e: unknown) => e instanceof OptimizerError && e.code === code && message.test(e.message),
    );
  wrong({ threads: 1, batch: 3 }, /batch of 3: the profile has threads 1, 2 and batches up to 4/, 'INFEASIBLE');
  wrong({ threads: 0, batch: 1 }, /^threads: expected an integer from 1 to 1024, got 0/);
  wrong({ threads: 1, batch: 1.5 }, /^batch: expected an integer/);
  wrong({ threads: 1, batch: 1, sizes: 'all' }, /^sizes: expected 'measured' or 'any', got "all"/);
  assert.throws(
    () => optimize({ cells: { a: { latency: { 1: { 1: 1 } } } } } as unknown as ProfileInput, { threads: 1, batch: 1 }),
    /only cell types: a/,
  );
});

test.run();
