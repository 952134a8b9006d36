// What the attention operators of com.microsoft share: rows laid out with their biases and pasts, masks and biases of
// scores as that domain writes them, and the end of each operator, attention-core.ts, for reference and kernels.
import { decode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { sameShape } from '../tensor/shape.js';
import {
  type AttentionShape,
  apartStrides,
  attend,
  besideStrides,
  broadcastMask,
  lowerAttention,
  type MaskShape,
  type Strides,
} from './attention-core.js';
import type { Address, Call, InferCall, LowerCall, ReferenceCall, TensorInfo } from './operator.js';

const nowhere: Strides = { batch: 0, head: 0, row: 0 };

export interface Numbers {
  readonly data: ArrayLike<number>;
  readonly strides: Strides;
  readonly size: number;
}

/** Rows laid out as [batch, heads, rows, size], the past before them, a bias of [heads · size] added to the new ones. */
export function laid(
  batch: number,
  heads: number,
  rows: number,
  x: Numbers,
  bias: { readonly data: ArrayLike<number>; readonly from: number } | undefined,
  past?: { readonly data: ArrayLike<number>; readonly from: number; readonly rows: number },
): Float64Array {
  const before = past?.rows ?? 0;
  const y = new Float64Array(batch * heads * (before + rows) * x.size);
  for (let b = 0; b < batch; b++)
    for (let h = 0; h < heads; h++) {
      const at = (b * heads + h) * (before + rows) * x.size;
      const held = (past?.from ?? 0) + (b * heads + h) * before * x.size;
      for (let i = 0; i < before * x.size; i++) y[at + i] = past!.data[held + i]!;
      for (let r = 0; r < rows; r++)
        for (let i = 0; i < x.size; i++) {
          const v = x.data[b * x.strides.batch + h * x.strides.head + r * x.strides.row + i]!;
          const c = bias === undefined ? 0 : bias.data[bias.from + h * x.size + i]!;
          y[at + (before + r) * x.size + i] = v + c;
        }
    }
  return y;
}

/** How a mask of com.microsoft is read: ends [batch], ends and starts [2 · batch], or integers of 2 or 3 dimensions. */
export function maskFrom(
  call: Call<unknown>,
  mask: TensorInfo | undefined,
  batch: number,
  queries: number,
  keys: number,
  filter: number,
): MaskShape | undefined {
  if (mask === undefined) return undefined;
  const { dims } = mask;
  const shape = { ...nowhere, keys, filter };
  if (sameShape(dims, [batch])) return { ...shape, kind: 'ends' };
  if (sameShape(dims, [2 * batch])) return { ...shape, kind: 'spans' };
  if (sameShape(dims, [batch, keys])) return { ...shape, kind: 'int', batch: keys };
  if (sameShape(dims, [batch, queries, keys])) return { ...shape, kind: 'int', batch: queries * keys, row: keys };
  throw call.error(
    `a mask of shape ${formatShape(dims)} is not supported for ${batch} batches, ${queries} queries and ${keys} keys`,
    'UNSUPPORTED',
  );
}

export function biasFrom(call: Call<unknown>, t: TensorInfo | undefined, full: readonly number[]): Strides | undefined {
  if (t === undefined) return undefined;
  const { dims } = t;
  const fits = dims.length === 4 && dims.every((d, i) => d === full[i] || (d === 1 && i < 2));
  if (!fits) throw call.error(`attention_bias ${formatShape(dims)} does not broadcast to ${formatShape(full)}`);
  return broadcastMask(dims);
}

export interface Place {
  readonly at: Address;
  readonly strides: Strides;
}

/** The attributes that end every attention of com.microsoft. */
type Ending = { readonly scale: number; readonly unidirectional: number; readonly mask_filter_value: number };

/** What is attended to; where it lies is the caller's. */
function shapeOf(
  call: InferCall<Ending>,
  l: Omit<Laid, 'q' | 'k' | 'v' | 'scores'>,
  strides: Pick<AttentionShape, 'q' | 'k' | 'v'>,
): AttentionShape {
  const { scale, unidirectional, mask_filter_value: filter } = call.attributes;
  const { batch, heads, queries, keys, size, valueSize } = l;
  const mask = maskFrom(call, call.optional(l.mask), batch, queries, keys, filter);
  const bias = biasFrom(call, call.optional(l.bias), [batch, heads, queries, keys]);
  return {
    batch,
    heads,
    keyHeads: heads,
    queries,
    keys,
    size,
    valueSize,
    ...strides,
    y: besideStrides(queries, heads, valueSize),
    scale: scale || 1 / Math.sqrt(size),
    softcap: 0,
    causal: unidirectional !== 0,
    past: l.past,
    window: 0,
    ...(mask && { mask }),
    ...(bias && { bias }),
    lengthsPlus: 0,
    mode: 0,
  };
}

/** Appends the step for operands that are in memory already. */
export function lowerFinish(
  call: LowerCall<Ending>,
  l: Omit<Laid, 'q' | 'k' | 'v' | 'scores'>,
  q: Place,
  k: Place,
  v: Place,
  scores: Address | undefined,
): void {
  const shape = shapeOf(call, l, { q: q.strides, k: k.strides, v: v.strides });
  const places = {
    q: q.at,
    k: k.at,
    v: v.at,
    ...(shape.mask && { mask: call.in(l.mask) }),
    ...(shape.bias && { bias: call.in(l.bias) }),
  };
  lowerAttention(call, shape, places, call.out(0), scores, false);
}

/** True when a kernel reads these inputs: floats, and a mask of int32; one a key where the scores are wanted. */
export function hasKernel(call: LowerCall<unknown>, floats: readonly number[], mask: number, scores = false): boolean {
  const m = call.optional(mask);
  if (m !== undefined && ((scores && m.dims.length === 1) || m.type !== 'int32')) return false;
  return floats.every((i) => !call.has(i) || call.input(i).type === 'float32');
}

export function checkHeads(call: Call<unknown>, heads: number, ...hidden: readonly number[]): void {
  if (heads < 1) throw call.error(`num_heads must be positive, got ${heads}`);
  const bad = hidden.find((h) => h % heads !== 0);
  if (bad !== undefined) throw call.error(`${bad} does not divide into ${heads} heads`);
}

export interface Laid {
  readonly batch: number;
  readonly heads: number;
  readonly queries: number;
  readonly keys: number;
  readonly size: number;
  readonly valueSize: number;
  readonly past: number;
  readonly q: Float64Array;
  readonly k: Float64Array;
  readonly v: Float64Array;
  /** Inputs of the mask and the bias. */
  readonly mask: number;
  readonly bias: number;
  readonly scores: Float64Array | undefined;
}

/** The reference for operands laid out apart. */
export function finish(call: ReferenceCall<Ending>, l: Laid): Float64Array {
  const { batch, heads, queries, keys, size, valueSize } = l;
  const shape = shapeOf(call, l, {
    q: apartStrides(queries, heads, size),
    k: apartStrides(keys, heads, size),
    v: apartStrides(keys, heads, valueSize),
  });
  const y = new Float64Array(batch * queries * heads * valueSize);
  const places = {
    q: l.q,
    k: l.k,
    v: l.v,
    ...(shape.mask && { mask: decode(call.tensor(l.mask)) }),
    ...(shape.bias && { bias: decode(call.tensor(l.bias)) }),
  };
  attend(shape, places, y, l.scores);
  return y;
}
