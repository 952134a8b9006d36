// Operators that take, along every axis by itself, listed coordinates of the input or a fill value: Pad, CenterCropPad,
// ReverseSequence (whose list depends on the batch), Trilu (a triangle, row by row). Resize by nearest is in resize.ts.

import { decode, encode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { sizeOf, stridesOf } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import { float, int, ints, string } from './attributes.js';
import { byteStrides, bytesConstant, copyView, elementBytes, fillDense, lowerTables } from './copy.js';
import { type Address, type InferCall, type LowerCall, type Operator, offsetBy, operator } from './operator.js';
import { axesOf, axisOf, outputOf, pick, pickByAxis } from './pick.js';

interface PadAttributes {
  readonly mode: string;
  readonly pads: readonly number[] | undefined;
  readonly paddings: readonly number[] | undefined;
  readonly value: number;
}

/** Elements added (or, negative, removed) before and after each axis. */
function padsOf(call: InferCall<PadAttributes>): { before: number[]; after: number[] } {
  const rank = call.input(0).dims.length;
  const pads = call.ints(1) ?? call.attributes.pads ?? call.attributes.paddings;
  if (pads === undefined) throw call.error('pads must be given');
  const axes = call.has(3) ? axesOf(call, call.ints(3)!, rank) : Array.from({ length: rank }, (_, i) => i);
  if (pads.length !== 2 * axes.length)
    throw call.error(`expected ${2 * axes.length} pads (before and after ${axes.length} axes), got ${pads.length}`);
  const before = new Array<number>(rank).fill(0);
  const after = new Array<number>(rank).fill(0);
  axes.forEach((a, i) => {
    before[a] = pads[i]!;
    after[a] = pads[i + axes.length]!;
  });
  return { before, after };
}

function padDims(call: InferCall<PadAttributes>): number[] {
  const { before, after } = padsOf(call);
  const { dims } = call.input(0);
  const { mode } = call.attributes;
  if (!['constant', 'reflect', 'edge', 'wrap'].includes(mode))
    throw call.error(`mode must be constant, reflect, edge or wrap, got '${mode}'`);
  return dims.map((d, a) => {
    const kept = d - Math.max(0, -before[a]!) - Math.max(0, -after[a]!);
    const n = d + before[a]! + after[a]!;
    if (kept < 0) throw call.error(`pads ${before[a]} and ${after[a]} remove more than axis ${a} of size ${d} has`);
    if (kept === 0 && n > 0 && mode !== 'constant')
      throw call.error(`axis ${a} has nothing to pad with in mode ${mode}`);
    return n;
  });
}

/** For each place of the padded axis the coordinate it takes, −1 outside in mode constant. */
function padCoordinates(n: number, before: number, after: number, mode: string): Int32Array {
  const low = Math.max(0, -before);
  const kept = n - low - Math.max(0, -after);
  return Int32Array.from({ length: n + before + after }, (_, o) => {
    const i = o - Math.max(0, before);
    if (i >= 0 && i < kept) return low + i;
    switch (mode) {
      case 'edge':
        return low + Math.min(Math.max(i, 0), kept - 1);
      case 'wrap':
        return low + (((i % kept) + kept) % kept);
      case 'reflect': {
        const period = Math.max(2 * (kept - 1), 1);
        const m = ((i % period) + period) % period;
        return low + (kept === 1 ? 0 : m < kept ? m : period - m);
      }
      default:
        return -1;
    }
  });
}

/** Where the fill value of a lowered node is. */
function fillValue(call: LowerCall<unknown>, input: number, fallback: number): Address {
  if (call.has(input) && sizeOf(call.input(input).dims) > 0) return call.in(input);
  const { type } = call.output(0);
  if (fallback === 0) return bytesConstant(call, 'zero', new Uint8Array(16));
  return bytesConstant(call, `fill ${type} ${fallback}`, new Uint8Array(encode(type, [fallback]).buffer));
}

/** The output is a block of the input (starting at `from`) put at `to`, everything else filled. */
function lowerBlock(
  call: LowerCall<unknown>,
  block: { readonly dims: readonly number[]; readonly from: readonly number[]; readonly to: readonly number[] },
  fill: Address,
): boolean {
  const { type, dims } = call.output(0);
  const size = elementBytes(type);
  if (size === 0) return false;
  const inStrides = byteStrides(call.input(0).dims, size);
  const outStrides = byteStrides(dims, size);
  const ahead = (strides: readonly number[], at: readonly number[]) => strides.reduce((s, x, a) => s + x * at[a]!, 0);
  if (sizeOf(block.dims) < sizeOf(dims)) fillDense(call, fill, call.out(0), sizeOf(dims), size);
  if (sizeOf(block.dims) === 0) return true;
  const from = offsetBy(call.in(0), ahead(inStrides, block.from));
  const to = offsetBy(call.out(0), ahead(outStrides, block.to));
  copyView(call, from, to, { dims: block.dims, inStrides, outStrides }, size);
  return true;
}

const Pad = operator({
  name: 'Pad',
  since: [1, 2, 11, 13, 18, 19, 21, 23, 24, 25],
  inputs: [1, 4],
  attributes: { mode: string('constant'), pads: ints(), paddings: ints(), value: float(0) },
  infer: (call) => [outputOf(call, call.input(0).type, padDims(call))],
  reference(call) {
    const t = call.tensor(0);
    const dims = padDims(call);
    outputOf(call, t.type, dims);
    const { before, after } = padsOf(call);
    const { mode, value } = call.attributes;
    const coordinates = t.dims.map((n, a) => padCoordinates(n, before[a]!, after[a]!, mode));
    const given = call.has(2) && call.tensor(2).size > 0 ? call.tensor(2) : undefined;
    if (given === undefined && value === 0) return [pickByAxis(t, coordinates)];
    return [pickByAxis(t, coordinates, given ?? new Tensor(t.type, encode(t.type, [value]), []))];
  },
  lower(call) {
    const { dims } = call.input(0);
    const { before, after } = padsOf(call);
    const { mode, value } = call.attributes;
    if (mode !== 'constant') {
      const coordinates = dims.map((n, a) => padCoordinates(n, before[a]!, after[a]!, mode));
      return lowerTables(call, `pad ${mode} [${before}] [${after}]`, coordinates, 0);
    }
    return lowerBlock(
      call,
      {
        dims: dims.map((d, a) => d - Math.max(0, -before[a]!) - Math.max(0, -after[a]!)),
        from: before.map((b) => Math.max(0, -b)),
        to: before.map((b) => Math.max(0, b)),
      },
      fillValue(call, 2, value),
    );
  },
});

interface CropAttributes {
  readonly axes: readonly number[] | undefined;
}

function cropDims(call: InferCall<CropAttributes>): number[] {
  const dims = [...call.input(0).dims];
  const shape = call.ints(1)!;
  const axes = axesOf(call, call.attributes.axes ?? dims.map((_, i) => i), dims.length);
  if (shape.length !== axes.length) throw call.error(`shape has ${shape.length} values for ${axes.length} axes`);
  axes.forEach((a, i) => {
    dims[a] = shape[i]!;
  });
  return dims;
}

/** Start of the kept part in the longer of two lengths: half of the difference, rounded down. */
function centre(from: number, to: number): number {
  return Math.floor(Math.max(from - to, 0) / 2);
}

const CenterCropPad = operator({
  name: 'CenterCropPad',
  since: [18],
  inputs: [2, 2],
  attributes: { axes: ints() },
  infer: (call) => [outputOf(call, call.input(0).type, cropDims(call))],
  reference(call) {
    const t = call.tensor(0);
    const dims = cropDims(call);
    outputOf(call, t.type, dims);
    const coordinates = dims.map((n, a) => {
      const crop = centre(t.dims[a]!, n);
      const pad = centre(n, t.dims[a]!);
      return padCoordinates(t.dims[a]!, pad - crop, n - t.dims[a]! - pad + crop, 'constant');
    });
    return [pickByAxis(t, coordinates)];
  },
  lower(call) {
    const { dims } = call.input(0);
    const out = call.output(0).dims;
    return lowerBlock(
      call,
      {
        dims: dims.map((d, a) => Math.min(d, out[a]!)),
        from: dims.map((d, a) => centre(d, out[a]!)),
        to: dims.map((d, a) => centre(out[a]!, d)),
      },
      fillValue(call, 2, 0),
    );
  },
});

const ReverseSequence = operator({
  name: 'ReverseSequence',
  since: [10],
  inputs: [2, 2],
  attributes: { batch_axis: int(1), time_axis: int(0) },
  infer(call) {
    const { type, dims } = call.input(0);
    const batch = axisOf(call, call.attributes.batch_axis, dims.length, 'batch_axis');
    const time = axisOf(call, call.attributes.time_axis, dims.length, 'time_axis');
    if (batch === time) throw call.error('batch_axis and time_axis must differ');
    if (sizeOf(call.input(1).dims) !== dims[batch])
      throw call.error(`expected ${dims[batch]} sequence lengths, got ${formatShape(call.input(1).dims)}`);
    return [{ type, dims }];
  },
  reference(call) {
    const t = call.tensor(0);
    const batch = axisOf(call, call.attributes.batch_axis, t.dims.length, 'batch_axis');
    const time = axisOf(call, call.attributes.time_axis, t.dims.length, 'time_axis');
    const lengths = call.ints(1)!;
    if (lengths.some((l) => l < 0 || l > t.dims[time]!))
      throw call.error(`sequence lengths ${formatShape(lengths)} must be in [0, ${t.dims[time]}]`);
    const strides = stridesOf(t.dims);
    const along = (i: number, a: number) => Math.floor(i / strides[a]!) % t.dims[a]!;
    return [
      pick(t, t.dims, (i) => {
        const step = along(i, time);
        const length = lengths[along(i, batch)]!;
        return step < length ? i + (length - 1 - 2 * step) * strides[time]! : i;
      }),
    ];
  },
});

const Trilu = operator({
  name: 'Trilu',
  since: [14],
  inputs: [1, 2],
  attributes: { upper: int(1) },
  infer(call) {
    const { type, dims } = call.input(0);
    if (dims.length < 2) throw call.error(`expected matrices, got shape ${formatShape(dims)}`);
    return [{ type, dims }];
  },
  reference(call) {
    const t = call.tensor(0);
    const [rows, columns] = t.dims.slice(-2) as [number, number];
    const k = call.has(1) ? decode(call.tensor(1))[0]! : 0;
    const { upper } = call.attributes;
    return [
      pick(t, t.dims, (i) => {
        const row = Math.floor(i / columns) % rows;
        const column = i % columns;
        return (upper !== 0 ? column >= row + k : column <= row + k) ? i : -1;
      }),
    ];
  },
  lower(call) {
    const { type, dims } = call.output(0);
    const size = elementBytes(type);
    if (size === 0 || (call.has(1) && call.input(1).type !== 'int64')) return false;
    const [rows, columns] = dims.slice(-2) as [number, number];
    if (sizeOf(dims) === 0) return true;
    call.step(
      'trilu',
      {
        input: call.in(0),
        output: call.out(0),
        rows,
        columns,
        k: call.has(1) ? call.in(1) : 0,
        upper: call.attributes.upper !== 0 ? 1 : 0,
        size,
      },
      { units: sizeOf(dims) / columns, grain: Math.max(1, Math.floor(16384 / (columns * size))) },
    );
    return true;
  },
});

export const padding: readonly Operator[] = [Pad, CenterCropPad, ReverseSequence, Trilu];
