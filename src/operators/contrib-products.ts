// Products of com.microsoft: FusedMatMul (a scale, transposes), FusedConv (an activation) and MatMulNBits, whose weights are
// kept in blocks of a few bits with a scale and a zero point each. The blocks are unpacked once a model.
import { decode } from '../tensor/convert.js';
import { formatShape, SkepError } from '../tensor/errors.js';
import { sameShape, sizeOf } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import { float, floats, int, required, string } from './attributes.js';
import { convOperators } from './conv.js';
import { convAttributes } from './conv-geometry.js';
import { matMulShape, matrixIndices } from './matmul.js';
import { view } from './nested.js';
import { type Call, type InferCall, type Operator, operator } from './operator.js';
import { lowerProduct, multiplyInto } from './product.js';
import { fromNumbers } from './reference.js';

const domain = 'com.microsoft';

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
  const groups = call.optional(4);
  if (groups !== undefined && sizeOf(groups.dims) !== k && sizeOf(groups.dims) !== blocks * block)
    throw call.error(`expected g_idx of shape [${k}], got ${formatShape(groups.dims)}`);
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
  groups: Tensor | undefined,
): Float32Array {
  const { k, n, bits, block, blocks, bytes, zeroBytes } = s;
  const mask = (1 << bits) - 1;
  const codeAt = (data: ArrayLike<number>, at: number, i: number) =>
    (data[at + ((i * bits) >> 3)]! >> ((i * bits) & 7)) & mask;
  const z = zeros === undefined ? undefined : decode(zeros);
  // Which block's scale and zero point an element of k has: its own block's, unless g_idx says another.
  const g = groups === undefined ? undefined : decode(groups);
  if (g !== undefined && !Array.from(g).every((i) => i >= 0 && i < blocks))
    throw new SkepError('INVALID_MODEL', `g_idx reaches outside the ${blocks} blocks`);
  const w = new Float32Array(n * k);
  for (let r = 0; r < n; r++)
    for (let i = 0; i < k; i++) {
      const own = Math.floor(i / block);
      const at = g === undefined ? own : g[i]!;
      const zero =
        z === undefined
          ? 1 << (bits - 1)
          : zeros!.type === 'uint8'
            ? codeAt(z, r * zeroBytes, at)
            : z[r * blocks + at]!;
      w[r * k + i] = (codeAt(b, (r * blocks + own) * bytes, i % block) - zero) * scales[r * blocks + at]!;
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
      call.has(4) ? call.tensor(4) : undefined,
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
    const [b, scales] = [call.input(1).value, call.input(2).value];
    const [zeros, groups] = [call.optional(3)?.value, call.optional(4)?.value];
    const constant =
      b !== undefined &&
      scales !== undefined &&
      (!call.has(3) || zeros !== undefined) &&
      (!call.has(4) || groups !== undefined);
    if (call.input(0).type !== 'float32' || !constant) return false;
    const weights = {
      type: 'float32',
      dims: [n, k],
      get value() {
        return new Tensor('float32', unpackWeights(s, decode(b), decode(scales), zeros, groups), [n, k]);
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

export const contribProductOperators: readonly Operator[] = [fusedMatMul, fusedConv, matMulNBits];
