// MultiHeadAttention of com.microsoft: queries, keys and values apart, or packed beside each other head by head, with a bias
// of their projections, a mask, a bias of the scores and a cache.
import { decode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { sameShape, sizeOf } from '../tensor/shape.js';
import { lowerJoin } from './attention.js';
import { apartStrides, besideStrides, type Strides } from './attention-core.js';
import { checkHeads, finish, hasKernel, laid, lowerFinish, maskFrom, type Place } from './attention-parts.js';
import { float, int, required } from './attributes.js';
import { lowerBroadcast } from './broadcast.js';
import { view } from './nested.js';
import { type InferCall, type LowerCall, type Operator, offsetBy, operator } from './operator.js';
import { fromNumbers } from './reference.js';

const specs = {
  mask_filter_value: float(-10000),
  num_heads: required(int()),
  scale: float(0),
  unidirectional: int(0),
};

/** Where rows of heads lie: an input, elements from its start, and strides. */
interface Source {
  readonly input: number;
  readonly from: number;
  readonly rows: number;
  readonly size: number;
  readonly strides: Strides;
}

function shapeOf(call: InferCall<{ readonly num_heads: number }>) {
  const heads = call.attributes.num_heads;
  const shapes = [0, 1, 2].map((i) => call.optional(i)?.dims);
  const [q, k, v] = shapes as [readonly number[], readonly number[] | undefined, readonly number[] | undefined];
  const bad = (why: string) =>
    call.error(`${why}: query, key, value of shapes ${shapes.map((d) => (d ? formatShape(d) : '-')).join(', ')}`);
  /** Part `index` of `parts` that lie beside each other in [batch, rows, heads, parts, size]. */
  const packed = (input: number, dims: readonly number[], parts: number, index: number): Source => {
    const [, rows, , , size] = dims as [number, number, number, number, number];
    const row = heads * parts * size;
    return { input, from: index * size, rows, size, strides: { batch: rows * row, head: parts * size, row } };
  };
  let sources: readonly [Source, Source, Source];
  const batch = q[0]!;
  if (q.length === 5) {
    if (k !== undefined || v !== undefined || q[2] !== heads || q[3] !== 3) throw bad('expected one packed input');
    sources = [packed(0, q, 3, 0), packed(0, q, 3, 1), packed(0, q, 3, 2)];
  } else {
    if (q.length !== 3 || k === undefined) throw bad('expected a query of 3 dimensions and a key');
    const [, queries, hidden] = q as [number, number, number];
    checkHeads(call, heads, hidden);
    const size = hidden / heads;
    const query: Source = { input: 0, from: 0, rows: queries, size, strides: besideStrides(queries, heads, size) };
    if (k.length === 5) {
      if (v !== undefined || !sameShape(k, [batch, k[1]!, heads, 2, size])) throw bad('packed keys do not fit');
      sources = [query, packed(1, k, 2, 0), packed(1, k, 2, 1)];
    } else {
      if (v === undefined) throw bad('a value is missing');
      const apart = k.length === 4;
      const rows = apart ? k[2]! : k[1]!;
      const valueSize = apart ? v[3]! : v[2]! / heads;
      const fits = apart
        ? sameShape(k, [batch, heads, rows, size]) && sameShape(v, [batch, heads, rows, valueSize])
        : sameShape(k, [batch, rows, hidden]) &&
          sameShape(v, [batch, rows, heads * valueSize]) &&
          Number.isInteger(valueSize);
      if (!fits) throw bad('shapes do not fit');
      const strides = (n: number) => (apart ? apartStrides(rows, heads, n) : besideStrides(rows, heads, n));
      const source = (input: number, n: number): Source => ({ input, from: 0, rows, size: n, strides: strides(n) });
      sources = [query, source(1, size), source(2, valueSize)];
    }
  }
  const [{ rows: queries, size }, { rows }, { size: valueSize }] = sources;
  const hidden = heads * size;
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
  const shape = { batch, heads, queries, rows, size, valueSize, hidden, before, keys: before + rows, past: before };
  return { ...shape, sources, mask: 4, bias: 5 };
}

type Shape = ReturnType<typeof shapeOf>;

/** Where a source lies after its part of the bias is added. */
function lowerBias(call: LowerCall<unknown>, { batch, heads }: Shape, s: Source, from: number): Place {
  const at = offsetBy(call.in(s.input), s.from * 4);
  if (!call.has(3)) return { at, strides: s.strides };
  const row = heads * s.size;
  const dims = [batch, s.rows, row];
  const to = call.scratch(Math.max(4, sizeOf(dims) * 4));
  const operands = [
    { at, dims },
    { at: offsetBy(call.in(3), from * 4), dims: [row] },
  ];
  if (sizeOf(dims) > 0) lowerBroadcast(view(call, { out: () => to }), 'add', 'float32', dims, operands);
  return { at: to, strides: besideStrides(s.rows, heads, s.size) };
}

/** query, key, value, bias?, key_padding_mask?, attention_bias?, past_key?, past_value? → output, present_key?, present_value?, qk?. */
const multiHeadAttention = operator({
  name: 'MultiHeadAttention',
  domain: 'com.microsoft',
  since: [1],
  inputs: [1, 10],
  attributes: specs,
  infer(call) {
    const s = shapeOf(call);
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
    const s = shapeOf(call);
    const { batch, heads, queries, size, valueSize, hidden, before, keys } = s;
    const bias = call.has(3) ? decode(call.tensor(3)) : undefined;
    const lay = (source: Source, from: number, past: number) => {
      const all = Float64Array.from(decode(call.tensor(source.input)));
      const data = { data: all.subarray(source.from), strides: source.strides, size: source.size };
      const added = bias === undefined ? undefined : { data: bias, from };
      const held = call.has(past) ? { data: decode(call.tensor(past)), from: 0, rows: before } : undefined;
      return laid(batch, heads, source.rows, data, added, held);
    };
    const q = lay(s.sources[0], 0, -1);
    const k = lay(s.sources[1], hidden, 6);
    const v = lay(s.sources[2], 2 * hidden, 7);
    const scores = call.wants(3) ? new Float64Array(batch * heads * queries * keys) : undefined;
    const y = finish(call, { ...s, q, k, v, scores });
    const { type } = call.tensor(0);
    return [
      fromNumbers(type, [batch, queries, heads * valueSize], y),
      fromNumbers(type, [batch, heads, keys, size], k),
      fromNumbers(type, [batch, heads, keys, valueSize], v),
      ...(scores ? [fromNumbers(type, [batch, heads, queries, keys], scores)] : []),
    ];
  },
  lower(call) {
    const s = shapeOf(call);
    if (!hasKernel(call, [0, 1, 2, 3, 5, 6, 7], 4, call.wants(3))) return false;
    const { batch, heads, hidden, before, keys } = s;
    // A bias is added to rows that lie side by side.
    const beside = (x: Source) => x.from === 0 && x.strides.row === heads * x.size;
    if (call.has(3) && !s.sources.every(beside)) return false;
    const joined = call.has(6) || call.wants(1) || call.wants(2);
    const place = (i: 1 | 2, from: number, past: number): Place => {
      const source = s.sources[i];
      const x = lowerBias(call, s, source, from);
      if (!joined) return x;
      const { rows, size } = source;
      const to = call.wants(i) ? call.out(i) : call.scratch(Math.max(4, batch * heads * keys * size * 4));
      const held = call.has(past) ? call.in(past) : undefined;
      lowerJoin(call, held, before, x.at, { batch, heads, rows, size, strides: x.strides }, to);
      return { at: to, strides: apartStrides(keys, heads, size) };
    };
    const q = lowerBias(call, s, s.sources[0], 0);
    const [k, v] = [place(1, hidden, 6), place(2, 2 * hidden, 7)];
    lowerFinish(call, s, q, k, v, call.wants(3) ? call.out(3) : undefined);
    return true;
  },
});

export const contribMultiHeadOperators: readonly Operator[] = [multiHeadAttention];
