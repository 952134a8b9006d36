// Where a convolution's window goes: strides, dilations, padding and output sizes from the attributes, by the rules of
// Conv (versions 1, 11, 22) and ConvTranspose. Everything a spatial axis has is in one record; no elements are touched.
import { formatShape } from '../tensor/errors.js';
import { sameShape, sizeOf, stridesOf } from '../tensor/shape.js';
import { int, ints, string } from './attributes.js';
import type { InferCall } from './operator.js';

export const convAttributes = {
  auto_pad: string('NOTSET'),
  dilations: ints(),
  group: int(1),
  kernel_shape: ints(),
  pads: ints(),
  strides: ints(),
};

export interface ConvAttributes {
  readonly auto_pad: string;
  readonly dilations: readonly number[] | undefined;
  readonly group: number;
  readonly kernel_shape: readonly number[] | undefined;
  readonly pads: readonly number[] | undefined;
  readonly strides: readonly number[] | undefined;
}

export interface ConvTransposeAttributes extends ConvAttributes {
  readonly output_padding: readonly number[] | undefined;
  readonly output_shape: readonly number[] | undefined;
}

/** One spatial axis. For a transposed convolution `padBegin` and `padEnd` cut the output. */
export interface Axis {
  readonly input: number;
  readonly output: number;
  readonly kernel: number;
  readonly stride: number;
  readonly dilation: number;
  readonly padBegin: number;
  readonly padEnd: number;
}

export interface ConvGeometry {
  readonly batch: number;
  readonly groups: number;
  /** Input and output channels of a group. */
  readonly channels: number;
  readonly m: number;
  readonly axes: readonly Axis[];
  /** Elements of the window, of an input plane and of an output plane. */
  readonly taps: number;
  readonly inPixels: number;
  readonly pixels: number;
  readonly dims: readonly number[];
}

type AutoPad = 'NOTSET' | 'VALID' | 'SAME_UPPER' | 'SAME_LOWER';

function autoPadOf(call: InferCall<ConvAttributes>): AutoPad {
  const { auto_pad: mode } = call.attributes;
  if (mode !== 'NOTSET' && mode !== 'VALID' && mode !== 'SAME_UPPER' && mode !== 'SAME_LOWER')
    throw call.error(`auto_pad must be NOTSET, VALID, SAME_UPPER or SAME_LOWER, got '${mode}'`);
  return mode;
}

/** An attribute with one number a spatial axis, at least `least`. */
function perAxis(
  call: InferCall<unknown>,
  name: string,
  values: readonly number[] | undefined,
  length: number,
  fallback: number,
  least: number,
): readonly number[] {
  // Exporters write an empty list for "default".
  if (values === undefined || values.length === 0) return new Array<number>(length).fill(fallback);
  if (values.length !== length) throw call.error(`${name} must have ${length} values, got ${formatShape(values)}`);
  if (values.some((v) => v < least)) throw call.error(`${name} must be at least ${least}, got ${formatShape(values)}`);
  return values;
}

function checkInputs(call: InferCall<ConvAttributes>) {
  const x = call.input(0);
  const w = call.input(1);
  const rank = x.dims.length - 2;
  if (rank < 1) throw call.error(`X must have at least 3 dimensions [N, C, spatial…], got ${formatShape(x.dims)}`);
  if (w.dims.length !== x.dims.length)
    throw call.error(`X and W must have one rank, got ${formatShape(x.dims)} and ${formatShape(w.dims)}`);
  if (x.type !== w.type) throw call.error(`X and W must be of one type, got ${x.type} and ${w.type}`);
  const kernel = w.dims.slice(2);
  const { kernel_shape: declared, group } = call.attributes;
  if (declared !== undefined && declared.length > 0 && !sameShape(declared, kernel))
    throw call.error(`kernel_shape ${formatShape(declared)} does not fit W ${formatShape(w.dims)}`);
  if (group < 1) throw call.error(`group must be positive, got ${group}`);
  const strides = perAxis(call, 'strides', call.attributes.strides, rank, 1, 1);
  const dilations = perAxis(call, 'dilations', call.attributes.dilations, rank, 1, 1);
  const pads = perAxis(call, 'pads', call.attributes.pads, 2 * rank, 0, 0);
  return { x: x.dims, w: w.dims, rank, kernel, group, strides, dilations, pads };
}

function checkRest(call: InferCall<unknown>, channels: number, dims: readonly number[]): void {
  const b = call.optional(2);
  if (b !== undefined && !sameShape(b.dims, [channels]))
    throw call.error(`expected B of shape [${channels}], got ${formatShape(b.dims)}`);
  const z = call.optional(3);
  if (z !== undefined && !sameShape(z.dims, dims))
    throw call.error(`expected Z of shape ${formatShape(dims)}, got ${formatShape(z.dims)}`);
}

/** How `total` padding is shared out: the odd one at the end for SAME_UPPER, at the beginning otherwise. */
function share(total: number, mode: AutoPad): [number, number] {
  const less = Math.floor(total / 2);
  return mode === 'SAME_UPPER' ? [less, total - less] : [total - less, less];
}

