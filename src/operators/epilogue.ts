// What fused operators do after their product: bias, residual, activation, in this order. Attributes, the parameter
// fields of the kernels, and the reference. The codes and functions are those of kernels/activation.ts.
import { type Activation, activationNamed } from '../kernels/activation.js';
import type { epilogueFields } from '../kernels/gemm.js';
import { floats, string } from './attributes.js';
import type { Address, Call } from './operator.js';

/** Attributes of every operator of domain `skep` with an epilogue; the parameters are [alpha, beta] of the activation. */
export const epilogueAttributes = { activation: string('none'), activation_params: floats([]) };

interface EpilogueAttributes {
  readonly activation: string;
  readonly activation_params: readonly number[];
}

/** An activation with its parameters. */
export interface BoundActivation {
  readonly activation: Activation;
  readonly alpha: number;
  readonly beta: number;
}

/** The activation an operator's attributes name. */
export function activationOf(call: Call<EpilogueAttributes>): BoundActivation {
  const { activation: name, activation_params: params } = call.attributes;
  const activation = activationNamed(name);
  if (activation === undefined) throw call.error(`unknown activation '${name}'`);
  return { activation, alpha: params[0] ?? activation.alpha, beta: params[1] ?? activation.beta };
}

/** A term added to a product: where it is and its strides in floats (0: broadcast along that axis). */
export interface Term {
  readonly at: Address;
  readonly row: number;
  readonly column: 0 | 1;
}

/** What a kernel does after the product. */
export interface Epilogue {
  readonly scale?: number;
  readonly bias?: Term;
  readonly residual?: Term;
  readonly residualScale?: number;
  readonly activation?: BoundActivation;
}

type EpilogueParams = {
  readonly [F in keyof typeof epilogueFields]: (typeof epilogueFields)[F] extends 'ptr' ? Address | 0 : number;
};

/** The epilogue fields of a parameter block. */
export function epilogueParams({ scale = 1, bias, residual, residualScale = 1, activation }: Epilogue): EpilogueParams {
  return {
    bias: bias?.at ?? 0,
    biasRow: bias?.row ?? 0,
    biasColumn: bias?.column ?? 0,
    residual: residual?.at ?? 0,
    residualRow: residual?.row ?? 0,
    residualColumn: residual?.column ?? 0,
    residualScale,
    scale,
    activation: activation?.activation.code ?? 0,
    alpha: activation?.alpha ?? 0,
    beta: activation?.beta ?? 0,
  };
}

/** The reference: adds a bias (element i of the result takes `bias[biasAt(i)]`) and a residual, then activates, in place. */
export function applyEpilogue(
  y: Float64Array,
  bias: ArrayLike<number> | undefined,
  biasAt: (i: number) => number,
  residual: ArrayLike<number> | undefined,
  bound?: BoundActivation,
): Float64Array {
  for (let i = 0; i < y.length; i++) {
    let x = y[i]!;
    if (bias !== undefined) x += bias[biasAt(i)]!;
    if (residual !== undefined) x += residual[i]!;
    y[i] = bound === undefined ? x : bound.activation.apply(x, bound.alpha, bound.beta);
  }
  return y;
}
