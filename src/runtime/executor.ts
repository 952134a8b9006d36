// Executing programs on one thread's memory: binds each segment's plan to an arena and to its inputs and results where they
// are, runs its steps, answers its cut, goes on with the next segment. How to picture a run of a program with cuts:
//
//   stack of arenas   ┌ segment 1 ┬ segment 2 ┬ …   a later segment reads an earlier one's values; all go when the run ends
//
// Threads, queues and who asks for a run are elsewhere: this is what an instance's leader does between two requests.
import { align } from '../compiler/layout.js';
import { type Argument, type Plan, SLACK, type Slot, type Step } from '../compiler/plan.js';
import { constantFeed, type Feed, feedOf, type Program } from '../compiler/program.js';
import { capturesOf, type Graph, type Node, subgraphsOf } from '../graph/graph.js';
import { evaluate, noSubgraph, type RunSubgraph } from '../operators/evaluate.js';
import type { HostValue, IndexRange } from '../operators/operator.js';
import { formatNode, SkepError } from '../tensor/errors.js';
import { bytesOf, Tensor } from '../tensor/tensor.js';
import type { DataType } from '../tensor/types.js';
import type { Heap, ModelMemory } from './memory.js';
import { type Carried, copyOut, copyTo, isInMemory, isStaged } from './staged.js';
import type { TeamLeader } from './team.js';

/** Who watches a run; either may throw to stop it. */
export interface Watch {
  /** Called before every step. */
  readonly step?: (step: Step) => void;
  /** Called as often, and before every segment: the body of a loop may be a segment without a step. */
  readonly check?: () => void;
}

/**
 * Says where results are to be written. Called once a run, before its last segment, with what is known of the wanted values;
 * gives an address for each of them: 64-byte aligned, readable for 64 bytes past the value's end. What is not computed
 * there in the first place is not copied there either: `take` sees where it is.
 */
export type Placing = (values: readonly (Carried | Unplaced)[]) => readonly number[];

/** A tensor that is still to be computed, and has no address yet. */
export interface Unplaced {
  readonly kind: 'unplaced';
  readonly type: DataType;
  readonly dims: readonly number[];
}

/** A plan whose words are in memory, relocated for the bases they were last run with. */
interface Bound {
  readonly words: number;
  readonly bases: Int32Array;
}

const NOWHERE: ReadonlyMap<string, number> = new Map();

export class Executor {
  readonly #memory: ModelMemory;
  readonly #team: TeamLeader;
  readonly #heap: Heap;
  /** Plans bound so far. The words of a plan nobody holds any more are freed by the registry. */
  readonly #bound = new WeakMap<Plan, Bound>();
  readonly #nested = new WeakMap<Graph, Program>();
  readonly #reclaim: FinalizationRegistry<number>;
  readonly #pendingFree: number[] = [];
  #scratch = { address: 0, bytes: 0 };

  constructor(memory: ModelMemory, team: TeamLeader, heap: Heap) {
    this.#memory = memory;
    this.#team = team;
    this.#heap = heap;
    this.#reclaim = new FinalizationRegistry((words) => this.#pendingFree.push(words));
  }

