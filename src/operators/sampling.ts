// Reading images at coordinates that data gives: GridSample, AffineGrid, RoiAlign; and Col2Im, which adds patches back into
// an image. References take any number of spatial axes where the specification does; kernels take float32 images.
import { decode, encode, roundEven } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { sizeOf, stridesOf } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import { float, int, ints, string } from './attributes.js';
import { checkedIndices, indexIn, indexWidth } from './gather.js';
import { type Call, type InferCall, type Operator, operator } from './operator.js';
import { outputOf } from './pick.js';
import { fromNumbers } from './reference.js';

const gridModes: Readonly<Record<string, number>> = { nearest: 0, linear: 1, bilinear: 1, cubic: 2, bicubic: 2 };
const paddings: Readonly<Record<string, number>> = { zeros: 0, border: 1, reflection: 2 };

interface GridAttributes {
  readonly mode: string;
  readonly padding_mode: string;
  readonly align_corners: number;
}

function gridOptions(call: Call<GridAttributes>): { mode: number; padding: number; align: boolean } {
  const { mode, padding_mode, align_corners } = call.attributes;
  if (!Object.hasOwn(gridModes, mode)) throw call.error(`mode must be linear, nearest or cubic, got '${mode}'`);
  if (!Object.hasOwn(paddings, padding_mode))
    throw call.error(`padding_mode must be zeros, border or reflection, got '${padding_mode}'`);
  return { mode: gridModes[mode]!, padding: paddings[padding_mode]!, align: align_corners !== 0 };
}

function gridDims(call: InferCall<GridAttributes>): number[] {
  const { dims } = call.input(0);
  const grid = call.input(1).dims;
  if (dims.length < 3 || grid.length !== dims.length || grid.at(-1) !== dims.length - 2 || grid[0] !== dims[0])
    throw call.error(`grid of shape ${formatShape(grid)} does not fit an input of shape ${formatShape(dims)}`);
  return [dims[0]!, dims[1]!, ...grid.slice(1, -1)];
}

/** Reflects x into [low, high] as often as needed. */
function reflect(x: number, low: number, high: number): number {
  const span = high - low;
  if (!(span > 0)) return low;
  const d = x < low ? low - x : x - low;
  const turns = Math.floor(d / span);
  const rest = d - turns * span;
  return turns % 2 === 1 ? high - rest : low + rest;
}

