// ConvInteger (int32 sums) and QLinearConv (requantized): convolutions of 8-bit integers. Padding is the zero point of X,
// that is, zero after it has been subtracted. Lowering is Conv's: padded planes, then depthwise or an implicit product.
import { decode, encode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { sameShape, sizeOf } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import type { DataType } from '../tensor/types.js';
import { forEachTap, pixelSteps } from './conv.js';
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
  factorOf,
  type IntegerResult,
  integerResultParams,
  isByte,
  type LineStrides,
  placeIntegers,
  zeroOf,
} from './integer-product.js';
import {
  type Address,
  type InferCall,
  type LowerCall,
  type Operator,
  operator,
  type ReferenceCall,
} from './operator.js';
import { grainOf } from './product.js';
import { fromNumbers } from './reference.js';
import { rangeOf, saturate } from './rounding.js';

/** Where an operator has its inputs. */
interface Places {
  readonly x: number;
  readonly w: number;
  readonly zeroX: number;
  readonly zeroW: number;
  /** -1: none. */
  readonly bias: number;
}

interface IntegerConv {
  readonly geometry: ConvGeometry;
  /** The zero points of W: one, or one an output channel. */
  readonly zeroW: LineStrides;
}

/** The geometry of Conv, with the inputs where Conv has them. */
function convOf(call: InferCall<ConvAttributes>, p: Places): IntegerConv {
  const [x, w] = [call.input(p.x), call.input(p.w)];
  for (const [name, t] of [
    ['X', x],
    ['W', w],
  ] as const)
    if (!isByte(t.type)) throw call.error(`${name} must be int8 or uint8, got ${t.type}`);
  const asConv: InferCall<ConvAttributes> = Object.assign(Object.create(call), {
    input: (i: number) => (i === 0 ? x : { ...w, type: x.type }),
    optional: (i: number) => (i === 2 ? call.optional(p.bias) : undefined),
  });
  const geometry = convGeometry(asConv);
  const zeroX = zeroOf(call, 'x_zero_point', p.x, p.zeroX);
  if (zeroX !== undefined && sizeOf(zeroX.dims) !== 1)
    throw call.error(`x_zero_point must be one value, got shape ${formatShape(zeroX.dims)}`);
  const channels = geometry.groups * geometry.m;
  return {
    geometry,
    zeroW: perChannel(call, 'w_zero_point', zeroOf(call, 'w_zero_point', p.w, p.zeroW)?.dims, channels),
  };
}

function perChannel(
  call: InferCall<unknown>,
  name: string,
  dims: readonly number[] | undefined,
  channels: number,
): LineStrides {
  if (dims === undefined || sizeOf(dims) === 1) return { matrix: 0, line: 0 };
  if (!sameShape(dims, [channels]))
    throw call.error(`${name} must be one value or of shape [${channels}], got ${formatShape(dims)}`);
  return { matrix: 0, line: 1 };
}

/** The sums of products, exact. */
function sumsOf(call: ReferenceCall<ConvAttributes>, p: Places, { geometry: g, zeroW }: IntegerConv): Float64Array {
  const x = decode(call.tensor(p.x));
  const w = decode(call.tensor(p.w));
  const zx = call.has(p.zeroX) ? decode(call.tensor(p.zeroX))[0]! : 0;
  const zw = call.has(p.zeroW) ? decode(call.tensor(p.zeroW)) : [0];
  const bias = call.has(p.bias) ? decode(call.tensor(p.bias)) : undefined;
  const { batch, groups, channels, m, taps, inPixels, pixels } = g;
  const y = new Float64Array(sizeOf(g.dims));
  const rows: number[][] = [];
  forEachTap(g.axes, (...row) => rows.push(row));
  for (let image = 0; image < batch * groups; image++)
    for (let o = 0; o < m; o++) {
      const channel = (image % groups) * m + o;
      const to = (image * m + o) * pixels;
      if (bias !== undefined) y.fill(bias[channel]!, to, to + pixels);
      for (let c = 0; c < channels; c++)
        for (const [tap, output, input, count, step] of rows as [number, number, number, number, number][]) {
          const weight = w[(channel * channels + c) * taps + tap]! - zw[channel * zeroW.line]!;
          const from = (image * channels + c) * inPixels + input;
          for (let i = 0; i < count; i++) y[to + output + i]! += weight * (x[from + i * step]! - zx);
        }
    }
  return y;
}

