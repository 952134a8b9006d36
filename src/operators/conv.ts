// Conv (versions 1, 11, 22) with any number of spatial axes, groups, strides, dilations and automatic padding, and
// `skep:Conv` with a residual and an activation. How it lowers, first that fits:
//
//   one output pixel that sees all of X   a matrix product over the images: X as [N, k] · Wᵀ
//   one input channel an output channel   depthwise
//   3×3 with constant weights             winograd, where it pays and is not switched off
//   up to three spatial axes              conv, an implicit matrix product (a 1×1 window is one with a single tap)
//   more                                  no kernel
import { heightFor } from '../kernels/tile.js';
import { decode } from '../tensor/convert.js';
import { sizeOf, stridesOf } from '../tensor/shape.js';
import {
  type Axis,
  type ConvAttributes,
  type ConvGeometry,
  convAttributes,
  convGeometry,
  tapOffsets,
  threeAxes,
} from './conv-geometry.js';
import {
  activationOf,
  applyEpilogue,
  type BoundActivation,
  type Epilogue,
  epilogueAttributes,
  epilogueParams,
} from './epilogue.js';
import {
  type Address,
  type InferCall,
  type LowerCall,
  type Operator,
  operator,
  type ReferenceCall,
} from './operator.js';
import { grainOf, lowerProduct, placeA } from './product.js';
import { fromNumbers } from './reference.js';
import { paysWinograd, winogradAxis, winogradStep } from './winograd.js';

/** Outputs whose input lies inside X, for one tap of an axis: [first, end). */
function insideRange(a: Axis, tap: number): [number, number] {
  const shift = tap * a.dilation - a.padBegin;
  const first = Math.max(0, Math.ceil(-shift / a.stride));
  const end = Math.min(a.output, Math.floor((a.input - 1 - shift) / a.stride) + 1);
  return [first, Math.max(first, end)];
}

/**
 * Visits a convolution tap by tap: for each window element, the rows of output pixels whose input exists, as
 * (first output pixel, first input pixel, count, input step). Pixels count from the start of their planes.
 */
export function forEachTap(
  axes: readonly Axis[],
  visit: (tap: number, output: number, input: number, count: number, step: number) => void,
): void {
  const outStrides = stridesOf(axes.map((a) => a.output));
  const inStrides = stridesOf(axes.map((a) => a.input));
  const walk = (axis: number, tap: number, output: number, input: number): void => {
    const a = axes[axis]!;
    const last = axis === axes.length - 1;
    for (let t = 0; t < a.kernel; t++) {
      const [first, end] = insideRange(a, t);
      const at = (o: number) => input + (o * a.stride + t * a.dilation - a.padBegin) * inStrides[axis]!;
      const index = tap * a.kernel + t;
      if (last) {
        if (end > first) visit(index, output + first, at(first), end - first, a.stride);
      } else for (let o = first; o < end; o++) walk(axis + 1, index, output + o * outStrides[axis]!, at(o));
    }
  };
  walk(0, 0, 0, 0);
}

/** The sums of products, in double precision. */
function reference(call: ReferenceCall<ConvAttributes>, g: ConvGeometry): Float64Array {
  const x = decode(call.tensor(0));
  const w = decode(call.tensor(1));
  const { batch, groups, channels, m, taps, inPixels, pixels } = g;
  const y = new Float64Array(batch * groups * m * pixels);
  const rows: number[][] = [];
  forEachTap(g.axes, (...row) => rows.push(row));
  for (let image = 0; image < batch * groups; image++)
    for (let o = 0; o < m; o++) {
      const to = (image * m + o) * pixels;
      for (let c = 0; c < channels; c++) {
        const from = (image * channels + c) * inPixels;
        const weights = (((image % groups) * m + o) * channels + c) * taps;
        for (const [tap, output, input, count, step] of rows as [number, number, number, number, number][]) {
          const weight = w[weights + tap]!;
          for (let i = 0, s = from + input; i < count; i++, s += step) y[to + output + i]! += weight * x[s]!;
        }
      }
    }
  return y;
}

type Sizes = readonly [number, number, number];

/** A plane's sizes with its padding. */
function paddedSizes(axes: readonly [Axis, Axis, Axis]): Sizes {
  return axes.map((a) => a.input + a.padBegin + a.padEnd) as [number, number, number];
}

function hasPadding(axes: readonly Axis[]): boolean {
  return axes.some((a) => a.padBegin !== 0 || a.padEnd !== 0);
}

