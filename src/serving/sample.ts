// A request to try things with, on an instance that nobody waits for: one row of a sample request, repeated to a batch of
// any size, run by the instance's own plans. Warming up runs it once for each size; the profiler takes the time.
//
//   sample x [3, 80] ──▶ one row [1, 80] ──▶ batch of 8: eight times the same row, gathered
//
// Where the proof says that rows may not be merged, the sample is run as it is and there is no batch but 1.
import type { Program } from '../compiler/program.js';
import type { Model } from '../graph/graph.js';
import type { Executor } from '../runtime/executor.js';
import type { Heap, ModelMemory } from '../runtime/memory.js';
import { infoOf } from '../runtime/source.js';
import { bytesIn, type Carried, copyTo, gather, isStaged, stripOf } from '../runtime/staged.js';
import { readValues } from '../runtime/wire.js';
import type { Tensor } from '../tensor/tensor.js';
import type { Axes } from './axes.js';
import type { Judge } from './batching.js';

/** What of an instance a sample is run with. */
export interface SampleParts {
  readonly model: Model;
  readonly program: Program;
  readonly memory: ModelMemory;
  readonly heap: Heap;
  readonly executor: Executor;
  readonly judge: Judge;
}

export class Sample {
  readonly #parts: SampleParts;
  readonly #inputs: readonly string[];
  readonly #wanted: readonly string[];
  /** One row; or all of it where there are none. */
  readonly #values: readonly (Carried | undefined)[];
  readonly #axes: Axes | undefined;
  readonly #held: number[] = [];

  /** `address`: a request as wire.ts has it, with the indices of the wanted outputs last. It is only read. */
  constructor(parts: SampleParts, address: number) {
    const { model, memory, executor, judge } = parts;
    this.#parts = parts;
    const info = infoOf(model);
    this.#inputs = info.inputs.map((v) => v.name);
    const values = readValues(memory, address);
    const wanted = (executor.toHost(values.pop()!) as Tensor).data as Int32Array;
    this.#wanted = Array.from(wanted, (i) => info.outputs[i]!.name);
    this.#axes = provenAxes(judge, values, wanted);
    this.#values = this.#axes === undefined ? values : values.map((v, i) => this.#row(v, this.#axes![i]));
  }

  /** Whether it can be run with any number of rows. */
  get batches(): boolean {
    return this.#axes !== undefined;
  }

  /** The rows it can be run with, of so many. */
  most(rows: number): number {
    return this.batches ? rows : 1;
  }

  /** Runs a batch of `rows` rows. `check` is called before every step and may throw to stop it. */
  run(rows: number, check: () => void): void {
    const { program, executor } = this.#parts;
    const feeds = new Map<string, Carried>();
    this.#inputs.forEach((name, i) => {
      const value = this.#values[i];
      if (value === undefined) return;
      const axis = this.#axes?.[i];
      const joined = axis === undefined || rows === 1 || !isStaged(value);
      feeds.set(name, joined ? value : gather(new Array(rows).fill(value), axis));
    });
    executor.run(program, feeds, this.#wanted, () => {}, { check });
  }

  /** Gives its rows' memory back. */
  free(): void {
    for (const address of this.#held.splice(0)) this.#parts.heap.free(address);
  }

  #row(value: Carried | undefined, axis: number | undefined): Carried | undefined {
    if (value === undefined || axis === undefined || !isStaged(value)) return value;
    const { memory, heap } = this.#parts;
    const strip = stripOf(value, axis, 0, 1);
    const address = heap.allocate(bytesIn(strip));
    this.#held.push(address);
    copyTo(memory, strip, address);
    return { kind: 'staged', type: strip.type, dims: strip.dims, address };
  }
}

/** The axes along which requests like this one are proved to be mergeable. */
function provenAxes(judge: Judge, values: readonly (Carried | undefined)[], wanted: Int32Array): Axes | undefined {
  // A second time where another candidate than the first guess has been proved.
  for (let i = 0; i < 2; i++) {
    const kind = judge.kindOf(values, wanted);
    if (kind === undefined) return undefined;
    const verdict = judge.judge(kind, values);
    if (verdict.proven) return verdict.axes;
  }
  return undefined;
}
