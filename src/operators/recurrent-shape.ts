// Shapes of RNN, GRU and LSTM in both layouts, checked, and what their attributes say: directions and activation lists. Each
// comes in two forms: the layer of ai.onnx, and some steps of it (`skep:LSTMSteps`), which is given X · Wᵀ and runs only the
// rest, for requests whose steps are scheduled apart (compiler/cells.ts). What both do is in recurrent.ts.
import { activationNamed } from '../kernels/activation.js';
import { formatShape } from '../tensor/errors.js';
import { sameShape } from '../tensor/shape.js';
import type { DataType } from '../tensor/types.js';
import { float, floats, int, string, strings } from './attributes.js';
import type { BoundActivation } from './epilogue.js';
import type { InferCall, OutputInfo } from './operator.js';

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
  readonly strides: Strides;
  /** Input 0 is X · Wᵀ, not X. */
  readonly projected: boolean;
}

/** Strides in elements: of the states, of Y, and of X · Wᵀ. */
interface Strides {
  readonly row: number;
  readonly direction: number;
  readonly yTime: number;
  readonly yRow: number;
  readonly yDirection: number;
  readonly gTime: number;
  readonly gRow: number;
  readonly gDirection: number;
}

/** A layer of ai.onnx, or some steps of one. */
export interface Form {
  readonly domain: string;
  /** What its operators' names end in. */
  readonly suffix: string;
  shapeOf(call: InferCall<RecurrentAttributes>, layer: Layer): RecurrentShape;
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
function recurrentShape(call: InferCall<RecurrentAttributes>, layer: Layer): RecurrentShape {
  const { layout } = call.attributes;
  if (layout !== 0 && layout !== 1) throw call.error(`layout must be 0 or 1, got ${layout}`);
  const batchFirst = layout === 1;
  const x = call.input(X);
  if (x.dims.length !== 3) throw call.error(`X must have 3 dimensions, got ${formatShape(x.dims)}`);
  const [times, batch] = (batchFirst ? [x.dims[1], x.dims[0]] : x.dims) as [number, number];
  const input = x.dims[2]!;
  const sizes = sizesOf(call, layer);
  const { hidden, directions, width } = sizes;
  const stateDims = batchFirst ? [batch, directions, hidden] : [directions, batch, hidden];
  checkInputs(call, { ...sizes, batch, stateDims });
  call.input(W);
  checkInput(call, W, 'W', [directions, width, input]);
  const g = batchFirst
    ? { gTime: width, gRow: times * width, gDirection: times * batch * width }
    : { gTime: batch * width, gRow: width, gDirection: times * batch * width };
  return {
    ...layer,
    times,
    batch,
    input,
    hidden,
    directions,
    backwards: directions === 2 ? [false, true] : [call.attributes.direction === 'reverse'],
    batchFirst,
    functions: functionsOf(call, layer, directions),
    yDims: batchFirst ? [batch, times, directions, hidden] : [times, directions, batch, hidden],
    stateDims,
    strides: batchFirst
      ? {
          row: directions * hidden,
          direction: hidden,
          yTime: directions * hidden,
          yRow: times * directions * hidden,
          yDirection: hidden,
          ...g,
        }
      : {
          row: hidden,
          direction: batch * hidden,
          yTime: directions * batch * hidden,
          yRow: hidden,
          yDirection: batch * hidden,
          ...g,
        },
    projected: false,
  };
}

/**
 * Shapes of some steps of a layer: g [directions, batch, steps, gates · hidden], states [directions, batch, hidden], Y
 * [directions, batch, steps, hidden]. All directions go forward: who calls has turned the backward one round.
 */
function stepsShape(call: InferCall<RecurrentAttributes>, layer: Layer): RecurrentShape {
  const g = call.input(X);
  const sizes = sizesOf(call, layer);
  const { hidden, directions, width } = sizes;
  const [, batch = 0, times = 0] = g.dims;
  checkInput(call, X, 'the products', [directions, batch, times, width]);
  const stateDims = [directions, batch, hidden];
  checkInputs(call, { ...sizes, batch, stateDims });
  return {
    ...layer,
    times,
    batch,
    input: 0,
    hidden,
    directions,
    backwards: Array.from({ length: directions }, () => false),
    batchFirst: false,
    functions: functionsOf(call, layer, directions),
    yDims: [directions, batch, times, hidden],
    stateDims,
    strides: {
      row: hidden,
      direction: batch * hidden,
      yTime: hidden,
      yRow: times * hidden,
      yDirection: batch * times * hidden,
      gTime: width,
      gRow: times * width,
      gDirection: batch * times * width,
    },
    projected: true,
  };
}

export const layerForm: Form = { domain: '', suffix: '', shapeOf: recurrentShape };
export const stepsForm: Form = { domain: 'skep', suffix: 'Steps', shapeOf: stepsShape };

function sizesOf(call: InferCall<RecurrentAttributes>, { gates }: Layer) {
  const { direction, hidden_size, clip } = call.attributes;
  if (!(clip >= 0)) throw call.error(`clip must not be negative, got ${clip}`);
  if (direction !== 'forward' && direction !== 'reverse' && direction !== 'bidirectional')
    throw call.error(`direction must be forward, reverse or bidirectional, got '${direction}'`);
  const { dims: r } = call.input(R);
  if (r.length !== 3) throw call.error(`R must have 3 dimensions, got ${formatShape(r)}`);
  const hidden = r[2]!;
  if (hidden_size !== undefined && hidden_size !== hidden)
    throw call.error(`hidden_size is ${hidden_size}, R ${formatShape(r)} has ${hidden}`);
  return { hidden, width: gates * hidden, directions: direction === 'bidirectional' ? 2 : 1 };
}

/** Checks all inputs but the first two. */
function checkInputs(
  call: InferCall<RecurrentAttributes>,
  s: Pick<RecurrentShape, 'batch' | 'hidden' | 'directions' | 'stateDims'> & { readonly width: number },
): void {
  const { batch, hidden, directions, stateDims, width } = s;
  checkInput(call, R, 'R', [directions, width, hidden]);
  checkInput(call, B, 'B', [directions, 2 * width]);
  checkInput(call, LENGTHS, 'sequence_lens', [batch], 'int32');
  checkInput(call, INITIAL_H, 'initial_h', stateDims);
  checkInput(call, INITIAL_C, 'initial_c', stateDims);
  checkInput(call, P, 'P', [directions, 3 * hidden]);
}

function checkInput(
  call: InferCall<RecurrentAttributes>,
  i: number,
  name: string,
  dims: readonly number[],
  type: DataType = call.input(X).type,
): void {
  const given = call.optional(i);
  if (given === undefined) return;
  if (!sameShape(given.dims, dims))
    throw call.error(`expected ${name} of shape ${formatShape(dims)}, got ${formatShape(given.dims)}`);
  if (given.type !== type) throw call.error(`expected ${name} of type ${type}, got ${given.type}`);
}

/** Type and shape of Y, and of each state that is an output. */
export function recurrentOutputs(
  call: InferCall<RecurrentAttributes>,
  { yDims, stateDims }: RecurrentShape,
  states: number,
): OutputInfo[] {
  const { type } = call.input(X);
  return [{ type, dims: yDims }, ...Array.from({ length: states }, () => ({ type, dims: stateDims }))];
}
