// Normalizations of older networks: LRN across neighbouring channels, LpNormalization to length 1 along an axis, and
// MeanVarianceNormalization over any axes.
import { decode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { sizeOf, stridesOf } from '../tensor/shape.js';
import { type AttributesOf, float, int, ints, required } from './attributes.js';
import { momentsOf } from './normalization.js';
import { type InferCall, type Operator, type OutputInfo, operator } from './operator.js';
import { normalized } from './reduce.js';
import { fromNumbers } from './reference.js';
import { numericRule } from './unary.js';

const lrnSpecs = { alpha: float(1e-4), beta: float(0.75), bias: float(1), size: required(int()) };

function lrnRule(call: InferCall<AttributesOf<typeof lrnSpecs>>): OutputInfo[] {
  const [out] = numericRule(call) as [OutputInfo];
  if (out.dims.length < 2) throw call.error(`input 0 must have at least 2 axes, got ${formatShape(out.dims)}`);
  if (call.attributes.size < 1) throw call.error(`size must be at least 1, got ${call.attributes.size}`);
  return [out];
}

/** Local response normalization across neighbouring channels. */
const LRN = operator({
  name: 'LRN',
  since: [1, 13],
  inputs: [1, 1],
  attributes: lrnSpecs,
  infer: lrnRule,
  reference(call) {
    const [{ type, dims }] = lrnRule(call) as [OutputInfo];
    const { alpha, beta, bias, size } = call.attributes;
    const x = decode(call.tensor(0));
    const channels = dims[1]!;
    const inner = sizeOf(dims.slice(2));
    const below = Math.floor((size - 1) / 2);
    const out = new Float64Array(x.length);
    for (let i = 0; i < out.length; i++) {
      const c = Math.floor(i / inner) % channels;
      let sum = 0;
      for (let k = Math.max(0, c - below); k <= Math.min(channels - 1, c + size - 1 - below); k++)
        sum += x[i + (k - c) * inner]! ** 2;
      out[i] = x[i]! / (bias + (alpha / size) * sum) ** beta;
    }
    return [fromNumbers(type, dims, out)];
  },
  lower(call) {
    const { type, dims } = call.input(0);
    if (type !== 'float32') return false;
    const { alpha, beta, bias, size } = call.attributes;
    const inner = sizeOf(dims.slice(2));
    call.step(
      'lrn',
      { x: call.in(0), y: call.out(0), channels: dims[1]!, inner, size, alpha, beta, bias },
      { units: dims[0]! * dims[1]!, flops: sizeOf(dims) * (2 * size + 40) },
    );
    return true;
  },
});

const lpSpecs = { axis: int(-1), p: int(2) };

/** Vectors along an axis divided by their L1 or L2 norm; a zero vector stays. */
const LpNormalization = operator({
  name: 'LpNormalization',
  since: [1, 22],
  inputs: [1, 1],
  attributes: lpSpecs,
  infer(call) {
    const out = numericRule(call);
    normalized(call, call.attributes.axis, out[0]!.dims.length);
    if (call.attributes.p !== 1 && call.attributes.p !== 2)
      throw call.error(`p must be 1 or 2, got ${call.attributes.p}`);
    return out;
  },
  reference(call) {
    const x = call.tensor(0);
    const axis = normalized(call, call.attributes.axis, x.dims.length);
    const [n, inner] = [x.dims[axis] ?? 1, sizeOf(x.dims.slice(axis + 1))];
    const values = decode(x);
    const out = Float64Array.from(values);
    for (let line = 0; line < x.size / n; line++) {
      const at = (k: number) => (Math.floor(line / inner) * n + k) * inner + (line % inner);
      let norm = 0;
      for (let k = 0; k < n; k++) norm += call.attributes.p === 1 ? Math.abs(values[at(k)]!) : values[at(k)]! ** 2;
      if (call.attributes.p === 2) norm = Math.sqrt(norm);
      for (let k = 0; k < n; k++) out[at(k)] = norm === 0 ? 0 : values[at(k)]! / norm;
    }
    return [fromNumbers(x.type, x.dims, out)];
  },
});

const mvnSpecs = { axes: ints([0, 2, 3]) };

/** (x − mean) / (deviation + 1e-9) over the given axes, as the function in the specification has it. */
const MeanVarianceNormalization = operator({
  name: 'MeanVarianceNormalization',
  since: [9, 13],
  inputs: [1, 1],
  attributes: mvnSpecs,
  infer(call) {
    const out = numericRule(call);
    for (const axis of call.attributes.axes) normalized(call, axis, out[0]!.dims.length);
    return out;
  },
  reference(call) {
    const x = call.tensor(0);
    const values = decode(x);
    const reduced = new Set(call.attributes.axes.map((a) => normalized(call, a, x.dims.length)));
    const strides = stridesOf(x.dims);
    const groups = new Map<number, number[]>();
    for (let i = 0; i < x.size; i++) {
      let key = 0;
      for (const [axis, s] of strides.entries()) if (!reduced.has(axis)) key += (Math.floor(i / s) % x.dims[axis]!) * s;
      const group = groups.get(key);
      if (group === undefined) groups.set(key, [i]);
      else group.push(i);
    }
    const out = new Float64Array(x.size);
    for (const group of groups.values()) {
      const [mean, variance] = momentsOf(group.length, (k) => values[group[k]!]!);
      for (const i of group) out[i] = (values[i]! - mean) / (Math.sqrt(variance) + 1e-9);
    }
    return [fromNumbers(x.type, x.dims, out)];
  },
});

export const olderNormalizationOperators: readonly Operator[] = [LRN, LpNormalization, MeanVarianceNormalization];
