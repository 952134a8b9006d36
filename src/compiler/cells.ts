// A recurrent graph as cells: the stages that a request of it goes through, for the scheduler to run step by step with other
// requests' (cellular/). LSTM, GRU and RNN nodes are the recurrences; everything else lies before, between or after them:
//
//   tokens ─▶ ▭▭▭ embedding, X · Wᵀ ─▶ ○─○─○─○ LSTM steps ─▶ ▭▭▭ projection to the vocabulary ─▶ ■ the rest, the answer
//             rows: some times at once   steps: one a time      rows                              end: once a request
//
// A stage is `rows` where the batch-axis proof says that its results at a time depend on that time alone; then it runs in
// chunks, and chunks of several requests together. What is not proved is `whole`: it runs once a request. Each stage has a
// graph of its own, so that fusion and kernels do in it what they do in the whole graph; values that cross from stage to
// stage lie in the request's block, at offsets settled here. Running stages is serving/cells.ts.
import { capturesOf, type Graph, type Node, readsOf } from '../graph/graph.js';
import type { TensorInfo } from '../operators/operator.js';
import type { Tensor } from '../tensor/tensor.js';
import { type BatchInput, proveBatchAxis } from './batch-axis.js';
import type { Cut, Uncut } from './cell-stages.js';
import { Cutting } from './cutting.js';
import { foldConstants, nodesFor, settleShapes } from './shapes.js';

/** A node that is a recurrence, with weights that are weights. */
export interface Recurrence {
  readonly node: Node;
  readonly level: number;
}

const OPERATORS = new Set(['LSTM', 'GRU', 'RNN']);
const PROOFS = 256;

/** Cuts the requests of one model. */
export class Cutter {
  readonly #graph: Graph;
  readonly #recurrences: readonly Recurrence[];
  /** The level of a value: the recurrences that lie before it. */
  readonly #levels = new Map<string, number>();
  readonly #candidates: readonly ReadonlyMap<string, number>[];
  readonly #graphs = new Map<string, Graph>();
  readonly #proofs = new Map<string, number | undefined>();

  /** `candidates`: axes of inputs that may be time, best first. */
  constructor(graph: Graph, candidates: readonly ReadonlyMap<string, number>[]) {
    const found = graph.nodes.some((n) => OPERATORS.has(n.op) && n.domain === '');
    this.#graph = found ? foldConstants(graph) : graph;
    this.#candidates = [...candidates, new Map()];
    const inputs = new Set(graph.inputs.map((v) => v.name));
    const weight = (name: string | undefined) =>
      name === undefined || name === '' || (this.#graph.initializers.has(name) && !inputs.has(name));
    const recurrences: Recurrence[] = [];
    for (const node of this.#graph.nodes) {
      const level = [...readsOf(node)].reduce((l, name) => Math.max(l, this.#levels.get(name) ?? 0), 0);
      const recurrent =
        OPERATORS.has(node.op) && node.domain === '' && [1, 2, 3, 7].every((i) => weight(node.inputs[i]));
      if (recurrent) recurrences.push({ node, level });
      for (const o of node.outputs) this.#levels.set(o, recurrent ? level + 1 : level);
    }
    this.#recurrences = recurrences;
  }

  /** Whether there is anything to cut. */
  get recurrent(): boolean {
    return this.#recurrences.length > 0;
  }

  /** Cuts a request with these inputs that wants these outputs, or says why not. */
  cut(fed: ReadonlyMap<string, TensorInfo>, wanted: readonly string[]): Cut | Uncut {
    if (!this.recurrent) return { why: 'it has no recurrent layer whose weights are constant' };
    const known = new Map<string, TensorInfo>();
    for (const [name, t] of this.#graph.initializers) known.set(name, { type: t.type, dims: t.dims, value: t });
    for (const [name, { type, dims }] of fed) known.set(name, { type, dims });
    const nodes = nodesFor(this.#graph.nodes, wanted, () => false);
    const why = settleShapes(nodes, known);
    if (why !== undefined) return { why };
    return new Cutting(this, nodes, known, fed, wanted).cut();
  }

  // What Cutting below uses.

  get graph(): Graph {
    return this.#graph;
  }

  get candidates(): readonly ReadonlyMap<string, number>[] {
    return this.#candidates;
  }

  recurrence(node: Node): Recurrence | undefined {
    return this.#recurrences.find((r) => r.node === node);
  }

  level(name: string): number {
    return this.#levels.get(name) ?? 0;
  }

  /** The graph of a stage, the same object for the same id: programs are kept by it. */
  stageGraph(id: string, nodes: readonly Node[], inputs: readonly string[], outputs: readonly string[]): Graph {
    let graph = this.#graphs.get(id);
    if (graph === undefined) {
      const initializers = new Map<string, Tensor>();
      const all: Graph = { name: id, inputs: [], outputs: [], initializers: new Map(), nodes };
      for (const name of capturesOf(all)) {
        const t = this.#graph.initializers.get(name);
        if (t !== undefined && !inputs.includes(name)) initializers.set(name, t);
      }
      const named = (names: readonly string[]) => names.map((name) => ({ name }));
      graph = { name: id, inputs: named(inputs), outputs: named(outputs), initializers, nodes };
      this.#graphs.set(id, graph);
    }
    return graph;
  }

  /** The axis along which `output` holds the times of the inputs, one for one; undefined: it is not proved. */
  prove(graph: Graph, output: string, inputs: ReadonlyMap<string, BatchInput>): number | undefined {
    const dims = [...inputs].map(
      ([n, x]) => `${n} ${x.type}[${x.dims.map((d, i) => (i === x.axis ? '*' : d)).join()}]`,
    );
    const key = `${output} < ${dims.join()}`;
    if (!this.#proofs.has(key)) {
      const proof = proveBatchAxis(graph, inputs);
      const held = proof.proven ? proof.outputs.get(output) : undefined;
      this.#proofs.set(key, held !== undefined && held !== 'shared' && held.each === 1 ? held.axis : undefined);
      if (this.#proofs.size > PROOFS) this.#proofs.delete(this.#proofs.keys().next().value!);
    }
    return this.#proofs.get(key);
  }
}
