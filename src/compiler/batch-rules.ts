// How operators treat rows, as a table: for a node some of whose inputs hold one row a request along some axis, along
// which axis its outputs hold them, or why rows no longer stand alone. Only what is here is trusted: an operator without
// a rule ends the proof. The walk over the graph, and what rows are, is batch-axis.ts.
import type { Node } from '../graph/graph.js';
import type { OutputInfo, TensorInfo } from '../operators/operator.js';
import { decode } from '../tensor/convert.js';
import { normalizeAxis, sizeOf } from '../tensor/shape.js';

/** An input as a rule sees it. */
export interface RuleInput {
  /** The axis that holds rows; undefined: the same for every request, whatever the batch. */
  readonly axis: number | undefined;
  /** What is known of it at the two batch sizes the proof looks at. */
  readonly infos: readonly [TensorInfo, TensorInfo];
}

/** A node as a rule sees it. */
export interface RuleCall {
  readonly node: Node;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly inputs: readonly (RuleInput | undefined)[];
  readonly outputs: readonly [readonly (OutputInfo | undefined)[], readonly (OutputInfo | undefined)[]];
  /** The batch sizes. */
  readonly sizes: readonly [number, number];
}

/** The axis of every output that has rows (all that are wanted), or why there is none. */
export type Verdict = readonly number[] | string;

export type RowRule = (call: RuleCall) => Verdict;

const all = (c: RuleCall, axis: number): number[] => c.node.outputs.map(() => axis);

const rank = (c: RuleCall, i: number) => c.inputs[i]!.infos[0].dims.length;

const outRank = (c: RuleCall) => c.outputs[0][0]!.dims.length;

/** The axis of input `i`; −1 when it has no rows. */
const axisOf = (c: RuleCall, i: number) => c.inputs[i]?.axis ?? -1;

/** True when none of these inputs has rows. */
const shared = (c: RuleCall, ...which: readonly number[]) => which.every((i) => c.inputs[i]?.axis === undefined);

/** The elements of a small constant input, the same at both sizes; undefined when it has none or they differ. */
function constants(c: RuleCall, i: number): number[] | undefined {
  const [a, b] = [elements(c.inputs[i]?.infos[0]), elements(c.inputs[i]?.infos[1])];
  return a?.length === b?.length && a?.every((x, k) => x === b![k]) ? a : undefined;
}

function elements(info: TensorInfo | undefined): number[] | undefined {
  return info?.value === undefined ? undefined : Array.from(decode(info.value));
}

const attribute = <T>(c: RuleCall, name: string): T | undefined => c.attributes[name] as T | undefined;

/** Aligned at the last axis, as broadcasting does; whatever has rows has them along one axis of the result. */
function broadcast(c: RuleCall, out = outRank(c)): number | string {
  let found: number | undefined;
  for (const x of c.inputs) {
    if (x?.axis === undefined) continue;
    const axis = x.axis + out - x.infos[0].dims.length;
    if (found !== undefined && found !== axis) return 'its inputs hold rows along different axes';
    found = axis;
  }
  return found ?? 'no input holds rows';
}

const elementwise: RowRule = (c) => {
  // Before version 7 the second operand was aligned by the attribute `axis` and could only be broadcast to the first.
  if (c.node.domain === '' && attribute<number>(c, 'broadcast') === 1)
    return shared(c, 1) ? all(c, axisOf(c, 0)) : 'its second operand holds rows and is aligned by an attribute';
  const axis = broadcast(c);
  return typeof axis === 'string' ? axis : all(c, axis);
};

const notTraining: RowRule = (c) => {
  const training =
    attribute<number>(c, 'training_mode') === 1 || (c.inputs[2] !== undefined && constants(c, 2)?.[0] !== 0);
  const old = c.node.opset < 7 && attribute<number>(c, 'is_test') !== 1;
  return training || old ? 'it drops elements at random' : elementwise(c);
};

const needsAxis = (axis: number, what: string) => `it ${what} over axis ${axis}, along which the rows lie`;

function axesOf(c: RuleCall): number[] | undefined {
  const axes = attribute<readonly number[]>(c, 'axes') ?? (c.inputs[1] === undefined ? [] : constants(c, 1));
  return axes?.map((a) => normalizeAxis(a, rank(c, 0)));
}

