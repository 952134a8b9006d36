// Activations that exporters write with primitives, back as one node: x · clip(x + 3, 0, 6) / 6 is HardSwish, x · σ(x)
// Swish, x · ½ · (1 + erf(x/√2)) Gelu, and so on. The result is `skep:Activation`, which computes the same function in
// one pass over memory. Valid for float32; the function is the same, roundings in between differ (within 1e-6 relative).
// Products are compared as sets of factors, because exporters associate them every way there is.
import { type ActivationName, activationNamed } from '../../kernels/activation.js';
import type { SettledNode } from '../lowering.js';
import {
  kindOf,
  near,
  type Rewriter,
  type Rewritten,
  type Rule,
  type Rules,
  scalarOf,
  type Value,
} from './rewriter.js';

/** An activation applied to a value. */
export interface Activated {
  readonly x: Value;
  readonly name: ActivationName;
  readonly params: readonly number[];
}

/** A product taken apart: a constant and what is multiplied with it; the nodes that multiply. */
interface Product {
  readonly factors: readonly Value[];
  readonly constant: number;
  readonly nodes: readonly SettledNode[];
}

const clip = (n: number | undefined, fallback: number) => n ?? fallback;

/** The activation that a node of one operator is; undefined for other nodes. */
export function activationOf(item: SettledNode, r: Rewriter): Activated | undefined {
  const x = r.input(item, 0);
  if (x === undefined || x.info.type !== 'float32') return undefined;
  const a = item.attributes as Readonly<Record<string, number | undefined>>;
  const is = (name: ActivationName, ...params: number[]): Activated => ({ x, name, params });
  switch (kindOf(item)) {
    case 'skep:Activation': {
      const { activation, activation_params } = item.attributes as {
        activation: ActivationName;
        activation_params: readonly number[];
      };
      return { x, name: activation, params: activation_params };
    }
    case 'Relu':
      return is('relu');
    case 'LeakyRelu':
      return is('leakyRelu', a.alpha!);
    case 'Sigmoid':
      return is('sigmoid');
    case 'Tanh':
      return is('tanh');
    case 'HardSigmoid':
      return is('hardSigmoid', a.alpha!, a.beta!);
    case 'HardSwish':
      return is('hardSwish');
    case 'Swish':
      return is('silu', a.alpha!);
    case 'Elu':
      return is('elu', a.alpha!);
    case 'Celu':
      return is('celu', a.alpha!);
    case 'Selu':
      return is('selu', a.alpha!, a.gamma!);
    case 'Softplus':
      return is('softplus');
    case 'Softsign':
      return is('softsign');
    case 'Mish':
      return is('mish');
    case 'ThresholdedRelu':
      return is('thresholdedRelu', a.alpha!);
    case 'Gelu':
      return is((item.attributes.approximate as string) === 'tanh' ? 'geluTanh' : 'gelu');
    case 'Clip': {
      const bounds = clipBounds(item, r);
      return bounds === undefined ? undefined : is('clip', ...bounds);
    }
    default:
      return undefined;
  }
}

/** A Clip's bounds where they are constants (attributes before version 11, inputs since). */
function clipBounds(item: SettledNode, r: Rewriter): readonly [number, number] | undefined {
  const a = item.attributes as Readonly<Record<string, number | undefined>>;
  const bound = (i: number, attribute: number | undefined, none: number): number | undefined => {
    const v = r.input(item, i);
    return v === undefined ? clip(item.node.opset < 11 ? attribute : undefined, none) : scalarOf(v);
  };
  const min = bound(1, a.min, Number.NEGATIVE_INFINITY);
  const max = bound(2, a.max, Number.POSITIVE_INFINITY);
  return min === undefined || max === undefined ? undefined : [min, max];
}

