// Cases of com.microsoft's operators that exported transformers contain, by `domain:operator`.
import { Tensor } from '../../../src/tensor/tensor.js';
import { attributes, type Family, f, type Generator, type Made } from './generator.js';
import { linear } from './linear.js';
import { quantized, trimmed } from './quantized.js';

const close = { rtol: 1e-4, atol: 1e-4 };
const float = 'float32' as const;

/** x and a bias along its last axis. */
function biased(g: Generator, bias: boolean): Made {
  const dims = [...g.dims(0, 2), g.int(1, 9)];
  return { inputs: trimmed([g.tensor(float, dims), bias ? g.tensor(float, dims.slice(-1)) : undefined]), ...close };
}

function skip(g: Generator, beta: boolean): Made {
  const dims = [g.int(1, 2), g.int(1, 3), g.int(1, 9)];
  const vector = () => g.tensor(float, dims.slice(-1));
  const inputs = [g.tensor(float, dims), g.tensor(float, dims), vector()];
  return {
    inputs: [...inputs, ...(beta ? [vector()] : []), ...(g.chance(0.5) ? [vector()] : [])],
    attributes: attributes({ epsilon: f(1e-3) }),
    ...close,
  };
}

function simplified(g: Generator): Made {
  const dims = g.dims(1, 3, 6, false);
  return { inputs: [g.tensor(float, dims), g.tensor(float, dims.slice(-1))], ...close };
}

/** A mask of integers in which every row sees the first key. */
function integerMask(g: Generator, dims: readonly number[]): Tensor {
  const keys = dims.at(-1)!;
  const n = dims.reduce((a, b) => a * b, 1);
  return new Tensor(
    'int32',
    g.list(n, (i) => (i % keys === 0 || g.chance(0.6) ? 1 : 0)),
    dims,
  );
}

