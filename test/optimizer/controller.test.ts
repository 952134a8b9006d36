// The controller: its estimates, its thresholds, and a whole load change in virtual time.
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type Configuration, keyOf, threadsOf } from '../../src/optimizer/configuration.js';
import { Controller, type ControllerOptions } from '../../src/optimizer/controller.js';
import { ProfileCorrection } from '../../src/optimizer/correction.js';
import { OptimizerError } from '../../src/optimizer/errors.js';
import { BatchEstimator } from '../../src/optimizer/estimator.js';
import { LoadEstimator } from '../../src/optimizer/load.js';
import { everyConfiguration } from '../../src/optimizer/predict.js';
import { Profile } from '../../src/optimizer/profile.js';
import { queueSystem, runQueue } from '../../src/optimizer/queue.js';
import { exponential, gaps, type Random, random } from '../../src/optimizer/random.js';

/** 80 % parallel: threads shorten one request, instances do more requests. */
const latency: { [t: number]: { [b: number]: number } } = {};
for (let t = 1; t <= 8; t++) {
  latency[t] = {};
  for (const b of [1, 4, 16]) latency[t][b] = (20 + 80 * b) * (0.2 + 0.8 / t);
}
const profile = Profile.from({ latency, interference: { 2: 1.02, 4: 1.06, 8: 1.15 } });
const fat: Configuration = [{ instances: 1, threads: 8, batch: 1 }];

// P8: Packrat's batch estimate.

/** Feeds one timeout after another; the estimates after each. */
function timeouts(estimator: BatchEstimator, count: number, queue: () => number): number[] {
  return Array.from({ length: count }, () => {
    for (let i = 0; i < 200; i++) estimator.sample(queue());
    return estimator.estimate;
  });
}

const switches = (estimates: readonly number[]) => estimates.filter((e, i) => i > 0 && e !== estimates[i - 1]).length;

function poisson(mean: number, uniform: Random): number {
  let n = 0;
  for (let sum = exponential(uniform); sum < mean; sum += exponential(uniform)) n++;
  return n;
}

test('P8: a constant queue of 16 reaches 16 and stays', () => {
  const estimates = timeouts(new BatchEstimator({ initial: 8 }), 50, () => 16);
  assert.is(estimates.at(-1), 16);
  assert.is(switches([8, ...estimates]), 1);
});

test('P8: 8, 16, 32, 16, 8 of 20 timeouts each make exactly four switches', () => {
  const estimator = new BatchEstimator({ initial: 8 });
  const levels = [8, 16, 32, 16, 8];
  const estimates = levels.flatMap((level) => timeouts(estimator, 20, () => level));
  assert.is(switches([8, ...estimates]), 4);
  assert.equal(
    estimates.filter((_, i) => i % 20 === 19),
    levels,
  );
});

test('P8: Poisson around 16 makes at most one switch in 100 timeouts once settled', () => {
  for (let seed = 1; seed <= 20; seed++) {
    const uniform = random(seed);
    const estimator = new BatchEstimator({ initial: 8 });
    timeouts(estimator, 20, () => poisson(16, uniform));
    const settled = timeouts(estimator, 100, () => poisson(16, uniform));
    assert.ok(switches(settled) <= 1, `seed ${seed}: ${switches(settled)}`);
    assert.is(settled.at(-1), 16);
  }
});

test('the batch estimate is a power of two within its bounds, whatever comes', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 100_000 }), { maxLength: 400 }), (queue) => {
      const estimator = new BatchEstimator({ samples: 5, largest: 64 });
      for (const q of queue) estimator.sample(q);
      assert.ok(estimator.estimate >= 1 && estimator.estimate <= 64 && Number.isInteger(Math.log2(estimator.estimate)));
    }),
  );
  assert.throws(() => new BatchEstimator().sample(-1), /^queue: expected a number from 0/);
});

// Load.

function feed(load: LoadEstimator, rate: number, ca2: number, from: number, to: number, seed = 1): void {
  const gap = gaps(ca2, random(seed));
  for (let now = from + (1000 / rate) * gap(); now < to; now += (1000 / rate) * gap()) load.arrived(now);
}

test('the rate is right from the start, follows a change, and falls when nothing comes', () => {
  const load = new LoadEstimator(3000);
  assert.is(load.rate(0), 0);
  feed(load, 100, 0, 0, 1000);
  assert.ok(Math.abs(load.rate(1000) - 100) < 3, `${load.rate(1000)}`);
  feed(load, 400, 0, 1000, 13_000);
  assert.ok(Math.abs(load.rate(13_000) - 400) < 15, `${load.rate(13_000)}`);
  assert.ok(load.rate(16_000) < 200, `${load.rate(16_000)}`);
});

