// Parameter blocks of the recurrent step kernels (assembly/recurrent.ts).
import type { Fields } from './abi.js';

const stepFields = {
  g: 'ptr',
  gTime: 'i32',
  gRow: 'i32',
  gDirection: 'i32',
  r: 'ptr',
  hIn: 'ptr',
  hOut: 'ptr',
  bias: 'ptr',
  lengths: 'ptr',
  y: 'ptr',
  yTime: 'i32',
  yRow: 'i32',
  yDirection: 'i32',
  hLast: 'ptr',
  lastRow: 'i32',
  lastDirection: 'i32',
  batch: 'i32',
  hidden: 'i32',
  time: 'i32',
  times: 'i32',
  reverse: 'i32',
  activations: 'i32s',
  clip: 'f32',
  height: 'i32',
  width: 'i32',
  rScales: 'ptr',
  quantized: 'ptr',
  rowScales: 'ptr',
  factor: 'f32',
} as const satisfies Fields;

export const recurrent = {
  rnnStep: stepFields,
  gruStep: { ...stepFields, z: 'ptr', resetState: 'ptr', phase: 'i32' },
  lstmStep: {
    ...stepFields,
    cIn: 'ptr',
    cInRow: 'i32',
    cInDirection: 'i32',
    cOut: 'ptr',
    cLast: 'ptr',
    peephole: 'ptr',
    inputForget: 'i32',
  },
} as const satisfies Record<string, Fields>;

/** Scratch of a step kernel: up to four gates of 60 rows of 8. */
export const STEP_SCRATCH = 4 * 60 * 32;