/** X as padded planes of 16-bit differences. */
function padded(call: LowerCall<unknown>, p: Places, axes: readonly [Axis, Axis, Axis], planes: number) {
  const sizes = axes.map((a) => a.input + a.padBegin + a.padEnd) as [number, number, number];
  const [d, h, w] = axes;
  const y = call.scratch(planes * sizeOf(sizes) * 2);
  call.step(
    'padIntegers',
    {
      x: call.in(p.x),
      zero: call.has(p.zeroX) ? call.in(p.zeroX) : 0,
      y,
      signed: call.input(p.x).type === 'int8' ? 1 : 0,
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
  return { y, sizes };
}

function lower(
  call: LowerCall<ConvAttributes>,
  p: Places,
  conv: IntegerConv,
  y: Address,
  result: IntegerResult,
): boolean {
  const { batch, groups, channels, m, taps, pixels, axes: all } = conv.geometry;
  const axes = threeAxes(all);
  if (axes === undefined) return false;
  if (batch * groups * m * pixels === 0) return true;
  const k = channels * taps;
  const { y: x, sizes } = padded(call, p, axes, batch * groups * channels);
  const steps = pixelSteps(axes, sizes);
  const lines = {
    matrices: groups,
    lines: m,
    k,
    stride: m * k,
    line: k,
    step: 1,
    zeroMatrix: conv.zeroW.line * m,
    zeroLine: conv.zeroW.line,
    panel: 4,
  } as const;
  const w = placeIntegers(call, factorOf(call, p.w, p.zeroW, lines));
  const panelBytes = Math.ceil(k / 2) * 32;
  const allPanels = Math.ceil(pixels / 8);
  // Packed windows stay in a level-1 cache beside the weights they meet.
  const panels = Math.max(1, Math.min(allPanels, Math.floor(16_384 / panelBytes)));
  const spans = Math.ceil(allPanels / panels);
  const split = Math.max(1, Math.min(Math.ceil(16 / (batch * groups * spans)), Math.floor(m / 32)));
  const chunk = Math.ceil(m / split / 4) * 4;
  const channelStride = sizeOf(sizes);
  const params = {
    ...integerResultParams(result),
    x,
    w,
    y,
    groups,
    m,
    channels,
    imageStride: groups * channels * channelStride,
    channelStride,
    pixels,
    ...steps,
    taps: tapOffsets(axes, sizes),
    tapCount: taps,
    panels,
    chunk,
  };
  const flops = 2 * batch * groups * m * k * pixels;
  if (channels === 1 && m === 1) {
    call.threadScratch(Math.ceil(steps.width / 8) * 8 * 4);
    call.step('integerDepthwise', params, { units: batch * groups, grain: grainOf(taps * pixels), flops });
    return true;
  }
  call.threadScratch(32 * 32 + panels * panelBytes);
  const units = batch * groups * spans * Math.ceil(m / chunk);
  call.step('integerConv', params, { units, grain: grainOf(chunk * k * 8 * panels), flops });
  return true;
}

const integerPlaces: Places = { x: 0, w: 1, zeroX: 2, zeroW: 3, bias: -1 };

/** x, w, x_zero_point?, w_zero_point? → int32. */
const convInteger = operator({
  name: 'ConvInteger',
  since: [10],
  inputs: [2, 4],
  attributes: convAttributes,
  infer: (call) => [{ type: 'int32', dims: convOf(call, integerPlaces).geometry.dims }],
  reference(call) {
    const conv = convOf(call, integerPlaces);
    return [fromNumbers('int32', conv.geometry.dims, sumsOf(call, integerPlaces, conv))];
  },
  lower: (call) => lower(call, integerPlaces, convOf(call, integerPlaces), call.out(0), { type: 'int32' }),
});

const linearPlaces: Places = { x: 0, w: 3, zeroX: 2, zeroW: 5, bias: 8 };

function linearOf(call: InferCall<ConvAttributes>) {
  const conv = convOf(call, linearPlaces);
  const { type } = call.input(7) as { type: DataType };
  if (type !== 'int8' && type !== 'uint8') throw call.error(`y_zero_point must be int8 or uint8, got ${type}`);
  for (const i of [1, 6, 7])
    if (sizeOf(call.input(i).dims) !== 1)
      throw call.error(`input ${i} must be one value, got shape ${formatShape(call.input(i).dims)}`);
  for (const i of [1, 4, 6])
    if (call.input(i).type !== 'float32') throw call.error(`scales must be float32, got ${call.input(i).type}`);
  const bias = call.optional(8);
  if (bias !== undefined && bias.type !== 'int32') throw call.error(`B must be int32, got ${bias.type}`);
  const { groups, m } = conv.geometry;
  return { conv, type, scaleW: perChannel(call, 'w_scale', call.input(4).dims, groups * m) } as const;
}

/** x, its scale and zero point, w, its scale(s) and zero point(s), y_scale, y_zero_point, B? (int32) → y. */
const qLinearConv = operator({
  name: 'QLinearConv',
  since: [10],
  inputs: [8, 9],
  attributes: convAttributes,
  infer(call) {
    const { conv, type } = linearOf(call);
    return [{ type, dims: conv.geometry.dims }];
  },
  reference(call) {
    const { conv, type, scaleW } = linearOf(call);
    const [xs, ws, ys] = [1, 4, 6].map((i) => decode(call.tensor(i))) as [
      ArrayLike<number>,
      ArrayLike<number>,
      ArrayLike<number>,
    ];
    const zero = decode(call.tensor(7))[0]!;
    const range = rangeOf(type);
    const { pixels, groups, m, dims } = conv.geometry;
    const y = sumsOf(call, linearPlaces, conv).map((sum, i) => {
      const channel = Math.floor(i / pixels) % (groups * m);
      const scale = Math.fround(Math.fround(xs[0]! * ws[channel * scaleW.line]!) / ys[0]!);
      return saturate(Math.fround(Math.fround(sum | 0) * scale), zero, range);
    });
    return [new Tensor(type, encode(type, y), dims)];
  },
  lower(call) {
    const { conv, type, scaleW } = linearOf(call);
    return lower(call, linearPlaces, conv, call.out(0), {
      type,
      // The rows of A are the output channels.
      scaleA: { at: call.in(4), ...scaleW },
      scaleB: { at: call.in(1), matrix: 0, line: 0 },
      scaleY: call.in(6),
      zeroY: call.in(7),
      ...(call.has(8) && { bias: { at: call.in(8), row: 1, column: 0 } }),
    });
  },
});

export const quantizedConvOperators: readonly Operator[] = [convInteger, qLinearConv];
