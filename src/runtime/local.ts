// A model on the caller's thread: for tools and tests that want an answer and what was run for it, not a server. It blocks
// until the run is over. Models that serve are in serving/.
import { Program } from '../compiler/program.js';
import type { Graph } from '../graph/graph.js';
import type { WeightType } from '../kernels/int8.js';
import { type Build, bindKernels, compileKernelsSync, defaultBuild } from '../kernels/module.js';
import { bestTile, type Tile } from '../kernels/tile.js';
import { interpret } from '../operators/evaluate.js';
import type { HostValue } from '../operators/operator.js';
import { SharedConstants } from './constants.js';
import { Executor, type Watch } from './executor.js';
import { Heap, ModelMemory } from './memory.js';
import type { Carried } from './staged.js';
import { createTeamBuffer, TeamLeader } from './team.js';

/** Who computes: `reference` interprets with the operators' reference semantics, `kernels` compiles and executes plans. */
export type LocalEngine = 'reference' | 'kernels';

export interface LocalOptions {
  /** Default `kernels`. */
  readonly engine?: LocalEngine;
  /** The kernels' build; default the one this machine serves with. */
  readonly build?: Build;
  /** How weights are kept. */
  readonly weights?: WeightType;
  /** The register tile of matrix products; default the best for the build. */
  readonly tile?: Tile;
  /** The build compiled with 256-bit instructions. */
  readonly wide?: WebAssembly.Module | undefined;
  /** False: no Winograd convolutions. Default true. */
  readonly winograd?: boolean;
}

const compiled = new Map<Build, WebAssembly.Module>();

function moduleOf(build: Build): WebAssembly.Module {
  let module = compiled.get(build);
  if (module === undefined) {
    module = compileKernelsSync(build);
    compiled.set(build, module);
  }
  return module;
}

export class LocalModel {
  readonly graph: Graph;
  readonly #compiled: { readonly executor: Executor; readonly program: Program } | undefined;

  constructor(graph: Graph, { engine = 'kernels', build = defaultBuild(), wide, ...options }: LocalOptions = {}) {
    this.graph = graph;
    if (engine === 'reference') return;
    const memory = new ModelMemory();
    const heap = new Heap(memory);
    const alone = new TeamLeader(createTeamBuffer(), bindKernels(moduleOf(build), memory.memory, wide), 1, false);
    this.#compiled = {
      executor: new Executor(memory, alone, heap),
      program: new Program(
        graph,
        { build, tile: bestTile(build, wide !== undefined), ...options },
        new SharedConstants(SharedConstants.createBuffer(), memory, heap),
      ),
    };
  }

  /**
   * Computes every output. `feeds` must hold the inputs without a default, with the types and shapes the model expects.
   * `onStep` sees each step of the plans; the reference has none.
   */
  run(feeds: ReadonlyMap<string, HostValue>, onStep?: Watch['step']): Map<string, HostValue> {
    if (this.#compiled === undefined) return interpret(this.graph, feeds);
    const { executor, program } = this.#compiled;
    const outputs = new Map<string, HostValue>();
    const wanted = this.graph.outputs.map((o) => o.name);
    const take = (values: readonly Carried[]) => {
      for (const [i, v] of values.entries()) outputs.set(wanted[i]!, executor.toHost(v));
    };
    executor.run(program, feeds, wanted, take, onStep && { step: onStep });
    return outputs;
  }
}