/** `value` (computed for `root` alone, or root's own) as a product of everything below it that only it reads. */
function productOf(root: SettledNode, r: Rewriter): Product {
  const factors: Value[] = [];
  const nodes: SettledNode[] = [];
  let constant = 1;
  const visit = (item: SettledNode) => {
    nodes.push(item);
    const divides = item.node.op === 'Div';
    [0, 1].forEach((i) => {
      const v = r.input(item, i)!;
      const c = scalarOf(v);
      if (c !== undefined) constant = divides && i === 1 ? constant / c : constant * c;
      else if (divides && i === 1) factors.push(v);
      else {
        // x · x counts as read twice but is one place: leave such squares whole.
        const inner = nodes.length < 6 ? r.only(v, 'Mul', 'Div') : undefined;
        if (inner !== undefined && isScaling(inner, r)) visit(inner);
        else factors.push(v);
      }
    });
  };
  visit(root);
  return { factors, constant, nodes };
}

/** A product, or a quotient by a constant. */
function isScaling(item: SettledNode, r: Rewriter): boolean {
  return item.node.op === 'Mul' || scalarOf(r.input(item, 1)) !== undefined;
}

/** A value as constant · x. */
function scaled(value: Value, r: Rewriter): { x: Value; by: number; nodes: readonly SettledNode[] } {
  const item = r.only(value, 'Mul', 'Div');
  if (item === undefined || !isScaling(item, r)) return { x: value, by: 1, nodes: [] };
  const { factors, constant, nodes } = productOf(item, r);
  return factors.length === 1 ? { x: factors[0]!, by: constant, nodes } : { x: value, by: 1, nodes: [] };
}

/** The other operand of an Add (or Mul) whose one operand is this constant. */
function besideConstant(item: SettledNode | undefined, c: number, r: Rewriter): Value | undefined {
  if (item === undefined) return undefined;
  const a = r.input(item, 0)!;
  const b = r.input(item, 1)!;
  if (near(scalarOf(b), c)) return a;
  if (near(scalarOf(a), c)) return b;
  return undefined;
}

interface Gate extends Activated {
  readonly nodes: readonly SettledNode[];
  /** What the pattern's constants multiply it by. */
  readonly by: number;
}

/** σ(alpha·x) and clip(x + b, 0, m): what an x · gate(x) is made of. */
function gateOf(value: Value, r: Rewriter): Gate | undefined {
  const item = r.only(value, 'Sigmoid', 'HardSigmoid', 'Clip', 'Tanh', 'skep:Activation');
  if (item === undefined) return undefined;
  const inner = r.input(item, 0)!;
  if (item.node.domain === 'skep') {
    // A hard sigmoid that was primitives itself.
    const { x, name, params } = activationOf(item, r)!;
    return name === 'hardSigmoid' ? { x, name: 'hardSwish', params, by: 1, nodes: [item] } : undefined;
  }
  const a = item.attributes as Readonly<Record<string, number>>;
  switch (item.node.op) {
    case 'Sigmoid': {
      const { x, by, nodes } = scaled(inner, r);
      return { x, name: 'silu', params: [by], by: 1, nodes: [item, ...nodes] };
    }
    case 'HardSigmoid':
      return { x: inner, name: 'hardSwish', params: [a.alpha!, a.beta!], by: 1, nodes: [item] };
    case 'Clip': {
      const bounds = clipBounds(item, r);
      const add = r.only(inner, 'Add');
      if (bounds === undefined || bounds[0] !== 0 || !(bounds[1] > 0) || add === undefined) return undefined;
      const b = scalarOf(r.input(add, 1)) ?? scalarOf(r.input(add, 0));
      if (b === undefined) return undefined;
      const x = r.input(add, scalarOf(r.input(add, 1)) === undefined ? 1 : 0)!;
      // clip(x + b, 0, m) = m · clip(x/m + b/m, 0, 1)
      return { x, name: 'hardSwish', params: [1 / bounds[1], b / bounds[1]], by: bounds[1], nodes: [item, add] };
    }
    default: {
      const soft = r.only(inner, 'Softplus');
      if (soft === undefined) return undefined;
      return { x: r.input(soft, 0)!, name: 'mish', params: [], by: 1, nodes: [item, soft] };
    }
  }
}