test('Ca² tells constant, Poisson and bursty arrivals apart, also while the rate changes', () => {
  for (const [ca2, low, high] of [
    [0, 0, 0.1],
    [1, 0.7, 1.4],
    [4, 2.2, 7],
  ] as const) {
    const load = new LoadEstimator(3000);
    feed(load, 200, ca2, 0, 20_000);
    assert.ok(load.ca2 >= low && load.ca2 <= high, `${ca2}: ${load.ca2}`);
  }
  const load = new LoadEstimator(3000);
  feed(load, 50, 1, 0, 20_000);
  feed(load, 200, 1, 20_000, 30_000);
  assert.ok(load.ca2 < 2, `${load.ca2}`);
});

// Corrections.

test('S[k] is corrected by what live batches measure; a slower machine is told apart and reported', () => {
  const correction = new ProfileCorrection(profile);
  for (let i = 0; i < 100; i++) correction.observe(2, 1, profile.latency(2, 1) * profile.factor(4, 2, 1) * 1.5, 4);
  assert.ok(correction.update());
  assert.ok(Math.abs(correction.profile.factor(4, 2, 1) - 1.06 * 1.5) < 1e-9);
  assert.is(correction.profile.factor(2, 2, 1), 1.02);
  assert.ok(correction.profile.factor(8, 2, 1) >= 1.5, 'what holds for 4 holds for more');
  assert.is(correction.profile.latency(2, 1), profile.latency(2, 1));
  assert.not(correction.update());
  for (let i = 0; i < 200; i++) {
    correction.observe(2, 1, profile.latency(2, 1) * 1.5, 1);
  }
  correction.update();
  assert.ok(Math.abs(correction.profile.latency(2, 1) / profile.latency(2, 1) - 1.5) < 0.01);
  assert.ok(Math.abs(correction.profile.factor(4, 2, 1) - 1.06) < 0.01, 'no interference beyond the profiled');
  assert.equal(
    correction.drift().map((d) => d.busy),
    [1, 4],
  );
});

test('noise corrects nothing, and nonsense is ignored', () => {
  const correction = new ProfileCorrection(profile);
  const uniform = random(3);
  for (let i = 0; i < 1000; i++) correction.observe(2, 1, profile.latency(2, 1) * (0.9 + 0.2 * uniform()), 1);
  for (const ms of [0, -1, Number.NaN, Number.POSITIVE_INFINITY]) correction.observe(2, 1, ms, 1);
  correction.observe(99, 1, 5, 1);
  correction.observe(2, 1, 5, 1.5);
  correction.observe(2, 1, 1e9, 1); // one stalled batch
  assert.not(correction.update());
  assert.is(correction.profile, profile);
});

// Decisions.

/** A controller that has seen a steady load; `at` is the time. */
function under(rate: number, options: Partial<ControllerOptions> = {}): { controller: Controller; at: number } {
  const controller = new Controller({ profile, threads: 8, batches: [1], configuration: fat, hold: 0, ...options });
  const gap = gaps(1, random(5));
  for (let now = 0; now < 20_000; now += (1000 / rate) * gap()) controller.arrived(now);
  return { controller, at: 20_000 };
}

test('keeps what is best, switches for a gain, and says why', () => {
  const low = under(4);
  assert.match(low.controller.decide(low.at).reason, /^already the best at .* mean 3[12]/);
  const high = under(45);
  const decision = high.controller.decide(high.at);
  assert.is(decision.action, 'switch');
  assert.ok(decision.configuration[0].instances > 1);
  assert.match(decision.reason, /instead of 1 × 8 threads, batch 1 .* overloaded/);
  assert.is(high.controller.decide(high.at).action, 'keep');
  assert.is(new Controller({ profile, threads: 8 }).decide(0).reason, 'no arrivals yet');
});

test('a gain below the threshold is no reason to switch; one above it is', () => {
  const two: Configuration = [{ instances: 2, threads: 4, batch: 1 }];
  for (const [gain, action] of [
    [0.9, 'keep'],
    [0.05, 'switch'],
  ] as const) {
    const { controller, at } = under(4, { configuration: two, gain });
    const decision = controller.decide(at);
    assert.is(decision.action, action, decision.reason);
    if (action === 'keep') assert.match(decision.reason, /gains \d+ %, less than 90 %/);
    assert.ok(decision.gain > 0.05);
  }
});

