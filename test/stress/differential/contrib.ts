// Cases of com.microsoft and ai.onnx.ml operators, by `domain:operator`. Where onnxruntime joins scales before it rounds,
// a quantized result may be one step off at a tie.
import { Tensor } from '../../../src/tensor/tensor.js';
import { attributes, type Family, f, fs, type Generator, type Made } from './generator.js';
import { type Byte, byte, bytes, scale, trimmed } from './quantized.js';

type Inputs = (Tensor | undefined)[];

/** A quantized tensor, its scale and, perhaps, its zero point. */
function triple(g: Generator, type: Byte, dims: readonly number[], zero = g.chance(0.7)): Inputs {
  return [bytes(g, type, dims), scale(g), zero ? bytes(g, type, []) : undefined];
}

const pair = (g: Generator, type: Byte): Inputs => [scale(g), bytes(g, type, [])];

/** A quantized result may be one step from onnxruntime's. */
const linear = (g: Generator, inputs: Inputs, rest: Partial<Made> = {}): Made => ({
  inputs: trimmed(inputs),
  atol: 1,
  constants: g.constants(inputs.length).filter((i) => inputs[i] !== undefined),
  ...rest,
});

function binary(g: Generator): Made {
  const dims = g.dims(1, 4);
  const type = byte(g);
  const [a, b] = g.chance(0.5) ? [dims, g.broadcast(dims)] : [g.broadcast(dims), dims];
  return linear(g, [...triple(g, type, a), ...triple(g, type, b), ...pair(g, type)]);
}

function unary(g: Generator, rest: Partial<Made> = {}): Made {
  const type = byte(g);
  return linear(g, [...triple(g, type, g.dims(1, 4)), ...pair(g, type)], rest);
}

function image(g: Generator): number[] {
  return [g.int(1, 2), g.int(1, 4), g.int(3, 7), g.int(3, 7)];
}

const quantized: Family = {
  QLinearAdd: binary,
  QLinearMul: binary,
  QLinearSigmoid: (g) => unary(g),
  QLinearLeakyRelu: (g) => unary(g, { attributes: { alpha: f(g.pick([0.01, 0.2, 1.5])) } }),
  QLinearConcat(g) {
    const dims = g.dims(1, 4);
    const axis = g.axis(dims.length);
    const type = byte(g);
    const at = axis < 0 ? axis + dims.length : axis;
    const each = g.list(g.int(1, 3), () => triple(g, type, dims.with(at, g.int(1, 4)), true));
    return linear(g, [...pair(g, type), ...each.flat()], { attributes: attributes({ axis }) });
  },
  QLinearWhere(g) {
    const dims = g.dims(1, 3);
    const type = byte(g);
    const operands = [...triple(g, type, dims, true), ...triple(g, type, g.broadcast(dims), true)];
    return linear(g, [g.tensor('bool', g.broadcast(dims)), ...operands, ...pair(g, type)]);
  },
  QLinearGlobalAveragePool(g) {
    const type = byte(g);
    const attrs = attributes({ channels_last: g.int(0, 1) });
    return linear(g, [...triple(g, type, image(g), true), ...pair(g, type)], { attributes: attrs });
  },
  QLinearAveragePool(g) {
    const type = byte(g);
    const attrs = attributes({
      kernel_shape: g.ints(2, 2, 3),
      strides: g.maybe(() => g.ints(2, 1, 2)),
      pads: g.maybe(() => g.ints(4, 0, 1)),
      // With both, onnxruntime divides by positions beyond the padding, as versions before 19 did.
      ...(g.chance(0.5) ? { count_include_pad: 1 } : { ceil_mode: g.maybe(() => 1) }),
    });
    return linear(g, [...triple(g, type, image(g), true), ...pair(g, type)], { attributes: attrs });
  },
  QGemm(g) {
    const [m, k, n] = [g.int(1, 9), g.int(1, 9), g.int(1, 20)];
    const [at, bt] = [byte(g), byte(g)];
    const [ta, tb] = [g.int(0, 1), g.int(0, 1)];
    const per = g.chance(0.4) ? [n] : [];
    const inputs = [
      bytes(g, at, ta ? [k, m] : [m, k]),
      scale(g),
      bytes(g, at, []),
      bytes(g, bt, tb ? [n, k] : [k, n]),
      scale(g, per),
      bytes(g, bt, per),
      g.maybe(() => g.tensor('int32', g.pick([[n], [m, n], [1, n], [m, 1]]), -500, 500)),
      ...(g.chance(0.6) ? pair(g, at) : []),
    ];
    const alpha = g.pick([1, 1, 0.5]);
    const fallback = alpha !== 1 || inputs[6] !== undefined;
    return linear(g, inputs, { attributes: attributes({ transA: ta, transB: tb, alpha: f(alpha) }), fallback });
  },
  QLinearSoftmax(g) {
    const type = byte(g);
    const dims = g.dims(1, 3, 5, false);
    const attrs = attributes({ axis: g.axis(dims.length), opset: g.pick([11, 13]) });
    return linear(g, [...triple(g, type, dims, true), ...pair(g, type)], { attributes: attrs });
  },
  QLinearReduceMean(g) {
    const type = byte(g);
    const dims = g.dims(1, 4, 4, false);
    const attrs = attributes({ axes: [g.axis(dims.length)], keepdims: g.int(0, 1) });
    return linear(g, [...triple(g, type, dims), ...pair(g, type)], { attributes: attrs });
  },
};

