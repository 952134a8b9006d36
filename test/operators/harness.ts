// Runs one node both ways, by its reference semantics and by the kernels of a build, and compares. The oracle of every
// operator test: `check(node)` asserts that the results agree and that a kernel (not the fallback) was used.
import * as assert from 'uvu/assert';
import { Program } from '../../src/compiler/program.js';
import type { Attribute, Graph, Node } from '../../src/graph/graph.js';
import type { Kernel } from '../../src/kernels/abi.js';
import type { WeightType } from '../../src/kernels/int8.js';
import { type Build, bindKernels, canRun, compileKernelsSync, type Kernels } from '../../src/kernels/module.js';
import { interpret } from '../../src/operators/evaluate.js';
import type { HostValue } from '../../src/operators/operator.js';
import { SharedConstants } from '../../src/runtime/constants.js';
import { Executor } from '../../src/runtime/executor.js';
import { Heap, ModelMemory } from '../../src/runtime/memory.js';
import type { Carried } from '../../src/runtime/staged.js';
import { createTeamBuffer, TeamLeader } from '../../src/runtime/team.js';
import { readValues, writeValues } from '../../src/runtime/wire.js';
import { decode } from '../../src/tensor/convert.js';
import { bytesOf, Tensor } from '../../src/tensor/tensor.js';

/** The builds this runtime can run; tests go over all of them. */
export const builds: readonly Build[] = canRun('fma') ? ['plain', 'fma'] : ['plain'];

const modules = new Map<Build, WebAssembly.Module>();

export interface NodeTest {
  readonly op: string;
  readonly domain?: string;
  readonly opset?: number;
  /** null: an omitted optional input. */
  readonly inputs: readonly (HostValue | undefined)[];
  /** Inputs that are constants of the model (weights) rather than fed, by index. */
  readonly constants?: readonly number[];
  readonly attributes?: Readonly<Record<string, Attribute>>;
  /** Number of outputs; default 1. */
  readonly outputs?: number;
}

/** A graph of one node. */
export function graphOf(t: NodeTest): { graph: Graph; feeds: Map<string, HostValue> } {
  const names = t.inputs.map((x, i) => (x === undefined ? '' : `x${i}`));
  const outputs = Array.from({ length: t.outputs ?? 1 }, (_, i) => `y${i}`);
  const node: Node = {
    op: t.op,
    domain: t.domain ?? '',
    opset: t.opset ?? 24,
    name: 'test',
    inputs: names,
    outputs,
    attributes: t.attributes ?? {},
  };
  const initializers = new Map<string, Tensor>();
  const feeds = new Map<string, HostValue>();
  t.inputs.forEach((x, i) => {
    if (x === undefined) return;
    if (t.constants?.includes(i)) initializers.set(names[i]!, x as Tensor);
    else feeds.set(names[i]!, x);
  });
  const graph: Graph = {
    name: 'test',
    inputs: [...feeds.keys()].map((name) => ({ name })),
    outputs: outputs.map((name) => ({ name })),
    initializers,
    nodes: [node],
  };
  return { graph, feeds };
}

/** Interprets with reference semantics. */
export function runReference(t: NodeTest): HostValue[] {
  const { graph, feeds } = graphOf(t);
  const out = interpret(graph, feeds);
  return graph.outputs.map((o) => out.get(o.name)!);
}

/** Kernels that compute every step in pieces of 1, 2, 3, 1, … units, the last first: results must not depend on that. */
function divided(kernels: Kernels): Kernels {
  const inPieces =
    (kernel: Kernel): Kernel =>
    (params, begin, end, scratch) => {
      let size = 1;
      for (let to = end; to > begin; size = (size % 3) + 1) {
        const from = Math.max(begin, to - size);
        kernel(params, from, to, scratch);
        to = from;
      }
    };
  return Object.fromEntries(Object.entries(kernels).map(([name, k]) => [name, inPieces(k)])) as unknown as Kernels;
}

export interface RunOptions {
  readonly kernels?: boolean;
  readonly fuse?: boolean;
  readonly winograd?: boolean;
  readonly weights?: WeightType;
  /** Every step in small pieces, in another order. */
  readonly divide?: boolean;
}

/** What a run of a graph gave, and what it ran. */
export interface GraphRun {
  readonly outputs: Map<string, HostValue>;
  /** Kernels called, in order. */
  readonly kernels: string[];
  /** Operators that ran their reference as a step. */
  readonly references: string[];
  /** The operator of every step. */
  readonly operators: string[];
}

/** A graph on this thread, its plans and weights kept between runs. */
export class GraphRunner {
  readonly program: Program;
  readonly #memory: ModelMemory;
  readonly #heap: Heap;
  readonly #executor: Executor;

  constructor(graph: Graph, build: Build = 'plain', { divide = false, ...options }: RunOptions = {}) {
    const memory = new ModelMemory();
    const heap = new Heap(memory);
    let module = modules.get(build);
    if (module === undefined) {
      module = compileKernelsSync(build);
      modules.set(build, module);
    }
    const bound = bindKernels(module, memory.memory);
    const team = new TeamLeader(createTeamBuffer(), divide ? divided(bound) : bound, 1, false);
    this.#memory = memory;
    this.#heap = heap;
    this.#executor = new Executor(memory, team, heap);
    const constants = new SharedConstants(SharedConstants.createBuffer(), memory, heap);
    this.program = new Program(graph, { build, ...options }, constants);
  }

