// Cases of resampling, of signal processing, and of what draws boxes and grids.
import { Tensor } from '../../../src/tensor/tensor.js';
import { attributes, type Family, f, type Generator, int64 } from './generator.js';

const close = { rtol: 1e-4, atol: 1e-4 };
const SCALES = [0.5, 0.6, 0.75, 1, 1.3, 1.5, 2, 2.5, 3];

function resize(g: Generator, opset: number) {
  const linearRank = g.int(2, 4);
  const mode = g.maybe(() => g.pick(opset >= 11 ? ['nearest', 'linear', 'cubic'] : ['nearest', 'linear']), 0.8);
  const rank = mode === 'linear' ? g.pick([2, 4]) : mode === 'cubic' ? g.pick([2, 4]) : linearRank;
  // Interpolation is over the last two dimensions in the engines compared.
  const spatial = mode === undefined || mode === 'nearest' ? rank : 2;
  const x = g.tensor(
    g.pick(['float32', 'float32', 'float32', 'uint8', 'int8', 'int32'] as const),
    [...g.ints(rank - 2, 1, 3), ...g.ints(2, 1, 6)],
    0,
    100,
  );
  const scales = x.dims.map((_, i) => (i < rank - spatial ? 1 : g.pick(SCALES)));
  if (opset === 10)
    return { inputs: [x, new Tensor('float32', scales, [rank])], attributes: attributes({ mode }), ...close };
  const bySizes = g.chance(0.5);
  const coordinate = g.maybe(
    () =>
      g.pick([
        'half_pixel',
        'align_corners',
        'asymmetric',
        'pytorch_half_pixel',
        'tf_crop_and_resize',
        ...(opset >= 19 ? ['half_pixel_symmetric'] : []),
      ]),
    0.8,
  );
  const crop = coordinate === 'tf_crop_and_resize';
  const axes = opset >= 18 && g.chance(0.3) ? g.list(spatial, (i) => rank - spatial + i) : undefined;
  const over = axes === undefined ? g.list(rank, (i) => i) : axes;
  const sizes = over.map((i) => (i < rank - spatial ? x.dims[i]! : g.int(1, 9)));
  const starts = over.map((i) => (i < rank - spatial ? 0 : g.pick([0, 0.21, -0.21])));
  const ends = over.map((i) => (i < rank - spatial ? 1 : g.pick([1, 0.83, 1.37])));
  const roi = crop
    ? new Tensor('float32', [...starts, ...ends], [2 * over.length])
    : opset < 13
      ? new Tensor('float32', [], [0])
      : undefined;
  const byScales = new Tensor(
    'float32',
    over.map((i) => scales[i]!),
    [over.length],
  );
  const inputs = bySizes
    ? [x, roi, opset < 13 ? new Tensor('float32', [], [0]) : undefined, int64(sizes)]
    : [x, roi, byScales];
  return {
    inputs,
    attributes: attributes({
      mode,
      coordinate_transformation_mode: coordinate,
      nearest_mode:
        mode === 'nearest' || mode === undefined
          ? g.maybe(() => g.pick(['round_prefer_floor', 'round_prefer_ceil', 'floor', 'ceil']))
          : undefined,
      cubic_coeff_a: mode === 'cubic' ? g.maybe(() => f(-0.5)) : undefined,
      exclude_outside: mode === 'cubic' ? g.maybe(() => g.int(0, 1)) : undefined,
      extrapolation_value: crop ? g.maybe(() => f(7)) : undefined,
      axes,
      antialias:
        opset >= 18 && mode !== undefined && mode !== 'nearest' && x.type === 'float32' && !crop
          ? g.maybe(() => g.int(0, 1), 0.3)
          : undefined,
      keep_aspect_ratio_policy:
        opset >= 18 && bySizes && !crop
          ? g.maybe(() => g.pick(['stretch', 'not_larger', 'not_smaller']), 0.3)
          : undefined,
    }),
    constants: g.constants(4, [1, 2, 3]).filter((i) => inputs[i] !== undefined),
    ...close,
  };
}

const window = (g: Generator) => ({
  inputs: [new Tensor(g.pick(['int64', 'int32'] as const), [g.int(1, 12)], [])],
  attributes: attributes({ periodic: g.maybe(() => g.int(0, 1)), output_datatype: g.maybe(() => g.pick([1, 11])) }),
  ...close,
});

