// What RNN, GRU and LSTM (versions 1, 3, 7, 14, 22) have in common: shapes in both layouts, directions, sequence lengths,
// activation lists, the walk over time of the references, and the lowering around a step kernel. How a layer lowers:
//
//   g = X · Wᵀ for all steps, rows and directions at once; then one step kernel a time step, which adds H · Rᵀ,
//   applies the gates and leaves the state as the next step multiplies it.
//
// Gates themselves are in rnn.ts, gru.ts and lstm.ts.
import { activationNamed } from '../kernels/activation.js';
import { STEP_SCRATCH } from '../kernels/recurrent.js';
import { heightFor } from '../kernels/tile.js';
import { decode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { sameShape } from '../tensor/shape.js';
import type { Tensor } from '../tensor/tensor.js';
import { float, floats, int, string, strings } from './attributes.js';
import type { BoundActivation } from './epilogue.js';
import {
  type Address,
  type InferCall,
  type LowerCall,
  type OutputInfo,
  offsetBy,
  type ReferenceCall,
  type Work,
} from './operator.js';
import { grainOf, lowerProduct, placeA, placeB, placeInt8, quantizedRows, quantizeRows } from './product.js';
import { fromNumbers } from './reference.js';

export const recurrentAttributes = {
  activation_alpha: floats([]),
  activation_beta: floats([]),
  activations: strings(),
  clip: float(0),
  direction: string('forward'),
  hidden_size: int(),
  layout: int(0),
};

export interface RecurrentAttributes {
  readonly activation_alpha: readonly number[];
  readonly activation_beta: readonly number[];
  readonly activations: readonly string[] | undefined;
  readonly clip: number;
  readonly direction: string;
  readonly hidden_size: number | undefined;
  readonly layout: number;
}

/** What differs between the layers' shapes. */
export interface Layer {
  readonly gates: number;
  /** Default activations of a direction. */
  readonly activations: readonly string[];
}

/** Inputs by position, the same for all layers as far as they have them. */
export const X = 0;
export const W = 1;
export const R = 2;
export const B = 3;
export const LENGTHS = 4;
export const INITIAL_H = 5;
export const INITIAL_C = 6;
export const P = 7;

export interface RecurrentShape extends Layer {
  readonly times: number;
  readonly batch: number;
  readonly input: number;
  readonly hidden: number;
  readonly directions: number;
  /** For each direction, whether it runs backwards. */
  readonly backwards: readonly boolean[];
  readonly batchFirst: boolean;
  /** Activation functions, direction by direction. */
  readonly functions: readonly BoundActivation[];
  readonly yDims: readonly number[];
  readonly stateDims: readonly number[];
}

/** ONNX names of the activations, and how many of alpha and beta each consumes from the lists. */
const FUNCTIONS: Readonly<Record<string, readonly [name: string, parameters: 0 | 1 | 2]>> = {
  relu: ['relu', 0],
  tanh: ['tanh', 0],
  sigmoid: ['sigmoid', 0],
  affine: ['affine', 2],
  leakyrelu: ['leakyRelu', 1],
  thresholdedrelu: ['thresholdedRelu', 1],
  scaledtanh: ['scaledTanh', 2],
  hardsigmoid: ['hardSigmoid', 2],
  elu: ['elu', 1],
  softsign: ['softsign', 0],
  softplus: ['softplus', 0],
};

function functionsOf(call: InferCall<RecurrentAttributes>, layer: Layer, directions: number): BoundActivation[] {
  const { activations, activation_alpha, activation_beta } = call.attributes;
  const defaults = Array.from({ length: directions }, () => layer.activations).flat();
  const names = activations === undefined || activations.length === 0 ? defaults : activations;
  if (names.length !== defaults.length)
    throw call.error(`activations must name ${defaults.length} functions, got [${names.join(', ')}]`);
  // The lists are consumed in order by the functions that take a parameter.
  let alphas = 0;
  let betas = 0;
  return names.map((name) => {
    const known = FUNCTIONS[name.toLowerCase()];
    const activation = known && activationNamed(known[0]);
    if (known === undefined || activation === undefined) throw call.error(`unknown activation '${name}'`);
    const alpha = known[1] >= 1 ? activation_alpha[alphas++] : undefined;
    const beta = known[1] === 2 ? activation_beta[betas++] : undefined;
    return { activation, alpha: alpha ?? activation.alpha, beta: beta ?? activation.beta };
  });
}

/** Shapes of a layer, checked. */
export function recurrentShape(call: InferCall<RecurrentAttributes>, layer: Layer): RecurrentShape {
  const { direction, layout, hidden_size } = call.attributes;
  if (direction !== 'forward' && direction !== 'reverse' && direction !== 'bidirectional')
    throw call.error(`direction must be forward, reverse or bidirectional, got '${direction}'`);
  if (layout !== 0 && layout !== 1) throw call.error(`layout must be 0 or 1, got ${layout}`);
  const batchFirst = layout === 1;
  const directions = direction === 'bidirectional' ? 2 : 1;
  const x = call.input(X);
  const { dims: r } = call.input(R);
  if (x.dims.length !== 3) throw call.error(`X must have 3 dimensions, got ${formatShape(x.dims)}`);
  if (r.length !== 3) throw call.error(`R must have 3 dimensions, got ${formatShape(r)}`);
  const [times, batch] = (batchFirst ? [x.dims[1], x.dims[0]] : x.dims) as [number, number];
  const input = x.dims[2]!;
  const hidden = r[2]!;
  if (hidden_size !== undefined && hidden_size !== hidden)
    throw call.error(`hidden_size is ${hidden_size}, R ${formatShape(r)} has ${hidden}`);
  const { gates } = layer;
  const stateDims = batchFirst ? [batch, directions, hidden] : [directions, batch, hidden];
  const expected: readonly (readonly [index: number, name: string, dims: readonly number[]])[] = [
    [W, 'W', [directions, gates * hidden, input]],
    [R, 'R', [directions, gates * hidden, hidden]],
    [B, 'B', [directions, 2 * gates * hidden]],
    [LENGTHS, 'sequence_lens', [batch]],
    [INITIAL_H, 'initial_h', stateDims],
    [INITIAL_C, 'initial_c', stateDims],
    [P, 'P', [directions, 3 * hidden]],
  ];
  for (const [i, name, dims] of expected) {
    const given = i === W ? call.input(W) : call.optional(i);
    if (given === undefined) continue;
    if (!sameShape(given.dims, dims))
      throw call.error(`expected ${name} of shape ${formatShape(dims)}, got ${formatShape(given.dims)}`);
    const type = i === LENGTHS ? 'int32' : x.type;
    if (given.type !== type) throw call.error(`expected ${name} of type ${type}, got ${given.type}`);
  }
  return {
    ...layer,
    times,
    batch,
    input,
    hidden,
    directions,
    backwards: directions === 2 ? [false, true] : [direction === 'reverse'],
    batchFirst,
    functions: functionsOf(call, layer, directions),
    yDims: batchFirst ? [batch, times, directions, hidden] : [times, directions, batch, hidden],
    stateDims,
  };
}

/** Type and shape of Y, and of each state that is an output. */
export function recurrentOutputs(call: InferCall<RecurrentAttributes>, layer: Layer, states: number): OutputInfo[] {
  const { yDims, stateDims } = recurrentShape(call, layer);
  const { type } = call.input(X);
  return [{ type, dims: yDims }, ...Array.from({ length: states }, () => ({ type, dims: stateDims }))];
}

/** Strides in elements of an array laid out as the layer's states, and as Y. */
function stridesOf({ batchFirst, batch, times, directions, hidden }: RecurrentShape) {
  return batchFirst
    ? {
        row: directions * hidden,
        direction: hidden,
        yTime: directions * hidden,
        yRow: times * directions * hidden,
        yDirection: hidden,
      }
    : {
        row: hidden,
        direction: batch * hidden,
        yTime: directions * batch * hidden,
        yRow: hidden,
        yDirection: batch * hidden,
      };
}

/** One direction of one row, as a reference step sees it. */
export interface ReferenceStep {
  readonly direction: number;
  /** X · Wᵀ of gate row `i`, without bias; `state · Rᵀ` of gate row `i` for any state. */
  input(i: number): number;
  recurrent(state: Float64Array, i: number): number;
  /** The biases of gate row `i`: the input's and the state's. */
  inputBias(i: number): number;
  stateBias(i: number): number;
  /** Activation `i` of this direction. */
  activate(i: number, x: number): number;
  /** A bound on the inputs of gates. Like onnxruntime, the cell state itself is not bounded. */
  clip(x: number): number;
}

/**
 * The walk of the references: calls `step(s, states)` for every direction, row and time in the row's order; it updates the
 * states in place (h first). Gives Y and the last states.
 */
export function walk(
  call: ReferenceCall<RecurrentAttributes>,
  s: RecurrentShape,
  initial: readonly number[],
  step: (at: ReferenceStep, states: readonly Float64Array[]) => void,
): Tensor[] {
  const { times, batch, input, hidden, gates, directions, batchFirst, backwards } = s;
  const [x, w, r] = [X, W, R].map((i) => decode(call.tensor(i))) as [
    ArrayLike<number>,
    ArrayLike<number>,
    ArrayLike<number>,
  ];
  const bias = call.has(B) ? decode(call.tensor(B)) : undefined;
  const lengths = call.ints(LENGTHS);
  const strides = stridesOf(s);
  const y = new Float64Array(times * batch * directions * hidden);
  const starts = initial.map((i) => (call.has(i) ? decode(call.tensor(i)) : undefined));
  const ends = initial.map(() => new Float64Array(batch * directions * hidden));
  const rows = gates * hidden;
  const perDirection = s.functions.length / directions;
  const { clip } = call.attributes;
  for (let d = 0; d < directions; d++)
    for (let b = 0; b < batch; b++) {
      const at = b * strides.row + d * strides.direction;
      const states = starts.map((from) => Float64Array.from({ length: hidden }, (_, j) => from?.[at + j] ?? 0));
      const length = Math.max(0, Math.min(times, lengths?.[b] ?? times));
      let xAt = 0;
      const view: ReferenceStep = {
        direction: d,
        input(i) {
          let sum = 0;
          for (let l = 0, o = (d * rows + i) * input; l < input; l++) sum += x[xAt + l]! * w[o + l]!;
          return sum;
        },
        recurrent(state, i) {
          let sum = 0;
          for (let l = 0, o = (d * rows + i) * hidden; l < hidden; l++) sum += state[l]! * r[o + l]!;
          return sum;
        },
        inputBias: (i) => bias?.[d * 2 * rows + i] ?? 0,
        stateBias: (i) => bias?.[d * 2 * rows + rows + i] ?? 0,
        activate(i, v) {
          const { activation, alpha, beta } = s.functions[d * perDirection + i]!;
          return activation.apply(v, alpha, beta);
        },
        clip: (v) => (clip === 0 ? v : Math.max(-clip, Math.min(clip, v))),
      };
      for (let t = 0; t < length; t++) {
        const time = backwards[d] ? length - 1 - t : t;
        xAt = (batchFirst ? b * times + time : time * batch + b) * input;
        step(view, states);
        y.set(states[0]!, time * strides.yTime + b * strides.yRow + d * strides.yDirection);
      }
      for (const [i, end] of ends.entries()) end.set(states[i]!, at);
    }
  const { type } = call.tensor(X);
  return [fromNumbers(type, s.yDims, y), ...ends.map((end) => fromNumbers(type, s.stateDims, end))];
}

const bits = new DataView(new ArrayBuffer(4));

function bitsOf(x: number): number {
  bits.setFloat32(0, x);
  return bits.getInt32(0);
}

/** Zeros, once a model. */
export function placeZeros(call: LowerCall<unknown>, floats: number): Address {
  return call.constant(`zeros ${floats}`, floats * 4, () => {});
}

/** Step fields that all layers' kernels have, for time `t`. */
export type StepParams = ReturnType<typeof stepParams> & {
  readonly height: number;
  readonly width: number;
  readonly rScales: Address | 0;
  readonly quantized: Address | 0;
  readonly rowScales: Address | 0;
};

function stepParams(
  call: LowerCall<RecurrentAttributes>,
  s: RecurrentShape,
  g: Address,
  r: Address,
  states: readonly Address[],
  t: number,
) {
  const { times, batch, hidden, gates, batchFirst } = s;
  const width = gates * hidden;
  const strides = stridesOf(s);
  return {
    g,
    gTime: batchFirst ? width : batch * width,
    gRow: batchFirst ? times * width : width,
    gDirection: times * batch * width,
    r,
    hIn: states[t === 0 ? 0 : 1 + (t % 2)]!,
    hOut: states[1 + ((t + 1) % 2)]!,
    bias: call.has(B) ? call.in(B) : (0 as const),
    lengths: call.has(LENGTHS) ? call.in(LENGTHS) : (0 as const),
    y: call.wants(0) ? call.out(0) : (0 as const),
    yTime: strides.yTime,
    yRow: strides.yRow,
    yDirection: strides.yDirection,
    hLast: t === times - 1 && call.wants(1) ? call.out(1) : (0 as const),
    lastRow: strides.row,
    lastDirection: strides.direction,
    batch,
    hidden,
    time: t,
    times,
    reverse: s.backwards.reduce((mask, back, d) => mask | (back ? 1 << d : 0), 0),
    activations: s.functions.flatMap((f) => [f.activation.code, bitsOf(f.alpha), bitsOf(f.beta)]),
    clip: call.attributes.clip,
  };
}

/**
 * Lowers a layer: the product over all steps, the initial state, then `step(params, work, t, multiplied)` once a time step.
 * A step that multiplies another state than hIn says so by `multiplied` before. False when no kernel fits.
 */
export function lowerRecurrent(
  call: LowerCall<RecurrentAttributes>,
  s: RecurrentShape,
  step: (params: StepParams, work: Work, t: number, multiplied: (state: Address) => void) => void,
): boolean {
  const { times, batch, input, hidden, gates, directions } = s;
  if (call.input(X).type !== 'float32' || times * batch * hidden === 0) return false;
  const width = gates * hidden;
  const rows = times * batch;
  const strides = stridesOf(s);
  const g = call.scratch(directions * rows * width * 4);
  lowerProduct(call, {
    a: { input: X, matrices: 1, stride: rows * input, row: input, column: 1 },
    b: { input: W, matrices: directions, stride: width * input, row: 1, column: input },
    c: g,
    m: rows,
    n: width,
    k: input,
    batches: directions,
    aIndex: s.backwards.map(() => 0),
    bIndex: s.backwards.map((_, d) => d),
    epilogue: {},
  });
  // Every gate is a matrix of its own, so that panels never straddle two.
  const gateMatrices = { input: R, matrices: directions * gates, stride: hidden * hidden, row: 1, column: hidden };
  const rounded = placeInt8(call, gateMatrices, hidden, hidden);
  const r = rounded?.weights ?? placeB(call, gateMatrices, hidden, hidden);
  // A state that is rounded before it is multiplied lies as it is between steps: a panel is one row.
  const height = rounded === undefined ? heightFor(call.tile, batch) : 1;
  const size = directions * batch * hidden;
  const first = call.has(INITIAL_H)
    ? placeA(
        call,
        { input: INITIAL_H, matrices: directions, stride: strides.direction, row: strides.row, column: 1 },
        batch,
        hidden,
        height,
      )
    : placeZeros(call, size);
  const both = call.scratch(2 * size * 4);
  const states = [first, both, offsetBy(both, size * 4)];
  call.threadScratch(STEP_SCRATCH);
  const work: Work = {
    units: directions * Math.ceil(hidden / 8),
    grain: grainOf(2 * batch * gates * 8 * hidden),
    flops: 2 * batch * directions * width * hidden,
  };
  const quantized = rounded && quantizedRows(call, directions * batch, hidden);
  const stack = { matrices: directions, stride: batch * hidden, row: hidden, column: 1 };
  const multiplied = (state: Address) => {
    if (quantized !== undefined) quantizeRows(call, state, stack, batch, hidden, quantized);
  };
  const int8 = {
    rScales: rounded?.scales ?? 0,
    quantized: quantized?.packed ?? 0,
    rowScales: quantized?.scales ?? 0,
  } as const;
  for (let t = 0; t < times; t++) {
    const params = { ...stepParams(call, s, g, r, states, t), height, width: call.tile.width, ...int8 };
    multiplied(params.hIn);
    step(params, work, t, multiplied);
  }
  return true;
}

/** Strides of a state input or output, for layers with more states. */
export function stateStrides(s: RecurrentShape): { readonly row: number; readonly direction: number } {
  return stridesOf(s);
}
