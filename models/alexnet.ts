// AlexNet (Krizhevsky, Sutskever, Hinton: ImageNet classification with deep convolutional neural networks, 2012): five
// convolutions, three of them in two groups, local response normalization, overlapping pools, three wide layers that hold
// nearly all weights. 60,965,224 parameters, 724,406,816 multiply-adds an image of 227².

import type { Value } from '../src/graph/builder.js';
import { float } from '../src/graph/builder.js';
import { RELU, scaled } from './layers.js';
import { network } from './network.js';

export const alexnet = network({
  name: 'alexnet',
  summary: 'AlexNet: ImageNet classifier, 227×227',
  options: {
    size: 'side of the image, at least 67',
    width: 'channels and units, percent of the paper’s',
    classes: 'classes',
  },
  sizes: {
    tiny: { size: 67, width: 5, classes: 10 },
    small: { size: 131, width: 25, classes: 100 },
    paper: { size: 227, width: 100, classes: 1000 },
  },
  build(g, { size, width, classes }) {
    const of = (n: number) => scaled(n, width, 2);
    const lrn = (x: Value) => g.unary('LRN', x, { size: 5, alpha: float(1e-4), beta: float(0.75), bias: float(1) });
    const pool = (x: Value) => g.maxPool(x, [3, 3], { strides: [2, 2] });
    let y = g.input('image', 'float32', ['batch', 3, size, size]);
    y = g.relu(g.scope('conv1', () => g.convolution(y, of(96), 11, { stride: 4 })));
    y = pool(lrn(y));
    y = g.relu(g.scope('conv2', () => g.convolution(y, of(256), 5, { pad: 2, group: 2 })));
    y = pool(lrn(y));
    y = g.relu(g.scope('conv3', () => g.convolution(y, of(384), 3, { pad: 1 })));
    y = g.relu(g.scope('conv4', () => g.convolution(y, of(384), 3, { pad: 1, group: 2 })));
    y = g.relu(g.scope('conv5', () => g.convolution(y, of(256), 3, { pad: 1, group: 2 })));
    y = g.flatten(pool(y));
    y = g.relu(g.scope('fc6', () => g.dense(y, of(4096), { gain: RELU })));
    y = g.relu(g.scope('fc7', () => g.dense(y, of(4096), { gain: RELU })));
    g.output('probabilities', g.softmax(g.scope('fc8', () => g.dense(y, classes))));
  },
});
