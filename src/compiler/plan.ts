// What the compiler makes: a Plan is a flat list of steps for concrete shapes, with every address settled but for one base.
//
//   words   ┌ params of step 0 │ params of step 1 │ … │ lists ┐   32-bit words, copied into the model's memory once an
//           └──────────────────────────────────────────────────┘   instance, pointers patched by the relocations
//   arena   ┌ conv1 │ relu1 │ … reused as lifetimes end … ┐         one range of bytes an execution
//           └─────────────────────────────────────────────┘
//   external  x, y: inputs where the caller put them (only read), results where the answer wants them
//
// Constants (weights, packed or as they are) have absolute addresses: they are placed once a model through ConstantPool.
// A Plan is plain data; executing it is runtime/.
import type { Node } from '../graph/graph.js';
import type { KernelName } from '../kernels/abi.js';
import type { RoundingError, WeightType } from '../kernels/int8.js';
import type { Tile } from '../kernels/tile.js';
import type { IndexRange } from '../operators/operator.js';
import type { Tensor } from '../tensor/tensor.js';
import type { DataType } from '../tensor/types.js';

/** A tensor `offset` bytes on from a base: 0 is the arena, i the plan's external i − 1. */
export interface Slot {
  readonly kind: 'slot';
  readonly type: DataType;
  readonly dims: readonly number[];
  readonly base: number;
  readonly offset: number;
}

/** Kernels may read (never write) up to this many bytes past a tensor's end. */
export const SLACK = 64;

/** A tensor outside the arena, whose place is told at each execution: 64-byte aligned, readable for SLACK bytes past its end. */
export interface External {
  readonly name: string;
  /** An input is never written to. */
  readonly role: 'input' | 'result';
  readonly bytes: number;
}

/** A tensor known when the plan was made. */
export interface Constant {
  readonly kind: 'constant';
  readonly value: Tensor;
}

/** What an input of a reference step, or a result of a plan, is. */
export type Argument = Slot | Constant;

/** A value as a step sees it. */
export interface StepValue {
  readonly name: string;
  readonly type: DataType;
  readonly dims: readonly number[];
  /** True when it is known before the plan runs. */
  readonly constant: boolean;
}

interface StepBase {
  /** The operator computed, `Conv` or `skep:Conv` when fusion made it. */
  readonly operator: string;
  /** What that operator reads and writes; a kernel call of several for one operator may touch only some of it. */
  readonly reads: readonly StepValue[];
  readonly writes: readonly StepValue[];
  /** The graph nodes this step computes (several when fused), the last one first. */
  readonly nodes: readonly Node[];
  /** Names of the values it is part of computing. */
  readonly outputs: readonly string[];
  /** Floating-point operations, 0 when not stated. */
  readonly flops: number;
}

/** A kernel call, divisible among threads. */
export interface KernelStep extends StepBase {
  readonly kind: 'kernel';
  readonly kernel: KernelName;
  /** Index of its parameter block in `words`. */
  readonly params: number;
  readonly units: number;
  readonly grain: number;
  /** Indices to check before it runs; `word` holds their address. */
  readonly indices?: IndexRange & { readonly word: number };
}

/** A node without a kernel: the instance's leader runs its reference semantics on views of the arena. */
export interface ReferenceStep extends StepBase {
  readonly kind: 'reference';
  readonly node: Node;
  readonly inputs: readonly (Argument | undefined)[];
  readonly results: readonly (Slot | undefined)[];
}

export type Step = KernelStep | ReferenceStep;

export interface Plan {
  readonly steps: readonly Step[];
  readonly words: Int32Array;
  /** By base, the indices of words that hold an offset from it: its address is added. */
  readonly relocations: readonly Int32Array[];
  /** Indices of words that hold a byte offset into `words`: the base of the words is added. */
  readonly wordRelocations: Int32Array;
  readonly arenaBytes: number;
  readonly externals: readonly External[];
  /** The most bytes of the arena that hold something at one step: no layout can do with a smaller arena. */
  readonly liveBytes: number;
  /** Bytes of the model's constants (weights, packed or as they are) that the steps read. */
  readonly constantBytes: number;
  readonly threadScratchBytes: number;
  /** What must be written before the steps run. */
  readonly inputs: ReadonlyMap<string, Slot>;
  /** What may be read after them. */
  readonly results: ReadonlyMap<string, Argument>;
}

/** Why a plan ends before the graph does. */
export type Cut =
  /** The rest can be compiled when the elements of this value are known: a shape, a condition. */
  | { readonly kind: 'value'; readonly name: string }
  /** This node must be run by its reference: its outputs' shapes depend on data, or are no tensors. */
  | { readonly kind: 'host'; readonly node: Node };

/** Places constants in a model's memory, each key once. The compiler writes through it; runtime/ implements it. */
export interface ConstantPool {
  /** The address of the constant `key`; `fill` is called with its zeroed bytes when it is not there yet. */
  place(key: string, bytes: number, fill: (into: Uint8Array) => void): number;
}

/** How a graph is to be compiled. */
export interface CompileOptions {
  /** The kernels' build. */
  readonly build: 'plain' | 'fma';
  /** How the weights of matrix products and recurrent layers are kept; default float32. */
  readonly weights?: WeightType;
  /** Told how far rounding moved each tensor of weights, by its name, when it is packed. */
  readonly onRounded?: (name: string, error: RoundingError) => void;
  /** The register tile of matrix products; default: the best for this build where 256-bit instructions are not used. */
  readonly tile?: Tile;
  /** False: every node runs its reference semantics. Default true. */
  readonly kernels?: boolean;
  /** False: convolutions are sums of products in order, without Winograd's larger rounding errors. Default true. */
  readonly winograd?: boolean;
  /** False: no fusion. Default true. */
  readonly fuse?: boolean;
}
