// GroupQueryAttention of com.microsoft, what exported language models run: causal, several query heads a key head, positions
// rotated here, and a cache whose true lengths are data. Each batch's new keys follow its own past:
//
//   present [batch, key heads, keys, size]:   past (seqlens_k + 1 − rows)  │ new keys (rows) │ zeros
//
// In a first prompt (total_sequence_length is the number of rows) the past is empty, however rows are padded.
import { decode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { sameShape, sizeOf } from '../tensor/shape.js';
import { type AttentionShape, apartStrides, attend, besideStrides, lowerAttention } from './attention-core.js';
import { biasFrom, laid, type Numbers } from './attention-parts.js';
import { type AttributesOf, float, int, required } from './attributes.js';
import {
  type Address,
  type InferCall,
  type LowerCall,
  type Operator,
  offsetBy,
  operator,
  type ReferenceCall,
} from './operator.js';
import { fromNumbers } from './reference.js';
import { lowerRotary, rotate } from './rotary.js';

const specs = {
  do_rotary: int(0),
  kv_num_heads: required(int()),
  local_window_size: int(-1),
  num_heads: required(int()),
  rotary_interleaved: int(0),
  scale: float(0),
  smooth_softmax: int(0),
  softcap: float(0),
};

type Attributes = AttributesOf<typeof specs>;

function shapeOf(call: InferCall<Attributes>) {
  const { num_heads: heads, kv_num_heads: keyHeads } = call.attributes;
  if (call.has(12) || call.has(13)) throw call.error('a quantized cache is not supported', 'UNSUPPORTED');
  if (heads < 1 || keyHeads < 1 || heads % keyHeads !== 0)
    throw call.error(`${heads} query heads cannot share ${keyHeads} key heads`);
  const q = call.input(0).dims;
  if (q.length !== 3) throw call.error(`expected query [batch, sequence, size], got ${formatShape(q)}`);
  const [batch, rows, hidden] = q as [number, number, number];
  const packed = !call.has(1);
  const size = hidden / (packed ? heads + 2 * keyHeads : heads);
  if (!Number.isInteger(size)) throw call.error(`query ${formatShape(q)} does not divide into ${heads} heads`);
  const expect = (i: number, want: readonly number[]) => {
    const t = call.optional(i);
    if (t !== undefined && !sameShape(t.dims, want))
      throw call.error(`expected input ${i} of shape ${formatShape(want)}, got ${formatShape(t.dims)}`);
  };
  if (!packed) {
    call.input(2);
    for (const i of [1, 2]) expect(i, [batch, rows, keyHeads * size]);
  }
  if (call.has(3) !== call.has(4)) throw call.error('past_key and past_value go together');
  const before = call.optional(3)?.dims[2] ?? 0;
  for (const i of [3, 4]) expect(i, [batch, keyHeads, before, size]);
  expect(11, [heads]);
  const lengths = call.input(5);
  if (sizeOf(lengths.dims) !== batch || lengths.type !== 'int32')
    throw call.error(`expected seqlens_k int32 of shape [${batch}], got ${lengths.type} ${formatShape(lengths.dims)}`);
  const total = call.ints(6)![0]!;
  if (total < 0 || total > 2 ** 31) throw call.error(`total_sequence_length is ${total}`, 'INVALID_INPUT');
  const rotary = call.attributes.do_rotary !== 0;
  if (rotary && (!call.has(7) || !call.has(8))) throw call.error('do_rotary needs cos_cache and sin_cache');
  const half = rotary ? call.input(7).dims[1]! : 0;
  if (rotary && (2 * half > size || !sameShape(call.input(7).dims, call.input(8).dims)))
    throw call.error(`cos_cache and sin_cache of ${half} do not fit heads of ${size}`);
  if (rotary) expect(9, [batch, rows]);
  const keys = Math.max(before, total);
  // In a first prompt the past is empty, however the rows are padded.
  const first = total === rows;
  if (rows > keys) throw call.error(`${rows} new keys do not fit a total of ${keys}`, 'INVALID_INPUT');
  return { batch, rows, heads, keyHeads, size, packed, before, keys, first, hidden, half };
}

type Shape = ReturnType<typeof shapeOf>;

/** What is attended to; queries lie [batch, heads, rows, size] unless they are left where they are. */
function attentionOf(call: InferCall<Attributes>, s: Shape): AttentionShape {
  const { batch, rows, heads, keyHeads, keys, size, first } = s;
  const a = call.attributes;
  const bias = biasFrom(call, call.optional(10), [batch, heads, rows, keys]);
  return {
    batch,
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
    past: first ? 0 : -1,
    window: Math.max(0, a.local_window_size),
    ...(bias && { bias }),
    lengthsPlus: 1,
    mode: 0,
  };
}

/** Keys before the new ones, by batch. */
function pastsOf(call: ReferenceCall<Attributes>, { rows, keys, first }: Shape): number[] {
  return call.ints(5)!.map((n) => {
    const past = first ? 0 : n + 1 - rows;
    if (n < 0 || n >= keys || past < 0)
      throw call.error(`seqlens_k ${n} is outside [${first ? 0 : rows - 1}, ${keys - 1}]`, 'INVALID_INPUT');
    return past;
  });
}

function turned(call: ReferenceCall<Attributes>, s: Shape, heads: number, pasts: readonly number[], x: Float64Array) {
  if (s.half === 0) return x;
  const { batch, rows, size, half } = s;
  const [cos, sin] = [call.tensor(7), call.tensor(8)];
  const strides = apartStrides(rows, heads, size);
  const given = call.has(9) ? call.ints(9)! : undefined;
  const interleaved = call.attributes.rotary_interleaved !== 0;
  const most = cos.dims[0]!;
  const shape = { batch, heads, rows, size, half, interleaved, x: strides, y: strides, most, offset: false };
  const positionOf = (b: number, r: number) => {
    const p = given === undefined ? pasts[b]! + r : given[b * rows + r]!;
    if (p < 0 || p >= most) throw call.error(`position ${p} is outside the ${most} of the tables`, 'INVALID_INPUT');
    return p;
  };
  const y = new Float64Array(x.length);
  rotate(shape, x, decode(cos), decode(sin), positionOf, y);
  return y;
}

/** Where the part of `heads` heads from `from` on (in a packed query) lies, or input `i`, in strides. */
function stridesOf({ rows, size, packed, hidden }: Shape, heads: number) {
  return besideStrides(rows, heads, size, packed ? hidden : heads * size);
}

/**
 * query (or all packed), key?, value?, past_key?, past_value?, seqlens_k, total_sequence_length, cos_cache?, sin_cache?,
 * position_ids?, attention_bias?, head_sink? → output, present_key, present_value.
 */
const groupQueryAttention = operator({
  name: 'GroupQueryAttention',
  domain: 'com.microsoft',
  since: [1],
  inputs: [7, 14],
  attributes: specs,
  infer(call) {
    const s = shapeOf(call);
    const { type } = call.input(0);
    attentionOf(call, s);
    const present = { type, dims: [s.batch, s.keyHeads, s.keys, s.size] };
    return [{ type, dims: [s.batch, s.rows, s.heads * s.size] }, present, present];
  },
  reference(call) {
    const s = shapeOf(call);
    const { batch, rows, heads, keyHeads, size, packed, before, keys } = s;
    const pasts = pastsOf(call, s);
    const lay = (i: number, n: number, from: number) => {
      const all = Float64Array.from(decode(call.tensor(packed ? 0 : i)));
      const x: Numbers = { data: packed ? all.subarray(from) : all, strides: stridesOf(s, n), size };
      return laid(batch, n, rows, x, undefined);
    };
    const q = turned(call, s, heads, pasts, lay(0, heads, 0));
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
    const k = present(3, turned(call, s, keyHeads, pasts, lay(1, keyHeads, heads * size)));
    const v = present(4, lay(2, keyHeads, (heads + keyHeads) * size));
    const y = new Float64Array(batch * rows * heads * size);
    const sinks = call.has(11)
      ? decode(call.tensor(11))
      : call.attributes.smooth_softmax > 0
        ? new Float64Array(heads)
        : undefined;
    const places = {
      q,
      k,
      v,
      ...(call.has(10) && { bias: decode(call.tensor(10)) }),
      ...(!s.first && { lengths: decode(call.tensor(5)) }),
      ...(sinks && { sinks }),
    };
    attend(attentionOf(call, s), places, y);
    const { type } = call.tensor(0);
    const dims = [batch, keyHeads, keys, size];
    return [fromNumbers(type, [batch, rows, heads * size], y), fromNumbers(type, dims, k), fromNumbers(type, dims, v)];
  },
  lower(call) {
    const s = shapeOf(call);
    const floats = [0, 1, 2, 3, 4, 7, 8, 10, 11].every((i) => !call.has(i) || call.input(i).type === 'float32');
    if (!floats) return false;
    const { batch, rows, heads, keyHeads, size, packed } = s;
    if (batch * rows === 0) return false;
    const part = (i: number, n: number, from: number) => ({
      at: packed ? offsetBy(call.in(0), from * 4) : call.in(i),
      strides: stridesOf(s, n),
    });
    const turn = (x: ReturnType<typeof part>, n: number) => (s.half === 0 ? x : lowerTurn(call, s, x, n));
    const q = turn(part(0, heads, 0), heads);
    const k = turn(part(1, keyHeads, heads * size), keyHeads);
    const v = part(2, keyHeads, (heads + keyHeads) * size);
    lowerPresent(call, s, k, 3, call.out(1));
    lowerPresent(call, s, v, 4, call.out(2));
    const smooth = call.attributes.smooth_softmax > 0;
    const sinks = call.has(11) ? call.in(11) : smooth ? zeros(call, heads) : undefined;
    const places = {
      q: q.at,
      k: call.out(1),
      v: call.out(2),
      ...(call.has(10) && { bias: call.in(10) }),
      ...(!s.first && { lengths: call.in(5) }),
      ...(sinks && { sinks }),
    };
    return lowerAttention(call, { ...attentionOf(call, s), q: q.strides }, places, call.out(0), undefined, false);
  },
});

function zeros(call: LowerCall<unknown>, count: number): Address {
  return call.constant(`${count} zeros`, count * 4, () => {});
}

type Part = { readonly at: Address; readonly strides: ReturnType<typeof stridesOf> };

/** Appends the step that turns rows by their positions: the given ones, or those after each batch's past. */
function lowerTurn(call: LowerCall<Attributes>, s: Shape, x: Part, heads: number): Part {
  const { batch, rows, size, half } = s;
  const strides = apartStrides(rows, heads, size);
  const to = call.scratch(Math.max(4, batch * heads * rows * size * 4));
  const given = call.has(9);
  const positions = given ? call.in(9) : s.first ? zeros(call, batch) : call.in(5);
  const interleaved = call.attributes.rotary_interleaved !== 0;
  const shape = { batch, heads, rows, size, half, interleaved, x: x.strides, y: strides };
  const most = call.input(7).dims[0]!;
  const tables = { x: x.at, cos: call.in(7), sin: call.in(8), positions };
  lowerRotary(call, { ...shape, most, offset: !given }, tables, to, given, given || s.first ? 0 : 1 - rows);
  return { at: to, strides };
}

/** Appends the step that lays the past of input `i` and the new rows into the present. */
function lowerPresent(call: LowerCall<unknown>, s: Shape, x: Part, i: number, y: Address): void {
  const { batch, rows, keyHeads, size, before, keys, first } = s;
  const params = {
    past: call.has(i) ? call.in(i) : (0 as const),
    x: x.at,
    y,
    lengths: call.in(5),
    heads: keyHeads,
    before,
    keys,
    rows,
    size,
    xBatch: x.strides.batch,
    xHead: x.strides.head,
    xRow: x.strides.row,
    plus: first ? -keys : 1 - rows,
  };
  const least = first ? 0 : rows - 1;
  call.step('appendRows', params, {
    units: batch * keyHeads,
    grain: Math.max(1, Math.ceil(16_384 / Math.max(1, keys * size))),
    indices: { field: 'lengths', wide: false, count: batch, limits: [keys], negative: false, least },
  });
}

export const contribGroupedOperators: readonly Operator[] = [groupQueryAttention];
