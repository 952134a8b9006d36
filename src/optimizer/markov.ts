// One instance that batches, exactly: the Markov chain of the queue length at the moments when a batch ends. At such a
// moment q requests wait; the instance takes n = min(q, b) of them (with q = 0 it waits for one and takes that), and while
// it computes for L[n] a Poisson number of new ones comes. So
//
//   q ──▶ max(q, 1) − n + Poisson(λ·L[n])
//
// which never goes down by more than b. The stationary probabilities come from state elimination (Grassmann, Taksar,
// Heyman 1985), which only adds, multiplies and divides positive numbers and so loses no digits near saturation; Little's
// law over the cycles gives the mean latency. For Poisson arrivals and one instance; everything else is simulated.
import { type QueueEstimate, unstable } from './serf.js';

export interface ChainEstimate extends QueueEstimate {
  /** Mean rows a batch. */
  readonly rows: number;
  /** States kept; the rest has a probability below 1e-12. */
  readonly states: number;
}

/** Steps of elimination at most; beyond them the chain costs more than simulating. */
const MOST_WORK = 2e8;

/**
 * Mean latency of one instance. `arrivalRate` in requests a second, Poisson; `times[n]` = L[n] in ms for n = 1…b (index 0
 * unused), not falling with n. Undefined when the chain would be too large (b in the hundreds, or ρ very near 1).
 */
export function batchChain(arrivalRate: number, times: Float64Array): ChainEstimate | undefined {
  const b = times.length - 1;
  const rate = arrivalRate / 1000;
  const rho = (rate * times[b]) / b;
  if (!(rho < 1)) return { ...unstable(rho), rows: b, states: 0 };
  const arrivals = Array.from(times, (ms, n) => (n === 0 ? Float64Array.of(1) : poisson(rate * ms)));
  const widest = arrivals[b].length;
  const top = Math.ceil(b + widest + 28 / Math.log(decay(rate * times[b], b)));
  if (top * Math.min(b, top) * (widest + b) > MOST_WORK) return undefined;

  // Row q holds the probabilities of the states from max(0, q − b) on; what would go past the top stays at the top.
  const rows: Float64Array[] = [];
  for (let q = 0; q <= top; q++) {
    const come = arrivals[Math.min(Math.max(q, 1), b)];
    const low = Math.max(0, q - b);
    const row = new Float64Array(Math.max(Math.min(come.length, top - low + 1), q - low + 1));
    for (let j = 0; j < come.length; j++) row[Math.min(j, top - low)] += come[j];
    rows.push(row);
  }
  for (let k = top; k > 0; k--) {
    const row = rows[k];
    const low = Math.max(0, k - b);
    let down = 0;
    for (let j = low; j < k; j++) down += row[j - low];
    const enter = (i: number) => {
      const from = Math.max(0, i - b);
      const at = k - from;
      const source = rows[i];
      if (at >= source.length || source[at] === 0) return;
      source[at] /= down;
      const share = source[at];
      for (let j = low; j < k; j++) source[j - from] += share * row[j - low];
    };
    const reach = Math.max(b, k + b - widest + 1);
    for (let i = Math.min(b, k) - 1; i >= 0; i--) enter(i);
    for (let i = reach; i < k; i++) enter(i);
  }
  const p = new Float64Array(top + 1);
  p[0] = 1;
  for (let i = 0; i <= top; i++) {
    const from = Math.max(0, i - b);
    const row = rows[i];
    for (let k = i + 1; k < from + row.length; k++) p[k] += p[i] * row[k - from];
  }

  let cycle = 0; // mean time from one end to the next
  let area = 0; // mean integral of the number in the system over it
  let taken = 0;
  let held = 0; // mean of rows × service time
  let total = 0;
  for (let q = 0; q <= top; q++) {
    const present = Math.max(q, 1);
    const n = Math.min(present, b);
    const ms = times[n];
    cycle += p[q] * (ms + (q === 0 ? 1 / rate : 0));
    area += p[q] * (present * ms + (rate * ms * ms) / 2);
    taken += p[q] * n;
    held += p[q] * n * ms;
    total += p[q];
  }
  const latency = area / cycle / rate;
  const service = held / taken;
  const busy = 1 - p[0] / rate / cycle;
  return {
    stable: true,
    utilisation: rho,
    latency,
    service,
    wait: latency - service,
    allBusy: busy,
    rows: taken / total,
    states: top + 1,
  };
}

/** Probabilities of 0, 1, 2, … up to where less than 1e-15 is left. */
function poisson(mean: number): Float64Array {
  const end = Math.ceil(mean + 9 * Math.sqrt(mean) + 20);
  const p = new Float64Array(end + 1);
  const mode = Math.floor(mean);
  p[mode] = 1;
  for (let j = mode; j > 0; j--) p[j - 1] = (p[j] * j) / mean;
  for (let j = mode; j < end; j++) p[j + 1] = (p[j] * mean) / (j + 1);
  let sum = 0;
  for (const x of p) sum += x;
  return p.map((x) => x / sum);
}

/** How fast the tail of the queue falls, z > 1 with z^b = e^(m(z−1)), where m < b come during a full batch. */
function decay(mean: number, b: number): number {
  let low = 1;
  let high = 2;
  const gap = (z: number) => b * Math.log(z) - mean * (z - 1); // positive between 1 and the root
  while (gap(high) > 0) high *= 2;
  for (let i = 0; i < 100; i++) {
    const middle = (low + high) / 2;
    if (gap(middle) > 0) low = middle;
    else high = middle;
  }
  return Math.max(low, 1 + 1e-9);
}
