// Where a node's inputs come from, in words, and whose fault it is when they do not fit. Operators say what is wrong with
// the shapes they see; this says whose shapes those are:
//
//   MatMul 'fc': inner dimensions differ: [2, 63] and [64, 10]
//     + ; inputs: 0: float32 [2, 63], input 'x' of the model; 1: float32 [64, 10], weight 'fc.weight'
//
// A mismatch is the caller's (INVALID_INPUT) where another shape of an input would do, else the model's. Only asked when
// something has failed, so nothing is kept ready.
import { type Graph, type Node, subgraphsOf, type ValueInfo } from '../graph/graph.js';
import { formatNode, formatShape, SkepError } from '../tensor/errors.js';
import { Inference, resolve } from './evaluate.js';
import { type TensorInfo, ValueNeeded } from './operator.js';

/** What a value was fed as, where it is known. */
export type DimsOf = (name: string) => readonly number[] | undefined;

/** Errors that say it already: they pass through the node around a body, too. */
const explained = new WeakSet<SkepError>();

/** What a value is made from, at the far end. */
interface Leaves {
  readonly inputs: ReadonlySet<string>;
  /** Names of weights and Constant nodes. */
  readonly constants: ReadonlySet<string>;
}

const RECURRENT = new Set(['LSTM', 'GRU', 'RNN']);
const recurrentInputs = ['X', 'W', 'R', 'B', 'sequence_lens', 'initial_h', 'initial_c'];

/** The origins of a graph's values. */
export class Origins {
  readonly #graph: Graph;
  readonly #outer: Origins | undefined;
  readonly #inputs: ReadonlyMap<string, ValueInfo>;
  readonly #weights = new Set<string>();
  readonly #makers = new Map<string, Node>();
  readonly #leaves = new Map<string, Leaves>();

  /** `outer`: of the graph around a body. */
  constructor(graph: Graph, outer?: Origins) {
    this.#graph = graph;
    this.#outer = outer;
    this.#inputs = new Map(graph.inputs.map((v) => [v.name, v]));
    const visit = (g: Graph) => {
      for (const name of g.initializers.keys()) this.#weights.add(name);
      for (const node of g.nodes) {
        for (const o of node.outputs) if (o !== '') this.#makers.set(o, node);
        // Branches are inlined.
        if (node.op === 'If') for (const [, sub] of subgraphsOf(node)) visit(sub);
      }
    };
    visit(graph);
  }

