// ResNet (He, Zhang, Ren, Sun: Deep residual learning for image recognition, 2015) of bottleneck blocks: 1×1 narrow, 3×3,
// 1×1 wide, beside a short cut. The stride is on the 3×3, as trained networks have it ("v1.5").
// ResNet-50: 25,557,032 parameters, 4,089,184,256 multiply-adds an image of 224².
//
//   x ─┬─ 1×1 ─ 3×3 ─ 1×1 ─ + ─ ReLU        batch normalization behind every convolution, ReLU behind the first two
//      └─ (1×1 where the shape changes) ┘
import type { Value } from '../src/graph/builder.js';
import { SkepError } from '../src/tensor/errors.js';
import type { Layers } from './layers.js';
import { network } from './network.js';

/** Blocks of the four stages by depth. 14 and 26 are not in the paper. */
const stages: Readonly<Record<number, readonly number[]>> = {
  14: [1, 1, 1, 1],
  26: [2, 2, 2, 2],
  50: [3, 4, 6, 3],
  101: [3, 4, 23, 3],
  152: [3, 8, 36, 3],
};

export const resnet50 = network({
  name: 'resnet50',
  summary: 'ResNet-50 (or another depth): ImageNet classifier, 224×224',
  options: {
    size: 'side of the image',
    depth: `layers: ${Object.keys(stages).join(', ')}`,
    width: 'channels of the first convolution',
    classes: 'classes',
  },
  sizes: {
    tiny: { size: 32, depth: 14, width: 4, classes: 10 },
    small: { size: 64, depth: 50, width: 16, classes: 100 },
    paper: { size: 224, depth: 50, width: 64, classes: 1000 },
  },
  build(g, { size, depth, width, classes }) {
    const blocks = stages[depth];
    if (blocks === undefined)
      throw new SkepError(
        'INVALID_INPUT',
        `resnet50: depth must be one of ${Object.keys(stages).join(', ')}, got ${depth}`,
      );
    let y = g.input('image', 'float32', ['batch', 3, size, size]);
    y = g.relu(g.scope('stem', () => g.normalization(g.convolution(y, width, 7, { stride: 2, pad: 3, bias: false }))));
    y = g.maxPool(y, [3, 3], { strides: [2, 2], pads: [1, 1, 1, 1] });
    blocks.forEach((count, stage) => {
      for (let i = 0; i < count; i++) {
        const stride = i === 0 && stage > 0 ? 2 : 1;
        y = g.scope(`stage${stage + 1}/${i}`, () => bottleneck(g, y, width << stage, stride));
      }
    });
    y = g.flatten(g.globalAveragePool(y));
    g.output(
      'logits',
      g.scope('classifier', () => g.dense(y, classes)),
    );
  },
});

function bottleneck(g: Layers, x: Value, narrow: number, stride: number): Value {
  const wide = 4 * narrow;
  const plain = { bias: false };
  let y = g.relu(g.scope('a', () => g.normalization(g.convolution(x, narrow, 1, plain))));
  y = g.relu(g.scope('b', () => g.normalization(g.convolution(y, narrow, 3, { ...plain, stride, pad: 1 }))));
  // Small branches keep the sum from growing block by block.
  y = g.scope('c', () => g.normalization(g.convolution(y, wide, 1, plain), { gain: 0.25 }));
  const same = stride === 1 && x.dims![1] === wide;
  return g.relu(
    g.add(y, same ? x : g.scope('short', () => g.normalization(g.convolution(x, wide, 1, { ...plain, stride })))),
  );
}