const reduction: RowRule = (c) => {
  const axes = axesOf(c);
  if (axes === undefined || !shared(c, 1)) return 'the axes it reduces are not constant';
  const batch = axisOf(c, 0);
  if (axes.length === 0 && attribute<number>(c, 'noop_with_empty_axes') === 1) return all(c, batch);
  if (axes.length === 0 || axes.includes(batch)) return needsAxis(batch, 'reduces');
  const lost = attribute<number>(c, 'keepdims') === 0 ? axes.filter((a) => a < batch).length : 0;
  return all(c, batch - lost);
};

const argument: RowRule = (c) => {
  const axis = normalizeAxis(attribute<number>(c, 'axis') ?? 0, rank(c, 0));
  const batch = axisOf(c, 0);
  if (axis === batch) return needsAxis(axis, 'searches');
  return all(c, attribute<number>(c, 'keepdims') === 0 && axis < batch ? batch - 1 : batch);
};

/** Works along one axis and keeps the shape or changes that axis alone. */
const along =
  (what: string, fallback: number): RowRule =>
  (c) => {
    const axis = normalizeAxis(attribute<number>(c, 'axis') ?? fallback, rank(c, 0));
    const batch = axisOf(c, 0);
    return axis === batch ? needsAxis(axis, what) : all(c, batch);
  };

/** Works on everything from an axis on. */
const from =
  (what: string, fallback: number): RowRule =>
  (c) => {
    const axis = normalizeAxis(attribute<number>(c, 'axis') ?? fallback, rank(c, 0));
    const batch = axisOf(c, 0);
    if (batch >= axis) return needsAxis(batch, what);
    return c.inputs.slice(1).every((x) => x?.axis === undefined) ? all(c, batch) : 'its scale or bias holds rows';
  };

/** Softmax and its kin: over one axis since version 13, over all from that axis on before. */
const softmax: RowRule = (c) => (c.node.opset < 13 ? from : along)('normalizes', c.node.opset < 13 ? 1 : -1)(c);

/** Images along axis 0 (channels along 1 mix), weights the same for all. */
const convolution: RowRule = (c) => {
  if (c.inputs.slice(1).some((x) => x?.axis !== undefined)) return 'its weights hold rows';
  return axisOf(c, 0) === 0 ? all(c, 0) : needsAxis(axisOf(c, 0), 'sums');
};

const pooling: RowRule = (c) => {
  if (c.node.outputs.length > 1 && c.node.outputs[1] !== '') return 'its indices count across the whole batch';
  const batch = axisOf(c, 0);
  return batch < 2 ? all(c, batch) : needsAxis(batch, 'pools');
};

/** The images are axis 0, and every other input is the same for all. */
const image: RowRule = (c) => (axisOf(c, 0) === 0 ? convolution(c) : needsAxis(axisOf(c, 0), 'works'));

const batchNormalization: RowRule = (c) => {
  if (attribute<number>(c, 'training_mode') === 1 || (c.node.opset < 7 && attribute<number>(c, 'is_test') !== 1))
    return 'it trains: mean and variance are those of the batch';
  if (c.node.outputs.slice(1).some((o) => o !== '')) return 'it gives the statistics of the batch';
  if (attribute<number>(c, 'spatial') === 0) return 'it has statistics for every element';
  return convolution(c);
};

/** Matrix products: rows of the left, columns of the right, or the leading axes of both; never the summed axis. */
const matMul =
  (a: number, b: number): RowRule =>
  (c) => {
    if (c.inputs.some((x, i) => i !== a && i !== b && x?.axis !== undefined)) return 'a scale or zero point holds rows';
    const [ra, rb] = [rank(c, a), rank(c, b)];
    const [fullA, fullB] = [Math.max(ra, 2), Math.max(rb, 2)];
    const full = Math.max(fullA, fullB);
    let found: number | undefined;
    for (const [i, r, own, summed] of [
      [a, ra, fullA, fullA - 1],
      [b, rb, fullB, fullB - 2],
    ] as const) {
      const axis = c.inputs[i]!.axis;
      if (axis === undefined) continue;
      // A vector on the left is a row, on the right a column.
      const at = r === 1 && i === a ? 1 : axis;
      if (at === summed) return `it sums over axis ${axis} of input ${i}, along which the rows lie`;
      const out = at + full - own;
      if (found !== undefined && (found !== out || out >= full - 2))
        return 'both operands hold rows, along different axes';
      found = out;
    }
    // What a vector operand drops is gone from the result.
    const dropped = (ra === 1 ? [full - 2] : []).concat(rb === 1 ? [full - 1] : []);
    return all(c, found! - dropped.filter((d) => d < found!).length);
  };

