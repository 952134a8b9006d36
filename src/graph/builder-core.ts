// The builder's bookkeeping: values, names, constants, weights, subgraphs, and the finished model. How to picture it: a
// list of nodes that grows in topological order; every method adds one node and hands back its output. The operators
// themselves are methods of builder.ts.
import { SkepError } from '../tensor/errors.js';
import { sizeOf } from '../tensor/shape.js';
import { Tensor, type TensorData } from '../tensor/tensor.js';
import type { DataType } from '../tensor/types.js';
import type { Dims } from './builder-shapes.js';
import type { Attribute, Dim, Graph, Model, Node, ValueInfo } from './graph.js';
import { Random } from './random.js';
import { verify } from './verify.js';

/** A value of a graph under construction: what methods take and give. */
export class Value {
  readonly name: string;
  readonly type: DataType;
  readonly dims: Dims;

  constructor(name: string, type: DataType, dims: Dims) {
    this.name = name;
    this.type = type;
    this.dims = dims;
  }
}

/**
 * Attributes as plain values: a number is an int (it must be one: floats are written `float(0.5)`), number[] is ints,
 * Float32Array is floats, and strings, tensors and graphs are what they are.
 */
export type AttributeValue =
  | number
  | string
  | readonly number[]
  | readonly string[]
  | Float32Array
  | Tensor
  | Graph
  | Attribute;

/** A float attribute. */
export function float(value: number): Attribute {
  return { kind: 'float', value: Math.fround(value) };
}

/** Type and shape of a node's output where the builder can't tell. */
export interface OutputType {
  readonly type?: DataType;
  readonly dims?: Dims;
}

/** What a builder is made with. */
export interface BuilderOptions {
  /** Operator set of ai.onnx, 17 to 27. Default 20. */
  readonly opset?: number;
  /** Seed of the weights. Default 1. */
  readonly seed?: number;
  readonly producer?: string;
  /** All weights zero: a model whose structure is wanted, made at once whatever its size. */
  readonly zeros?: boolean;
}

/** How weights are drawn: evenly from [offset − scale, offset + scale). */
export interface WeightOptions {
  /** Default sqrt(3 / fan-in): unit gain. The fan-in is what one output sums over: all dimensions but the first. */
  readonly scale?: number;
  /** Default 0. */
  readonly offset?: number;
  readonly name?: string;
  /** Draws the numbers instead of the builder's own generator. */
  readonly random?: Random;
}

/** IR version that came with an operator set (onnx/docs/Versioning.md). */
function irVersionOf(opset: number): number {
  return opset < 19 ? 8 : opset < 21 ? 9 : opset < 23 ? 10 : opset < 24 ? 11 : opset < 25 ? 12 : 13;
}

interface Shared {
  readonly opsets: Map<string, number>;
  readonly random: Random;
  readonly names: Set<string>;
  readonly counters: Map<string, number>;
  readonly renames: Map<string, string>;
  readonly zeros: boolean;
}

/** The part of a builder that knows no operators. */
export class BuilderCore {
  readonly name: string;
  /** The version of ai.onnx this graph is written against. */
  readonly opset: number;
  readonly #producer: string;
  readonly #shared: Shared;
  readonly #inputs: ValueInfo[] = [];
  readonly #outputs: ValueInfo[] = [];
  readonly #initializers = new Map<string, Tensor>();
  readonly #nodes: Node[] = [];
  readonly #made = new Set<string>();
  readonly #constants = new Map<string, Value>();
  #scope = '';

  constructor(name: string, options: BuilderOptions = {}, parent?: BuilderCore) {
    this.name = name;
    this.opset = options.opset ?? 20;
    this.#producer = options.producer ?? 'skep';
    if (!Number.isInteger(this.opset) || this.opset < 17 || this.opset > 27)
      throw new SkepError('INVALID_INPUT', `the builder writes operator sets 17 to 27, not ${this.opset}`);
    this.#shared =
      parent !== undefined
        ? parent.#shared
        : {
            opsets: new Map([['', this.opset]]),
            random: new Random(options.seed ?? 1),
            names: new Set(),
            counters: new Map(),
            renames: new Map(),
            zeros: options.zeros === true,
          };
  }