/** A mask of int32 in one of the forms of com.microsoft; every query sees its first key, or onnxruntime and we agree to 1e-3. */
function maskOf(g: Generator, batch: number, rows: number, keys: number): Tensor {
  const form = g.int(0, 2);
  if (form === 0) return g.tensor('int32', [batch], 1, keys);
  const dims = form === 1 ? [batch, keys] : [batch, rows, keys];
  const mask = g.tensor('int32', dims, 0, 1);
  (mask.data as Int32Array).forEach((_, i, all) => {
    if (i % keys === 0) all[i] = 1;
  });
  return mask;
}

const near = { rtol: 1e-4, atol: 1e-4 };

const attention: Family = {
  Attention(g) {
    const [batch, rows, past, heads, size] = [g.int(1, 3), g.int(1, 5), g.int(0, 4), g.int(1, 3), g.int(1, 5)];
    const [inner, hidden, keys] = [g.int(1, 9), heads * size, rows + past];
    const cached = past > 0;
    const inputs = [
      g.tensor('float32', [batch, rows, inner]),
      g.tensor('float32', [inner, 3 * hidden]),
      g.tensor('float32', [3 * hidden]),
      g.maybe(() => maskOf(g, batch, rows, keys)),
      cached ? g.tensor('float32', [2, batch, heads, past, size]) : undefined,
      g.maybe(() => g.tensor('float32', [g.pick([1, batch]), g.pick([1, heads]), rows, keys])),
    ];
    const attrs = attributes({ num_heads: heads, unidirectional: g.int(0, 1), scale: g.maybe(() => f(0.3)) });
    return { inputs: trimmed(inputs), attributes: attrs, outputs: cached ? 2 : 1, ...near };
  },
  QAttention(g) {
    const [batch, rows, heads, size, inner] = [g.int(1, 3), g.int(1, 5), g.int(1, 3), g.int(1, 5), g.int(1, 9)];
    const [at, wt] = ['uint8', byte(g)] as const;
    const hidden = heads * size;
    const per = g.chance(0.4) ? [3 * hidden] : [];
    const past = g.int(0, 3);
    const inputs = [
      bytes(g, at, [batch, rows, inner]),
      bytes(g, wt, [inner, 3 * hidden]),
      g.tensor('float32', [3 * hidden]),
      g.tensor('float32', [], 0.001, 0.01),
      g.tensor('float32', per, 0.001, 0.01),
      g.maybe(() => maskOf(g, batch, rows, rows + past)),
      bytes(g, at, []),
      bytes(g, wt, per),
      past > 0 ? g.tensor('float32', [2, batch, heads, past, size]) : undefined,
    ];
    const attrs = attributes({ num_heads: heads, unidirectional: g.int(0, 1) });
    return { inputs: trimmed(inputs), attributes: attrs, outputs: past > 0 ? 2 : 1, ...near };
  },
  MultiHeadAttention(g) {
    const [batch, queries, heads, size] = [g.int(1, 3), g.int(1, 5), g.int(1, 3), g.int(1, 5)];
    const hidden = heads * size;
    const form = g.pick(['apart', 'cross', 'packed', 'packed keys'] as const);
    const rows = form === 'packed' || (form === 'apart' && g.chance(0.5)) ? queries : g.int(1, 6);
    const t = (...dims: number[]) => g.tensor('float32', dims);
    const past = form === 'apart' && rows === queries ? g.int(0, 4) : 0;
    const keys = rows + past;
    const qkv = {
      apart: () => [t(batch, queries, hidden), t(batch, rows, hidden), t(batch, rows, hidden)],
      cross: () => [t(batch, queries, hidden), t(batch, heads, rows, size), t(batch, heads, rows, size)],
      packed: () => [t(batch, queries, heads, 3, size), undefined, undefined],
      'packed keys': () => [t(batch, queries, hidden), t(batch, rows, heads, 2, size), undefined],
    }[form]();
    const inputs = [
      ...qkv,
      form === 'apart' ? g.maybe(() => t(3 * hidden)) : undefined,
      g.maybe(() => maskOf(g, batch, queries, keys)),
      g.maybe(() => t(g.pick([1, batch]), g.pick([1, heads]), queries, keys)),
      ...(past > 0 ? [t(batch, heads, past, size), t(batch, heads, past, size)] : []),
    ];
    const attrs = attributes({
      num_heads: heads, // With other keys than queries, onnxruntime forgets causality in the last row.
      unidirectional: rows === queries ? g.int(0, 1) : 0,
      scale: g.maybe(() => f(0.3)),
    });
    return { inputs: trimmed(inputs), attributes: attrs, outputs: past > 0 ? 3 : 1, ...near };
  },
  GroupQueryAttention(g) {
    const [batch, keyHeads, group, half] = [g.int(1, 3), g.int(1, 2), g.int(1, 3), 8];
    const [heads, size] = [keyHeads * group, 2 * half];
    const first = g.chance(0.4);
    const rows = first ? g.int(1, 6) : g.pick([1, 1, 3]);
    const pasts = g.list(batch, () => (first ? 0 : g.int(0, 6)));
    const most = Math.max(...pasts);
    const total = first ? rows : Math.max(most, 1) + rows;
    const before = first ? 0 : total - rows;
    const t = (...dims: number[]) => g.tensor('float32', dims, -1, 1);
    const rotary = g.chance(0.6);
    const packed = g.chance(0.3);
    const x = packed
      ? [t(batch, rows, (heads + 2 * keyHeads) * size), undefined, undefined]
      : [t(batch, rows, heads * size), t(batch, rows, keyHeads * size), t(batch, rows, keyHeads * size)];
    const lengths = pasts.map((n) => n + rows - 1);
    // One of the batches is the longest; onnxruntime takes it for the total.
    if (!first) lengths[0] = total - 1;
    const inputs = [
      ...x,
      first ? undefined : t(batch, keyHeads, before, size),
      first ? undefined : t(batch, keyHeads, before, size),
      new Tensor('int32', lengths, [batch]),
      new Tensor('int32', [total], [1]),
      rotary ? t(total + 2, half) : undefined,
      rotary ? t(total + 2, half) : undefined,
    ];
    const attrs = attributes({
      num_heads: heads,
      kv_num_heads: keyHeads,
      do_rotary: rotary ? 1 : 0,
      rotary_interleaved: g.int(0, 1),
      local_window_size: g.maybe(() => g.int(1, 6)),
      softcap: g.maybe(() => f(2)),
      smooth_softmax: g.maybe(() => 1),
      scale: g.maybe(() => f(0.3)),
    });
    return { inputs: trimmed(inputs), constants: [6], attributes: attrs, outputs: 3, ...near };
  },
};