/** X with zeros around every plane: where it is and how large the planes are. Nothing to do without padding. */
function padded(call: LowerCall<unknown>, axes: readonly [Axis, Axis, Axis], planes: number) {
  const sizes = paddedSizes(axes);
  if (!hasPadding(axes)) return { x: call.in(0), sizes };
  const x = call.scratch(planes * sizeOf(sizes) * 4);
  const [d, h, w] = axes;
  call.step(
    'padSpatial',
    {
      x: call.in(0),
      y: x,
      depth: d.input,
      height: h.input,
      width: w.input,
      paddedDepth: sizes[0],
      paddedHeight: sizes[1],
      paddedWidth: sizes[2],
      front: d.padBegin,
      top: h.padBegin,
      left: w.padBegin,
    },
    { units: planes, grain: Math.ceil(16_384 / Math.max(1, sizeOf(sizes))) },
  );
  return { x, sizes };
}

/** How output pixels step through padded planes. */
export function pixelSteps(axes: readonly [Axis, Axis, Axis], sizes: readonly number[]) {
  const [depth, height, width] = stridesOf(sizes) as [number, number, number];
  const [d, h, w] = axes;
  const steps = {
    strideDepth: d.stride * depth,
    strideHeight: h.stride * height,
    strideWidth: w.stride * width,
    height: h.output,
    width: w.output,
  };
  // Rows that follow each other without a gap are one long row.
  if (steps.strideHeight === w.output * steps.strideWidth) {
    steps.width *= steps.height;
    steps.height = 1;
    if (d.output > 1 && steps.strideDepth === steps.width * steps.strideWidth) steps.width *= d.output;
  }
  return steps;
}

/** What a conv step computes besides the addresses. */
export interface ConvShape {
  readonly images: number;
  readonly groups: number;
  readonly m: number;
  readonly channels: number;
  readonly imageStride: number;
  readonly channelStride: number;
  readonly pixels: number;
  readonly taps: readonly number[];
  readonly steps: ReturnType<typeof pixelSteps>;
}

/** Appends a conv step, W packed in panels as high as `placeA` chooses: it chooses how many panels and output channels a unit takes. */
export function convStep(
  call: LowerCall<unknown>,
  x: Address,
  w: Address,
  y: Address,
  s: ConvShape,
  epilogue: Epilogue,
) {
  const k = s.channels * s.taps.length;
  const allPanels = Math.ceil(s.pixels / 8);
  // Some panels at a time, so that x is read and y written in long pieces; many when weights outgrow a level-2 cache, for
  // they are read once for all of them.
  const heavy = s.m * k * 4 > 262_144;
  const most = Math.max(1, heavy ? Math.floor(600_000 / (k * 32)) : Math.min(8, Math.floor(65_536 / (k * 32))));
  const panels = Math.ceil(allPanels / Math.ceil(allPanels / most));
  const spans = Math.ceil(allPanels / panels);
  // Enough units for several threads; packing is repeated for every chunk of output channels.
  const split = Math.max(1, Math.min(Math.ceil(16 / (s.images * s.groups * spans)), Math.floor(s.m / 32)));
  const height = heightFor(call.tile, s.m);
  const chunk = Math.ceil(s.m / split / height) * height;
  const block = Math.max(height, Math.min(60, Math.floor(32_768 / k / height) * height));
  call.threadScratch(block * 8 * 32 + panels * k * 32);
  const flops = 2 * s.images * s.groups * s.m * k * s.pixels;
  call.step(
    'conv',
    {
      ...epilogueParams(epilogue),
      x,
      w,
      y,
      groups: s.groups,
      m: s.m,
      channels: s.channels,
      imageStride: s.imageStride,
      channelStride: s.channelStride,
      pixels: s.pixels,
      ...s.steps,
      taps: s.taps,
      tapCount: s.taps.length,
      panels,
      chunk,
      block,
      tall: height,
      wide: call.tile.width,
    },
    {
      units: s.images * s.groups * spans * Math.ceil(s.m / chunk),
      grain: grainOf(2 * chunk * k * 8 * panels),
      flops,
    },
  );
}

