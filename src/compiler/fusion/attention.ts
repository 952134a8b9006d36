// Attention as exporters write it, back as one node:
//
//   q [b, rows, h·d] ─ Reshape ─ Transpose ─┐
//   k ─ Reshape ─ Transpose ─ (Transpose) ─ MatMul ─ · scale ─ + mask ─ Softmax ─┐
//   v ─ Reshape ─ Transpose ─────────────────────────────────────────────────── MatMul ─ Transpose ─ Reshape ─ y
//
// First the products and the softmax between them become `skep:Attention` on heads apart, whose keys and values it reads
// where they lie beside each other if that is known; then, where the result is laid beside each other again, the queries
// are read and the result is written so too. A mask is added, or chosen by Where with a constant for what is hidden.
//
// The same function; sums are in another order. A query that sees no key at all (all of its scores −∞) gives NaN, as the
// softmax of nothing does.
import type { Attribute } from '../../graph/graph.js';
import { sameShape } from '../../tensor/shape.js';
import type { SettledNode } from '../lowering.js';
import { type Rewriter, type Rule, type Rules, scalarOf, type Value } from './rewriter.js';

/** Scores before the softmax: scale · q · kᵀ, and what hides some of them. */
interface Scores {
  readonly q: Value;
  readonly kT: Value;
  readonly scale: number;
  readonly mask: Value | undefined;
  readonly maskValue: number;
  readonly nodes: readonly SettledNode[];
}

/** x · factor, with the factor a constant of one element. */
function scaledBy(item: SettledNode, r: Rewriter): { x: Value; factor: number } | undefined {
  const [a, b] = [r.input(item, 0)!, r.input(item, 1)!];
  const [left, right] = [scalarOf(a), scalarOf(b)];
  if (right !== undefined) return { x: a, factor: item.node.op === 'Mul' ? right : 1 / right };
  return left !== undefined && item.node.op === 'Mul' ? { x: b, factor: left } : undefined;
}

/** A factor of a product's operand, which may as well be one of the product. */
function operandOf(value: Value, r: Rewriter): { x: Value; factor: number; nodes: readonly SettledNode[] } {
  const item = r.only(value, 'Mul', 'Div');
  const found = item && scaledBy(item, r);
  // The factor must not widen the operand.
  const fits = found !== undefined && sameShape(found.x.info.dims, value.info.dims);
  return fits ? { ...found, nodes: [item!] } : { x: value, factor: 1, nodes: [] };
}

/** scale · q · kᵀ, perhaps with a mask that has gone into the product as its residual. */
function product(value: Value, r: Rewriter): Scores | undefined {
  const scaling = r.only(value, 'Mul', 'Div');
  const scaled = scaling && scaledBy(scaling, r);
  const item = r.only(scaled?.x ?? value, 'MatMul', 'skep:MatMul');
  if (item === undefined || (scaling !== undefined && scaled === undefined)) return undefined;
  const isOwn = item.node.domain === 'skep';
  if (isOwn && (item.inputs[2] !== undefined || item.attributes.activation !== 'none')) return undefined;
  const mask = r.input(item, 3);
  // What is added in the product would be scaled too.
  if (mask !== undefined && scaled !== undefined) return undefined;
  const q = operandOf(r.input(item, 0)!, r);
  const k = operandOf(r.input(item, 1)!, r);
  return {
    q: q.x,
    kT: k.x,
    scale: (scaled?.factor ?? 1) * q.factor * k.factor,
    mask,
    maskValue: -Infinity,
    nodes: [item, ...(scaling ? [scaling] : []), ...q.nodes, ...k.nodes],
  };
}

function scoresOf(value: Value, r: Rewriter): Scores | undefined {
  const add = r.only(value, 'Add');
  if (add !== undefined) {
    for (const [i, j] of [
      [0, 1],
      [1, 0],
    ] as const) {
      const inner = product(r.input(add, i)!, r);
      const mask = r.input(add, j)!;
      if (inner === undefined || inner.mask !== undefined || mask.info.type !== value.info.type) continue;
      return { ...inner, mask, nodes: [add, ...inner.nodes] };
    }
    return undefined;
  }
  const where = r.only(value, 'Where');
  if (where === undefined) return product(value, r);
  const inner = product(r.input(where, 1)!, r);
  const maskValue = scalarOf(r.input(where, 2));
  if (inner === undefined || inner.mask !== undefined || maskValue === undefined) return undefined;
  return { ...inner, mask: r.input(where, 0)!, maskValue, nodes: [where, ...inner.nodes] };
}

function permOf(item: SettledNode): readonly number[] {
  const rank = item.inputs[0]!.dims.length;
  return (
    (item.attributes.perm as readonly number[] | undefined) ?? Array.from({ length: rank }, (_, i) => rank - 1 - i)
  );
}

