// Types and shapes of every value of a graph for concrete inputs, without compiling anything: the operators' own shape
// rules, node after node, with what small values follow from shapes alone. And the folding of what follows from weights
// alone, once a model. For those who must know how large values are before anything runs.
import { type Graph, type Node, readsOf, subgraphsOf } from '../graph/graph.js';
import { Evaluation, Inference, noSubgraph, resolve } from '../operators/evaluate.js';
import { type TensorInfo, ValueNeeded } from '../operators/operator.js';
import { decode } from '../tensor/convert.js';
import { formatNode, SkepError } from '../tensor/errors.js';
import { sizeOf } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import { byteLength } from '../tensor/types.js';

/** Values of more elements are not computed here: only shapes and their arithmetic matter. */
const VALUE_LIMIT = 4096;

/** As in a plan: what is larger is better computed than stored. */
const FOLD_LIMIT = 16 << 20;

/** The graph with every node that reads weights alone replaced by its result. Defaults of inputs are no weights. */
export function foldConstants(graph: Graph): Graph {
  const inputs = new Set(graph.inputs.map((v) => v.name));
  const initializers = new Map(graph.initializers);
  const weight = (name: string) => (inputs.has(name) ? undefined : initializers.get(name));
  const nodes = graph.nodes.filter((node) => {
    const values = node.inputs.map((n) => (n === '' ? undefined : weight(n)));
    if (node.inputs.some((n, i) => n !== '' && values[i] === undefined)) return true;
    const found = valuesOf(node, values);
    if (found === undefined) return true;
    node.outputs.forEach((name, i) => {
      if (name !== '') initializers.set(name, found[i]!);
    });
    return false;
  });
  return { ...graph, initializers, nodes };
}

function valuesOf(node: Node, values: readonly (Tensor | undefined)[]): readonly Tensor[] | undefined {
  const { operator, attributes } = resolve(node);
  if (!operator.deterministic || subgraphsOf(node).length > 0) return undefined;
  try {
    const infos = values.map((v) => v && { type: v.type, dims: v.dims, value: v });
    const outputs = operator.infer(new Inference(node, attributes, infos));
    if (outputs === 'dynamic' || outputs.some((o) => o?.type === 'string')) return undefined;
    if (outputs.reduce((n, o) => n + (o ? byteLength(o.type, sizeOf(o.dims)) : 0), 0) > FOLD_LIMIT) return undefined;
    const found = operator.reference(new Evaluation(node, attributes, values, noSubgraph));
    return node.outputs.every((name, i) => name === '' || found[i] instanceof Tensor) ? (found as Tensor[]) : undefined;
  } catch (error) {
    // A node that cannot run fails when it is run.
    if (error instanceof SkepError) return undefined;
    throw error;
  }
}

/** The nodes that `wanted` depends on, in order, as far as names in `given` are not there already. */
export function nodesFor(nodes: readonly Node[], wanted: Iterable<string>, given: (name: string) => boolean): Node[] {
  const needed = new Set(wanted);
  const kept: Node[] = [];
  for (let i = nodes.length - 1; i >= 0; i--) {
    const node = nodes[i]!;
    if (!node.outputs.some((o) => needed.has(o) && !given(o))) continue;
    for (const name of readsOf(node)) needed.add(name);
    kept.push(node);
  }
  return kept.reverse();
}

/** Adds what is known of every node's outputs to `known`; gives why not, in words, where a shape depends on data. */
export function settleShapes(nodes: readonly Node[], known: Map<string, TensorInfo>): string | undefined {
  for (const node of nodes) {
    try {
      const why = settle(node, known);
      if (why !== undefined) return `${formatNode(node)}: ${why}`;
    } catch (error) {
      // What cannot run on these shapes is told by who runs it.
      if (error instanceof SkepError && error.code !== 'INTERNAL') return error.message;
      throw error;
    }
  }
  return undefined;
}

function settle(node: Node, known: Map<string, TensorInfo>): string | undefined {
  const { operator, attributes } = resolve(node);
  const inputs = node.inputs.map((n) => (n === '' ? undefined : known.get(n)));
  const missing = node.inputs.find((n, i) => n !== '' && inputs[i] === undefined);
  if (missing !== undefined) return `nothing is known of '${missing}'`;
  if (node.op === 'If' && node.domain === '') return takeBranch(node, inputs[0]!, known);
  if (subgraphsOf(node).length > 0) return 'it has a subgraph';
  if (!operator.deterministic) return 'it draws random numbers';
  const call = new Inference(node, attributes, inputs);
  let outputs: ReturnType<typeof operator.infer>;
  try {
    outputs = operator.infer(call);
  } catch (error) {
    if (error instanceof ValueNeeded) return `its shape depends on the elements of '${node.inputs[error.input]}'`;
    throw error;
  }
  if (outputs === 'dynamic') return 'the shape of its result depends on data';
  if (outputs.some((o) => o?.type === 'string')) return 'it works on strings';
  const folded = operator.foldShape?.(call as never);
  let values: readonly unknown[] = folded === undefined ? [] : [folded];
  if (
    folded === undefined &&
    inputs.every((x) => x === undefined || x.value !== undefined) &&
    outputs.every((o) => o === undefined || sizeOf(o.dims) <= VALUE_LIMIT)
  )
    values = operator.reference(
      new Evaluation(
        node,
        attributes,
        inputs.map((x) => x?.value),
        noSubgraph,
      ),
    );
  node.outputs.forEach((name, i) => {
    const o = outputs[i];
    if (name === '' || o === undefined) return;
    const value = values[i];
    known.set(name, { type: o.type, dims: o.dims, ...(value instanceof Tensor && { value }) });
  });
  return undefined;
}

function takeBranch(node: Node, condition: TensorInfo, known: Map<string, TensorInfo>): string | undefined {
  if (condition.value === undefined) return 'the branch it takes depends on data';
  const which = decode(condition.value)[0] ? 'then_branch' : 'else_branch';
  const graph = subgraphsOf(node).find(([name]) => name === which)?.[1];
  if (graph === undefined) return `it has no ${which}`;
  for (const [name, t] of graph.initializers) known.set(name, { type: t.type, dims: t.dims, value: t });
  const why = settleShapes(graph.nodes, known);
  if (why !== undefined) return why;
  node.outputs.forEach((name, i) => {
    const found = known.get(graph.outputs[i]?.name ?? '');
    if (name !== '' && found !== undefined) known.set(name, found);
  });
  return undefined;
}
