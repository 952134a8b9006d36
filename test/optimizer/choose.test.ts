// What is predicted and what is chosen for a load: every objective checked by simulating it.
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type ChooseOptions, choose } from '../../src/optimizer/choose.js';
import { type Configuration, keyOf, threadsOf } from '../../src/optimizer/configuration.js';
import { crossings } from '../../src/optimizer/crossings.js';
import { OptimizerError } from '../../src/optimizer/errors.js';
import { everyConfiguration, type PredictOptions, predict, screen } from '../../src/optimizer/predict.js';
import { type LatencyTable, Profile } from '../../src/optimizer/profile.js';
import { queueSystem } from '../../src/optimizer/queue.js';
import { simulateQueue } from '../../src/optimizer/simulate.js';

/** A model that speeds up well with threads (95 % parallel) and gains from batching; instances interfere a little. */
const parallel = 0.95;
const latency: { [t: number]: { [b: number]: number } } = {};
for (let t = 1; t <= 8; t++) {
  latency[t] = {};
  for (const b of [1, 4, 16]) latency[t][b] = (20 + 80 * b ** 0.9) * (1 - parallel + parallel / t);
}
const profile = Profile.from({ latency, interference: { 2: 1.02, 4: 1.06, 8: 1.15 } });
const simulate = (configuration: Configuration, arrivalRate: number, requests = 40_000, seed = 77) =>
  simulateQueue(queueSystem(profile, configuration), { arrivalRate, requests, seed });

test('a prediction is finite exactly when the configuration keeps up: property', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 4 }),
      fc.integer({ min: 1, max: 8 }),
      fc.constantFrom(1, 3, 16),
      fc.double({ min: 0.05, max: 2, noNaN: true }),
      fc.constantFrom(0.5, 1, 3),
      (instances, threads, batch, load, ca2) => {
        const configuration = [{ instances, threads, batch }];
        const { capacity } = predict(profile, { configuration, arrivalRate: 1e-3, tails: false });
        const p = predict(profile, { configuration, arrivalRate: load * capacity, ca2, requests: 2000, runs: 1 });
        assert.is(p.stable, load < 1);
        for (const ms of [p.latency, p.wait, p.service, p.p50!.value, p.p99!.value])
          assert.is(Number.isFinite(ms), p.stable);
        if (p.stable) assert.ok(Math.abs(p.wait + p.service - p.latency) < 1e-6 * p.latency);
        const quick = screen(profile, instances, threads, batch)!;
        assert.is(quick.estimate(load * capacity).stable, load < 1);
        assert.ok(Math.abs(quick.capacity / capacity - 1) < 1e-9);
      },
    ),
    { numRuns: 40 },
  );
});

test('each way to predict agrees with simulation', () => {
  for (const [configuration, method] of [
    [[{ instances: 4, threads: 2, batch: 1 }], 'model'],
    [[{ instances: 1, threads: 8, batch: 16 }], 'chain'],
    [[{ instances: 2, threads: 4, batch: 16 }], 'simulation'],
    [
      [
        { instances: 1, threads: 4, batch: 4 },
        { instances: 2, threads: 2, batch: 1 },
      ],
      'simulation',
    ],
  ] as const) {
    const { capacity } = predict(profile, { configuration, arrivalRate: 1, tails: false });
    const p = predict(profile, { configuration, arrivalRate: 0.7 * capacity, tails: false });
    assert.is(p.method, method);
    const { mean } = simulate(configuration, 0.7 * capacity, 200_000);
    assert.ok(Math.abs(p.latency / mean.value - 1) < 0.03, `${method}: ${p.latency} against ${mean.value}`);
  }
});

test('S4: low load picks threads, high load picks instances', () => {
  const options = { threads: 8, batches: [1] };
  const low = choose(profile, { ...options, arrivalRate: 1 });
  const high = choose(profile, { ...options, arrivalRate: 67 });
  assert.is(low.configuration[0].instances, 1);
  assert.ok(high.configuration[0].instances >= 4, keyOf(high.configuration));
});

for (const [batches, threads, loads, requests] of [
  [[1], 8, 12, 8_000],
  [[1, 4, 16], 4, 10, 6_000],
] as const) {
  test(`S4: the pick is within 5 % of the best at 90 % of loads, batches ${batches}`, () => {
    const all = everyConfiguration(profile, { threads, batches });
    const most = Math.max(...all.map((s) => s.capacity));
    let good = 0;
    for (let i = 0; i < loads; i++) {
      const arrivalRate = (0.95 * most * (i + 0.5)) / loads;
      const means = new Map(
        all.map((s) => [keyOf(s.configuration), simulate(s.configuration, arrivalRate, requests).mean.value]),
      );
      const pick = choose(profile, { threads, batches, arrivalRate, requests: 10_000 }).configuration;
      if (means.get(keyOf(pick))! <= 1.05 * Math.min(...means.values())) good++;
    }
    assert.ok(good >= 0.9 * loads, `${good} of ${loads}`);
  });
}

test('S7: least p99', () => {
  const arrivalRate = 40;
  const pick = choose(profile, { threads: 4, arrivalRate: 25, objective: 'p99', requests: 40_000 });
  const best = Math.min(
    ...everyConfiguration(profile, { threads: 4 }).map((s) => simulate(s.configuration, 25, 20_000).p99.value),
  );
  assert.ok(simulate(pick.configuration, 25).p99.value <= 1.05 * best);
  assert.ok(pick.prediction.p99!.value > pick.prediction.latency);
  assert.ok(choose(profile, { threads: 4, arrivalRate, objective: 'p99' }).candidates.length > 1);
});