function isPerm(item: SettledNode | undefined, ...perm: readonly number[]): item is SettledNode {
  return item !== undefined && sameShape(permOf(item), perm);
}

/** [batch, rows, heads, size] seen as [batch, rows, heads · size], if that is what it was made of. */
function beside(value: Value, r: Rewriter): Value | undefined {
  const reshape = r.from(value, 'Reshape');
  const x = reshape && r.input(reshape, 0)!;
  const [b, rows, h, d] = value.info.dims as [number, number, number, number];
  return x !== undefined && sameShape(x.info.dims, [b, rows, h * d]) ? x : undefined;
}

/** Heads apart, [batch, heads, rows, size], as they lie beside each other, if they are made of that. */
function headsBeside(value: Value, r: Rewriter): Value | undefined {
  const transpose = r.from(value, 'Transpose');
  return isPerm(transpose, 0, 2, 1, 3) ? beside(r.input(transpose, 0)!, r) : undefined;
}

/** Keys from their transpose. */
function keysOf(kT: Value, r: Rewriter): Value | undefined {
  const transpose = r.from(kT, 'Transpose');
  if (transpose === undefined) return undefined;
  const x = r.input(transpose, 0)!;
  if (isPerm(transpose, 0, 2, 1)) return x;
  if (isPerm(transpose, 0, 1, 3, 2)) return headsBeside(x, r) ?? x;
  return isPerm(transpose, 0, 2, 3, 1) ? beside(x, r) : undefined;
}

/** True for a mask that broadcasts to the scores as `skep:Attention` reads it. */
function fitsScores(mask: Value, scores: readonly number[]): boolean {
  const { dims } = mask.info;
  const full = scores.slice(-dims.length);
  return (
    dims.length >= 2 &&
    dims.length <= scores.length &&
    dims.every((d, i) => d === full[i] || (d === 1 && i < dims.length - 1))
  );
}

const int = (value: number): Attribute => ({ kind: 'int', value });

/** softmax(scale · q · kᵀ + mask) · v */
const attention: Rule = (root, r) => {
  const y = root.outputs[0]!;
  const softmax = r.only(r.input(root, 0), 'Softmax');
  const v = r.input(root, 1)!;
  const rank = v.info.dims.length;
  if (softmax === undefined || (rank !== 4 && rank !== 3) || y.dims.length !== rank) return undefined;
  const { type, dims: scoreDims } = softmax.inputs[0]!;
  const axis = (softmax.attributes.axis as number | undefined) ?? (softmax.node.opset < 13 ? 1 : -1);
  if ((type !== 'float32' && type !== 'float16' && type !== 'bfloat16') || scoreDims.length !== rank) return undefined;
  if (axis !== -1 && axis !== rank - 1) return undefined;
  const scores = scoresOf(r.input(softmax, 0)!, r);
  const k = scores && keysOf(scores.kT, r);
  if (scores === undefined || k === undefined || scores.q.info.dims.length !== rank) return undefined;
  // One batch of keys and values for many of queries is no attention.
  const [batch, heads] = scores.q.info.dims as [number, number];
  if (!sameShape(v.info.dims.slice(0, rank - 2), rank === 4 ? [batch, heads] : [batch])) return undefined;
  // Of rank 3 the batch may be heads: a mask by batch has no place then, which the operator's own rule sees.
  const { mask } = scores;
  if (mask !== undefined && !fitsScores(mask, scoreDims)) return undefined;
  const count = rank === 4 ? heads : 1;
  return r.replace(
    root,
    {
      op: 'Attention',
      domain: 'skep',
      inputs: [scores.q, k, (rank === 4 && headsBeside(v, r)) || v, ...(mask ? [mask] : [])],
      attributes: {
        q_num_heads: int(count),
        kv_num_heads: int(count),
        scale: { kind: 'float', value: scores.scale },
        mask_value: { kind: 'float', value: scores.maskValue },
      },
    },
    [softmax, ...scores.nodes],
  );
};

/** The result laid beside each other: queries and result as they lie. */
const attentionBeside: Rule = (root, r) => {
  const transpose = r.only(r.input(root, 0), 'Transpose');
  if (!isPerm(transpose, 0, 2, 1, 3)) return undefined;
  const item = r.only(r.input(transpose, 0), 'skep:Attention');
  const q = item && headsBeside(r.input(item, 0)!, r);
  if (item === undefined || q === undefined) return undefined;
  const inputs = item.node.inputs.map((_, i) => (i === 0 ? q : r.input(item, i)));
  const made = { op: 'Attention', domain: 'skep', inputs, attributes: item.node.attributes };
  return r.replace(root, made, [transpose, item]);
};

export const attentionRules: Rules = { MatMul: [attention], Reshape: [attentionBeside] };
