// How far to trust the queueing model: its prediction beside a long simulation, and where it breaks.
//
//   node dist/bench/queueing-model.js [REQUESTS]
//
// Batch 1 by the formula, batch 4 and 16 on one instance by the Markov chain, several batching instances by the quick
// estimate that only ranks; then arrivals that are not Poisson, with and without the Ca² correction, and heavy tails, where
// no correction of the mean can help. REQUESTS a row, 2,000,000 unless given; above 90 % load use 10,000,000 and wait.
import { arch, cpus, platform } from 'node:os';
import { batchChain } from '../src/optimizer/markov.js';
import { Profile } from '../src/optimizer/profile.js';
import { capacity, queueSystem } from '../src/optimizer/queue.js';
import type { Random } from '../src/optimizer/random.js';
import { batchedModel, serf } from '../src/optimizer/serf.js';
import { simulateQueue } from '../src/optimizer/simulate.js';

const requests = Number(process.argv[2] ?? 2_000_000);
const profile = Profile.from({
  latency: { 1: { 1: 100, 4: 160, 16: 400 } },
  interference: { 2: 1.1, 3: 1.2, 4: 1.3, 8: 1.7 },
});

console.log(
  `${cpus()[0]?.model ?? 'unknown CPU'}, ${cpus().length} cores, ${platform()} ${arch()}, Node ${process.version}`,
);
console.log(`${requests} requests a row; latencies in ms, ± is the simulation's 95 % interval\n`);

const system = (instances: number, batch: number) => queueSystem(profile, [{ instances, threads: 1, batch }]);
const times = (c: number) => Array.from({ length: c }, (_, k) => 100 * profile.factor(k + 1, 1, 1));

let worst = 0;
function row(what: string, load: number, predicted: number, mean: { value: number; plusMinus: number }): void {
  const error = predicted / mean.value - 1;
  worst = Math.max(worst, Math.abs(error));
  const interval = `${((100 * mean.plusMinus) / mean.value).toFixed(1)} %`;
  console.log(
    `${what.padEnd(34)} ${load.toFixed(2)}  ${predicted.toFixed(1).padStart(9)}  ${mean.value.toFixed(1).padStart(9)} ± ${interval.padEnd(6)}  ${(100 * error).toFixed(1).padStart(6)} %`,
  );
}
function table(title: string, fill: () => void): void {
  worst = 0;
  console.log(`${title}\n${''.padEnd(34)} load  predicted  simulated             error`);
  fill();
  console.log(`worst ${(100 * worst).toFixed(1)} %\n`);
}

const loads = [0.1, 0.3, 0.5, 0.7, 0.85, 0.95];

table('batch 1: the formula', () => {
  for (const c of [1, 2, 4, 8]) {
    for (const load of loads) {
      const arrivalRate = load * capacity(system(c, 1));
      const { mean } = simulateQueue(system(c, 1), { arrivalRate, requests });
      row(`${c} × batch 1`, load, serf(arrivalRate, times(c)).latency, mean);
    }
  }
});

table('one instance that batches: the chain', () => {
  for (const b of [4, 16]) {
    for (const load of loads) {
      const s = system(1, b);
      const arrivalRate = load * capacity(s);
      const { mean } = simulateQueue(s, { arrivalRate, requests });
      row(`1 × batch ${b}`, load, batchChain(arrivalRate, s.groups[0].times)!.latency, mean);
    }
  }
});

table('several that batch: the quick estimate, for ranking only', () => {
  for (const [c, b] of [
    [2, 4],
    [4, 16],
    [8, 16],
  ]) {
    for (const load of loads) {
      const s = system(c, b);
      const arrivalRate = load * capacity(s);
      const { mean } = simulateQueue(s, { arrivalRate, requests: requests / 4 });
      const quick = batchedModel((n) => profile.latency(1, n), b, s.factors);
      row(`${c} × batch ${b}`, load, quick(arrivalRate).latency, mean);
    }
  }
});

/** Gaps of mean 1 with a power-law tail, P(gap > x) ~ x^−shape: no variance at all for shape ≤ 2. */
const pareto = (shape: number) => (uniform: Random) => () => ((shape - 1) / shape) * (1 - uniform()) ** (-1 / shape);

table('not Poisson, 2 × batch 1: as if Poisson, then corrected by Ca²', () => {
  for (const ca2 of [0.25, 2, 4, 16]) {
    for (const load of [0.3, 0.7, 0.9]) {
      const arrivalRate = load * capacity(system(2, 1));
      const { mean } = simulateQueue(system(2, 1), { arrivalRate, ca2, requests });
      row(`Ca² ${ca2}, as if Poisson`, load, serf(arrivalRate, times(2)).latency, mean);
      row(`Ca² ${ca2}, corrected`, load, serf(arrivalRate, times(2), ca2).latency, mean);
    }
  }
  for (const shape of [2.5, 1.8]) {
    const ca2 = shape > 2 ? 1 / (shape * (shape - 2)) : 1;
    for (const load of [0.3, 0.7, 0.9]) {
      const arrivalRate = load * capacity(system(2, 1));
      const { mean } = simulateQueue(system(2, 1), { arrivalRate, gap: pareto(shape), requests });
      row(
        `Pareto ${shape}, Ca² ${shape > 2 ? ca2.toFixed(2) : 'infinite, as 1'}`,
        load,
        serf(arrivalRate, times(2), ca2).latency,
        mean,
      );
    }
  }
});
