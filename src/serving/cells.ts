// Requests that are cut into cells, on an instance's side: how a request is cut, which tells the scheduler its chains; and
// running a task of them, whatever stage it is of. How to picture a request's way:
//
//   admit ─▶ chains, a block ─▶ rows ▭▭ │ steps ○○○○ │ … each task with whom it meets │ end ■ ─▶ its answer
//
// What is where in a plan is stages.ts, whose turn it is dispatch.ts. A stage that fails for several requests is run for
// each by itself: a broken request fails alone. A request that nobody waits for any more is told to end at its next task.
import type { Cut, Place, Stage, Uncut } from '../compiler/cell-stages.js';
import { Cutter } from '../compiler/cells.js';
import type { Program } from '../compiler/program.js';
import type { Graph, ValueInfo } from '../graph/graph.js';
import { type Channel, Status } from '../runtime/channel.js';
import type { Executor } from '../runtime/executor.js';
import type { Heap, ModelMemory } from '../runtime/memory.js';
import { type Carried, copyTo, isInMemory, isStaged, type Staged } from '../runtime/staged.js';
import { writeValues } from '../runtime/wire.js';
import { SkepError } from '../tensor/errors.js';
import { candidateAxes } from './axes.js';
import { type Batching, batchingOfCut, digest } from './batching.js';
import type { Dispatch } from './dispatch.js';
import { type Share, Stages } from './stages.js';
import type { CellRequest, Done, Ending, Entry } from './turn.js';

/** What is read of a request. */
export interface ReadRequest {
  readonly slot: number;
  readonly generation: number;
  /** In the order of the model's inputs. */
  readonly values: readonly (Carried | undefined)[];
  /** Indices of outputs. */
  readonly wanted: Int32Array;
}

export interface CellsParts {
  readonly graph: Graph;
  /** What the caller may feed. */
  readonly inputs: readonly ValueInfo[];
  readonly outputs: readonly ValueInfo[];
  readonly program: Program;
  readonly executor: Executor;
  readonly memory: ModelMemory;
  readonly heap: Heap;
  readonly channel: Channel;
  readonly dispatch: Dispatch;
  readonly read: (slot: number) => ReadRequest;
  /** An answer, or an error, that the caller will read. */
  readonly hold: (slot: number, address: number) => void;
  readonly writeError: (error: unknown) => number;
}

/** A cut with what the scheduler is told of it. */
interface Known {
  readonly cut: Cut;
  readonly request: CellRequest;
}

interface Live {
  readonly request: ReadRequest;
  readonly cut: Cut;
  company: number;
}

/** Cuts kept: one a shape. */
const CUTS = 1024;

export class Cells {
  readonly #parts: CellsParts;
  readonly #cutter: Cutter;
  readonly #stages: Stages;
  readonly #cuts = new Map<string, Known | Uncut>();
  readonly #live = new Map<number, Live>();
  #batching: Batching | undefined;

  constructor(parts: CellsParts) {
    this.#parts = parts;
    const { graph, inputs, program, executor, memory, heap } = parts;
    this.#cutter = new Cutter(graph, timeAxes(inputs));
    this.#stages = new Stages(program, executor, memory, heap);
  }

  /** Whether any request may be cut. */
  get possible(): boolean {
    return this.#cutter.recurrent;
  }

  /** How the requests that came first are cut; undefined before. */
  get batching(): Batching | undefined {
    return this.#batching;
  }

  /** How the scheduler gets the request; undefined: in one piece. */
  admit(request: ReadRequest): CellRequest | undefined {
    const known = this.#known(request);
    if ('why' in known) return undefined;
    this.#live.set(request.slot, { request, cut: known.cut, company: 0 });
    return known.request;
  }

