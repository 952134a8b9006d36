// Names made unique through a whole model. ONNX asks that a name is defined once in a graph and those it is nested in; two
// branches of an If, or the bodies of two loops, may each have a 'c'. What belongs to a model (weights in its memory) is
// found by name, so there the second 'c' gets another one.
import type { Attribute, Graph, Node } from './graph.js';
import { subgraphsOf } from './graph.js';

/** The graph with every name defined once; itself, when it is so already. Names of its own level are kept. */
export function uniqueNames(graph: Graph): Graph {
  if (graph.nodes.every((n) => subgraphsOf(n).length === 0)) return graph;
  const taken = new Set(definedIn(graph));
  const nodes = graph.nodes.map((n) => renameNode(n, new Map(), taken));
  return nodes.every((n, i) => n === graph.nodes[i]) ? graph : { ...graph, nodes };
}

function definedIn(graph: Graph): string[] {
  const names = [...graph.inputs.map((v) => v.name), ...graph.initializers.keys()];
  for (const n of graph.nodes) names.push(...n.outputs);
  return names.filter((n) => n !== '');
}

type Names = ReadonlyMap<string, string>;

function renameNode(node: Node, names: Names, taken: Set<string>): Node {
  const rename = (n: string) => names.get(n) ?? n;
  const attributes: Record<string, Attribute> = { ...node.attributes };
  let changed = names.size > 0 && [...node.inputs, ...node.outputs].some((n) => names.has(n));
  for (const [key, a] of Object.entries(node.attributes)) {
    if (a.kind === 'graph') attributes[key] = { kind: 'graph', value: renameBody(a.value, names, taken) };
    else if (a.kind === 'graphs')
      attributes[key] = { kind: 'graphs', value: a.value.map((g) => renameBody(g, names, taken)) };
    else continue;
    const [before, after] = [a, attributes[key]].map((x) => (x.kind === 'graphs' ? x.value : [x.value]));
    if (before!.some((g, i) => g !== after![i])) changed = true;
  }
  if (!changed) return node;
  return { ...node, inputs: node.inputs.map(rename), outputs: node.outputs.map(rename), attributes };
}

function renameBody(graph: Graph, outer: Names, taken: Set<string>): Graph {
  const names = new Map(outer);
  for (const name of new Set(definedIn(graph))) {
    let free = name;
    for (let i = 2; taken.has(free); i++) free = `${name}~${i}`;
    taken.add(free);
    if (free === name) names.delete(name);
    else names.set(name, free);
  }
  const rename = (n: string) => names.get(n) ?? n;
  const nodes = graph.nodes.map((n) => renameNode(n, names, taken));
  const own = definedIn(graph).some((n) => names.has(n)) || graph.outputs.some((o) => names.has(o.name));
  if (!own && nodes.every((n, i) => n === graph.nodes[i])) return graph;
  return {
    ...graph,
    inputs: graph.inputs.map((v) => ({ ...v, name: rename(v.name) })),
    outputs: graph.outputs.map((v) => ({ ...v, name: rename(v.name) })),
    initializers: new Map([...graph.initializers].map(([n, t]) => [rename(n), t])),
    nodes,
  };
}
