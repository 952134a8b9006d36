// The queueing model, the chooser and the controller, against simulation: experiments S3 to S8, in virtual time.
import { lineChart, type Series } from '../../src/cli/plot.js';
import { choose } from '../../src/optimizer/choose.js';
import { type Configuration, describe, keyOf, threadsOf } from '../../src/optimizer/configuration.js';
import { Controller } from '../../src/optimizer/controller.js';
import { batchChain } from '../../src/optimizer/markov.js';
import { everyConfiguration, predict, systemOf } from '../../src/optimizer/predict.js';
import { Profile } from '../../src/optimizer/profile.js';
import { capacity, queueSystem, runQueue } from '../../src/optimizer/queue.js';
import { arrivalTimes, gaps, type Random, random } from '../../src/optimizer/random.js';
import { serf, tail } from '../../src/optimizer/serf.js';
import { simulateQueue } from '../../src/optimizer/simulate.js';
import { runConfiguration } from '../../src/simulator/configuration-run.js';
import { digits, type Page } from '../lib/document.js';

/** One row 100 ms, sixteen 400 ms; every busy neighbour costs a tenth. */
const simple = Profile.from({
  latency: { 1: { 1: 100, 4: 160, 16: 400 } },
  interference: { 2: 1.1, 3: 1.2, 4: 1.3, 8: 1.7 },
});
const system = (instances: number, batch: number) => queueSystem(simple, [{ instances, threads: 1, batch }]);
const service = (c: number) => Array.from({ length: c }, (_, k) => 100 * simple.factor(k + 1, 1, 1));

/** 80 % parallel, with interference: threads shorten one request, instances do more requests. */
function parallel(threads: number, batches: readonly number[]): Profile {
  const latency: { [t: number]: { [b: number]: number } } = {};
  for (let t = 1; t <= threads; t++) {
    latency[t] = {};
    for (const b of batches) latency[t]![b] = (20 + 80 * b) * (0.2 + 0.8 / t);
  }
  return Profile.from({ latency, interference: { 2: 1.02, 4: 1.06, 8: 1.15, 16: 1.3 } });
}

const percent = (share: number) => `${(100 * share).toFixed(1)} %`;

export function s3(page: Page): void {
  const requests = page.quick ? 400_000 : 10_000_000;
  const loads = [0.1, 0.3, 0.5, 0.7, 0.85, 0.95];
  const rows: string[][] = [];
  let worst = 0;
  for (const [instances, batch] of [
    [1, 1],
    [2, 1],
    [4, 1],
    [8, 1],
    [1, 4],
    [1, 16],
  ] as const) {
    const s = system(instances, batch);
    const cells = loads.map((load) => {
      const arrivalRate = load * capacity(s);
      const { mean } = simulateQueue(s, { arrivalRate, requests: load > 0.9 ? requests : requests / 4 });
      const predicted =
        batch === 1
          ? serf(arrivalRate, service(instances)).latency
          : batchChain(arrivalRate, s.groups[0]!.times)!.latency;
      const error = predicted / mean.value - 1;
      // What the simulation cannot resolve is not the model's error.
      worst = Math.max(worst, Math.abs(error) - mean.plusMinus / mean.value);
      return `${digits(predicted)} (${error >= 0 ? '+' : ''}${percent(error)})`;
    });
    rows.push([`${instances} × batch ${batch}`, batch === 1 ? 'formula' : 'chain', ...cells]);
  }
  page.say(
    `Predicted mean latency in ms and how far it is from simulations of up to ${requests.toLocaleString('en')} requests:`,
  );
  page.table(['instances', 'by', ...loads.map((l) => `load ${l}`)], rows);
  page.holds(
    `the worst error beyond the simulation's own interval is ${percent(Math.max(0, worst))} (at most 3 %)`,
    worst <= 0.03,
  );
}

