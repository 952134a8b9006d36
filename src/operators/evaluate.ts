// Applying operators to nodes: the call objects that `infer` and `reference` receive, and the reference interpreter that
// runs a whole graph node by node. The interpreter is the oracle of every other engine; the compiler folds constants and
// the runtime falls back through the same calls.
import { capturesOf, type Graph, type Node, subgraphsOf } from '../graph/graph.js';
import { decode } from '../tensor/convert.js';
import { type ErrorCode, formatNode, formatShape, SkepError } from '../tensor/errors.js';
import { sameShape } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import { parseAttributes, unknownAttributes } from './attributes.js';
import {
  callError,
  type HostValue,
  type InferCall,
  type Inferred,
  type Operator,
  type ReferenceCall,
  type TensorInfo,
  ValueNeeded,
} from './operator.js';
import { findOperator } from './registry.js';

/** A node's operator and its attributes. */
export interface Resolved {
  readonly operator: Operator;
  readonly attributes: Record<string, unknown>;
}

/** Nodes are compiled for many shapes and run many times, and never change. */
const resolved = new WeakMap<Node, Resolved>();

/** Looks an operator up and parses the node's attributes, once a node. Throws UNSUPPORTED. */
export function resolve(node: Node): Resolved {
  const known = resolved.get(node);
  if (known !== undefined) return known;
  const operator = findOperator(node);
  const [least, most] = operator.inputs;
  if (node.inputs.length < least || node.inputs.length > most)
    throw callError(
      node,
      `expected ${least === most ? least : `${least} to ${most}`} inputs, got ${node.inputs.length}`,
    );
  const found = { operator, attributes: parseAttributes(node, operator.attributes) };
  resolved.set(node, found);
  return found;
}

/**
 * What of a graph is not heeded, a line a node: attributes that operators do not have. onnxruntime refuses such models;
 * here they run, and this is said once.
 */
export function ignoredIn(graph: Graph): string[] {
  return graph.nodes.flatMap((node) => {
    const inside = subgraphsOf(node).flatMap(([, g]) => ignoredIn(g));
    let operator: Operator;
    try {
      operator = findOperator(node);
    } catch {
      return inside;
    }
    const unknown = unknownAttributes(node, operator.attributes);
    if (unknown.length === 0) return inside;
    return [`${formatNode(node)}: ${unknown.map((n) => `'${n}'`).join(', ')}`, ...inside];
  });
}

abstract class CallBase {
  readonly node: Node;
  readonly attributes: never;

  constructor(node: Node, attributes: Record<string, unknown>) {
    this.node = node;
    this.attributes = attributes as never;
  }

  get opset(): number {
    return this.node.opset;
  }

  get inputCount(): number {
    return this.node.inputs.length;
  }

  get outputCount(): number {
    return this.node.outputs.length;
  }

  wants(i: number): boolean {
    return i < this.node.outputs.length && this.node.outputs[i] !== '';
  }

  error(message: string, code?: ErrorCode): SkepError {
    return callError(this.node, message, code);
  }

  abstract has(i: number): boolean;
  abstract optional(i: number): TensorInfo | undefined;
  abstract value(i: number): Tensor;

  input(i: number): TensorInfo {
    const found = this.optional(i);
    if (found === undefined) throw this.error(`input ${i} is missing`);
    return found;
  }

  ints(i: number): number[] | undefined {
    if (!this.has(i)) return undefined;
    return Array.from(decode(this.value(i)));
  }
}

/** An InferCall over what a compiler knows of a node's inputs. */
export class Inference extends CallBase implements InferCall<never> {
  readonly #inputs: readonly (TensorInfo | undefined)[];

  constructor(node: Node, attributes: Record<string, unknown>, inputs: readonly (TensorInfo | undefined)[]) {
    super(node, attributes);
    this.#inputs = inputs;
  }

  has(i: number): boolean {
    return this.#inputs[i] !== undefined;
  }

  optional(i: number): TensorInfo | undefined {
    return this.#inputs[i];
  }

  value(i: number): Tensor {
    const { value } = this.input(i);
    if (value === undefined) throw new ValueNeeded(i);
    return value;
  }
}

/** How a subgraph is run: by the interpreter below, or by compiled plans. */
export type RunSubgraph = (graph: Graph, inputs: readonly HostValue[]) => HostValue[];

/** For nodes that have none. */
export const noSubgraph: RunSubgraph = () => {
  throw new SkepError('INTERNAL', 'a node without subgraphs ran one');
};

/** A ReferenceCall over the inputs' values. */
export class Evaluation extends CallBase implements ReferenceCall<never> {
  readonly #inputs: readonly (HostValue | undefined)[];
  readonly #run: RunSubgraph;

