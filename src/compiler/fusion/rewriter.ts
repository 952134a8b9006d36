// What every fusion pattern is written with: the settled nodes of a segment as a list that is walked once, from first to
// last, and rewritten on the way. A rule looks at one node (the root: the last node of its pattern) and backwards from
// it, and gives a node that computes the same value, or says the value is another one under a new name. Picture:
//
//   items   Conv → Mul → Add → Relu            root = Relu: producer(its input) is Add, and so on
//           └────────────────→ skep:Conv       the new node takes the root's place and its output's name
//
// Backwards only, so whatever the new node reads is computed before it. A pattern may only swallow a value that nobody
// else reads (`once`): otherwise it would be computed twice, and the rewrite would be no gain. What is swallowed is not
// removed by the rule: nodes nobody reads any more are dropped in the end. Knowledge of operators is in the other files.
import type { Attribute, Node } from '../../graph/graph.js';
import { parseAttributes } from '../../operators/attributes.js';
import { Inference } from '../../operators/evaluate.js';
import { type Operator, type TensorInfo, ValueNeeded } from '../../operators/operator.js';
import { allOperators } from '../../operators/registry.js';
import { decode } from '../../tensor/convert.js';
import { SkepError } from '../../tensor/errors.js';
import { sameShape } from '../../tensor/shape.js';
import type { Tensor } from '../../tensor/tensor.js';
import type { ModelConstants } from '../constants.js';
import type { SettledNode } from '../lowering.js';

/** A value as a rule handles it: its name and what is known of it. */
export interface Value {
  readonly name: string;
  readonly info: TensorInfo;
}

/** What a rule makes of a root: a node in its place, or the value its only output equals. */
export type Rewritten =
  | { readonly kind: 'node'; readonly item: SettledNode }
  | { readonly kind: 'same'; readonly value: Value };

/** A rule for roots of the operators it is listed under. Undefined: the pattern is not there, or not valid here. */
export type Rule = (root: SettledNode, r: Rewriter) => Rewritten | undefined;

/** Rules by the root's operator, `Relu` or `skep:Conv`. */
export type Rules = Readonly<Record<string, readonly Rule[]>>;

/** A node to be made. */
export interface NewNode {
  readonly op: string;
  readonly domain?: string;
  readonly opset?: number;
  readonly inputs: readonly (Value | undefined)[];
  readonly attributes?: Readonly<Record<string, Attribute>>;
}

/** A rule fires at most this often on one root, each time with a bigger pattern: far above any real chain. */
const ROUNDS = 64;

let operators: Map<string, Operator> | undefined;

function operatorNamed(domain: string, name: string): Operator | undefined {
  operators ??= new Map(allOperators().map((o) => [keyOf(o.domain, o.name), o]));
  return operators.get(keyOf(domain, name));
}

function keyOf(domain: string, op: string): string {
  return domain === '' ? op : `${domain}:${op}`;
}

/** The key of an item in `Rules`. */
export function kindOf(item: SettledNode): string {
  return keyOf(item.node.domain, item.node.op);
}

export class Rewriter {
  readonly #items: (SettledNode | undefined)[];
  readonly #keep: ReadonlySet<string>;
  readonly #constants: ModelConstants;
  readonly #producers = new Map<string, number>();
  readonly #readers = new Map<string, number>();
  readonly #renamed = new Map<string, Value>();

  constructor(items: readonly SettledNode[], keep: ReadonlySet<string>, constants: ModelConstants) {
    this.#items = [...items];
    this.#keep = keep;
    this.#constants = constants;
    for (const [at, item] of items.entries()) {
      this.#count(item, 1);
      for (const o of item.node.outputs) if (o !== '') this.#producers.set(o, at);
    }
  }