  /** Runs a task. */
  run(type: number, entries: readonly Entry[]): Done {
    const { dispatch, channel } = this.#parts;
    const endings: Ending[] = [];
    const stopped: number[] = [];
    const shares: { readonly entry: number; readonly slot: number; readonly share: Share<Stage> }[] = [];
    entries.forEach(({ slot, block, stage, step, steps }, entry) => {
      if (block === undefined || channel.aborted(slot)) {
        endings.push({ entry, status: Status.cancelled, address: 0 });
        return;
      }
      const { request, cut } = this.#take(slot);
      const at = (place: Place) => this.#at(place, request, block);
      shares.push({ entry, slot, share: { stage: cut.stages[stage]!, step, steps, at } });
    });
    const [first] = shares;
    if (first === undefined) return { type, measured: undefined, mergeable: true, endings };
    for (const { slot } of shares) this.#together(slot, shares.length);
    dispatch.count(shares.length);
    const { stage } = first.share;
    if (stage.kind === 'end' || stage.kind === 'whole') {
      const ending = stage.kind === 'end' ? this.#end(first.slot, first.share) : this.#whole(first.slot, first.share);
      if (ending !== undefined) endings.push({ ...ending, entry: first.entry });
      return { type, measured: undefined, mergeable: true, endings };
    }
    const begun = performance.now();
    const run = (some: typeof shares): number => {
      if (stage.kind === 'rows') return this.#stages.rows(some.map((s) => s.share as Share<typeof stage>));
      const { rows, ended } = this.#stages.steps(some.map((s) => s.share as Share<typeof stage>));
      for (const i of ended) stopped.push(some[i]!.entry);
      return rows;
    };
    try {
      const rows = run(shares);
      const steps = Math.max(...shares.map((s) => s.share.steps));
      const measured = rows === 0 ? undefined : { rows, milliseconds: performance.now() - begun, steps };
      return { type, measured, mergeable: true, stopped, endings };
    } catch (error) {
      const fail = (s: (typeof shares)[number], why: unknown) => {
        const address = this.#parts.writeError(why);
        this.#parts.hold(s.slot, address);
        endings.push({ entry: s.entry, status: Status.failed, address });
      };
      stopped.length = 0;
      if (shares.length === 1) fail(first, error);
      else
        for (const s of shares) {
          try {
            run([s]);
          } catch (own) {
            fail(s, own);
          }
        }
      return { type, measured: undefined, mergeable: true, stopped, endings };
    }
  }

  #known({ values, wanted }: ReadRequest): Known | Uncut {
    if (!values.every((v) => v === undefined || isStaged(v))) return { why: 'an input is no tensor of numbers' };
    let key = wanted.join();
    for (const v of values as readonly (Staged | undefined)[])
      key += v === undefined ? '|' : `|${v.type}[${v.dims.join()}]`;
    let known = this.#cuts.get(key);
    if (known === undefined) {
      known = this.#cut(values as readonly (Staged | undefined)[], wanted);
      this.#cuts.set(key, known);
      if (this.#cuts.size > CUTS) this.#cuts.delete(this.#cuts.keys().next().value!);
    }
    return known;
  }

