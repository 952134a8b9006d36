// The batch-axis proof: may requests be merged along an axis? It follows the rows of the inputs through every node and
// says along which axis each output holds them, or at which node they stop standing alone. How to picture it: every value
// is one of three things,
//
//   shared   the same whatever the batch: weights, and what is computed of them
//   rows     each request has its own part along one axis (several rows of it after a reshape [N, 4, 8] → [N·4, 8])
//   size     small integers that hold the batch size N as a + b·N: what Shape gives, and shape arithmetic on it
//
// Sound by induction over the nodes: a rule (batch-rules.ts) only says "rows" where every N gives that. Shapes are settled
// at two batch sizes by the operators' own shape rules, which catches constants that fix the batch; sizes are affine in N
// at every step, so agreeing at two of them is agreeing at all. What no rule covers ends the proof: a wrong no costs
// speed, a wrong yes would be a wrong answer.
import { capturesOf, type Graph, type Node, readsOf, subgraphsOf } from '../graph/graph.js';
import { Evaluation, Inference, resolve } from '../operators/evaluate.js';
import { type HostValue, type TensorInfo, ValueNeeded } from '../operators/operator.js';
import { decode } from '../tensor/convert.js';
import { formatShape, SkepError } from '../tensor/errors.js';
import { sizeOf } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import type { DataType } from '../tensor/types.js';
import { type RuleInput, refusals, rowRules } from './batch-rules.js';

/** What the proof is told of an input. */
export interface BatchInput {
  readonly type: DataType;
  /** Concrete dimensions; the one along `axis` does not matter. */
  readonly dims: readonly number[];
  /** Along which axis requests would be merged; undefined: all merged requests give the same tensor. */
  readonly axis: number | undefined;
  /** The elements, where all merged requests give the same and they are known (a sampling rate). */
  readonly value?: Tensor;
}

/** How an output holds the rows: a request with n rows has the elements [i, i + n) · `each` along `axis`. */
export interface BatchOutput {
  readonly axis: number;
  readonly each: number;
}

export type BatchProof =
  /** An output that is no row's ('shared') is the same for every request. */
  | { readonly proven: true; readonly outputs: ReadonlyMap<string, BatchOutput | 'shared'> }
  /** Where the proof ended, and why; no node when the graph's inputs or outputs are the reason. */
  | { readonly proven: false; readonly node: Node | undefined; readonly why: string };

type Two<T> = readonly [T, T];

/** What is known of a value. */
interface Fact {
  readonly kind: 'shared' | 'rows' | 'size';
  readonly infos: Two<TensorInfo>;
  readonly axis?: number;
}

/** Two batch sizes no real dimension is likely to have. */
const SIZES: Two<number> = [13, 29];

/** Constants above this are not computed: only shapes and their arithmetic matter here. */
const VALUE_LIMIT = 4096;

class Stop extends Error {
  readonly node: Node | undefined;

  constructor(node: Node | undefined, why: string) {
    super(why);
    this.node = node;
  }
}

/** Judges whether requests may be merged along the inputs' axes. Inputs that are not given are their initializers. */
export function proveBatchAxis(graph: Graph, inputs: ReadonlyMap<string, BatchInput>): BatchProof {
  const facts = new Map<string, Fact>();
  try {
    for (const [name, t] of graph.initializers) facts.set(name, shared(t));
    for (const { name } of graph.inputs) {
      const given = inputs.get(name);
      if (given !== undefined) facts.set(name, inputFact(name, given));
      else if (!facts.has(name)) throw new Stop(undefined, `the shape of input '${name}' is not known`);
    }
    walk(
      graph.nodes,
      facts,
      graph.outputs.map((o) => o.name),
    );
    const outputs = new Map<string, BatchOutput | 'shared'>();
    for (const { name } of graph.outputs) {
      const fact = facts.get(name);
      if (fact === undefined) throw new Stop(undefined, `output '${name}' is not computed`);
      if (fact.kind === 'size') throw new Stop(undefined, `output '${name}' holds the batch size`);
      if (fact.kind === 'shared') outputs.set(name, 'shared');
      else outputs.set(name, { axis: fact.axis!, each: fact.infos[0].dims[fact.axis!]! / SIZES[0] });
    }
    return { proven: true, outputs };
  } catch (error) {
    if (error instanceof Stop) return { proven: false, node: error.node, why: error.message };
    throw error;
  }
}

