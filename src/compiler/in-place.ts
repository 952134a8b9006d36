// Which kernels may write their output over an input of the same size: those that load element i (or a vector of them)
// before they store element i, and never look at it again. A kernel that finishes a row by loading its last vector once
// more, or reads neighbours, is not among them. test/compiler/in-place.test.ts runs each in place.
import type { KernelName } from '../kernels/abi.js';

/** The parameter that is the output, and the inputs it may lie over. */
export interface InPlaceFields {
  readonly output: string;
  readonly inputs: readonly string[];
}

export const inPlaceFields: Partial<Record<KernelName, InPlaceFields>> = {
  unaryF32: { output: 'y', inputs: ['x'] },
  broadcast: { output: 'y', inputs: ['a', 'b', 'c'] },
  // These read a row several times, but each element for the last time just before they write it.
  channelNorm: { output: 'y', inputs: ['x'] },
  rowNorm: { output: 'y', inputs: ['x'] },
  scan: { output: 'y', inputs: ['x'] },
  softmaxF32: { output: 'y', inputs: ['x'] },
};
