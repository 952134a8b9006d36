// Attention of ai.onnx (versions 23 and on): multi-head, grouped-query and multi-query attention with masks, causality,
// a key-value cache and true lengths. Q, K and V are [batch, heads, rows, size] or [batch, rows, heads · size]. With a
// past, keys and values are laid after it into the present; the products are attention-core.ts. `skep:Attention`, which only
// fusion makes, is the same with a number of one's own for masked scores, and NaN for a query that sees nothing, as the
// softmax it stands for has it, where the operator of ai.onnx has zeros.
import { decode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { sameShape, sizeOf } from '../tensor/shape.js';
import { dataTypeOf } from '../tensor/types.js';
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
import { type AttributesOf, float, int } from './attributes.js';
import { byteStrides, copyView } from './copy.js';
import { type Address, type InferCall, type LowerCall, type Operator, offsetBy, operator } from './operator.js';
import { fromNumbers, isFloat } from './reference.js';

const specs = {
  is_causal: int(0),
  kv_num_heads: int(),
  q_num_heads: int(),
  qk_matmul_output_mode: int(0),
  scale: float(),
  softcap: float(0),
  softmax_precision: int(),
};

/** What a masked score becomes; the specification's is −∞. For fusion: exporters write large negative numbers. */
const fusedSpecs = { ...specs, mask_value: float(-Infinity) };

type AttentionCall = InferCall<AttributesOf<typeof specs> & { readonly mask_value?: number }>;

/** Rows of heads, in either layout. */
interface Heads {
  readonly batch: number;
  readonly heads: number;
  readonly rows: number;
  readonly size: number;
  readonly strides: Strides;
}

function headsOf(call: AttentionCall, i: number, name: string, heads: number | undefined, attribute: string): Heads {
  const { dims } = call.input(i);
  if (dims.length === 4) {
    const [batch, n, rows, size] = dims as [number, number, number, number];
    if (heads !== undefined && heads !== n)
      throw call.error(`${attribute} is ${heads}, but ${name} has shape ${formatShape(dims)}`);
    return { batch, heads: n, rows, size, strides: apartStrides(rows, n, size) };
  }
  if (dims.length !== 3) throw call.error(`${name} must have 3 or 4 dimensions, got ${formatShape(dims)}`);
  const [batch, rows, hidden] = dims as [number, number, number];
  if (heads === undefined || heads < 1)
    throw call.error(`${name} of shape ${formatShape(dims)} needs a positive ${attribute}`);
  if (hidden % heads !== 0) throw call.error(`${name} ${formatShape(dims)} does not divide into ${heads} heads`);
  return { batch, heads, rows, size: hidden / heads, strides: besideStrides(rows, heads, hidden / heads) };
}

interface Parsed {
  readonly shape: AttentionShape;
  readonly k: Heads;
  readonly v: Heads;
  /** Rows of the past; undefined: none. */
  readonly past: number | undefined;
  readonly dims: readonly number[];
  readonly presentKey: readonly number[];
  readonly presentValue: readonly number[];
  readonly scores: readonly number[];
}

function maskOf(
  call: AttentionCall,
  batch: number,
  heads: number,
  queries: number,
  keys: number,
): MaskShape | undefined {
  const mask = call.optional(3);
  if (mask === undefined) return undefined;
  const { dims, type } = mask;
  if (type !== 'bool' && !isFloat(type)) throw call.error(`attn_mask must be bool or floating-point, got ${type}`);
  const full = [batch, heads, queries, keys].slice(4 - dims.length);
  const fits =
    dims.length >= 2 &&
    dims.length <= 4 &&
    dims.every((d, i) => (i === dims.length - 1 ? d <= keys : d === 1 || d === full[i]));
  if (!fits)
    throw call.error(
      `attn_mask ${formatShape(dims)} does not broadcast to ${formatShape([batch, heads, queries, keys])}`,
    );
  const filter = call.attributes.mask_value ?? -Infinity;
  return { kind: type === 'bool' ? 'bool' : 'add', ...broadcastMask(dims), keys: dims.at(-1)!, filter };
}

function parse(call: AttentionCall): Parsed {
  const a = call.attributes;
  const q = headsOf(call, 0, 'Q', a.q_num_heads, 'q_num_heads');
  const k = headsOf(call, 1, 'K', a.kv_num_heads, 'kv_num_heads');
  const v = headsOf(call, 2, 'V', a.kv_num_heads, 'kv_num_heads');
  const shapes = [0, 1, 2].map((i) => formatShape(call.input(i).dims));
  const bad = (why: string) => call.error(`${why}: Q ${shapes[0]}, K ${shapes[1]}, V ${shapes[2]}`);
  if (q.batch !== k.batch || q.batch !== v.batch) throw bad('batches differ');
  if (k.heads !== v.heads) throw bad('K and V have different heads');
  if (k.heads === 0 || q.heads % k.heads !== 0) throw bad(`${q.heads} query heads cannot share ${k.heads} key heads`);
  if (q.size !== k.size) throw bad('queries and keys have different sizes');
  if (k.rows !== v.rows) throw bad('K and V have different lengths');
  const mode = a.qk_matmul_output_mode;
  if (mode < 0 || mode > 3) throw call.error(`qk_matmul_output_mode must be 0 to 3, got ${mode}`);
  if (a.softmax_precision !== undefined && dataTypeOf(a.softmax_precision) === undefined)
    throw call.error(`softmax_precision ${a.softmax_precision} is no element type`);
  if (a.softcap < 0) throw call.error(`softcap must not be negative, got ${a.softcap}`);
  const pastKey = call.optional(4);
  const pastValue = call.optional(5);
  if ((pastKey === undefined) !== (pastValue === undefined)) throw call.error('past_key and past_value go together');
  const past = pastKey?.dims[2];
  if (pastKey !== undefined && pastValue !== undefined) {
    const want = (size: number) => [q.batch, k.heads, past!, size];
    if (!sameShape(pastKey.dims, want(k.size)) || !sameShape(pastValue.dims, want(v.size)))
      throw call.error(
        `past_key ${formatShape(pastKey.dims)} and past_value ${formatShape(pastValue.dims)} must be of shapes ` +
          `[${q.batch}, ${k.heads}, past, ${k.size}] and [${q.batch}, ${k.heads}, past, ${v.size}]`,
      );
  }
  const lengths = call.optional(6);
  if (lengths !== undefined && (!sameShape(lengths.dims, [q.batch]) || lengths.type !== 'int64'))
    throw call.error(
      `nonpad_kv_seqlen must be int64 of shape [${q.batch}], got ${lengths.type} ${formatShape(lengths.dims)}`,
    );
  const keys = k.rows + (past ?? 0);
  const mask = maskOf(call, q.batch, q.heads, q.rows, keys);
  const fourD = call.input(0).dims.length === 4;
  const joined = past !== undefined || call.wants(1) || call.wants(2);
  return {
    shape: {
      batch: q.batch,
      heads: q.heads,
      keyHeads: k.heads,
      queries: q.rows,
      keys,
      size: q.size,
      valueSize: v.size,
      q: q.strides,
      k: joined ? apartStrides(keys, k.heads, k.size) : k.strides,
      v: joined ? apartStrides(keys, v.heads, v.size) : v.strides,
      y: fourD ? apartStrides(q.rows, q.heads, v.size) : besideStrides(q.rows, q.heads, v.size),
      scale: a.scale ?? 1 / Math.sqrt(q.size),
      softcap: a.softcap,
      causal: a.is_causal !== 0,
      past: past ?? (lengths !== undefined ? -1 : 0),
      window: 0,
      ...(mask !== undefined && { mask }),
      lengthsPlus: 0,
      mode,
      emptyIsNaN: call.attributes.mask_value !== undefined,
    },
    k,
    v,
    past,
    dims: fourD ? [q.batch, q.heads, q.rows, v.size] : [q.batch, q.rows, q.heads * v.size],
    presentKey: [q.batch, k.heads, keys, k.size],
    presentValue: [q.batch, k.heads, keys, v.size],
    scores: [q.batch, q.heads, q.rows, keys],
  };
}

/** The past and what follows it, as [batch, heads, keys, size]. */
export function joinHeads(
  past: ArrayLike<number> | undefined,
  rows: number,
  x: ArrayLike<number>,
  h: Heads,
): Float64Array {
  const keys = rows + h.rows;
  const y = new Float64Array(h.batch * h.heads * keys * h.size);
  for (let b = 0; b < h.batch; b++)
    for (let n = 0; n < h.heads; n++) {
      const at = (b * h.heads + n) * keys * h.size;
      for (let i = 0; i < rows * h.size; i++) y[at + i] = past![(b * h.heads + n) * rows * h.size + i]!;
      for (let r = 0; r < h.rows; r++)
        for (let i = 0; i < h.size; i++)
          y[at + (rows + r) * h.size + i] = x[b * h.strides.batch + n * h.strides.head + r * h.strides.row + i]!;
    }
  return y;
}

/** Appends the copies that lay the past (of `rows` rows) and what follows it into `to`, float32. */
export function lowerJoin(
  call: LowerCall<unknown>,
  past: Address | undefined,
  rows: number,
  x: Address,
  h: Heads,
  to: Address,
): void {
  const keys = rows + h.rows;
  const outStrides = byteStrides([h.batch, h.heads, keys, h.size], 4);
  if (past !== undefined) {
    const dims = [h.batch, h.heads, rows, h.size];
    copyView(call, past, to, { dims, inStrides: byteStrides(dims, 4), outStrides }, 4);
  }
  const inStrides = [h.strides.batch * 4, h.strides.head * 4, h.strides.row * 4, 4];
  const dims = [h.batch, h.heads, h.rows, h.size];
  copyView(call, x, offsetBy(to, rows * h.size * 4), { dims, inStrides, outStrides }, 4);
}

/** Q, K, V, attn_mask?, past_key?, past_value?, nonpad_kv_seqlen? → Y, present_key?, present_value?, scores?. */
function attention(domain: string, since: readonly number[], attributes: typeof specs): Operator {
  return operator({
    name: 'Attention',
    domain,
    since,
    inputs: [3, 7],
    attributes,
    infer(call) {
      const p = parse(call);
      const { type } = call.input(0);
      const valueType = call.input(2).type;
      return [
        { type, dims: p.dims },
        { type: call.input(1).type, dims: p.presentKey },
        { type: valueType, dims: p.presentValue },
        { type, dims: p.scores },
      ];
    },
    reference(call) {
      const p = parse(call);
      const s = p.shape;
      const numbers = (i: number) => (call.has(i) ? decode(call.tensor(i)) : undefined);
      const joined = p.past !== undefined || call.wants(1) || call.wants(2);
      let k = numbers(1)!;
      let v = numbers(2)!;
      if (joined) {
        k = joinHeads(numbers(4), p.past ?? 0, k, p.k);
        v = joinHeads(numbers(5), p.past ?? 0, v, p.v);
      }
      const y = new Float64Array(sizeOf(p.dims));
      const scores = call.wants(3) ? new Float64Array(sizeOf(p.scores)) : undefined;
      const [mask, lengths] = [numbers(3), numbers(6)];
      attend(s, { q: numbers(0)!, k, v, ...(mask && { mask }), ...(lengths && { lengths }) }, y, scores);
      const type = call.tensor(0).type;
      return [
        fromNumbers(type, p.dims, y),
        ...(joined
          ? [fromNumbers(call.tensor(1).type, p.presentKey, k), fromNumbers(call.tensor(2).type, p.presentValue, v)]
          : [null, null]),
        ...(scores ? [fromNumbers(type, p.scores, scores)] : []),
      ];
    },
    lower(call) {
      const p = parse(call);
      const floats = [0, 1, 2, 4, 5].every((i) => !call.has(i) || call.input(i).type === 'float32');
      if (!floats || (call.has(3) && !['float32', 'bool'].includes(call.input(3).type))) return false;
      let k = call.in(1);
      let v = call.in(2);
      if (p.past !== undefined || call.wants(1) || call.wants(2)) {
        const join = (heads: Heads, x: Address, pastInput: number, output: number, dims: readonly number[]) => {
          const to = call.wants(output) ? call.out(output) : call.scratch(Math.max(4, sizeOf(dims) * 4));
          lowerJoin(call, call.has(pastInput) ? call.in(pastInput) : undefined, p.past ?? 0, x, heads, to);
          return to;
        };
        k = join(p.k, k, 4, 1, p.presentKey);
        v = join(p.v, v, 5, 2, p.presentValue);
      }
      const places = {
        q: call.in(0),
        k,
        v,
        ...(call.has(3) && { mask: call.in(3) }),
        ...(call.has(6) && { lengths: call.in(6) }),
      };
      return lowerAttention(call, p.shape, places, call.out(0), call.wants(3) ? call.out(3) : undefined, true);
    },
  });
}

export const attentionOperators: readonly Operator[] = [
  attention('', [23, 24], specs),
  attention('skep', [1], fusedSpecs),
];
