// Nodes that compute what is there already: identities in all their spellings, and pairs that undo or repeat each other
// (transposes, reshapes). Exact: no element is computed otherwise than before.

import { sameShape } from '../../tensor/shape.js';
import { Tensor } from '../../tensor/tensor.js';
import type { SettledNode } from '../lowering.js';
import { listOf, type Rewriter, type Rewritten, type Rule, type Rules, scalarOf, type Value } from './rewriter.js';

/** Output 0 equals input `i`, where it has its type and shape. */
function sameAs(root: SettledNode, r: Rewriter, i = 0): Rewritten | undefined {
  const value = r.input(root, i);
  const out = root.outputs[0];
  if (value === undefined || out === undefined) return undefined;
  if (value.info.type !== out.type || !sameShape(value.info.dims, out.dims)) return undefined;
  return { kind: 'same', value };
}

const identity: Rule = (root, r) => sameAs(root, r);

/** Dropout passes its input on unless it trains; the mask, when someone wants it, has to be made (the rewriter looks). */
const dropout: Rule = (root, r) => {
  const training = r.input(root, 2);
  if (training !== undefined) {
    const value = training.info.value;
    if (value === undefined || (value.data as Uint8Array)[0] !== 0) return undefined;
  }
  // Before version 7 the attribute said so.
  if (root.node.opset < 7 && (root.attributes.is_test as number | undefined) !== 1) return undefined;
  return sameAs(root, r);
};

/** x · 1 and x / 1 are x for every x, NaN and −0 included; the shape must not be broadcast (sameAs looks). */
const timesOne: Rule = (root, r) => {
  if (scalarOf(r.input(root, 1)) === 1) return sameAs(root, r, 0);
  if (root.node.op === 'Mul' && scalarOf(r.input(root, 0)) === 1) return sameAs(root, r, 1);
  return undefined;
};

/** x + 0 and x − 0 are x (−0 + 0 is 0, the same number). */
const plusZero: Rule = (root, r) => {
  if (scalarOf(r.input(root, 1)) === 0) return sameAs(root, r, 0);
  if (root.node.op === 'Add' && scalarOf(r.input(root, 0)) === 0) return sameAs(root, r, 1);
  return undefined;
};

/** A slice of everything in steps of one. The same shape alone is not enough: a step of −1 reverses. */
const sliceAll: Rule = (root, r) => {
  const steps = r.input(root, 4);
  if (steps !== undefined && !listOf(steps)?.every((s) => s === 1)) return undefined;
  return sameAs(root, r);
};

const joinOne: Rule = (root, r) => (root.node.inputs.length === 1 ? sameAs(root, r) : undefined);

const padNothing: Rule = (root, r) => {
  // A negative and a positive pad can give the old shape and other elements.
  const pads = (root.attributes.pads as readonly number[] | undefined) ?? listOf(r.input(root, 1));
  return pads?.every((p) => p === 0) === true ? sameAs(root, r) : undefined;
};

/** The permutation a Transpose applies. */
export function permOf(item: SettledNode): readonly number[] {
  const rank = item.inputs[0]!.dims.length;
  const perm = item.attributes.perm as readonly number[] | undefined;
  return perm !== undefined && perm.length === rank ? perm : Array.from({ length: rank }, (_, i) => rank - 1 - i);
}

const transpose: Rule = (root, r) => {
  const perm = permOf(root);
  if (perm.every((p, i) => p === i)) return sameAs(root, r);
  // Transpose(Transpose(x, p), q) is Transpose(x, p∘q). The first one may go on living for other readers: the second
  // costs the same either way.
  const first = r.from(r.input(root, 0), 'Transpose');
  if (first === undefined) return undefined;
  const before = permOf(first);
  const both = perm.map((p) => before[p]!);
  const x = r.input(first, 0)!;
  if (both.every((p, i) => p === i)) return { kind: 'same', value: x };
  const attributes = { perm: { kind: 'ints', value: both } } as const;
  return r.replace(root, { op: 'Transpose', inputs: [x], attributes }, [first]);
};

/** Operators that only give the same elements, in the same order, another shape. */
const reshaping = ['Reshape', 'Flatten', 'Squeeze', 'Unsqueeze'] as const;

const reshape: Rule = (root, r) => {
  const same = sameAs(root, r);
  if (same !== undefined) return same;
  const first = r.from(r.input(root, 0), ...reshaping);
  if (first === undefined) return undefined;
  const dims = root.outputs[0]!.dims;
  const target = new Tensor('int64', BigInt64Array.from(dims, BigInt));
  const shape: Value = {
    name: `shape [${dims.join()}]`,
    info: { type: 'int64', dims: [dims.length], value: target },
  };
  // Opset 5 made the shape an input, 14 gave 0 its plain meaning on request.
  const opset = Math.max(root.node.opset, 14);
  const attributes = { allowzero: { kind: 'int', value: 1 } } as const;
  return r.replace(root, { op: 'Reshape', opset, inputs: [r.input(first, 0)!, shape], attributes }, [first]);
};

export const simplifications: Rules = {
  Identity: [identity],
  Dropout: [dropout],
  Cast: [identity],
  CastLike: [identity],
  Expand: [identity],
  Mul: [timesOne],
  Div: [timesOne],
  Add: [plusZero],
  Sub: [plusZero],
  Slice: [sliceAll],
  Concat: [joinOne],
  Sum: [joinOne],
  Max: [joinOne],
  Min: [joinOne],
  Mean: [joinOne],
  Pad: [padNothing],
  Transpose: [transpose],
  Reshape: [reshape],
  Flatten: [reshape],
  Squeeze: [reshape],
  Unsqueeze: [reshape],
};
