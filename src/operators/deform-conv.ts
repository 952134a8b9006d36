// DeformConv (19, 22): a 2-D convolution whose taps are displaced by learned offsets, a pair an output pixel, and weighted
// by an optional mask. X is sampled between its pixels (bilinear), zero outside. Runs by the reference.
import { decode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { sameShape, sizeOf } from '../tensor/shape.js';
import { type AttributesOf, int, ints } from './attributes.js';
import { type ConvAttributes, convGeometry } from './conv-geometry.js';
import { type InferCall, type Operator, operator } from './operator.js';
import { fromNumbers } from './reference.js';

const specs = {
  dilations: ints(),
  group: int(1),
  kernel_shape: ints(),
  offset_group: int(1),
  pads: ints(),
  strides: ints(),
};

function shapeOf(call: InferCall<AttributesOf<typeof specs>>) {
  const x = call.input(0);
  if (x.dims.length !== 4)
    throw call.error(`only two spatial dimensions are supported, got X ${formatShape(x.dims)}`, 'UNSUPPORTED');
  const asConv: InferCall<ConvAttributes> = Object.assign(Object.create(call), {
    attributes: { ...call.attributes, auto_pad: 'NOTSET' },
    input: (i: number) => call.input(i),
    optional: (i: number) => (i === 2 ? call.optional(3) : undefined),
  });
  const g = convGeometry(asConv);
  const { offset_group: offsetGroups } = call.attributes;
  const channels = g.groups * g.channels;
  if (offsetGroups < 1 || channels % offsetGroups !== 0)
    throw call.error(`offset_group ${offsetGroups} does not divide ${channels} channels`);
  const spatial = g.dims.slice(2);
  const check = (i: number, name: string, each: number) => {
    const t = call.optional(i);
    const want = [g.batch, offsetGroups * g.taps * each, ...spatial];
    if (t !== undefined && !sameShape(t.dims, want))
      throw call.error(`expected ${name} of shape ${formatShape(want)}, got ${formatShape(t.dims)}`);
  };
  call.input(2);
  check(2, 'offset', 2);
  check(4, 'mask', 1);
  return { g, offsetGroups };
}

/** X, W, offset, B?, mask? → Y. */
const deformConv = operator({
  name: 'DeformConv',
  since: [19, 22],
  inputs: [3, 5],
  attributes: specs,
  infer: (call) => [{ type: call.input(0).type, dims: shapeOf(call).g.dims }],
  reference(call) {
    const { g, offsetGroups } = shapeOf(call);
    const [x, w, offset] = [0, 1, 2].map((i) => decode(call.tensor(i))) as [
      ArrayLike<number>,
      ArrayLike<number>,
      ArrayLike<number>,
    ];
    const bias = call.has(3) ? decode(call.tensor(3)) : undefined;
    const mask = call.has(4) ? decode(call.tensor(4)) : undefined;
    const [h, v] = g.axes as [(typeof g.axes)[0], (typeof g.axes)[0]];
    const inputs = g.groups * g.channels;
    const y = new Float64Array(sizeOf(g.dims));
    for (let b = 0; b < g.batch; b++)
      for (let c = 0; c < inputs; c++) {
        const plane = (b * inputs + c) * g.inPixels;
        const at = (i: number, j: number) =>
          i < 0 || j < 0 || i >= h.input || j >= v.input ? 0 : x[plane + i * v.input + j]!;
        const group = Math.floor(c / g.channels);
        const offsetGroup = Math.floor(c / (inputs / offsetGroups));
        for (let tap = 0; tap < g.taps; tap++)
          for (let p = 0; p < g.pixels; p++) {
            const o = (b * offsetGroups + offsetGroup) * g.taps + tap;
            const row = Math.floor(p / v.output) * h.stride - h.padBegin + Math.floor(tap / v.kernel) * h.dilation;
            const column = (p % v.output) * v.stride - v.padBegin + (tap % v.kernel) * v.dilation;
            const i = row + offset[2 * o * g.pixels + p]!;
            const j = column + offset[(2 * o + 1) * g.pixels + p]!;
            const [i0, j0] = [Math.floor(i), Math.floor(j)];
            const [di, dj] = [i - i0, j - j0];
            const top = (1 - dj) * at(i0, j0) + dj * at(i0, j0 + 1);
            const bottom = (1 - dj) * at(i0 + 1, j0) + dj * at(i0 + 1, j0 + 1);
            const value = ((1 - di) * top + di * bottom) * (mask === undefined ? 1 : mask[o * g.pixels + p]!);
            for (let m = 0; m < g.m; m++) {
              const channel = group * g.m + m;
              const weight = w[(channel * g.channels + (c % g.channels)) * g.taps + tap]!;
              y[(b * g.groups * g.m + channel) * g.pixels + p]! += weight * value;
            }
          }
      }
    if (bias !== undefined)
      for (let i = 0; i < y.length; i++) y[i]! += bias[Math.floor(i / g.pixels) % (g.groups * g.m)]!;
    return [fromNumbers(call.tensor(0).type, g.dims, y)];
  },
});

export const deformConvOperators: readonly Operator[] = [deformConv];