test('S7: the fewest threads that keep an SLO', () => {
  const slo = { p99: 200 };
  const pick = choose(profile, { threads: 8, arrivalRate: 20, objective: 'threads', slo, requests: 40_000 });
  assert.ok(pick.withinSlo);
  assert.is(pick.value, threadsOf(pick.configuration));
  assert.ok(simulate(pick.configuration, 20, 100_000).p99.value <= 200 * 1.03);
  for (const s of everyConfiguration(profile, { threads: pick.value - 1 })) {
    assert.ok(simulate(s.configuration, 20, 20_000).p99.value > 200 * 0.97, `${keyOf(s.configuration)} would do`);
  }
});

test('S7: the most throughput within an SLO', () => {
  const slo = { p99: 300 };
  const pick = choose(profile, { threads: 4, objective: 'throughput', slo, requests: 20_000 });
  assert.ok(pick.withinSlo);
  assert.ok(simulate(pick.configuration, pick.value, 60_000).p99.value <= 300 * 1.05);
  for (const s of everyConfiguration(profile, { threads: 4 })) {
    const { p99 } = simulate(s.configuration, pick.value * 1.1, 20_000);
    assert.ok(p99.value > 300 * 0.97, `${keyOf(s.configuration)} does 10 % more`);
  }
});

test('S7: a tail that batching makes longer: instances without it are among the candidates', () => {
  const latency: { [t: number]: { [b: number]: number } } = {};
  for (let t = 1; t <= 4; t++) {
    latency[t] = {};
    for (const b of [1, 4, 16]) latency[t][b] = (20 + 80 * b) * (0.2 + 0.8 / t);
  }
  const table = { latency, interference: { 2: 1.02, 4: 1.06 } };
  const pick = choose(table, { threads: 4, objective: 'throughput', slo: { p99: 300 }, requests: 20_000 });
  assert.equal(pick.configuration, [{ instances: 4, threads: 1, batch: 1 }]);
});

test('when nothing keeps up, or nothing keeps the SLO, it says so and takes the nearest', () => {
  const over = choose(profile, { threads: 2, arrivalRate: 1e6 });
  assert.is(over.prediction.stable, false);
  assert.match(over.reasons[0], /^overload: nothing keeps up with 1000000 requests\/s/);
  const strict = choose(profile, { threads: 2, arrivalRate: 1, objective: 'threads', slo: { mean: 0.1 } });
  assert.is(strict.withinSlo, false);
  assert.match(strict.reasons.join('\n'), /nothing found keeps mean ≤ 0.1 ms/);
  const never = choose(profile, { threads: 2, objective: 'throughput', slo: { mean: 0.1 }, requests: 1000 });
  assert.is(never.withinSlo, false);
});

test('crossings: where two instances overtake two threads', () => {
  const table: LatencyTable = { 1: { 1: 100 }, 2: { 1: 60 } };
  const threads = [{ instances: 1, threads: 2, batch: 1 }];
  const instances = [{ instances: 2, threads: 1, batch: 1 }];
  const found = crossings(table, { configurations: [threads, instances], from: 0.1, to: 16 });
  assert.is(found.length, 1);
  assert.equal([found[0].below, found[0].above], [threads, instances]);
  const gap = (rate: number) => {
    const [a, b] = [threads, instances].map(
      (configuration) =>
        simulateQueue(queueSystem(Profile.from(table), configuration), { arrivalRate: rate, requests: 200_000 }).mean
          .value,
    );
    return a - b;
  };
  assert.ok(gap(found[0].arrivalRate * 0.9) < 0 && gap(found[0].arrivalRate * 1.1) > 0);
  // Perfect speed-up: two threads are never worse, and there is no crossing.
  assert.equal(
    crossings({ 1: { 1: 100 }, 2: { 1: 50 } }, { configurations: [threads, instances], from: 0.1, to: 19.9 }),
    [],
  );
});

test('bad questions are refused', () => {
  const wrong = (f: () => unknown, message: RegExp) =>
    assert.throws(
      f,
      (e: unknown) => e instanceof OptimizerError && e.code === 'INVALID_ARGUMENT' && message.test(e.message),
    );
  const one = [{ instances: 1, threads: 1, batch: 1 }];
  wrong(() => choose(profile, { threads: 2 }), /^arrivalRate: expected a number/);
  wrong(
    () => choose(profile, { threads: 2, arrivalRate: 1, objective: 'best' } as unknown as ChooseOptions),
    /^objective: expected 'mean'/,
  );
  wrong(() => choose(profile, { threads: 2, arrivalRate: 1, objective: 'threads' }), /needs slo/);
  wrong(() => predict(profile, { configuration: one, arrivalRate: Number.NaN }), /^arrivalRate/);
  wrong(() => predict(profile, { configuration: one, arrivalRate: 1, ca2: -1 }), /^ca2/);
  wrong(() => predict(profile, { configuration: [], arrivalRate: 1 }), /^configuration: expected 1 to 1024 groups/);
  wrong(
    () => predict(profile, { configuration: [{ instances: 1, threads: 9, batch: 1 }], arrivalRate: 1 }),
    /9 threads, batch 1 is not in the profile/,
  );
  wrong(
    () =>
      predict(profile, { configuration: [{ instances: 1, threads: 1 }], arrivalRate: 1 } as unknown as PredictOptions),
    /configuration\[0\]\.batch/,
  );
});

test.run();
