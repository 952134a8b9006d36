// One segment: walks the nodes that are left, folds what is constant, settles shapes, inlines the branch an `If` takes,
// and stops at the first node that needs a value nobody knows yet (a Cut). What it walked is fused and lowered to a Plan;
// what it did not is the next segment's. Picture: nodes  ████████████│cut│░░░░░░  → Plan of █, rest ░.
import { type Node, readsOf, subgraphsOf } from '../graph/graph.js';
import { checkOutputs, Evaluation, Inference, noSubgraph, resolve } from '../operators/evaluate.js';
import { type HostValue, type OutputInfo, type TensorInfo, ValueNeeded } from '../operators/operator.js';
import { formatNode, SkepError } from '../tensor/errors.js';
import { sizeOf } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import { byteLength } from '../tensor/types.js';
import type { ModelConstants } from './constants.js';
import { fuse } from './fuse.js';
import { PlanBuilder, type SettledNode } from './lowering.js';
import type { CompileOptions, ConstantPool, Cut, Plan } from './plan.js';

/** What is known of a value between segments: a tensor's type and shape (and elements), or that it is no plain tensor. */
export type Known = TensorInfo | 'host';

/** What is left of a graph, and what is known so far. Immutable. */
export interface Rest {
  readonly nodes: readonly Node[];
  readonly known: ReadonlyMap<string, Known>;
  /** Names the caller wants in the end. */
  readonly wanted: readonly string[];
}

export interface Segment {
  readonly plan: Plan;
  readonly cut: Cut | undefined;
  /** What is left after the cut; its `known` lacks what the cut is about. */
  readonly rest: Rest;
  /** Values of no plain tensor type that were folded: strings, sequences. */
  readonly folded: ReadonlyMap<string, HostValue>;
}

/** Adds to the error of a node's shape rule where its inputs come from. */
export type Explain = (
  error: SkepError,
  node: Node,
  inputs: readonly (TensorInfo | undefined)[],
  known: ReadonlyMap<string, Known>,
) => SkepError;

/** Folding stops above this many bytes of output: a huge Expand is better computed than stored. */
const FOLD_LIMIT = 16 << 20;

/** Compiles as far as shapes are known. `constants` knows what belongs to the model, not to these shapes. */
export function compileSegment(
  rest: Rest,
  options: CompileOptions,
  pool: ConstantPool,
  constants: ModelConstants,
  explain: Explain,
): Segment {
  const known = new Map(rest.known);
  const folded = new Map<string, HostValue>();
  const queue = prune(rest.nodes, rest.wanted);
  const settled: SettledNode[] = [];
  let cut: Cut | undefined;
  while (queue.length > 0 && cut === undefined) {
    const node = queue[0]!;
    const outcome = settle(node, known, folded, constants, explain);
    if (outcome.kind === 'inline') queue.splice(0, 1, ...outcome.nodes);
    else if (outcome.kind === 'cut') cut = outcome.cut;
    else {
      if (outcome.kind === 'settled') settled.push(outcome.item);
      queue.shift();
    }
  }
  // A host node is run by whoever executes the cut; it is not part of the rest.
  const left = cut?.kind === 'host' ? queue.slice(1) : queue;
  const needed = new Set(rest.wanted);
  for (const node of queue) for (const name of readsOf(node)) needed.add(name);
  if (cut?.kind === 'value') needed.add(cut.name);

  const items = options.fuse === false ? settled : fuse(settled, needed, constants);
  const builder = new PlanBuilder(options, pool, (t) => constants.isWeight(t));
  const computed = new Set(settled.flatMap((s) => s.node.outputs));
  const inputs = new Set(items.flatMap((s) => [...s.node.inputs]));
  for (const [name, k] of rest.known)
    if (inputs.has(name) && k !== 'host' && k.value === undefined) builder.input(name, k);
  for (const item of items) builder.add(item);
  const results = new Map<string, Tensor | undefined>();
  for (const name of needed) {
    const k = known.get(name);
    if (k === undefined || k === 'host') continue;
    if (k.value !== undefined) results.set(name, k.value);
    else if (computed.has(name)) results.set(name, undefined);
  }
  // Cached segments live long: what nothing ahead reads is not kept.
  const ahead = new Map([...known].filter(([name]) => needed.has(name)));
  const plan = builder.finish(results, cut === undefined ? rest.wanted : []);
  return { plan, cut, rest: { nodes: left, known: ahead, wanted: rest.wanted }, folded };
}

type Outcome =
  | { readonly kind: 'settled'; readonly item: SettledNode }
  | { readonly kind: 'folded' }
  | { readonly kind: 'inline'; readonly nodes: readonly Node[] }
  | { readonly kind: 'cut'; readonly cut: Cut };

