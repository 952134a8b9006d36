// The queueing model, the chain and the simulation: each against theory it must reproduce, and against one another.
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { batchChain } from '../../src/optimizer/markov.js';
import { Profile } from '../../src/optimizer/profile.js';
import { capacity, queueSystem, runQueue } from '../../src/optimizer/queue.js';
import { arrivalTimes, exponential, gaps, random } from '../../src/optimizer/random.js';
import { batchedModel, serf, tail } from '../../src/optimizer/serf.js';
import { simulateQueue } from '../../src/optimizer/simulate.js';

const near = (actual: number, expected: number, relative: number, what = '') =>
  assert.ok(Math.abs(actual - expected) <= relative * Math.abs(expected), `${what} ${actual} is not near ${expected}`);

/** c instances with batch 1, S = 100 ms and 0.2 of it more a neighbour. */
const profile = Profile.from({
  latency: { 1: { 1: 100, 4: 160, 16: 400 } },
  interference: Object.fromEntries(Array.from({ length: 7 }, (_, i) => [i + 2, 1 + 0.1 * (i + 1)])),
});
const system = (instances: number, batch: number) => queueSystem(profile, [{ instances, threads: 1, batch }]);

test('M/D/1: the wait is ρ/(2(1−ρ)) services', () => {
  for (const rho of [0.1, 0.5, 0.9, 0.99]) {
    const { wait, service, utilisation } = serf(10 * rho, [100]);
    near(wait, (100 * rho) / (2 * (1 - rho)), 1e-12);
    near(service, 100, 1e-12);
    near(utilisation, rho, 1e-12);
    near(batchChain(10 * rho, Float64Array.of(0, 100))!.wait, wait, 1e-9, 'chain');
  }
});

test('M/M/c before the correction: probability of waiting is Erlang C', () => {
  // c = 2: C = 2ρ²/(1+ρ)
  for (const rho of [0.2, 0.7, 0.95]) near(serf(rho * 20, [100, 100]).allBusy, (2 * rho * rho) / (1 + rho), 1e-12);
});

test('numerically safe up to 1,024 instances and at any rate', () => {
  for (const c of [64, 512, 1024]) {
    const times = Float64Array.from({ length: c }, (_, i) => 100 * (1 + i / c));
    const most = (1000 * c) / times[c - 1];
    let before = 0;
    for (const u of [1e-300, 1e-9, 0.01, 0.3, 0.5, 0.9, 0.99, 0.999999]) {
      const { latency, service, wait } = serf(u * most, times);
      assert.ok(Number.isFinite(latency) && wait >= 0 && service >= 100 && service <= 200 * 1.0000001, `c=${c} u=${u}`);
      assert.ok(latency >= before * 0.9999999, `c=${c} u=${u}: ${latency} < ${before}`);
      before = latency;
    }
    assert.is(serf(most * 1.01, times).latency, Number.POSITIVE_INFINITY);
  }
});

test('S3: the model is within 3 % of simulation, batch 1', () => {
  for (const c of [1, 2, 4, 8]) {
    for (const u of [0.1, 0.3, 0.5, 0.7, 0.85]) {
      const rate = u * capacity(system(c, 1));
      const times = Array.from({ length: c }, (_, k) => 100 * profile.factor(k + 1, 1, 1));
      const { mean } = simulateQueue(system(c, 1), {
        arrivalRate: rate,
        requests: u < 0.6 ? 60_000 : 400_000,
        runs: 2,
        seed: 11,
      });
      near(serf(rate, times).latency, mean.value, 0.03, `c=${c} u=${u}:`);
    }
  }
});

test('S3: the chain is within 3 % of simulation, batch 4 and 16', () => {
  for (const b of [4, 16]) {
    for (const u of [0.1, 0.5, 0.85]) {
      const s = system(1, b);
      const rate = u * capacity(s);
      const { mean, rows, service } = simulateQueue(s, {
        arrivalRate: rate,
        requests: u < 0.6 ? 60_000 : 400_000,
        runs: 2,
        seed: 5,
      });
      const chain = batchChain(rate, s.groups[0].times)!;
      near(chain.latency, mean.value, 0.03, `b=${b} u=${u}:`);
      near(chain.rows, rows, 0.02, 'rows');
      near(chain.service, service, 0.02, 'service');
    }
  }
});

test('the quick estimate for batching instances ranks: within a third of simulation', () => {
  for (const [c, b] of [
    [1, 16],
    [2, 4],
    [4, 16],
  ]) {
    for (const u of [0.1, 0.5, 0.85]) {
      const s = system(c, b);
      const rate = u * capacity(s);
      const { mean } = simulateQueue(s, { arrivalRate: rate, requests: 60_000, seed: 3 });
      near(
        batchedModel((n) => profile.latency(1, n), b, s.factors)(rate).latency,
        mean.value,
        1 / 3,
        `c=${c} b=${b} u=${u}:`,
      );
    }
  }
});

test('the chain gives up where it would be slow, and is exact for saturation', () => {
  const times = Float64Array.from({ length: 1025 }, (_, n) => 10 + n);
  assert.is(batchChain(980, times), undefined);
  assert.is(batchChain(2000, times)!.stable, false);
  assert.ok(batchChain(1e-6, times.subarray(0, 9))!.latency - 11 < 1e-3);
});