  /** Applies the rules to every node. Gives what is left, in order. */
  run(rules: Rules): SettledNode[] {
    for (let at = 0; at < this.#items.length; at++) {
      this.#put(at, this.#rename(this.#items[at]!));
      for (let round = 0; round < ROUNDS; round++) if (!this.#rewrite(at, rules)) break;
    }
    return this.#living();
  }

  /** Input `i` of an item; undefined when it is omitted. */
  input(item: SettledNode, i: number): Value | undefined {
    const info = item.inputs[i];
    return info === undefined ? undefined : { name: item.node.inputs[i]!, info };
  }

  /** The item that computes a value within this segment. */
  producer(value: Value): SettledNode | undefined {
    const at = this.#producers.get(value.name);
    return at === undefined ? undefined : this.#items[at];
  }

  /** The item that computes a value, if its operator is one of `kinds` and nobody else reads the value. */
  only(value: Value | undefined, ...kinds: readonly string[]): SettledNode | undefined {
    if (value === undefined || !this.once(value)) return undefined;
    const item = this.producer(value);
    return item !== undefined && kinds.includes(kindOf(item)) && item.node.outputs[0] === value.name ? item : undefined;
  }

  /** The same, whoever else reads it. For values that stay computed. */
  from(value: Value | undefined, ...kinds: readonly string[]): SettledNode | undefined {
    const item = value === undefined ? undefined : this.producer(value);
    return item !== undefined && kinds.includes(kindOf(item)) && item.node.outputs[0] === value!.name
      ? item
      : undefined;
  }

  /** True when one place reads the value, and it is no result of the segment. */
  once(value: Value): boolean {
    return this.reads(value) === 1 && !this.kept(value);
  }

  /** How many places read the value. */
  reads(value: Value): number {
    return this.#readers.get(value.name) ?? 0;
  }

  /** True when the value must be there under its name after the segment. */
  kept(value: Value): boolean {
    return this.#keep.has(value.name);
  }

  /** The root with another node computing its first output; undefined when that operator is not there or does not fit. */
  replace(root: SettledNode, made: NewNode, swallowed: readonly SettledNode[] = []): Rewritten | undefined {
    const item = this.#make(root, made, swallowed);
    return item === undefined ? undefined : { kind: 'node', item };
  }

  /**
   * A constant made of other constants, computed once a model when they are weights. `name` must say all that it is made
   * of. Its elements are only computed when something asks for them.
   */
  constant(name: string, from: readonly Value[], make: () => Tensor): Value {
    const sources = from.map((v) => v.info.value!);
    const value = this.#constants.derived(name, sources, make);
    return { name, info: { type: value.type, dims: value.dims, value } };
  }

  #rewrite(at: number, rules: Rules): boolean {
    const item = this.#items[at]!;
    for (const rule of rules[kindOf(item)] ?? []) {
      const made = rule(item, this);
      if (made === undefined) continue;
      if (made.kind === 'node') {
        this.#put(at, made.item);
        return true;
      }
      const output = item.node.outputs[0]!;
      // A result of the segment must be computed under its own name: the node stays (an Identity costs no step).
      if (this.#keep.has(output) || this.#hasMore(item)) continue;
      this.#renamed.set(output, made.value);
      // The readers to come will read the other value.
      const moved = this.#readers.get(output) ?? 0;
      this.#readers.set(made.value.name, (this.#readers.get(made.value.name) ?? 0) + moved);
      this.#readers.set(output, 0);
      this.#remove(at);
      return false;
    }
    return false;
  }

  #rename(item: SettledNode): SettledNode {
    if (!item.node.inputs.some((n) => this.#renamed.has(n))) return item;
    const inputs = item.node.inputs.map((n) => this.#renamed.get(n)?.name ?? n);
    const infos = item.inputs.map((x, i) => this.#renamed.get(item.node.inputs[i]!)?.info ?? x);
    return { ...item, node: { ...item.node, inputs }, inputs: infos };
  }

  #put(at: number, item: SettledNode): void {
    const before = this.#items[at]!;
    if (before === item) return;
    // Readers of renamed values were moved when the renaming was made: only a rewrite changes counts.
    if (before.origin !== item.origin || before.operator !== item.operator) {
      this.#count(item, 1);
      this.#count(before, -1);
    }
    this.#items[at] = item;
    for (const o of item.node.outputs) if (o !== '') this.#producers.set(o, at);
    // What only the old node read is dead from here on, so that patterns see who really reads what is left.
    for (const name of before.node.inputs) this.#dropDead(name);
  }

  #dropDead(name: string): void {
    const stack = [name];
    for (let n = stack.pop(); n !== undefined; n = stack.pop()) {
      const at = this.#producers.get(n);
      const item = at === undefined ? undefined : this.#items[at];
      if (item === undefined || this.#isRead(item)) continue;
      this.#remove(at!);
      stack.push(...item.node.inputs);
    }
  }

  #isRead(item: SettledNode): boolean {
    return item.node.outputs.some((o) => o !== '' && (this.#keep.has(o) || (this.#readers.get(o) ?? 0) > 0));
  }

  /** True when an output besides the first is needed. */
  #hasMore(item: SettledNode): boolean {
    return item.node.outputs.slice(1).some((o) => o !== '' && (this.#keep.has(o) || (this.#readers.get(o) ?? 0) > 0));
  }

  #remove(at: number): void {
    const item = this.#items[at]!;
    this.#items[at] = undefined;
    for (const n of item.node.inputs) if (n !== '') this.#readers.set(n, (this.#readers.get(n) ?? 0) - 1);
  }

  #count(item: SettledNode, by: 1 | -1): void {
    for (const n of item.node.inputs) if (n !== '') this.#readers.set(n, (this.#readers.get(n) ?? 0) + by);
  }

  /** What is left and needed: readers come later, so one look from the end is enough. */
  #living(): SettledNode[] {
    for (let at = this.#items.length - 1; at >= 0; at--) {
      const item = this.#items[at];
      if (item !== undefined && !this.#isRead(item)) this.#remove(at);
    }
    return this.#items.filter((x) => x !== undefined);
  }

  #make(root: SettledNode, made: NewNode, swallowed: readonly SettledNode[]): SettledNode | undefined {
    const domain = made.domain ?? '';
    const operator = operatorNamed(domain, made.op);
    const opset = made.opset ?? (domain === '' ? root.node.opset : 1);
    const count = made.inputs.length;
    if (this.#hasMore(root)) return undefined;
    if (
      operator === undefined ||
      opset < operator.since[0]! ||
      count < operator.inputs[0] ||
      count > operator.inputs[1]
    )
      return undefined;
    const node: Node = {
      op: made.op,
      domain,
      opset,
      name: root.node.name,
      inputs: made.inputs.map((v) => v?.name ?? ''),
      outputs: [root.node.outputs[0]!],
      attributes: made.attributes ?? {},
    };
    const inputs = made.inputs.map((v) => v?.info);
    const attributes = parseAttributes(node, operator.attributes);
    const want = root.outputs[0]!;
    // The safety net under every rule: the new node must have the old one's type and shape.
    const got = inferQuietly(operator, new Inference(node, attributes, inputs));
    if (got === undefined || got.type !== want.type || !sameShape(got.dims, want.dims)) return undefined;
    const origin = [...new Set([...root.origin, ...swallowed.flatMap((s) => s.origin)])];
    return { node, origin, operator, attributes, inputs, outputs: [want] };
  }
}

function inferQuietly(operator: Operator, call: Inference) {
  try {
    const inferred = operator.infer(call);
    return inferred === 'dynamic' ? undefined : inferred[0];
  } catch (error) {
    // The new node breaks its operator's rules: the pattern was not what it seemed.
    if (error instanceof ValueNeeded || (error instanceof SkepError && error.code !== 'INTERNAL')) return undefined;
    throw error;
  }
}

/** The one number a constant value holds, however it is shaped; undefined otherwise. */
export function scalarOf(value: Value | undefined): number | undefined {
  const t = value?.info.value;
  return t === undefined || t.size !== 1 || t.type === 'string' || t.type === 'bool' ? undefined : decode(t)[0];
}

/** A constant value's numbers. */
export function numbersOf(value: Value | undefined): ArrayLike<number> | undefined {
  const t = value?.info.value;
  return t === undefined || t.type === 'string' ? undefined : decode(t);
}

/** The same of a small constant (axes, pads, steps), as a list. */
export function listOf(value: Value | undefined): number[] | undefined {
  const numbers = numbersOf(value);
  return numbers === undefined ? undefined : Array.from(numbers);
}

/** True when two numbers are one number written with different precision: exporters round 1/√2 and 0.044715 their way. */
export function near(a: number | undefined, b: number): boolean {
  return a !== undefined && Math.abs(a - b) <= 1e-5 * Math.abs(b);
}
