// ConvTranspose (versions 1, 11, 22): every input pixel spreads over a window of the output, which is what Conv's
// gradient does. `skep:ConvTranspose` adds an activation. It lowers to a product of the transposed weights with X, one
// column of taps an input pixel, and col2im, which adds the taps where they fall, in their order; or interleave, where
// windows 2 wide lie side by side.
import { decode } from '../tensor/convert.js';
import { stridesOf } from '../tensor/shape.js';
import { ints } from './attributes.js';
import { convStep } from './conv.js';
import {
  type Axis,
  type ConvGeometry,
  type ConvTransposeAttributes,
  convAttributes,
  convTransposeGeometry,
  threeAxes,
} from './conv-geometry.js';
import { activationOf, applyEpilogue, type BoundActivation, epilogueAttributes, epilogueParams } from './epilogue.js';
import { type InferCall, type LowerCall, type Operator, operator, type ReferenceCall } from './operator.js';
import { placeA } from './product.js';
import { fromNumbers } from './reference.js';

/** Calls `visit(tap, input pixel, output pixel)` for every pair that meets, taps outermost and ascending. */
function forEachMeeting(axes: readonly Axis[], visit: (tap: number, input: number, output: number) => void): void {
  const inStrides = stridesOf(axes.map((a) => a.input));
  const outStrides = stridesOf(axes.map((a) => a.output));
  const taps: number[][] = [[]];
  for (const a of axes)
    taps.push(...taps.splice(0).flatMap((t) => Array.from({ length: a.kernel }, (_, i) => [...t, i])));
  const walk = (tap: readonly number[], index: number, axis: number, input: number, output: number): void => {
    if (axis === axes.length) {
      visit(index, input, output);
      return;
    }
    const a = axes[axis]!;
    for (let i = 0; i < a.input; i++) {
      const o = i * a.stride + tap[axis]! * a.dilation - a.padBegin;
      if (o >= 0 && o < a.output)
        walk(tap, index, axis + 1, input + i * inStrides[axis]!, output + o * outStrides[axis]!);
    }
  };
  for (const [index, tap] of taps.entries()) walk(tap, index, 0, 0, 0);
}

/** The sums of products, in double precision. */
function reference(call: ReferenceCall<ConvTransposeAttributes>, g: ConvGeometry): Float64Array {
  const x = decode(call.tensor(0));
  const w = decode(call.tensor(1));
  const { batch, groups, channels, m, taps, inPixels, pixels } = g;
  const y = new Float64Array(batch * groups * m * pixels);
  const meetings: [number, number, number][] = [];
  forEachMeeting(g.axes, (...meeting) => meetings.push(meeting));
  for (let image = 0; image < batch * groups; image++)
    for (let c = 0; c < channels; c++) {
      const from = (image * channels + c) * inPixels;
      for (let o = 0; o < m; o++) {
        const weights = (((image % groups) * channels + c) * m + o) * taps;
        const to = (image * m + o) * pixels;
        for (const [tap, input, output] of meetings) y[to + output]! += w[weights + tap]! * x[from + input]!;
      }
    }
  return y;
}

/** Windows that cover the axis without a gap or an overlap. */
const sideBySide = (a: Axis) =>
  a.kernel === a.stride && a.dilation === 1 && a.output === a.input * a.stride && a.padBegin === 0;

const isFlat = (a: Axis) => a.input === 1 && a.output === 1 && a.kernel === 1;

function lower(call: LowerCall<ConvTransposeAttributes>, activation?: BoundActivation): boolean {
  const g = convTransposeGeometry(call);
  const axes = threeAxes(g.axes);
  if (call.input(0).type !== 'float32' || axes === undefined) return false;
  const { batch, groups, channels, m, taps, inPixels, pixels } = g;
  if (batch * groups * m * pixels === 0) return true;
  const rows = m * taps;
  const columns = call.scratch(batch * groups * rows * inPixels * 4);
  if (inPixels > 0) {
    // W of a group is [channels, m · taps]: the product takes its transpose.
    const stride = channels * rows;
    const w = placeA(call, { input: 1, matrices: groups, stride, row: 1, column: rows }, rows, channels);
    const shape = {
      images: batch,
      groups,
      m: rows,
      channels,
      imageStride: groups * channels * inPixels,
      channelStride: inPixels,
      pixels: inPixels,
      taps: [0],
      steps: { strideDepth: 0, strideHeight: 0, strideWidth: 1, height: 1, width: inPixels },
    };
    convStep(call, call.in(0), w, columns, shape, {});
  }
  const [d, h, v] = axes;
  const epilogue = epilogueParams({
    ...(activation && { activation }),
    ...(call.has(2) && { bias: { at: call.in(2), row: 1, column: 0 } }),
  });
  if (isFlat(d) && sideBySide(h) && sideBySide(v) && v.kernel === 2) {
    const planes = batch * groups * m;
    const numbers = { channels: groups * m, inHeight: h.input, inWidth: v.input, kernelHeight: h.kernel };
    const work = { units: planes * h.input, grain: Math.ceil(8192 / (taps * v.input)) };
    call.step('interleave', { ...epilogue, columns, y: call.out(0), ...numbers }, work);
    return true;
  }
  call.step(
    'col2im',
    {
      ...epilogue,
      columns,
      y: call.out(0),
      channels: groups * m,
      inDepth: d.input,
      inHeight: h.input,
      inWidth: v.input,
      depth: d.output,
      height: h.output,
      width: v.output,
      kernelDepth: d.kernel,
      kernelHeight: h.kernel,
      kernelWidth: v.kernel,
      strideDepth: d.stride,
      strideHeight: h.stride,
      strideWidth: v.stride,
      dilationDepth: d.dilation,
      dilationHeight: h.dilation,
      dilationWidth: v.dilation,
      padDepth: d.padBegin,
      padHeight: h.padBegin,
      padWidth: v.padBegin,
    },
    { units: batch * groups * m, grain: Math.ceil(8192 / (taps * inPixels + pixels)) },
  );
  return true;
}

function infer(call: InferCall<ConvTransposeAttributes>) {
  return [{ type: call.input(0).type, dims: convTransposeGeometry(call).dims }];
}

function evaluate(call: ReferenceCall<ConvTransposeAttributes>, activation?: BoundActivation) {
  const g = convTransposeGeometry(call);
  const b = call.has(2) ? decode(call.tensor(2)) : undefined;
  const channelOf = (i: number) => Math.floor(i / g.pixels) % (g.groups * g.m);
  const y = applyEpilogue(reference(call, g), b, channelOf, undefined, activation);
  return [fromNumbers(call.tensor(0).type, g.dims, y)];
}

const attributes = { ...convAttributes, output_padding: ints(), output_shape: ints() };

/** X [N, C, …], W [C, M / group, …], B [M]?. */
const convTranspose = operator({
  name: 'ConvTranspose',
  since: [1, 11, 22],
  inputs: [2, 3],
  attributes,
  infer,
  reference: (call) => evaluate(call),
  lower: (call) => lower(call),
});

/** The same with an activation. */
const fusedConvTranspose = operator({
  name: 'ConvTranspose',
  domain: 'skep',
  since: [1],
  inputs: [2, 3],
  attributes: { ...attributes, ...epilogueAttributes },
  infer,
  reference: (call) => evaluate(call, activationOf(call)),
  lower: (call) => lower(call, activationOf(call)),
});

export const convTransposeOperators: readonly Operator[] = [convTranspose, fusedConvTranspose];
