// A convolutional network for CIFAR-10: cuda-convnet's three 5×5 convolutions with overlapping pools and a small
// classifier (Krizhevsky: Learning multiple layers of features from tiny images, 2009; Caffe's cifar10_quick).
// 145,578 parameters, 12,354,176 multiply-adds an image.
import { RELU, scaled } from './layers.js';
import { network } from './network.js';

export const cifar10 = network({
  name: 'cifar10',
  summary: 'CIFAR-10 network of three convolutions, 32×32',
  options: { width: 'channels and units, percent of the original’s' },
  sizes: { tiny: { width: 12 }, small: { width: 50 }, paper: { width: 100 } },
  build(g, { width }) {
    const of = (n: number) => scaled(n, width);
    // Caffe rounds sizes of pools up: 32 → 16 → 8 → 4.
    const pool = { strides: [2, 2], ceilMode: true };
    const x = g.input('image', 'float32', ['batch', 3, 32, 32]);
    let y = g.scope('conv1', () => g.convolution(x, of(32), 5, { pad: 2 }));
    y = g.relu(g.maxPool(y, [3, 3], pool));
    y = g.relu(g.scope('conv2', () => g.convolution(y, of(32), 5, { pad: 2 })));
    y = g.averagePool(y, [3, 3], pool);
    y = g.relu(g.scope('conv3', () => g.convolution(y, of(64), 5, { pad: 2 })));
    y = g.flatten(g.averagePool(y, [3, 3], pool));
    y = g.scope('fc1', () => g.dense(y, of(64), { gain: RELU }));
    g.output('probabilities', g.softmax(g.scope('fc2', () => g.dense(y, 10))));
  },
});
