// Layers with their weights, on top of the graph builder's operators. Weights are scaled so that activations keep their
// size through any depth: a layer's outputs have about the mean square of its inputs, times `gain`² / 2 where a ReLU halved
// it (He et al. 2015; Glorot and Bengio 2010), and batch normalization carries statistics near those that this gives.

import { GraphBuilder, type Value } from '../src/graph/builder.js';
import type { BuilderOptions, WeightOptions } from '../src/graph/builder-core.js';
import { Random } from '../src/graph/random.js';
import { SkepError } from '../src/tensor/errors.js';

/** What a ReLU behind the layer asks for: √2. */
export const RELU = Math.SQRT2;

export interface ConvolutionOptions {
  /** Default 1. */
  readonly stride?: number;
  /** On every side, or [rows, columns]. Default 0. */
  readonly pad?: number | readonly [number, number];
  /** Default 1. */
  readonly group?: number;
  /** Default true. */
  readonly bias?: boolean;
  /** Default √2: a ReLU follows. */
  readonly gain?: number;
}

export interface DenseOptions {
  /** Default true. */
  readonly bias?: boolean;
  /** Default 1. */
  readonly gain?: number;
}

export class Layers extends GraphBuilder {
  readonly #seed: number;
  #part: Random | undefined;

  constructor(name: string, options: BuilderOptions = {}) {
    super(name, options);
    this.#seed = options.seed ?? 1;
  }

  /** Runs `build` with weights that depend on the seed and the name alone: exported by itself the part has the same ones. */
  part<T>(name: string, build: () => T): T {
    const before = this.#part;
    let hash = this.#seed;
    for (const c of name) hash = Math.imul(hash ^ c.codePointAt(0)!, 0x01000193);
    this.#part = new Random(hash);
    try {
      return this.scope(name, build);
    } finally {
      this.#part = before;
    }
  }

  override weights(dims: readonly number[], options: WeightOptions = {}): Value {
    const random = options.random ?? this.#part;
    return super.weights(dims, random === undefined ? options : { ...options, random });
  }

  /** Small numbers about zero. */
  bias(size: number): Value {
    return this.weights([size], { scale: 0.1, name: 'bias' });
  }

  /** Weights [in, out] of a product x · w. */
  matrix(inputs: number, outputs: number, gain = 1, name = 'weight'): Value {
    return this.weights([inputs, outputs], { scale: gain * Math.sqrt(3 / inputs), name });
  }

  /** Convolution x [n, c, h, w] → [n, filters, …]; `kernel` is a side, or [rows, columns]. */
  convolution(
    x: Value,
    filters: number,
    kernel: number | readonly [number, number],
    options: ConvolutionOptions = {},
  ): Value {
    const { stride = 1, pad = 0, group = 1, bias = true, gain = RELU } = options;
    const [rows, columns] = typeof kernel === 'number' ? [kernel, kernel] : kernel;
    const [top, left] = typeof pad === 'number' ? [pad, pad] : pad;
    const fan = (this.#channels(x) / group) * rows * columns;
    const w = this.weights([filters, this.#channels(x) / group, rows, columns], { scale: gain * Math.sqrt(3 / fan) });
    return this.conv2d(x, w, bias ? this.bias(filters) : undefined, {
      strides: [stride, stride],
      pads: [top, left, top, left],
      group,
    });
  }

  /** Batch normalization with statistics about those of unit inputs. `gain` scales what comes out. */
  normalization(x: Value, { epsilon = 1e-5, gain = 1 }: { epsilon?: number; gain?: number } = {}): Value {
    const c = this.#channels(x);
    return this.batchNorm(
      x,
      this.weights([c], { scale: 0.2 * gain, offset: gain, name: 'scale' }),
      this.bias(c),
      this.weights([c], { scale: 0.1, name: 'mean' }),
      this.weights([c], { scale: 0.2, offset: 1, name: 'variance' }),
      epsilon,
    );
  }

  /** x [n, …, in] · w + b. */
  dense(x: Value, units: number, { bias = true, gain = 1 }: DenseOptions = {}): Value {
    const inputs = this.#width(x);
    return this.linear(x, this.matrix(inputs, units, gain), bias ? this.bias(units) : undefined);
  }

  /** Layer normalization over the last axis. */
  layerNormalization(x: Value, epsilon = 1e-5): Value {
    const n = this.#width(x);
    return this.layerNorm(x, this.weights([n], { scale: 0.2, offset: 1, name: 'scale' }), this.bias(n), { epsilon });
  }

  #channels(x: Value): number {
    return known(x, 1);
  }

  #width(x: Value): number {
    return known(x, (x.dims?.length ?? 0) - 1);
  }
}

function known(x: Value, axis: number): number {
  const size = x.dims?.[axis];
  if (typeof size !== 'number') throw new SkepError('INTERNAL', `'${x.name}' has no known size on axis ${axis}`);
  return size;
}

/** A number of channels at `percent` of the paper's, rounded to a multiple, never none. */
export function scaled(channels: number, percent: number, multiple = 1): number {
  return Math.max(multiple, Math.round((channels * percent) / 100 / multiple) * multiple);
}
