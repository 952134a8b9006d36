// Cases of products, convolutions and pools.
import { attributes, type Family, FLOATS, f, type Generator, int64 } from './generator.js';

const LINEAR = ['float32', 'float32', 'float32', 'float64', 'float16', 'int32', 'int64', 'uint32', 'uint64'] as const;
const close = { rtol: 1e-4, atol: 1e-4 };

/** Kernel, strides, dilations and pads of a window that fits `spatial`. */
function window(g: Generator, spatial: readonly number[], options: { dilate: boolean; smallPads: boolean }) {
  const n = spatial.length;
  const kernel = spatial.map((d) => g.int(1, Math.min(3, d + 1)));
  const dilations = options.dilate ? g.maybe(() => g.ints(n, 1, 2)) : undefined;
  const strides = g.maybe(() => g.ints(n, 1, 3));
  const auto = g.maybe(() => g.pick(['NOTSET', 'SAME_UPPER', 'SAME_LOWER', 'VALID']), 0.4);
  const reach = kernel.map((k, i) => (k - 1) * (dilations?.[i] ?? 1) + 1);
  const pads = g.list(2 * n, (i) => {
    const k = kernel[i % n]!;
    return options.smallPads ? g.int(0, k - 1) : g.int(0, 2);
  });
  // The window must fit.
  const dims = spatial.map((d, i) => Math.max(d, reach[i]!));
  const explicit = auto === undefined || auto === 'NOTSET';
  return {
    kernel,
    dims,
    attrs: { dilations, strides, auto_pad: auto, pads: explicit ? g.maybe(() => pads, 0.6) : undefined },
  };
}

function conv(g: Generator) {
  const type = g.pick(FLOATS);
  const group = g.pick([1, 1, 1, 2, 3]);
  const [c, m] = [group * g.int(1, 3), group * g.int(1, 3)];
  const w = window(g, g.ints(g.int(1, 3), 1, 6), { dilate: true, smallPads: false });
  const inputs = [g.tensor(type, [g.int(1, 2), c, ...w.dims]), g.tensor(type, [m, c / group, ...w.kernel])];
  if (g.chance(0.5)) inputs.push(g.tensor(type, [m]));
  return {
    inputs,
    attributes: attributes({
      ...w.attrs,
      kernel_shape: g.maybe(() => w.kernel),
      group: group === 1 ? undefined : group,
    }),
    constants: g.constants(3).filter((i) => i < inputs.length),
    ...close,
  };
}

function pool(
  g: Generator,
  opset: number,
  extra: Record<string, number | undefined>,
  since: { dilate: number; ceil: number },
) {
  const w = window(g, g.ints(g.int(1, 3), 1, 7), { dilate: opset >= since.dilate, smallPads: true });
  const type = g.pick(FLOATS);
  return {
    inputs: [g.tensor(type, [g.int(1, 2), g.int(1, 5), ...w.dims])],
    attributes: attributes({
      ...w.attrs,
      kernel_shape: w.kernel,
      ceil_mode: opset >= since.ceil ? g.maybe(() => g.int(0, 1)) : undefined,
      ...extra,
    }),
    rtol: 1e-4,
    atol: 1e-5,
  };
}

const global = (g: Generator) => ({ inputs: [g.tensor(g.pick(FLOATS), g.dims(3, 5, 5, false))], ...close });

