// The kernels' calling convention. Every export of the WebAssembly module has one signature:
//
//   kernel(params: i32 pointer, begin: i32, end: i32, scratch: i32 pointer)
//
// `params` points at a block of 32-bit words, one a field, in the order of the tables here, which the assembly declares as
// an @unmanaged class of the same fields (a test compares the two). The call computes units [begin, end) of the step;
// `scratch` is memory of this thread alone. Field types:
//
//   ptr    an address in the model's memory (0: absent)       u/i32  an integer
//   f32    a float                                            i32s   a list of integers: the word points at them
//   ptrs   a list of addresses: the word points at them
//
// One file a kernel family adds its tables; this one merges them and encodes blocks.
import { attention } from './attention.js';
import { broadcast } from './broadcast.js';
import { builtin } from './builtin.js';
import { conv } from './conv.js';
import { gemm } from './gemm.js';
import { half } from './half.js';
import { int8 } from './int8.js';
import { integer } from './integer.js';
import { movement } from './movement.js';
import { pool } from './pool.js';
import { quantization } from './quantize.js';
import { recurrent } from './recurrent.js';
import { reduce } from './reduce.js';
import { unary } from './unary.js';

export type FieldType = 'ptr' | 'i32' | 'f32' | 'i32s' | 'ptrs';

/** Fields of a parameter block, in order. */
export type Fields = Readonly<Record<string, FieldType>>;

/** Every kernel by export name. */
// biome-ignore format: one a line, so that families can be added side by side
export const abi = {
  ...attention,
  ...broadcast,
  ...builtin,
  ...conv,
  ...gemm,
  ...half,
  ...int8,
  ...integer,
  ...movement,
  ...pool,
  ...quantization,
  ...recurrent,
  ...reduce,
  ...unary,
} as const satisfies Record<string, Fields>;

export type KernelName = keyof typeof abi;

type ValueOf<F extends FieldType, P> = F extends 'ptr'
  ? P | 0
  : F extends 'i32s'
    ? readonly number[]
    : F extends 'ptrs'
      ? readonly (P | 0)[]
      : number;

/** Parameter values of a kernel, with addresses of type P. */
export type ParamsOf<K extends KernelName, P> = {
  readonly [F in keyof (typeof abi)[K]]: (typeof abi)[K][F] extends FieldType ? ValueOf<(typeof abi)[K][F], P> : never;
};

/** The signature of every kernel export. */
export type Kernel = (params: number, begin: number, end: number, scratch: number) => void;