export const transformers: Family = {
  'com.microsoft:Gelu': (g) => biased(g, false),
  'com.microsoft:QuickGelu': (g) => ({ ...biased(g, false), attributes: attributes({ alpha: g.maybe(() => f(1.3)) }) }),
  'com.microsoft:FastGelu': (g) => biased(g, g.chance(0.5)),
  'com.microsoft:BiasGelu': (g) => biased(g, true),
  'com.microsoft:SkipLayerNormalization': (g) => skip(g, true),
  'com.microsoft:SkipSimplifiedLayerNormalization': (g) => skip(g, false),
  'com.microsoft:SimplifiedLayerNormalization': simplified,
  SimplifiedLayerNormalization: simplified,
  'com.microsoft:FusedMatMul': (g) => {
    const [m, k, n, ta, tb] = [g.int(1, 9), g.int(1, 9), g.int(1, 20), g.int(0, 1), g.int(0, 1)];
    const batch = g.dims(0, 2, 3, false);
    const pair = (a: number, b: number, turned: number) => [...batch, ...(turned ? [b, a] : [a, b])];
    return {
      inputs: [g.tensor(float, pair(m, k, ta)), g.tensor(float, pair(k, n, tb))],
      attributes: attributes({ transA: ta, transB: tb, alpha: g.maybe(() => f(0.5)) }),
      constants: g.constants(2),
      ...close,
    };
  },
  'com.microsoft:FusedConv': (g, opset) => {
    const made = linear.Conv!(g, opset);
    const inputs = made.inputs.map((x) => g.tensor(float, (x as Tensor).dims));
    const activation = g.pick([
      { activation: 'Relu' },
      { activation: 'Tanh' },
      { activation: 'Sigmoid' },
      { activation: 'LeakyRelu', activation_params: { kind: 'floats' as const, value: [0.5] } },
    ]);
    return { ...made, inputs, attributes: { ...made.attributes, ...attributes(activation) } };
  },
  'com.microsoft:MatMulNBits': (g) => {
    const bits = g.pick([4, 4, 8]);
    const [m, n, k, block] = [g.int(1, 4), g.int(1, 9), g.pick([16, 32, 40]), g.pick([16, 32])];
    const blocks = Math.ceil(k / block);
    const bytes = (block * bits) / 8;
    const zeros = g.maybe(() => g.tensor('uint8', [n * Math.ceil((blocks * bits) / 8)], 0, 255));
    const codes = g.tensor('uint8', [n, blocks, bytes], 0, 255);
    return {
      inputs: trimmed([g.tensor(float, [m, k]), codes, g.tensor(float, [n * blocks], 0, 1), zeros]),
      attributes: attributes({ K: k, N: n, bits, block_size: block }),
      constants: [1, 2, ...(zeros ? [3] : [])],
      rtol: 1e-3,
      atol: 1e-2,
    };
  },
  'com.microsoft:EmbedLayerNormalization': (g) => {
    const [batch, length, words, size] = [g.int(1, 2), g.int(1, 4), g.int(1, 6), g.int(1, 8)];
    const segments = g.chance(0.6);
    const table = (rows: number) => g.tensor(float, [rows, size]);
    return {
      inputs: [
        g.tensor('int32', [batch, length], 0, words - 1),
        segments ? g.tensor('int32', [batch, length], 0, 1) : undefined,
        table(words),
        table(length + 1),
        segments ? table(2) : undefined,
        g.tensor(float, [size]),
        g.tensor(float, [size]),
      ],
      // The oracle wants to know the sizes of the tables.
      constants: [2, 3, ...(segments ? [4] : []), 5, 6],
      outputs: 2,
      ...close,
    };
  },
  'com.microsoft:RotaryEmbedding': (g) => {
    const [batch, heads, rows, half] = [g.int(1, 3), g.int(1, 3), g.int(1, 4), g.int(1, 6)];
    const most = g.int(rows, 8);
    const positions = g.chance(0.5)
      ? new Tensor('int64', g.ints(batch * rows, 0, most - 1), [batch, rows])
      : new Tensor('int64', [g.int(0, most - rows)], [1]);
    const dims = g.chance(0.5) ? [batch, heads, rows, 2 * half] : [batch, rows, heads * 2 * half];
    const table = () => g.tensor(float, [most, half], -1, 1);
    return {
      inputs: [g.tensor(float, dims), positions, table(), table()],
      attributes: attributes({ interleaved: g.maybe(() => g.int(0, 1)) }),
      ...close,
    };
  },
  'com.microsoft:Attention': (g) => {
    const [batch, rows, inner, heads, size] = [g.int(1, 2), g.int(1, 4), g.int(1, 6), g.int(1, 3), g.pick([1, 4, 8])];
    const hidden = heads * size;
    const past = g.maybe(() => g.int(0, 3), 0.4);
    const keys = rows + (past ?? 0);
    const mask = g.maybe(() =>
      integerMask(
        g,
        g.pick([
          [batch, keys],
          [batch, rows, keys],
        ]),
      ),
    );
    return {
      inputs: trimmed([
        g.tensor(float, [batch, rows, inner]),
        g.tensor(float, [inner, 3 * hidden], -1, 1),
        g.tensor(float, [3 * hidden], -1, 1),
        mask,
        past === undefined ? undefined : g.tensor(float, [2, batch, heads, past, size]),
        g.maybe(() => g.tensor(float, [batch, heads, rows, keys]), 0.3),
      ]),
      attributes: attributes({ num_heads: heads, unidirectional: mask ? 0 : g.int(0, 1) }),
      outputs: past === undefined ? 1 : 2,
      ...close,
    };
  },
  'com.microsoft:MultiHeadAttention': (g) => {
    const [batch, rows, heads, size] = [g.int(1, 2), g.int(1, 4), g.int(1, 3), g.pick([1, 4, 8])];
    const past = g.maybe(() => g.int(0, 3), 0.4);
    const keys = rows + (past ?? 0);
    const t = () => g.tensor(float, [batch, rows, heads * size]);
    const held = () => (past === undefined ? undefined : g.tensor(float, [batch, heads, past, size]));
    return {
      inputs: trimmed([
        t(),
        t(),
        t(),
        g.maybe(() => g.tensor(float, [3 * heads * size]), 0.3),
        g.maybe(() => integerMask(g, [batch, keys]), 0.3),
        g.maybe(() => g.tensor(float, [batch, heads, rows, keys]), 0.3),
        held(),
        held(),
      ]),
      attributes: attributes({ num_heads: heads }),
      outputs: past === undefined ? 1 : 3,
      ...close,
    };
  },
  'com.microsoft:GroupQueryAttention': (g) => {
    const [batch, rows, keyHeads, size] = [g.int(1, 2), g.int(1, 4), g.int(1, 2), 16];
    const heads = keyHeads * g.int(1, 3);
    // The oracle takes a past with one batch or one new row only.
    const past = (batch === 1 || rows === 1) && g.chance(0.6) ? g.int(1, 4) : 0;
    const total = rows + past;
    const t = (n: number) => g.tensor(float, [batch, rows, n * size]);
    const held = () => (past === 0 ? undefined : g.tensor(float, [batch, keyHeads, past, size]));
    const rotary = g.chance(0.5);
    const table = () => (rotary ? g.tensor(float, [total + 2, size / 2], -1, 1) : undefined);
    return {
      inputs: trimmed([
        t(heads),
        t(keyHeads),
        t(keyHeads),
        held(),
        held(),
        new Tensor(
          'int32',
          g.list(batch, () => total - 1),
          [batch],
        ),
        new Tensor('int32', [total], [1]),
        table(),
        table(),
      ]),
      attributes: attributes({ num_heads: heads, kv_num_heads: keyHeads, do_rotary: rotary ? 1 : 0 }),
      constants: [6],
      outputs: 3,
      ...close,
    };
  },
  'com.microsoft:QuantizeLinear': (g, opset) => quantized.QuantizeLinear!(g, opset),
  'com.microsoft:DequantizeLinear': (g, opset) => quantized.DequantizeLinear!(g, opset),
  'com.microsoft:MatMulIntegerToFloat': (g) => {
    const [m, k, n] = [g.int(1, 9), g.int(1, 9), g.int(1, 20)];
    const scale = () => new Tensor('float32', [g.pick([0.5, 0.013, 1])], []);
    return {
      inputs: trimmed([
        g.tensor('uint8', [m, k], 0, 255),
        g.tensor('int8', [k, n], -128, 127),
        scale(),
        scale(),
        g.maybe(() => g.tensor('uint8', [], 0, 255)),
        undefined,
        g.maybe(() => g.tensor(float, [n])),
      ]),
      constants: g.chance(0.5) ? [1] : [],
      ...close,
    };
  },
  'com.microsoft:DynamicQuantizeMatMul': (g) => {
    const [m, k, n] = [g.int(1, 9), g.int(1, 9), g.int(1, 20)];
    const scale = new Tensor('float32', [g.pick([0.5, 0.013, 1])], []);
    const bias = g.maybe(() => g.tensor(float, [n]));
    return {
      inputs: trimmed([g.tensor(float, [m, k]), g.tensor('int8', [k, n], -128, 127), scale, undefined, bias]),
      constants: g.chance(0.5) ? [1] : [],
      ...close,
    };
  },
};
