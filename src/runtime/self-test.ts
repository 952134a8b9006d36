// The self-test of kernels that V8 may have compiled wrongly: runs single nodes, by the build as it is and with some kernels
// from a candidate module, and compares every bit. Who compiles the candidate, and how, is wide.ts.
import type { Attribute, Graph } from '../graph/graph.js';
import type { WeightType } from '../kernels/int8.js';
import type { Build } from '../kernels/module.js';
import { type Tile, tiles } from '../kernels/tile.js';
import { sizeOf } from '../tensor/shape.js';
import { bytesOf, Tensor } from '../tensor/tensor.js';
import { LocalModel } from './local.js';

/** A node to compare on: the first input is fed, the others are constants. */
interface Probe {
  readonly op: string;
  readonly domain?: string;
  readonly inputs: readonly (readonly number[])[];
  readonly attributes?: Readonly<Record<string, Attribute>>;
  readonly weights?: WeightType;
}

const int = (value: number): Attribute => ({ kind: 'int', value });
const ints = (...value: number[]): Attribute => ({ kind: 'ints', value });
const string = (value: string): Attribute => ({ kind: 'string', value });

function conv(kernel: number, stride: number): Probe {
  const pad = kernel >> 1;
  return {
    op: 'Conv',
    domain: 'skep',
    inputs: [[1, 5, 19, 19], [13, 5, kernel, kernel], [13]],
    attributes: {
      pads: ints(pad, pad, pad, pad),
      strides: ints(stride, stride),
      activation: string('relu'),
    },
  };
}

/** Sizes leave rests in every direction. */
const probes: readonly Probe[] = [
  ...[1, 2, 3, 8, 27].map((m) => ({
    op: 'MatMul',
    inputs: [
      [m, 33],
      [33, 43],
    ],
  })),
  { op: 'MatMul', domain: 'skep', inputs: [[27, 33], [33, 43], [43]], attributes: { activation: string('gelu') } },
  {
    op: 'Gemm',
    inputs: [
      [27, 33],
      [43, 33],
      [27, 43],
    ],
    attributes: { transB: int(1) },
  },
  conv(1, 1),
  conv(3, 1),
  conv(3, 2),
  conv(7, 2),
  {
    op: 'LSTM',
    inputs: [
      [3, 8, 9],
      [1, 52, 9],
      [1, 52, 13],
      [1, 104],
    ],
    attributes: { hidden_size: int(13) },
  },
  {
    op: 'LSTM',
    inputs: [
      [3, 1, 9],
      [1, 52, 9],
      [1, 52, 13],
      [1, 104],
    ],
    attributes: { hidden_size: int(13) },
  },
  {
    op: 'GRU',
    inputs: [
      [3, 2, 9],
      [1, 39, 9],
      [1, 39, 13],
      [1, 78],
    ],
    attributes: { hidden_size: int(13) },
  },
  ...['Sigmoid', 'Tanh', 'Exp', 'Relu', 'Gelu', 'Neg', 'Abs', 'Sqrt', 'HardSwish', 'Erf', 'Floor', 'Softmax'].map(
    (op) => ({
      op,
      inputs: [[3, 67]],
    }),
  ),
  {
    op: 'RNN',
    inputs: [
      [3, 2, 9],
      [1, 13, 9],
      [1, 13, 13],
      [1, 26],
    ],
    attributes: { hidden_size: int(13) },
  },
  { op: 'LayerNormalization', inputs: [[3, 67], [67], [67]] },
  ...[1, 2, 3, 8, 27].map((m) => ({
    op: 'MatMul',
    inputs: [
      [m, 33],
      [33, 43],
    ],
    weights: 'int8' as const,
  })),
  ...[1, 3].map((batch) => ({
    op: 'LSTM',
    inputs: [
      [3, batch, 9],
      [1, 132, 9],
      [1, 132, 33],
      [1, 264],
    ],
    attributes: { hidden_size: int(33) },
    weights: 'int8' as const,
  })),
  ...[1, 2, 8].map((m) => ({
    op: 'MatMul',
    inputs: [
      [m, 33],
      [33, 43],
    ],
    weights: 'float16' as const,
  })),
  ...[1, 3].map((batch) => ({
    op: 'GRU',
    inputs: [
      [3, batch, 11],
      [1, 99, 11],
      [1, 99, 33],
      [1, 198],
    ],
    attributes: { hidden_size: int(33) },
    weights: 'float16' as const,
  })),
  {
    op: 'GRU',
    inputs: [
      [3, 1, 11],
      [1, 99, 11],
      [1, 99, 33],
      [1, 198],
    ],
    attributes: { hidden_size: int(33) },
    weights: 'int8',
  },
];

/** Those that the tile matters to. */
const tiled = probes.filter((p) => ['MatMul', 'Gemm', 'LSTM', 'GRU', 'RNN'].includes(p.op));

/** Numbers without pattern, the same every time; positive where a function wants it. */
function numbers(dims: readonly number[], seed: number): Tensor {
  let state = seed;
  return new Tensor(
    'float32',
    Float32Array.from({ length: sizeOf(dims) }, () => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
      return state / 2 ** 31;
    }),
    dims,
  );
}

function graphOf({ op, domain = '', inputs, attributes = {} }: Probe): { graph: Graph; feeds: Map<string, Tensor> } {
  const names = inputs.map((_, i) => `x${i}`);
  const tensors = inputs.map((dims, i) => numbers(dims, 7 * i + 1));
  const node = {
    op,
    domain,
    opset: domain === '' ? 22 : 1,
    name: 'self-test',
    inputs: names,
    outputs: ['y'],
    attributes,
  };
  const graph: Graph = {
    name: 'self-test',
    inputs: [{ name: 'x0' }],
    outputs: [{ name: 'y' }],
    initializers: new Map(names.slice(1).map((n, i) => [n, tensors[i + 1]!])),
    nodes: [node],
  };
  return { graph, feeds: new Map([['x0', tensors[0]!]]) };
}

const nameOf = (p: Probe) =>
  `${p.op}${p.weights === undefined ? '' : ` (${p.weights} weights)`} of ${p.inputs.map((d) => `[${d.join(', ')}]`).join(', ')}`;

/** What the kernels make of every probe, by the probe's name; `wide`: some of them from this module. */
export function probeBits(
  build: Build,
  tile: Tile,
  wide?: WebAssembly.Module,
  list: readonly Probe[] = probes,
): Map<string, Buffer> {
  return new Map(
    list.map((p) => {
      const { graph, feeds } = graphOf(p);
      const y = new LocalModel(graph, { build, wide, tile, weights: p.weights ?? 'float32' })
        .run(feeds)
        .get('y') as Tensor;
      return [nameOf(p), Buffer.from(bytesOf(y))];
    }),
  );
}

/** The first probe on which a module gives other bits than wanted, in words. Every tile must give the same. */
export function differenceFrom(
  wanted: ReadonlyMap<string, Buffer>,
  build: Build,
  wide: WebAssembly.Module,
): string | undefined {
  for (const tile of tiles)
    for (const [name, bits] of probeBits(build, tile, wide, tile === tiles[0] ? probes : tiled))
      if (!bits.equals(wanted.get(name)!)) return `${name} gives other bits than the plain code`;
  return undefined;
}
