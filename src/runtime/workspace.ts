// Memory for plans that run often and for a short time: one place, large enough for the largest, in which each of them has
// its arena, inputs and results at addresses that stay. Picture a bench on which one job at a time is laid out. Nothing is
// allocated for a run, and a plan is bound once. Who uses it writes the inputs before a run and takes the results after.
import { align } from '../compiler/layout.js';
import { type Plan, SLACK } from '../compiler/plan.js';
import { SkepError } from '../tensor/errors.js';
import { addressOf, type Executor } from './executor.js';
import type { Heap } from './memory.js';

/** A plan on the bench. */
export interface Laid {
  readonly plan: Plan;
  /** The address of an input; undefined for one that the plan does not read. */
  readonly input: (name: string) => number | undefined;
  readonly result: (name: string) => number;
  /** Runs its steps, or the first so many. */
  readonly run: (count?: number) => void;
}

/** Where a plan's bases are, and for which address of the workspace that holds. */
interface Bases {
  readonly bases: Int32Array;
  readonly inputs: ReadonlyMap<string, number>;
  at: number;
}

export class Workspace {
  readonly #executor: Executor;
  readonly #heap: Heap;
  readonly #laid = new WeakMap<Plan, Bases>();
  #address = 0;
  #bytes = 0;

  constructor(executor: Executor, heap: Heap) {
    this.#executor = executor;
    this.#heap = heap;
  }

  /** Lays a plan out. What another one left there is gone. */
  lay(plan: Plan): Laid {
    let laid = this.#laid.get(plan);
    if (laid === undefined) {
      const bases = new Int32Array(plan.externals.length + 1);
      let offset = plan.arenaBytes;
      const inputs = new Map<string, number>();
      plan.externals.forEach(({ name, role, bytes }, i) => {
        bases[i + 1] = offset;
        if (role === 'input') inputs.set(name, i + 1);
        offset += align(bytes + SLACK);
      });
      this.#reserve(offset);
      laid = { bases, inputs, at: 0 };
      this.#laid.set(plan, laid);
    }
    const { bases, inputs } = laid;
    const moved = (this.#address - laid.at) | 0;
    if (moved !== 0) for (let i = 0; i < bases.length; i++) bases[i]! += moved;
    laid.at = this.#address;
    return {
      plan,
      input: (name) => {
        const base = inputs.get(name);
        return base === undefined ? undefined : bases[base]! >>> 0;
      },
      result: (name) => {
        const found = plan.results.get(name);
        if (found?.kind !== 'slot') throw new SkepError('INTERNAL', `the plan does not compute '${name}'`);
        return addressOf(found, bases);
      },
      run: (count) => this.#executor.runPlan(plan, bases, undefined, count),
    };
  }

  #reserve(bytes: number): void {
    if (bytes <= this.#bytes) return;
    if (this.#bytes > 0) this.#heap.free(this.#address);
    this.#bytes = Math.max(bytes, 2 * this.#bytes);
    this.#address = this.#heap.allocate(this.#bytes);
  }
}
