// Running stages of requests that are cut (compiler/cells.ts): gather rows of several requests into a plan's inputs, run it,
// scatter its results. How to picture a task of steps, two requests with three and two times to go:
//
//   block of a   h c  products ▮▮▮▮▮▮▮▮           plan   h, c  ▮  ▮            block of a   h' c'  y ▮▮▮
//   block of b   h c  products ▮▮▮▮▮      ─▶      products  ▮▮▮ │ ▮▮·   ─▶      block of b   h' c'  y ▮▮
//
// A backward direction's times are turned round here, and a request's rows that have ended are left out: plans know neither.
// Plans are few: rows are padded to one of a few counts; of a plan of many steps the first so many are run, and steps that a
// row does not have are skipped by its length.
import type { Place, RowsStage, Sequence, StepsStage } from '../compiler/cell-stages.js';
import type { Plan } from '../compiler/plan.js';
import type { Program } from '../compiler/program.js';
import type { Graph } from '../graph/graph.js';
import type { Executor } from '../runtime/executor.js';
import type { Heap, ModelMemory } from '../runtime/memory.js';
import { type Laid, Workspace } from '../runtime/workspace.js';
import { SkepError } from '../tensor/errors.js';
import { sizeOf } from '../tensor/shape.js';
import { bytesOf } from '../tensor/tensor.js';
import { byteLength, type DataType } from '../tensor/types.js';
import { MOST_STEPS } from './pace.js';

/** A request's part of a task: nodes [step, step + steps) of a stage's chain. */
export interface Share<S> {
  readonly stage: S;
  readonly step: number;
  readonly steps: number;
  /** Where a value of the request is. */
  readonly at: (place: Place) => number;
}

/** Plans kept a cell type. */
const PLANS = 96;

const FLOAT = 4;

/** Steps of the recurrences' plans; the last is the most that a task has. */
const STEPS = [1, 8, MOST_STEPS];

/** The next of 1, 2, 3, 4, 6, 8, 12, 16, 24, … : never more than half as many again are computed for nothing. */
export function rounded(n: number): number {
  if (n <= 4) return n;
  const power = 2 ** Math.floor(Math.log2(n));
  if (n === power) return n;
  return n <= power * 1.5 ? power * 1.5 : power * 2;
}

export class Stages {
  readonly #program: Program;
  readonly #memory: ModelMemory;
  readonly #workspace: Workspace;
  readonly #programs = new WeakMap<Graph, Program>();
  readonly #plans = new Map<string, Map<string, Plan>>();

  /** `program`: the whole graph's. */
  constructor(program: Program, executor: Executor, memory: ModelMemory, heap: Heap) {
    this.#program = program;
    this.#memory = memory;
    this.#workspace = new Workspace(executor, heap);
  }

  /** The program of a stage. */
  programOf(graph: Graph): Program {
    let found = this.#programs.get(graph);
    if (found === undefined) {
      found = this.#program.nested(graph);
      this.#programs.set(graph, found);
    }
    return found;
  }

