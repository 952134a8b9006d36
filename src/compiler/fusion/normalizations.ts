// Layer and RMS normalization as exporters write them, with means, squares and roots, back as one node:
//
//   x ─┬─ ReduceMean ─ Sub ─┬─ Pow 2 ─ ReduceMean ─ Add ε ─ Sqrt ─┐
//      └──────────────↗     └──────────────────────────────────── Div ─ Mul scale ─ Add bias
//
// Valid when the means are over the last axes, kept as dimensions of 1, and scale and bias have just those axes' shape.
// The same function; the operator's own summation differs from the primitives' in the last bits.
import type { Attribute } from '../../graph/graph.js';
import { normalizeAxis, sameShape } from '../../tensor/shape.js';
import type { SettledNode } from '../lowering.js';
import { listOf, type Rewriter, type Rewritten, type Rule, type Rules, scalarOf, type Value } from './rewriter.js';

/** x over the root of its mean square, and where that comes from. */
interface Normalized {
  readonly x: Value;
  readonly axis: number;
  readonly epsilon: number;
  readonly centred: boolean;
  readonly nodes: readonly SettledNode[];
}

/** A mean over the last axes, from `axis` on, dimensions kept. */
function meanOf(value: Value, r: Rewriter): { x: Value; axis: number; node: SettledNode } | undefined {
  const node = r.from(value, 'ReduceMean');
  if (node === undefined || node.attributes.keepdims === 0) return undefined;
  const x = r.input(node, 0)!;
  const rank = x.info.dims.length;
  const axes = (node.attributes.axes as readonly number[] | undefined) ?? listOf(r.input(node, 1));
  if (axes === undefined || axes.length === 0) return undefined;
  const sorted = axes.map((a) => normalizeAxis(a, rank)).sort((a, b) => a - b);
  if (!sorted.every((a, i) => a === rank - sorted.length + i)) return undefined;
  return { x, axis: sorted[0]!, node };
}

/** Two names for one value: the same name, or the same Sub written twice. */
function sameValue(a: Value, b: Value, r: Rewriter): boolean {
  if (a.name === b.name) return true;
  const m = r.from(a, 'Sub');
  const n = r.from(b, 'Sub');
  return m !== undefined && n !== undefined && m.node.inputs.every((name, i) => name === n.node.inputs[i]);
}

/** d² with d, written as Pow or as a product. */
function squareOf(value: Value, r: Rewriter): { d: Value; node: SettledNode } | undefined {
  const node = r.from(value, 'Pow', 'Mul');
  if (node === undefined) return undefined;
  const d = r.input(node, 0)!;
  if (node.node.op === 'Pow' ? scalarOf(r.input(node, 1)) === 2 : node.node.inputs[1] === d.name) return { d, node };
  return undefined;
}

/** √(mean(d²) + ε) */
function rootMeanSquare(value: Value, r: Rewriter) {
  const sqrt = r.from(value, 'Sqrt');
  const add = r.from(sqrt && r.input(sqrt, 0), 'Add');
  if (sqrt === undefined || add === undefined) return undefined;
  const left = scalarOf(r.input(add, 0));
  const epsilon = left ?? scalarOf(r.input(add, 1));
  if (epsilon === undefined || !(epsilon >= 0)) return undefined;
  const mean = meanOf(r.input(add, left === undefined ? 0 : 1)!, r);
  const square = mean && squareOf(mean.x, r);
  if (mean === undefined || square === undefined) return undefined;
  return { d: square.d, axis: mean.axis, epsilon, nodes: [sqrt, add, mean.node, square.node] };
}

/** d / √(mean(d²) + ε), as a quotient or with a reciprocal. */
function normalized(item: SettledNode, r: Rewriter): Normalized | undefined {
  const quotient = (d: Value, root: Value, nodes: readonly SettledNode[]): Normalized | undefined => {
    const rms = rootMeanSquare(root, r);
    if (rms === undefined || !sameValue(d, rms.d, r)) return undefined;
    const all = [item, ...nodes, ...rms.nodes];
    const { axis, epsilon } = rms;
    const centre = centreOf(d, axis, r);
    if (centre === undefined) return { x: d, axis, epsilon, centred: false, nodes: all };
    return { x: centre.x, axis, epsilon, centred: true, nodes: [...all, ...centre.nodes] };
  };
  const a = r.input(item, 0)!;
  const b = r.input(item, 1)!;
  if (item.node.op === 'Div') return quotient(a, b, []);
  for (const [d, other] of [
    [a, b],
    [b, a],
  ] as const) {
    const reciprocal = r.from(other, 'Reciprocal', 'Div');
    if (reciprocal === undefined) continue;
    const isDiv = reciprocal.node.op === 'Div';
    if (isDiv && scalarOf(r.input(reciprocal, 0)) !== 1) continue;
    const found = quotient(d, r.input(reciprocal, isDiv ? 1 : 0)!, [reciprocal]);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** d as x − mean(x) over the same axes. */
function centreOf(d: Value, axis: number, r: Rewriter): { x: Value; nodes: SettledNode[] } | undefined {
  const sub = r.from(d, 'Sub');
  const mean = sub && meanOf(r.input(sub, 1)!, r);
  if (sub === undefined || mean === undefined || mean.axis !== axis) return undefined;
  const x = r.input(sub, 0)!;
  return mean.x.name === x.name ? { x, nodes: [sub, mean.node] } : undefined;
}

/** Scale: a value of exactly the normalized axes' shape, constant, so that it cannot be a row of the data. */
function fitsAxes(scale: Value, x: Value, axis: number): boolean {
  return scale.info.value !== undefined && sameShape(scale.info.dims, x.info.dims.slice(axis));
}

const scaledNormalization: Rule = (root, r) => {
  for (const [i, j] of [
    [0, 1],
    [1, 0],
  ] as const) {
    const item = r.only(r.input(root, i), 'Div', 'Mul');
    const scale = r.input(root, j)!;
    const found = item && normalized(item, r);
    if (found === undefined || found.x.info.type !== 'float32' || !fitsAxes(scale, found.x, found.axis)) continue;
    const { x, axis, epsilon, centred, nodes } = found;
    const attributes: Record<string, Attribute> = {
      axis: { kind: 'int', value: axis - x.info.dims.length },
      epsilon: { kind: 'float', value: epsilon },
    };
    const made = centred
      ? { op: 'LayerNormalization', opset: Math.max(root.node.opset, 17), inputs: [x, scale], attributes }
      : { op: 'RMSNormalization', opset: Math.max(root.node.opset, 23), inputs: [x, scale], attributes };
    const rewritten: Rewritten | undefined = r.replace(root, made, nodes);
    if (rewritten !== undefined) return rewritten;
  }
  return undefined;
};

/** The bias that follows a layer normalization without one. */
const normalizationBias: Rule = (root, r) => {
  for (const [i, j] of [
    [0, 1],
    [1, 0],
  ] as const) {
    const item = r.only(r.input(root, i), 'LayerNormalization');
    const bias = r.input(root, j)!;
    if (item === undefined || item.inputs[2] !== undefined) continue;
    const x = r.input(item, 0)!;
    const scale = r.input(item, 1)!;
    if (bias.info.value === undefined || !sameShape(bias.info.dims, scale.info.dims)) continue;
    const { op, opset, attributes } = item.node;
    return r.replace(root, { op, opset, inputs: [x, scale, bias], attributes }, [item]);
  }
  return undefined;
};

export const normalizationRules: Rules = { Mul: [scaledNormalization], Add: [normalizationBias] };