const gemm: RowRule = (c) => {
  const [rows, columns] = [attribute<number>(c, 'transA') ? 1 : 0, attribute<number>(c, 'transB') ? 0 : 1];
  const [a, b] = [axisOf(c, 0), axisOf(c, 1)];
  if (a >= 0 && b >= 0) return 'both operands hold rows';
  if ((a >= 0 && a !== rows) || (b >= 0 && b !== columns)) return 'it sums over the axis along which the rows lie';
  const axis = a >= 0 ? 0 : b >= 0 ? 1 : axisOf(c, 2) + 2 - rank(c, 2);
  if (c.inputs[2]?.axis !== undefined && axisOf(c, 2) + 2 - rank(c, 2) !== axis)
    return 'its inputs hold rows along different axes';
  return all(c, axis);
};

const transpose: RowRule = (c) => {
  const perm = attribute<readonly number[]>(c, 'perm');
  const batch = axisOf(c, 0);
  return all(c, perm === undefined ? rank(c, 0) - 1 - batch : perm.indexOf(batch));
};

/**
 * The elements keep their order; rows stay whole where the axes before them have the same product and their own axis
 * is again a multiple of the batch. [N, 4, 8] → [N·4, 8] keeps them (each row is 4 of the new ones); [2, N] → [2·N] not.
 */
const reshape: RowRule = (c) => {
  if (!shared(c, 1)) return 'its shape holds rows';
  const batch = axisOf(c, 0);
  const before = c.inputs[0]!.infos.map((x) => sizeOf(x.dims.slice(0, batch)));
  const outs = c.outputs.map((o) => o[0]!.dims);
  for (let j = 0; j < outs[0]!.length; j++) {
    const fits = [0, 1].every((k) => {
      const dims = outs[k]!;
      return sizeOf(dims.slice(0, j)) === before[k] && dims[j]! % c.sizes[k]! === 0 && dims[j]! >= c.sizes[k]!;
    });
    if (fits && outs[0]![j]! / c.sizes[0]! === outs[1]![j]! / c.sizes[1]!) return all(c, j);
  }
  return `it folds axis ${batch}, along which the rows lie, into another`;
};

const concat: RowRule = (c) => {
  const axis = normalizeAxis(attribute<number>(c, 'axis') ?? 1, rank(c, 0));
  const axes = new Set(c.inputs.map((x) => x?.axis));
  if (axes.size !== 1) return 'not all of its inputs hold rows along one axis';
  const batch = axisOf(c, 0);
  return axis === batch ? needsAxis(axis, 'joins') : all(c, batch);
};

/** An end no tensor reaches: exporters write INT_MAX for "to the end". */
const TO_THE_END = 2 ** 31 - 1;

/** Of the batch axis a slice must take all, whatever the batch; ends may hold the batch size there and nowhere else. */
const slice: RowRule = (c) => {
  const batch = axisOf(c, 0);
  const old = c.node.opset < 10;
  const list = (i: number, name: string): readonly number[] | undefined =>
    old ? attribute<readonly number[]>(c, name) : constants(c, i);
  const starts = list(1, 'starts');
  const ends = [0, 1].map((k) => (old ? attribute<readonly number[]>(c, 'ends') : elements(c.inputs[2]?.infos[k])));
  const [first, second] = ends;
  const axes = list(3, 'axes') ?? (c.inputs[3] === undefined ? starts?.map((_, i) => i) : undefined);
  const steps = list(4, 'steps') ?? (c.inputs[4] === undefined ? starts?.map(() => 1) : undefined);
  if (!starts || !first || !second || !axes || !steps) return 'what it takes is not constant';
  for (const [i, axis] of axes.entries()) {
    if (normalizeAxis(axis, rank(c, 0)) !== batch) {
      if (first[i] !== second[i]) return 'what it takes depends on the batch size';
      continue;
    }
    const dims = c.inputs[0]!.infos.map((x) => x.dims[batch]!);
    const whole =
      (first[i]! >= TO_THE_END && second[i]! >= TO_THE_END) || (first[i] === dims[0] && second[i] === dims[1]);
    if (starts[i] !== 0 || steps[i] !== 1 || !whole) return `it takes some of axis ${batch}, along which the rows lie`;
  }
  return all(c, batch);
};

