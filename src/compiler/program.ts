// A program is a graph compiled step by step as shapes become known: `begin` with the feeds gives the first segment,
// `resume` after its cut the next. Segments are cached by what they were compiled for, within a bound, so the second
// request of a shape compiles nothing. Execution (who computes what a cut asks for) is runtime/.
import { capturesOf, type Graph, type Node } from '../graph/graph.js';
import { uniqueNames } from '../graph/unique.js';
import type { HostValue, TensorInfo } from '../operators/operator.js';
import { type DimsOf, Origins } from '../operators/origins.js';
import { formatShape, SkepError } from '../tensor/errors.js';
import { bytesOf, Tensor } from '../tensor/tensor.js';
import { ModelConstants } from './constants.js';
import type { CompileOptions, ConstantPool } from './plan.js';
import { compileSegment, type Explain, type Known, type Rest, type Segment } from './segment.js';

/** What is known of a value handed to a program: shape alone, shape and elements, or a value that is no plain tensor. */
export type Feed = TensorInfo | 'host';

/** Segments kept per program. */
const CACHE = 64;

export class Program {
  readonly graph: Graph;
  readonly #options: CompileOptions;
  readonly #pool: ConstantPool;
  readonly #constants: ModelConstants;
  readonly #cache = new Map<string, Segment>();
  /** A number a segment, part of the keys of the segments that follow it. */
  readonly #ids = new WeakMap<Segment, number>();
  #nextId = 1;

  /** Made when something has failed. */
  #origins: Origins | undefined;
  readonly #around: Program | undefined;

  /** `around`: the program of the graph this one is a body in. */
  constructor(
    graph: Graph,
    options: CompileOptions,
    pool: ConstantPool,
    constants = new ModelConstants(),
    around?: Program,
  ) {
    // A body's names are those of the model it is in.
    this.graph = around === undefined ? uniqueNames(graph) : graph;
    this.#around = around;
    this.#options = options;
    this.#pool = pool;
    this.#constants = constants;
    for (const t of graph.initializers.values()) constants.addWeight(t);
  }

  /**
   * A program of a subgraph of this one, sharing options and constants. Weights it captures are its weights too, placed
   * and packed once, not fed at every iteration: they are among the `initializers` of the program's graph.
   */
  nested(graph: Graph): Program {
    const initializers = new Map(graph.initializers);
    // What is also an input may have been given another value.
    const fed = new Set(this.graph.inputs.map((v) => v.name));
    for (const name of capturesOf(graph)) {
      const weight = fed.has(name) ? undefined : this.graph.initializers.get(name);
      if (weight !== undefined) initializers.set(name, weight);
    }
    return new Program({ ...graph, initializers }, this.#options, this.#pool, this.#constants, this);
  }

  /** The first segment. `feeds` holds the inputs and, for a subgraph, the captured names. */
  begin(feeds: ReadonlyMap<string, Feed>, wanted: readonly string[]): Segment {
    return this.#cached(`0 ${wanted.join()} ${keyOf(feeds)}`, () => {
      const known = new Map<string, Known>();
      for (const [name, t] of this.graph.initializers) known.set(name, { type: t.type, dims: t.dims, value: t });
      for (const [name, feed] of feeds) known.set(name, feed);
      return { nodes: this.graph.nodes, known, wanted };
    });
  }

  /** The segment after `segment`'s cut: `found` is the cut's value with its elements, or what the host node gave. */
  resume(segment: Segment, found: ReadonlyMap<string, Feed>): Segment {
    return this.#cached(`${this.#ids.get(segment)} ${keyOf(found)}`, () => ({
      ...segment.rest,
      known: new Map([...segment.rest.known, ...found]),
    }));
  }

  /** The error of a node's rule with where its inputs come from; see Origins. */
  explain(error: SkepError, node: Node, inputs: readonly (TensorInfo | undefined)[], dimsOf: DimsOf): SkepError {
    return this.#originsOf().explain(error, node, inputs, dimsOf);
  }

  #originsOf(): Origins {
    const around = this.#around;
    this.#origins ??= new Origins(this.graph, around === undefined ? undefined : around.#originsOf());
    return this.#origins;
  }

  #cached(key: string, rest: () => Rest): Segment {
    let segment = this.#cache.get(key);
    if (segment === undefined) {
      const explain: Explain = (error, node, inputs, known) =>
        this.explain(error, node, inputs, (name) => {
          const k = known.get(name);
          return k === undefined || k === 'host' ? undefined : k.dims;
        });
      segment = compileSegment(rest(), this.#options, this.#pool, this.#constants, explain);
      this.#ids.set(segment, this.#nextId++);
    } else this.#cache.delete(key);
    // Last used is last in order.
    this.#cache.set(key, segment);
    if (this.#cache.size > CACHE) this.#cache.delete(this.#cache.keys().next().value!);
    return segment;
  }
}

function keyOf(feeds: ReadonlyMap<string, Feed>): string {
  return [...feeds]
    .map(([name, f]) => {
      if (f === 'host') return `${name}:host`;
      const elements = f.value === undefined ? '' : Buffer.from(bytesOf(f.value)).toString('base64');
      return `${name}:${f.type}${formatShape(f.dims)}${elements}`;
    })
    .join(';');
}

/** What a program may know of a host value. */
export function feedOf(value: HostValue): Feed {
  if (value instanceof Tensor && value.type !== 'string') return { type: value.type, dims: value.dims };
  return 'host';
}

/** The most elements a cut may make part of a plan's key. Shapes, axes and conditions are small. */
export const VALUE_LIMIT = 1 << 16;

/** A tensor as a feed whose elements become part of the plan. */
export function constantFeed(name: string, value: Tensor): Feed {
  if (value.size > VALUE_LIMIT)
    throw new SkepError(
      'UNSUPPORTED',
      `'${name}' decides shapes and has ${value.size} elements; at most ${VALUE_LIMIT} are supported`,
    );
  return { type: value.type, dims: value.dims, value };
}
