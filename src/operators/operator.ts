// What an operator is: one object that says everything Skep knows of it — versions, attributes with the specification's
// defaults, type and shape rule, reference semantics, and how it lowers to kernel calls. How to picture a compile:
//
//   infer      concrete input shapes (and constant values) → output types and shapes; or 'dynamic': only running tells
//   reference  tensors → tensors; slow and obviously correct: the oracle of the kernels, the constant folder, the fallback
//   lower      → steps of a plan: kernel calls on addresses; false when no kernel covers these types or options
//
// Plans are compiled for concrete shapes, so rules here never see a symbol. Parsing nodes and walking graphs is not here.
import type { Graph, Node } from '../graph/graph.js';
import type { KernelName, ParamsOf } from '../kernels/abi.js';
import type { RoundingError, WeightType } from '../kernels/int8.js';
import type { Tile } from '../kernels/tile.js';
import { type ErrorCode, formatNode, SkepError } from '../tensor/errors.js';
import type { Tensor } from '../tensor/tensor.js';
import type { DataType } from '../tensor/types.js';
import type { AttributeSpecs, AttributesOf } from './attributes.js';

/** What a value can be outside WebAssembly memory: a tensor, a sequence, or an empty optional. */
export type HostValue = Tensor | readonly HostValue[] | null;

/** What is known of a tensor when a plan is compiled: type, shape, and the elements where they are constant. */
export interface TensorInfo {
  readonly type: DataType;
  readonly dims: readonly number[];
  readonly value?: Tensor;
}

/** Type and shape of an output. */
export interface OutputInfo {
  readonly type: DataType;
  readonly dims: readonly number[];
}

/** Outputs in order (undefined: this node does not have that one), or 'dynamic' when shapes (or kinds) depend on data. */
export type Inferred = readonly (OutputInfo | undefined)[] | 'dynamic';

/** One application of an operator, as its rules see it. */
export interface Call<A> {
  readonly node: Node;
  readonly opset: number;
  readonly attributes: A;
  /** Number of inputs written, omitted ones in the middle included. */
  readonly inputCount: number;
  /** Number of outputs written. */
  readonly outputCount: number;
  /** True when output `i` is wanted. */
  wants(i: number): boolean;
  /** True when input `i` is given. */
  has(i: number): boolean;
  /** An error that names this node: `Conv 'conv1': …`. */
  error(message: string, code?: ErrorCode): SkepError;
}

/** What `infer` may ask. */
export interface InferCall<A> extends Call<A> {
  /** Type and shape of input `i`; throws INVALID_MODEL when it is missing or not a tensor. */
  input(i: number): TensorInfo;
  /** The same, or undefined when omitted. */
  optional(i: number): TensorInfo | undefined;
  /** The elements of input `i`. While a plan is compiled, throws ValueNeeded when they are not constant. */
  value(i: number): Tensor;
  /** `value(i)` as plain numbers (int64 included); undefined when omitted. */
  ints(i: number): number[] | undefined;
}

/** What `reference` may ask: everything `infer` may, with all elements there. */
export interface ReferenceCall<A> extends InferCall<A> {
  /** Input `i`; throws INVALID_MODEL when it is missing or not a tensor. */
  tensor(i: number): Tensor;
  /** Input `i` as it is: tensor, sequence or empty optional; undefined when omitted. */
  host(i: number): HostValue | undefined;
  /** Runs a subgraph of this node (captured names are bound by the caller). */
  run(graph: Graph, inputs: readonly HostValue[]): HostValue[];
}

/** A place in a model's memory that gets its number when the plan is laid out. */
export interface Address {
  /** Which buffer; meaningful to the compiler only. */
  readonly buffer: number;
  /** Bytes from its start. */
  readonly offset: number;
}

/** How much work a step is and how it may be divided: kernels are called for ranges of [0, units). */
export interface Work {
  /** Independent units, numbered from 0. A unit's result never depends on how units are divided. */
  readonly units: number;
  /** Least units worth a claim of their own. Default 1. */
  readonly grain?: number;
  /** Floating-point operations of the whole step, for inspection and the cost model. */
  readonly flops?: number;
  /** Indices the kernel reads, which must be in range before it runs: kernels raise no errors. */
  readonly indices?: IndexRange;
}

/** int32 or int64 (`wide`) indices that come with the data. */
export interface IndexRange {
  /** The kernel parameter that points to them. */
  readonly field: string;
  readonly wide: boolean;
  readonly count: number;
  /** Index i must be in [least, limits[i mod n]), or count from the end of such a dimension where `negative`. */
  readonly limits: readonly number[];
  readonly negative: boolean;
  /** Default 0. */
  readonly least?: number;
}