function inputFact(name: string, { type, dims, axis, value }: BatchInput): Fact {
  if (axis === undefined) {
    const info = { type, dims, ...(value && { value }) };
    return { kind: 'shared', infos: [info, info] };
  }
  if (!(axis >= 0 && axis < dims.length))
    throw new Stop(undefined, `input '${name}' of shape ${formatShape(dims)} has no axis ${axis}`);
  const at = (n: number) => ({ type, dims: dims.map((d, i) => (i === axis ? n : d)) });
  return { kind: 'rows', axis, infos: [at(SIZES[0]), at(SIZES[1])] };
}

function shared(t: Tensor): Fact {
  const info = { type: t.type, dims: t.dims, value: t };
  return { kind: 'shared', infos: [info, info] };
}

function walk(nodes: readonly Node[], facts: Map<string, Fact>, wanted: readonly string[]): void {
  const needed = new Set(wanted);
  const kept: Node[] = [];
  for (const node of [...nodes].reverse()) {
    if (!node.outputs.some((o) => needed.has(o))) continue;
    for (const name of readsOf(node)) needed.add(name);
    kept.push(node);
  }
  for (const node of kept.reverse()) {
    try {
      step(node, facts);
    } catch (error) {
      if (error instanceof Stop) throw error;
      // A shape rule that fails says that the graph does not run at this batch size.
      if (error instanceof SkepError && error.code !== 'INTERNAL')
        throw new Stop(node, `it does not run at every batch size (${error.message})`);
      throw error;
    }
  }
}

function step(node: Node, facts: Map<string, Fact>): void {
  const fact = (name: string): Fact => {
    const f = facts.get(name);
    if (f === undefined) throw new Stop(node, `'${name}' is not known: its shape depends on data`);
    return f;
  };
  const { operator, attributes } = resolve(node);
  if (!operator.deterministic) throw new Stop(node, 'it draws random numbers');
  if (node.op === 'If' && node.domain === '') return takeBranch(node, fact(node.inputs[0]!), facts);
  const inputs = node.inputs.map((n) => (n === '' ? undefined : fact(n)));
  const captured = subgraphsOf(node).flatMap(([, g]) => [...capturesOf(g)].map(fact));
  const kinds = new Set([...inputs, ...captured].flatMap((f) => (f === undefined ? [] : [f.kind])));
  const key = node.domain === '' ? node.op : `${node.domain}:${node.op}`;
  if (subgraphsOf(node).length > 0) {
    // What a subgraph computes of shared values is shared, but nothing more is known of it.
    if (kinds.has('rows') || kinds.has('size')) throw new Stop(node, refusals.get(key) ?? 'it has a subgraph');
    return;
  }
  const infer = (k: 0 | 1) => {
    const infos = inputs.map((f) => f?.infos[k]);
    try {
      return operator.infer(new Inference(node, attributes, infos));
    } catch (error) {
      if (error instanceof ValueNeeded)
        throw new Stop(node, `its shape depends on the elements of input ${error.input}`);
      throw error;
    }
  };
  if (!kinds.has('rows')) {
    const outputs = [infer(0), infer(1)] as const;
    if (outputs[0] === 'dynamic' || outputs[1] === 'dynamic') {
      if (kinds.has('size')) throw new Stop(node, refusals.get(key) ?? 'it computes with the batch size');
      return;
    }
    const small = outputs[0].every((o) => o === undefined || sizeOf(o.dims) <= VALUE_LIMIT);
    const values = small ? evaluateBoth(node, operator, attributes, inputs) : undefined;
    node.outputs.forEach((name, i) => {
      const [a, b] = [
        outputs[0] as readonly (TensorInfo | undefined)[],
        outputs[1] as readonly (TensorInfo | undefined)[],
      ];
      if (name === '' || a[i] === undefined || b[i] === undefined) return;
      const infos: Two<TensorInfo> = [
        { type: a[i].type, dims: a[i].dims, ...(values && { value: values[0][i] as Tensor }) },
        { type: b[i].type, dims: b[i].dims, ...(values && { value: values[1][i] as Tensor }) },
      ];
      facts.set(name, kinds.has('size') ? ofSize(node, inputs as Fact[], infos) : { kind: 'shared', infos });
    });
    return;
  }
  if ((node.op === 'Shape' || node.op === 'Size') && node.domain === '') {
    const infos = [0, 1].map((k) => {
      const call = new Inference(node, attributes, [inputs[0]!.infos[k]]);
      const value = operator.foldShape?.(call as never);
      if (value === undefined) throw new Stop(node, 'its value is not known from the shape');
      return { type: value.type, dims: value.dims, value };
    }) as unknown as Two<TensorInfo>;
    facts.set(node.outputs[0]!, sameElements(infos) ? { kind: 'shared', infos } : { kind: 'size', infos });
    return;
  }
  const rule = rowRules.get(key);
  if (rule === undefined) throw new Stop(node, refusals.get(key) ?? `nothing is known of how ${key} treats rows`);
  const outputs = [infer(0), infer(1)] as const;
  if (outputs[0] === 'dynamic' || outputs[1] === 'dynamic')
    throw new Stop(node, 'the shape of its result depends on data');
  // The batch size may say what shape rows get, and nothing else.
  inputs.forEach((f, i) => {
    if (f?.kind === 'size' && !(shapeOperands.get(key)?.includes(i) ?? false))
      throw new Stop(node, 'it computes with the batch size');
  });
  const ruleInputs = inputs.map((f): RuleInput | undefined => f && { axis: f.axis, infos: f.infos });
  const settled = [outputs[0], outputs[1]] as const;
  const verdict = rule({ node, attributes, inputs: ruleInputs, outputs: settled, sizes: SIZES });
  if (typeof verdict === 'string') throw new Stop(node, verdict);
  node.outputs.forEach((name, i) => {
    const [a, b] = [settled[0][i], settled[1][i]];
    if (name === '' || a === undefined || b === undefined) return;
    facts.set(name, rowsOf(node, verdict[i]!, [a, b]));
  });
}

