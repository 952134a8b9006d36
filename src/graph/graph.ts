// The IR: a model is a graph of nodes, and edges are names, as in ONNX. Plain data: it can be posted to a thread, printed
// and rewritten by building new nodes. Picture: inputs and initializers feed nodes in topological order; a node's
// subgraph (If, Loop, Scan) reads outer names by capture. Rules of single operators are not here but in operators/;
// verify.ts checks what holds for every graph.

import type { Tensor } from '../tensor/tensor.js';
import type { DataType } from '../tensor/types.js';

/** A dimension of a declared shape: a size, a symbol, or nothing known. */
export type Dim = number | string | null;

/** The declared type of a value. `dims` is absent when not even the rank is known. */
export type ValueType =
  | { readonly kind: 'tensor'; readonly type: DataType; readonly dims?: readonly Dim[] }
  | { readonly kind: 'sequence'; readonly element: ValueType }
  | { readonly kind: 'optional'; readonly element: ValueType }
  | { readonly kind: 'map'; readonly key: DataType; readonly value: ValueType };

/** A graph input or output: its name and, where declared, its type. */
export interface ValueInfo {
  readonly name: string;
  readonly type?: ValueType;
}

/** A node attribute, tagged with its ONNX attribute type. int values beyond 2^53 lose low bits. */
export type Attribute =
  | { readonly kind: 'int'; readonly value: number }
  | { readonly kind: 'float'; readonly value: number }
  | { readonly kind: 'string'; readonly value: string }
  | { readonly kind: 'tensor'; readonly value: Tensor }
  | { readonly kind: 'graph'; readonly value: Graph }
  | { readonly kind: 'type'; readonly value: ValueType }
  | { readonly kind: 'ints'; readonly value: readonly number[] }
  | { readonly kind: 'floats'; readonly value: readonly number[] }
  | { readonly kind: 'strings'; readonly value: readonly string[] }
  | { readonly kind: 'tensors'; readonly value: readonly Tensor[] }
  | { readonly kind: 'graphs'; readonly value: readonly Graph[] };

/** One operator application. */
export interface Node {
  /** Operator name, `Conv`. */
  readonly op: string;
  /** Operator domain; '' is ai.onnx. */
  readonly domain: string;
  /** The version of the domain's operator set this node was written against. */
  readonly opset: number;
  /** The node's name, possibly ''. Not unique. */
  readonly name: string;
  /** Names of the inputs; '' is an omitted optional one. */
  readonly inputs: readonly string[];
  /** Names of the outputs; '' is one nobody wants. */
  readonly outputs: readonly string[];
  readonly attributes: Readonly<Record<string, Attribute>>;
}

/** A graph or subgraph. Names are unique within it and those it is nested in (static single assignment). */
export interface Graph {
  readonly name: string;
  readonly inputs: readonly ValueInfo[];
  readonly outputs: readonly ValueInfo[];
  /** Constant tensors by value name. A name that is also an input is that input's default. */
  readonly initializers: ReadonlyMap<string, Tensor>;
  /** In topological order. */
  readonly nodes: readonly Node[];
}

/** A whole model. Functions have been inlined by the reader. */
export interface Model {
  readonly graph: Graph;
  readonly irVersion: number;
  /** Operator set versions by domain; '' is ai.onnx. */
  readonly opsets: ReadonlyMap<string, number>;
  readonly producer: string;
  readonly metadata: ReadonlyMap<string, string>;
}

/** The subgraphs of a node, by attribute name. */
export function subgraphsOf(node: Node): readonly (readonly [attribute: string, graph: Graph])[] {
  const found: [string, Graph][] = [];
  for (const [name, a] of Object.entries(node.attributes)) {
    if (a.kind === 'graph') found.push([name, a.value]);
    else if (a.kind === 'graphs') for (const g of a.value) found.push([name, g]);
  }
  return found;
}

/** The outer names a graph's nodes (and their subgraphs) read but do not define. */
export function capturesOf(graph: Graph): Set<string> {
  const defined = new Set<string>([...graph.inputs.map((i) => i.name), ...graph.initializers.keys()]);
  const captured = new Set<string>();
  const read = (name: string) => {
    if (name !== '' && !defined.has(name)) captured.add(name);
  };
  for (const node of graph.nodes) {
    node.inputs.forEach(read);
    for (const [, sub] of subgraphsOf(node)) capturesOf(sub).forEach(read);
    for (const o of node.outputs) defined.add(o);
  }
  for (const o of graph.outputs) read(o.name);
  return captured;
}

/** Everything a node reads: its inputs and what its subgraphs capture. */
export function readsOf(node: Node): Set<string> {
  const reads = new Set(node.inputs.filter((n) => n !== ''));
  for (const [, sub] of subgraphsOf(node)) for (const name of capturesOf(sub)) reads.add(name);
  return reads;
}
