// What RNN, GRU and LSTM (versions 1, 3, 7, 14, 22) have in common: the walk over time of the references, and the lowering
// around a step kernel. How a layer lowers:
//
//   g = X · Wᵀ for all steps, rows and directions at once; then one step kernel a time step, which adds H · Rᵀ,
//   applies the gates and leaves the state as the next step multiplies it.
//
// Where a layer's steps are scheduled apart, g is given, and the same kernels run in the same order. Shapes are in
// recurrent-shape.ts, the gates themselves in rnn.ts, gru.ts and lstm.ts.
import { STEP_SCRATCH } from '../kernels/recurrent.js';
import { heightFor } from '../kernels/tile.js';
import { decode } from '../tensor/convert.js';
import type { Tensor } from '../tensor/tensor.js';
import { type Address, type LowerCall, offsetBy, type ReferenceCall, type Work } from './operator.js';
import { grainOf, placeA, placeB, placeHalf, placeInt8, quantizedRows, quantizeRows } from './product.js';
import { lowerProjection } from './projection.js';
import { B, INITIAL_H, LENGTHS, R, type RecurrentAttributes, type RecurrentShape, W, X } from './recurrent-shape.js';
import { fromNumbers } from './reference.js';

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
  const { times, batch, input, hidden, gates, directions, batchFirst, backwards, strides } = s;
  const x = decode(call.tensor(X));
  const w = s.projected ? undefined : decode(call.tensor(W));
  const r = decode(call.tensor(R));
  const bias = call.has(B) ? decode(call.tensor(B)) : undefined;
  const lengths = call.ints(LENGTHS);
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
          if (w === undefined) return x[xAt + i]!;
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
        xAt = s.projected
          ? d * strides.gDirection + b * strides.gRow + time * strides.gTime
          : (batchFirst ? b * times + time : time * batch + b) * input;
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
  readonly factor: number;
};

function stepParams(
  call: LowerCall<RecurrentAttributes>,
  s: RecurrentShape,
  g: Address,
  r: Address,
  states: readonly Address[],
  t: number,
) {
  const { times, batch, hidden, strides } = s;
  return {
    g,
    gTime: strides.gTime,
    gRow: strides.gRow,
    gDirection: strides.gDirection,
    r,
    hIn: states[t === 0 ? 0 : 1 + (t % 2)]!,
    hOut: states[1 + ((t + 1) % 2)]!,
    bias: call.has(B) ? call.in(B) : (0 as const),
    lengths: call.has(LENGTHS) ? call.in(LENGTHS) : (0 as const),
    y: call.wants(0) ? call.out(0) : (0 as const),
    yTime: strides.yTime,
    yRow: strides.yRow,
    yDirection: strides.yDirection,
    // After each of some steps: a plan may be left before its last one.
    hLast: (s.projected || t === times - 1) && call.wants(1) ? call.out(1) : (0 as const),
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
 * Lowers a layer: the product over all steps where it is not given, the initial state, then `step(params, work, t, multiplied)` once a time step.
 * A step that multiplies another state than hIn says so by `multiplied` before. False when no kernel fits.
 */
export function lowerRecurrent(
  call: LowerCall<RecurrentAttributes>,
  s: RecurrentShape,
  step: (params: StepParams, work: Work, t: number, multiplied: (state: Address) => void) => void,
): boolean {
  const { times, batch, input, hidden, gates, directions, strides } = s;
  if (call.input(X).type !== 'float32' || times * batch * hidden === 0) return false;
  const width = gates * hidden;
  const g = s.projected ? call.in(X) : call.scratch(directions * times * batch * width * 4);
  if (!s.projected) lowerProjection(call, { rows: times * batch, input, width, directions }, g);
  // Every gate is a matrix of its own, so that panels never straddle two.
  const gateMatrices = { input: R, matrices: directions * gates, stride: hidden * hidden, row: 1, column: hidden };
  const rounded = placeInt8(call, gateMatrices, hidden, hidden);
  const halved = placeHalf(call, gateMatrices, hidden, hidden);
  const r = rounded?.weights ?? halved?.weights ?? placeB(call, gateMatrices, hidden, hidden);
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
  call.threadScratch(STEP_SCRATCH + (halved === undefined ? 0 : hidden * 32));
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
  const rounding = {
    rScales: rounded?.scales ?? 0,
    quantized: quantized?.packed ?? 0,
    rowScales: quantized?.scales ?? 0,
    factor: halved?.factor ?? 0,
  } as const;
  for (let t = 0; t < times; t++) {
    const params = { ...stepParams(call, s, g, r, states, t), height, width: call.tile.width, ...rounding };
    multiplied(params.hIn);
    step(params, work, t, multiplied);
  }
  return true;
}
