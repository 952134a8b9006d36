// Operators of com.microsoft that exported transformers contain, apart from attention: activations with a bias, layer
// normalizations with a residual, products with transposes and activations, and products with weights of a few bits.
// Semantics: onnxruntime's ContribOperators. Each is written with what the plain operators are made of.
import { type Activation, activations } from '../kernels/activation.js';
import { decode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { broadcastShapes, sameShape, sizeOf } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import { float, floats, int, required, string } from './attributes.js';
import { lowerBroadcast } from './broadcast.js';
import { convOperators } from './conv.js';
import { convAttributes } from './conv-geometry.js';
import { matMulShape, matrixIndices } from './matmul.js';
import { view } from './nested.js';
import { type Address, type Call, type InferCall, type LowerCall, type Operator, operator } from './operator.js';
import { lowerProduct, multiplyInto } from './product.js';
import { fromNumbers, isFloat, zipNumbers } from './reference.js';
import { lowerUnary, numericRule } from './unary.js';

const domain = 'com.microsoft';

/** f(x + bias), the bias (where given) a vector along the last axis. */
function biased(name: string, bias: 'none' | 'optional' | 'required', f: Activation): Operator {
  const check = (call: InferCall<unknown>) => {
    const b = call.optional(1);
    const { dims } = call.input(0);
    if (b !== undefined && !sameShape(b.dims, dims.slice(-1)))
      throw call.error(`expected bias of shape [${dims.at(-1) ?? ''}], got ${formatShape(b.dims)}`);
    return numericRule(call);
  };
  return operator({
    name,
    domain,
    since: [1],
    inputs: [bias === 'required' ? 2 : 1, bias === 'none' ? 1 : 2],
    attributes: {},
    infer: check,
    reference(call) {
      check(call);
      const x = call.tensor(0);
      const operands = call.has(1) ? [x, call.tensor(1)] : [x];
      return [zipNumbers(operands, x.dims, x.type, (a, b = 0) => f.apply(a + b, f.alpha, f.beta))];
    },
    lower(call) {
      if (!call.has(1)) return lowerUnary(call, f.code, f.alpha, f.beta, 27);
      const { type, dims } = call.input(0);
      if (type !== 'float32' || call.input(1).type !== 'float32') return false;
      const operands = [0, 1].map((i) => ({ at: call.in(i), dims: call.input(i).dims }));
      return lowerBroadcast(call, 'add', type, dims, operands, { code: f.code, alpha: f.alpha, beta: f.beta });
    },
  });
}

const quickGelu = operator({
  name: 'QuickGelu',
  domain,
  since: [1],
  inputs: [1, 1],
  attributes: { alpha: float(1.702) },
  infer: (call) => numericRule(call),
  reference(call) {
    const x = call.tensor(0);
    return [zipNumbers([x], x.dims, x.type, (a) => activations.silu.apply(a, call.attributes.alpha))];
  },
  lower: (call) => lowerUnary(call, activations.silu.code, call.attributes.alpha, 0, 19),
});

/** Rows of n numbers to (mean 0 and) variance 1, scaled and shifted; also their means and inverse deviations. */
export function normalizeLast(
  x: ArrayLike<number>,
  n: number,
  gamma: ArrayLike<number>,
  beta: ArrayLike<number> | undefined,
  epsilon: number,
  rms: boolean,
) {
  const rows = n === 0 ? 0 : x.length / n;
  const y = new Float64Array(x.length);
  const means = new Float64Array(rows);
  const inverses = new Float64Array(rows);
  for (let r = 0; r < rows; r++) {
    let mean = 0;
    let square = 0;
    if (!rms) for (let i = 0; i < n; i++) mean += x[r * n + i]! / n;
    for (let i = 0; i < n; i++) square += (x[r * n + i]! - mean) ** 2 / n;
    means[r] = mean;
    inverses[r] = 1 / Math.sqrt(square + epsilon);
    for (let i = 0; i < n; i++)
      y[r * n + i] = (x[r * n + i]! - mean) * inverses[r]! * gamma[i]! + (beta === undefined ? 0 : beta[i]!);
  }
  return { y, means, inverses };
}

interface NormPlaces {
  readonly gamma: number;
  readonly beta: number;
  /** A vector added to input + skip. */
  readonly bias: number;
  readonly skip: number;
}

function skipNormalization(name: string, p: NormPlaces, most: number, rms: boolean): Operator {
  const check = (call: InferCall<unknown>) => {
    const x = call.input(0);
    const { dims } = x;
    if (!isFloat(x.type)) throw call.error(`input must be of a floating-point type, got ${x.type}`);
    if (dims.length < 2) throw call.error(`input must have 2 or 3 dimensions, got ${formatShape(dims)}`);
    const n = dims.at(-1)!;
    for (const [what, i] of [
      ['gamma', p.gamma],
      ['beta', p.beta],
      ['bias', p.bias],
    ] as const) {
      const t = call.optional(i);
      if (t !== undefined && !sameShape(t.dims, [n]))
        throw call.error(`expected ${what} of shape [${n}], got ${formatShape(t.dims)}`);
    }
    const skip = p.skip < 0 ? undefined : call.input(p.skip).dims;
    if (skip !== undefined && !sameShape(broadcastShapes(dims, skip) ?? [], dims))
      throw call.error(`skip ${formatShape(skip)} does not broadcast to ${formatShape(dims)}`);
    return { dims, n, type: x.type, statistics: [...dims.slice(0, -1), 1] };
  };
  return operator({
    name,
    domain,
    since: [1],
    inputs: [3, most],
    attributes: { epsilon: float(1e-12) },
    infer(call) {
      const { dims, type, statistics } = check(call);
      const rows = { type: 'float32' as const, dims: statistics };
      return [{ type, dims }, rows, rows, { type, dims }];
    },
    reference(call) {
      const { dims, n, type, statistics } = check(call);
      const terms = [0, p.skip, p.bias].filter((i) => i >= 0 && call.has(i)).map((i) => call.tensor(i));
      const sum = zipNumbers(terms, dims, type, (...xs) => xs.reduce((a, b) => a + b));
      const beta = call.has(p.beta) ? decode(call.tensor(p.beta)) : undefined;
      const r = normalizeLast(decode(sum), n, decode(call.tensor(p.gamma)), beta, call.attributes.epsilon, rms);
      return [
        fromNumbers(type, dims, r.y),
        fromNumbers('float32', statistics, r.means),
        fromNumbers('float32', statistics, r.inverses),
        sum,
      ];
    },
    lower(call) {
      const { dims, n, type } = check(call);
      if (type !== 'float32' || call.wants(1) || call.wants(2)) return false;
      const size = sizeOf(dims);
      if (size === 0) return true;
      const sum: Address = call.wants(3) ? call.out(3) : call.scratch(size * 4);
      const operand = (at: Address, d: readonly number[]) => ({ at, dims: d });
      const skip = call.input(p.skip).dims;
      lowerBroadcastTo(call, sum, dims, [operand(call.in(0), dims), operand(call.in(p.skip), skip)]);
      if (call.has(p.bias)) lowerBroadcastTo(call, sum, dims, [operand(sum, dims), operand(call.in(p.bias), [n])]);
      lowerRowNorm(
        call,
        sum,
        call.in(p.gamma),
        call.has(p.beta) ? call.in(p.beta) : 0,
        size / n,
        n,
        call.attributes.epsilon,
        rms,
      );
      return true;
    },
  });
}

/** The sum of two operands, to an address. */
function lowerBroadcastTo(
  call: LowerCall<unknown>,
  to: Address,
  dims: readonly number[],
  operands: readonly { readonly at: Address; readonly dims: readonly number[] }[],
): void {
  lowerBroadcast(view(call, { out: () => to }), 'add', 'float32', dims, operands);
}

function lowerRowNorm(
  call: LowerCall<unknown>,
  x: Address,
  scale: Address,
  bias: Address | 0,
  rows: number,
  n: number,
  epsilon: number,
  rms: boolean,
): void {
  call.step(
    'rowNorm',
    { x, y: call.out(0), scale, bias, mean: 0, inverse: 0, n, rms: rms ? 1 : 0, epsilon, cycle: 1, perRow: 0, span: 1 },
    { units: rows, grain: Math.max(1, Math.ceil(2048 / n)), flops: 8 * rows * n },
  );
}

/** RMS normalization over axis … last, as onnxruntime's own name has it in both domains. */
function simplified(where: string): Operator {
  return operator({
    name: 'SimplifiedLayerNormalization',
    domain: where,
    since: [1],
    inputs: [2, 2],
    attributes: { axis: int(-1), epsilon: float(1e-5), stash_type: int(1) },
    infer(call) {
      const { dims } = call.input(0);
      const axis = call.attributes.axis < 0 ? call.attributes.axis + dims.length : call.attributes.axis;
      if (axis < 0 || axis >= dims.length)
        throw call.error(`axis ${call.attributes.axis} is outside ${formatShape(dims)}`);
      if (sizeOf(call.input(1).dims) !== sizeOf(dims.slice(axis)))
        throw call.error(
          `expected scale of shape ${formatShape(dims.slice(axis))}, got ${formatShape(call.input(1).dims)}`,
        );
      return [
        { type: call.input(1).type, dims },
        { type: 'float32', dims: dims.map((d, i) => (i < axis ? d : 1)) },
      ];
    },
    reference(call) {
      const x = call.tensor(0);
      const scale = call.tensor(1);
      const r = normalizeLast(decode(x), scale.size, decode(scale), undefined, call.attributes.epsilon, true);
      const axis = call.attributes.axis < 0 ? call.attributes.axis + x.dims.length : call.attributes.axis;
      return [
        fromNumbers(scale.type, x.dims, r.y),
        fromNumbers(
          'float32',
          x.dims.map((d, i) => (i < axis ? d : 1)),
          r.inverses,
        ),
      ];
    },
    lower(call) {
      const { type, dims } = call.input(0);
      const n = sizeOf(call.input(1).dims);
      if (type !== 'float32' || call.input(1).type !== 'float32' || call.wants(1)) return false;
      if (sizeOf(dims) > 0)
        lowerRowNorm(call, call.in(0), call.in(1), 0, sizeOf(dims) / n, n, call.attributes.epsilon, true);
      return true;
    },
  });
}

const fusedMatMulSpecs = { alpha: float(1), transA: int(0), transB: int(0), transBatchA: int(0), transBatchB: int(0) };

function swapped(dims: readonly number[], on: number): number[] {
  return on !== 0 && dims.length > 1 ? [...dims.slice(0, -2), dims.at(-1)!, dims.at(-2)!] : [...dims];
}

/** alpha · A · B, either transposed in its last two dimensions. */
const fusedMatMul = operator({
  name: 'FusedMatMul',
  domain,
  since: [1],
  inputs: [2, 2],
  attributes: fusedMatMulSpecs,
  infer: (call) => [{ type: call.input(0).type, dims: fusedShape(call).dims }],
  reference(call) {
    const s = fusedShape(call);
    const { m, n, k } = s;
    const { alpha, transA, transB } = call.attributes;
    const [a, b] = [decode(call.tensor(0)), decode(call.tensor(1))];
    const y = new Float64Array(sizeOf(s.dims));
    const at = matrixIndices(s);
    at.a.forEach((ai, i) => {
      const left = { data: a, offset: ai * m * k, row: transA ? 1 : k, column: transA ? m : 1 };
      const right = { data: b, offset: at.b[i]! * k * n, row: transB ? 1 : n, column: transB ? k : 1 };
      multiplyInto(y, i * m * n, left, right, m, n, k);
    });
    return [
      fromNumbers(
        call.tensor(0).type,
        s.dims,
        y.map((v) => v * alpha),
      ),
    ];
  },
  lower(call) {
    const s = fusedShape(call);
    if (call.input(0).type !== 'float32' || call.input(1).type !== 'float32') return false;
    const { m, n, k } = s;
    const { alpha, transA, transB } = call.attributes;
    const at = matrixIndices(s);
    lowerProduct(call, {
      a: { input: 0, matrices: sizeOf(s.aBatch), stride: m * k, row: transA ? 1 : k, column: transA ? m : 1 },
      b: { input: 1, matrices: sizeOf(s.bBatch), stride: k * n, row: transB ? 1 : n, column: transB ? k : 1 },
      c: call.out(0),
      m,
      n,
      k,
      batches: at.a.length,
      aIndex: at.a,
      bIndex: at.b,
      epilogue: { scale: alpha },
    });
    return true;
  },
});

function fusedShape(
  call: InferCall<{
    readonly transA: number;
    readonly transB: number;
    readonly transBatchA: number;
    readonly transBatchB: number;
  }>,
) {
  const a = call.attributes;
  if (a.transBatchA !== 0 || a.transBatchB !== 0)
    throw call.error('transBatchA and transBatchB are not supported', 'UNSUPPORTED');
  const [left, right] = [call.input(0).dims, call.input(1).dims];
  // A vector is not transposed.
  return matMulShape(call, swapped(left, a.transA), swapped(right, a.transB));
}

const fusedActivations: Readonly<Record<string, readonly [string, number]>> = {
  '': ['none', 0],
  Relu: ['relu', 0],
  Tanh: ['tanh', 0],
  Sigmoid: ['sigmoid', 0],
  LeakyRelu: ['leakyRelu', 1],
  Clip: ['clip', 2],
  HardSigmoid: ['hardSigmoid', 2],
};

/** Conv with an activation: Skep's own fused convolution by another name. */
const own = convOperators.find((o) => o.domain === 'skep')!;
const fusedConvSpecs = { ...convAttributes, activation: string(''), activation_params: floats([]) };

function asOwn<C extends Call<{ readonly activation: string; readonly activation_params: readonly number[] }>>(
  call: C,
): never {
  const { activation, activation_params: params } = call.attributes;
  const found = fusedActivations[activation];
  if (found === undefined || !Object.hasOwn(fusedActivations, activation))
    throw call.error(`unknown activation '${activation}'`);
  if (params.length < found[1] && activation !== 'LeakyRelu')
    throw call.error(`${activation} needs ${found[1]} activation_params, got ${formatShape(params)}`);
  return view(call, { attributes: { ...call.attributes, activation: found[0], activation_params: params } }) as never;
}

const fusedConv = operator({
  name: 'FusedConv',
  domain,
  since: [1],
  inputs: [2, 4],
  attributes: fusedConvSpecs,
  infer: (call) => own.infer(asOwn(call)),
  reference: (call) => own.reference(asOwn(call)),
  lower: (call) => own.lower!(asOwn(call)),
});

const nBitsSpecs = {
  K: required(int()),
  N: required(int()),
  bits: int(4),
  block_size: required(int()),
  accuracy_level: int(0),
};

function nBitsShape(
  call: InferCall<{ readonly K: number; readonly N: number; readonly bits: number; readonly block_size: number }>,
) {
  const { K: k, N: n, bits, block_size: block } = call.attributes;
  if (![2, 4, 8].includes(bits)) throw call.error(`bits must be 2, 4 or 8, got ${bits}`, 'UNSUPPORTED');
  if (block < 16 || (block & (block - 1)) !== 0)
    throw call.error(`block_size must be a power of two from 16 on, got ${block}`);
  if (k < 1 || n < 1) throw call.error(`K and N must be positive, got ${k} and ${n}`);
  const a = call.input(0);
  if (a.dims.at(-1) !== k) throw call.error(`A ${formatShape(a.dims)} must end in K = ${k}`);
  const blocks = Math.ceil(k / block);
  const bytes = (block * bits) / 8;
  const b = call.input(1);
  if (b.type !== 'uint8' || sizeOf(b.dims) !== n * blocks * bytes)
    throw call.error(`expected B of shape [${n}, ${blocks}, ${bytes}] uint8, got ${formatShape(b.dims)} ${b.type}`);
  if (sizeOf(call.input(2).dims) !== n * blocks)
    throw call.error(`expected ${n * blocks} scales, got ${formatShape(call.input(2).dims)}`);
  if (call.has(4)) throw call.error('g_idx is not supported', 'UNSUPPORTED');
  const bias = call.optional(5);
  if (bias !== undefined && !sameShape(bias.dims, [n]))
    throw call.error(`expected bias of shape [${n}], got ${formatShape(bias.dims)}`);
  const zero = call.optional(3);
  const zeroBytes = Math.ceil((blocks * bits) / 8);
  if (zero !== undefined && sizeOf(zero.dims) !== (zero.type === 'uint8' ? n * zeroBytes : n * blocks))
    throw call.error(`zero_points of shape ${formatShape(zero.dims)} do not fit ${n} rows of ${blocks} blocks`);
  return { k, n, bits, block, blocks, bytes, zeroBytes, dims: [...a.dims.slice(0, -1), n] };
}

/** The weights as floats, [N, K]. */
function unpackWeights(
  s: ReturnType<typeof nBitsShape>,
  b: ArrayLike<number>,
  scales: ArrayLike<number>,
  zeros: Tensor | undefined,
): Float32Array {
  const { k, n, bits, block, blocks, bytes, zeroBytes } = s;
  const mask = (1 << bits) - 1;
  const codeAt = (data: ArrayLike<number>, at: number, i: number) =>
    (data[at + ((i * bits) >> 3)]! >> ((i * bits) & 7)) & mask;
  const z = zeros === undefined ? undefined : decode(zeros);
  const w = new Float32Array(n * k);
  for (let r = 0; r < n; r++)
    for (let i = 0; i < k; i++) {
      const at = Math.floor(i / block);
      const zero =
        z === undefined
          ? 1 << (bits - 1)
          : zeros!.type === 'uint8'
            ? codeAt(z, r * zeroBytes, at)
            : z[r * blocks + at]!;
      w[r * k + i] = (codeAt(b, (r * blocks + at) * bytes, i % block) - zero) * scales[r * blocks + at]!;
    }
  return w;
}

/** A · Wᵀ (+ bias), W [N, K] kept in blocks of few bits. */
const matMulNBits = operator({
  name: 'MatMulNBits',
  domain,
  since: [1],
  inputs: [3, 6],
  attributes: nBitsSpecs,
  infer: (call) => [{ type: call.input(0).type, dims: nBitsShape(call).dims }],
  reference(call) {
    const s = nBitsShape(call);
    const { k, n, dims } = s;
    const w = unpackWeights(
      s,
      decode(call.tensor(1)),
      decode(call.tensor(2)),
      call.has(3) ? call.tensor(3) : undefined,
    );
    const a = decode(call.tensor(0));
    const y = new Float64Array(sizeOf(dims));
    const left = { data: a, offset: 0, row: k, column: 1 };
    multiplyInto(y, 0, left, { data: w, offset: 0, row: 1, column: k }, y.length / n, n, k);
    const bias = call.has(5) ? decode(call.tensor(5)) : undefined;
    return [fromNumbers(call.tensor(0).type, dims, bias === undefined ? y : y.map((v, i) => v + bias[i % n]!))];
  },
  lower(call) {
    const s = nBitsShape(call);
    const { k, n, dims } = s;
    const [b, scales, zeros] = [call.input(1).value, call.input(2).value, call.optional(3)?.value];
    const constant = b !== undefined && scales !== undefined && (!call.has(3) || zeros !== undefined);
    if (call.input(0).type !== 'float32' || !constant) return false;
    const weights = {
      type: 'float32',
      dims: [n, k],
      get value() {
        return new Tensor('float32', unpackWeights(s, decode(b), decode(scales), zeros), [n, k]);
      },
    };
    lowerProduct(view(call, { input: (i: number) => (i === 1 ? weights : call.input(i)) }), {
      a: { input: 0, matrices: 1, stride: sizeOf(call.input(0).dims), row: k, column: 1 },
      b: { input: 1, matrices: 1, stride: k * n, row: 1, column: k },
      c: call.out(0),
      m: sizeOf(dims) / n,
      n,
      k,
      epilogue: call.has(5) ? { bias: { at: call.in(5), row: 0, column: 1 } } : {},
    });
    return true;
  },
});

/** input_ids, segment_ids?, word, position and segment embeddings, gamma, beta, mask?, position_ids? → sums, normalized. */
const embedLayerNormalization = operator({
  name: 'EmbedLayerNormalization',
  domain,
  since: [1],
  inputs: [7, 9],
  attributes: { epsilon: float(1e-12), mask_index_type: int(1) },
  infer(call) {
    const { dims } = call.input(0);
    const word = call.input(2);
    if (dims.length !== 2 || word.dims.length !== 2)
      throw call.error(
        `expected input_ids [batch, sequence] and word embeddings [words, size], got ${formatShape(dims)} and ${formatShape(word.dims)}`,
      );
    const hidden = word.dims[1]!;
    for (const i of [3, 4]) {
      const t = call.optional(i);
      if (t !== undefined && (t.dims.length !== 2 || t.dims[1] !== hidden))
        throw call.error(`input ${i} must have shape [n, ${hidden}], got ${formatShape(t.dims)}`);
    }
    const output = { type: word.type, dims: [...dims, hidden] };
    return [output, { type: 'int32', dims: [dims[0]!] }, output];
  },
  reference(call) {
    const ids = call.tensor(0);
    const [batch, sequence] = ids.dims as [number, number];
    const hidden = call.tensor(2).dims[1]!;
    const at = (i: number) => (call.has(i) ? decode(call.tensor(i)) : undefined);
    const [words, positions, segments] = [at(2)!, at(3)!, at(4)];
    const sums = new Float64Array(ids.size * hidden);
    const add = (row: number, table: ArrayLike<number>, index: number, what: string) => {
      const rows = table.length / hidden;
      if (!(index >= 0 && index < rows))
        throw call.error(`${what} ${index} is outside the ${rows} rows of its table`, 'INVALID_INPUT');
      for (let i = 0; i < hidden; i++) sums[row * hidden + i]! += table[index * hidden + i]!;
    };
    const idOf = (i: number, row: number) => Number(call.ints(i)![row]!);
    for (let row = 0; row < ids.size; row++) {
      add(row, words, idOf(0, row), 'input_ids');
      const given = call.has(8) ? call.ints(8)! : undefined;
      const position = given === undefined ? row % sequence : given[given.length === sequence ? row % sequence : row]!;
      add(row, positions, position, 'position');
      if (segments !== undefined && call.has(1)) add(row, segments, idOf(1, row), 'segment_ids');
    }
    const sum = fromNumbers(call.tensor(2).type, [batch, sequence, hidden], sums);
    const r = normalizeLast(decode(sum), hidden, at(5)!, at(6)!, call.attributes.epsilon, false);
    const mask = at(7);
    const counts = Array.from({ length: batch }, (_, b) => {
      let n = 0;
      if (mask !== undefined) for (let i = 0; i < sequence; i++) n += mask[b * sequence + i] === 1 ? 1 : 0;
      return n;
    });
    return [fromNumbers(sum.type, sum.dims, r.y), fromNumbers('int32', [batch], counts), sum];
  },
});

export const contribOperators: readonly Operator[] = [
  biased('Gelu', 'none', activations.gelu),
  biased('FastGelu', 'optional', activations.geluTanh),
  biased('BiasGelu', 'required', activations.gelu),
  quickGelu,
  skipNormalization('SkipLayerNormalization', { skip: 1, gamma: 2, beta: 3, bias: 4 }, 5, false),
  skipNormalization('SkipSimplifiedLayerNormalization', { skip: 1, gamma: 2, beta: -1, bias: 3 }, 4, true),
  simplified(''),
  simplified(domain),
  fusedMatMul,
  fusedConv,
  matMulNBits,
  embedLayerNormalization,
];