/** Decides what becomes of a node and records what is now known of its outputs. */
function settle(
  node: Node,
  known: Map<string, Known>,
  folded: Map<string, HostValue>,
  constants: ModelConstants,
  explain: Explain,
): Outcome {
  const { operator, attributes } = resolve(node);
  const lookup = (name: string): Known => {
    const k = known.get(name);
    if (k === undefined)
      throw new SkepError('INVALID_MODEL', `${formatNode(node)} reads '${name}', which nothing defines`);
    return k;
  };
  const inputs = node.inputs.map((n) => (n === '' ? undefined : lookup(n)));
  const constant = (name: string): HostValue | undefined => {
    const k = lookup(name);
    return k === 'host' ? folded.get(name) : k.value;
  };
  const branch = node.op === 'If' && node.domain === '' ? inputs[0] : undefined;
  if (branch !== undefined) {
    if (branch === 'host')
      throw new SkepError('INVALID_MODEL', `${formatNode(node)}: the condition must be a bool tensor`);
    if (branch.value === undefined) return { kind: 'cut', cut: { kind: 'value', name: node.inputs[0]! } };
    return { kind: 'inline', nodes: inlineBranch(node, branch.value, known, constants) };
  }
  const reads = [...readsOf(node)];
  // A loop may take any time: it is run where it can be stopped, not while a plan is made.
  const foldable = operator.deterministic && subgraphsOf(node).length === 0;
  const allConstant = foldable && reads.every((n) => constant(n) !== undefined);
  const asHost = inputs.some((k) => k === 'host');
  const infos = inputs.map((k) => (k === 'host' ? undefined : k));
  let inferred: ReturnType<typeof operator.infer> = 'dynamic';
  if (!asHost) {
    try {
      inferred = operator.infer(new Inference(node, attributes, infos));
    } catch (error) {
      if (error instanceof SkepError) throw explain(error, node, infos, known);
      if (!(error instanceof ValueNeeded)) throw error;
      const name = node.inputs[error.input]!;
      return { kind: 'cut', cut: { kind: 'value', name } };
    }
  }
  const bytes =
    inferred === 'dynamic' ? 0 : inferred.reduce((s, o) => s + (o ? byteLength(o.type, sizeOf(o.dims)) : 0), 0);
  if (allConstant && bytes <= FOLD_LIMIT) {
    const values = node.inputs.map((n) => (n === '' ? undefined : constant(n)));
    const outputs = operator.reference(new Evaluation(node, attributes, values, noSubgraph));
    checkOutputs(node, outputs);
    const fromWeights = reads.every((n) => {
      const v = constant(n);
      return v instanceof Tensor && constants.isWeight(v);
    });
    node.outputs.forEach((name, i) => {
      const v = outputs[i];
      if (name === '' || v === undefined) return;
      if (v instanceof Tensor && v.type !== 'string') {
        known.set(name, { type: v.type, dims: v.dims, value: v });
        if (fromWeights) constants.addWeight(v);
      } else {
        known.set(name, 'host');
        folded.set(name, v);
      }
    });
    return { kind: 'folded' };
  }
  if (inferred === 'dynamic' || inferred.some((o) => o?.type === 'string'))
    return { kind: 'cut', cut: { kind: 'host', node } };
  // The shape of a value is known even when its elements are not: Shape and Size fold by their own rule.
  const folding = operator.foldShape?.(new Inference(node, attributes, infos) as never);
  if (folding !== undefined) {
    known.set(node.outputs[0]!, { type: folding.type, dims: folding.dims, value: folding });
    return { kind: 'folded' };
  }
  const outputs: (OutputInfo | undefined)[] = [...inferred];
  node.outputs.forEach((name, i) => {
    const o = outputs[i];
    if (name === '') return;
    if (o === undefined) throw new SkepError('INVALID_MODEL', `${formatNode(node)}: has no output ${i} ('${name}')`);
    known.set(name, o);
  });
  return { kind: 'settled', item: { node, origin: [node], operator, attributes, inputs: infos, outputs } };
}

/** The nodes of the branch an `If` takes, names made unique, then Identity nodes to the If's own outputs. */
function inlineBranch(node: Node, condition: Tensor, known: Map<string, Known>, constants: ModelConstants): Node[] {
  if (condition.type !== 'bool' || condition.size !== 1)
    throw new SkepError(
      'INVALID_MODEL',
      `${formatNode(node)}: the condition must be one bool, got ${condition.size} of ${condition.type}`,
    );
  const which = (condition.data as Uint8Array)[0] !== 0 ? 'then_branch' : 'else_branch';
  const graph = subgraphsOf(node).find(([name]) => name === which)?.[1];
  if (graph === undefined) throw new SkepError('INVALID_MODEL', `${formatNode(node)}: attribute '${which}' is missing`);
  if (graph.outputs.length < node.outputs.length)
    throw new SkepError(
      'INVALID_MODEL',
      `${formatNode(node)}: ${which} has ${graph.outputs.length} outputs, ${node.outputs.length} are wanted`,
    );
  // ONNX names are unique across nesting within a model that verify() accepted, so the branch can be lifted as it is.
  for (const [name, tensor] of graph.initializers) {
    constants.addWeight(tensor);
    known.set(name, { type: tensor.type, dims: tensor.dims, value: tensor });
  }
  const identities = node.outputs.flatMap((name, i): Node[] =>
    name === ''
      ? []
      : [
          {
            op: 'Identity',
            domain: '',
            opset: node.opset,
            name: '',
            inputs: [graph.outputs[i]!.name],
            outputs: [name],
            attributes: {},
          },
        ],
  );
  return prune([...graph.nodes, ...identities], node.outputs);
}

/** The nodes that `wanted` depends on, in order; outputs of theirs that nobody reads lose their names. */
function prune(nodes: readonly Node[], wanted: readonly string[]): Node[] {
  const needed = new Set(wanted);
  const kept: Node[] = [];
  for (let i = nodes.length - 1; i >= 0; i--) {
    const node = nodes[i]!;
    if (!node.outputs.some((o) => needed.has(o))) continue;
    for (const name of readsOf(node)) needed.add(name);
    const all = node.outputs.every((o) => o === '' || needed.has(o));
    kept.push(all ? node : { ...node, outputs: node.outputs.map((o) => (needed.has(o) ? o : '')) });
  }
  return kept.reverse();
}
