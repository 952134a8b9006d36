// What deciding costs, against what measuring would cost: the point of having a model at all.
//
//   node dist/bench/optimizer-speed.js
//
// A made profile of 16 threads (a model of 60 ms and 10 GFLOP-like scaling, with interference). Wanted: all configurations
// at 100 loads in under 50 ms, and at least 1,000 times cheaper than running each of them on the machine; T=64, B=1024
// with any batch size in under 100 ms.
import { arch, cpus, platform } from 'node:os';
import { choose } from '../src/optimizer/choose.js';
import { optimize } from '../src/optimizer/packrat.js';
import { everyConfiguration } from '../src/optimizer/predict.js';
import { Profile } from '../src/optimizer/profile.js';
import { tail } from '../src/optimizer/serf.js';

const LOADS = 100;
/** What measuring one configuration at one load would take at the very least: this many requests, at that rate. */
const REQUESTS = 1000;

function made(threads: number, largest: number): Profile {
  const latency: { [t: number]: { [b: number]: number } } = {};
  for (let t = 1; t <= threads; t++) {
    latency[t] = {};
    for (let b = 1; b <= largest; b *= 2)
      latency[t][b] = (10 + 50 * b ** 0.95) * (0.1 + 0.9 / t) * (t % 2 === 0 ? 1 : 1.1);
  }
  return Profile.from({ latency, interference: { 2: 1.03, 4: 1.1, 8: 1.2, 16: 1.35 } });
}

/** Least of several runs, ms: the first ones still compile. */
function least(run: () => void): number {
  let best = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 9; i++) {
    const start = performance.now();
    run();
    best = Math.min(best, performance.now() - start);
  }
  return best;
}

function row(what: string, ms: number, wanted?: number): void {
  const verdict = wanted === undefined ? '' : `   wanted < ${wanted} ms: ${ms < wanted ? 'yes' : 'NO'}`;
  console.log(`${what.padEnd(66)} ${ms.toFixed(2).padStart(9)} ms${verdict}`);
}

console.log(
  `${cpus()[0]?.model ?? 'unknown CPU'}, ${cpus().length} cores, ${platform()} ${arch()}, Node ${process.version}\n`,
);

const profile = made(16, 1024);
for (const [name, batches, wanted] of [
  ['batch 1', [1], 50],
  ['every measured batch, 1…1024', undefined, 50],
] as const) {
  let evaluations = 0;
  let measuring = 0;
  const ms = least(() => {
    evaluations = 0;
    measuring = 0;
    const all = everyConfiguration(profile, { threads: 16, ...(batches ? { batches } : {}) });
    const most = Math.max(...all.map((s) => s.capacity));
    for (let i = 1; i <= LOADS; i++) {
      const rate = (most * i) / (LOADS + 1);
      let best = Number.POSITIVE_INFINITY;
      for (const s of all) {
        const guess = s.estimate(rate);
        evaluations++;
        if (!guess.stable) continue;
        measuring += (1000 * REQUESTS) / rate;
        best = Math.min(best, tail(guess, 0.99));
      }
    }
  });
  row(`${evaluations / LOADS} configurations × ${LOADS} loads, 16 cores (${name})`, ms, wanted);
  console.log(
    `  measuring the stable ones, ${REQUESTS} requests each: ${(measuring / 3.6e6).toFixed(1)} h, ${(measuring / ms).toExponential(1)}× as long\n`,
  );
}

row(
  'choose at one load, least mean, all batches',
  least(() => choose(profile, { threads: 16, arrivalRate: 100 })),
);
row(
  'choose at one load, least p99, batch 1',
  least(() => choose(profile, { threads: 16, arrivalRate: 100, batches: [1], objective: 'p99' })),
);
const large = made(64, 1024);
const plain = Profile.from({ latency: large.toJSON().latency });
row(
  'optimize T=64, B=1024, any size',
  least(() => optimize(plain, { threads: 64, batch: 1024 })),
  100,
);
row(
  'optimize T=64, B=1024, any size, with interference',
  least(() => optimize(large, { threads: 64, batch: 1024 })),
  100,
);
row(
  'optimize T=64, B=1024, measured sizes',
  least(() => optimize(plain, { threads: 64, batch: 1024, sizes: 'measured' })),
);