  /**
   * Runs a program. `take` is called once with the values of `wanted`, while the arenas they lie in are still held; what
   * it returns is returned. Feeds in one run of bytes are read where they are.
   */
  run<T>(
    program: Program,
    feeds: ReadonlyMap<string, Carried>,
    wanted: readonly string[],
    take: (values: readonly Carried[]) => T,
    watch?: Watch,
    place?: Placing,
  ): T {
    const values = new Map(feeds);
    const arenas: number[] = [];
    try {
      let segment = program.begin(new Map([...feeds].map(([n, v]) => [n, known(v)])), wanted);
      for (;;) {
        watch?.check?.();
        const { plan } = segment;
        for (const [name, v] of segment.folded) values.set(name, v);
        for (const [name, r] of plan.results) if (r.kind === 'constant') values.set(name, r.value);
        const bases = this.#place(plan, values, arenas, () => {
          if (place === undefined || segment.cut !== undefined) return NOWHERE;
          const addresses = place(wanted.map((name) => this.#foresee(program, plan, values, name)));
          return new Map(wanted.map((name, i) => [name, addresses[i]!]));
        });
        this.runPlan(plan, bases, watch);
        for (const [name, r] of plan.results) values.set(name, this.#carry(r, bases));
        if (segment.cut === undefined) break;
        const found = new Map<string, Feed>();
        if (segment.cut.kind === 'value') {
          const { name } = segment.cut;
          found.set(name, constantFeed(name, this.#tensor(values, name)));
        } else {
          for (const [name, v] of this.#runHost(program, segment.cut.node, values, watch)) {
            values.set(name, v);
            found.set(name, feedOf(v));
          }
        }
        segment = program.resume(segment, found);
      }
      return take(wanted.map((name) => find(program, values, name)));
    } finally {
      for (const a of arenas) this.#heap.free(a);
    }
  }

  /** Any carried value outside the model's memory. */
  toHost(value: Carried): HostValue {
    return copyOut(this.#memory, value);
  }

  /**
   * The addresses of a plan's bases. Inputs are left where they are when kernels can read them there; what has no place
   * gets one behind the arena.
   */
  #place(
    plan: Plan,
    values: ReadonlyMap<string, Carried>,
    arenas: number[],
    targets: () => ReadonlyMap<string, number>,
  ): Int32Array {
    const bases = new Int32Array(plan.externals.length + 1);
    let bytes = plan.arenaBytes;
    plan.externals.forEach((external, i) => {
      const value = values.get(external.name);
      if (external.role === 'input' && isStaged(value) && value.address % 16 === 0) bases[i + 1] = value.address;
      else bytes += align(external.bytes + SLACK);
    });
    const arena = this.#heap.allocate(bytes);
    arenas.push(arena);
    bases[0] = arena;
    const found = targets();
    let at = arena + plan.arenaBytes;
    plan.externals.forEach(({ name, role, bytes }, i) => {
      if (bases[i + 1] !== 0) return;
      const target = role === 'result' ? found.get(name) : undefined;
      bases[i + 1] = target ?? at;
      if (role === 'input') this.#write(at, values.get(name), name);
      at += align(bytes + SLACK);
    });
    return bases;
  }

  /** What is known of a wanted value before the plan that computes it runs. */
  #foresee(program: Program, plan: Plan, values: ReadonlyMap<string, Carried>, name: string): Carried | Unplaced {
    const r = plan.results.get(name);
    return r?.kind === 'slot' ? { kind: 'unplaced', type: r.type, dims: r.dims } : find(program, values, name);
  }

  /** Runs the steps of a plan, or the first so many, whose inputs are where `bases` (of its arena, then of its externals) say. */
  runPlan(plan: Plan, bases: Int32Array, watch?: Watch, count = plan.steps.length): void {
    const words = this.#bind(plan, bases);
    this.#reserveScratch(plan.threadScratchBytes);
    for (let i = 0; i < count; i++) {
      const step = plan.steps[i]!;
      watch?.check?.();
      watch?.step?.(step);
      if (step.kind === 'kernel') {
        if (step.indices !== undefined) this.#checkIndices(step, step.indices, words);
        this.#team.run(step.kernel, words + step.params * 4, step.units, step.grain);
      } else this.#runReference(step.node, step.inputs, step.results, bases);
    }
  }

  /** Kernels trust their indices. Throws INVALID_INPUT for one out of range. */
  #checkIndices(step: Step, range: IndexRange & { readonly word: number }, words: number): void {
    const { i32 } = this.#memory;
    const { wide, count, limits, negative, least = 0 } = range;
    const at = i32[(words >>> 2) + range.word]! >>> 2;
    const n = limits.length;
    for (let i = 0; i < count; i++) {
      const limit = limits[i % n]!;
      const low = wide ? i32[at + 2 * i]! : i32[at + i]!;
      const index = wide ? i32[at + 2 * i + 1]! * 2 ** 32 + (low >>> 0) : low;
      if (index >= limit || index < (negative ? -limit : least))
        throw new SkepError(
          'INVALID_INPUT',
          `${formatNode(step.nodes[0]!)}: index ${index} is outside [${negative ? -limit : least}, ${limit - 1}]`,
        );
    }
  }

  /** The address of the plan's words, with every pointer in place. */
  #bind(plan: Plan, bases: Int32Array): number {
    let bound = this.#bound.get(plan);
    const fresh = bound === undefined;
    if (bound === undefined) {
      for (const words of this.#pendingFree.splice(0)) this.#heap.free(words);
      bound = { words: this.#heap.allocate(plan.words.length * 4), bases: new Int32Array(bases.length) };
      this.#bound.set(plan, bound);
      this.#reclaim.register(plan, bound.words);
    }
    const { i32 } = this.#memory;
    const first = bound.words >>> 2;
    if (fresh) {
      i32.set(plan.words, first);
      for (const i of plan.wordRelocations) i32[first + i]! += bound.words;
    }
    for (let b = 0; b < bases.length; b++) {
      const moved = (bases[b]! - bound.bases[b]!) | 0;
      if (moved === 0) continue;
      for (const i of plan.relocations[b]!) i32[first + i]! += moved;
      bound.bases[b] = bases[b]!;
    }
    return bound.words;
  }

  #reserveScratch(bytes: number): void {
    if (bytes <= this.#scratch.bytes) return;
    if (this.#scratch.address !== 0) this.#heap.free(this.#scratch.address);
    this.#scratch = { address: this.#heap.allocate(bytes * this.#team.threads), bytes };
    this.#team.setScratch(this.#scratch.address, bytes);
  }

  #write(address: number, value: Carried | undefined, name: string): void {
    if (value === undefined) throw new SkepError('INTERNAL', `'${name}' is not there`);
    if (isInMemory(value)) copyTo(this.#memory, value, address);
    else if (value instanceof Tensor) this.#memory.u8.set(bytesOf(value), address);
    else throw new SkepError('INTERNAL', `'${name}' is no tensor`);
  }

  #runReference(
    node: Node,
    inputs: readonly (Argument | undefined)[],
    results: readonly (Slot | undefined)[],
    bases: Int32Array,
  ): void {
    const tensors = inputs.map((x) => (x === undefined ? undefined : copyOut(this.#memory, this.#carry(x, bases))));
    const outputs = evaluate(node, tensors, noSubgraph);
    results.forEach((slot, i) => {
      if (slot !== undefined) this.#write(addressOf(slot, bases), outputs[i], node.outputs[i]!);
    });
  }

  /** Runs a node whose outputs are known only by running it. */
  #runHost(program: Program, node: Node, values: ReadonlyMap<string, Carried>, watch?: Watch): Map<string, HostValue> {
    const get = (name: string): HostValue => {
      const carried = values.get(name);
      // null is a value: an empty optional.
      const v = carried === undefined ? initializer(program, name) : carried;
      if (v === undefined) throw new SkepError('INTERNAL', `'${name}' is not there`);
      return this.toHost(v);
    };
    const captured = new Map<Graph, Map<string, HostValue>>();
    for (const [, g] of subgraphsOf(node)) {
      const { initializers } = this.#nestedProgram(program, g).graph;
      const values = [...capturesOf(g)].filter((n) => !initializers.has(n)).map((n) => [n, get(n)] as const);
      captured.set(g, new Map(values));
    }
    const run: RunSubgraph = (graph, args) => {
      const nested = this.#nestedProgram(program, graph);
      const feeds = new Map<string, Carried>([
        ...captured.get(graph)!,
        ...graph.inputs.map((v, i) => [v.name, args[i]!] as const),
      ]);
      const wanted = graph.outputs.map((o) => o.name);
      return this.run(nested, feeds, wanted, (found) => found.map((v) => this.toHost(v)), watch);
    };
    const inputs = node.inputs.map((n) => (n === '' ? undefined : get(n)));
    let outputs: readonly HostValue[];
    try {
      outputs = evaluate(node, inputs, run);
    } catch (error) {
      if (!(error instanceof SkepError)) throw error;
      const infos = inputs.map((x) => (x instanceof Tensor ? x : undefined));
      const dimsOf = (name: string) => {
        const v = values.get(name);
        return v !== undefined && (v instanceof Tensor || isInMemory(v)) ? v.dims : undefined;
      };
      throw program.explain(error, node, infos, dimsOf);
    }
    return new Map(node.outputs.flatMap((n, i) => (n === '' ? [] : [[n, outputs[i]!] as const])));
  }

  #nestedProgram(program: Program, graph: Graph): Program {
    let nested = this.#nested.get(graph);
    if (nested === undefined) {
      nested = program.nested(graph);
      this.#nested.set(graph, nested);
    }
    return nested;
  }

  #carry(result: Argument, bases: Int32Array): Carried {
    if (result.kind === 'constant') return result.value;
    return { kind: 'staged', type: result.type, dims: result.dims, address: addressOf(result, bases) };
  }

  #tensor(values: ReadonlyMap<string, Carried>, name: string): Tensor {
    const v = values.get(name);
    const host = v === undefined ? undefined : this.toHost(v);
    if (!(host instanceof Tensor)) throw new SkepError('INVALID_MODEL', `'${name}' must be a tensor`);
    return host;
  }
}

/** Where a value of a plan is that runs with these bases. */
export function addressOf({ base, offset }: Slot, bases: Int32Array): number {
  return (bases[base]! >>> 0) + offset;
}

function find(program: Program, values: ReadonlyMap<string, Carried>, name: string): Carried {
  const carried = values.get(name);
  // null is a value: an empty optional.
  const v = carried === undefined ? initializer(program, name) : carried;
  if (v === undefined) throw new SkepError('INTERNAL', `output '${name}' was not computed`);
  return v;
}

function known(value: Carried): Feed {
  return isInMemory(value) ? { type: value.type, dims: value.dims } : feedOf(value);
}

function initializer(program: Program, name: string): HostValue | undefined {
  return program.graph.initializers.get(name);
}
