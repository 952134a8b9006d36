// From what a file says (parse.ts) to the IR: names resolved and made unique, functions inlined, attribute references
// replaced, every node given its operator set version, nodes put in topological order. How to picture it: scopes nested
// as graphs are, each a table from the names written in it to the names in the result; a function call opens a scope that
// sees no outer one. Whether an operator exists is the compiler's question.
import type { Attribute, Graph, Model, Node, ValueInfo } from '../graph/graph.js';
import { sortNodes } from '../graph/order.js';
import { type ErrorCode, formatNode, SkepError } from '../tensor/errors.js';
import type { Tensor } from '../tensor/tensor.js';
import type { RawAttribute, RawFunction, RawGraph, RawModel, RawNode } from './parse.js';

/** The newest operator set of ai.onnx whose operators Skep has read. */
export const LATEST_OPSET = 27;
/** The newest IR version whose format Skep has read. */
export const LATEST_IR_VERSION = 13;

/** Functions calling functions and graphs inside graphs, together. */
const MAX_DEPTH = 100;
/** Nodes and names that function calls may add: calls of calls grow exponentially. */
const MAX_INLINED = 300_000;
/** Inlined names are cut to this; a counter keeps them apart. */
const MAX_NAME = 200;

/** What a function call, or the main graph, gives to the nodes in it. */
interface Frame {
  /** Undefined in the main graph. */
  readonly fn?: RawFunction;
  readonly caller?: Frame;
  readonly opsets: ReadonlyMap<string, number>;
  /** What `ref_attr_name` refers to. */
  readonly attributes: ReadonlyMap<string, Attribute>;
  /** Prefix of the names made here. */
  readonly prefix: string;
}

/** Names visible in a graph: its own, then those of the graphs around it. */
class Scope {
  readonly names = new Map<string, string>();
  readonly frame: Frame;
  readonly outer: Scope | undefined;
  readonly depth: number;

  constructor(frame: Frame, outer: Scope | undefined, depth: number) {
    this.frame = frame;
    this.outer = outer;
    this.depth = depth;
  }

  find(name: string): string | undefined {
    return this.names.get(name) ?? this.outer?.find(name);
  }
}

/** Makes a Model of a parsed file. Throws INVALID_MODEL or UNSUPPORTED that says which node, value and byte. */
export function link(raw: RawModel): Model {
  if (raw.irVersion < 1) throw new SkepError('INVALID_MODEL', 'not an ONNX model: it has no IR version');
  if (raw.irVersion > LATEST_IR_VERSION)
    throw new SkepError(
      'UNSUPPORTED',
      `the model has IR version ${raw.irVersion}; Skep reads up to ${LATEST_IR_VERSION}. Export it for an older one`,
    );
  if (raw.graph === undefined) throw new SkepError('INVALID_MODEL', 'the model has no graph');
  const opsets = new Map(raw.opsets);
  // Before IR version 3 there were no operator set imports.
  if (raw.irVersion < 3 && !opsets.has('')) opsets.set('', 1);
  checkOpsets(opsets, 'the model');
  const graph = new Linker(raw, opsets).main(raw.graph);
  return { graph, irVersion: raw.irVersion, opsets, producer: raw.producer, metadata: raw.metadata };
}

function checkOpsets(opsets: ReadonlyMap<string, number>, who: string): void {
  for (const [domain, version] of opsets) {
    if (version < 1)
      throw new SkepError('INVALID_MODEL', `${who} imports version ${version} of domain '${domain || 'ai.onnx'}'`);
    if (domain === '' && version > LATEST_OPSET)
      throw new SkepError(
        'UNSUPPORTED',
        `${who} needs operator set ${version} of ai.onnx; Skep knows up to ${LATEST_OPSET}. Export it for an older one`,
      );
  }
}

function where(node: RawNode, frame: Frame): string {
  const fn = frame.fn === undefined ? '' : ` in function '${frame.fn.name}'`;
  return `${formatNode(node)}${fn} (byte ${node.offset})`;
}

function invalid(message: string, code: ErrorCode = 'INVALID_MODEL'): SkepError {
  return new SkepError(code, message);
}

class Linker {
  readonly #functions = new Map<string, RawFunction>();
  readonly #opsets: ReadonlyMap<string, number>;
  readonly #used = new Set<string>();
  readonly #counters = new Map<string, number>();
  #inlined = 0;