const quotient = (a: number, b: number) => Math.ceil(a / b);

const weights: Family = {
  FusedMatMul(g) {
    const [m, k, n] = [g.int(1, 6), g.int(1, 6), g.int(1, 9)];
    const [ta, tb] = [g.int(0, 1), g.int(0, 1)];
    const batch = g.dims(0, 2, 3, false);
    const a = g.tensor('float32', [...batch, ...(ta ? [k, m] : [m, k])]);
    const b = g.tensor('float32', [...(g.chance(0.5) ? batch : []), ...(tb ? [n, k] : [k, n])]);
    return { inputs: [a, b], attributes: attributes({ transA: ta, transB: tb, alpha: f(0.5) }), ...near };
  },
  MatMulNBits(g) {
    const [bits, block] = [g.pick([4, 8, 4, 2]), g.pick([16, 32])];
    const [m, n, k] = [g.int(1, 4), g.int(1, 9), g.pick([16, 32, 40, 64])];
    const blocks = quotient(k, block);
    const zeroBytes = quotient(blocks * bits, 8);
    const scales = g.tensor('float32', [n * blocks], 0.01, 0.1);
    const inputs = [
      g.tensor('float32', [m, k]),
      g.tensor('uint8', [n, blocks, (block * bits) / 8], 0, 255),
      scales,
      g.maybe(() => g.tensor('uint8', [n * zeroBytes], 0, 255)),
      g.chance(0.2) ? g.tensor('int32', [k], 0, blocks - 1) : undefined,
      g.maybe(() => g.tensor('float32', [n])),
    ];
    const attrs = attributes({ K: k, N: n, bits, block_size: block });
    return { inputs: trimmed(inputs), attributes: attrs, constants: [1, 2, 3, 4], rtol: 1e-4, atol: 1e-3 };
  },
  GatherBlockQuantized(g) {
    const [rows, columns, block] = [g.int(1, 6), g.pick([16, 32, 48]), g.pick([16, 32])];
    const type = g.pick(['int4', 'uint4', 'uint8'] as const);
    const packed = type === 'uint8';
    const blocks = quotient(columns, block);
    const nibbles = (count: number) => Uint8Array.from({ length: quotient(count, 2) }, () => g.int(0, 255));
    const data = packed
      ? g.tensor('uint8', [rows, columns / 2], 0, 255)
      : new Tensor(type, nibbles(rows * columns), [rows, columns]);
    const zeros = packed
      ? g.tensor('uint8', [rows, quotient(blocks, 2)], 0, 255)
      : new Tensor(type, nibbles(rows * blocks), [rows, blocks]);
    const inputs = [
      data,
      g.tensor(g.pick(['int32', 'int64'] as const), g.dims(1, 2, 3, false), -rows, rows - 1),
      g.tensor('float32', [rows, blocks], 0.01, 0.1),
      g.maybe(() => zeros),
    ];
    const attrs = attributes({ block_size: block, bits: packed ? 4 : undefined, quantize_axis: 1 });
    return { inputs: trimmed(inputs), attributes: attrs, constants: [0, 2, 3], fallback: true };
  },
  EmbedLayerNormalization(g) {
    const [batch, sequence, hidden, words] = [g.int(1, 3), g.int(1, 5), g.int(1, 9), 7];
    const ids = (most: number) => g.tensor('int32', [batch, sequence], 0, most - 1);
    const table = (rows: number) => g.tensor('float32', [rows, hidden]);
    const segments = g.chance(0.6);
    const counted = g.chance(0.3);
    const inputs = [
      ids(words),
      segments ? ids(2) : undefined,
      table(words),
      table(6),
      segments ? table(2) : undefined,
      g.tensor('float32', [hidden]),
      g.tensor('float32', [hidden]),
      counted ? ids(2) : undefined,
      g.maybe(() => g.tensor('int32', [g.pick([1, batch]), sequence], 0, 5)),
    ];
    const attrs = attributes({ epsilon: f(1e-3) });
    const outputs = counted ? 2 : 1;
    return {
      inputs: trimmed(inputs),
      attributes: attrs,
      outputs,
      constants: [2, 3, 4, 5, 6],
      fallback: counted,
      ...near,
    };
  },
};

