// Executing programs on one thread's memory: binds each segment's plan to an arena, writes its inputs, runs its steps,
// answers its cut, goes on with the next segment, and reads the results. How to picture a run of a program with cuts:
//
//   stack of arenas   ┌ segment 1 ┬ segment 2 ┬ …   values cross segments by copy; the stack unwinds when the run ends
//
// Threads, queues and who asks for a run are elsewhere: this is what an instance's leader does between two requests.
import type { Argument, Plan, Slot, Step } from '../compiler/plan.js';
import { constantFeed, type Feed, feedOf, type Program } from '../compiler/program.js';
import { capturesOf, type Graph, type Node, subgraphsOf } from '../graph/graph.js';
import { evaluate, noSubgraph, type RunSubgraph } from '../operators/evaluate.js';
import type { HostValue, IndexRange } from '../operators/operator.js';
import { formatNode, SkepError } from '../tensor/errors.js';
import { bytesOf, Tensor } from '../tensor/tensor.js';
import type { Heap, ModelMemory } from './memory.js';
import { type Carried, copyOut, copyTo, isInMemory } from './staged.js';
import type { TeamLeader } from './team.js';

/** Who watches a run; either may throw to stop it. */
export interface Watch {
  /** Called before every step. */
  readonly step?: (step: Step) => void;
  /** Called as often, and before every segment: the body of a loop may be a segment without a step. */
  readonly check?: () => void;
}

/** A plan whose words are in memory, relocated for an arena. */
interface Bound {
  readonly words: number;
  arena: number;
}

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
   * it returns is returned.
   */
  run<T>(
    program: Program,
    feeds: ReadonlyMap<string, Carried>,
    wanted: readonly string[],
    take: (values: readonly Carried[]) => T,
    watch?: Watch,
  ): T {
    for (const words of this.#pendingFree.splice(0)) this.#heap.free(words);
    const values = new Map(feeds);
    const arenas: number[] = [];
    try {
      let segment = program.begin(new Map([...feeds].map(([n, v]) => [n, known(v)])), wanted);
      for (;;) {
        watch?.check?.();
        const arena = this.#heap.allocate(segment.plan.arenaBytes);
        arenas.push(arena);
        this.#runPlan(segment.plan, arena, values, watch);
        for (const [name, r] of segment.plan.results) values.set(name, this.#carry(r, arena));
        for (const [name, v] of segment.folded) values.set(name, v);
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
      return take(
        wanted.map((name) => {
          const carried = values.get(name);
          // null is a value: an empty optional.
          const v = carried === undefined ? initializer(program, name) : carried;
          if (v === undefined) throw new SkepError('INTERNAL', `output '${name}' was not computed`);
          return v;
        }),
      );
    } finally {
      for (const a of arenas) this.#heap.free(a);
    }
  }

  /** Any carried value outside the model's memory. */
  toHost(value: Carried): HostValue {
    return copyOut(this.#memory, value);
  }

  #runPlan(plan: Plan, arena: number, values: ReadonlyMap<string, Carried>, watch?: Watch): void {
    const bound = this.#bind(plan, arena);
    for (const [name, slot] of plan.inputs) this.#write(slot, arena, values.get(name), name);
    this.#reserveScratch(plan.threadScratchBytes);
    for (const step of plan.steps) {
      watch?.check?.();
      watch?.step?.(step);
      if (step.kind === 'kernel' && step.indices !== undefined) this.#checkIndices(step, step.indices, bound.words);
      if (step.kind === 'kernel') this.#team.run(step.kernel, bound.words + step.params * 4, step.units, step.grain);
      else this.#runReference(step.node, step.inputs, step.results, arena);
    }
  }

  /** Kernels trust their indices. Throws INVALID_INPUT for one out of range. */
  #checkIndices(step: Step, range: IndexRange & { readonly word: number }, words: number): void {
    const { i32 } = this.#memory;
    const { wide, count, limits, negative } = range;
    const at = i32[(words >>> 2) + range.word]! >>> 2;
    const n = limits.length;
    for (let i = 0; i < count; i++) {
      const limit = limits[i % n]!;
      const low = wide ? i32[at + 2 * i]! : i32[at + i]!;
      const index = wide ? i32[at + 2 * i + 1]! * 2 ** 32 + (low >>> 0) : low;
      if (index >= limit || index < (negative ? -limit : 0))
        throw new SkepError(
          'INVALID_INPUT',
          `${formatNode(step.nodes[0]!)}: index ${index} is outside [${negative ? -limit : 0}, ${limit - 1}]`,
        );
    }
  }

  #bind(plan: Plan, arena: number): Bound {
    let bound = this.#bound.get(plan);
    if (bound === undefined) {
      bound = { words: this.#heap.allocate(plan.words.length * 4), arena };
      this.#bound.set(plan, bound);
      this.#reclaim.register(plan, bound.words);
    } else if (bound.arena === arena) return bound;
    const words = this.#memory.i32.subarray(bound.words >> 2, (bound.words >> 2) + plan.words.length);
    words.set(plan.words);
    for (const i of plan.arenaRelocations) words[i]! += arena;
    for (const i of plan.wordRelocations) words[i]! += bound.words;
    bound.arena = arena;
    return bound;
  }

  #reserveScratch(bytes: number): void {
    if (bytes <= this.#scratch.bytes) return;
    if (this.#scratch.address !== 0) this.#heap.free(this.#scratch.address);
    this.#scratch = { address: this.#heap.allocate(bytes * this.#team.threads), bytes };
    this.#team.setScratch(this.#scratch.address, bytes);
  }

  #write(slot: Slot, arena: number, value: Carried | undefined, name: string): void {
    if (value === undefined) throw new SkepError('INTERNAL', `'${name}' is not there`);
    const address = arena + slot.offset;
    if (isInMemory(value)) copyTo(this.#memory, value, address);
    else if (value instanceof Tensor) this.#memory.u8.set(bytesOf(value), address);
    else throw new SkepError('INTERNAL', `'${name}' is no tensor`);
  }

  #runReference(
    node: Node,
    inputs: readonly (Argument | undefined)[],
    results: readonly (Slot | undefined)[],
    arena: number,
  ): void {
    const tensors = inputs.map((x) => (x === undefined ? undefined : copyOut(this.#memory, this.#carry(x, arena))));
    const outputs = evaluate(node, tensors, noSubgraph);
    results.forEach((slot, i) => {
      if (slot !== undefined) this.#write(slot, arena, outputs[i], node.outputs[i]!);
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
    const outputs = evaluate(node, inputs, run);
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

  #carry(result: Argument, arena: number): Carried {
    return result.kind === 'constant'
      ? result.value
      : { kind: 'staged', type: result.type, dims: result.dims, address: arena + result.offset };
  }

  #tensor(values: ReadonlyMap<string, Carried>, name: string): Tensor {
    const v = values.get(name);
    const host = v === undefined ? undefined : this.toHost(v);
    if (!(host instanceof Tensor)) throw new SkepError('INVALID_MODEL', `'${name}' must be a tensor`);
    return host;
  }
}

function known(value: Carried): Feed {
  return isInMemory(value) ? { type: value.type, dims: value.dims } : feedOf(value);
}

function initializer(program: Program, name: string): HostValue | undefined {
  return program.graph.initializers.get(name);
}