  constructor(raw: RawModel, opsets: ReadonlyMap<string, number>) {
    this.#opsets = opsets;
    for (const fn of raw.functions) {
      const key = functionKey(fn.domain, fn.name, fn.overload);
      if (this.#functions.has(key)) throw invalid(`function '${fn.name}' of domain '${fn.domain}' is there twice`);
      checkOpsets(fn.opsets, `function '${fn.name}'`);
      this.#functions.set(key, fn);
    }
  }

  main(raw: RawGraph): Graph {
    this.#reserve(raw);
    const graph = this.#graph(
      raw,
      new Scope({ opsets: this.#opsets, attributes: new Map(), prefix: '' }, undefined, 0),
    );
    const seen = new Set<string>();
    for (const { name } of graph.outputs) {
      if (seen.has(name)) throw invalid(`output '${name}' of the model is there twice`);
      seen.add(name);
    }
    return graph;
  }

  /** Every name of the main graph and its subgraphs is kept from being made anew. */
  #reserve(raw: RawGraph): void {
    for (const name of definitions(raw)) this.#used.add(name);
    for (const node of raw.nodes)
      for (const a of node.attributes.values()) {
        if (a.kind === 'graph') this.#reserve(a.value);
        else if (a.kind === 'graphs') for (const g of a.value) this.#reserve(g);
      }
  }

  #graph(raw: RawGraph, scope: Scope): Graph {
    const title = raw.name === '' ? `the graph at byte ${raw.offset}` : `graph '${raw.name}'`;
    if (scope.depth > MAX_DEPTH) throw invalid(`${title}: graphs and functions are nested deeper than ${MAX_DEPTH}`);
    const { names, frame } = scope;
    const define = (name: string, what: () => string) => {
      if (names.has(name)) throw invalid(`${title}: ${what()} '${name}' is already defined`);
      const taken = frame.fn !== undefined || scope.outer?.find(name) !== undefined;
      names.set(name, taken ? this.#fresh(frame.prefix, name) : name);
    };
    for (const { name } of raw.inputs) define(name, () => 'input');
    for (const name of raw.initializers.keys()) if (!names.has(name)) define(name, () => 'initializer');
    for (const node of raw.nodes)
      for (const name of node.outputs) if (name !== '') define(name, () => `the output of ${where(node, frame)}`);

    const inputs = raw.inputs.map((v): ValueInfo => ({ ...v, name: names.get(v.name)! }));
    const initializers = new Map<string, Tensor>();
    for (const [name, tensor] of raw.initializers) initializers.set(names.get(name)!, tensor);
    const nodes: Node[] = [];
    for (const node of raw.nodes) this.#node(node, scope, nodes);
    const outputs = raw.outputs.map((v): ValueInfo => {
      const name = scope.find(v.name);
      if (name === undefined || name === '') throw invalid(`${title}: nothing defines its output '${v.name}'`);
      return { ...v, name };
    });
    return { name: raw.name, inputs, outputs, initializers, nodes: sorted(nodes, title) };
  }

  #node(raw: RawNode, scope: Scope, into: Node[]): void {
    const { frame } = scope;
    const inputs = raw.inputs.map((name) => {
      if (name === '') return '';
      const found = scope.find(name);
      if (found === undefined) throw invalid(`${where(raw, frame)} reads '${name}', which nothing defines`);
      return found;
    });
    const outputs = raw.outputs.map((name) => (name === '' ? '' : scope.names.get(name)!));
    const attributes = new Map<string, Attribute>();
    for (const [name, a] of raw.attributes) {
      const value = this.#attribute(a, scope, raw);
      if (value !== undefined) attributes.set(name, value);
    }
    const { op, domain, name } = raw;
    const fn = this.#functions.size === 0 ? undefined : this.#functions.get(functionKey(domain, op, raw.overload));
    if (fn !== undefined) {
      this.#call(fn, raw, inputs, outputs, attributes, scope, into);
      return;
    }
    if (frame.fn !== undefined) this.#spend(1 + inputs.length + outputs.length, raw, frame);
    const full = frame.fn === undefined ? name : `${frame.prefix}/${name === '' ? op : name}`.slice(-MAX_NAME);
    const opset = this.#opset(domain, raw, frame);
    into.push({ op, domain, opset, name: full, inputs, outputs, attributes: Object.fromEntries(attributes) });
  }

