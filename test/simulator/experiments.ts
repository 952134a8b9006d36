// How the virtual experiments are set up, shared by the tests that gate on them and the bench that prints them. Load is
// a share of capacity, and capacity is what full batches of equal, mean lengths would give.
import { Buckets, DepthWise, OneByOne, Padding, Timeout } from '../../src/cellular/baselines.js';
import { CellularPolicy } from '../../src/cellular/cellular-policy.js';
import type { SchedulerOptions } from '../../src/cellular/options.js';
import type { Policy, WorkItem } from '../../src/cellular/policy.js';
import { stagesOf } from '../../src/cellular/stages.js';
import { arrivals } from '../../src/simulator/arrivals.js';
import { type CostModel, knee, type StepCost } from '../../src/simulator/cost.js';
import { Random } from '../../src/simulator/random.js';
import type { Report } from '../../src/simulator/report.js';
import { simulate } from '../../src/simulator/simulate.js';
import { drawFrom } from '../../src/simulator/workload.js';

export interface Setup {
  readonly items: readonly WorkItem[];
  readonly steps: readonly StepCost[];
  /** The same for all types and policies; default the knee of the first type. */
  readonly maxBatch?: number;
  readonly instances?: number;
  readonly requests?: number;
  readonly seed?: number;
}

export const maxBatchOf = (setup: Setup): number => setup.maxBatch ?? knee(setup.steps[0]!, 16);

/** Requests a second of full batches (of the knee) of mean requests. */
export function capacityOf({ items, steps, instances = 1 }: Setup): number {
  const batch = knee(steps[0]!, 512);
  let ms = 0;
  for (const item of items)
    for (const { type, steps: times, rows } of stagesOf(item)) ms += (times * rows * steps[type]!(batch)) / batch;
  return (1000 * instances * items.length) / ms;
}

export type Make = (setup: Setup) => Policy;

export const cellular =
  (options: Partial<SchedulerOptions> = {}, name = 'cellular'): Make =>
  (setup) => {
    const requests = setup.requests ?? 4000;
    const largest = setup.items.reduce(
      (most, { unfolding: u }) => Math.max(most, u.kind === 'tree' ? u.parents.length : 2),
      0,
    );
    return new CellularPolicy(
      {
        cells: setup.steps.map(() => ({ maxBatch: maxBatchOf(setup) })),
        requests,
        nodes: requests * largest,
        edges: 1,
        rows: requests * largest,
        instances: setup.instances ?? 1,
        ...options,
      },
      name,
    );
  };
export const buckets =
  (width = 10): Make =>
  (setup) =>
    new Buckets(maxBatchOf(setup), width);
export const padding: Make = (setup) => new Padding(maxBatchOf(setup));
export const oneByOne: Make = () => new OneByOne();
export const timeout =
  (ms: number): Make =>
  (setup) =>
    new Timeout(maxBatchOf(setup), ms);
export const depthWise =
  (requests: number): Make =>
  () =>
    new DepthWise(requests);

/** Runs one policy at a load, Poisson arrivals; the same seed gives all policies the same arrivals and requests. */
export function run(setup: Setup, load: number, make: Make): Report {
  const { requests = 4000, seed = 1, instances = 1 } = setup;
  const cost: CostModel = { steps: setup.steps };
  const rate = load * capacityOf(setup);
  return simulate({
    policy: make(setup),
    cost,
    arrivals: arrivals({ kind: 'poisson', rate }, requests, new Random(seed)),
    item: drawFrom(setup.items, seed + 1),
    instances,
  });
}

/** Requests a second when all requests are there from the start: the throughput of a saturated system. */
export function saturated(setup: Setup, make: Make): number {
  const { requests = 4000, seed = 1, instances = 1 } = setup;
  const due = Float64Array.from({ length: requests }, (_, i) => i * 1e-6);
  const items = drawFrom(setup.items, seed + 1);
  const report = simulate({
    policy: make(setup),
    cost: { steps: setup.steps },
    arrivals: due,
    item: items,
    instances,
    warmUp: 0,
  });
  return report.requests.finished / report.seconds;
}