test('S8: with bursty arrivals the Ca² correction is nearer than Poisson', () => {
  for (const ca2 of [0.25, 2, 4]) {
    const rate = 0.7 * capacity(system(2, 1));
    const times = [100, 110];
    const { mean } = simulateQueue(system(2, 1), { arrivalRate: rate, ca2, requests: 400_000, seed: 9 });
    const plain = Math.abs(serf(rate, times).latency - mean.value);
    const corrected = Math.abs(serf(rate, times, ca2).latency - mean.value);
    assert.ok(corrected < plain / 2, `ca2=${ca2}: ${corrected} against ${plain} ms off`);
  }
});

test('gaps have mean 1 and the variation asked for', () => {
  for (const ca2 of [0, 0.25, 1, 4]) {
    const gap = gaps(ca2, random(7));
    let sum = 0;
    let squares = 0;
    const n = 200_000;
    for (let i = 0; i < n; i++) {
      const g = gap();
      assert.ok(g >= 0);
      sum += g;
      squares += g * g;
    }
    near(sum / n, 1, 0.02);
    assert.ok(Math.abs(squares / n / (sum / n) ** 2 - 1 - ca2) < 0.05 + 0.05 * ca2, `ca2 ${ca2}`);
  }
});

test('a queue by hand: batches take what is ready and never wait to fill', () => {
  const s = queueSystem(Profile.from({ 1: { 1: 10, 2: 15 } }), [{ instances: 1, threads: 1, batch: 2 }]);
  const { latencies, batches, end } = runQueue(Float64Array.of(0, 1, 2, 3, 40), s);
  // 0 alone until 10; 1 and 2 until 25; 3 alone until 35; 40 alone until 50
  assert.equal([...latencies], [10, 24, 23, 32, 10]);
  assert.is(batches, 4);
  assert.is(end, 50);
});

test('interference slows a batch only while the neighbour runs', () => {
  const s = queueSystem(Profile.from({ latency: { 1: { 1: 10 } }, interference: { 2: 2 } }), [
    { instances: 2, threads: 1, batch: 1 },
  ]);
  // alone 0–5 (half done), together from 5 at half speed: first ends at 15, second has half left then, alone: 20
  assert.equal([...runQueue(Float64Array.of(0, 5), s).latencies], [15, 15]);
});

test('a change of configuration loses nothing and never uses more threads than there are', () => {
  const two = queueSystem(Profile.from({ 1: { 1: 10 }, 2: { 1: 6 } }), [{ instances: 2, threads: 1, batch: 1 }]);
  const one = queueSystem(Profile.from({ 1: { 1: 10 }, 2: { 1: 6 } }), [{ instances: 1, threads: 2, batch: 1 }]);
  const intervals: [number, number, number][] = [];
  const arrivals = arrivalTimes(2000, 120, gaps(1, random(3)));
  let turn = 0;
  const { latencies } = runQueue(arrivals, two, {
    served: ({ time, ms, threads }) => intervals.push([time - ms, time, threads]),
    tick: { every: 37, call: () => (turn++ % 2 === 0 ? one : two) },
  });
  assert.is(intervals.length, 2000);
  assert.ok(latencies.every((ms) => ms >= 6 - 1e-9));
  const events = intervals
    .flatMap(([a, b, t]) => [
      [a + 1e-9, t],
      [b - 1e-9, -t],
    ])
    .sort((x, y) => x[0] - y[0]);
  let used = 0;
  for (const [, t] of events) {
    used += t;
    assert.ok(used <= 2, `${used} threads at once`);
  }
});

test('every request is served, in order, whatever the system: property', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 5 }),
      fc.integer({ min: 1, max: 16 }),
      fc.array(fc.double({ min: 0, max: 200, noNaN: true }), { minLength: 1, maxLength: 60 }),
      (c, b, list) => {
        const arrivals = Float64Array.from(list).sort();
        let rows = 0;
        const { latencies } = runQueue(arrivals, system(c, b), { served: (batch) => (rows += batch.rows) });
        assert.is(rows, arrivals.length);
        assert.ok(latencies.every((ms) => ms >= 100 - 1e-6));
      },
    ),
    { numRuns: 200 },
  );
});

test('a simulation is the same every time, and its interval shrinks with more requests', () => {
  const options = { arrivalRate: 8, requests: 20_000, seed: 4 };
  assert.equal(simulateQueue(system(1, 1), options), simulateQueue(system(1, 1), options));
  const more = simulateQueue(system(1, 1), { ...options, requests: 400_000 });
  assert.ok(more.mean.plusMinus < simulateQueue(system(1, 1), options).mean.plusMinus);
  assert.ok(Math.abs(more.mean.value - serf(8, [100]).latency) < 2 * more.mean.plusMinus);
  assert.is(simulateQueue(system(1, 1), { arrivalRate: 10 }).stable, false);
});

test('the tail guess is no less than the service and grows with the load', () => {
  let before = 0;
  for (const rate of [0.1, 2, 5, 8, 9.5]) {
    const p99 = tail(serf(rate, [100]), 0.99);
    assert.ok(p99 >= 100 && p99 >= before);
    before = p99;
  }
  assert.ok(exponential(() => 0.5) > 0.69 && exponential(() => 0) === 0);
});

test.run();