  /** `weight 'w'`, `input 'x' of the model`, `output of Conv 'conv1'`, `constant, by Expand 'e' from weight 'h0'`. */
  describe(name: string): string {
    if (this.#inputs.has(name))
      return this.#outer === undefined
        ? `input '${name}' of the model`
        : `input '${name}' of body '${this.#graph.name}'`;
    if (this.#weights.has(name)) return `weight '${name}'`;
    const maker = this.#makers.get(name);
    if (maker === undefined) return this.#outer?.describe(name) ?? `'${name}'`;
    const who = maker.name === '' ? `${maker.op} ('${name}')` : formatNode(maker);
    const { inputs, constants } = this.#leavesOf(name);
    if (inputs.size > 0) return `output of ${who}`;
    const from = [...constants].filter((c) => c !== name).slice(0, 3);
    return from.length === 0
      ? `constant ${who}`
      : `constant, by ${who} from ${from.map((c) => this.describe(c)).join(', ')}`;
  }

  /** An error of a node's shape rule, with where its inputs come from. `inputs` are as the rule saw them. */
  explain(error: SkepError, node: Node, inputs: readonly (TensorInfo | undefined)[], dimsOf: DimsOf): SkepError {
    if (explained.has(error) || error.code === 'INTERNAL') return error;
    const list = inputs.flatMap((x, i) => {
      const name = node.inputs[i];
      return x === undefined || !name ? [] : `${i}: ${x.type} ${formatShape(x.dims)}, ${this.describe(name)}`;
    });
    const why = this.#exportedBatch(node, inputs);
    const blame =
      error.code === 'INVALID_MODEL' && why === undefined ? this.#callersFault(node, inputs, dimsOf) : undefined;
    const parts = [
      `${blame === undefined ? '' : `${blame}: `}${error.message}`,
      ...(why === undefined ? [] : [why]),
      ...(list.length === 0 ? [] : [`inputs: ${list.join('; ')}`]),
    ];
    const found = new SkepError(blame === undefined ? error.code : 'INVALID_INPUT', parts.join('; '), { cause: error });
    explained.add(found);
    return found;
  }

  /** The constant that ties a recurrent layer to the batch size it was exported with. */
  #exportedBatch(node: Node, inputs: readonly (TensorInfo | undefined)[]): string | undefined {
    const x = inputs[0];
    if (!RECURRENT.has(node.op) || node.domain !== '' || x?.dims.length !== 3) return undefined;
    const layout = node.attributes.layout;
    const batchFirst = layout?.kind === 'int' && layout.value === 1;
    const batch = x.dims[batchFirst ? 0 : 1]!;
    for (const i of [5, 6, 4]) {
      const t = inputs[i];
      const name = node.inputs[i];
      if (t === undefined || !name || this.#leavesOf(name).inputs.size > 0) continue;
      const axis = i === 4 ? 0 : batchFirst ? 0 : 1;
      const fixed = t.dims[axis];
      if (fixed !== undefined && fixed !== batch)
        return `the model was exported for batch size ${fixed}, and X has ${batch}: ${recurrentInputs[i]} is ${this.describe(name)}. Export it with a dynamic batch axis, or with that state as an input`;
    }
    return undefined;
  }

  /** Which fed shapes are to blame, in words; undefined where the model is, or it cannot be told. */
  #callersFault(node: Node, infos: readonly (TensorInfo | undefined)[], dimsOf: DimsOf): string | undefined {
    if (this.#outer !== undefined) return undefined;
    const names = node.inputs.filter((n) => n !== '');
    const leaves = names.map((n) => this.#leavesOf(n));
    const fed = [...new Set(leaves.flatMap((l) => [...l.inputs]))];
    const other = this.#otherShape(node, infos);
    // Types, attributes and elements are not the caller's shapes.
    if (other === undefined) return undefined;
    const said = this.#contradiction(fed, dimsOf);
    if (said !== undefined) return said;
    if (other !== 'indirectly') return other;
    if (leaves.some((l) => l.constants.size > 0) || !fed.some((n) => this.#isOpen(n))) return undefined;
    return `${fed.map((n) => `input '${n}' ${formatShape(dimsOf(n) ?? [])}`).join(' and ')} cannot be computed together`;
  }

  /** Inputs that declare one symbol and were fed two sizes. */
  #contradiction(fed: readonly string[], dimsOf: DimsOf): string | undefined {
    const sizes = new Map<string, { readonly name: string; readonly size: number }>();
    for (const name of fed) {
      const type = this.#inputs.get(name)?.type;
      const dims = dimsOf(name);
      if (type?.kind !== 'tensor' || type.dims === undefined || dims === undefined) continue;
      for (const [i, symbol] of type.dims.entries()) {
        if (typeof symbol !== 'string' || symbol === '' || dims[i] === undefined) continue;
        const first = sizes.get(symbol);
        if (first === undefined) sizes.set(symbol, { name, size: dims[i] });
        else if (first.size !== dims[i])
          return `inputs '${first.name}' and '${name}' disagree on '${symbol}': ${first.size} and ${dims[i]}`;
      }
    }
    return undefined;
  }

  /**
   * Which open dimension of an input would have to be another for the node to take it; 'indirectly' where that is a
   * dimension of what was computed from inputs, or of one that declares nothing.
   */
  #otherShape(node: Node, infos: readonly (TensorInfo | undefined)[]): string | undefined {
    const { operator, attributes } = resolve(node);
    const fits = (given: readonly (TensorInfo | undefined)[]): boolean => {
      try {
        operator.infer(new Inference(node, attributes, given));
        return true;
      } catch (error) {
        if (error instanceof SkepError || error instanceof ValueNeeded) return false;
        throw error;
      }
    };
    // The trouble may be in the elements.
    if (fits(infos)) return undefined;
    const candidates = new Set(infos.flatMap((x) => x?.dims ?? []));
    let indirectly = false;
    for (const [i, info] of infos.entries()) {
      if (info === undefined) continue;
      const name = node.inputs[i]!;
      const type = this.#inputs.get(name)?.type;
      const declared = type?.kind === 'tensor' ? type.dims : undefined;
      for (const d of info.dims.keys()) {
        if (declared !== undefined && typeof declared[d] === 'number') continue;
        if (declared === undefined && indirectly) continue;
        for (const size of [...candidates].slice(0, 32)) {
          const changed = infos.map((x, k) =>
            node.inputs[k] === name && x ? { type: x.type, dims: x.dims.with(d, size) } : x,
          );
          if (!fits(changed)) continue;
          if (declared !== undefined)
            return `input '${name}' is ${formatShape(info.dims)}, and its dimension ${d} must be ${size} here`;
          indirectly = true;
          break;
        }
      }
    }
    return indirectly ? 'indirectly' : undefined;
  }

  #isOpen(name: string): boolean {
    const type = this.#inputs.get(name)?.type;
    return type?.kind !== 'tensor' || type.dims === undefined || type.dims.some((d) => typeof d !== 'number');
  }

  #leavesOf(name: string): Leaves {
    const known = this.#leaves.get(name);
    if (known !== undefined) return known;
    const inputs = new Set<string>();
    const constants = new Set<string>();
    const seen = new Set<string>();
    const pending = [name];
    for (let n = pending.pop(); n !== undefined; n = pending.pop()) {
      if (n === '' || seen.has(n)) continue;
      seen.add(n);
      const maker = this.#makers.get(n);
      if (this.#inputs.has(n)) inputs.add(n);
      else if (this.#weights.has(n)) constants.add(n);
      else if (maker === undefined) {
        // From around a body.
        const outer = this.#outer === undefined ? undefined : this.#outer.#leavesOf(n);
        for (const i of outer?.inputs ?? [n]) inputs.add(i);
        for (const c of outer?.constants ?? []) constants.add(c);
      } else if (maker.inputs.every((x) => x === '') && subgraphsOf(maker).length === 0) constants.add(n);
      else pending.push(...maker.inputs);
    }
    const found = { inputs, constants };
    this.#leaves.set(name, found);
    return found;
  }
}