  #opset(domain: string, raw: RawNode, frame: Frame): number {
    const opset = frame.opsets.get(domain) ?? this.#opsets.get(domain);
    if (opset !== undefined) return opset;
    if (domain === '') throw invalid(`${where(raw, frame)}: the model imports no operator set of ai.onnx`);
    return 1;
  }

  #attribute(a: RawAttribute, scope: Scope, node: RawNode): Attribute | undefined {
    const { frame } = scope;
    const inner = (g: RawGraph) => {
      if (frame.fn !== undefined) this.#spend(1 + g.inputs.length + g.outputs.length, node, frame);
      return this.#graph(g, new Scope(frame, scope, scope.depth + 1));
    };
    switch (a.kind) {
      case 'reference':
        if (frame.fn === undefined)
          throw invalid(`${where(node, frame)} refers to attribute '${a.value}' of a function, but is in none`);
        return frame.attributes.get(a.value);
      case 'graph':
        return { kind: 'graph', value: inner(a.value) };
      case 'graphs':
        return { kind: 'graphs', value: a.value.map(inner) };
      default:
        return a;
    }
  }

  /** Puts the body of a function in the place of the node that calls it. */
  #call(
    fn: RawFunction,
    raw: RawNode,
    inputs: readonly string[],
    outputs: readonly string[],
    given: ReadonlyMap<string, Attribute>,
    from: Scope,
    into: Node[],
  ): void {
    const here = where(raw, from.frame);
    for (let f: Frame | undefined = from.frame; f !== undefined; f = f.caller)
      if (f.fn === fn) throw invalid(`${here}: function '${fn.name}' calls itself`);
    if (from.depth >= MAX_DEPTH) throw invalid(`${here}: graphs and functions are nested deeper than ${MAX_DEPTH}`);
    if (inputs.length > fn.inputs.length || outputs.length > fn.outputs.length)
      throw invalid(
        `${here}: function '${fn.name}' has ${fn.inputs.length} inputs and ${fn.outputs.length} outputs, ` +
          `got ${inputs.length} and ${outputs.length}`,
      );
    this.#spend(1, raw, from.frame);
    const caller = from.frame;
    const label = `${caller.prefix === '' ? '' : `${caller.prefix}/`}${raw.name === '' ? raw.op : raw.name}`;
    const attributes = new Map<string, Attribute>();
    const frame: Frame = { fn, caller, opsets: fn.opsets, attributes, prefix: label.slice(-MAX_NAME) };
    const scope = new Scope(frame, undefined, from.depth + 1);
    for (const [name, a] of fn.defaults) {
      const value = given.has(name) ? undefined : this.#attribute(a, scope, raw);
      if (value !== undefined) attributes.set(name, value);
    }
    for (const [name, a] of given) attributes.set(name, a);

    const define = (name: string, as: string) => {
      if (scope.names.has(name)) throw invalid(`function '${fn.name}': '${name}' is defined twice`);
      scope.names.set(name, as);
    };
    fn.inputs.forEach((name, i) => {
      define(name, inputs[i] ?? '');
    });
    const wanted = new Map<string, string>();
    const copies: [from: string, to: string][] = [];
    fn.outputs.forEach((name, i) => {
      const to = outputs[i] ?? '';
      if (to === '') return;
      // An output that is an input, or is given out twice, needs a node of its own.
      if (scope.names.has(name) || wanted.has(name)) copies.push([name, to]);
      else wanted.set(name, to);
    });
    for (const node of fn.nodes)
      for (const name of node.outputs)
        if (name !== '') define(name, wanted.get(name) ?? this.#fresh(frame.prefix, name));
    for (const [name] of wanted)
      if (!scope.names.has(name)) throw invalid(`${here}: nothing defines output '${name}' of function '${fn.name}'`);
    for (const node of fn.nodes) this.#node(node, scope, into);
    for (const [source, to] of copies) {
      const value = scope.names.get(source)!;
      if (value === '') throw invalid(`${here}: output '${to}' is the omitted input '${source}'`);
      const opset = this.#opset('', raw, frame);
      into.push({ op: 'Identity', domain: '', opset, name: '', inputs: [value], outputs: [to], attributes: {} });
    }
  }

  #spend(amount: number, node: RawNode, frame: Frame): void {
    this.#inlined += amount;
    if (this.#inlined > MAX_INLINED)
      throw invalid(`${where(node, frame)}: the model's functions unfold to more than ${MAX_INLINED} nodes and names`);
  }

  #fresh(prefix: string, name: string): string {
    const base = prefix === '' ? name : `${prefix}/${name}`.slice(-MAX_NAME);
    let made = base;
    let k = this.#counters.get(base) ?? 0;
    while (this.#used.has(made)) made = `${base}_${++k}`;
    this.#counters.set(base, k);
    this.#used.add(made);
    return made;
  }
}

function functionKey(domain: string, name: string, overload: string): string {
  return JSON.stringify([domain, name, overload]);
}

function* definitions(raw: RawGraph): Generator<string> {
  for (const { name } of raw.inputs) yield name;
  yield* raw.initializers.keys();
  for (const node of raw.nodes) yield* node.outputs;
}

function sorted(nodes: readonly Node[], title: string): readonly Node[] {
  const order = sortNodes(nodes);
  if ('nodes' in order) return order.nodes;
  const shown = order.cycle.slice(0, 8).map((n) => `${formatNode(n)} → '${n.outputs.find((o) => o !== '') ?? ''}'`);
  const more = order.cycle.length > 8 ? `, and ${order.cycle.length - 8} more` : '';
  throw invalid(`${title} has a cycle: ${shown.join(', ')}${more}`);
}
