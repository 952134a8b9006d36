// Compiling a model only to look at the result: nothing is placed in memory, nothing runs. Gives what became of every
// operator's nodes, and the plan's costs.
import type { ConstantPool, Plan } from '../compiler/plan.js';
import { Program } from '../compiler/program.js';
import { type Graph, type Node, subgraphsOf } from '../graph/graph.js';
import type { RoundingError, WeightType } from '../kernels/int8.js';
import type { Build } from '../kernels/module.js';
import type { TensorInfo } from '../operators/operator.js';
import { formatNode } from '../tensor/errors.js';

/** An input as the model is compiled for; `assumed` when a dimension was guessed. */
export interface InspectedFeed extends TensorInfo {
  readonly assumed: boolean;
}

/** What became of the nodes of one operator. */
export interface OperatorCount {
  readonly operator: string;
  nodes: number;
  kernel: number;
  reference: number;
  /** Constants, views, branches not taken. */
  none: number;
  /** After a cut. */
  unknown: number;
}

/** How far rounding moved the weights of a tensor, relative to their root mean square. */
export interface RoundedWeights extends RoundingError {
  readonly name: string;
}

export interface Compilation {
  readonly milliseconds: number;
  readonly steps: { readonly kernel: number; readonly reference: number };
  /** As the kernels state them. */
  readonly flops: number;
  readonly arenaBytes: number;
  /** Weights as they are placed, packed where the kernels want them so. */
  readonly constantBytes: number;
  /** Tensors of weights that are kept rounded. */
  readonly rounded: readonly RoundedWeights[];
  /** Where the plan ends before the graph does, in words. */
  readonly cut?: string;
  readonly operators: readonly OperatorCount[];
}

/** Counts what would be placed, and makes it when asked to. */
class CountingPool implements ConstantPool {
  readonly #placed = new Set<string>();
  readonly #fill: boolean;
  bytes = 0;

  constructor(fill: boolean) {
    this.#fill = fill;
  }

  place(key: string, bytes: number, fill: (into: Uint8Array) => void): number {
    if (!this.#placed.has(key)) {
      this.#placed.add(key);
      this.bytes += bytes;
      if (this.#fill) fill(new Uint8Array(bytes));
    }
    return 64;
  }
}

/** Compiles up to the first cut. Throws what compiling throws. */
export function compileForInspection(
  graph: Graph,
  feeds: ReadonlyMap<string, TensorInfo>,
  build: Build,
  weights: WeightType = 'float32',
): Compilation {
  const pool = new CountingPool(weights !== 'float32');
  const rounded: RoundedWeights[] = [];
  const onRounded = (name: string, error: RoundingError) => rounded.push({ name, ...error });
  const started = performance.now();
  const given = new Map(
    [...feeds].map(([name, { type, dims, value }]) => [name, { type, dims, ...(value ? { value } : {}) }]),
  );
  const program = new Program(graph, { build, weights, onRounded }, pool);
  const segment = program.begin(
    given,
    graph.outputs.map((o) => o.name),
  );
  const milliseconds = performance.now() - started;
  const { plan, cut } = segment;
  const left = new Set<Node>(segment.rest.nodes.flatMap(withSubgraphs));
  if (cut?.kind === 'host') for (const node of withSubgraphs(cut.node)) left.add(node);
  return {
    milliseconds,
    steps: {
      kernel: plan.steps.filter((s) => s.kind === 'kernel').length,
      reference: plan.steps.filter((s) => s.kind === 'reference').length,
    },
    flops: plan.steps.reduce((sum, s) => sum + s.flops, 0),
    arenaBytes: plan.arenaBytes,
    constantBytes: pool.bytes,
    rounded,
    ...(cut === undefined ? {} : { cut: inWords(cut) }),
    operators: countByOperator(program.graph, plan, left),
  };
}

function inWords(cut: { kind: 'value'; name: string } | { kind: 'host'; node: Node }): string {
  return cut.kind === 'value'
    ? `the rest depends on the elements of '${cut.name}'`
    : `what ${formatNode(cut.node)} gives depends on data; it is run by the reference, and the rest compiled then`;
}

/** A node and those of its subgraphs. */
export function withSubgraphs(node: Node): Node[] {
  return [node, ...subgraphsOf(node).flatMap(([, g]) => g.nodes.flatMap(withSubgraphs))];
}

/** `Conv`, or `com.microsoft:Gelu`. */
export function operatorName(node: Node): string {
  return node.domain === '' ? node.op : `${node.domain}:${node.op}`;
}

function countByOperator(graph: Graph, plan: Plan, left: ReadonlySet<Node>): OperatorCount[] {
  const kinds = new Map<Node, 'kernel' | 'reference'>();
  for (const step of plan.steps) for (const node of step.nodes) kinds.set(node, step.kind);
  const counts = new Map<string, OperatorCount>();
  for (const node of graph.nodes.flatMap(withSubgraphs)) {
    const operator = operatorName(node);
    let c = counts.get(operator);
    if (c === undefined) {
      c = { operator, nodes: 0, kernel: 0, reference: 0, none: 0, unknown: 0 };
      counts.set(operator, c);
    }
    c.nodes++;
    const kind = kinds.get(node);
    if (kind !== undefined) c[kind]++;
    else if (left.has(node)) c.unknown++;
    else c.none++;
  }
  return [...counts.values()].sort((a, b) => b.nodes - a.nodes || (a.operator < b.operator ? -1 : 1));
}
