// Checks what must hold for every graph, whoever made it: values are defined once, before they are read; what a subgraph
// reads is its own or captured from around it; outputs exist. Compiler passes are verified with it in tests. Rules of
// single operators are not here.
import { formatNode, SkepError } from '../tensor/errors.js';
import { capturesOf, type Graph, type Model, type Node, subgraphsOf } from './graph.js';

/**
 * Throws INVALID_MODEL that names node and value unless the graph holds together. `outer` are the names a subgraph may
 * capture.
 */
export function verify(what: Model | Graph, outer: ReadonlySet<string> = new Set()): void {
  if ('graph' in what) {
    verifyModel(what);
    return;
  }
  verifyGraph(what, outer);
}

function verifyModel(model: Model): void {
  const seen = new Set<string>();
  for (const { name } of model.graph.outputs) {
    if (seen.has(name)) throw fail(`graph '${model.graph.name}': output '${name}' is there twice`);
    seen.add(name);
  }
  verifyGraph(model.graph, new Set());
}

function verifyGraph(graph: Graph, outer: ReadonlySet<string>): void {
  const title = `graph '${graph.name}'`;
  const defined = new Map<string, string>();
  const define = (name: string, by: string) => {
    if (name === '') throw fail(`${title}: ${by} has no name`);
    const first = defined.get(name) ?? (outer.has(name) ? 'a graph around it' : undefined);
    if (first !== undefined) throw fail(`${title}: '${name}' is defined by ${first} and again by ${by}`);
    defined.set(name, by);
  };
  for (const { name } of graph.inputs) define(name, 'an input');
  const inputs = new Set(defined.keys());
  for (const name of graph.initializers.keys()) if (!inputs.has(name)) define(name, 'an initializer');

  // Who defines a name later, to tell "too early" from "nowhere".
  const makers = new Map<string, Node>();
  graph.nodes.forEach((node) => {
    for (const o of node.outputs) if (o !== '') makers.set(o, node);
  });
  const everything = new Set([...outer, ...defined.keys(), ...makers.keys()]);
  const read = (name: string, by: () => string) => {
    if (name === '' || defined.has(name) || outer.has(name)) return;
    const later = makers.get(name);
    throw fail(
      `${title}: ${by()} reads '${name}', ${later === undefined ? 'which nothing defines' : `which ${formatNode(later)} defines only later`}`,
    );
  };
  graph.nodes.forEach((node, index) => {
    const who = () => formatNode({ ...node, index });
    for (const name of node.inputs) read(name, who);
    for (const [attribute, sub] of subgraphsOf(node)) {
      for (const name of capturesOf(sub)) read(name, () => `subgraph '${attribute}' of ${who()}`);
      verifyGraph(sub, everything);
    }
    for (const name of node.outputs) if (name !== '') define(name, who());
  });
  for (const { name } of graph.outputs) {
    if (name === '') throw fail(`${title}: an output has no name`);
    read(name, () => 'an output');
  }
}

function fail(message: string): SkepError {
  return new SkepError('INVALID_MODEL', message);
}