test('after a switch the hold time passes before the next, except in overload', () => {
  const { controller, at } = under(45, { hold: 10_000 });
  assert.is(controller.decide(at).action, 'switch');
  for (let i = 1; i <= 20; i++) controller.arrived(at + 3000 + i * 250); // the load falls to 4 a second
  assert.match(controller.decide(at + 8000).reason, /but the last switch was 8.0 s ago/);
  for (let i = 1; i <= 12; i++) controller.arrived(at + 8000 + i * 250);
  assert.is(controller.decide(at + 11_000).action, 'switch');
  for (let i = 1; i <= 200; i++) controller.arrived(at + 11_000 + i * 20); // and rises to 50: at once
  assert.is(controller.decide(at + 15_000).action, 'switch');
  assert.is(controller.switches, 3);
});

test('the fewest threads within an SLO, and the other objectives', () => {
  const few = under(5, { objective: 'threads', slo: { mean: 100 } });
  const decision = few.controller.decide(few.at);
  assert.is(decision.action, 'switch');
  assert.ok(threadsOf(decision.configuration) < 8 && decision.prediction!.latency <= 100);
  const p99 = under(45, { objective: 'p99' });
  assert.ok(p99.controller.decide(p99.at).configuration[0].instances > 1);
  const most = under(4, { objective: 'throughput', slo: { mean: 200 }, requests: 5000 });
  assert.ok(most.controller.decide(most.at).prediction!.capacity > 60);
});

test('makespan: the estimated batch decides, with the same threshold', () => {
  const controller = new Controller({ profile, threads: 8, objective: 'makespan', hold: 0 });
  for (let i = 0; i < 3000; i++) controller.sampled(8);
  const decision = controller.decide(0);
  assert.is(decision.batch, 8);
  assert.is(decision.action, 'switch');
  assert.ok(decision.configuration[0].instances > 1);
  assert.match(controller.decide(1).reason, /already the best for a batch of 8/);
  const stubborn = new Controller({ profile, threads: 8, objective: 'makespan', gain: 0.99 });
  for (let i = 0; i < 3000; i++) stubborn.sampled(8);
  assert.match(stubborn.decide(0).reason, /less than 99 %/);
});

test('live interference changes the decision', () => {
  const { controller, at } = under(28); // fat does 33 a second
  const first = controller.decide(at).configuration;
  assert.ok(first[0].instances > 1);
  for (let i = 0; i < 500; i++) {
    for (const busy of [2, 3, 4, 6, 8]) {
      const { threads } = first[0];
      controller.served({ threads, rows: 1, ms: 4 * profile.latency(threads, 1), busy });
    }
  }
  const second = controller.decide(at);
  assert.is(keyOf(second.configuration), '1,8,1');
  assert.ok(second.drift.length > 0);
});

test('admission refuses what cannot be in time, and nothing an idle instance could do', () => {
  const { controller } = under(4, { configuration: [{ instances: 2, threads: 4, batch: 1 }] });
  const service = profile.latency(4, 1) * 1.02;
  assert.ok(controller.admit(service, 0, 1).admit);
  const late = controller.admit(service * 2, 10, 2);
  assert.not(late.admit);
  assert.match(late.reason, /^cannot be in time: .* expected .* deadline in/);
  let before = 0;
  for (let queued = 0; queued < 20; queued++) {
    const { expected } = controller.admit(1e9, queued, 2);
    assert.ok(expected > before);
    before = expected;
  }
});

test('bad options are refused at once', () => {
  const wrong = (options: unknown, message: RegExp) =>
    assert.throws(
      () => new Controller({ profile, threads: 8, ...(options as object) }),
      (e: unknown) => e instanceof OptimizerError && message.test(e.message),
    );
  wrong({ threads: 0 }, /^threads/);
  wrong({ gain: 2 }, /^gain/);
  wrong({ objective: 'fast' }, /^objective/);
  wrong({ objective: 'threads' }, /needs slo/);
  wrong({ configuration: [{ instances: 1, threads: 77, batch: 1 }] }, /77 threads, batch 1 is not in the profile/);
});

test('whatever is observed, a decision fits the machine and says why: property', () => {
  const event = fc.record({
    wait: fc.double({ min: 0, max: 3000, noNaN: true }),
    count: fc.integer({ min: 1, max: 300 }),
    queued: fc.integer({ min: 0, max: 10_000 }),
    slow: fc.double({ min: 0, max: 50, noNaN: true }),
    busy: fc.double({ min: 0, max: 9, noNaN: true }),
  });
  fc.assert(
    fc.property(
      fc.array(event, { maxLength: 40 }),
      fc.constantFrom('mean', 'makespan', 'threads'),
      (events, objective) => {
        const controller = new Controller({
          profile,
          threads: 6,
          batches: [1],
          objective,
          slo: { mean: 150 },
          requests: 1000,
        });
        let now = 0;
        let last = Number.NEGATIVE_INFINITY;
        for (const { wait, count, queued, slow, busy } of events) {
          now += wait;
          controller.arrived(now, count);
          controller.sampled(queued);
          for (let i = 0; i < 40; i++) controller.served({ threads: 2, rows: 1, ms: slow * 60, busy });
          const before = keyOf(controller.configuration);
          const { action, configuration, reason, arrivalRate, ca2 } = controller.decide(now, queued);
          assert.ok(threadsOf(configuration) <= 6);
          assert.is(keyOf(controller.configuration), keyOf(configuration));
          assert.is(action === 'switch', before !== keyOf(configuration));
          assert.ok(reason.length > 0 && Number.isFinite(arrivalRate) && Number.isFinite(ca2));
          if (action === 'switch') {
            if (!reason.includes('overloaded')) assert.ok(now - last >= 5000, `${reason} after ${now - last} ms`);
            last = now;
          }
        }
      },
    ),
    { numRuns: 60 },
  );
});