const gather: RowRule = (c) => {
  const axis = normalizeAxis(attribute<number>(c, 'axis') ?? 0, rank(c, 0));
  const [data, indices] = [axisOf(c, 0), axisOf(c, 1)];
  if (data >= 0 && indices >= 0) return 'data and indices both hold rows';
  if (indices >= 0) return all(c, axis + indices);
  if (data === axis) return needsAxis(axis, 'picks');
  return all(c, data < axis ? data : data + rank(c, 1) - 1);
};

/** Data, indices (and updates) go by the same rows; elements move along another axis. */
const gatherElements: RowRule = (c) => {
  const axis = normalizeAxis(attribute<number>(c, 'axis') ?? 0, rank(c, 0));
  const axes = new Set(c.inputs.map((x) => x?.axis));
  if (axes.size !== 1) return 'not all of its inputs hold rows along one axis';
  return axis === axisOf(c, 0) ? needsAxis(axis, 'picks') : all(c, axisOf(c, 0));
};

const gatherND: RowRule = (c) => {
  const batchDims = attribute<number>(c, 'batch_dims') ?? 0;
  const [data, indices] = [axisOf(c, 0), axisOf(c, 1)];
  if (data < 0) return indices < rank(c, 1) - 1 ? all(c, indices) : 'an index is spread over rows';
  return data === indices && data < batchDims ? all(c, data) : 'it picks from all rows';
};

const pad: RowRule = (c) => {
  const r = rank(c, 0);
  const batch = axisOf(c, 0);
  const pads =
    attribute<readonly number[]>(c, 'pads') ?? attribute<readonly number[]>(c, 'paddings') ?? constants(c, 1);
  if (pads === undefined || !shared(c, 1, 2, 3)) return 'what it adds is not constant';
  const axes = (c.inputs[3] && constants(c, 3)) ?? Array.from({ length: r }, (_, i) => i);
  const at = axes.findIndex((a) => normalizeAxis(a, r) === batch);
  if (at >= 0 && (pads[at] !== 0 || pads[at + axes.length] !== 0)) return needsAxis(batch, 'pads');
  return all(c, batch);
};

const tile: RowRule = (c) => {
  const batch = axisOf(c, 0);
  return constants(c, 1)?.[batch] === 1 ? all(c, batch) : needsAxis(batch, 'repeats');
};

/** The shape may hold the batch size; the result must have it where the rows are. */
const expand: RowRule = (c) => {
  if (!shared(c, 1)) return 'its shape holds rows';
  return all(c, axisOf(c, 0) + outRank(c) - rank(c, 0));
};

const resize: RowRule = (c) => {
  if (c.inputs.slice(1).some((x) => x?.axis !== undefined)) return 'its scales or sizes hold rows';
  const batch = axisOf(c, 0);
  const r = rank(c, 0);
  const at = (attribute<readonly number[]>(c, 'axes') ?? Array.from({ length: r }, (_, i) => i)).findIndex(
    (a) => normalizeAxis(a, r) === batch,
  );
  // A scale near 1 rounds to the same size for small batches only; sizes have been compared at two of them.
  const scales = attribute<readonly number[]>(c, 'scales') ?? constants(c, c.node.opset < 11 ? 1 : 2);
  if (at >= 0 && scales !== undefined && scales.length > 0 && scales[at] !== 1) return needsAxis(batch, 'interpolates');
  const kept = [0, 1].every((k) => c.outputs[k]![0]!.dims[batch] === c.inputs[0]!.infos[k]!.dims[batch]);
  return kept && batch < 2 ? all(c, batch) : needsAxis(batch, 'interpolates');
};