  constructor(
    node: Node,
    attributes: Record<string, unknown>,
    inputs: readonly (HostValue | undefined)[],
    run: RunSubgraph,
  ) {
    super(node, attributes);
    this.#inputs = inputs;
    this.#run = run;
  }

  has(i: number): boolean {
    return this.#inputs[i] !== undefined;
  }

  host(i: number): HostValue | undefined {
    return this.#inputs[i];
  }

  optional(i: number): TensorInfo | undefined {
    const found = this.#inputs[i];
    if (found === undefined) return undefined;
    if (!(found instanceof Tensor))
      throw this.error(`input ${i} must be a tensor, got ${found === null ? 'an empty optional' : 'a sequence'}`);
    return { type: found.type, dims: found.dims, value: found };
  }

  tensor(i: number): Tensor {
    return this.input(i).value!;
  }

  value(i: number): Tensor {
    return this.tensor(i);
  }

  run(graph: Graph, inputs: readonly HostValue[]): HostValue[] {
    return this.#run(graph, inputs);
  }
}

/** Runs `infer` of a node. */
export function infer(node: Node, inputs: readonly (TensorInfo | undefined)[]): Inferred {
  const { operator, attributes } = resolve(node);
  return operator.infer(new Inference(node, attributes, inputs));
}

/**
 * Runs `reference` of a node, after its `infer`, so that what the rules reject is rejected wherever a node is run, and
 * references need not check it again. (`infer` sees tensors only: with a sequence among the inputs it is not asked.)
 */
export function evaluate(
  node: Node,
  inputs: readonly (HostValue | undefined)[],
  run: RunSubgraph,
): readonly HostValue[] {
  const { operator, attributes } = resolve(node);
  const call = new Evaluation(node, attributes, inputs, run);
  const tensors = inputs.every((x) => x === undefined || x instanceof Tensor);
  const inferred = tensors ? operator.infer(call) : 'dynamic';
  const outputs = operator.reference(call);
  checkOutputs(node, outputs);
  if (inferred !== 'dynamic')
    inferred.forEach((want, i) => {
      const got = outputs[i];
      if (want === undefined || !call.wants(i) || !(got instanceof Tensor)) return;
      if (got.type !== want.type || !sameShape(got.dims, want.dims))
        throw callError(
          node,
          `output ${i} came as ${got.type} ${formatShape(got.dims)}, the shape rule says ${want.type} ${formatShape(want.dims)}`,
          'INTERNAL',
        );
    });
  return outputs;
}

/** Throws INVALID_MODEL when a node names an output that its operator does not have: only its reference knows them all. */
export function checkOutputs(node: Node, outputs: readonly (HostValue | undefined)[]): void {
  node.outputs.forEach((name, i) => {
    if (name !== '' && outputs[i] === undefined) throw callError(node, `it has no output ${i} ('${name}')`);
  });
}

/**
 * Interprets a graph with reference semantics. `feeds` are the inputs by name (those with an initializer may be absent);
 * `outer` holds captured names. Gives every output by name.
 */
export function interpret(
  graph: Graph,
  feeds: ReadonlyMap<string, HostValue>,
  outer: ReadonlyMap<string, HostValue> = new Map(),
): Map<string, HostValue> {
  const values = new Map<string, HostValue>([...outer, ...graph.initializers, ...feeds]);
  for (const { name } of graph.inputs)
    if (!values.has(name)) throw new SkepError('INVALID_INPUT', `input '${name}' is missing`);
  const get = (name: string, node?: Node): HostValue => {
    const v = values.get(name);
    if (v === undefined)
      throw new SkepError(
        'INVALID_MODEL',
        `${node ? formatNode(node) : 'the graph'} reads '${name}', which nothing defines`,
      );
    return v;
  };
  for (const node of graph.nodes) {
    const inputs = node.inputs.map((n) => (n === '' ? undefined : get(n, node)));
    const run: RunSubgraph = (sub, args) => {
      const captured = new Map([...capturesOf(sub)].map((n) => [n, get(n, node)] as const));
      const subFeeds = new Map(sub.inputs.map((v, i) => [v.name, args[i]!] as const));
      const results = interpret(sub, subFeeds, captured);
      return sub.outputs.map((o) => results.get(o.name)!);
    };
    const outputs = evaluate(node, inputs, run);
    node.outputs.forEach((name, i) => {
      if (name === '') return;
      values.set(name, outputs[i]!);
    });
  }
  return new Map(graph.outputs.map((o) => [o.name, get(o.name)]));
}
