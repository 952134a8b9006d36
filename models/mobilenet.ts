// MobileNet-v2 (Sandler, Howard, Zhu, Zhmoginov, Chen: Inverted residuals and linear bottlenecks, 2018): blocks that widen
// by 1×1, filter each channel by itself, and narrow again without an activation; ReLU capped at 6.
// 3,504,872 parameters, 300,774,272 multiply-adds an image of 224².
import type { Value } from '../src/graph/builder.js';
import { type ConvolutionOptions, type Layers, RELU } from './layers.js';
import { network } from './network.js';

/** Table 2 of the paper: expansion, channels, repetitions, stride of the first. */
const table = [
  [1, 16, 1, 1],
  [6, 24, 2, 2],
  [6, 32, 3, 2],
  [6, 64, 4, 2],
  [6, 96, 3, 1],
  [6, 160, 3, 2],
  [6, 320, 1, 1],
] as const;

export const mobilenetV2 = network({
  name: 'mobilenet-v2',
  summary: 'MobileNet-v2: ImageNet classifier of depthwise convolutions, 224×224',
  options: { size: 'side of the image', width: 'channels, percent of the paper’s', classes: 'classes' },
  sizes: {
    tiny: { size: 32, width: 10, classes: 10 },
    small: { size: 96, width: 35, classes: 100 },
    paper: { size: 224, width: 100, classes: 1000 },
  },
  build(g, { size, width, classes }) {
    // Numbers of channels are multiples of 8 and lose at most a tenth by it, as in the authors' code.
    const of = (n: number) => {
      const exact = (n * width) / 100;
      const near = Math.max(8, Math.floor((exact + 4) / 8) * 8);
      return near < 0.9 * exact ? near + 8 : near;
    };
    let y = g.input('image', 'float32', ['batch', 3, size, size]);
    y = g.scope('stem', () => layer(g, y, of(32), 3, { stride: 2, pad: 1 }));
    table.forEach(([expansion, channels, count, first], i) => {
      for (let k = 0; k < count; k++)
        y = g.scope(`block${i + 1}/${k}`, () => invertedResidual(g, y, expansion, of(channels), k === 0 ? first : 1));
    });
    // The last convolution does not shrink with the others.
    y = g.scope('head', () => layer(g, y, width > 100 ? of(1280) : 1280, 1));
    y = g.flatten(g.globalAveragePool(y));
    g.output(
      'logits',
      g.scope('classifier', () => g.dense(y, classes)),
    );
  },
});

/** Convolution, batch normalization, ReLU6. */
function layer(g: Layers, x: Value, filters: number, kernel: number, options: ConvolutionOptions = {}): Value {
  return g.clip(g.normalization(g.convolution(x, filters, kernel, { bias: false, ...options })), 0, 6);
}

function invertedResidual(g: Layers, x: Value, expansion: number, channels: number, stride: number): Value {
  const from = x.dims![1] as number;
  const hidden = from * expansion;
  // What comes in was not halved by a ReLU.
  const wide = expansion === 1 ? x : g.scope('expand', () => layer(g, x, hidden, 1, { gain: 1 }));
  const filtered = g.scope('depthwise', () => layer(g, wide, hidden, 3, { stride, pad: 1, group: hidden }));
  const residual = stride === 1 && from === channels;
  const y = g.scope('project', () =>
    g.normalization(g.convolution(filtered, channels, 1, { bias: false, gain: RELU }), { gain: residual ? 0.5 : 1 }),
  );
  return residual ? g.add(x, y) : y;
}