/** 1 + erf(x/√2), and 1 + tanh(√(2/π)·(x + 0.044715·x³)). */
function geluGate(value: Value, r: Rewriter): Gate | undefined {
  const add = r.only(value, 'Add');
  const inner = besideConstant(add, 1, r);
  if (add === undefined || inner === undefined) return undefined;
  const f = r.only(inner, 'Erf', 'Tanh');
  if (f === undefined) return undefined;
  if (f.node.op === 'Erf') {
    const { x, by, nodes } = scaled(r.input(f, 0)!, r);
    if (!near(by, Math.SQRT1_2)) return undefined;
    return { x, name: 'gelu', params: [], by: 2, nodes: [add, f, ...nodes] };
  }
  const u = r.only(r.input(f, 0), 'Mul', 'Div');
  if (u === undefined) return undefined;
  const { factors, constant, nodes } = productOf(u, r);
  if (!near(constant, Math.sqrt(2 / Math.PI))) return undefined;
  const found =
    factors.length === 1 ? cubicSum(factors[0]!, r) : factors.length === 2 ? cubicProduct(factors, r) : undefined;
  if (found === undefined) return undefined;
  return { x: found.x, name: 'geluTanh', params: [], by: 2, nodes: [add, f, ...nodes, ...found.nodes] };
}

/** x + 0.044715·x³ */
function cubicSum(value: Value, r: Rewriter): { x: Value; nodes: SettledNode[] } | undefined {
  const add = r.only(value, 'Add');
  if (add === undefined) return undefined;
  for (const [i, j] of [
    [0, 1],
    [1, 0],
  ] as const) {
    const x = r.input(add, i)!;
    const power = powerOf(r.input(add, j)!, r);
    if (power !== undefined && power.x.name === x.name && power.exponent === 3 && near(power.by, 0.044715))
      return { x, nodes: [add, ...power.nodes] };
  }
  return undefined;
}

/** x · (1 + 0.044715·x²) */
function cubicProduct(factors: readonly Value[], r: Rewriter): { x: Value; nodes: SettledNode[] } | undefined {
  for (const [i, j] of [
    [0, 1],
    [1, 0],
  ] as const) {
    const add = r.only(factors[j], 'Add');
    const inner = besideConstant(add, 1, r);
    const power = inner === undefined ? undefined : powerOf(inner, r);
    if (power !== undefined && power.x.name === factors[i]!.name && power.exponent === 2 && near(power.by, 0.044715))
      return { x: factors[i]!, nodes: [add!, ...power.nodes] };
  }
  return undefined;
}

/** A value as by · x^exponent, written with Pow or Mul. */
function powerOf(
  value: Value,
  r: Rewriter,
): { x: Value; exponent: number; by: number; nodes: SettledNode[] } | undefined {
  const item = r.only(value, 'Mul', 'Div', 'Pow');
  if (item === undefined) return undefined;
  const pow = (p: SettledNode): { x: Value; exponent: number } | undefined => {
    const exponent = scalarOf(r.input(p, 1));
    return exponent === undefined ? undefined : { x: r.input(p, 0)!, exponent };
  };
  if (item.node.op === 'Pow') {
    const p = pow(item);
    return p === undefined ? undefined : { ...p, by: 1, nodes: [item] };
  }
  const { factors, constant, nodes } = productOf(item, r);
  const all: SettledNode[] = [...nodes];
  let x: Value | undefined;
  let exponent = 0;
  for (const f of factors) {
    const p = r.only(f, 'Pow');
    const part = p === undefined ? { x: f, exponent: 1 } : pow(p);
    if (part === undefined || (x !== undefined && x.name !== part.x.name)) return undefined;
    x = part.x;
    exponent += part.exponent;
    if (p !== undefined) all.push(p);
  }
  return x === undefined ? undefined : { x, exponent, by: constant, nodes: all };
}