/** Appends a depthwise step: it pads a plane at a time for itself. */
function depthwiseStep(
  call: LowerCall<unknown>,
  g: ConvGeometry,
  axes: readonly [Axis, Axis, Axis],
  epilogue: Epilogue,
) {
  const { batch, groups, taps, pixels } = g;
  const [d, h, w] = axes;
  const sizes = paddedSizes(axes);
  const pads = hasPadding(axes);
  call.threadScratch(64 + (pads ? sizeOf(sizes) * 4 + 64 : 0));
  call.step(
    'depthwise',
    {
      ...epilogueParams(epilogue),
      x: call.in(0),
      w: call.in(1),
      y: call.out(0),
      channels: groups,
      inDepth: d.input,
      inHeight: h.input,
      inWidth: w.input,
      paddedDepth: pads ? sizes[0] : 0,
      paddedHeight: sizes[1],
      paddedWidth: sizes[2],
      front: d.padBegin,
      top: h.padBegin,
      left: w.padBegin,
      pixels,
      ...pixelSteps(axes, sizes),
      taps: tapOffsets(axes, sizes),
      tapCount: taps,
    },
    { units: batch * groups, grain: grainOf(2 * taps * pixels), flops: 2 * batch * groups * taps * pixels },
  );
}

function lower(call: LowerCall<ConvAttributes>, g: ConvGeometry, rest: Epilogue): boolean {
  if (call.input(0).type !== 'float32') return false;
  const { batch, groups, channels, m, taps, pixels } = g;
  if (batch * groups * m * pixels === 0) return true;
  const k = channels * taps;
  const bias = call.has(2) && { bias: { at: call.in(2), row: 1, column: 0 as const } };
  const residual = call.has(3) && { residual: { at: call.in(3), row: pixels, column: 1 as const } };
  const whole = pixels === 1 && g.axes.every((a) => a.kernel === a.input && a.padBegin === 0 && a.padEnd === 0);
  if (whole && groups === 1) {
    lowerProduct(call, {
      a: { input: 0, matrices: 1, stride: batch * k, row: k, column: 1 },
      b: { input: 1, matrices: 1, stride: k * m, row: 1, column: k },
      c: call.out(0),
      m: batch,
      n: m,
      k,
      epilogue: {
        ...rest,
        ...(bias && { bias: { at: call.in(2), row: 0, column: 1 } }),
        ...(residual && { residual: { at: call.in(3), row: m, column: 1 } }),
      },
    });
    return true;
  }
  const axes = threeAxes(g.axes);
  if (axes === undefined) return false;
  const epilogue: Epilogue = { ...rest, ...bias, ...residual };
  if (paysWinograd(call, g)) {
    const [, h, w] = axes;
    const whole = padded(call, [axes[0], winogradAxis(h), winogradAxis(w)], batch * groups * channels);
    winogradStep(call, g, whole.x, whole.sizes[1], whole.sizes[2], epilogue);
    return true;
  }
  if (channels === 1 && m === 1) {
    depthwiseStep(call, g, axes, epilogue);
    return true;
  }
  const { x, sizes } = padded(call, axes, batch * groups * channels);
  const steps = pixelSteps(axes, sizes);
  const channelStride = sizeOf(sizes);
  const offsets = tapOffsets(axes, sizes);
  const w = placeA(call, { input: 1, matrices: groups, stride: m * k, row: k, column: 1 }, m, k);
  const imageStride = groups * channels * channelStride;
  const shape = { images: batch, groups, m, channels, imageStride, channelStride, pixels, taps: offsets, steps };
  convStep(call, x, w, call.out(0), shape, epilogue);
  return true;
}

function infer(call: InferCall<ConvAttributes>) {
  return [{ type: call.input(0).type, dims: convGeometry(call).dims }];
}

function evaluate(call: ReferenceCall<ConvAttributes>, activation?: BoundActivation) {
  const g = convGeometry(call);
  const b = call.has(2) ? decode(call.tensor(2)) : undefined;
  const z = call.has(3) ? decode(call.tensor(3)) : undefined;
  const channelOf = (i: number) => Math.floor(i / g.pixels) % (g.groups * g.m);
  return [fromNumbers(call.tensor(0).type, g.dims, applyEpilogue(reference(call, g), b, channelOf, z, activation))];
}

/** X [N, C, …], W [M, C / group, …], B [M]?. */
const conv = operator({
  name: 'Conv',
  since: [1, 11, 22],
  inputs: [2, 3],
  attributes: convAttributes,
  infer,
  reference: (call) => evaluate(call),
  lower: (call) => lower(call, convGeometry(call), {}),
});

/** X, W, B?, Z? (of the result's shape): activation(Conv(X, W, B) + Z). */
const fusedConv = operator({
  name: 'Conv',
  domain: 'skep',
  since: [1],
  inputs: [2, 4],
  attributes: { ...convAttributes, ...epilogueAttributes },
  infer,
  reference: (call) => evaluate(call, activationOf(call)),
  lower: (call) => lower(call, convGeometry(call), { activation: activationOf(call) }),
});

export const convOperators: readonly Operator[] = [conv, fusedConv];