/** What `lower` may ask and do. */
export interface LowerCall<A> extends InferCall<A> {
  /** Type and shape of output `i`. */
  output(i: number): OutputInfo;
  /** Where input `i` is. A constant input is placed as it is, once a model. */
  in(i: number): Address;
  /** Where output `i` goes. */
  out(i: number): Address;
  /** Output `i` is input `j` seen with another shape: no step, no copy. */
  alias(i: number, j: number): void;
  /**
   * A constant derived from input(s), placed once a model whatever the number of plans and instances.
   * `key` must say everything the bytes depend on besides this node's constant inputs: `packed 8`.
   * `fill` writes the bytes (16-byte aligned in memory, zeroed before).
   */
  constant(key: string, bytes: number, fill: (into: Uint8Array) => void): Address;
  /** Arena memory that lives while this node's steps run, shared by its threads. */
  scratch(bytes: number): Address;
  /** Every thread gets at least this many bytes of its own as the kernel's `scratch` argument. */
  threadScratch(bytes: number): void;
  /** Appends a kernel call. Steps run in order, with a barrier between them. */
  step<K extends KernelName>(kernel: K, params: ParamsOf<K, Address>, work: Work): void;
  /** The kernels' build. */
  readonly build: 'plain' | 'fma';
  /** How weights of products are to be kept; see `placeInt8` in product.ts. */
  readonly weights: WeightType;
  /** Says how far rounding moved the weights that are input `i`. */
  rounded(i: number, error: RoundingError): void;
  /** The register tile that matrix products use. Every tile gives the same bits. */
  readonly tile: Tile;
  /** Whether convolutions may be computed by Winograd's minimal filtering, whose rounding errors are larger. */
  readonly winograd: boolean;
}

/** An address some bytes on. */
export function offsetBy(address: Address, bytes: number): Address {
  return { buffer: address.buffer, offset: address.offset + bytes };
}

/** Thrown by `value` and `ints` while compiling: the plan must be cut until input `i` has been computed. */
export class ValueNeeded extends Error {
  readonly input: number;

  constructor(input: number) {
    super(`the value of input ${input} is needed`);
    this.input = input;
  }
}

/** An operator of a domain, all the versions Skep knows in one. */
export interface Operator {
  readonly name: string;
  readonly domain: string;
  /** Operator set versions in which its specification changed, ascending: the first is the oldest supported. */
  readonly since: readonly number[];
  /** The version that has it no more, and what to use. */
  readonly ended?: { readonly version: number; readonly use: string };
  /** [least, most] inputs. */
  readonly inputs: readonly [number, number];
  readonly attributes: AttributeSpecs;
  /** False for operators that must not be folded: random numbers. Default true. */
  readonly deterministic: boolean;
  infer(call: InferCall<never>): Inferred;
  /** The first output where it follows from input types and shapes alone (Shape, Size), though elements are unknown. */
  foldShape?(call: InferCall<never>): Tensor | undefined;
  reference(call: ReferenceCall<never>): readonly HostValue[];
  lower?(call: LowerCall<never>): boolean;
}

/** How an operator is written down; see `operator`. */
export interface OperatorDefinition<S extends AttributeSpecs> {
  readonly name: string;
  readonly domain?: string;
  readonly since: readonly number[];
  /** The version that has it no more, and what to use. */
  readonly ended?: { readonly version: number; readonly use: string };
  readonly inputs: readonly [number, number];
  readonly attributes: S;
  readonly deterministic?: boolean;
  infer(call: InferCall<AttributesOf<S>>): Inferred;
  foldShape?(call: InferCall<AttributesOf<S>>): Tensor | undefined;
  reference(call: ReferenceCall<AttributesOf<S>>): readonly HostValue[];
  lower?(call: LowerCall<AttributesOf<S>>): boolean;
}

/** Defines an operator; attribute types follow from their specs. */
export function operator<const S extends AttributeSpecs>(
  definition: OperatorDefinition<S>,
): Operator & OperatorDefinition<S> {
  return { domain: '', deterministic: true, ...definition } as Operator & OperatorDefinition<S>;
}

/** The base of every call: names the node in errors. */
export function callError(node: Node, message: string, code: ErrorCode = 'INVALID_MODEL'): SkepError {
  return new SkepError(code, `${formatNode(node)}: ${message}`);
}