/** Lists of distinct labels of a type, by the attributes that hold them. */
function labels(g: Generator) {
  const type = g.pick(['string', 'int64', 'float32'] as const);
  const suffix = { string: 'strings', int64: 'int64s', float32: 'floats' }[type];
  const list = { string: ['a', 'b', 'Straße', ''], int64: [4, -1, 0, 9], float32: [0.5, -2, 0, 7] }[type];
  const value = type === 'float32' ? fs(list as number[]) : (list as readonly number[] | readonly string[]);
  return { type, suffix, list, value };
}

const ml: Family = {
  LabelEncoder(g) {
    const [keys, values] = [labels(g), labels(g)];
    const other = { string: 'zz', int64: 77, float32: 3.25 }[keys.type];
    const all = [...keys.list, other] as (string | number)[];
    const x = new Tensor(
      keys.type,
      g.list(5, () => g.pick(all)),
      [5],
    );
    const attrs = { [`keys_${keys.suffix}`]: keys.value, [`values_${values.suffix}`]: values.value };
    return { inputs: [x], attributes: attributes(attrs), fallback: true };
  },
};

const named = (domain: string, family: Family): Family =>
  Object.fromEntries(Object.entries(family).map(([name, make]) => [`${domain}:${name}`, make]));

export const contrib: Family = {
  ...named('com.microsoft', { ...quantized, ...attention, ...weights }),
  ...named('ai.onnx.ml', ml),
};
