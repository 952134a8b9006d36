// Normalizations of rows by onnxruntime's names: SkipLayerNormalization and SkipSimplifiedLayerNormalization, whose input is
// a sum with a residual and a bias, and SimplifiedLayerNormalization, which is RMS normalization in both domains.
import { decode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { broadcastShapes, sameShape, sizeOf } from '../tensor/shape.js';
import { float, int } from './attributes.js';
import { lowerBroadcast } from './broadcast.js';
import { view } from './nested.js';
import { type Address, type InferCall, type LowerCall, type Operator, operator } from './operator.js';
import { fromNumbers, isFloat, zipNumbers } from './reference.js';

const domain = 'com.microsoft';

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

/** Appends the step that normalizes rows of n floats into output 0. */
export function lowerRowNorm(
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

export const contribNormalizationOperators: readonly Operator[] = [
  skipNormalization('SkipLayerNormalization', { skip: 1, gamma: 2, beta: 3, bias: 4 }, 5, false),
  skipNormalization('SkipSimplifiedLayerNormalization', { skip: 1, gamma: 2, beta: -1, bias: 3 }, 4, true),
  simplified(''),
  simplified(domain),
];