function finishGeometry(
  call: InferCall<unknown>,
  batch: number,
  groups: number,
  channels: number,
  m: number,
  axes: readonly Axis[],
): ConvGeometry {
  const dims = [batch, groups * m, ...axes.map((a) => a.output)];
  checkRest(call, groups * m, dims);
  return {
    batch,
    groups,
    channels,
    m,
    axes,
    taps: sizeOf(axes.map((a) => a.kernel)),
    inPixels: sizeOf(axes.map((a) => a.input)),
    pixels: sizeOf(axes.map((a) => a.output)),
    dims,
  };
}

/** Conv: X [N, C, …], W [M, C / group, …]. */
export function convGeometry(call: InferCall<ConvAttributes>): ConvGeometry {
  const { x, w, kernel, group, strides, dilations, pads, rank } = checkInputs(call);
  if (x[1] !== w[1]! * group || w[0]! % group !== 0)
    throw call.error(
      `X ${formatShape(x)} does not fit W ${formatShape(w)} in ${group} group${group === 1 ? '' : 's'}: ` +
        `expected W of shape [M, ${x[1]! / group}, …] with M a multiple of ${group}`,
    );
  const mode = autoPadOf(call);
  const axes = kernel.map((size, i): Axis => {
    const input = x[i + 2]!;
    const stride = strides[i]!;
    const dilation = dilations[i]!;
    const reach = (size - 1) * dilation + 1;
    let padBegin = mode === 'NOTSET' ? pads[i]! : 0;
    let padEnd = mode === 'NOTSET' ? pads[rank + i]! : 0;
    if (mode === 'SAME_UPPER' || mode === 'SAME_LOWER') {
      const needed = (Math.ceil(input / stride) - 1) * stride + reach - input;
      [padBegin, padEnd] = share(Math.max(0, needed), mode);
    }
    const room = input + padBegin + padEnd - reach;
    if (room < 0)
      throw call.error(`the window reaches over ${reach} on axis ${i + 2}, the padded X has ${room + reach}`);
    return { input, output: Math.floor(room / stride) + 1, kernel: size, stride, dilation, padBegin, padEnd };
  });
  return finishGeometry(call, x[0]!, group, w[1]!, w[0]! / group, axes);
}

/** ConvTranspose: X [N, C, …], W [C, M / group, …]. */
export function convTransposeGeometry(call: InferCall<ConvTransposeAttributes>): ConvGeometry {
  const { x, w, kernel, group, strides, dilations, pads, rank } = checkInputs(call);
  if (x[1] !== w[0] || x[1]! % group !== 0)
    throw call.error(
      `X ${formatShape(x)} does not fit W ${formatShape(w)} in ${group} groups: expected W of shape [${x[1]}, M / ${group}, …]`,
    );
  const mode = autoPadOf(call);
  const extra = perAxis(call, 'output_padding', call.attributes.output_padding, rank, 0, 0);
  const { output_shape: wanted } = call.attributes;
  const explicit = wanted !== undefined && wanted.length > 0;
  // Some exporters write the whole shape.
  if (explicit && wanted.length !== rank && wanted.length !== rank + 2)
    throw call.error(`output_shape must have ${rank} values, got ${formatShape(wanted)}`);
  const axes = kernel.map((size, i): Axis => {
    const input = x[i + 2]!;
    const stride = strides[i]!;
    const dilation = dilations[i]!;
    const full = stride * (input - 1) + extra[i]! + (size - 1) * dilation + 1;
    let padBegin = mode === 'NOTSET' ? pads[i]! : 0;
    let padEnd = mode === 'NOTSET' ? pads[rank + i]! : 0;
    let output = full - padBegin - padEnd;
    if (explicit || mode === 'SAME_UPPER' || mode === 'SAME_LOWER') {
      output = explicit ? wanted[wanted.length - rank + i]! : input * stride;
      [padBegin, padEnd] = share(Math.max(0, full - output), mode);
    }
    if (output < 0) throw call.error(`the output of axis ${i + 2} would have size ${output}`);
    return { input, output, kernel: size, stride, dilation, padBegin, padEnd };
  });
  return finishGeometry(call, x[0]!, group, x[1]! / group, w[1]!, axes);
}

/** Offsets of the window's elements from its first, in an array with these sizes a spatial axis. */
export function tapOffsets(axes: readonly Axis[], sizes: readonly number[]): number[] {
  const strides = stridesOf(sizes);
  let offsets = [0];
  axes.forEach((a, i) => {
    const steps = Array.from({ length: a.kernel }, (_, t) => t * a.dilation * strides[i]!);
    offsets = offsets.flatMap((o) => steps.map((s) => o + s));
  });
  return offsets;
}

/** Exactly three axes: neutral ones in front. Undefined when there are more. */
export function threeAxes(axes: readonly Axis[]): [Axis, Axis, Axis] | undefined {
  const one: Axis = { input: 1, output: 1, kernel: 1, stride: 1, dilation: 1, padBegin: 0, padEnd: 0 };
  if (axes.length > 3) return undefined;
  return [...new Array<Axis>(3 - axes.length).fill(one), ...axes] as [Axis, Axis, Axis];
}
