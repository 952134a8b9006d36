// A functional builder of models: the networks of models/ and the tests are written with it.
//
//   const g = new GraphBuilder('net');
//   const x = g.input('x', 'float32', ['batch', 3, 224, 224]);
//   const y = g.relu(g.conv2d(x, g.weights([64, 3, 7, 7]), undefined, { strides: [2, 2], pads: [3, 3, 3, 3] }));
//   g.output('y', y);
//   const model = g.model();          // run it, or writeModel(model)
//
// A method is one ONNX operator (its specification's defaults where nothing is said), or a few of them where the comment
// says so. Operators without a method: `g.op('Name', inputs, attributes, outputs)`.
import { SkepError } from '../tensor/errors.js';
import { type AttributeValue, type BuilderCore, type BuilderOptions, float, type Value } from './builder-core.js';
import { ElementwiseBuilder } from './builder-elementwise.js';
import {
  axisOf,
  concatDims,
  type Dims,
  matmulDims,
  reduceDims,
  reshapeDims,
  sliceDim,
  type WindowOptions,
  windowDims,
} from './builder-shapes.js';
import type { Dim, Graph } from './graph.js';

export { float, type Value } from './builder-core.js';

/** A convolution's window and its groups. */
export interface ConvOptions extends WindowOptions {
  /** Default 1. */
  readonly group?: number;
}

/** Options of lstm and gru. */
export interface RecurrentOptions {
  readonly direction?: 'forward' | 'reverse' | 'bidirectional';
  /** Valid steps of each row, int32 [batch]. */
  readonly lengths?: Value;
  /** First hidden state, [directions, batch, hidden]. */
  readonly h0?: Value;
  /** First cell state (lstm). */
  readonly c0?: Value;
  /** GRU's linear_before_reset. */
  readonly linearBeforeReset?: boolean;
}

/** Builds a model operator by operator. */
export class GraphBuilder extends ElementwiseBuilder {
  readonly #options: BuilderOptions;

  constructor(name: string, options: BuilderOptions = {}, parent?: BuilderCore) {
    super(name, options, parent);
    this.#options = options;
  }