/** LSTM, GRU and RNN: rows are the batch; time is another axis. */
const recurrent: RowRule = (c) => {
  const first = attribute<number>(c, 'layout') === 1;
  const expected = [first ? 0 : 1, undefined, undefined, undefined, 0, first ? 0 : 1, first ? 0 : 1, undefined];
  for (const [i, x] of c.inputs.entries())
    if (x !== undefined && x.axis !== expected[i])
      return x.axis === undefined
        ? `input ${i} is the same for every request`
        : `input ${i} holds rows along axis ${x.axis}`;
  return c.node.outputs.map((_, i) => (first ? 0 : i === 0 ? 2 : 1));
};

/** X · Wᵀ for every direction, which comes in front. */
const projection: RowRule = (c) => {
  if (!shared(c, 1)) return 'its weights hold rows';
  const batch = axisOf(c, 0);
  return batch === rank(c, 0) - 1 ? needsAxis(batch, 'sums') : all(c, batch + 1);
};

/** Attention: every input that has a batch holds rows along axis 0; a mask may also be the same for all. */
const attention: RowRule = (c) => {
  for (const i of [0, 1, 2])
    if (c.inputs[i] !== undefined && axisOf(c, i) !== 0) return `input ${i} must hold rows along axis 0`;
  const mask = c.inputs[3];
  if (mask?.axis !== undefined && (mask.axis !== 0 || rank(c, 3) !== 4))
    return 'its mask holds rows along another axis';
  for (const i of [4, 5, 6])
    if (c.inputs[i] !== undefined && axisOf(c, i) !== 0) return `input ${i} must hold rows along axis 0`;
  return all(c, 0);
};

const einsum: RowRule = (c) => {
  const [left, right] = (attribute<string>(c, 'equation') ?? '').replaceAll(' ', '').split('->');
  if (left === undefined || right === undefined || left.includes('.')) return 'its equation is not written out';
  const terms = left.split(',');
  const letters = new Set(c.inputs.flatMap((x, i) => (x?.axis === undefined ? [] : [terms[i]![x.axis]!])));
  const [letter] = letters;
  if (letters.size !== 1 || letter === undefined) return 'its inputs hold rows along different axes';
  if (terms.some((t, i) => t.includes(letter) && (c.inputs[i]!.axis === undefined || t.split(letter).length > 2)))
    return 'an input without rows has their axis';
  const at = right.indexOf(letter);
  return at < 0 ? `it sums over '${letter}', along which the rows lie` : all(c, at);
};

const oneHot: RowRule = (c) => {
  if (!shared(c, 1, 2)) return 'depth or values hold rows';
  const axis = normalizeAxis(attribute<number>(c, 'axis') ?? -1, outRank(c));
  const batch = axisOf(c, 0);
  return all(c, axis <= batch ? batch + 1 : batch);
};

const cumulative: RowRule = (c) => {
  const axis = constants(c, 1)?.[0];
  const batch = axisOf(c, 0);
  if (axis === undefined) return 'its axis is not constant';
  return normalizeAxis(axis, rank(c, 0)) === batch ? needsAxis(batch, 'accumulates') : all(c, batch);
};

/** Works on the matrices of the last two axes. */
const matrices: RowRule = (c) => {
  const batch = axisOf(c, 0);
  return batch < rank(c, 0) - 2 && shared(c, 1) ? all(c, batch) : needsAxis(batch, 'works');
};

const channels: RowRule = (c) => (axisOf(c, 0) === 1 ? needsAxis(1, 'normalizes') : all(c, axisOf(c, 0)));

const meanVariance: RowRule = (c) => {
  const axes = attribute<readonly number[]>(c, 'axes') ?? [0, 2, 3];
  const batch = axisOf(c, 0);
  return axes.some((a) => normalizeAxis(a, rank(c, 0)) === batch) ? needsAxis(batch, 'normalizes') : all(c, batch);
};

const lastAxis: RowRule = (c) => {
  const batch = axisOf(c, 0);
  if (batch === rank(c, 0) - 1) return needsAxis(batch, 'normalizes');
  // Skip and bias inputs: the skip goes by the same rows.
  return c.inputs.every((x) => x?.axis === undefined || x.axis + outRank(c) - x.infos[0].dims.length === batch)
    ? all(c, batch)
    : 'its inputs hold rows along different axes';
};

