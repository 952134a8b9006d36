// The queueing model: what latency a configuration gives at an arrival rate, in microseconds of computing and without
// simulating anything. In the spirit of SERF (Yan, He, Ruwase, Smirni, IEEE TNSM 2018): requests arrive at random, c
// instances serve one each, and every busy neighbour slows an instance down. Picture a counter of how many requests are
// in the system, going up at rate λ and down at a rate that depends on where it is:
//
//        λ        λ                λ        λ
//   (0) ──▶ (1) ──▶ (2) ──▶ … (c) ──▶ (c+1) ──▶ …      μ_n = min(n, c) / S[min(n, c)]
//       ◀──     ◀──               ◀──       ◀──
//       μ_1      μ_2               μ_c       μ_c
//
// The balance of ups and downs gives the probability of every state, Little's law the times; a factor corrects the waiting
// from exponential to constant service. `serf` is for batch 1. `batchedModel` stretches the same chain to instances that take
// what is ready up to a batch; it is for ranking many configurations quickly, and queue.ts for believing one.

export interface QueueEstimate {
  /** False when work arrives faster than it can be done; all times are Infinity then. */
  readonly stable: boolean;
  /** Arrival rate over the highest rate that can be kept up, ρ. */
  readonly utilisation: number;
  /** Mean time from arrival to start of service, ms. */
  readonly wait: number;
  /** Mean time in service, ms. */
  readonly service: number;
  /** Mean time in the system, ms: wait + service. */
  readonly latency: number;
  /** Probability that an arrival finds every instance busy. */
  readonly allBusy: number;
}

/** What an overloaded queue is: nothing about it is finite. */
export function unstable(utilisation: number): QueueEstimate {
  const never = Number.POSITIVE_INFINITY;
  return { stable: false, utilisation, wait: never, service: never, latency: never, allBusy: 1 };
}

/**
 * Waiting with constant service over waiting with exponential service: ½[1 + (1−ρ)(c−1)(√(4+5c)−2)/(16ρc)] (Cosmetatos),
 * which at low load grows past its true limit c/(c+1) and is held there.
 */
function constantService(c: number, rho: number): number {
  const cosmetatos = 0.5 * (1 + ((1 - rho) * (c - 1) * (Math.sqrt(4 + 5 * c) - 2)) / (16 * rho * c));
  return Math.min(cosmetatos, c / (c + 1));
}

/**
 * Mean latency of c = `times.length` instances with batch 1. `arrivalRate` in requests a second; `times[k − 1]` is S[k],
 * the service time in ms while k instances are busy; `ca2` the squared coefficient of variation of the gaps (1: Poisson).
 * Within 2 % of simulation for Poisson arrivals, c up to 8, ρ up to 0.95. Safe for c up to 1,024: nothing overflows.
 */
export function serf(arrivalRate: number, times: ArrayLike<number>, ca2 = 1): QueueEstimate {
  const c = times.length;
  const rate = arrivalRate / 1000; // a millisecond
  const rho = (rate * times[c - 1]) / c;
  if (!(rho < 1)) return unstable(rho);
  // The products λ/μ_i reach e^c: one running term, and everything scaled down together when it grows large.
  let term = 1;
  let sum = 1;
  let busy = 0;
  for (let n = 1; n <= c; n++) {
    term *= (rate * times[n - 1]) / n;
    sum += term;
    busy += n * term;
    if (term > 1e200) {
      term *= 1e-200;
      sum *= 1e-200;
      busy *= 1e-200;
    }
  }
  const beyond = (term * rho) / (1 - rho); // all states above c
  sum += beyond;
  busy += c * beyond;
  const allBusy = (term + beyond) / sum;
  const queue = (beyond / (1 - rho) / sum) * constantService(c, rho) * ca2; // mean number waiting
  const wait = rate > 0 ? queue / rate : 0;
  const service = busy > 0 ? busy / sum / rate : times[0];
  return { stable: true, utilisation: rho, wait, service, latency: wait + service, allBusy };
}

/**
 * The quantile q of latency, guessed from the means: those who wait, wait an exponential time. Crude (10 to 30 % at q =
 * 0.99) and only for ranking.
 */
export function tail({ stable, wait, service, allBusy }: QueueEstimate, q: number): number {
  if (!stable) return Number.POSITIVE_INFINITY;
  if (wait <= 0 || allBusy <= 1 - q) return service;
  return service + (wait / allBusy) * Math.log(allBusy / (1 - q));
}