function cubicWeight(distance: number): number {
  const a = -0.75;
  const d = Math.abs(distance);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

/** Taps along one axis of n pixels for a grid coordinate: pixel (−1: zero) and weight. */
function gridTaps(g: number, n: number, mode: number, padding: number, align: boolean): [number, number][] {
  let x = align ? ((g + 1) / 2) * (n - 1) : ((g + 1) * n - 1) / 2;
  if (mode === 0) x = Number.isFinite(x) ? Math.sign(x) * roundEven(Math.abs(x)) : x;
  const [low, high] = align ? [0, n - 1] : [-0.5, n - 0.5];
  if (x < low || x > high) {
    if (padding === 1) x = Math.min(Math.max(x, 0), n - 1);
    if (padding === 2) x = reflect(x, low, high);
  }
  const pixel = (i: number): number => {
    if (padding === 0) return i >= 0 && i < n ? i : -1;
    const r = padding === 1 ? i : reflect(i, low, high);
    return r >= 0 ? Math.trunc(Math.min(r, n - 1)) : 0;
  };
  const left = Math.floor(x) - (mode === 2 ? 1 : 0);
  return Array.from({ length: mode === 2 ? 4 : mode + 1 }, (_, t) => {
    const i = left + t;
    return [pixel(i), mode === 0 ? 1 : mode === 1 ? 1 - Math.abs(x - i) : cubicWeight(x - i)];
  });
}

const GridSample = operator({
  name: 'GridSample',
  since: [16, 20, 22],
  inputs: [2, 2],
  attributes: { mode: string('linear'), padding_mode: string('zeros'), align_corners: int(0) },
  infer(call) {
    gridOptions(call);
    return [outputOf(call, call.input(0).type, gridDims(call))];
  },
  reference(call) {
    const { mode, padding, align } = gridOptions(call);
    const t = call.tensor(0);
    const dims = gridDims(call);
    outputOf(call, t.type, dims);
    const [x, grid] = [decode(t), decode(call.tensor(1))];
    const [batch, channels] = dims as [number, number];
    const space = t.dims.slice(2);
    const strides = stridesOf(space);
    const [plane, points] = [sizeOf(space), sizeOf(dims.slice(2))];
    const y = new Float64Array(sizeOf(dims));
    for (let n = 0; n < batch; n++)
      for (let p = 0; p < points; p++) {
        // Grid coordinates come innermost axis first.
        const axes = space.map((size, a) =>
          gridTaps(grid[(n * points + p) * space.length + space.length - 1 - a]!, size, mode, padding, align),
        );
        let taps: [number, number][] = [[0, 1]];
        axes.forEach((list, a) => {
          taps = taps.flatMap(([at, w]) =>
            list.map(([i, v]): [number, number] => [at < 0 || i < 0 ? -1 : at + i * strides[a]!, w * v]),
          );
        });
        for (let c = 0; c < channels; c++) {
          let sum = 0;
          for (const [at, w] of taps) if (at >= 0) sum += w * x[(n * channels + c) * plane + at]!;
          y[(n * channels + c) * points + p] = sum;
        }
      }
    return [fromNumbers(t.type, dims, y)];
  },
  lower(call) {
    const { mode, padding, align } = gridOptions(call);
    const { type, dims } = call.output(0);
    const [, channels, height, width] = call.input(0).dims as [number, number, number, number];
    if (type !== 'float32' || call.input(1).type !== 'float32' || dims.length !== 4) return false;
    if (sizeOf(dims) === 0) return true;
    if (height * width === 0) return false;
    const [outHeight, outWidth] = dims.slice(2) as [number, number];
    call.threadScratch(128);
    call.step(
      'gridSample',
      {
        input: call.in(0),
        grid: call.in(1),
        output: call.out(0),
        channels,
        height,
        width,
        outHeight,
        outWidth,
        mode,
        padding,
        alignCorners: align ? 1 : 0,
      },
      {
        units: dims[0]! * outHeight,
        grain: Math.max(1, Math.floor(4096 / (outWidth * channels))),
        flops: 2 * [1, 4, 16][mode]! * sizeOf(dims),
      },
    );
    return true;
  },
});

const AffineGrid = operator({
  name: 'AffineGrid',
  since: [20],
  inputs: [2, 2],
  attributes: { align_corners: int(0) },
  infer: (call) => [outputOf(call, call.input(0).type, affineDims(call))],
  reference(call) {
    const theta = call.tensor(0);
    const m = decode(theta);
    const dims = affineDims(call);
    outputOf(call, theta.type, dims);
    const space = dims.slice(1, -1);
    const d = space.length;
    const points = sizeOf(space);
    const strides = stridesOf(space);
    const align = call.attributes.align_corners !== 0;
    const centre = (i: number, n: number) => (align ? (n === 1 ? 0 : (2 * i) / (n - 1) - 1) : (2 * i + 1) / n - 1);
    const y = new Float64Array(sizeOf(dims));
    for (let n = 0; n < dims[0]!; n++)
      for (let p = 0; p < points; p++) {
        const at = space.map((size, a) => centre(Math.floor(p / strides[a]!) % size, size)).reverse();
        for (let r = 0; r < d; r++) {
          const row = (n * d + r) * (d + 1);
          y[(n * points + p) * d + r] = at.reduce((s, x, c) => s + m[row + c]! * x, m[row + d]!);
        }
      }
    return [fromNumbers(theta.type, dims, y)];
  },
});

function affineDims(call: InferCall<unknown>): number[] {
  const size = call.ints(1)!;
  const theta = call.input(0).dims;
  const d = size.length - 2;
  if ((d !== 2 && d !== 3) || theta.length !== 3 || theta[0] !== size[0] || theta[1] !== d || theta[2] !== d + 1)
    throw call.error(`theta of shape ${formatShape(theta)} does not fit size ${formatShape(size)}`);
  return [size[0]!, ...size.slice(2), d];
}

interface RoiAttributes {
  readonly coordinate_transformation_mode: string | undefined;
  readonly mode: string;
  readonly output_height: number;
  readonly output_width: number;
  readonly sampling_ratio: number;
  readonly spatial_scale: number;
}

/** Most samples of a bin each way: hostile regions do not buy endless work. */
const maxSamples = 1024;

function roiShape(call: InferCall<RoiAttributes>) {
  const { dims } = call.input(0);
  const rois = call.input(1).dims;
  const { mode, output_height, output_width, sampling_ratio } = call.attributes;
  if (dims.length !== 4 || rois.length !== 2 || rois[1] !== 4 || sizeOf(call.input(2).dims) !== rois[0])
    throw call.error(
      `rois ${formatShape(rois)} and batch indices ${formatShape(call.input(2).dims)} do not fit an input of shape ${formatShape(dims)}`,
    );
  if (mode !== 'avg' && mode !== 'max') throw call.error(`mode must be avg or max, got '${mode}'`);
  if (output_height < 1 || output_width < 1) throw call.error('output_height and output_width must be positive');
  if (sampling_ratio < 0 || sampling_ratio > maxSamples)
    throw call.error(`sampling_ratio ${sampling_ratio} is outside [0, ${maxSamples}]`);
  const transform =
    call.attributes.coordinate_transformation_mode ?? (call.opset < 16 ? 'output_half_pixel' : 'half_pixel');
  if (transform !== 'half_pixel' && transform !== 'output_half_pixel')
    throw call.error(`coordinate_transformation_mode '${transform}' is not known`);
  return { dims: [rois[0]!, dims[1]!, output_height, output_width], offset: transform === 'half_pixel' ? 0.5 : 0 };
}

const RoiAlign = operator({
  name: 'RoiAlign',
  since: [10, 16, 22],
  inputs: [3, 3],
  attributes: {
    coordinate_transformation_mode: string(),
    mode: string('avg'),
    output_height: int(1),
    output_width: int(1),
    sampling_ratio: int(0),
    spatial_scale: float(1),
  },
  infer: (call) => [outputOf(call, call.input(0).type, roiShape(call).dims)],
  reference(call) {
    const t = call.tensor(0);
    const [batches, channels, height, width] = t.dims as [number, number, number, number];
    const { dims, offset } = roiShape(call);
    outputOf(call, t.type, dims);
    const { mode, sampling_ratio: ratio, spatial_scale: scale } = call.attributes;
    const [x, rois] = [decode(t), decode(call.tensor(1))];
    const images = call.ints(2)!.map((i) => indexIn(call, i, batches));
    const [count, , outHeight, outWidth] = dims as [number, number, number, number];
    const y = new Float64Array(sizeOf(dims));
    // The number of samples is a ceiling, so it hangs on how sizes are rounded: to the type, as an engine computes them.
    const round = t.type === 'float64' ? (v: number) => v : Math.fround;
    const samples = (bin: number) => (ratio > 0 ? ratio : Math.max(0, Math.min(Math.ceil(bin), maxSamples)) || 0);
    /** The four weighted neighbours of a point; nothing outside. */
    const corners = (plane: number, py: number, px: number): number[] => {
      if (!(py >= -1 && py <= height && px >= -1 && px <= width)) return [];
      const cy = Math.min(Math.max(py, 0), height - 1);
      const cx = Math.min(Math.max(px, 0), width - 1);
      const [yl, xl] = [Math.floor(cy), Math.floor(cx)];
      const [ly, lx] = [cy - yl, cx - xl];
      const at = (r: number, c: number) => x[plane + Math.min(r, height - 1) * width + Math.min(c, width - 1)]!;
      return [
        (1 - ly) * (1 - lx) * at(yl, xl),
        (1 - ly) * lx * at(yl, xl + 1),
        ly * (1 - lx) * at(yl + 1, xl),
        ly * lx * at(yl + 1, xl + 1),
      ];
    };
    for (let r = 0; r < count; r++) {
      const [x1, y1, x2, y2] = [0, 1, 2, 3].map((k) => round(round(rois[r * 4 + k]! * scale) - offset)) as [
        number,
        number,
        number,
        number,
      ];
      const w = offset === 0 ? Math.max(round(x2 - x1), 1) : round(x2 - x1);
      const h = offset === 0 ? Math.max(round(y2 - y1), 1) : round(y2 - y1);
      const [binH, binW] = [round(h / outHeight), round(w / outWidth)];
      const [down, across] = [samples(binH), samples(binW)];
      for (let c = 0; c < channels; c++)
        for (let i = 0; i < outHeight; i++)
          for (let j = 0; j < outWidth; j++) {
            const found: number[][] = [];
            for (let a = 0; a < down; a++)
              for (let b = 0; b < across; b++)
                found.push(
                  corners(
                    (images[r]! * channels + c) * height * width,
                    y1 + i * binH + ((a + 0.5) * binH) / down,
                    x1 + j * binW + ((b + 0.5) * binW) / across,
                  ),
                );
            y[((r * channels + c) * outHeight + i) * outWidth + j] =
              mode === 'avg'
                ? found.flat().reduce((s, v) => s + v, 0) / Math.max(found.length, 1)
                : found.length === 0
                  ? 0
                  : Math.max(...found.map((v) => (v.length === 0 ? 0 : Math.max(...v))));
          }
    }
    return [fromNumbers(t.type, dims, y)];
  },
  lower(call) {
    const { dims, offset } = roiShape(call);
    const [batches, channels, height, width] = call.input(0).dims as [number, number, number, number];
    const wide = indexWidth(call.input(2));
    if (call.input(0).type !== 'float32' || call.input(1).type !== 'float32' || wide === undefined) return false;
    if (sizeOf(dims) === 0) return true;
    if (batches * height * width === 0) return false;
    const { mode, sampling_ratio, spatial_scale: scale } = call.attributes;
    call.step(
      'roiAlign',
      {
        input: call.in(0),
        rois: call.in(1),
        batch: call.in(2),
        output: call.out(0),
        batches,
        channels,
        height,
        width,
        outHeight: dims[2]!,
        outWidth: dims[3]!,
        ratio: sampling_ratio,
        mode: mode === 'max' ? 1 : 0,
        scale,
        offset,
        wide,
      },
      { units: dims[0]! * channels, ...checkedIndices(call, 2, [batches], { field: 'batch' }) },
    );
    return true;
  },
});

interface Col2ImAttributes {
  readonly dilations: readonly number[] | undefined;
  readonly pads: readonly number[] | undefined;
  readonly strides: readonly number[] | undefined;
}

function col2imShape(call: InferCall<Col2ImAttributes>) {
  const { dims } = call.input(0);
  const [image, block] = [call.ints(1)!, call.ints(2)!];
  const d = image.length;
  const a = call.attributes;
  const dilations = a.dilations ?? block.map(() => 1);
  const strides = a.strides ?? block.map(() => 1);
  const pads = a.pads ?? [...block, ...block].map(() => 0);
  if (block.length !== d || dilations.length !== d || strides.length !== d || pads.length !== 2 * d)
    throw call.error(`image_shape, block_shape, dilations, strides (${d} values) and pads (${2 * d}) do not agree`);
  if ([...block, ...dilations, ...strides].some((v) => v < 1) || [...image, ...pads].some((v) => v < 0))
    throw call.error('block_shape, dilations and strides must be positive, image_shape and pads not negative');
  const positions = image.map((n, i) =>
    Math.floor((n + pads[i]! + pads[i + d]! - dilations[i]! * (block[i]! - 1) - 1) / strides[i]! + 1),
  );
  const [batch, rows, columns] = dims as [number, number, number];
  if (dims.length !== 3 || rows % sizeOf(block) !== 0 || positions.some((p) => p < 0) || columns !== sizeOf(positions))
    throw call.error(
      `input of shape ${formatShape(dims)} does not hold blocks ${formatShape(block)} at ${formatShape(positions)} positions`,
    );
  return { dims: [batch, rows / sizeOf(block), ...image], image, block, dilations, strides, pads, positions };
}

const Col2Im = operator({
  name: 'Col2Im',
  since: [18],
  inputs: [3, 3],
  attributes: { dilations: ints(), pads: ints(), strides: ints() },
  infer: (call) => [outputOf(call, call.input(0).type, col2imShape(call).dims)],
  reference(call) {
    const t = call.tensor(0);
    const { dims, image, block, dilations, strides, pads, positions } = col2imShape(call);
    outputOf(call, t.type, dims);
    const x = decode(t);
    const y = new Float64Array(sizeOf(dims));
    const [planes, cells, columns] = [dims[0]! * dims[1]!, sizeOf(block), sizeOf(positions)];
    const [ownBlock, ownPositions, ownImage] = [stridesOf(block), stridesOf(positions), stridesOf(image)];
    for (let i = 0; i < cells; i++)
      for (let p = 0; p < columns; p++) {
        let to = 0;
        for (let a = 0; a < image.length && to >= 0; a++) {
          const b = Math.floor(i / ownBlock[a]!) % block[a]!;
          const at = (Math.floor(p / ownPositions[a]!) % positions[a]!) * strides[a]! + b * dilations[a]! - pads[a]!;
          to = at < 0 || at >= image[a]! ? -1 : to + at * ownImage[a]!;
        }
        if (to < 0) continue;
        for (let n = 0; n < planes; n++) y[n * sizeOf(image) + to]! += x[(n * cells + i) * columns + p]!;
      }
    return [new Tensor(t.type, encode(t.type, y), dims)];
  },
});

export const samplings: readonly Operator[] = [GridSample, AffineGrid, RoiAlign, Col2Im];