export function s4(page: Page): void {
  const profile = parallel(8, [1]);
  const all = everyConfiguration(profile, { threads: 8, batches: [1] });
  const most = Math.max(...all.map((s) => s.capacity));
  const [loads, requests] = page.quick ? [12, 10_000] : [40, 100_000];
  let good = 0;
  const picks: { rate: number; pick: Configuration; mean: number; best: number }[] = [];
  for (let i = 0; i < loads; i++) {
    const rate = (0.95 * most * (i + 0.5)) / loads;
    const means = new Map(
      all.map((s) => [
        keyOf(s.configuration),
        simulateQueue(systemOf(profile, s.configuration), { arrivalRate: rate, requests }).mean.value,
      ]),
    );
    const pick = choose(profile, { threads: 8, batches: [1], arrivalRate: rate, requests: 10_000 }).configuration;
    const [mean, best] = [means.get(keyOf(pick))!, Math.min(...means.values())];
    if (mean <= 1.05 * best) good++;
    picks.push({ rate, pick, mean, best });
  }
  page.table(
    ['requests/s', 'pick', 'mean, ms', 'the best of all, ms'],
    picks
      .filter((_, i) => i % Math.ceil(loads / 12) === 0)
      .map((p) => [digits(p.rate), describe(p.pick), digits(p.mean), digits(p.best)]),
  );
  page.holds(`the pick is within 5 % of the best at ${good} of ${loads} loads (at least 90 %)`, good >= 0.9 * loads);
  const [low, high] = [picks[0]!.pick, picks.at(-1)!.pick];
  page.holds(
    `low load picks threads (${describe(low)}), high load instances (${describe(high)})`,
    low[0]!.threads > high[0]!.threads,
  );
  const shown = new Map(picks.map((p) => [keyOf(p.pick), p.pick]));
  const rates = Array.from({ length: 60 }, (_, i) => (most * (i + 0.5)) / 60);
  const line = (configuration: Configuration): Series => ({
    name: describe(configuration),
    points: rates.map(
      (arrivalRate) => [arrivalRate, predict(profile, { configuration, arrivalRate, tails: false }).latency] as const,
    ),
  });
  page.figure(
    's4-crossings',
    'S4: where configurations cross',
    lineChart({
      title: 'S4: mean latency of the configurations that are best somewhere',
      subtitle: 'eight threads; one request is 80 % parallel; the formula',
      x: { title: 'requests a second' },
      y: { title: 'mean latency, ms', scale: 'log' },
      series: [...shown.values()].map(line),
    }),
  );
}

export function s5(page: Page): void {
  const profile = parallel(8, [1, 4, 16]);
  const minutes = page.quick ? 2 : 10;
  const phases = [6, 48, 6];
  const uniform = random(1);
  const arrivals = Float64Array.from(
    phases.flatMap((rate, i) => {
      const times = arrivalTimes(
        Math.ceil(rate * minutes * 60 * 1.2 + 100),
        rate,
        gaps(1, uniform),
        i * minutes * 60_000,
      );
      return Array.from(times.filter((t) => t < (i + 1) * minutes * 60_000));
    }),
  );
  const mean = (xs: Float64Array) => xs.reduce((a, b) => a + b, 0) / xs.length;
  const all = everyConfiguration(profile, { threads: 8, batches: [1] }).map((s) => s.configuration);
  const statics = all.map((configuration) => ({
    configuration,
    mean: mean(runQueue(arrivals, systemOf(profile, configuration)).latencies),
  }));
  const best = statics.reduce((a, b) => (b.mean < a.mean ? b : a));
  const part = (i: number) => arrivals.filter((t) => t >= i * minutes * 60_000 && t < (i + 1) * minutes * 60_000);
  const plan = phases.map((_, i) =>
    all.reduce((a, b) =>
      mean(runQueue(part(i), systemOf(profile, b)).latencies) < mean(runQueue(part(i), systemOf(profile, a)).latencies)
        ? b
        : a,
    ),
  );
  let phase = 0;
  const oracle = mean(
    runQueue(arrivals, systemOf(profile, plan[0]!), {
      threads: 8,
      tick: {
        every: minutes * 60_000,
        call: () => (++phase < plan.length ? systemOf(profile, plan[phase]!) : undefined),
      },
    }).latencies,
  );
  const start: Configuration = [{ instances: 1, threads: 8, batch: 1 }];
  const controller = new Controller({ profile, threads: 8, batches: [1], configuration: start });
  const adaptive = runConfiguration({ profile, configuration: start, arrivals, controller, threads: 8, warmUp: 0 });
  const own = mean(adaptive.latencies);
  page.say(`Virtual: ${phases.join(', ')} requests/s, ${minutes} minutes each.`);
  page.table(
    ['', 'mean, ms'],
    [
      [`the best static: ${describe(best.configuration)}`, digits(best.mean)],
      ['the controller', digits(own)],
      ['an oracle that knows when the load changes', digits(oracle)],
    ],
  );
  for (const { time, reason } of adaptive.switches) page.say(`${(time / 1000).toFixed(1)} s: ${reason}.`);
  page.holds(
    `the controller's mean is ${digits(own / best.mean)}× that of the best static (at most 1)`,
    own <= best.mean,
  );
  page.holds(`and ${digits(own / oracle)}× the oracle's (at most 1.1)`, own <= 1.1 * oracle);
  page.holds(
    `${adaptive.switches.length} switches (2 to 4)`,
    adaptive.switches.length >= 2 && adaptive.switches.length <= 4,
  );
}