/**
 * A quick estimate for c instances that each take what is ready, up to `batch`, and never wait to fill. `time(n)` is L[n]
 * in ms for n in 1…batch (real), `factors[k]` the interference factor while k are busy, k = 0…c. What depends on the
 * configuration alone is worked out once; the function that comes back takes requests a second (and Ca²) and costs about
 * a microsecond.
 *
 * The same chain as above. With n > c in the system every instance is busy with about m rows. For one instance n = 1.5·m:
 * half a batch waits on average. Several instances fall out of step: one that took many runs long, and those that end
 * meanwhile take few. With a squared coefficient of variation v of the sizes and an elasticity e of L at m,
 *
 *   n = m·( c·(1 + v·e) + (1 + v)/2 ),   v = (1 − 1/c)·(1 − 1/m²)·(1 − (m/b)²)
 *
 * Fitted to simulations of published profiles: typically within 10 %, at worst 50 % off (one instance, L proportional to n).
 * For ranking many configurations; markov.ts and queue.ts are for believing one.
 */
export function batchedModel(
  time: (n: number) => number,
  batch: number,
  factors: ArrayLike<number>,
): (arrivalRate: number, ca2?: number) => QueueEstimate {
  const c = factors.length - 1;
  const full = (time(batch) * factors[c]) / (c * batch); // ms a request when every batch is full
  const single = time(1);
  const spread = (m: number) => (1 - 1 / c) * (1 - 1 / (m * m)) * (1 - (m / batch) ** 2);
  const elasticity = (m: number) => {
    const low = Math.max(1, m / 1.05);
    const high = Math.min(batch, m * 1.05);
    return high > low ? Math.min(1, ((time(high) - time(low)) / (high - low)) * (m / time(m))) : 1;
  };
  const rowsAt = (n: number, guess: number) => {
    let m = guess;
    for (let i = 0; i < 2; i++) {
      const v = spread(m);
      m = Math.min(batch, Math.max(1, n / (c * (1 + v * elasticity(m)) + (1 + v) / 2)));
    }
    return m;
  };
  // One state a step up to c, then steps that widen as they go: fifty or so for any batch.
  const end = Math.max(c + 1, Math.ceil(batch * (c + 0.5)));
  const states: number[] = []; // the middle of a step
  const widths: number[] = [];
  for (let last = 0; last < end; ) {
    const width = Math.min(end - last, Math.max(1, Math.floor((last - c) / 6)));
    states.push(last + (width + 1) / 2);
    widths.push(width);
    last += width;
  }
  const times = new Float64Array(states.length); // ms a request takes in this state
  let m = 1;
  for (let i = 0; i < states.length; i++) {
    const n = states[i];
    if (n > c) m = rowsAt(n, m);
    times[i] = n <= c ? (single * factors[n]) / n : (time(m) * factors[c]) / (c * m);
  }
  const logs = times.map(Math.log);
  const middles = Float64Array.from(states);
  const lengths = Float64Array.from(widths);

  return (arrivalRate, ca2 = 1) => {
    const rate = arrivalRate / 1000;
    const rho = rate * full;
    if (!(rho < 1)) return unstable(rho);
    const logRate = Math.log(rate);
    let term = 1;
    let sum = 1;
    let inSystem = 0;
    let calm = 1; // weight of the states in which some instance is idle
    let busy = 0;
    for (let i = 0; i < times.length; i++) {
      const n = middles[i];
      const width = lengths[i];
      // A wide step counts as so many equal ones.
      term *= width === 1 ? rate * times[i] : Math.exp(width * (logRate + logs[i]));
      const weight = term * width;
      sum += weight;
      inSystem += n * weight;
      busy += Math.min(n, c) * weight;
      if (n < c) calm = sum;
      if (term > 1e200) {
        term *= 1e-200;
        sum *= 1e-200;
        inSystem *= 1e-200;
        busy *= 1e-200;
        calm *= 1e-200;
      }
    }
    const beyond = (term * rho) / (1 - rho);
    inSystem += beyond * end + (beyond / (1 - rho)) * constantService(c, rho) * ca2;
    sum += beyond;
    busy += c * beyond;
    const latency = rate > 0 ? inSystem / sum / rate : single;
    // Of m·(c + ½) in the system c are in service; with single rows all the busy ones are.
    const service = rate > 0 ? Math.min(latency, Math.max(busy / sum / rate, (latency * c) / (c + 0.5))) : single;
    return { stable: true, utilisation: rho, wait: latency - service, service, latency, allBusy: 1 - calm / sum };
  };
}
