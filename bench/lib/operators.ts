// The operators whose speed is promised, one ONNX model of one node each, with weights as constants of the model. For
// TensorFlow.js the same in its own layout: channels last, and a result in that order.
import { GraphBuilder, type Value } from '../../src/graph/builder.js';
import { Random } from '../../src/graph/random.js';
import { writeModel } from '../../src/onnx/writer.js';
import { sizeOf } from '../../src/tensor/shape.js';
import type { Feed, Work } from './engines.js';

const random = new Random(7);

function feed(dims: readonly number[]): Feed {
  return { type: 'float32', data: random.floats(sizeOf(dims), -1, 1), dims };
}

function modelOf(build: (g: GraphBuilder) => Record<string, Value>): Uint8Array {
  const g = new GraphBuilder('bench');
  for (const [name, value] of Object.entries(build(g))) g.output(name, value);
  return writeModel(g.model());
}

function product(m: number, k: number, n: number): Work {
  const x = feed([m, k]);
  return {
    name: `[${m},${k}]×[${k},${n}]`,
    model: modelOf((g) => ({ y: g.matmul(g.input('x', 'float32', [m, k]), g.weights([k, n])) })),
    feeds: { x },
    tensorflow: (tf) => {
      const w = tf.tensor(random.floats(k * n, -1, 1), [k, n]);
      return {
        run: () => {
          const a = tf.tensor(x.data as Float32Array, x.dims);
          const y = tf.matMul(a, w);
          a.dispose();
          return y;
        },
        close: () => w.dispose(),
      };
    },
  };
}

function convolution(c: number, m: number, size: number, kernel: number, stride = 1, group = 1): Work {
  const pad = (kernel - 1) >> 1;
  const x = feed([1, c, size, size]);
  const depthwise = group > 1;
  const name = `${depthwise ? 'depthwise ' : ''}${kernel}×${kernel}${stride > 1 ? `/${stride}` : ''}`;
  return {
    name: `${name} ${depthwise ? c : `${c}→${m}`} @${size}`,
    model: modelOf((g) => {
      const w = g.weights([m, c / group, kernel, kernel]);
      const options = { pads: [pad, pad, pad, pad], strides: [stride, stride], group };
      return { y: g.conv2d(g.input('x', 'float32', [1, c, size, size]), w, g.weights([m]), options) };
    }),
    feeds: { x },
    tensorflow: (tf) => {
      const w = depthwise
        ? tf.tensor(random.floats(kernel * kernel * c, -1, 1), [kernel, kernel, c, 1])
        : tf.tensor(random.floats(kernel * kernel * c * m, -1, 1), [kernel, kernel, c, m]);
      return {
        run: () => {
          const image = tf.tensor(x.data as Float32Array, [1, size, size, c]);
          const y = depthwise ? tf.depthwiseConv2d(image, w, stride, pad) : tf.conv2d(image, w, stride, pad);
          image.dispose();
          return y;
        },
        close: () => w.dispose(),
      };
    },
  };
}

/** One step, states in and out, as a server of streams runs it. */
function lstm(batch: number, hidden: number, weights?: 'int8' | 'float16'): Work {
  const state = [1, batch, hidden];
  return {
    name: `LSTM step ${hidden}, batch ${batch}${weights === undefined ? '' : `, ${weights} weights`}`,
    ...(weights && { load: { weights } }),
    model: modelOf((g) => {
      const [x, h0, c0] = ['x', 'h0', 'c0'].map((n) => g.input(n, 'float32', state)) as [Value, Value, Value];
      const w = g.weights([1, 4 * hidden, hidden]);
      const r = g.weights([1, 4 * hidden, hidden]);
      const { h, c } = g.lstm(x, w, r, g.weights([1, 8 * hidden]), { h0, c0 });
      return { h, c };
    }),
    feeds: { x: feed(state), h0: feed(state), c0: feed(state) },
  };
}

function integerProduct(m: number, k: number, n: number): Work {
  const bytes = Uint8Array.from(random.floats(m * k, 0, 255), Math.floor);
  return {
    name: `int8 [${m},${k}]×[${k},${n}]`,
    model: modelOf((g) => {
      const w = g.constant('int8', Int8Array.from(random.floats(k * n, -127, 127), Math.floor), [k, n]);
      const x = g.input('x', 'uint8', [m, k]);
      return { y: g.op('MatMulInteger', [x, w], {}, [{ type: 'int32', dims: [m, n] }])[0]! };
    }),
    feeds: { x: { type: 'uint8', data: bytes, dims: [m, k] } },
  };
}

/** A case by name; its model is written when it is its turn. */
export interface Case {
  readonly name: string;
  readonly work: () => Work;
}

function named(make: () => Work, name: string): Case {
  return { name, work: make };
}

export const operatorCases: readonly Case[] = [
  named(() => product(512, 512, 512), 'gemm 512'),
  named(() => product(1024, 1024, 1024), 'gemm 1024'),
  named(() => product(8, 1024, 4096), 'gemm 8'),
  named(() => product(1, 1024, 4096), 'gemv'),
  named(() => convolution(64, 64, 56, 3), 'conv3x3 64'),
  named(() => convolution(128, 128, 28, 3), 'conv3x3 128'),
  named(() => convolution(256, 256, 14, 3), 'conv3x3 256'),
  named(() => convolution(512, 512, 7, 3), 'conv3x3 512'),
  named(() => convolution(64, 64, 56, 3, 2), 'conv3x3/2 64'),
  named(() => convolution(256, 64, 56, 1), 'conv1x1 256'),
  named(() => convolution(16, 64, 112, 1), 'conv1x1 16'),
  named(() => convolution(3, 64, 224, 7, 2), 'conv7x7/2 3'),
  named(() => convolution(3, 32, 224, 3, 2), 'conv3x3/2 3'),
  named(() => convolution(32, 32, 112, 3, 1, 32), 'depthwise 32'),
  named(() => convolution(64, 64, 112, 3, 2, 64), 'depthwise/2 64'),
  named(() => convolution(96, 96, 40, 5, 1, 96), 'depthwise5x5 96'),
  named(() => lstm(1, 1024), 'lstm 1'),
  named(() => lstm(1, 1024, 'int8'), 'lstm int8'),
  named(() => lstm(1, 1024, 'float16'), 'lstm float16'),
  named(() => lstm(1, 64), 'lstm hidden 64'),
  named(() => lstm(8, 1024), 'lstm 8'),
  named(() => lstm(64, 1024), 'lstm 64'),
  named(() => integerProduct(256, 1024, 1024), 'int8 gemm'),
];