/** Inputs that may hold the batch size when others hold rows. */
const shapeOperands: ReadonlyMap<string, readonly number[]> = new Map([
  ['Reshape', [1]],
  ['Expand', [1]],
  ['Resize', [3]],
  ['Slice', [2]],
]);

/** Rows along an axis of a value with these shapes. */
function rowsOf(node: Node, axis: number, infos: Two<TensorInfo>): Fact {
  const [a, b] = infos;
  const each = (a.dims[axis] ?? 0) / SIZES[0];
  const fits =
    Number.isInteger(each) &&
    each > 0 &&
    a.dims.length === b.dims.length &&
    a.dims.every((d, i) => (i === axis ? b.dims[i] === each * SIZES[1] : b.dims[i] === d));
  if (!fits)
    throw new Stop(
      node,
      `its result has shape ${formatShape(a.dims)} at ${SIZES[0]} rows, ${formatShape(b.dims)} at ${SIZES[1]}`,
    );
  return { kind: 'rows', axis, infos };
}

/** Operators that only move elements: what is affine in N stays so. Only input 0 (of Concat all, of Where 1 and 2) may. */
const moving = new Set(
  'Identity Gather GatherElements Slice Concat Squeeze Unsqueeze Reshape Flatten Transpose Cast Split Where'.split(' '),
);

/** What a node computes of sizes. */
function ofSize(node: Node, inputs: readonly (Fact | undefined)[], infos: Two<TensorInfo>): Fact {
  const isSize = (i: number) => inputs[i]?.kind === 'size';
  const others = (...may: readonly number[]) => inputs.every((_, i) => !isSize(i) || may.includes(i));
  const result = (): Fact => (sameElements(infos) ? { kind: 'shared', infos } : { kind: 'size', infos });
  const refuse = () => new Stop(node, refusals.get(node.op) ?? 'it computes with the batch size');
  if (node.domain !== '') throw refuse();
  // A result whose shape holds N: rows made of nothing but shared values.
  if (infos[0].dims.some((d, i) => d !== infos[1].dims[i])) {
    const filled = node.op === 'ConstantOfShape' || (node.op === 'Expand' && !isSize(0));
    if (!filled) throw refuse();
    const axis = infos[0].dims.findIndex((d, i) => d !== infos[1].dims[i]);
    // Expand repeats along the axis only what has one element there.
    const x = node.op === 'Expand' ? inputs[0]!.infos[0].dims : [];
    const own = axis - (infos[0].dims.length - x.length);
    if (own >= 0 && x[own] !== 1) throw refuse();
    const [a, b] = infos;
    return rowsOf(node, axis, [
      { type: a.type, dims: a.dims },
      { type: b.type, dims: b.dims },
    ]);
  }
  if (infos[0].value === undefined) throw refuse();
  if (moving.has(node.op)) {
    const may = node.op === 'Concat' ? inputs.map((_, i) => i) : node.op === 'Where' ? [1, 2] : [0];
    // Into a type that wraps, rounds or compares with 0 a size is no longer affine.
    const wide = ['int32', 'int64', 'float32', 'float64'].includes(infos[0].type);
    if (!others(...may) || !wide) throw refuse();
    return result();
  }
  const [a, b] = [inputs[0]!, inputs[1]];
  switch (node.op) {
    case 'Add':
    case 'Sub':
    case 'Neg':
    // Of sizes as of anything, the shape is what it is.
    case 'Shape':
    case 'Size':
      return result();
    case 'Mul':
      if (b !== undefined && isSize(0) && isSize(1)) throw refuse();
      return result();
    case 'Div':
      if (b === undefined || isSize(1) || !dividesEverywhere(a.infos, b.infos[0])) throw refuse();
      return result();
    case 'Equal':
      if (
        b === undefined ||
        (isSize(0) && isSize(1)) ||
        mayBeEqual(isSize(0) ? a.infos : b.infos, isSize(0) ? b.infos[0] : a.infos[0])
      )
        throw refuse();
      return result();
    default:
      throw refuse();
  }
}

