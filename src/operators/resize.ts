// Resize and its predecessor Upsample. The image is resampled one axis after the other (interpolation is separable), by
// the taps of resampling.ts. Kernels: nearest of any type is one copy through offset tables; linear and cubic of float32
// are one pass an axis, the axes that shrink first.
import { decode, encode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { sizeOf } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import { type DataType, typeInfo } from '../tensor/types.js';
import { float, floats, int, ints, string } from './attributes.js';
import { bytesConstant, copyDense, elementBytes, lowerTables } from './copy.js';
import { type Address, type InferCall, type LowerCall, type Operator, offsetBy, operator } from './operator.js';
import { axesOf, outputOf, pickByAxis } from './pick.js';
import { type AxisOptions, isIdentity, type Taps, tapsOf } from './resampling.js';

const attributes = {
  mode: string('nearest'),
  coordinate_transformation_mode: string('half_pixel'),
  nearest_mode: string('round_prefer_floor'),
  cubic_coeff_a: float(-0.75),
  exclude_outside: int(0),
  extrapolation_value: float(0),
  antialias: int(0),
  axes: ints(),
  keep_aspect_ratio_policy: string('stretch'),
  scales: floats(),
  width_scale: float(),
  height_scale: float(),
};

interface Attributes {
  readonly mode: string;
  readonly coordinate_transformation_mode: string;
  readonly nearest_mode: string;
  readonly cubic_coeff_a: number;
  readonly exclude_outside: number;
  readonly extrapolation_value: number;
  readonly antialias: number;
  readonly axes: readonly number[] | undefined;
  readonly keep_aspect_ratio_policy: string;
  readonly scales: readonly number[] | undefined;
  readonly width_scale: number | undefined;
  readonly height_scale: number | undefined;
}

/** What is asked of every axis: its output size and scale. */
interface Target {
  readonly dims: readonly number[];
  readonly scales: readonly number[];
  readonly options: readonly AxisOptions[];
}

const transforms = [
  'half_pixel',
  'half_pixel_symmetric',
  'pytorch_half_pixel',
  'align_corners',
  'asymmetric',
  'tf_crop_and_resize',
];
const nearestModes = ['round_prefer_floor', 'round_prefer_ceil', 'floor', 'ceil'];

/** Values of a float input, or undefined when it is absent or empty. */
function floatsOf(call: InferCall<Attributes>, i: number): readonly number[] | undefined {
  if (!call.has(i) || sizeOf(call.input(i).dims) === 0) return undefined;
  return Array.from(decode(call.value(i)));
}

function scalesAttribute({ scales, width_scale, height_scale }: Attributes): readonly number[] | undefined {
  return scales ?? (width_scale === undefined ? undefined : [1, 1, height_scale ?? 1, width_scale]);
}

function target(call: InferCall<Attributes>): Target {
  const a = call.attributes;
  const { dims } = call.input(0);
  const rank = dims.length;
  const isResize = call.node.op === 'Resize';
  // Before version 11 there are two inputs, and one rule: asymmetric coordinates.
  const old = !isResize || call.opset < 11;
  const axes = a.axes === undefined || old ? dims.map((_, i) => i) : axesOf(call, a.axes, rank);
  const given = floatsOf(call, old ? 1 : 2) ?? scalesAttribute(a);
  const sizes = old || !call.has(3) || sizeOf(call.input(3).dims) === 0 ? undefined : call.ints(3)!;
  if ((given === undefined) === (sizes === undefined))
    throw call.error('exactly one of scales and sizes must be given');
  const listed = (sizes ?? given)!;
  if (listed.length !== axes.length)
    throw call.error(`expected ${axes.length} ${sizes ? 'sizes' : 'scales'}, got ${formatShape(listed)}`);
  const out = [...dims];
  const scales = new Array<number>(rank).fill(1);
  if (given !== undefined)
    axes.forEach((axis, i) => {
      const scale = given[i]!;
      if (!(scale > 0) || !Number.isFinite(scale)) throw call.error(`scale ${scale} of axis ${axis} must be positive`);
      scales[axis] = scale;
      // In single precision, as the specification's shape rule computes it: 10 × 0.7 is 7.
      out[axis] = Math.floor(Math.fround(dims[axis]! * Math.fround(scale)));
    });
  else keepAspect(call, a.keep_aspect_ratio_policy, axes, sizes!, dims, out, scales);
  for (const axis of axes)
    if (dims[axis] === 0 && out[axis] !== 0) throw call.error(`axis ${axis} has no elements to resize to ${out[axis]}`);
  return { dims: out, scales, options: optionsOf(call, old, axes, rank) };
}

/** Sizes as asked, or one scale for all axes that fits inside or outside them. */
function keepAspect(
  call: InferCall<Attributes>,
  policy: string,
  axes: readonly number[],
  sizes: readonly number[],
  dims: readonly number[],
  out: number[],
  scales: number[],
): void {
  const ratios = axes.map((axis, i) => sizes[i]! / dims[axis]!);
  if (sizes.some((s) => s < 0)) throw call.error(`sizes ${formatShape(sizes)} must not be negative`);
  if (policy !== 'stretch' && policy !== 'not_larger' && policy !== 'not_smaller')
    throw call.error(`keep_aspect_ratio_policy must be stretch, not_larger or not_smaller, got '${policy}'`);
  const common = policy === 'not_larger' ? Math.min(...ratios) : Math.max(...ratios);
  axes.forEach((axis, i) => {
    scales[axis] = policy === 'stretch' ? ratios[i]! : common;
    out[axis] = policy === 'stretch' ? sizes[i]! : Math.floor(common * dims[axis]! + 0.5);
  });
}

function optionsOf(call: InferCall<Attributes>, old: boolean, axes: readonly number[], rank: number): AxisOptions[] {
  const a = call.attributes;
  const mode = a.mode === 'bilinear' ? 'linear' : a.mode;
  if (mode !== 'nearest' && mode !== 'linear' && mode !== 'cubic')
    throw call.error(`mode must be nearest, linear or cubic, got '${a.mode}'`);
  const transform = old ? 'asymmetric' : a.coordinate_transformation_mode;
  // Version 11 had one more, for which half a pixel is not taken off: tf_half_pixel_for_nn.
  if (!transforms.includes(transform) && transform !== 'tf_half_pixel_for_nn')
    throw call.error(`coordinate_transformation_mode '${transform}' is not known`);
  if (!nearestModes.includes(a.nearest_mode)) throw call.error(`nearest_mode '${a.nearest_mode}' is not known`);
  const nearest = old ? (call.node.op === 'Resize' ? 'simple' : 'floor') : a.nearest_mode;
  const roi = transform === 'tf_crop_and_resize' ? floatsOf(call, 1) : undefined;
  if (transform === 'tf_crop_and_resize' && roi?.length !== 2 * axes.length)
    throw call.error(`expected a roi of ${2 * axes.length} values for tf_crop_and_resize`);
  return Array.from({ length: rank }, (_, axis) => {
    const i = axes.indexOf(axis);
    return {
      mode,
      transform,
      nearest,
      cubicA: a.cubic_coeff_a,
      antialias: a.antialias !== 0 && mode !== 'nearest',
      excludeOutside: a.exclude_outside !== 0,
      roi: i < 0 || roi === undefined ? [0, 1] : [roi[i]!, roi[i + axes.length]!],
    };
  });
}

/** The taps of every axis; undefined where the axis stays as it is. */
function plan(call: InferCall<Attributes>): (Taps | undefined)[] {
  const { dims } = call.input(0);
  const { dims: out, scales, options } = target(call);
  return dims.map((n, a) => {
    const taps = tapsOf(n, out[a]!, scales[a]!, options[a]!);
    return isIdentity(taps, n) ? undefined : taps;
  });
}

/** Resamples along one axis in double precision. */
function resample(x: ArrayLike<number>, dims: readonly number[], axis: number, t: Taps, outside: number): Float64Array {
  const inner = sizeOf(dims.slice(axis + 1));
  const outer = sizeOf(dims.slice(0, axis));
  const n = dims[axis]!;
  const y = new Float64Array(outer * t.count * inner);
  for (let o = 0; o < outer; o++)
    for (let i = 0; i < t.count; i++)
      for (let k = 0; k < inner; k++) {
        let sum = 0;
        for (let j = 0; j < t.taps; j++) {
          const w = t.weights[i * t.taps + j]!;
          // A tap of no weight takes no part, not even of an infinity.
          if (w !== 0) sum += w * x[(o * n + t.indices[i * t.taps + j]!) * inner + k]!;
        }
        y[(o * t.count + i) * inner + k] = t.outside[i] ? outside : sum;
      }
  return y;
}

/** Numbers as elements of a type; interpolated integers are cut and kept in range. */
function toType(type: DataType, values: Float64Array): Tensor['data'] {
  const { kind, bits } = typeInfo(type);
  if (kind !== 'signed' && kind !== 'unsigned') return encode(type, values);
  const [least, most] = kind === 'signed' ? [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1] : [0, 2 ** bits - 1];
  return encode(
    type,
    values.map((v) => Math.min(Math.max(Math.trunc(v), least), most)),
  );
}

function tablesOf(axes: readonly (Taps | undefined)[], dims: readonly number[]): Int32Array[] {
  return axes.map((t, a) =>
    t === undefined
      ? Int32Array.from({ length: dims[a]! }, (_, i) => i)
      : t.indices.map((i, x) => (t.outside[x] ? -1 : i)),
  );
}

/** Passes over axes in the order that keeps intermediate results small: what shrinks first, then the innermost. */
function order(axes: readonly (Taps | undefined)[], dims: readonly number[]): number[] {
  const ratio = (a: number) => axes[a]!.count / Math.max(dims[a]!, 1);
  return [...axes.keys()].filter((a) => axes[a] !== undefined).sort((a, b) => ratio(a) - ratio(b) || b - a);
}

function lowerPasses(call: LowerCall<Attributes>, axes: readonly (Taps | undefined)[]): boolean {
  const { dims: to } = call.output(0);
  const from = call.input(0).dims;
  const { scales, options } = target(call);
  const passes = order(axes, from);
  const dims = [...from];
  let source: Address = call.in(0);
  if (passes.length === 0) copyDense(call, source, call.out(0), sizeOf(to) * 4);
  passes.forEach((axis, p) => {
    const t = axes[axis]!;
    const n = dims[axis]!;
    dims[axis] = t.count;
    const last = p === passes.length - 1;
    const output = last ? call.out(0) : call.scratch(sizeOf(dims) * 4);
    const inner = sizeOf(dims.slice(axis + 1));
    const { taps, count } = t;
    const bytes = new Uint8Array(count * taps * 8);
    const indices = new Int32Array(bytes.buffer, 0, count * taps);
    const weights = new Float32Array(bytes.buffer, count * taps * 4);
    indices.set(t.indices);
    weights.set(t.weights);
    for (let i = 0; i < count; i++) {
      const row = [indices.subarray(i * taps, (i + 1) * taps), weights.subarray(i * taps, (i + 1) * taps)] as const;
      if (t.outside[i]) row[0].fill(-1);
      else shareWeight(...row);
    }
    const key = `axis ${axis} of [${from}] to [${to}] ${JSON.stringify(call.attributes)} ${call.opset} ${scales} ${JSON.stringify(options)}`;
    const tables = bytesConstant(call, key, bytes);
    call.step(
      'resample',
      {
        input: source,
        output,
        indices: tables,
        weights: offsetBy(tables, count * taps * 4),
        n,
        count,
        taps,
        inner,
        outside: call.attributes.extrapolation_value,
      },
      {
        units: inner === 1 ? sizeOf(dims) / count : sizeOf(dims) / inner,
        grain: Math.max(1, Math.floor(4096 / (inner === 1 ? count : inner))),
        flops: 2 * taps * sizeOf(dims),
      },
    );
    source = output;
  });
  return true;
}

/**
 * Gives taps of no weight half of the heaviest tap's place and weight: kernels multiply every tap, and nothing times an
 * infinity would be NaN. Halving is exact.
 */
function shareWeight(indices: Int32Array, weights: Float32Array): void {
  for (let k = 0; k < weights.length; k++) {
    if (weights[k] !== 0) continue;
    let heaviest = k;
    for (let j = 0; j < weights.length; j++) if (Math.abs(weights[j]!) > Math.abs(weights[heaviest]!)) heaviest = j;
    weights[heaviest]! /= 2;
    weights[k] = weights[heaviest]!;
    indices[k] = indices[heaviest]!;
  }
}

function resizing(name: string, since: readonly number[], inputs: readonly [number, number]): Operator {
  return operator({
    name,
    since,
    inputs,
    attributes,
    infer: (call) => [outputOf(call, call.input(0).type, target(call).dims)],
    reference(call) {
      const t = call.tensor(0);
      const { dims } = target(call);
      outputOf(call, t.type, dims);
      const axes = plan(call);
      const outside = call.attributes.extrapolation_value;
      if (target(call).options.every((o) => o.mode === 'nearest'))
        return [pickByAxis(t, tablesOf(axes, t.dims), new Tensor(t.type, encode(t.type, [outside]), []))];
      const shape = [...t.dims];
      let x: ArrayLike<number> = decode(t);
      axes.forEach((taps, axis) => {
        if (taps === undefined) return;
        x = resample(x, shape, axis, taps, outside);
        shape[axis] = taps.count;
      });
      return [new Tensor(t.type, toType(t.type, Float64Array.from(x)), dims)];
    },
    lower(call) {
      const { type, dims } = call.output(0);
      if (elementBytes(type) === 0) return false;
      if (sizeOf(dims) === 0) return true;
      const axes = plan(call);
      const { options, scales } = target(call);
      const { extrapolation_value: outside } = call.attributes;
      if (options.every((o) => o.mode === 'nearest')) {
        const fill = bytesConstant(call, `outside ${type} ${outside}`, new Uint8Array(encode(type, [outside]).buffer));
        const key = `resize ${JSON.stringify(call.attributes)} ${call.opset} to [${dims}] ${scales} ${JSON.stringify(options)}`;
        return lowerTables(call, key, tablesOf(axes, call.input(0).dims), fill);
      }
      return type === 'float32' && lowerPasses(call, axes);
    },
  });
}

export const resizes: readonly Operator[] = [
  resizing('Resize', [10, 11, 13, 18, 19], [1, 4]),
  { ...resizing('Upsample', [1, 7, 9], [1, 2]), ended: { version: 10, use: 'Resize' } },
];