export function s6(page: Page): void {
  const profile = parallel(16, [1]);
  const all = everyConfiguration(profile, { threads: 16, batches: [1] });
  const most = Math.max(...all.map((s) => s.capacity));
  let least = Number.POSITIVE_INFINITY;
  let measuring = 0;
  for (let run = 0; run < 9; run++) {
    measuring = 0;
    const start = performance.now();
    for (let i = 1; i <= 100; i++) {
      const rate = (most * i) / 101;
      for (const s of all) {
        const guess = s.estimate(rate);
        if (guess.stable && tail(guess, 0.99) > 0) measuring += (1000 * 1000) / rate;
      }
    }
    least = Math.min(least, performance.now() - start);
  }
  page.say(
    `${all.length} configurations of 16 threads at 100 loads: ${digits(least)} ms. Measuring those that keep up, 1,000 requests each, would take ${digits(measuring / 3.6e6)} hours: ${(measuring / least).toExponential(1)} times as long.`,
  );
  page.holds(`all configurations at 100 loads take less than 50 ms (${digits(least)})`, least < 50);
  page.holds('and are at least 1,000 times cheaper than measuring', measuring / least >= 1000);
}

export function s7(page: Page): void {
  const profile = parallel(4, [1, 4, 16]);
  const requests = page.quick ? 40_000 : 400_000;
  const p99 = (configuration: Configuration, arrivalRate: number) =>
    simulateQueue(systemOf(profile, configuration), { arrivalRate, requests }).p99.value;
  const all = everyConfiguration(profile, { threads: 4 });
  const tailPick = choose(profile, { threads: 4, arrivalRate: 25, objective: 'p99', requests });
  const best = Math.min(...all.map((s) => p99(s.configuration, 25)));
  const own = p99(tailPick.configuration, 25);
  page.holds(
    `least p99 at 25 requests/s: ${describe(tailPick.configuration)} has ${digits(own)} ms, the best of all ${digits(best)} (within 5 %)`,
    own <= 1.05 * best,
  );
  const few = choose(profile, { threads: 4, arrivalRate: 12, objective: 'threads', slo: { p99: 300 }, requests });
  const fewer = all.filter((s) => threadsOf(s.configuration) < few.value).map((s) => p99(s.configuration, 12));
  page.holds(
    `fewest threads for p99 ≤ 300 ms at 12 requests/s: ${few.value} (p99 ${digits(p99(few.configuration, 12))} ms); with fewer the best has ${fewer.length === 0 ? 'nothing' : `${digits(Math.min(...fewer))} ms`}`,
    p99(few.configuration, 12) <= 309 && fewer.every((ms) => ms > 291),
  );
  const most = choose(profile, {
    threads: 4,
    objective: 'throughput',
    slo: { p99: 300 },
    requests: page.quick ? 20_000 : 100_000,
  });
  const beyond = Math.min(...all.map((s) => p99(s.configuration, 1.1 * most.value)));
  page.holds(
    `most throughput within p99 ≤ 300 ms: ${digits(most.value)} requests/s (p99 ${digits(p99(most.configuration, most.value))} ms); at a tenth more the best of all has ${digits(beyond)} ms`,
    p99(most.configuration, most.value) <= 315 && beyond > 291,
  );
}

/** Gaps of mean 1 with a power-law tail, P(gap > x) ~ x^−shape: no variance at all for shape ≤ 2. */
const pareto = (shape: number) => (uniform: Random) => () => ((shape - 1) / shape) * (1 - uniform()) ** (-1 / shape);

export function s8(page: Page): void {
  const requests = page.quick ? 400_000 : 4_000_000;
  const rows: string[][] = [];
  let helped = 0;
  let cases = 0;
  for (const ca2 of [0.25, 2, 4, 16])
    for (const load of [0.3, 0.7, 0.9]) {
      const arrivalRate = load * capacity(system(2, 1));
      const { mean } = simulateQueue(system(2, 1), { arrivalRate, ca2, requests });
      const [plain, corrected] = [1, ca2].map((c) => serf(arrivalRate, service(2), c).latency / mean.value - 1);
      cases++;
      if (Math.abs(corrected!) < Math.abs(plain!)) helped++;
      rows.push([`Ca² ${ca2}`, String(load), digits(mean.value), percent(plain!), percent(corrected!)]);
    }
  for (const shape of [2.5, 1.8])
    for (const load of [0.3, 0.7, 0.9]) {
      const arrivalRate = load * capacity(system(2, 1));
      const { mean } = simulateQueue(system(2, 1), { arrivalRate, gap: pareto(shape), requests });
      const ca2 = shape > 2 ? 1 / (shape * (shape - 2)) : 1;
      const [plain, corrected] = [1, ca2].map((c) => serf(arrivalRate, service(2), c).latency / mean.value - 1);
      rows.push([
        `Pareto ${shape}${shape > 2 ? `, Ca² ${ca2.toFixed(2)}` : ', no variance'}`,
        String(load),
        digits(mean.value),
        percent(plain!),
        shape > 2 ? percent(corrected!) : '–',
      ]);
    }
  page.table(['arrivals', 'load', 'simulated mean, ms', 'error as if Poisson', 'error corrected by Ca²'], rows);
  page.holds(`the Ca² correction is nearer in ${helped} of ${cases} cases (at least 3 of 4)`, helped >= 0.75 * cases);
}
