// Reading where indices say: Gather (whole slices along an axis), GatherElements (single elements along an axis),
// GatherND (slices at index tuples). Writing is in scatter.ts. Negative indices count from the end; one outside its axis
// is an error: the reference raises it, and the executor before it runs a kernel, which cannot (`checkedIndices`).
import { decode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { sameShape, sizeOf, stridesOf } from '../tensor/shape.js';
import { int } from './attributes.js';
import { byteStrides, elementBytes } from './copy.js';
import {
  type Call,
  type IndexRange,
  type InferCall,
  type LowerCall,
  type Operator,
  operator,
  type TensorInfo,
} from './operator.js';
import { axisOf, outputOf, pick } from './pick.js';

/** `index` counted from the front; an error when it is outside [−dim, dim). */
export function indexIn(call: Call<unknown>, index: number, dim: number): number {
  if (!(index >= -dim && index < dim))
    throw call.error(`index ${index} is outside [${-dim}, ${dim - 1}]`, 'INVALID_INPUT');
  return index < 0 ? index + dim : index;
}

/** 1 for int64 indices, 0 for int32; undefined for anything kernels do not read. */
export function indexWidth(info: TensorInfo): number | undefined {
  return info.type === 'int64' ? 1 : info.type === 'int32' ? 0 : undefined;
}

/**
 * What `step` is told of the indices of input `i` (kernel parameter `field`): constants are checked here, others before
 * every run. `limits`: the dimensions that they index, in turn.
 */
export function checkedIndices(
  call: LowerCall<unknown>,
  i: number,
  limits: readonly number[],
  { field = 'indices', negative = true }: { readonly field?: string; readonly negative?: boolean } = {},
): { readonly indices?: IndexRange } {
  const { type, dims, value } = call.input(i);
  if (value === undefined) return { indices: { field, wide: type === 'int64', count: sizeOf(dims), limits, negative } };
  const constants = decode(value);
  for (let k = 0; k < constants.length; k++) {
    const [index, limit] = [constants[k]!, limits[k % limits.length]!];
    indexIn(call, negative ? index : index < 0 ? Number.NaN : index, limit);
  }
  return {};
}

/** Least units of `bytes` each that are worth a claim. */
export function grainOf(bytes: number): number {
  return Math.max(1, Math.floor(16384 / Math.max(bytes, 8)));
}

const Gather = operator({
  name: 'Gather',
  since: [1, 11, 13],
  inputs: [2, 2],
  attributes: { axis: int(0) },
  infer(call) {
    const { type, dims } = call.input(0);
    const axis = axisOf(call, call.attributes.axis, dims.length);
    return [outputOf(call, type, [...dims.slice(0, axis), ...call.input(1).dims, ...dims.slice(axis + 1)])];
  },
  reference(call) {
    const t = call.tensor(0);
    const axis = axisOf(call, call.attributes.axis, t.dims.length);
    const n = t.dims[axis]!;
    const indices = call.ints(1)!.map((i) => indexIn(call, i, n));
    const dims = [...t.dims.slice(0, axis), ...call.input(1).dims, ...t.dims.slice(axis + 1)];
    outputOf(call, t.type, dims);
    const inner = sizeOf(t.dims.slice(axis + 1));
    return [
      pick(t, dims, (i) => {
        const slice = Math.floor(i / inner);
        const outer = Math.floor(slice / indices.length);
        return (outer * n + indices[slice % indices.length]!) * inner + (i % inner);
      }),
    ];
  },
  lower(call) {
    const { type, dims } = call.input(0);
    const size = elementBytes(type);
    const wide = indexWidth(call.input(1));
    const axis = axisOf(call, call.attributes.axis, dims.length);
    if (size === 0 || wide === undefined || dims[axis] === 0) return false;
    const count = sizeOf(call.input(1).dims);
    const run = sizeOf(dims.slice(axis + 1)) * size;
    const outer = sizeOf(dims.slice(0, axis));
    if (outer * count * run === 0) return true;
    call.step(
      'gather',
      { data: call.in(0), indices: call.in(1), output: call.out(0), count, axisDim: dims[axis]!, run, wide },
      { units: outer * count, grain: grainOf(run), ...checkedIndices(call, 1, [dims[axis]!]) },
    );
    return true;
  },
});

/** Data and indices of the Elements operators, checked. */
export function elementwiseAxis(call: InferCall<{ readonly axis: number }>): {
  readonly axis: number;
  readonly dims: readonly number[];
  readonly indexDims: readonly number[];
} {
  const { dims } = call.input(0);
  const indexDims = call.input(1).dims;
  const axis = axisOf(call, call.attributes.axis, dims.length);
  if (indexDims.length !== dims.length || indexDims.some((d, a) => a !== axis && d > dims[a]!))
    throw call.error(
      `indices of shape ${formatShape(indexDims)} do not fit data of shape ${formatShape(dims)} beside axis ${axis}`,
    );
  return { axis, dims, indexDims };
}

const GatherElements = operator({
  name: 'GatherElements',
  since: [11, 13],
  inputs: [2, 2],
  attributes: { axis: int(0) },
  infer(call) {
    elementwiseAxis(call);
    return [outputOf(call, call.input(0).type, call.input(1).dims)];
  },
  reference(call) {
    const { axis, dims, indexDims } = elementwiseAxis(call);
    const indices = call.ints(1)!;
    const strides = stridesOf(dims);
    const own = stridesOf(indexDims);
    return [
      pick(call.tensor(0), indexDims, (i) => {
        let s = 0;
        for (let a = 0; a < dims.length; a++)
          s +=
            strides[a]! * (a === axis ? indexIn(call, indices[i]!, dims[a]!) : Math.floor(i / own[a]!) % indexDims[a]!);
        return s;
      }),
    ];
  },
  lower(call) {
    const { axis, dims, indexDims } = elementwiseAxis(call);
    const size = elementBytes(call.input(0).type);
    const wide = indexWidth(call.input(1));
    if (size === 0 || wide === undefined || dims[axis] === 0) return false;
    const total = sizeOf(indexDims);
    if (total === 0) return true;
    const strides = byteStrides(dims, size);
    const run = indexDims.at(-1)!;
    call.step(
      'gatherElements',
      {
        data: call.in(0),
        indices: call.in(1),
        output: call.out(0),
        dims: indexDims,
        strides: strides.with(axis, 0),
        rank: dims.length,
        axisDim: dims[axis]!,
        axisStride: strides[axis]!,
        size,
        wide,
      },
      { units: total / run, grain: grainOf(run * size), ...checkedIndices(call, 1, [dims[axis]!]) },
    );
    return true;
  },
});

/** How GatherND and ScatterND read their index tuples. */
export function tuplesOf(
  call: Call<unknown>,
  dims: readonly number[],
  indexDims: readonly number[],
  batch: number,
): { readonly tuple: number; readonly count: number; readonly rest: readonly number[] } {
  const tuple = indexDims.at(-1);
  if (tuple === undefined || dims.length === 0) throw call.error('data and indices must have at least one axis');
  if (batch < 0 || batch >= Math.min(dims.length, indexDims.length) || tuple < 0 || batch + tuple > dims.length)
    throw call.error(
      `indices of shape ${formatShape(indexDims)} with ${batch} batch axes do not fit data of shape ${formatShape(dims)}`,
    );
  if (!sameShape(dims.slice(0, batch), indexDims.slice(0, batch)))
    throw call.error(`the first ${batch} axes of ${formatShape(dims)} and ${formatShape(indexDims)} must be equal`);
  return { tuple, count: sizeOf(indexDims.slice(0, -1)), rest: dims.slice(batch + tuple) };
}

function gatherNDDims(call: InferCall<{ readonly batch_dims: number }>) {
  const { dims } = call.input(0);
  const indexDims = call.input(1).dims;
  const batch = call.attributes.batch_dims;
  const { tuple, count, rest } = tuplesOf(call, dims, indexDims, batch);
  const perBatch = sizeOf(indexDims.slice(batch, -1));
  const batchSize = sizeOf(dims.slice(batch));
  const indexed = dims.slice(batch, batch + tuple);
  const strides = stridesOf(dims).slice(batch, batch + tuple);
  return {
    dims: [...indexDims.slice(0, -1), ...rest],
    tuple,
    count,
    perBatch,
    batchSize,
    indexed,
    strides,
    run: sizeOf(rest),
  };
}

const GatherND = operator({
  name: 'GatherND',
  since: [11, 12, 13],
  inputs: [2, 2],
  attributes: { batch_dims: int(0) },
  infer: (call) => [outputOf(call, call.input(0).type, gatherNDDims(call).dims)],
  reference(call) {
    const t = call.tensor(0);
    const { dims, tuple, perBatch, batchSize, indexed, strides, run } = gatherNDDims(call);
    outputOf(call, t.type, dims);
    const indices = call.ints(1)!;
    return [
      pick(t, dims, (i) => {
        const which = Math.floor(i / run);
        let s = Math.floor(which / perBatch) * batchSize + (i % run);
        for (let a = 0; a < tuple; a++) s += strides[a]! * indexIn(call, indices[which * tuple + a]!, indexed[a]!);
        return s;
      }),
    ];
  },
  lower(call) {
    const size = elementBytes(call.input(0).type);
    const wide = indexWidth(call.input(1));
    const { tuple, count, perBatch, batchSize, indexed, strides, run } = gatherNDDims(call);
    if (size === 0 || wide === undefined || indexed.includes(0)) return false;
    if (count * run === 0) return true;
    call.step(
      'gatherND',
      {
        data: call.in(0),
        indices: call.in(1),
        output: call.out(0),
        dims: indexed,
        strides: strides.map((s) => s * size),
        tuple,
        perBatch,
        batchStride: batchSize * size,
        run: run * size,
        wide,
      },
      { units: count, grain: grainOf(run * size), ...checkedIndices(call, 1, indexed) },
    );
    return true;
  },
});

export const gathers: readonly Operator[] = [Gather, GatherElements, GatherND];
