// Attention of com.microsoft: Attention (projects its input first), MultiHeadAttention and GroupQueryAttention (a cache
// whose true lengths are data). All end in attention-core.ts; biases, caches and rotations are laid out before. What has
// no kernel here (packed inputs, a shared buffer, float16) runs by the reference or is refused by name.

import { decode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { sameShape, sizeOf } from '../tensor/shape.js';
import { lowerJoin } from './attention.js';
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
import { float, int, ints, required } from './attributes.js';
import {
  type Address,
  type Call,
  type InferCall,
  type LowerCall,
  type Operator,
  offsetBy,
  operator,
  type ReferenceCall,
  type TensorInfo,
} from './operator.js';
import { lowerProduct, multiplyInto } from './product.js';
import { fromNumbers } from './reference.js';
import { rotate } from './rotary.js';

const domain = 'com.microsoft';
const nowhere: Strides = { batch: 0, head: 0, row: 0 };

interface Numbers {
  readonly data: ArrayLike<number>;
  readonly strides: Strides;
  readonly size: number;
}

/** Rows laid out as [batch, heads, rows, size], the past before them, a bias of [heads · size] added to the new ones. */
function laid(
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

/** How a mask of com.microsoft is read: lengths [batch], starts and ends [2 · batch], or integers of 2 to 4 dimensions. */
function maskFrom(
  call: Call<unknown>,
  mask: TensorInfo | undefined,
  batch: number,
  queries: number,
  keys: number,
  filter: number,
): ((data: ArrayLike<number>) => { readonly shape: MaskShape; readonly data: ArrayLike<number> }) | undefined {
  if (mask === undefined) return undefined;
  const { dims } = mask;
  const shape = { kind: 'int' as const, keys, filter };
  const perKey = { ...shape, ...nowhere, batch: keys };
  if (dims.length === 1 && (dims[0] === batch || dims[0] === 2 * batch))
    return (data) => ({
      shape: perKey,
      data: Float64Array.from({ length: batch * keys }, (_, i) => {
        const [b, t] = [Math.floor(i / keys), i % keys];
        const start = dims[0] === batch ? 0 : data[batch + b]!;
        return t >= start && t < data[b]! ? 1 : 0;
      }),
    });
  if (sameShape(dims, [batch, keys])) return (data) => ({ shape: perKey, data });
  if (sameShape(dims, [batch, queries, keys]))
    return (data) => ({ shape: { ...shape, batch: queries * keys, head: 0, row: keys }, data });
  throw call.error(
    `a mask of shape ${formatShape(dims)} is not supported for ${batch} batches, ${queries} queries and ${keys} keys`,
    'UNSUPPORTED',
  );
}

function biasFrom(call: Call<unknown>, t: TensorInfo | undefined, full: readonly number[]): Strides | undefined {
  if (t === undefined) return undefined;
  const { dims } = t;
  const fits = dims.length === 4 && dims.every((d, i) => d === full[i] || (d === 1 && i < 2));
  if (!fits) throw call.error(`attention_bias ${formatShape(dims)} does not broadcast to ${formatShape(full)}`);
  return broadcastMask(dims);
}

interface Place {
  readonly at: Address;
  readonly strides: Strides;
}

/** Appends the step for operands that are in memory already; false for masks that no kernel reads. */
function lowerFinish(
  call: LowerCall<{ readonly scale: number; readonly unidirectional: number; readonly mask_filter_value: number }>,
  l: Omit<Laid, 'q' | 'k' | 'v' | 'scores'>,
  q: Place,
  k: Place,
  v: Place,
  scores: Address | undefined,
): void {
  const { scale, unidirectional, mask_filter_value: filter } = call.attributes;
  const { batch, heads, queries, keys, size, valueSize } = l;
  const mask = call.optional(l.mask);
  const bias = biasFrom(call, call.optional(l.bias), [batch, heads, queries, keys]);
  const kind = { kind: 'int' as const, keys, filter, head: 0 };
  const maskShape =
    mask?.dims.length === 2 ? { ...kind, batch: keys, row: 0 } : mask && { ...kind, batch: queries * keys, row: keys };
  const shape: AttentionShape = {
    batch,
    heads,
    keyHeads: heads,
    queries,
    keys,
    size,
    valueSize,
    q: q.strides,
    k: k.strides,
    v: v.strides,
    y: besideStrides(queries, heads, valueSize),
    scale: scale || 1 / Math.sqrt(size),
    softcap: 0,
    causal: unidirectional !== 0,
    past: l.past,
    window: 0,
    ...(maskShape && { mask: maskShape }),
    ...(bias && { bias }),
    lengthsPlus: 0,
    mode: 0,
  };
  const places = {
    q: q.at,
    k: k.at,
    v: v.at,
    ...(maskShape && { mask: call.in(l.mask) }),
    ...(bias && { bias: call.in(l.bias) }),
  };
  lowerAttention(call, shape, places, call.out(0), scores, false);
}

/** True when a kernel reads these inputs: floats, and a mask of integers a key. */
function hasKernel(call: LowerCall<unknown>, floats: readonly number[], mask: number): boolean {
  const m = call.optional(mask);
  if (m !== undefined && (m.dims.length === 1 || m.type !== 'int32')) return false;
  return floats.every((i) => !call.has(i) || call.input(i).type === 'float32');
}

const attentionSpecs = {
  do_rotary: int(0),
  mask_filter_value: float(-10000),
  num_heads: required(int()),
  past_present_share_buffer: int(0),
  qkv_hidden_sizes: ints(),
  rotary_embedding_dim: int(0),
  scale: float(0),
  unidirectional: int(0),
};

function checkHeads(call: Call<unknown>, heads: number, ...hidden: readonly number[]): void {
  if (heads < 1) throw call.error(`num_heads must be positive, got ${heads}`);
  const bad = hidden.find((h) => h % heads !== 0);
  if (bad !== undefined) throw call.error(`${bad} does not divide into ${heads} heads`);
}

function projected(
  call: InferCall<{
    readonly num_heads: number;
    readonly qkv_hidden_sizes: readonly number[] | undefined;
    readonly do_rotary: number;
    readonly past_present_share_buffer: number;
  }>,
) {
  const a = call.attributes;
  if (a.do_rotary !== 0 || a.past_present_share_buffer !== 0)
    throw call.error('do_rotary and past_present_share_buffer are not supported', 'UNSUPPORTED');
  const [x, w] = [call.input(0), call.input(1)];
  if (x.dims.length !== 3 || w.dims.length !== 2 || w.dims[0] !== x.dims[2])
    throw call.error(
      `expected input [batch, sequence, n] and weights [n, m], got ${formatShape(x.dims)} and ${formatShape(w.dims)}`,
    );
  const [batch, rows, inner] = x.dims as [number, number, number];
  const total = w.dims[1]!;
  const sizes = a.qkv_hidden_sizes ?? [total / 3, total / 3, total / 3];
  const [qh, kh, vh] = sizes as [number, number, number];
  if (sizes.length !== 3 || qh !== kh || qh + kh + vh !== total || !sizes.every(Number.isInteger))
    throw call.error(`weights ${formatShape(w.dims)} do not divide into Q, K and V of sizes ${formatShape(sizes)}`);
  checkHeads(call, a.num_heads, qh, vh);
  const bias = call.optional(2);
  if (bias !== undefined && !sameShape(bias.dims, [total]))
    throw call.error(`expected bias of shape [${total}], got ${formatShape(bias.dims)}`);
  const past = call.optional(4);
  const before = past?.dims[3] ?? 0;
  const size = qh / a.num_heads;
  if (past !== undefined && (vh !== qh || !sameShape(past.dims, [2, batch, a.num_heads, before, size])))
    throw call.error(
      `expected past of shape [2, ${batch}, ${a.num_heads}, past, ${size}], got ${formatShape(past.dims)}`,
    );
  return {
    batch,
    rows,
    inner,
    total,
    qh,
    vh,
    size,
    valueSize: vh / a.num_heads,
    heads: a.num_heads,
    before,
    keys: before + rows,
  };
}

/** input, weights, bias?, mask_index?, past?, attention_bias? → output, present?. */
const attention = operator({
  name: 'Attention',
  domain,
  since: [1],
  inputs: [2, 7],
  attributes: attentionSpecs,
  infer(call) {
    const s = projected(call);
    const { type } = call.input(0);
    maskFrom(call, call.optional(3), s.batch, s.rows, s.keys, 0);
    return [
      { type, dims: [s.batch, s.rows, s.vh] },
      { type, dims: [2, s.batch, s.heads, s.keys, s.size] },
    ];
  },
  reference(call) {
    const s = projected(call);
    const { batch, rows, inner, total, heads, keys, before } = s;
    const [x, w] = [call.tensor(0), decode(call.tensor(1))];
    const y = new Float64Array(batch * rows * total);
    const right = { data: w, offset: 0, row: total, column: 1 };
    multiplyInto(y, 0, { data: decode(x), offset: 0, row: inner, column: 1 }, right, batch * rows, total, inner);
    const bias = call.has(2) ? decode(call.tensor(2)) : undefined;
    const part = (from: number, size: number) => ({
      data: y.subarray(from),
      strides: besideStrides(rows, heads, size, total),
      size,
    });
    const added = (from: number) => (bias === undefined ? undefined : { data: bias, from });
    const past = call.has(4) ? decode(call.tensor(4)) : undefined;
    const held = (from: number) => (past === undefined ? undefined : { data: past, from, rows: before });
    const q = laid(batch, heads, rows, part(0, s.size), added(0));
    const k = laid(batch, heads, rows, part(s.qh, s.size), added(s.qh), held(0));
    const v = laid(
      batch,
      heads,
      rows,
      part(2 * s.qh, s.valueSize),
      added(2 * s.qh),
      held(batch * heads * before * s.size),
    );
    const output = finish(call, { ...s, q, k, v, queries: rows, past: before, mask: 3, bias: 5, scores: undefined });
    return [
      fromNumbers(x.type, [batch, rows, s.vh], output),
      ...(call.wants(1) ? [fromNumbers(x.type, [2, batch, heads, keys, s.size], [...k, ...v])] : []),
    ];
  },
  lower(call) {
    const s = projected(call);
    if (!hasKernel(call, [0, 1, 2, 4, 5], 3)) return false;
    const { batch, rows, inner, total, heads, keys, before, size, valueSize } = s;
    if (call.wants(1) && valueSize !== size) return false;
    const y = call.scratch(Math.max(4, batch * rows * total * 4));
    lowerProduct(call, {
      a: { input: 0, matrices: 1, stride: batch * rows * inner, row: inner, column: 1 },
      b: { input: 1, matrices: 1, stride: inner * total, row: total, column: 1 },
      c: y,
      m: batch * rows,
      n: total,
      k: inner,
      epilogue: call.has(2) ? { bias: { at: call.in(2), row: 0, column: 1 } } : {},
    });
    const part = (from: number, each: number) => ({
      at: offsetBy(y, from * 4),
      strides: besideStrides(rows, heads, each, total),
    });
    let [k, v] = [part(s.qh, size), part(2 * s.qh, valueSize)];
    if (call.has(4) || call.wants(1)) {
      const half = batch * heads * keys * size * 4;
      const present = call.wants(1) ? call.out(1) : call.scratch(Math.max(4, 2 * half));
      const join = (x: Place, from: number, to: Address) => {
        const past = call.has(4) ? offsetBy(call.in(4), from * batch * heads * before * size * 4) : undefined;
        lowerJoin(call, past, before, x.at, { batch, heads, rows, size, strides: x.strides }, to);
        return { at: to, strides: apartStrides(keys, heads, size) };
      };
      [k, v] = [join(k, 0, present), join(v, 1, offsetBy(present, half))];
    }
    lowerFinish(call, { ...s, queries: rows, past: before, mask: 3, bias: 5 }, part(0, size), k, v, undefined);
    return true;
  },
});

interface Laid {
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

function finish(
  call: ReferenceCall<{ readonly scale: number; readonly unidirectional: number; readonly mask_filter_value: number }>,
  l: Laid,
): Float64Array {
  const { scale, unidirectional, mask_filter_value: filter } = call.attributes;
  const { batch, heads, queries, keys, size, valueSize } = l;
  const mask = maskFrom(call, call.optional(l.mask), batch, queries, keys, filter)?.(decode(call.tensor(l.mask)));
  const bias = biasFrom(call, call.optional(l.bias), [batch, heads, queries, keys]);
  const shape: AttentionShape = {
    batch,
    heads,
    keyHeads: heads,
    queries,
    keys,
    size,
    valueSize,
    q: apartStrides(queries, heads, size),
    k: apartStrides(keys, heads, size),
    v: apartStrides(keys, heads, valueSize),
    y: besideStrides(queries, heads, valueSize),
    scale: scale || 1 / Math.sqrt(size),
    softcap: 0,
    causal: unidirectional !== 0,
    past: l.past,
    window: 0,
    ...(mask && { mask: mask.shape }),
    ...(bias && { bias }),
    lengthsPlus: 0,
    mode: 0,
  };
  const y = new Float64Array(batch * queries * heads * valueSize);
  const places = {
    q: l.q,
    k: l.k,
    v: l.v,
    ...(mask && { mask: mask.data }),
    ...(bias && { bias: decode(call.tensor(l.bias)) }),
  };
  attend(shape, places, y, l.scores);
  return y;
}

const multiHeadSpecs = {
  mask_filter_value: float(-10000),
  num_heads: required(int()),
  scale: float(0),
  unidirectional: int(0),
};

function multiHead(call: InferCall<{ readonly num_heads: number }>) {
  const heads = call.attributes.num_heads;
  const q = call.input(0).dims;
  if (q.length === 5 || !call.has(1) || call.input(1).dims.length === 5)
    throw call.error('packed queries, keys and values are not supported', 'UNSUPPORTED');
  const [k, v] = [call.input(1).dims, call.input(2).dims];
  const bad = (why: string) =>
    call.error(`${why}: query ${formatShape(q)}, key ${formatShape(k)}, value ${formatShape(v)}`);
  if (q.length !== 3) throw bad('expected a query of 3 dimensions');
  const [batch, queries, hidden] = q as [number, number, number];
  checkHeads(call, heads, hidden);
  const size = hidden / heads;
  const apart = k.length === 4;
  const rows = apart ? k[2]! : k[1]!;
  const valueSize = apart ? v[3]! : v[2]! / heads;
  const fits = apart
    ? sameShape(k, [batch, heads, rows, size]) && sameShape(v, [batch, heads, rows, valueSize])
    : sameShape(k, [batch, rows, hidden]) &&
      sameShape(v, [batch, rows, heads * valueSize]) &&
      Number.isInteger(valueSize);
  if (!fits) throw bad('shapes do not fit');
  const bias = call.optional(3);
  if (bias !== undefined && !sameShape(bias.dims, [2 * hidden + heads * valueSize]))
    throw call.error(`expected bias of shape [${2 * hidden + heads * valueSize}], got ${formatShape(bias.dims)}`);
  const [pastKey, pastValue] = [call.optional(6), call.optional(7)];
  if ((pastKey === undefined) !== (pastValue === undefined)) throw call.error('past_key and past_value go together');
  const before = pastKey?.dims[2] ?? 0;
  if (
    pastKey !== undefined &&
    (!sameShape(pastKey.dims, [batch, heads, before, size]) ||
      !sameShape(pastValue!.dims, [batch, heads, before, valueSize]))
  )
    throw call.error(
      `past_key ${formatShape(pastKey.dims)} and past_value ${formatShape(pastValue!.dims)} do not fit ${heads} heads`,
    );
  if (call.has(8) || call.has(9))
    throw call.error('past_sequence_length and cache_indirection are not supported', 'UNSUPPORTED');
  return { batch, heads, queries, rows, size, valueSize, hidden, apart, before, keys: before + rows };
}

/** query, key, value, bias?, key_padding_mask?, attention_bias?, past_key?, past_value? → output, present_key?, present_value?, qk?. */
const multiHeadAttention = operator({
  name: 'MultiHeadAttention',
  domain,
  since: [1],
  inputs: [1, 10],
  attributes: multiHeadSpecs,
  infer(call) {
    const s = multiHead(call);
    const { type } = call.input(0);
    maskFrom(call, call.optional(4), s.batch, s.queries, s.keys, 0);
    return [
      { type, dims: [s.batch, s.queries, s.heads * s.valueSize] },
      { type, dims: [s.batch, s.heads, s.keys, s.size] },
      { type, dims: [s.batch, s.heads, s.keys, s.valueSize] },
      { type, dims: [s.batch, s.heads, s.queries, s.keys] },
    ];
  },
  reference(call) {
    const s = multiHead(call);
    const { batch, heads, queries, rows, size, valueSize, hidden, before, keys } = s;
    const bias = call.has(3) ? decode(call.tensor(3)) : undefined;
    const added = (from: number) => (bias === undefined ? undefined : { data: bias, from });
    const held = (i: number) => (call.has(i) ? { data: decode(call.tensor(i)), from: 0, rows: before } : undefined);
    const strides = (n: number, each: number) =>
      s.apart ? apartStrides(n, heads, each) : besideStrides(n, heads, each);
    const part = (i: number, each: number) => ({
      data: decode(call.tensor(i)),
      strides: strides(rows, each),
      size: each,
    });
    const query = { data: decode(call.tensor(0)), strides: besideStrides(queries, heads, size), size };
    const q = laid(batch, heads, queries, query, added(0));
    const k = laid(batch, heads, rows, part(1, size), added(hidden), held(6));
    const v = laid(batch, heads, rows, part(2, valueSize), added(2 * hidden), held(7));
    const scores = call.wants(3) ? new Float64Array(batch * heads * queries * keys) : undefined;
    const y = finish(call, { ...s, q, k, v, past: before, mask: 4, bias: 5, scores });
    const { type } = call.tensor(0);
    return [
      fromNumbers(type, [batch, queries, heads * valueSize], y),
      fromNumbers(type, [batch, heads, keys, size], k),
      fromNumbers(type, [batch, heads, keys, valueSize], v),
      ...(scores ? [fromNumbers(type, [batch, heads, queries, keys], scores)] : []),
    ];
  },
  lower(call) {
    const s = multiHead(call);
    // A bias of the projections is added by the reference only.
    if (call.has(3) || !hasKernel(call, [0, 1, 2, 5, 6, 7], 4)) return false;
    const { batch, heads, queries, rows, size, valueSize, before, keys } = s;
    const strides = (each: number) => (s.apart ? apartStrides(rows, heads, each) : besideStrides(rows, heads, each));
    const joined = call.has(6) || call.wants(1) || call.wants(2);
    const place = (i: number, each: number, past: number) => {
      if (!joined) return { at: call.in(i), strides: strides(each) };
      const to = call.wants(i) ? call.out(i) : call.scratch(Math.max(4, batch * heads * keys * each * 4));
      const heldAt = call.has(past) ? call.in(past) : undefined;
      lowerJoin(call, heldAt, before, call.in(i), { batch, heads, rows, size: each, strides: strides(each) }, to);
      return { at: to, strides: apartStrides(keys, heads, each) };
    };
    const q = { at: call.in(0), strides: besideStrides(queries, heads, size) };
    const scores = call.wants(3) ? call.out(3) : undefined;
    lowerFinish(call, { ...s, past: before, mask: 4, bias: 5 }, q, place(1, size, 6), place(2, valueSize, 7), scores);
    return true;
  },
});

const groupedSpecs = {
  do_rotary: int(0),
  kv_num_heads: required(int()),
  local_window_size: int(-1),
  num_heads: required(int()),
  rotary_interleaved: int(0),
  scale: float(0),
  smooth_softmax: int(0),
  softcap: float(0),
};

function grouped(
  call: InferCall<{
    readonly num_heads: number;
    readonly kv_num_heads: number;
    readonly smooth_softmax: number;
    readonly do_rotary: number;
  }>,
) {
  const { num_heads: heads, kv_num_heads: keyHeads } = call.attributes;
  if (call.attributes.smooth_softmax > 0 || call.has(11))
    throw call.error('smooth softmax and head sinks are not supported', 'UNSUPPORTED');
  if (heads < 1 || keyHeads < 1 || heads % keyHeads !== 0)
    throw call.error(`${heads} query heads cannot share ${keyHeads} key heads`);
  const q = call.input(0).dims;
  if (q.length !== 3) throw call.error(`expected query [batch, sequence, size], got ${formatShape(q)}`);
  const [batch, rows, hidden] = q as [number, number, number];
  const packed = !call.has(1);
  const size = hidden / (packed ? heads + 2 * keyHeads : heads);
  if (!Number.isInteger(size)) throw call.error(`query ${formatShape(q)} does not divide into ${heads} heads`);
  if (!packed)
    for (const i of [1, 2])
      if (!sameShape(call.input(i).dims, [batch, rows, keyHeads * size]))
        throw call.error(
          `expected input ${i} of shape [${batch}, ${rows}, ${keyHeads * size}], got ${formatShape(call.input(i).dims)}`,
        );
  const past = call.optional(3);
  const before = past?.dims[2] ?? 0;
  for (const i of [3, 4]) {
    const t = call.optional(i);
    if (t !== undefined && !sameShape(t.dims, [batch, keyHeads, before, size]))
      throw call.error(
        `expected input ${i} of shape [${batch}, ${keyHeads}, past, ${size}], got ${formatShape(t.dims)}`,
      );
  }
  if (sizeOf(call.input(5).dims) !== batch)
    throw call.error(`expected seqlens_k of shape [${batch}], got ${formatShape(call.input(5).dims)}`);
  const total = call.ints(6)![0]!;
  if (total < 0 || total > 2 ** 31) throw call.error(`total_sequence_length is ${total}`, 'INVALID_INPUT');
  if (call.attributes.do_rotary !== 0 && (!call.has(7) || !call.has(8)))
    throw call.error('do_rotary needs cos_cache and sin_cache');
  return { batch, rows, heads, keyHeads, size, packed, before, keys: Math.max(before, total), total, hidden };
}

/**
 * query (or all packed), key?, value?, past_key?, past_value?, seqlens_k, total_sequence_length, cos_cache?, sin_cache?,
 * position_ids?, attention_bias? → output, present_key, present_value. Causal; new keys follow each batch's own past.
 */
const groupQueryAttention = operator({
  name: 'GroupQueryAttention',
  domain,
  since: [1],
  inputs: [7, 14],
  attributes: groupedSpecs,
  infer(call) {
    const s = grouped(call);
    const { type } = call.input(0);
    const present = { type, dims: [s.batch, s.keyHeads, s.keys, s.size] };
    return [{ type, dims: [s.batch, s.rows, s.heads * s.size] }, present, present];
  },
  reference(call) {
    const s = grouped(call);
    const a = call.attributes;
    const { batch, rows, heads, keyHeads, size, packed, before, keys } = s;
    const lengths = call.ints(5)!.map((n) => n + 1);
    for (const n of lengths)
      if (n < 1 || n > keys) throw call.error(`seqlens_k ${n - 1} is outside a cache of ${keys}`, 'INVALID_INPUT');
    // In a first prompt the past is empty, however the rows are padded.
    const first = s.total === rows;
    const pasts = lengths.map((n) => (first ? 0 : n - rows));
    if (pasts.some((p) => p < 0 || p + rows > keys))
      throw call.error('seqlens_k leave no room for the new keys', 'INVALID_INPUT');
    const source = decode(call.tensor(0));
    const row = packed ? s.hidden : undefined;
    const part = (i: number, n: number, from: number): Numbers => ({
      data: packed ? Float64Array.from(source).subarray(from) : decode(call.tensor(i)),
      strides: besideStrides(rows, n, size, row ?? n * size),
      size,
    });
    const lay = (n: number, x: Numbers, turned: boolean) => {
      const y = laid(batch, n, rows, x, undefined);
      if (!turned || a.do_rotary === 0) return y;
      const [cos, sin] = [call.tensor(7), call.tensor(8)];
      const half = cos.dims[1]!;
      const strides = apartStrides(rows, n, size);
      const given = call.has(9) ? call.ints(9)! : undefined;
      const out = new Float64Array(y.length);
      const interleaved = a.rotary_interleaved !== 0;
      const shape = {
        batch,
        heads: n,
        rows,
        size,
        half,
        interleaved,
        x: strides,
        y: strides,
        most: cos.dims[0]!,
        offset: false,
      };
      const positionOf = (b: number, r: number) => {
        const p = given === undefined ? pasts[b]! + r : given[b * rows + r]!;
        if (p < 0 || p >= shape.most)
          throw call.error(`position ${p} is outside the ${shape.most} of the tables`, 'INVALID_INPUT');
        return p;
      };
      rotate(shape, y, decode(cos), decode(sin), positionOf, out);
      return out;
    };
    const q = lay(heads, part(0, heads, 0), true);
    const present = (i: number, x: Float64Array): Float64Array => {
      const past = call.has(i) ? decode(call.tensor(i)) : undefined;
      const y = new Float64Array(batch * keyHeads * keys * size);
      for (let b = 0; b < batch; b++)
        for (let h = 0; h < keyHeads; h++) {
          const at = (b * keyHeads + h) * keys * size;
          const held = Math.min(before, pasts[b]!) * size;
          for (let j = 0; j < held; j++) y[at + j] = past![(b * keyHeads + h) * before * size + j]!;
          for (let j = 0; j < rows * size; j++) y[at + pasts[b]! * size + j] = x[(b * keyHeads + h) * rows * size + j]!;
        }
      return y;
    };
    const k = present(3, lay(keyHeads, part(1, keyHeads, heads * size), true));
    const v = present(4, lay(keyHeads, part(2, keyHeads, (heads + keyHeads) * size), false));
    const y = new Float64Array(batch * rows * heads * size);
    const bias = biasFrom(call, call.optional(10), [batch, heads, rows, keys]);
    for (let b = 0; b < batch; b++) {
      const cut = (x: Float64Array) => x.subarray((b * x.length) / batch, ((b + 1) * x.length) / batch);
      const shape: AttentionShape = {
        batch: 1,
        heads,
        keyHeads,
        queries: rows,
        keys,
        size,
        valueSize: size,
        q: apartStrides(rows, heads, size),
        k: apartStrides(keys, keyHeads, size),
        v: apartStrides(keys, keyHeads, size),
        y: besideStrides(rows, heads, size),
        scale: a.scale || 1 / Math.sqrt(size),
        softcap: a.softcap,
        causal: true,
        past: pasts[b]!,
        window: Math.max(0, a.local_window_size),
        ...(bias && { bias: { ...bias, batch: 0 } }),
        lengthsPlus: 0,
        mode: 0,
      };
      const biasData = bias && Float64Array.from(decode(call.tensor(10))).subarray(b * bias.batch);
      attend(shape, { q: cut(q), k: cut(k), v: cut(v), ...(biasData && { bias: biasData }) }, cut(y));
    }
    const { type } = call.tensor(0);
    const dims = [batch, keyHeads, keys, size];
    return [fromNumbers(type, [batch, rows, heads * size], y), fromNumbers(type, dims, k), fromNumbers(type, dims, v)];
  },
});

export const contribAttentionOperators: readonly Operator[] = [attention, multiHeadAttention, groupQueryAttention];
