// Step costs for the virtual experiments, in ms by rows. They follow what 128-bit SIMD WebAssembly kernels show on a
// server core: one row reads the weights at memory speed (an LSTM of hidden 1024 has 33.5 MB: 1.5 ms), many rows reach
// about 28 GFLOP/s, so batching buys 2.5 × rows a second at hidden 1024 and 1.9 × at 256, nearly all of it by 4 to 8
// rows. The GPU's is the paper's: a step of hidden 1024 takes about 185 µs, nearly flat up to 512 rows.
import { flat, type StepCost, table } from '../../src/simulator/cost.js';

export const lstm1024: StepCost = table({ 1: 1.5, 2: 1.75, 4: 2.53, 8: 4.8, 16: 9.6 });
export const lstm256: StepCost = table({ 1: 0.066, 2: 0.088, 4: 0.147, 8: 0.28, 16: 0.56 });
export const lstmGpu: StepCost = flat(0.185, 512);

const scaled =
  (cost: StepCost, factor: number): StepCost =>
  (rows) =>
    factor * cost(rows);
/** A decoder step is an LSTM step and a projection to the vocabulary of about the same size. */
export const decoder1024: StepCost = scaled(lstm1024, 2);
/** A binary TreeLSTM's inner cell has five gates over two children; a leaf has three over its input. */
export const treeInner1024: StepCost = scaled(lstm1024, 1.25);
export const treeLeaf1024: StepCost = scaled(lstm1024, 0.375);