export const sampling: Family = {
  Resize: resize,
  Upsample: (g, opset) => {
    const x = g.tensor(
      g.pick(['float32', 'int32', 'uint8'] as const),
      [1, g.int(1, 3), g.int(1, 4), g.int(1, 4)],
      0,
      50,
    );
    const mode = g.maybe(() => g.pick(['nearest', 'linear']));
    const scales = [1, 1, g.pick([1, 1.5, 2, 3]), g.pick([1, 2, 2.5])];
    if (opset < 9)
      return { inputs: [x], attributes: attributes({ mode, scales: { kind: 'floats', value: scales } }), ...close };
    return {
      inputs: [x, new Tensor('float32', scales, [4])],
      attributes: attributes({ mode }),
      constants: g.constants(2),
      ...close,
    };
  },
  GridSample: (g, opset) => {
    const n = opset >= 20 && g.chance(0.3) ? 3 : 2;
    const modes =
      opset >= 20
        ? n === 3
          ? ['linear', 'nearest']
          : ['linear', 'nearest', 'cubic']
        : ['bilinear', 'nearest', 'bicubic'];
    const [batch, c] = [g.int(1, 2), g.int(1, 3)];
    return {
      inputs: [
        g.tensor('float32', [batch, c, ...g.ints(n, 1, 5)]),
        g.tensor('float32', [batch, ...g.ints(n, 1, 4), n], -1.6, 1.6),
      ],
      attributes: attributes({
        mode: g.maybe(() => g.pick(modes), 0.8),
        padding_mode: g.maybe(() => g.pick(['zeros', 'border', 'reflection'])),
        align_corners: g.maybe(() => g.int(0, 1)),
      }),
      ...close,
    };
  },
  AffineGrid: (g) => {
    const n = g.int(2, 3);
    const batch = g.int(1, 2);
    return {
      inputs: [
        g.tensor(g.pick(['float32', 'float64'] as const), [batch, n, n + 1]),
        int64([batch, g.int(1, 3), ...g.ints(n, 1, 4)]),
      ],
      attributes: attributes({ align_corners: g.maybe(() => g.int(0, 1)) }),
      ...close,
    };
  },
  RoiAlign: (g, opset) => {
    const [batch, c, rois] = [g.int(1, 2), g.int(1, 3), g.int(1, 3)];
    const boxes = g.tensor('float32', [rois, 4], 0, 5);
    for (let i = 0; i < rois; i++)
      for (const k of [2, 3]) (boxes.data as Float32Array)[4 * i + k]! += (boxes.data as Float32Array)[4 * i + k - 2]!;
    return {
      inputs: [g.tensor('float32', [batch, c, g.int(2, 7), g.int(2, 7)]), boxes, int64(g.ints(rois, 0, batch - 1))],
      attributes: attributes({
        mode: g.maybe(() => g.pick(['avg', 'max'])),
        output_height: g.maybe(() => g.int(1, 3)),
        output_width: g.maybe(() => g.int(1, 3)),
        sampling_ratio: g.maybe(() => g.int(0, 3)),
        spatial_scale: g.maybe(() => f(g.pick([0.5, 1]))),
        coordinate_transformation_mode:
          opset >= 16 ? g.maybe(() => g.pick(['half_pixel', 'output_half_pixel'])) : undefined,
      }),
      ...close,
    };
  },
  Col2Im: (g) => {
    const n = g.int(1, 3);
    const [batch, c] = [g.int(1, 2), g.int(1, 2)];
    const block = g.ints(n, 1, 3);
    const strides = g.maybe(() => g.ints(n, 1, 2));
    const dilations = g.maybe(() => g.ints(n, 1, 2));
    const pads = g.maybe(() => g.ints(2 * n, 0, 1));
    const reach = block.map((k, i) => (k - 1) * (dilations?.[i] ?? 1) + 1);
    const image = reach.map((r) => r + g.int(0, 4));
    const blocks = image.map(
      (d, i) => Math.floor((d + (pads?.[i] ?? 0) + (pads?.[i + n] ?? 0) - reach[i]!) / (strides?.[i] ?? 1)) + 1,
    );
    const product = (xs: readonly number[]) => xs.reduce((a, b) => a * b, 1);
    return {
      inputs: [g.tensor('float32', [batch, c * product(block), product(blocks)]), int64(image), int64(block)],
      attributes: attributes({ strides, dilations, pads }),
      constants: g.constants(3),
      ...close,
    };
  },
  HannWindow: window,
  HammingWindow: window,
  BlackmanWindow: window,
  MelWeightMatrix: (g) => {
    const s = (type: 'int64' | 'float32', x: number) => new Tensor(type, [x], []);
    return {
      inputs: [
        s('int64', g.int(2, 8)),
        s('int64', g.int(16, 40)),
        s('int64', g.pick([8000, 16000])),
        s('float32', g.pick([0, 100])),
        s('float32', g.pick([3000, 4000])),
      ],
      ...close,
    };
  },
  DFT: (g, opset) => {
    const inverse = g.maybe(() => g.int(0, 1));
    const onesided = inverse === 1 ? undefined : g.maybe(() => g.int(0, 1));
    const complex = onesided === 1 ? 1 : g.pick([1, 2]);
    const dims = [g.int(1, 2), ...g.ints(g.int(1, 2), 1, 7), complex];
    const signal = dims.length - 2;
    const axis = g.int(opset >= 20 ? 0 : 1, signal);
    const length = g.maybe(() => int64([g.int(1, 9)], []));
    const x = g.tensor(g.pick(['float32', 'float64'] as const), dims);
    if (opset < 20)
      return {
        inputs: length ? [x, length] : [x],
        attributes: attributes({ inverse, onesided, axis: axis === 1 ? undefined : axis }),
        ...close,
      };
    const at = axis === signal && g.chance(0.5) ? undefined : int64([g.chance(0.5) ? axis - dims.length : axis], []);
    const inputs = [x, length, at];
    while (inputs.at(-1) === undefined) inputs.pop();
    return {
      inputs,
      attributes: attributes({ inverse, onesided }),
      constants: g.constants(3).filter((i) => inputs[i] !== undefined),
      ...close,
    };
  },
  STFT: (g) => {
    const [batch, n, frame] = [g.int(1, 2), g.int(8, 20), g.int(2, 8)];
    const type = g.pick(['float32', 'float64'] as const);
    const withWindow = g.chance(0.5);
    const inputs = [
      g.tensor(type, [batch, n, 1]),
      int64([g.int(1, 4)], []),
      withWindow ? g.tensor(type, [frame]) : undefined,
      !withWindow || g.chance(0.5) ? int64([frame], []) : undefined,
    ];
    while (inputs.at(-1) === undefined) inputs.pop();
    return {
      inputs,
      attributes: attributes({ onesided: g.maybe(() => g.int(0, 1)) }),
      constants: g.constants(4).filter((i) => inputs[i] !== undefined),
      ...close,
    };
  },
};
