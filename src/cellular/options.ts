// What a caller says to the scheduler: cell types, capacities, and how a request or a chain is to be treated.

import { checkInteger } from './errors.js';
import type * as L from './layout.js';
import type { Priority } from './priority.js';

/** A cell type. Its identity is its number: a new version of a model is new types. */
export interface CellType {
  /** Most rows a task may have (a single step of more goes alone); best the knee of the profile: the smallest batch with 95 % of the peak rows/s. */
  readonly maxBatch: number;
  /** A further task of one submission must have at least this many rows. Default 1. */
  readonly minBatch?: number;
  /** Later cells have a higher rank. Default: the type's number. */
  readonly rank?: number;
  /** False when nodes keep no row in the arena (a projection into the request's own memory). Default true. */
  readonly row?: boolean;
  /** Steps of the chain behind it that one node of this type feeds (`stepwise`). Default 1. */
  readonly chunk?: number;
  /** Steps of the chain before it that a step of this type needs (`stepwise`): what works on several at once. Default 1. */
  readonly needs?: number;
  /** Steps of its chains that one task may take at once when it takes all that is ready: nobody waits then. Default 1. */
  readonly maxSteps?: number;
}

export interface SchedulerOptions extends Partial<L.Capacity> {
  readonly cells: readonly CellType[];
  readonly priority?: Priority;
  /** Tasks submitted to an instance at once. 1 where instances pull; the paper has 5. Default 1. */
  readonly maxTasksToSubmit?: number;
}

export interface RequestOptions {
  /** Higher goes first; within one priority the oldest goes first. −1,000,000 … 1,000,000, default 0. */
  readonly priority?: number;
  /** When `schedule`'s clock reaches this the request leaves. Milliseconds, below 2³¹ − 1. */
  readonly deadline?: number;
}

export interface ChainOptions {
  /** Waits until all earlier parts of the request have ended. */
  readonly after?: boolean;
  /** Goes on from the state row of the chain before it (with `after`): a decoder from its encoder's. */
  readonly inherits?: boolean;
  /**
   * Goes step by step behind the chain before it, a layer on a layer, a step on its projection: step t waits for step
   * ⌊t / chunk⌋ of that one; where a step `needs` several, for step (t + 1) · needs − 1; or for its end.
   */
  readonly stepwise?: boolean;
  /** Rows of a batch that one step fills: a request that comes with several already. They stay together. Default 1. */
  readonly rows?: number;
}

export const NO_LIMIT = 0x7fffffff;

/** The capacity that options ask for, with defaults for what they leave out. */
export function capacityOf(options: SchedulerOptions): L.Capacity {
  const requests = options.requests ?? 1024;
  const parts = options.parts ?? 4 * requests;
  const capacity: L.Capacity = {
    requests,
    parts,
    nodes: options.nodes ?? 64 * requests,
    edges: options.edges ?? 16 * requests,
    rows: options.rows ?? 4 * requests,
    types: options.types ?? Math.max(16, 2 * options.cells.length),
    instances: options.instances ?? 1,
    tasks: options.tasks ?? 2 * (options.maxTasksToSubmit ?? 1),
    largestBatch: options.largestBatch ?? Math.max(1, ...options.cells.map((c) => c.maxBatch)),
  };
  for (const [name, value] of Object.entries(capacity)) checkInteger(name, value, name === 'edges' ? 0 : 1, 1 << 26);
  return capacity;
}