  /** A graph input. */
  input(name: string, type: DataType, dims: readonly Dim[]): Value {
    this.#reserve(name);
    this.#inputs.push({ name, type: { kind: 'tensor', type, dims } });
    return new Value(name, type, dims);
  }

  /** Declares `value` an output of the graph called `name`. Type and shape are what the builder knows unless given. */
  output(name: string, value: Value, declared: OutputType = {}): void {
    const type = declared.type ?? value.type;
    const dims = declared.dims ?? value.dims;
    if (name !== value.name) {
      this.#reserve(name);
      // A node's output takes the name; an input, a constant, a captured value or a second output needs a copy.
      if (this.#made.delete(value.name)) this.#shared.renames.set(value.name, name);
      else this.#nodes.push({ ...this.#node('Identity', {}), inputs: [value.name], outputs: [name] });
    }
    this.#made.delete(name);
    this.#outputs.push({ name, type: dims === undefined ? { kind: 'tensor', type } : { kind: 'tensor', type, dims } });
  }

  /** A constant tensor. */
  constant(type: DataType, data: TensorData, dims?: readonly number[], name?: string): Value {
    return this.tensor(new Tensor(type, data, dims), name);
  }

  /** The same of a tensor. */
  tensor(tensor: Tensor, name?: string): Value {
    const own = name === undefined ? this.#fresh('const') : this.#scoped(name);
    this.#initializers.set(own, tensor);
    return new Value(own, tensor.type, tensor.dims);
  }

  /** A constant with one element and no dimensions; equal ones are shared. */
  scalar(type: DataType, value: number): Value {
    return this.#share(`${type} ${value}`, () => this.constant(type, [value], []));
  }

  /** An int64 vector (axes, shapes, …); equal ones are shared. */
  ints(values: readonly number[]): Value {
    return this.#share(`[${values}]`, () => this.constant('int64', values));
  }

  /** Seeded float32 weights: the n-th call with the same seed gives the same numbers on every machine. */
  weights(dims: readonly number[], options: WeightOptions = {}): Value {
    const fan = dims.length < 2 ? 1 : sizeOf(dims.slice(1));
    const scale = options.scale ?? Math.sqrt(3 / fan);
    const offset = options.offset ?? 0;
    const { zeros, random } = this.#shared;
    const size = sizeOf(dims);
    const data = zeros
      ? new Float32Array(size)
      : (options.random ?? random).floats(size, offset - scale, offset + scale);
    return this.tensor(new Tensor('float32', data, dims), options.name ?? 'weight');
  }

  /** Runs `build` with names prefixed by `name/`. */
  scope<T>(name: string, build: () => T): T {
    const before = this.#scope;
    this.#scope = `${before}${name}/`;
    try {
      return build();
    } finally {
      this.#scope = before;
    }
  }

  /**
   * Any operator: `g.op('Celu', [x], { alpha: float(2) })`, `g.op('com.microsoft:QuickGelu', [x])`. An undefined input is an
   * omitted one. Without `outputs` there is one output, like the first input in type and of unknown shape; otherwise the
   * outputs come in an array: a number of them, or what is known of each (undefined: not wanted).
   */
  op(
    name: string,
    inputs: readonly (Value | undefined)[],
    attributes?: Record<string, AttributeValue | undefined>,
  ): Value;
  op(
    name: string,
    inputs: readonly (Value | undefined)[],
    attributes: Record<string, AttributeValue | undefined>,
    outputs: number | readonly (OutputType | undefined)[],
  ): Value[];
  op(
    name: string,
    inputs: readonly (Value | undefined)[],
    attributes: Record<string, AttributeValue | undefined> = {},
    outputs: number | readonly (OutputType | undefined)[] = 1,
  ): Value | Value[] {
    const node = this.#node(name, attributes);
    const wanted = typeof outputs === 'number' ? Array.from({ length: outputs }, (): OutputType => ({})) : outputs;
    const fallback = inputs.find((v) => v !== undefined)?.type ?? 'float32';
    const values = wanted.map((o) => {
      if (o === undefined) return new Value('', fallback, undefined);
      const own = this.#fresh(node.op.toLowerCase());
      this.#made.add(own);
      return new Value(own, o.type ?? fallback, o.dims);
    });
    const names = inputs.map((v) => v?.name ?? '');
    while (names.length > 0 && names[names.length - 1] === '') names.pop();
    this.#nodes.push({ ...node, inputs: names, outputs: values.map((v) => v.name) });
    // biome-ignore lint/complexity/noArguments: an overload is chosen by how many arguments there are
    return arguments.length < 4 ? values[0]! : values;
  }

  /** The graph so far. */
  graph(): Graph {
    return rename(
      {
        name: this.name,
        inputs: this.#inputs,
        outputs: this.#outputs,
        initializers: this.#initializers,
        nodes: this.#nodes,
      },
      this.#shared.renames,
    );
  }

  /** The finished model, verified. */
  model(metadata: ReadonlyMap<string, string> = new Map()): Model {
    const model: Model = {
      graph: this.graph(),
      irVersion: irVersionOf(this.opset),
      opsets: new Map(this.#shared.opsets),
      producer: this.#producer,
      metadata,
    };
    verify(model);
    return model;
  }

  #node(name: string, attributes: Record<string, AttributeValue | undefined>): Node {
    const colon = name.lastIndexOf(':');
    const domain = name.slice(0, Math.max(colon, 0));
    const op = name.slice(colon + 1);
    const { opsets } = this.#shared;
    if (!opsets.has(domain)) opsets.set(domain, 1);
    const given = Object.entries(attributes).flatMap(([key, value]) =>
      value === undefined ? [] : [[key, attributeOf(op, key, value)] as const],
    );
    const own = this.#fresh(op);
    const opset = opsets.get(domain)!;
    return { op, domain, opset, name: own, inputs: [], outputs: [], attributes: Object.fromEntries(given) };
  }

  #share(key: string, make: () => Value): Value {
    const found = this.#constants.get(key) ?? make();
    this.#constants.set(key, found);
    return found;
  }

