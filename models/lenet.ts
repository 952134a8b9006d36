// LeNet-5 (LeCun, Bottou, Bengio, Haffner: Gradient-based learning applied to document recognition, 1998), as it is written
// today: every map of the second convolution sees all six below, and a softmax instead of radial units. Digits of 28².
// 61,706 parameters, 416,520 multiply-adds an image.
import { network } from './network.js';

export const lenet = network({
  name: 'lenet',
  summary: 'LeNet-5: handwritten digits, 28×28',
  options: { width: 'channels and units, percent of the paper’s' },
  sizes: { tiny: { width: 50 }, small: { width: 100 }, paper: { width: 100 } },
  build(g, { width }) {
    const of = (n: number) => Math.max(1, Math.round((n * width) / 100));
    const tanh = { gain: 1 };
    let y = g.input('image', 'float32', ['batch', 1, 28, 28]);
    y = g.tanh(g.scope('conv1', () => g.convolution(y, of(6), 5, { pad: 2, ...tanh })));
    y = g.averagePool(y, [2, 2], { strides: [2, 2] });
    y = g.tanh(g.scope('conv2', () => g.convolution(y, of(16), 5, tanh)));
    y = g.flatten(g.averagePool(y, [2, 2], { strides: [2, 2] }));
    // Averages of four are half as large.
    y = g.tanh(g.scope('fc1', () => g.dense(y, of(120), { gain: 2 })));
    y = g.tanh(g.scope('fc2', () => g.dense(y, of(84))));
    g.output('probabilities', g.softmax(g.scope('fc3', () => g.dense(y, 10))));
  },
});
