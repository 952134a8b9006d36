// Attention and QAttention of com.microsoft, which project their input to queries, keys and values first, the one with
// floats and the other with 8-bit integers. What follows the projection is one thing (attention-parts.ts).
import { decode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { sameShape, sizeOf } from '../tensor/shape.js';
import { lowerJoin } from './attention.js';
import { apartStrides, besideStrides } from './attention-core.js';
import { checkHeads, finish, hasKernel, laid, lowerFinish, maskFrom, type Place } from './attention-parts.js';
import { float, int, ints, required } from './attributes.js';
import { factorOf, isByte, lineStrides, lowerIntegerProduct, zeroOf } from './integer-product.js';
import {
  type Address,
  type InferCall,
  type LowerCall,
  type Operator,
  offsetBy,
  operator,
  type ReferenceCall,
} from './operator.js';
import { lowerProduct, multiplyInto } from './product.js';
import { fromNumbers } from './reference.js';

const specs = {
  do_rotary: int(0),
  mask_filter_value: float(-10000),
  num_heads: required(int()),
  past_present_share_buffer: int(0),
  qkv_hidden_sizes: ints(),
  rotary_embedding_dim: int(0),
  scale: float(0),
  unidirectional: int(0),
};

type Attributes = {
  readonly do_rotary: number;
  readonly mask_filter_value: number;
  readonly num_heads: number;
  readonly past_present_share_buffer: number;
  readonly qkv_hidden_sizes: readonly number[] | undefined;
  readonly scale: number;
  readonly unidirectional: number;
};

/** Where an operator has its inputs, and how it projects. */
interface Kind {
  readonly name: string;
  readonly inputs: readonly [number, number];
  readonly mask: number;
  readonly past: number;
  readonly bias: number;
  check(call: InferCall<unknown>, total: number): void;
  /** Fills y, [batch · rows, total], with the products and the bias of the projection. */
  project(call: ReferenceCall<unknown>, s: Shape, y: Float64Array): void;
  hasKernel(call: LowerCall<unknown>): boolean;
  lowerProject(call: LowerCall<unknown>, s: Shape, y: Address): void;
}

type Shape = ReturnType<typeof shapeOf>;

function shapeOf(call: InferCall<Attributes>, kind: Kind) {
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
  kind.check(call, total);
  const past = call.optional(kind.past);
  const before = past?.dims[3] ?? 0;
  const heads = a.num_heads;
  const size = qh / heads;
  if (past !== undefined && (vh !== qh || !sameShape(past.dims, [2, batch, heads, before, size])))
    throw call.error(`expected past of shape [2, ${batch}, ${heads}, past, ${size}], got ${formatShape(past.dims)}`);
  return {
    batch,
    rows,
    inner,
    total,
    qh,
    vh,
    size,
    valueSize: vh / heads,
    heads,
    before,
    keys: before + rows,
    queries: rows,
    past: before,
    mask: kind.mask,
    bias: kind.bias,
  };
}

function projecting(kind: Kind): Operator {
  return operator({
    name: kind.name,
    domain: 'com.microsoft',
    since: [1],
    inputs: kind.inputs,
    attributes: specs,
    infer(call) {
      const s = shapeOf(call, kind);
      const type = kind.name === 'QAttention' ? call.input(3).type : call.input(0).type;
      maskFrom(call, call.optional(kind.mask), s.batch, s.rows, s.keys, 0);
      return [
        { type, dims: [s.batch, s.rows, s.vh] },
        { type, dims: [2, s.batch, s.heads, s.keys, s.size] },
      ];
    },
    reference(call) {
      const s = shapeOf(call, kind);
      const { batch, rows, total, heads, keys, before } = s;
      const type = kind.name === 'QAttention' ? call.tensor(3).type : call.tensor(0).type;
      const y = new Float64Array(batch * rows * total);
      kind.project(call, s, y);
      const part = (from: number, size: number) => ({
        data: y.subarray(from),
        strides: besideStrides(rows, heads, size, total),
        size,
      });
      const past = call.has(kind.past) ? decode(call.tensor(kind.past)) : undefined;
      const held = (from: number) => (past === undefined ? undefined : { data: past, from, rows: before });
      const q = laid(batch, heads, rows, part(0, s.size), undefined);
      const k = laid(batch, heads, rows, part(s.qh, s.size), undefined, held(0));
      const vPart = part(2 * s.qh, s.valueSize);
      const v = laid(batch, heads, rows, vPart, undefined, held(batch * heads * before * s.size));
      const output = finish(call, { ...s, q, k, v, scores: undefined });
      const present = call.wants(1) ? [fromNumbers(type, [2, batch, heads, keys, s.size], [...k, ...v])] : [];
      return [fromNumbers(type, [batch, rows, s.vh], output), ...present];
    },
    lower(call) {
      const s = shapeOf(call, kind);
      const { batch, rows, total, heads, keys, before, size, valueSize } = s;
      if (!kind.hasKernel(call) || (call.wants(1) && valueSize !== size)) return false;
      const y = call.scratch(Math.max(4, batch * rows * total * 4));
      kind.lowerProject(call, s, y);
      const part = (from: number, each: number): Place => ({
        at: offsetBy(y, from * 4),
        strides: besideStrides(rows, heads, each, total),
      });
      let [k, v] = [part(s.qh, size), part(2 * s.qh, valueSize)];
      if (call.has(kind.past) || call.wants(1)) {
        const half = batch * heads * keys * size * 4;
        const present = call.wants(1) ? call.out(1) : call.scratch(Math.max(4, 2 * half));
        const join = (x: Place, from: number, to: Address): Place => {
          const held = from * batch * heads * before * size * 4;
          const past = call.has(kind.past) ? offsetBy(call.in(kind.past), held) : undefined;
          lowerJoin(call, past, before, x.at, { batch, heads, rows, size, strides: x.strides }, to);
          return { at: to, strides: apartStrides(keys, heads, size) };
        };
        [k, v] = [join(k, 0, present), join(v, 1, offsetBy(present, half))];
      }
      lowerFinish(call, s, part(0, size), k, v, undefined);
      return true;
    },
  });
}

/** input, weights, bias?, mask_index?, past?, attention_bias? → output, present?. */
const attention = projecting({
  name: 'Attention',
  inputs: [2, 7],
  mask: 3,
  past: 4,
  bias: 5,
  check: () => {},
  project(call, { batch, rows, inner, total }, y) {
    const left = { data: decode(call.tensor(0)), offset: 0, row: inner, column: 1 };
    const right = { data: decode(call.tensor(1)), offset: 0, row: total, column: 1 };
    multiplyInto(y, 0, left, right, batch * rows, total, inner);
    if (!call.has(2)) return;
    const bias = decode(call.tensor(2));
    for (let i = 0; i < y.length; i++) y[i]! += bias[i % total]!;
  },
  hasKernel: (call) => hasKernel(call, [0, 1, 2, 4, 5], 3),
  lowerProject(call, { batch, rows, inner, total }, y) {
    lowerProduct(call, {
      a: { input: 0, matrices: 1, stride: batch * rows * inner, row: inner, column: 1 },
      b: { input: 1, matrices: 1, stride: inner * total, row: total, column: 1 },
      c: y,
      m: batch * rows,
      n: total,
      k: inner,
      epilogue: call.has(2) ? { bias: { at: call.in(2), row: 0, column: 1 } } : {},
    });
  },
});

/** Zero points and scales of the weights: one, or one a column. */
function columnsOf(call: InferCall<unknown>, total: number) {
  return {
    scale: lineStrides(call, 'weight_scale', call.input(4), [], total, false),
    zero: lineStrides(call, 'weight_zero_point', zeroOf(call, 'weight_zero_point', 1, 7), [], total, false),
  };
}

/** input, weight, bias, input_scale, weight_scale, mask_index?, input_zero_point?, weight_zero_point?, past? → as above. */
const qAttention = projecting({
  name: 'QAttention',
  inputs: [5, 9],
  mask: 5,
  past: 8,
  bias: 9,
  check(call, total) {
    for (const i of [0, 1])
      if (!isByte(call.input(i).type)) throw call.error(`input ${i} must be of 8 bits, got ${call.input(i).type}`);
    zeroOf(call, 'input_zero_point', 0, 6);
    for (const i of [3, 6]) {
      const t = call.optional(i);
      if (t !== undefined && sizeOf(t.dims) !== 1)
        throw call.error(`input ${i} must be one value, got ${formatShape(t.dims)}`);
    }
    columnsOf(call, total);
  },
  project(call, { batch, rows, inner, total }, y) {
    const { scale, zero } = columnsOf(call, total);
    const numbers = (i: number) => (call.has(i) ? decode(call.tensor(i)) : undefined);
    const zeroA = numbers(6)?.[0] ?? 0;
    const zeroB = numbers(7);
    const a = Float64Array.from(numbers(0)!, (v) => v - zeroA);
    const b = Float64Array.from(numbers(1)!, (v, i) => (zeroB === undefined ? v : v - zeroB[(i % total) * zero.line]!));
    const left = { data: a, offset: 0, row: inner, column: 1 };
    multiplyInto(y, 0, left, { data: b, offset: 0, row: total, column: 1 }, batch * rows, total, inner);
    const [bias, scaleA, scaleB] = [numbers(2), numbers(3)![0]!, numbers(4)!];
    for (let i = 0; i < y.length; i++) {
      const s = Math.fround(scaleA * scaleB[(i % total) * scale.line]!);
      y[i] = Math.fround(Math.fround(Math.fround(y[i]!) * s) + (bias === undefined ? 0 : bias[i % total]!));
    }
  },
  hasKernel: (call) => hasKernel(call, [2, 3, 4, 8], 5),
  lowerProject(call, { batch, rows, inner, total }, y) {
    const { scale, zero } = columnsOf(call, total);
    const line = { matrices: 1, k: inner, stride: 0, zeroMatrix: 0 };
    const left = { ...line, lines: batch * rows, line: inner, step: 1, zeroLine: 0, panel: 4 as const };
    const right = { ...line, lines: total, line: 1, step: total, zeroLine: zero.line, panel: 8 as const };
    lowerIntegerProduct(call, factorOf(call, 0, 6, left), factorOf(call, 1, 7, right), { a: [0], b: [0] }, y, {
      type: 'float32',
      scaleA: { at: call.in(3), matrix: 0, line: 0 },
      scaleB: { at: call.in(4), ...scale },
      ...(call.has(2) && { bias: { at: call.in(2), row: 0, column: 1 } }),
    });
  },
});

export const contribAttentionOperators: readonly Operator[] = [attention, qAttention];