/** The node that applies an activation. */
function activate(
  root: SettledNode,
  r: Rewriter,
  { x, name, params }: Activated,
  nodes: readonly SettledNode[],
): Rewritten | undefined {
  if (x.info.type !== 'float32' || activationNamed(name) === undefined) return undefined;
  const attributes = {
    activation: { kind: 'string', value: name },
    activation_params: { kind: 'floats', value: params },
  } as const;
  return r.replace(root, { op: 'Activation', domain: 'skep', inputs: [x], attributes }, nodes);
}

/** A product of x and a gate of x. */
const gated: Rule = (root, r) => {
  const { factors, constant, nodes } = productOf(root, r);
  if (factors.length !== 2) return undefined;
  for (const [i, j] of [
    [0, 1],
    [1, 0],
  ] as const) {
    const x = factors[i]!;
    const gate = gateOf(factors[j]!, r) ?? geluGate(factors[j]!, r);
    if (gate === undefined || gate.x.name !== x.name || !near(constant * gate.by, 1)) continue;
    return activate(root, r, gate, [...nodes, ...gate.nodes]);
  }
  return undefined;
};

/** clip(x + b, 0, m) / m */
const hardSigmoid: Rule = (root, r) => {
  const { factors, constant, nodes } = productOf(root, r);
  if (factors.length !== 1) return undefined;
  const gate = r.only(factors[0], 'Clip') === undefined ? undefined : gateOf(factors[0]!, r);
  if (gate === undefined || !near(constant * gate.by, 1)) return undefined;
  return activate(root, r, { ...gate, name: 'hardSigmoid' }, [...nodes, ...gate.nodes]);
};

/** a·x and x + b with constant scalars as one affine function, and two of them after another as one. */
const affine: Rule = (root, r) => {
  const step = affineOf(root, r);
  if (step === undefined) return undefined;
  const before = r.only(step.x, 'skep:Activation');
  const inner = before === undefined ? undefined : activationOf(before, r);
  if (inner?.name !== 'affine') {
    // One scalar operation alone is as fast as it is: only a pair gains.
    const first = r.only(step.x, 'Mul', 'Div', 'Add', 'Sub');
    const other = first === undefined ? undefined : affineOf(first, r);
    if (other === undefined) return undefined;
    const params = [other.alpha * step.alpha, other.beta * step.alpha + step.beta];
    return activate(root, r, { x: other.x, name: 'affine', params }, [first!]);
  }
  const [alpha = 1, beta = 0] = inner.params;
  const params = [alpha * step.alpha, beta * step.alpha + step.beta];
  return activate(root, r, { x: inner.x, name: 'affine', params }, [before!]);
};

function affineOf(item: SettledNode, r: Rewriter): { x: Value; alpha: number; beta: number } | undefined {
  const a = r.input(item, 0)!;
  const b = r.input(item, 1)!;
  const cb = scalarOf(b);
  const ca = scalarOf(a);
  const x = cb !== undefined ? a : b;
  const c = cb ?? ca;
  if (c === undefined || scalarOf(x) !== undefined || x.info.type !== 'float32') return undefined;
  switch (item.node.op) {
    case 'Mul':
      return { x, alpha: c, beta: 0 };
    case 'Div':
      return cb === undefined ? undefined : { x, alpha: 1 / c, beta: 0 };
    case 'Add':
      return { x, alpha: 1, beta: c };
    case 'Sub':
      return cb === undefined ? { x, alpha: -1, beta: c } : { x, alpha: 1, beta: -c };
    default:
      return undefined;
  }
}

export const activationRules: Rules = {
  Mul: [gated, hardSigmoid],
  Div: [gated, hardSigmoid],
};

/** For a walk of its own after all others: a pair that a later Gelu or a convolution would use is not taken from it. */
export const affineRules: Rules = { Mul: [affine], Div: [affine], Add: [affine], Sub: [affine] };