  /** A graph for an attribute of If, Loop or Scan; it may read values of this builder. */
  subgraph(name: string, build: (g: GraphBuilder) => void): Graph {
    const inner = new GraphBuilder(name, this.#options, this);
    build(inner);
    return inner.graph();
  }

  /** Conv of 1 to 3 spatial axes: x [n, c, …], w [m, c / group, …kernel], b [m]. */
  conv2d(x: Value, w: Value, b?: Value, options: ConvOptions = {}): Value {
    const kernel = this.#sizes(w, 'Conv: the weights').slice(2);
    const dims = x.dims && [x.dims[0]!, w.dims![0]!, ...windowDims(x.dims.slice(2), kernel, options)];
    return this.one(
      'Conv',
      [x, w, b],
      { ...windowAttributes(options), kernel_shape: kernel, group: options.group },
      dims,
    );
  }

  /** Depthwise convolution: w [c, 1, …kernel], a group a channel. */
  depthwiseConv2d(x: Value, w: Value, b?: Value, options: WindowOptions = {}): Value {
    return this.conv2d(x, w, b, { ...options, group: this.#sizes(w, 'Conv: the weights')[0]! });
  }

  /** MaxPool over [n, c, …]. */
  maxPool(x: Value, kernel: readonly number[], options: WindowOptions = {}): Value {
    return this.one('MaxPool', [x], { ...windowAttributes(options), kernel_shape: kernel }, pooled(x, kernel, options));
  }

  /** AveragePool over [n, c, …]; padding does not count unless `countPadding`. */
  averagePool(
    x: Value,
    kernel: readonly number[],
    options: WindowOptions & { readonly countPadding?: boolean } = {},
  ): Value {
    const count = options.countPadding ? 1 : undefined;
    const attributes = { ...windowAttributes(options), kernel_shape: kernel, count_include_pad: count };
    return this.one('AveragePool', [x], attributes, pooled(x, kernel, options));
  }

  /** [n, c, …] → [n, c, 1, …]. */
  globalAveragePool(x: Value): Value {
    return this.one(
      'GlobalAveragePool',
      [x],
      {},
      x.dims?.map((d, i) => (i < 2 ? d : 1)),
    );
  }

  /** BatchNormalization with the statistics given; all of shape [c]. */
  batchNorm(x: Value, scale: Value, bias: Value, mean: Value, variance: Value, epsilon = 1e-5): Value {
    return this.one('BatchNormalization', [x, scale, bias, mean, variance], { epsilon: float(epsilon) }, x.dims);
  }

  layerNorm(x: Value, scale: Value, bias?: Value, options: { axis?: number; epsilon?: number } = {}): Value {
    const attributes = { axis: options.axis ?? -1, epsilon: float(options.epsilon ?? 1e-5) };
    return this.one('LayerNormalization', [x, scale, bias], attributes, x.dims);
  }

  /** x / √(mean(x²) + ε) · scale over the last axis, of primitives. */
  rmsNorm(x: Value, scale: Value, epsilon = 1e-5): Value {
    const mean = this.reduceMean(this.mul(x, x), [-1]);
    return this.mul(this.div(x, this.sqrt(this.add(mean, epsilon))), scale);
  }

  matmul(a: Value, b: Value): Value {
    return this.one('MatMul', [a, b], {}, matmulDims(a.dims, b.dims));
  }

  /** x · w + b with w [in, out], b [out]: MatMul and Add. */
  linear(x: Value, w: Value, b?: Value): Value {
    const y = this.matmul(x, w);
    return b === undefined ? y : this.add(y, b);
  }

  /** alpha · op(a) · op(b) + beta · c. */
  gemm(
    a: Value,
    b: Value,
    c?: Value,
    options: { alpha?: number; beta?: number; transA?: boolean; transB?: boolean } = {},
  ): Value {
    const turn = (dims: Dims, on?: boolean) => (on && dims ? [dims[1]!, dims[0]!] : dims);
    const attributes = {
      alpha: options.alpha === undefined ? undefined : float(options.alpha),
      beta: options.beta === undefined ? undefined : float(options.beta),
      transA: options.transA ? 1 : undefined,
      transB: options.transB ? 1 : undefined,
    };
    return this.one(
      'Gemm',
      [a, b, c],
      attributes,
      matmulDims(turn(a.dims, options.transA), turn(b.dims, options.transB)),
    );
  }

  /** 0 keeps a dimension, −1 takes what is left. */
  reshape(x: Value, dims: readonly number[]): Value {
    return this.one('Reshape', [x, this.ints(dims)], {}, reshapeDims(x.dims, dims));
  }

  /** [d0 · … · d(axis−1), rest]. */
  flatten(x: Value, axis = 1): Value {
    const { dims } = x;
    const join = (part: readonly Dim[]) =>
      part.length === 1
        ? part[0]!
        : part.every((d) => typeof d === 'number')
          ? (part as number[]).reduce((p, d) => p * d, 1)
          : null;
    return this.one('Flatten', [x], { axis }, dims && [join(dims.slice(0, axis)), join(dims.slice(axis))]);
  }

  transpose(x: Value, perm: readonly number[]): Value {
    return this.one('Transpose', [x], { perm }, x.dims && perm.map((p) => x.dims![p]!));
  }

  concat(xs: readonly Value[], axis: number): Value {
    return this.one(
      'Concat',
      xs,
      { axis },
      concatDims(
        xs.map((x) => x.dims),
        axis,
      ),
    );
  }

  /** x[start:end:step] along `axes` (default: the first ones). */
  slice(
    x: Value,
    starts: readonly number[],
    ends: readonly number[],
    axes?: readonly number[],
    steps?: readonly number[],
  ): Value {
    const over = axes ?? starts.map((_, i) => i);
    const dims = x.dims && [...x.dims];
    if (dims)
      over.forEach((axis, i) => {
        const a = axisOf(axis, dims.length, 'Slice');
        dims[a] = sliceDim(dims[a]!, starts[i]!, ends[i]!, steps?.[i] ?? 1);
      });
    const inputs = [x, this.ints(starts), this.ints(ends), this.ints(over), steps && this.ints(steps)];
    return this.one('Slice', inputs, {}, dims);
  }

  /** Cuts `axis` into parts of the sizes given. */
  split(x: Value, sizes: readonly number[], axis = 0): Value[] {
    const parts = sizes.map((s) => ({
      dims: x.dims?.map((d, i) => (i === axisOf(axis, x.dims!.length, 'Split') ? s : d)),
    }));
    return this.op('Split', [x, this.ints(sizes)], { axis }, parts);
  }

  gather(x: Value, indices: Value | number, axis = 0): Value {
    const at = typeof indices === 'number' ? this.scalar('int64', indices) : indices;
    const a = x.dims && axisOf(axis, x.dims.length, 'Gather');
    const dims = x.dims && at.dims && [...x.dims.slice(0, a), ...at.dims, ...x.dims.slice(a! + 1)];
    return this.one('Gather', [x, at], { axis }, dims);
  }

  /** Rows of a table [vocabulary, width] by index: Gather. */
  embedding(indices: Value, table: Value): Value {
    return this.gather(table, indices);
  }

  squeeze(x: Value, axes: readonly number[]): Value {
    return this.one('Squeeze', [x, this.ints(axes)], {}, reduceDims(x.dims, axes, false, 'Squeeze'));
  }

  unsqueeze(x: Value, axes: readonly number[]): Value {
    const rank = x.dims && x.dims.length + axes.length;
    const at = new Set(rank === undefined ? [] : axes.map((a) => axisOf(a, rank, 'Unsqueeze')));
    const rest = x.dims?.values();
    const dims =
      rank === undefined ? undefined : Array.from({ length: rank }, (_, i) => (at.has(i) ? 1 : rest!.next().value!));
    return this.one('Unsqueeze', [x, this.ints(axes)], {}, dims);
  }

  /** The shape as int64 [rank]. */
  shape(x: Value): Value {
    return this.one('Shape', [x], {}, [x.dims?.length ?? null], 'int64');
  }

  reduceMean = (x: Value, axes: readonly number[], keep = true): Value => this.#reduce('ReduceMean', x, axes, keep);
  reduceMax = (x: Value, axes: readonly number[], keep = true): Value => this.#reduce('ReduceMax', x, axes, keep);
  reduceMin = (x: Value, axes: readonly number[], keep = true): Value => this.#reduce('ReduceMin', x, axes, keep);
  reduceSum = (x: Value, axes: readonly number[], keep = true): Value => this.#reduce('ReduceSum', x, axes, keep);

  argMax(x: Value, axis = 0, keep = true): Value {
    return this.one(
      'ArgMax',
      [x],
      { axis, keepdims: keep ? 1 : 0 },
      reduceDims(x.dims, [axis], keep, 'ArgMax'),
      'int64',
    );
  }

  /** LSTM: x [seq, batch, in], w [dirs, 4·hidden, in], r [dirs, 4·hidden, hidden], b [dirs, 8·hidden] (gates i, o, f, c). */
  lstm(x: Value, w: Value, r: Value, b?: Value, options: RecurrentOptions = {}): { y: Value; h: Value; c: Value } {
    const { y, h, hidden } = recurrentDims(x, this.#sizes(r, 'LSTM: the recurrent weights'));
    const inputs = [x, w, r, b, options.lengths, options.h0, options.c0];
    const attributes = { hidden_size: hidden, direction: options.direction };
    const [Y, H, C] = this.op('LSTM', inputs, attributes, [{ dims: y }, { dims: h }, { dims: h }]);
    return { y: Y!, h: H!, c: C! };
  }

  /** GRU: x [seq, batch, in], w [dirs, 3·hidden, in], r [dirs, 3·hidden, hidden], b [dirs, 6·hidden] (gates z, r, h). */
  gru(x: Value, w: Value, r: Value, b?: Value, options: RecurrentOptions = {}): { y: Value; h: Value } {
    const { y, h, hidden } = recurrentDims(x, this.#sizes(r, 'GRU: the recurrent weights'));
    const inputs = [x, w, r, b, options.lengths, options.h0];
    const linear = options.linearBeforeReset ? 1 : undefined;
    const attributes = { hidden_size: hidden, direction: options.direction, linear_before_reset: linear };
    const [Y, H] = this.op('GRU', inputs, attributes, [{ dims: y }, { dims: h }]);
    return { y: Y!, h: H! };
  }

  /**
   * Scaled dot-product attention with heads, of primitives: q [batch, n, heads·d], k and v [batch, m, heads·d] →
   * [batch, n, heads·d]. `mask` is added to the scores [batch, heads, n, m] before the softmax.
   */
  attention(q: Value, k: Value, v: Value, options: { heads: number; mask?: Value; scale?: number }): Value {
    const { heads } = options;
    const width = q.dims?.[2];
    if (typeof width !== 'number' || width % heads !== 0)
      throw new SkepError('INVALID_INPUT', `attention: a width of ${width} does not divide into ${heads} heads`);
    const apart = (x: Value, perm: readonly number[]) => this.transpose(this.reshape(x, [0, 0, heads, -1]), perm);
    const scores = this.mul(
      this.matmul(apart(q, [0, 2, 1, 3]), apart(k, [0, 2, 3, 1])),
      options.scale ?? 1 / Math.sqrt(width / heads),
    );
    const p = this.softmax(options.mask === undefined ? scores : this.add(scores, options.mask), -1);
    const mixed = this.transpose(this.matmul(p, apart(v, [0, 2, 1, 3])), [0, 2, 1, 3]);
    const out = v.dims?.[2];
    return this.reshape(mixed, [0, 0, typeof out === 'number' ? out : -1]);
  }

  /** Axes became an input in operator set 13 (ReduceSum) and 18 (the others). */
  #reduce(op: string, x: Value, axes: readonly number[], keep: boolean): Value {
    const dims = reduceDims(x.dims, axes, keep, op);
    const keepdims = keep ? 1 : 0;
    if (op === 'ReduceSum' || this.opset >= 18) return this.one(op, [x, this.ints(axes)], { keepdims }, dims);
    return this.one(op, [x], { keepdims, axes }, dims);
  }

  #sizes(x: Value, what: string): number[] {
    const { dims } = x;
    if (dims === undefined || !dims.every((d) => typeof d === 'number'))
      throw new SkepError('INVALID_INPUT', `${what} must have a known shape`);
    return dims as number[];
  }
}

function windowAttributes(options: WindowOptions): Record<string, AttributeValue | undefined> {
  return {
    strides: options.strides,
    pads: options.pads,
    dilations: options.dilations,
    auto_pad: options.autoPad,
    ceil_mode: options.ceilMode ? 1 : undefined,
  };
}

function pooled(x: Value, kernel: readonly number[], options: WindowOptions): Dims {
  return x.dims && [...x.dims.slice(0, 2), ...windowDims(x.dims.slice(2), kernel, options)];
}

function recurrentDims(x: Value, r: readonly number[]): { y: Dims; h: Dims; hidden: number } {
  const [directions, , hidden] = r as [number, number, number];
  const [seq, batch] = x.dims ?? [null, null];
  return { y: [seq!, directions, batch!, hidden], h: [directions, batch!, hidden], hidden };
}