// S5: a load that goes low, high, low.

test('S5: better than every static configuration, near the oracle, four switches at most', () => {
  const phases = [
    { rate: 6, ms: 120_000 },
    { rate: 48, ms: 120_000 },
    { rate: 6, ms: 120_000 },
  ];
  for (const seed of [1, 2, 3]) {
    const uniform = random(seed);
    const times: number[] = [];
    let start = 0;
    for (const { rate, ms } of phases) {
      for (
        let now = start + (1000 / rate) * exponential(uniform);
        now < start + ms;
        now += (1000 / rate) * exponential(uniform)
      ) {
        times.push(now);
      }
      start += ms;
    }
    const arrivals = Float64Array.from(times);
    const mean = (latencies: Float64Array) => latencies.reduce((sum, ms) => sum + ms, 0) / latencies.length;
    const system = (configuration: Configuration) => queueSystem(profile, configuration);

    const all = everyConfiguration(profile, { threads: 8, batches: [1] }).map((s) => s.configuration);
    const statics = all.map((configuration) => mean(runQueue(arrivals, system(configuration)).latencies));

    // The oracle knows when the load changes, and the best pair of configurations in hindsight.
    const best = (from: number, to: number) => {
      const means = all.map((c) =>
        mean(
          runQueue(
            arrivals.filter((t) => t >= from && t < to),
            system(c),
          ).latencies,
        ),
      );
      return all[means.indexOf(Math.min(...means))];
    };
    const plan = [best(0, 120_000), best(120_000, 240_000), best(240_000, 360_000)];
    let phase = 0;
    const oracle = runQueue(arrivals, system(plan[0]), {
      tick: { every: 120_000, call: () => (++phase < 3 ? system(plan[phase]) : undefined) },
    });

    const controller = new Controller({ profile, threads: 8, batches: [1], configuration: fat });
    let queue = 0;
    const adaptive = runQueue(arrivals, system(fat), {
      arrived: (time) => controller.arrived(time),
      served: (batch) => controller.served(batch),
      tick: {
        every: 250,
        call: (time, queued) => {
          queue = Math.max(queue, queued);
          const decision = controller.decide(time, queued);
          return decision.action === 'switch' ? system(decision.configuration) : undefined;
        },
      },
    });
    const ms = mean(adaptive.latencies);
    assert.ok(
      adaptive.latencies.every((x) => x > 0),
      'nothing lost',
    );
    assert.ok(ms <= Math.min(...statics), `seed ${seed}: adaptive ${ms}, best static ${Math.min(...statics)}`);
    assert.ok(ms <= 1.1 * mean(oracle.latencies), `seed ${seed}: adaptive ${ms}, oracle ${mean(oracle.latencies)}`);
    assert.ok(controller.switches >= 2 && controller.switches <= 4, `seed ${seed}: ${controller.switches} switches`);
  }
});

test('a steady load settles: at most two more switches in ten minutes, at any load', () => {
  for (const rate of [3, 12, 22, 30, 45, 55]) {
    const controller = new Controller({ profile, threads: 8, batches: [1], configuration: fat });
    const gap = gaps(1, random(rate));
    const times: number[] = [];
    for (let now = 1000 / rate; now < 600_000; now += (1000 / rate) * gap()) times.push(now);
    let settled = 0;
    runQueue(Float64Array.from(times), queueSystem(profile, fat), {
      arrived: (time) => controller.arrived(time),
      tick: {
        every: 500,
        call: (time, queued) => {
          const decision = controller.decide(time, queued);
          if (time < 30_000) settled = controller.switches;
          return decision.action === 'switch' ? queueSystem(profile, decision.configuration) : undefined;
        },
      },
    });
    assert.ok(controller.switches - settled <= 2, `${rate} requests/s: ${controller.switches - settled} switches`);
  }
});

test.run();