function elements(info: TensorInfo): number[] {
  return Array.from(decode(info.value!));
}

function sameElements([a, b]: Two<TensorInfo>): boolean {
  if (a.value === undefined || b.value === undefined || a.value.size !== b.value.size) return false;
  const [x, y] = [elements(a), elements(b)];
  return x.every((v, i) => v === y[i]);
}

/** The elements as a + b·N. */
function affine([x, y]: Two<TensorInfo>): { a: number; b: number }[] {
  const [u, v] = [elements(x), elements(y)];
  return u.map((p, i) => {
    const b = (v[i]! - p) / (SIZES[1] - SIZES[0]);
    return { a: p - b * SIZES[0], b };
  });
}

/** True when dividing by a constant leaves whole numbers for every N. */
function dividesEverywhere(sizes: Two<TensorInfo>, by: TensorInfo): boolean {
  const divisors = by.value === undefined ? [] : elements(by);
  const [c] = divisors;
  if (divisors.length !== 1 || c === undefined || c === 0) return false;
  return affine(sizes).every(({ a, b }) => a % c === 0 && b % c === 0);
}

/** True when a + b·N is one of these constants for some N ≥ 1. */
function mayBeEqual(sizes: Two<TensorInfo>, constant: TensorInfo): boolean {
  if (constant.value === undefined) return true;
  const list = elements(constant);
  return affine(sizes).some(({ a, b }) => {
    if (b === 0) return false;
    return list.some((c) => Number.isInteger((c - a) / b) && (c - a) / b >= 1);
  });
}

function evaluateBoth(
  node: Node,
  operator: ReturnType<typeof resolve>['operator'],
  attributes: Record<string, unknown>,
  inputs: readonly (Fact | undefined)[],
): Two<readonly HostValue[]> | undefined {
  if (inputs.some((f) => f !== undefined && (f.infos[0].value === undefined || f.infos[1].value === undefined)))
    return undefined;
  const run = (k: 0 | 1) =>
    operator.reference(
      new Evaluation(
        node,
        attributes,
        inputs.map((f) => f?.infos[k].value),
        () => {
          throw new Stop(node, 'it has a subgraph');
        },
      ),
    );
  const values: Two<readonly HostValue[]> = [run(0), run(1)];
  return values[0].every((v) => v === undefined || v instanceof Tensor) ? values : undefined;
}

/** An If goes one way for all requests only when nothing of them is in its condition. */
function takeBranch(node: Node, condition: Fact, facts: Map<string, Fact>): void {
  if (condition.kind === 'rows') throw new Stop(node, 'each row may take another branch');
  if (condition.kind === 'size') throw new Stop(node, 'the branch depends on the batch size');
  const { value } = condition.infos[0];
  if (value === undefined) throw new Stop(node, 'the branch depends on an input whose value is not known');
  const which = decode(value)[0] ? 'then_branch' : 'else_branch';
  const graph = subgraphsOf(node).find(([name]) => name === which)?.[1];
  if (graph === undefined) throw new Stop(node, `it has no ${which}`);
  for (const [name, t] of graph.initializers) facts.set(name, shared(t));
  walk(
    graph.nodes,
    facts,
    graph.outputs.map((o) => o.name),
  );
  node.outputs.forEach((name, i) => {
    const found = facts.get(graph.outputs[i]!.name);
    if (name !== '' && found !== undefined) facts.set(name, found);
  });
}