export const linear: Family = {
  MatMul: (g) => {
    const type = g.pick(LINEAR);
    const [m, k, n] = [g.int(1, 9), g.chance(0.05) ? 0 : g.int(1, 9), g.int(1, 20)];
    const batch = g.dims(0, 3);
    const a = g.chance(0.15) ? [k] : [...g.broadcast(batch), m, k];
    const b = g.chance(0.15) ? [k] : [...g.broadcast(batch), k, n];
    return { inputs: [g.tensor(type, a), g.tensor(type, b)], constants: g.constants(2), ...close };
  },
  Gemm: (g, opset) => {
    const type = opset >= 9 ? g.pick(LINEAR) : g.pick(FLOATS);
    const [m, k, n] = [g.int(1, 9), g.chance(0.05) ? 0 : g.int(1, 9), g.int(1, 20)];
    const [ta, tb] = [g.int(0, 1), g.int(0, 1)];
    const inputs = [g.tensor(type, ta ? [k, m] : [m, k]), g.tensor(type, tb ? [n, k] : [k, n])];
    if (opset < 11 || g.chance(0.6))
      inputs.push(g.tensor(type, g.pick([[m, n], [n], [1, n], [m, 1], [1], [], [1, 1]])));
    const integer = type.includes('int');
    return {
      inputs,
      attributes: attributes({
        transA: ta || undefined,
        transB: tb || undefined,
        alpha: g.maybe(() => f(integer ? 2 : 0.5)),
        beta: g.maybe(() => f(g.pick(integer ? [2, 0] : [0.25, 0]))),
      }),
      constants: g.constants(inputs.length),
      ...close,
    };
  },
  Einsum: (g) => {
    const sizes: Record<string, number> = {};
    for (const c of 'ijkl') sizes[c] = g.int(1, 4);
    const dims = (term: string) => [...term].map((c) => sizes[c]!);
    const equations = [
      'ij,jk->ik',
      'ij,jk',
      'ii->i',
      'ii',
      'ij->ji',
      'i,i->',
      'i,j->ij',
      'ijk,ikl->ijl',
      'ij,ij->ij',
      'ijk->',
      'ij->i',
      'kji',
      'ij , jk -> ki',
      'ij,jk,kl->il',
      'iij->j',
      'ij,jj->ij',
      'ijk,jil->kl',
    ];
    const type = g.pick(['float32', 'float64', 'int32', 'int64'] as const);
    if (g.chance(0.3)) {
      const batch = g.dims(1, 2, 3, false);
      const [i, j, k] = g.ints(3, 1, 4) as [number, number, number];
      const equation = g.pick(['...ij,...jk->...ik', '...ij,...jk', 'i...j,j...k->ik...']);
      if (equation.startsWith('i...'))
        return {
          inputs: [g.tensor(type, [i, ...batch, j]), g.tensor(type, [j, ...batch, k])],
          attributes: attributes({ equation }),
          ...close,
        };
      return {
        inputs: [g.tensor(type, [...g.broadcast(batch), i, j]), g.tensor(type, [...batch, j, k])],
        attributes: attributes({ equation }),
        ...close,
      };
    }
    const equation = g.pick(equations);
    const terms = equation.replace(/\s/g, '').split('->')[0]!.split(',');
    return { inputs: terms.map((t) => g.tensor(type, dims(t))), attributes: attributes({ equation }), ...close };
  },
  Det: (g) => {
    const n = g.int(1, 4);
    return { inputs: [g.tensor('float32', [...g.dims(0, 2), n, n])], ...close };
  },
  Conv: conv,
  ConvTranspose: (g) => {
    const type = g.pick(FLOATS);
    const group = g.pick([1, 1, 2]);
    const [c, m] = [group * g.int(1, 3), g.int(1, 3)];
    const n = g.int(1, 3);
    const spatial = g.ints(n, 1, 4);
    const kernel = g.ints(n, 1, 3);
    const strides = g.maybe(() => g.ints(n, 1, 3));
    const dilations = g.maybe(() => g.ints(n, 1, 2), 0.3);
    const auto = g.maybe(() => g.pick(['NOTSET', 'SAME_UPPER', 'SAME_LOWER', 'VALID']), 0.4);
    const full = spatial.map((d, i) => (strides?.[i] ?? 1) * (d - 1) + (kernel[i]! - 1) * (dilations?.[i] ?? 1) + 1);
    const output_padding = strides === undefined ? undefined : g.maybe(() => strides.map((s) => g.int(0, s - 1)), 0.3);
    const output_shape = g.maybe(() => full.map((d) => Math.max(1, d - g.int(0, 2))), 0.2);
    const pads = g.list(2 * n, (i) => (full[i % n]! > 2 ? g.int(0, 1) : 0));
    const explicit = auto === undefined || auto === 'NOTSET';
    const inputs = [g.tensor(type, [g.int(1, 2), c, ...spatial]), g.tensor(type, [c, m, ...kernel])];
    if (g.chance(0.5)) inputs.push(g.tensor(type, [m * group]));
    return {
      inputs,
      attributes: attributes({
        strides,
        dilations,
        auto_pad: auto,
        output_padding,
        output_shape,
        group: group === 1 ? undefined : group,
        kernel_shape: g.maybe(() => kernel),
        pads: explicit && output_shape === undefined ? g.maybe(() => pads) : undefined,
      }),
      constants: g.constants(3).filter((i) => i < inputs.length),
      ...close,
    };
  },
  MaxPool: (g, opset) => {
    const made = pool(
      g,
      opset,
      { storage_order: opset >= 8 ? g.maybe(() => g.int(0, 1)) : undefined },
      { dilate: 10, ceil: 10 },
    );
    return { ...made, outputs: opset >= 8 ? g.int(1, 2) : 1 };
  },
  AveragePool: (g, opset) =>
    pool(g, opset, { count_include_pad: g.maybe(() => g.int(0, 1)) }, { dilate: 19, ceil: 10 }),
  LpPool: (g, opset) => pool(g, opset, { p: g.maybe(() => g.int(1, 3)) }, { dilate: 18, ceil: 18 }),
  GlobalAveragePool: global,
  GlobalMaxPool: global,
  GlobalLpPool: (g) => ({ ...global(g), attributes: attributes({ p: g.maybe(() => g.int(1, 3)) }) }),
  MaxUnpool: (g) => {
    const [n, c, h, w] = [g.int(1, 2), g.int(1, 2), g.int(1, 3), g.int(1, 3)];
    const k = 2;
    const [oh, ow] = [h * k, w * k];
    const values = g
      .list(n * c, (p) =>
        g.list(h * w, (i) => p * oh * ow + (Math.floor(i / w) * k + g.int(0, 1)) * ow + (i % w) * k + g.int(0, 1)),
      )
      .flat();
    return {
      inputs: [g.tensor('float32', [n, c, h, w]), int64(values, [n, c, h, w])],
      attributes: attributes({ kernel_shape: [k, k], strides: [k, k] }),
    };
  },
};