  run(feeds: ReadonlyMap<string, HostValue>, wanted = this.program.graph.outputs.map((o) => o.name)): GraphRun {
    const outputs = new Map<string, HostValue>();
    const kernels: string[] = [];
    const references: string[] = [];
    const operators: string[] = [];
    const executor = this.#executor;
    const memory = this.#memory;
    // Where a caller puts them: plans read them there, and must leave them as they are.
    const names = [...feeds.keys()];
    const block = writeValues(memory, this.#heap, [...feeds.values()]);
    const staged = readValues(memory, block) as Carried[];
    executor.run(
      this.program,
      new Map(names.map((name, i) => [name, staged[i]!])),
      wanted,
      (values) => {
        for (const [i, v] of values.entries()) outputs.set(wanted[i]!, executor.toHost(v));
      },
      {
        step: (step) => {
          operators.push(step.operator);
          if (step.kind === 'kernel') kernels.push(step.kernel);
          else references.push(step.node.op);
        },
      },
    );
    for (const [i, name] of names.entries())
      assertSameBits(executor.toHost(staged[i]!), feeds.get(name)!, `input ${name} after the run`);
    this.#heap.free(block);
    return { outputs, kernels, references, operators };
  }
}

/** Compiles and executes a graph on this thread. */
export function runGraph(
  graph: Graph,
  feeds: ReadonlyMap<string, HostValue>,
  build: Build = 'plain',
  options: RunOptions = {},
): GraphRun {
  return new GraphRunner(graph, build, options).run(feeds);
}

/** Runs a node with the kernels of a build. */
export function runKernels(
  t: NodeTest,
  build: Build = 'plain',
  options: RunOptions = {},
): { outputs: HostValue[]; kernels: string[]; references: string[] } {
  const { graph, feeds } = graphOf(t);
  const r = runGraph(graph, feeds, build, options);
  return { ...r, outputs: graph.outputs.map((o) => r.outputs.get(o.name)!) };
}

export interface Tolerance {
  readonly rtol?: number;
  readonly atol?: number;
}

/** Asserts equal types and shapes and |got − want| ≤ atol + rtol·|want| (NaN equals NaN); exact for strings. */
export function assertClose(
  got: HostValue,
  want: HostValue,
  { rtol = 1e-5, atol = 1e-6 }: Tolerance = {},
  what = 'output',
): void {
  if (want === null || got === null) {
    assert.is(got, want, what);
    return;
  }
  if (!(want instanceof Tensor) || !(got instanceof Tensor)) {
    const w = want as readonly HostValue[];
    const g = got as readonly HostValue[];
    assert.is(g.length, w.length, `${what}: sequence length`);
    for (const [i, x] of w.entries()) assertClose(g[i]!, x, { rtol, atol }, `${what}[${i}]`);
    return;
  }
  assert.is(got.type, want.type, `${what}: type`);
  assert.equal(got.dims, want.dims, `${what}: shape`);
  if (want.type === 'string') {
    assert.equal(got.data, want.data, what);
    return;
  }
  const g = decode(got);
  const w = decode(want);
  for (let i = 0; i < w.length; i++) {
    const a = g[i]!;
    const b = w[i]!;
    if (Object.is(a, b) || (Number.isNaN(a) && Number.isNaN(b)) || a === b) continue;
    if (!(Math.abs(a - b) <= atol + rtol * Math.abs(b))) assert.unreachable(`${what}[${i}]: got ${a}, want ${b}`);
  }
}

/** Asserts the same bits; what is not made of numbers must be equal. */
export function assertSameBits(got: HostValue, want: HostValue, what = 'output'): void {
  if (!(want instanceof Tensor) || want.type === 'string') {
    assertClose(got, want, {}, what);
    return;
  }
  assert.ok(got instanceof Tensor && want instanceof Tensor);
  assert.equal(got.dims, want.dims, `${what}: shape`);
  assert.ok(Buffer.from(bytesOf(got)).equals(Buffer.from(bytesOf(want))), `${what}: bits differ`);
}

/**
 * Reference against kernels, every build, and the same bits however steps are divided; a kernel must have been used
 * unless `fallback`.
 */
export function check(t: NodeTest, tolerance?: Tolerance & { readonly fallback?: boolean }): void {
  const want = runReference(t);
  for (const build of builds) {
    const { outputs, references } = runKernels(t, build);
    if (tolerance?.fallback !== true) assert.equal(references, [], `${t.op}: fell back to the reference`);
    for (const [i, w] of want.entries()) assertClose(outputs[i]!, w, tolerance, `${t.op} (${build}) output ${i}`);
    if (references.length > 0) continue;
    const pieces = runKernels(t, build, { divide: true }).outputs;
    for (const [i, y] of outputs.entries()) assertSameBits(pieces[i]!, y, `${t.op} (${build}) output ${i} in pieces`);
  }
}