const quantized: RowRule = (c) =>
  c.inputs.slice(1).every((x) => x?.axis === undefined) ? all(c, axisOf(c, 0)) : 'its scale or zero point holds rows';

const bothImages: RowRule = (c) =>
  axisOf(c, 0) === 0 && axisOf(c, 1) === 0 ? all(c, 0) : 'images and grid do not go by the same rows';

const each = (rule: RowRule, names: string): [string, RowRule][] => names.split(' ').map((n) => [n, rule]);

/** Rules by `Operator`, or `domain:Operator`. */
export const rowRules: ReadonlyMap<string, RowRule> = new Map<string, RowRule>([
  ...each(
    elementwise,
    'Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike Ceil ' +
      'Celu Clip Cos Cosh Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish Identity IsInf ' +
      'IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu ' +
      'Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor ' +
      'com.microsoft:Gelu com.microsoft:FastGelu com.microsoft:BiasGelu com.microsoft:QuickGelu',
  ),
  ...each(notTraining, 'Dropout'),
  ...each(
    reduction,
    'ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare',
  ),
  ...each(argument, 'ArgMax ArgMin'),
  ...each(softmax, 'Softmax LogSoftmax Hardmax'),
  ...each(along('sorts', -1), 'TopK'),
  ...each(along('normalizes', -1), 'LpNormalization'),
  ...each(along('splits', 0), 'Split'),
  ...each(from('normalizes', -1), 'LayerNormalization RMSNormalization SimplifiedLayerNormalization'),
  ...each(lastAxis, 'com.microsoft:SkipLayerNormalization com.microsoft:SkipSimplifiedLayerNormalization'),
  ...each(convolution, 'Conv ConvTranspose ConvInteger QLinearConv com.microsoft:FusedConv'),
  ...each(pooling, 'MaxPool AveragePool LpPool GlobalAveragePool GlobalMaxPool GlobalLpPool'),
  ...each(image, 'InstanceNormalization GroupNormalization DepthToSpace SpaceToDepth Col2Im'),
  ...each(batchNormalization, 'BatchNormalization'),
  ...each(channels, 'LRN'),
  ...each(meanVariance, 'MeanVarianceNormalization'),
  ...each(matMul(0, 1), 'MatMul MatMulInteger com.microsoft:MatMulIntegerToFloat'),
  ...each(matMul(0, 3), 'QLinearMatMul'),
  ...each(lastAxis, 'com.microsoft:MatMulNBits'),
  ...each(gemm, 'Gemm'),
  ...each(einsum, 'Einsum'),
  ...each(transpose, 'Transpose'),
  ...each(reshape, 'Reshape Flatten Squeeze Unsqueeze'),
  ...each(concat, 'Concat'),
  ...each(slice, 'Slice'),
  ...each(gather, 'Gather'),
  ...each(gatherElements, 'GatherElements ScatterElements Scatter'),
  ...each(gatherND, 'GatherND'),
  ...each(pad, 'Pad'),
  ...each(tile, 'Tile'),
  ...each(expand, 'Expand'),
  ...each(resize, 'Resize Upsample'),
  ...each(recurrent, 'LSTM GRU RNN'),
  ...each(projection, 'skep:Projection'),
  ...each(attention, 'Attention'),
  ...each(oneHot, 'OneHot'),
  ...each(cumulative, 'CumSum'),
  ...each(matrices, 'Trilu Det'),
  ...each(quantized, 'QuantizeLinear DequantizeLinear'),
  ...each(bothImages, 'GridSample'),
]);

/** Why the operators that people expect to be mergeable are not; others just have no rule. */
export const refusals: ReadonlyMap<string, string> = new Map([
  ['DynamicQuantizeLinear', 'it takes one scale from the whole tensor, all rows together'],
  ['com.microsoft:DynamicQuantizeMatMul', 'it takes one scale from the whole tensor, all rows together'],
  ['Loop', 'its iterations may go over rows'],
  ['Scan', 'its iterations may go over rows'],
  ['NonZero', 'the shape of its result depends on data'],
  ['Unique', 'the shape of its result depends on data'],
  ['Compress', 'the shape of its result depends on data'],
  ['NonMaxSuppression', 'the shape of its result depends on data'],
  ['Range', 'it numbers rows by their place in the batch'],
]);