  /** Runs chunks of times; gives how many rows that were. */
  rows(shares: readonly Share<RowsStage>[]): number {
    const { stage } = shares[0]!;
    const parts = shares.map((s) => {
      const first = s.step * s.stage.chunk;
      return { ...s, first, times: Math.min(s.stage.times, first + s.steps * s.stage.chunk) - first };
    });
    const count = parts.reduce((n, p) => n + p.times, 0);
    const times = rounded(count);
    const resized = ({ place, axis }: Sequence) => place.dims.map((d, i) => (i === axis ? times : d));
    const laid = this.#lay(stage.type, `${times}`, stage.graph, () =>
      stage.inputs.map((s) => [s.name, s.place.type, resized(s)] as const),
    );
    stage.inputs.forEach((sequence, i) => {
      const to = laid.input(sequence.name);
      if (to === undefined) return;
      const { outer, inner } = sizes(sequence);
      let position = 0;
      for (const p of parts) {
        const from = p.stage.inputs[i]!;
        const length = from.place.dims[from.axis]!;
        this.#strips(
          p.at(from.place) + p.first * inner,
          length * inner,
          to + position * inner,
          times * inner,
          outer,
          p.times * inner,
        );
        position += p.times;
      }
      // What fills up is the first row again: an index among the elements is in range then.
      for (; position < times; position++)
        this.#strips(to, times * inner, to + position * inner, times * inner, outer, inner);
    });
    laid.run();
    stage.outputs.forEach((sequence, i) => {
      const from = laid.result(sequence.name);
      const { outer, inner } = sizes(sequence);
      let position = 0;
      for (const p of parts) {
        const to = p.stage.outputs[i]!;
        const length = to.place.dims[to.axis]!;
        this.#strips(
          from + position * inner,
          times * inner,
          p.at(to.place) + p.first * inner,
          length * inner,
          outer,
          p.times * inner,
        );
        position += p.times;
      }
    });
    return count * stage.rows;
  }

  /** Runs steps of recurrences; gives how many rows took part, and which shares have nothing more to do. */
  steps(shares: readonly Share<StepsStage>[]): { readonly rows: number; readonly ended: readonly number[] } {
    const { stage } = shares[0]!;
    const { directions, hidden, width } = stage;
    const rows: Row[] = [];
    const ended: number[] = [];
    let most = 1;
    shares.forEach((share, index) => {
      if (share.step === 0) this.#begin(share);
      let more = false;
      for (let row = 0; row < share.stage.rows; row++) {
        const length = this.#lengthOf(share, row);
        const count = Math.min(share.steps, length - share.step);
        if (count > 0) rows.push({ share, row, length, count });
        if (count > 0) most = Math.max(most, count);
        if (length > share.step + share.steps) more = true;
      }
      if (!more) ended.push(index);
    });
    if (rows.length === 0) return { rows: 0, ended };
    const n = rows.length;
    const steps = STEPS.find((s) => s >= most)!;
    const laid = this.#lay(stage.type, `${n} ${steps}`, stage.graph, () => [
      ['g', 'float32', [directions, n, steps, width]],
      ['lengths', 'int32', [n]],
      ...stateNames(stage).map((name) => [name, 'float32', [directions, n, hidden]] as const),
    ]);
    const g = laid.input('g')!;
    const { u8, i32 } = this.#memory;
    const lengths = laid.input('lengths')! >>> 2;
    rows.forEach((r, i) => {
      i32[lengths + i] = r.count;
      const products = r.share.at(r.share.stage.products);
      for (let d = 0; d < directions; d++) {
        const { first, stride } = this.#walk(r, d, width);
        this.#gather(u8, products + first, stride, g + (d * n + i) * steps * width * FLOAT, width * FLOAT, r.count);
      }
    });
    const states = stateNames(stage);
    this.#eachState(rows, (r, i, d, at) => {
      states.forEach((name, k) => {
        const from = r.share.at(r.share.stage.states[k]!.place) + at;
        u8.copyWithin(laid.input(name)! + (d * n + i) * hidden * FLOAT, from, from + hidden * FLOAT);
      });
    });
    laid.run(stepsUpTo(laid.plan, most, steps));
    const results = states.map((name) => laid.result(`${name}Next`));
    this.#eachState(rows, (r, i, d, at) => {
      states.forEach((_, k) => {
        const from = results[k]! + (d * n + i) * hidden * FLOAT;
        u8.copyWithin(r.share.at(r.share.stage.states[k]!.place) + at, from, from + hidden * FLOAT);
      });
    });
    if (stage.y !== undefined) {
      const y = laid.result('y');
      rows.forEach((r, i) => {
        const to = r.share.at(r.share.stage.y!);
        for (let d = 0; d < directions; d++) this.#scatterY(u8, r, d, y + (d * n + i) * steps * hidden * FLOAT, to);
      });
    }
    return { rows: n, ended };
  }

  /** The states a request starts from, in its block; outputs of times that a row does not have are zero. */
  #begin({ stage, at }: Share<StepsStage>): void {
    const { u8 } = this.#memory;
    for (const { from, place } of stage.states) {
      const to = at(place);
      const bytes = byteLength(place.type, sizeOf(place.dims));
      if (from === undefined) u8.fill(0, to, to + bytes);
      else if (from.kind === 'constant') u8.set(bytesOf(from.value), to);
      else u8.copyWithin(to, at(from), at(from) + bytes);
    }
    if (stage.lengths !== undefined && stage.y !== undefined) {
      const to = at(stage.y);
      u8.fill(0, to, to + byteLength(stage.y.type, sizeOf(stage.y.dims)));
    }
  }

  #lengthOf({ stage, at }: Share<StepsStage>, row: number): number {
    const { lengths, times } = stage;
    if (lengths === undefined) return times;
    const length =
      lengths.kind === 'constant'
        ? Number((lengths.value.data as Int32Array)[row])
        : this.#memory.i32[(at(lengths) >>> 2) + row]!;
    return Math.max(0, Math.min(times, length));
  }

  /** Where a row's products of a direction begin, and how far they are apart, in its order of time; in bytes. */
  #walk({ share, row, length }: Row, direction: number, width: number): { first: number; stride: number } {
    const { stage, step } = share;
    const { times, rows, batchFirst, backwards } = stage;
    const back = backwards[direction]!;
    const time = back ? length - 1 - step : step;
    const line = width * FLOAT;
    const apart = batchFirst ? line : rows * line;
    const start = direction * times * rows * line + (batchFirst ? row * times * line : row * line);
    return { first: start + time * apart, stride: back ? -apart : apart };
  }

  #scatterY(u8: Uint8Array, r: Row, direction: number, from: number, y: number): void {
    const { stage, step } = r.share;
    const { times, rows, directions, hidden, batchFirst, backwards } = stage;
    const line = hidden * FLOAT;
    const back = backwards[direction]!;
    const time = back ? r.length - 1 - step : step;
    const apart = batchFirst ? directions * line : directions * rows * line;
    const start = batchFirst ? (r.row * times * directions + direction) * line : (direction * rows + r.row) * line;
    const stride = back ? -apart : apart;
    this.#gather(u8, from, line, y + start + time * apart, stride, r.count, line);
  }

  /** Where the state of each row and direction begins in its block, in bytes. */
  #eachState(rows: readonly Row[], visit: (row: Row, i: number, direction: number, at: number) => void): void {
    rows.forEach((r, i) => {
      const { directions, hidden, batchFirst, rows: all } = r.share.stage;
      for (let d = 0; d < directions; d++)
        visit(r, i, d, (batchFirst ? r.row * directions + d : d * all + r.row) * hidden * FLOAT);
    });
  }

  /** Copies `count` lines; at once where they lie side by side on both sides. */
  #gather(
    u8: Uint8Array,
    from: number,
    fromStride: number,
    to: number,
    toStride: number,
    count: number,
    line = toStride,
  ): void {
    if (fromStride === line && toStride === line) {
      u8.copyWithin(to, from, from + count * line);
      return;
    }
    for (let k = 0; k < count; k++) {
      const at = from + k * fromStride;
      u8.copyWithin(to + k * toStride, at, at + line);
    }
  }

  #strips(from: number, fromStride: number, to: number, toStride: number, count: number, bytes: number): void {
    const { u8 } = this.#memory;
    for (let o = 0; o < count; o++) {
      const at = from + o * fromStride;
      u8.copyWithin(to + o * toStride, at, at + bytes);
    }
  }

  #lay(
    type: string,
    key: string,
    graph: Graph,
    inputs: () => readonly (readonly [name: string, type: DataType, dims: readonly number[]])[],
  ): Laid {
    let plans = this.#plans.get(type);
    if (plans === undefined) {
      plans = new Map();
      this.#plans.set(type, plans);
      if (this.#plans.size > PLANS) this.#plans.delete(this.#plans.keys().next().value!);
    }
    let plan = plans.get(key);
    if (plan === undefined) {
      const feeds = new Map(inputs().map(([name, t, dims]) => [name, { type: t, dims }] as const));
      const wanted = graph.outputs.map((o) => o.name);
      const segment = this.programOf(graph).begin(feeds, wanted);
      if (segment.cut !== undefined) throw new SkepError('INTERNAL', `the plan of stage '${graph.name}' is cut`);
      plan = segment.plan;
      plans.set(key, plan);
      if (plans.size > PLANS) plans.delete(plans.keys().next().value!);
    }
    return this.#workspace.lay(plan);
  }
}

/** How many of a plan's steps compute the first `times` of `all` times. */
function stepsUpTo({ steps }: Plan, times: number, all: number): number {
  const isStep = (i: number) => {
    const step = steps[i]!;
    return step.kind === 'kernel' && step.kernel.endsWith('Step');
  };
  let calls = 0;
  for (let i = 0; i < steps.length; i++) if (isStep(i)) calls++;
  let left = (calls / all) * times;
  let i = 0;
  for (; left > 0; i++) if (isStep(i)) left--;
  return i;
}

/** A row of a request that takes part in a task: how long it is in all, and how many steps it takes. */
interface Row {
  readonly share: Share<StepsStage>;
  readonly row: number;
  readonly length: number;
  readonly count: number;
}

function stateNames(stage: StepsStage): readonly string[] {
  return stage.states.length === 2 ? ['h', 'c'] : ['h'];
}

/** How often, and in pieces of how many bytes, a sequence holds one time. */
function sizes({ place, axis }: Sequence): { outer: number; inner: number } {
  return {
    outer: sizeOf(place.dims.slice(0, axis)),
    inner: byteLength(place.type, sizeOf(place.dims.slice(axis + 1))),
  };
}
