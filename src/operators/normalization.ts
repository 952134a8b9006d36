// Normalizations: batch (by given statistics in inference), layer, RMS, instance and group; older ones are in
// normalization-older.ts. Layer, instance and group normalization are one thing with rows cut
// differently: elements of a row share mean and variance, and a channel tells which scale and bias an element gets.
import { decode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { sizeOf } from '../tensor/shape.js';
import type { Tensor } from '../tensor/tensor.js';
import { dataTypeOf } from '../tensor/types.js';
import { type AttributesOf, float, int, required } from './attributes.js';
import { type InferCall, type LowerCall, type Operator, type OutputInfo, operator } from './operator.js';
import { normalized } from './reduce.js';
import { forEachBroadcast, fromNumbers } from './reference.js';
import { numericRule } from './unary.js';

/** A vector of one value a channel; an error names the input otherwise. */
function channelVector(call: InferCall<unknown>, i: number, what: string, channels: number): void {
  const { dims } = call.input(i);
  if (sizeOf(dims) !== channels) throw call.error(`expected ${what} of ${channels} values, got ${formatShape(dims)}`);
}

const batchSpecs = {
  epsilon: float(1e-5),
  momentum: float(0.9),
  training_mode: int(0),
  is_test: int(0),
  spatial: int(1),
};
type BatchCall = InferCall<AttributesOf<typeof batchSpecs>>;

/** images × channels × inner; without `spatial` (before version 9) every position has statistics of its own. */
function planesOf(call: BatchCall): { images: number; channels: number; inner: number } {
  const { dims } = call.input(0);
  if (dims.length === 0) throw call.error('input 0 must have at least one axis');
  const images = dims.length === 1 ? 1 : dims[0]!;
  if (call.opset < 9 && call.attributes.spatial === 0) return { images, channels: sizeOf(dims.slice(1)), inner: 1 };
  const channels = dims.length === 1 ? 1 : dims[1]!;
  return dims.length === 1
    ? { images: dims[0]!, channels, inner: 1 }
    : { images, channels, inner: sizeOf(dims.slice(2)) };
}

function isTraining(call: BatchCall): boolean {
  if (call.opset >= 14) return call.attributes.training_mode !== 0;
  return call.outputCount > 1 && !(call.opset < 7 && call.attributes.is_test !== 0);
}

function batchRule(call: BatchCall): OutputInfo[] {
  const [y] = numericRule(call) as [OutputInfo];
  const { channels } = planesOf(call);
  for (const [i, what] of ['scale', 'B', 'mean', 'var'].entries()) channelVector(call, i + 1, what, channels);
  if (!isTraining(call)) return [y];
  const statistics: OutputInfo = { type: call.input(3).type, dims: call.input(3).dims };
  return [y, statistics, statistics, statistics, statistics];
}

/** (x − mean) / √(var + ε) · scale + B by channel. In training mode with the statistics of the batch itself. */
const BatchNormalization = operator({
  name: 'BatchNormalization',
  since: [1, 6, 7, 9, 14, 15],
  inputs: [5, 5],
  attributes: batchSpecs,
  infer: batchRule,
  reference(call) {
    const [y] = batchRule(call) as [OutputInfo];
    const [x, scale, bias, mean, variance] = [0, 1, 2, 3, 4].map((i) => decode(call.tensor(i))) as ArrayLike<number>[];
    const { images, channels, inner } = planesOf(call);
    const { epsilon, momentum } = call.attributes;
    const training = isTraining(call);
    const out = new Float64Array(x!.length);
    const means = Float64Array.from(mean!);
    const variances = Float64Array.from(variance!);
    for (let c = 0; c < channels; c++) {
      const at = (n: number, i: number) => (n * channels + c) * inner + i;
      if (training)
        [means[c], variances[c]] = momentsOf(images * inner, (k) => x![at(Math.floor(k / inner), k % inner)]!);
      const a = scale![c]! / Math.sqrt(variances[c]! + epsilon);
      for (let n = 0; n < images; n++)
        for (let i = 0; i < inner; i++) out[at(n, i)] = (x![at(n, i)]! - means[c]!) * a + bias![c]!;
    }
    const result = [fromNumbers(y.type, y.dims, out)];
    if (!training) return result;
    const info = call.input(3);
    const running = (old: ArrayLike<number>, now: Float64Array) =>
      fromNumbers(
        info.type,
        info.dims,
        now.map((v, c) => old[c]! * momentum + v * (1 - momentum)),
      );
    const saved = [means, variances].map((v) => fromNumbers(info.type, info.dims, v));
    return [...result, running(mean!, means), running(variance!, variances), ...saved];
  },
  lower(call) {
    if (call.input(0).type !== 'float32' || isTraining(call)) return false;
    if ([1, 2, 3, 4].some((i) => call.input(i).type !== 'float32')) return false;
    const { images, channels, inner } = planesOf(call);
    call.step(
      'channelNorm',
      {
        x: call.in(0),
        y: call.out(0),
        scale: call.in(1),
        bias: call.in(2),
        mean: call.in(3),
        variance: call.in(4),
        channels,
        inner,
        epsilon: call.attributes.epsilon,
        activation: 0,
        alpha: 0,
        beta: 0,
      },
      {
        units: images * channels,
        grain: Math.max(1, Math.ceil(4096 / Math.max(1, inner))),
        flops: 2 * sizeOf(call.input(0).dims),
      },
    );
    return true;
  },
});

/** Mean and (population) variance of n numbers. */
export function momentsOf(n: number, at: (i: number) => number): [number, number] {
  let mean = 0;
  for (let i = 0; i < n; i++) mean += at(i) / n;
  let variance = 0;
  for (let i = 0; i < n; i++) variance += (at(i) - mean) ** 2 / n;
  return [mean, variance];
}

/** How a tensor is cut into rows that are normalized alone, and which channel element i of row r belongs to. */
interface Cut {
  readonly rows: number;
  readonly n: number;
  /** channel = (r % cycle) · perRow + ⌊i / span⌋ */
  readonly cycle: number;
  readonly perRow: number;
  readonly span: number;
}

interface Normalized {
  readonly y: Float64Array;
  readonly mean: Float64Array;
  readonly inverse: Float64Array;
}

function normalizeRows(x: ArrayLike<number>, { rows, n }: Cut, epsilon: number, rms: boolean): Normalized {
  const [y, mean, inverse] = [new Float64Array(x.length), new Float64Array(rows), new Float64Array(rows)];
  for (let r = 0; r < rows; r++) {
    const at = (i: number) => x[r * n + i]!;
    let [m, variance] = momentsOf(n, at);
    if (rms) [m, variance] = [0, momentsOf(n, (i) => at(i) ** 2)[0]];
    mean[r] = m;
    inverse[r] = 1 / Math.sqrt(variance + epsilon);
    for (let i = 0; i < n; i++) y[r * n + i] = (at(i) - m) * inverse[r]!;
  }
  return { y, mean, inverse };
}

/** y · scale + bias by channel. */
function scaleRows(y: Float64Array, cut: Cut, scale: ArrayLike<number>, bias: ArrayLike<number>): Float64Array {
  return y.map((v, k) => {
    const [r, i] = [Math.floor(k / cut.n), k % cut.n];
    const c = (r % cut.cycle) * cut.perRow + Math.floor(i / cut.span);
    return v * scale[c]! + bias[c]!;
  });
}

function lowerRows(
  call: LowerCall<unknown>,
  { rows, n, cycle, perRow, span }: Cut,
  epsilon: number,
  rms: boolean,
  saves: boolean,
): boolean {
  const given = [0, 1, 2].filter((i) => call.has(i));
  if (given.some((i) => call.input(i).type !== 'float32')) return false;
  call.step(
    'rowNorm',
    {
      x: call.in(0),
      y: call.out(0),
      scale: call.has(1) ? call.in(1) : 0,
      bias: call.has(2) ? call.in(2) : 0,
      mean: saves && call.wants(1) ? call.out(1) : 0,
      inverse: saves && call.wants(2) ? call.out(2) : 0,
      n,
      rms: rms ? 1 : 0,
      epsilon,
      cycle,
      perRow,
      span,
    },
    { units: rows, grain: Math.max(1, Math.ceil(2048 / Math.max(1, n))), flops: 8 * rows * n },
  );
  return true;
}

const instanceSpecs = { epsilon: float(1e-5) };

function instanceCut(call: InferCall<unknown>): Cut {
  const { dims } = call.input(0);
  if (dims.length < 3) throw call.error(`input 0 must have at least 3 axes, got ${formatShape(dims)}`);
  const channels = dims[1]!;
  for (const [i, what] of ['scale', 'B'].entries()) channelVector(call, i + 1, what, channels);
  const n = sizeOf(dims.slice(2));
  return { rows: dims[0]! * channels, n, cycle: Math.max(channels, 1), perRow: 1, span: Math.max(n, 2) };
}

/** Every channel of every image to mean 0 and variance 1. */
const InstanceNormalization = operator({
  name: 'InstanceNormalization',
  since: [1, 6, 22],
  inputs: [3, 3],
  attributes: instanceSpecs,
  infer(call) {
    instanceCut(call);
    return numericRule(call);
  },
  reference(call) {
    const [{ type, dims }] = numericRule(call) as [OutputInfo];
    const cut = instanceCut(call);
    const { y } = normalizeRows(decode(call.tensor(0)), cut, call.attributes.epsilon, false);
    return [fromNumbers(type, dims, scaleRows(y, cut, decode(call.tensor(1)), decode(call.tensor(2))))];
  },
  lower(call) {
    const cut = instanceCut(call);
    // A piece of a row that is the whole row: span 1 means something else to the kernel.
    return cut.n > 1 && lowerRows(call, { ...cut, span: cut.n }, call.attributes.epsilon, false, false);
  },
});

const groupSpecs = { epsilon: float(1e-5), num_groups: required(int()), stash_type: int(1) };

function groupCut(call: InferCall<AttributesOf<typeof groupSpecs>>): Cut {
  const { dims } = call.input(0);
  const { num_groups: groups } = call.attributes;
  if (dims.length < 2) throw call.error(`input 0 must have at least 2 axes, got ${formatShape(dims)}`);
  const channels = dims[1]!;
  if (groups < 1 || channels % groups !== 0)
    throw call.error(`${channels} channels do not divide into ${groups} groups`);
  const inner = sizeOf(dims.slice(2));
  // Version 18 has a scale a group, version 21 one a channel.
  const each = call.opset < 21 && sizeOf(call.input(1).dims) === groups ? channels / groups : 1;
  for (const [i, what] of ['scale', 'bias'].entries()) channelVector(call, i + 1, what, channels / each);
  const perRow = channels / groups / each;
  return { rows: dims[0]! * groups, n: (channels / groups) * inner, cycle: groups, perRow, span: inner * each };
}

/** Groups of channels of every image to mean 0 and variance 1. */
const GroupNormalization = operator({
  name: 'GroupNormalization',
  since: [18, 21],
  inputs: [3, 3],
  attributes: groupSpecs,
  infer(call) {
    groupCut(call);
    return numericRule(call);
  },
  reference(call) {
    const [{ type, dims }] = numericRule(call) as [OutputInfo];
    const cut = groupCut(call);
    const { y } = normalizeRows(decode(call.tensor(0)), cut, call.attributes.epsilon, false);
    return [fromNumbers(type, dims, scaleRows(y, cut, decode(call.tensor(1)), decode(call.tensor(2))))];
  },
  lower: (call) => lowerRows(call, groupCut(call), call.attributes.epsilon, false, false),
});

const layerSpecs = { axis: int(-1), epsilon: float(1e-5), stash_type: int(1) };
type LayerCall = InferCall<AttributesOf<typeof layerSpecs>>;

/** Rows of everything from `axis` on. */
function layerCut(call: LayerCall): Cut {
  const { dims } = call.input(0);
  const axis = normalized(call, call.attributes.axis, dims.length);
  const n = sizeOf(dims.slice(axis));
  for (const i of [1, 2]) {
    const given = call.optional(i)?.dims;
    if (given === undefined) continue;
    const lead = dims.length - given.length;
    if (lead < 0 || given.some((d, k) => d !== 1 && d !== dims[lead + k]))
      throw call.error(`input ${i} of shape ${formatShape(given)} does not broadcast to ${formatShape(dims)}`);
  }
  return { rows: sizeOf(dims.slice(0, axis)), n, cycle: 1, perRow: 0, span: 1 };
}

function layerRule(call: LayerCall, rms: boolean): OutputInfo[] {
  const [y] = numericRule(call) as [OutputInfo];
  layerCut(call);
  if (rms) return [{ ...y, type: call.optional(1)?.type ?? y.type }];
  const axis = normalized(call, call.attributes.axis, y.dims.length);
  const stash = dataTypeOf(call.attributes.stash_type);
  if (stash === undefined) throw call.error(`unknown stash_type ${call.attributes.stash_type}`);
  const statistics: OutputInfo = { type: stash, dims: y.dims.map((d, i) => (i < axis ? d : 1)) };
  return [y, statistics, statistics];
}

/** y · scale + bias, broadcast as numpy does. */
function scaleBroadcast(
  y: Float64Array,
  like: Tensor,
  scale: Tensor | undefined,
  bias: Tensor | undefined,
): Float64Array {
  const out = Float64Array.from(y);
  for (const [t, f] of [
    [scale, (v: number, s: number) => v * s],
    [bias, (v: number, b: number) => v + b],
  ] as const) {
    if (t === undefined) continue;
    const values = decode(t);
    forEachBroadcast([t], like.dims, ([k], i) => {
      out[i] = f(out[i]!, values[k!]!);
    });
  }
  return out;
}

function layer(name: string, since: readonly number[], rms: boolean): Operator {
  return operator({
    name,
    since,
    inputs: [2, rms ? 2 : 3],
    attributes: layerSpecs,
    infer: (call) => layerRule(call, rms),
    reference(call) {
      const [out, statistics] = layerRule(call, rms) as [OutputInfo, OutputInfo?];
      const x = call.tensor(0);
      const { y, mean, inverse } = normalizeRows(decode(x), layerCut(call), call.attributes.epsilon, rms);
      const bias = call.has(2) ? call.tensor(2) : undefined;
      const result = fromNumbers(out.type, out.dims, scaleBroadcast(y, x, call.tensor(1), bias));
      if (statistics === undefined) return [result];
      return [result, ...[mean, inverse].map((v) => fromNumbers(statistics.type, statistics.dims, v))];
    },
    lower(call) {
      const cut = layerCut(call);
      if (call.attributes.stash_type !== 1) return false;
      // The kernel takes a scale and bias for every element of a row.
      if ([1, 2].some((i) => call.has(i) && sizeOf(call.input(i).dims) !== cut.n)) return false;
      return lowerRows(call, cut, call.attributes.epsilon, rms, !rms);
    },
  });
}

export const normalizationOperators: readonly Operator[] = [
  BatchNormalization,
  InstanceNormalization,
  GroupNormalization,
  layer('LayerNormalization', [17], false),
  layer('RMSNormalization', [23], true),
];
