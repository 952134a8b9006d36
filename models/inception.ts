// Inception-v3 (Szegedy, Vanhoucke, Ioffe, Shlens, Wojna: Rethinking the Inception architecture for computer vision, 2015),
// layer by layer as torchvision has it: eleven modules of parallel branches, with 7×7 convolutions taken apart into rows
// and columns. 23,834,568 parameters (27,161,264 with the auxiliary classifier), 5,713,216,096 multiply-adds an image
// of 299².
import type { Value } from '../src/graph/builder.js';
import { type ConvolutionOptions, type Layers, scaled } from './layers.js';
import { network } from './network.js';

export const inceptionV3 = network({
  name: 'inception-v3',
  summary: 'Inception-v3: ImageNet classifier of branching modules, 299×299',
  options: {
    size: 'side of the image, at least 75 (with the auxiliary classifier 299)',
    width: 'channels, percent of the paper’s',
    classes: 'classes',
    outputs: '1, or 2: also the auxiliary classifier’s, which only training needs',
  },
  sizes: {
    tiny: { size: 75, width: 4, classes: 10, outputs: 1 },
    small: { size: 139, width: 25, classes: 100, outputs: 1 },
    paper: { size: 299, width: 100, classes: 1000, outputs: 1 },
  },
  build(g, { size, width, classes, outputs }) {
    const m = new Modules(g, width);
    let y = g.input('image', 'float32', ['batch', 3, size, size]);
    y = g.scope('stem', () => {
      y = m.conv(y, 32, 3, { stride: 2 });
      y = m.conv(y, 32, 3);
      y = m.maxPool(m.conv(y, 64, 3, { pad: 1 }));
      return m.maxPool(m.conv(m.conv(y, 80, 1), 192, 3));
    });
    for (const pool of [32, 64, 64]) y = g.scope(`mixed5_${pool}`, () => m.squares(y, pool));
    y = g.scope('mixed6_0', () => m.shrink35(y));
    for (const [i, c] of [128, 160, 160, 192].entries()) y = g.scope(`mixed6_${i + 1}`, () => m.stripes(y, c));
    if (outputs > 1)
      g.output(
        'auxiliary',
        g.scope('auxiliary', () => m.auxiliary(y, classes)),
      );
    y = g.scope('mixed7_0', () => m.shrink17(y));
    for (const i of [1, 2]) y = g.scope(`mixed7_${i}`, () => m.fans(y));
    y = g.flatten(g.globalAveragePool(y));
    g.output(
      'logits',
      g.scope('classifier', () => g.dense(y, classes)),
    );
  },
});

/** The kinds of modules (figures 5, 6 and 7 of the paper and the two that halve the image). */
class Modules {
  readonly #g: Layers;
  readonly #percent: number;

  constructor(g: Layers, percent: number) {
    this.#g = g;
    this.#percent = percent;
  }

  /** Convolution, batch normalization, ReLU. */
  conv(x: Value, filters: number, kernel: number | readonly [number, number], options: ConvolutionOptions = {}): Value {
    const g = this.#g;
    const y = g.convolution(x, scaled(filters, this.#percent), kernel, { bias: false, ...options });
    return g.relu(g.normalization(y, { epsilon: 1e-3 }));
  }

  maxPool(x: Value): Value {
    return this.#g.maxPool(x, [3, 3], { strides: [2, 2] });
  }

  #average(x: Value): Value {
    return this.#g.averagePool(x, [3, 3], { pads: [1, 1, 1, 1], countPadding: true });
  }

  /** A row of `n` and a column of `n`. */
  #row(x: Value, filters: number, n = 7): Value {
    return this.conv(x, filters, [1, n], { pad: [0, n >> 1] });
  }

  #column(x: Value, filters: number, n = 7): Value {
    return this.conv(x, filters, [n, 1], { pad: [n >> 1, 0] });
  }

  squares(x: Value, pool: number): Value {
    const one = this.conv(x, 64, 1);
    const five = this.conv(this.conv(x, 48, 1), 64, 5, { pad: 2 });
    const three = this.conv(this.conv(this.conv(x, 64, 1), 96, 3, { pad: 1 }), 96, 3, { pad: 1 });
    return this.#g.concat([one, five, three, this.conv(this.#average(x), pool, 1)], 1);
  }

  shrink35(x: Value): Value {
    const three = this.conv(x, 384, 3, { stride: 2 });
    const twice = this.conv(this.conv(this.conv(x, 64, 1), 96, 3, { pad: 1 }), 96, 3, { stride: 2 });
    return this.#g.concat([three, twice, this.maxPool(x)], 1);
  }

  stripes(x: Value, c: number): Value {
    const one = this.conv(x, 192, 1);
    const seven = this.#column(this.#row(this.conv(x, c, 1), c), 192);
    const four = this.#row(this.#column(this.#row(this.#column(this.conv(x, c, 1), c), c), c), 192);
    return this.#g.concat([one, seven, four, this.conv(this.#average(x), 192, 1)], 1);
  }

  shrink17(x: Value): Value {
    const three = this.conv(this.conv(x, 192, 1), 320, 3, { stride: 2 });
    const seven = this.#column(this.#row(this.conv(x, 192, 1), 192), 192);
    return this.#g.concat([three, this.conv(seven, 192, 3, { stride: 2 }), this.maxPool(x)], 1);
  }

  fans(x: Value): Value {
    const one = this.conv(x, 320, 1);
    const a = this.conv(x, 384, 1);
    const b = this.conv(this.conv(x, 448, 1), 384, 3, { pad: 1 });
    const fan = (y: Value) => [this.#row(y, 384, 3), this.#column(y, 384, 3)];
    return this.#g.concat([one, ...fan(a), ...fan(b), this.conv(this.#average(x), 192, 1)], 1);
  }

  auxiliary(x: Value, classes: number): Value {
    const g = this.#g;
    const y = this.conv(g.averagePool(x, [5, 5], { strides: [3, 3] }), 128, 1);
    return g.dense(g.flatten(g.globalAveragePool(this.conv(y, 768, 5))), classes);
  }
}
