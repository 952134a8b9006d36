// Engines side by side on one piece of work. How to picture it: rounds; in each, every contender runs a short burst of
// calls, the first contender of the round another one each time. A ratio is taken within a round, where all see the same
// machine, and the median over rounds is what is reported; times are for orientation only. It is a loop over
// performance.now: benchmark.js runs one suite after the other, so that a slow minute of the machine is one suite's bad
// luck, has no paired ratios, and is no longer maintained.
import { median } from './machine.js';

/** An engine that can do the work. */
export interface Contender {
  readonly name: string;
  /** One call as a user makes it, tensor copies included; its first result, flat. */
  run(): Promise<ArrayLike<number>>;
  close(): Promise<void>;
}

/** What a contest found of a contender. */
export interface Standing {
  readonly name: string;
  /** Milliseconds a call. */
  readonly best: number;
  readonly median: number;
  /** How many times as long as the first contender: median of paired ratios, and the middle half of them. */
  readonly ratio: number;
  readonly quartiles: readonly [number, number];
  /** Largest difference from the first contender's result, relative to that result's largest element. */
  readonly difference: number;
}

export interface ContestOptions {
  /** Milliseconds of a burst, of calls a contender makes in a row. Default 20. */
  readonly burst?: number;
  /** Default 15. */
  readonly rounds?: number;
}

async function timeOf(contender: Contender, calls: number): Promise<number> {
  const start = performance.now();
  for (let i = 0; i < calls; i++) await contender.run();
  return (performance.now() - start) / calls;
}

function differenceOf(a: ArrayLike<number>, b: ArrayLike<number>): number {
  if (a.length !== b.length) return Number.POSITIVE_INFINITY;
  let scale = 0;
  let most = 0;
  for (let i = 0; i < a.length; i++) {
    scale = Math.max(scale, Math.abs(a[i]!));
    // NaN is a difference.
    const d = Math.abs(a[i]! - b[i]!);
    if (!(d <= most)) most = d;
  }
  return scale === 0 ? most : most / scale;
}

function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.round(q * (sorted.length - 1))]!;
}

/** Runs the contest; the first contender is what the others are compared with. Closes nobody. */
export async function contest(contenders: readonly Contender[], options: ContestOptions = {}): Promise<Standing[]> {
  const { burst = 20, rounds = 15 } = options;
  const results: number[][] = [];
  const calls: number[] = [];
  for (const c of contenders) {
    results.push(Array.from(await c.run()));
    // Warm: engines optimise their code in the background while the first calls run.
    let quickest = Number.POSITIVE_INFINITY;
    const until = performance.now() + 4 * burst;
    do quickest = Math.min(quickest, await timeOf(c, 1));
    while (performance.now() < until);
    calls.push(Math.max(1, Math.round(burst / quickest)));
  }
  const times: number[][] = contenders.map(() => []);
  for (let round = 0; round < rounds; round++)
    for (let i = 0; i < contenders.length; i++) {
      const who = (i + round) % contenders.length;
      times[who]!.push(await timeOf(contenders[who]!, calls[who]!));
    }
  return contenders.map(({ name }, i) => {
    const ratios = times[i]!.map((t, round) => t / times[0]![round]!);
    return {
      name,
      best: Math.min(...times[i]!),
      median: median(times[i]!),
      ratio: median(ratios),
      quartiles: [quantile(ratios, 0.25), quantile(ratios, 0.75)],
      difference: differenceOf(results[0]!, results[i]!),
    };
  });
}