  #cut(values: readonly (Staged | undefined)[], wanted: Int32Array): Known | Uncut {
    const { inputs, outputs } = this.#parts;
    const fed = new Map(values.flatMap((v, i) => (v === undefined ? [] : [[inputs[i]!.name, v] as const])));
    let cut: Cut | Uncut;
    try {
      cut = this.#cutter.cut(
        fed,
        Array.from(wanted, (i) => outputs[i]!.name),
      );
    } catch (error) {
      // Called under the lock, where nothing may fail: what cannot be cut is tried whole, and fails there if it must.
      return { why: (error as Error).message };
    }
    if ('why' in cut) return cut;
    this.#batching ??= batchingOfCut(inputs, cut);
    return { cut, request: { bytes: cut.bytes, parts: cut.stages.map(partOf) } };
  }

  #take(slot: number): Live {
    const { channel, read } = this.#parts;
    const live = this.#live.get(slot);
    if (live !== undefined && live.request.generation === channel.generation(slot)) return live;
    const request = read(slot);
    const known = this.#known(request);
    if ('why' in known) throw new SkepError('INTERNAL', `a request is cut by one instance only: ${known.why}`);
    const taken = { request, cut: known.cut, company: 0 };
    this.#live.set(slot, taken);
    return taken;
  }

  #together(slot: number, company: number): void {
    const live = this.#live.get(slot)!;
    if (company <= live.company) return;
    live.company = company;
    this.#parts.channel.together(slot, company);
  }

  #at(place: Place, request: ReadRequest, block: number): number {
    switch (place.kind) {
      case 'block':
        return block + place.offset;
      case 'input':
        return (request.values[this.#parts.inputs.findIndex((v) => v.name === place.name)] as Staged).address;
      case 'constant':
        throw new SkepError('INTERNAL', 'a constant is not in the memory');
      default:
        return place satisfies never;
    }
  }

  #carried(place: Place, share: Share<Stage>): Carried {
    if (place.kind === 'constant') return place.value;
    const { type, dims } = place;
    return { kind: 'staged', type, dims, address: share.at(place) };
  }

  /** Runs what is not cut and puts its results into the block. */
  #whole(slot: number, share: Share<Stage>): Omit<Ending, 'entry'> | undefined {
    const stage = share.stage as Stage & { kind: 'whole' };
    const places = [...stage.outputs.values()];
    return this.#guarded(slot, () => {
      this.#run(slot, stage.graph, stage.inputs, [...stage.outputs.keys()], share, (found) => {
        found.forEach((value, i) => {
          const to = share.at(places[i]!);
          if (isInMemory(value)) copyTo(this.#parts.memory, value, to);
          else throw new SkepError('INTERNAL', `a value of stage '${stage.id}' is not in the memory`);
        });
      });
      return undefined;
    });
  }

  /** Computes what is left and writes the answer. */
  #end(slot: number, share: Share<Stage>): Omit<Ending, 'entry'> | undefined {
    const stage = share.stage as Stage & { kind: 'end' };
    const { memory, heap } = this.#parts;
    return this.#guarded(slot, () => {
      const names = stage.outputs.flatMap((o) => (o.place === undefined ? [o.name] : []));
      const write = (computed: readonly Carried[]) => {
        let next = 0;
        const values = stage.outputs.map((o) =>
          o.place === undefined ? computed[next++]! : this.#carried(o.place, share),
        );
        return writeValues(memory, heap, values);
      };
      const { graph } = stage;
      const address = graph === undefined ? write([]) : this.#run(slot, graph, stage.inputs, names, share, write);
      this.#parts.hold(slot, address);
      return { status: Status.answered, address };
    });
  }

  #run<T>(
    slot: number,
    graph: Graph,
    inputs: ReadonlyMap<string, Place>,
    wanted: readonly string[],
    share: Share<Stage>,
    take: (found: readonly Carried[]) => T,
  ): T {
    const { executor, channel } = this.#parts;
    const feeds = new Map([...inputs].map(([name, place]) => [name, this.#carried(place, share)] as const));
    const check = () => {
      if (channel.aborted(slot)) throw new Aborted();
    };
    return executor.run(this.#stages.programOf(graph), feeds, wanted, take, { check });
  }

  #guarded(slot: number, run: () => Omit<Ending, 'entry'> | undefined): Omit<Ending, 'entry'> | undefined {
    try {
      return run();
    } catch (error) {
      if (error instanceof Aborted) return { status: Status.cancelled, address: 0 };
      const address = this.#parts.writeError(error);
      this.#parts.hold(slot, address);
      return { status: Status.failed, address };
    }
  }
}

/** Axes of inputs that may be time, best first. */
export function timeAxes(inputs: readonly ValueInfo[]): ReadonlyMap<string, number>[] {
  return candidateAxes(inputs).map(
    (axes) => new Map(axes.flatMap((axis, i) => (axis === undefined ? [] : [[inputs[i]!.name, axis] as const]))),
  );
}

function partOf(stage: Stage): CellRequest['parts'][number] {
  const { length, order } = stage;
  switch (stage.kind) {
    case 'rows': {
      const rowsAtOnce = stage.chunk * stage.rows;
      return {
        digest: words(stage.type),
        length,
        rows: stage.rows,
        order,
        chunk: stage.chunk,
        needs: stage.chunk,
        rowsAtOnce,
      };
    }
    case 'steps':
      return { digest: words(stage.type), length, rows: stage.rows, order, chunk: 1, needs: 1, rowsAtOnce: 0 };
    case 'whole':
    case 'end':
      return { digest: undefined, length, rows: 1, order, chunk: 1, needs: 1, rowsAtOnce: 0 };
    default:
      return stage satisfies never;
  }
}

const words = (type: string) => new Int32Array(new Uint8Array(digest(type)).buffer);

/** Stops a run between two steps. */
class Aborted extends Error {}
