// Random numbers for simulations: seeded, the same on every machine. And arrivals made of them.
import { numberArgument } from './errors.js';

/** A source of numbers, uniform in [0, 1). */
export type Random = () => number;

/** A generator with 128 bits of state (sfc32), started from one number. */
export function random(seed: number): Random {
  let a = 0x9e3779b9;
  let b = 0x243f6a88;
  let c = seed | 0;
  let counter = 1;
  const next = () => {
    const t = (((a + b) | 0) + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (c << 21) | (c >>> 11);
    c = (c + t) | 0;
    return t >>> 0;
  };
  for (let i = 0; i < 16; i++) next();
  return () => next() / 4294967296;
}

/** An exponential number of mean 1. */
export function exponential(uniform: Random): number {
  return -Math.log(1 - uniform());
}

/** A gamma number of mean 1 with squared coefficient of variation 1/shape, shape ≥ 1 (Marsaglia and Tsang 2000). */
function gamma(shape: number, uniform: Random): number {
  const d = shape - 1 / 3;
  const c = 1 / Math.sqrt(9 * d);
  for (;;) {
    const normal = Math.sqrt(2 * exponential(uniform)) * Math.cos(2 * Math.PI * uniform());
    const v = (1 + c * normal) ** 3;
    if (v > 0 && exponential(uniform) > d * (v - 1 - Math.log(v)) - 0.5 * normal * normal) return (d * v) / shape;
  }
}

/**
 * Gaps of mean 1 with squared coefficient of variation `ca2`: 0 constant, below 1 a gamma distribution, 1 exponential
 * (Poisson arrivals), above 1 bursty (hyperexponential with balanced means).
 */
export function gaps(ca2: number, uniform: Random): () => number {
  numberArgument('ca2', ca2, 0, 1e6);
  if (ca2 === 1) return () => exponential(uniform);
  if (ca2 < 1e-6) return () => 1;
  if (ca2 < 1) return () => gamma(1 / ca2, uniform);
  const p = 0.5 * (1 + Math.sqrt((ca2 - 1) / (ca2 + 1)));
  return () => (uniform() < p ? exponential(uniform) / (2 * p) : exponential(uniform) / (2 * (1 - p)));
}

/** Arrival times in ms, ascending: `count` of them at `arrivalRate` a second, gaps of mean 1 from `gap`. */
export function arrivalTimes(count: number, arrivalRate: number, gap: () => number, start = 0): Float64Array {
  const times = new Float64Array(count);
  const mean = 1000 / arrivalRate;
  let now = start;
  for (let i = 0; i < count; i++) {
    now += mean * gap();
    times[i] = now;
  }
  return times;
}