  #reserve(name: string): void {
    if (this.#shared.names.has(name)) throw new SkepError('INVALID_INPUT', `the name '${name}' is taken`);
    this.#shared.names.add(name);
  }

  #scoped(name: string): string {
    const full = `${this.#scope}${name}`;
    if (this.#shared.names.has(full)) return this.#fresh(name);
    this.#shared.names.add(full);
    return full;
  }

  #fresh(base: string): string {
    const { names, counters } = this.#shared;
    const full = `${this.#scope}${base}`;
    let k = counters.get(full) ?? 0;
    let name: string;
    do name = `${full}_${k++}`;
    while (names.has(name));
    counters.set(full, k);
    names.add(name);
    return name;
  }
}

function attributeOf(op: string, name: string, value: AttributeValue): Attribute {
  if (typeof value === 'number') {
    if (Number.isInteger(value)) return { kind: 'int', value };
    throw new SkepError('INVALID_INPUT', `${op}: attribute ${name} is ${value}; write floats as float(${value})`);
  }
  if (typeof value === 'string') return { kind: 'string', value };
  if (value instanceof Tensor) return { kind: 'tensor', value };
  if (value instanceof Float32Array) return { kind: 'floats', value: Array.from(value) };
  if (Array.isArray(value)) {
    if (value.length > 0 && typeof value[0] === 'string') return { kind: 'strings', value };
    if (value.every((x) => Number.isInteger(x))) return { kind: 'ints', value };
    throw new SkepError('INVALID_INPUT', `${op}: attribute ${name} holds fractions; write floats as a Float32Array`);
  }
  return 'nodes' in value ? { kind: 'graph', value: value as Graph } : (value as Attribute);
}

/** The graph with value names replaced, subgraphs included. */
function rename(graph: Graph, names: ReadonlyMap<string, string>): Graph {
  const of = (name: string) => names.get(name) ?? name;
  const within = (a: Attribute): Attribute => {
    if (a.kind === 'graph') return { kind: 'graph', value: rename(a.value, names) };
    if (a.kind === 'graphs') return { kind: 'graphs', value: a.value.map((g) => rename(g, names)) };
    return a;
  };
  return {
    ...graph,
    inputs: [...graph.inputs],
    outputs: graph.outputs.map((o) => ({ ...o, name: of(o.name) })),
    initializers: new Map(graph.initializers),
    nodes: graph.nodes.map((node) => ({
      ...node,
      inputs: node.inputs.map(of),
      outputs: node.outputs.map(of),
      attributes: Object.fromEntries(Object.entries(node.attributes).map(([key, a]) => [key, within(a)])),
    })),
  };
}
