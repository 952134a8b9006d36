// From nodes with settled shapes to a Plan: calls each operator's `lower` with a context that hands out symbolic
// addresses, collects the steps, then lays the arena out and encodes the parameter blocks. A node whose operator has no
// kernel for these types becomes a reference step. Which nodes those are, and in what order, is segment.ts's business.
import type { Node } from '../graph/graph.js';
import { abi, type KernelName, type ParamsOf } from '../kernels/abi.js';
import type { RoundingError, WeightType } from '../kernels/int8.js';
import { bestTile, type Tile } from '../kernels/tile.js';
import { Inference } from '../operators/evaluate.js';
import type { Address, LowerCall, Operator, OutputInfo, TensorInfo, Work } from '../operators/operator.js';
import { SkepError } from '../tensor/errors.js';
import { sizeOf } from '../tensor/shape.js';
import { bytesOf, type Tensor } from '../tensor/tensor.js';
import { byteLength, typeInfo } from '../tensor/types.js';
import { Encoder, type Place } from './encoder.js';
import { lowerWidened, mayWiden } from './half.js';
import { inPlaceFields } from './in-place.js';
import { align, layOut, mergeInPlace, peakOf, type Share } from './layout.js';
import {
  type Argument,
  type CompileOptions,
  type ConstantPool,
  type External,
  type Plan,
  SLACK,
  type Slot,
  type Step,
  type StepValue,
} from './plan.js';

/** A node ready to be lowered: its operator found, its inputs and outputs settled. */
export interface SettledNode {
  readonly node: Node;
  /** Graph nodes it stands for (several after fusion), the last one first. */
  readonly origin: readonly Node[];
  readonly operator: Operator;
  readonly attributes: Record<string, unknown>;
  readonly inputs: readonly (TensorInfo | undefined)[];
  /** Undefined where the node does not have the output. */
  readonly outputs: readonly (OutputInfo | undefined)[];
}

/** A buffer of the arena, from the first step that uses it to the last; or a constant, which has its place already. */
interface Buffer {
  /** With the slack behind it. */
  readonly bytes: number;
  readonly constant: Place | undefined;
  readonly first: number;
  last: number;
}

interface Pending {
  readonly item: SettledNode;
  /** undefined: the reference semantics. */
  readonly call:
    | { readonly kernel: KernelName; readonly params: Readonly<Record<string, unknown>>; readonly work: Work }
    | undefined;
}

/**
 * Builds one plan. Constants that follow from the weights alone go to the model's pool under their value's name and serve
 * every plan; those that follow from this plan's shapes are few and small, and live and die with its words.
 *
 * Use: `input` for each input, `add` for each node in order, `finish`.
 */
export class PlanBuilder {
  readonly #options: CompileOptions;
  readonly #pool: ConstantPool;
  readonly #isWeight: (tensor: Tensor) => boolean;
  readonly #buffers: Buffer[] = [];
  readonly #values = new Map<string, { readonly address: Address; readonly info: OutputInfo }>();
  readonly #inputs: string[] = [];
  /** Buffers of inputs. */
  readonly #fed = new Set<number>();
  readonly #steps: Pending[] = [];
  readonly #shares: Share[] = [];
  /** This plan's own constants by key, and where they start in the words. */
  readonly #own = new Map<string, { readonly address: Address; readonly data: Uint8Array; readonly offset: number }>();
  #ownBytes = 0;
  /** Values of half precision that lie in the arena as float32 too. */
  #widened = new Map<string, Address>();
  #threadScratch = 0;

  /** `isWeight` tells constants that are the same in every plan of the model. */
  constructor(options: CompileOptions, pool: ConstantPool, isWeight: (tensor: Tensor) => boolean) {
    this.#options = options;
    this.#pool = pool;
    this.#isWeight = isWeight;
  }

  get build(): 'plain' | 'fma' {
    return this.#options.build;
  }

  get weights(): WeightType {
    return this.#options.weights ?? 'float32';
  }

  get tile(): Tile {
    return this.#options.tile ?? bestTile(this.#options.build, false);
  }

  get winograd(): boolean {
    return this.#options.winograd !== false;
  }

  /** Declares a value that is there before the plan runs. */
  input(name: string, info: OutputInfo): void {
    this.#fed.add(this.define(name, info).buffer);
    this.#inputs.push(name);
  }

  /** Lowers a node. */
  add(item: SettledNode): void {
    const before = this.#steps.length;
    const call = new Lowering(this, item);
    if (this.#options.kernels !== false && this.#lower(call, item)) {
      // An output of no elements may have had no step to write it.
      item.outputs.forEach((info, i) => {
        if (info !== undefined && call.wants(i)) call.out(i);
      });
      return;
    }
    if (this.#steps.length !== before) throw call.error('lower added steps and then gave up', 'INTERNAL');
    const { node } = item;
    item.inputs.forEach((info, i) => {
      if (info !== undefined && info.value === undefined) this.#touch(this.address(node.inputs[i]!)!);
    });
    item.outputs.forEach((info, i) => {
      if (info !== undefined && call.wants(i)) this.define(node.outputs[i]!, info);
    });
    this.#steps.push({ item, call: undefined });
  }

  #lower(call: Lowering, { operator, inputs, outputs }: SettledNode): boolean {
    const before = this.#steps.length;
    if (operator.lower?.(call as never) === true) return true;
    if (this.#steps.length !== before || !mayWiden(operator, [...inputs, ...outputs])) return false;
    const known = new Map(this.#widened);
    if (lowerWidened(call, operator, known)) {
      this.#widened = known;
      return true;
    }
    // It may have converted inputs before it gave up.
    this.#steps.length = before;
    return false;
  }

  /**
   * Lays the plan out. `results` stay readable after the last step; constants among them come with their tensor. Those in
   * `direct` are written where the caller wants them, when each has a buffer for itself.
   */
  finish(results: ReadonlyMap<string, Tensor | undefined>, direct: readonly string[] = []): Plan {
    for (const [name, constant] of results) {
      const address = this.address(name);
      if (address !== undefined) this.#touch(address);
      else if (constant === undefined) throw new SkepError('INTERNAL', `the plan does not compute '${name}'`);
    }
    const { group, lifetimes } = mergeInPlace(this.#buffers, this.#shares);
    const externals: External[] = [];
    const bases = new Map<number, number>();
    const external = (name: string, role: External['role']) => {
      const { address, info } = this.#values.get(name)!;
      bases.set(
        group[address.buffer]!,
        externals.push({ name, role, bytes: byteLength(info.type, sizeOf(info.dims)) }),
      );
    };
    for (const name of this.#inputs) external(name, 'input');
    for (const name of direct) if (this.#hasOwnBuffer(name, group, bases)) external(name, 'result');
    const arena = [...lifetimes.keys()].filter((i) => this.#buffers[i]!.constant === undefined && !bases.has(i));
    const live = arena.map((i) => lifetimes.get(i)!);
    const laid = layOut(live);
    const placed = new Map(arena.map((b, i) => [b, laid.offsets[i]!] as const));
    const placeOf = ({ buffer, offset }: Address) => {
      const base = bases.get(group[buffer]!) ?? 0;
      return { base, offset: offset + (base === 0 ? placed.get(group[buffer]!)! : 0) };
    };
    const constants = new Map<number, number>();
    for (const b of this.#buffers) if (b.constant?.base === 'memory') constants.set(b.constant.value, b.bytes);
    const slot = (name: string): Slot => {
      const { address, info } = this.#values.get(name)!;
      return { kind: 'slot', type: info.type, dims: info.dims, ...placeOf(address) };
    };
    const argument = (name: string, constant: Tensor | undefined): Argument =>
      constant === undefined ? slot(name) : { kind: 'constant', value: constant };
    const encoder = new Encoder((address) => {
      const { constant } = this.#buffers[address.buffer]!;
      if (constant !== undefined) return { base: constant.base, value: constant.value + address.offset };
      const { base, offset } = placeOf(address);
      return { base, value: offset };
    }, this.#ownData());
    const steps = this.#steps.map(({ item, call }): Step => {
      const { node, origin, inputs, outputs } = item;
      const base = {
        nodes: origin,
        outputs: node.outputs.filter((n) => n !== ''),
        operator: node.domain === '' ? node.op : `${node.domain}:${node.op}`,
        ...valuesOf(item),
      };
      if (call === undefined)
        return {
          ...base,
          kind: 'reference',
          node,
          inputs: inputs.map((x, i) => (x === undefined ? undefined : argument(node.inputs[i]!, x.value))),
          results: outputs.map((x, i) => (x === undefined || !node.outputs[i] ? undefined : slot(node.outputs[i]))),
          flops: 0,
        };
      const { kernel, params, work } = call;
      const { units, grain = 1, flops = 0, indices } = work;
      const block = encoder.block(abi[kernel], params, kernel);
      return {
        ...base,
        kind: 'kernel',
        kernel,
        params: block,
        units,
        grain,
        flops,
        ...(indices && { indices: { ...indices, word: block + Object.keys(abi[kernel]).indexOf(indices.field) } }),
      };
    });
    return {
      steps,
      ...encoder.finish(externals.length + 1),
      arenaBytes: align(laid.bytes + SLACK),
      externals,
      liveBytes: peakOf(live),
      constantBytes: [...constants.values()].reduce((sum, bytes) => sum + bytes, 0),
      threadScratchBytes: this.#threadScratch,
      inputs: new Map(this.#inputs.map((n) => [n, slot(n)])),
      results: new Map([...results].map(([n, constant]) => [n, argument(n, constant)])),
    };
  }

  /** Whether a result can be its buffer's only name: no constant, no input, no part of another, none placed before. */
  #hasOwnBuffer(name: string, group: readonly number[], bases: ReadonlyMap<number, number>): boolean {
    const value = this.#values.get(name);
    if (value === undefined) return false;
    const { address, info } = value;
    const { bytes, constant } = this.#buffers[address.buffer]!;
    if (constant !== undefined || address.offset !== 0 || bases.has(group[address.buffer]!)) return false;
    return bytes === byteLength(info.type, sizeOf(info.dims)) + SLACK;
  }

  // What Lowering below uses.

  address(name: string): Address | undefined {
    return this.#values.get(name)?.address;
  }

  define(name: string, info: OutputInfo): Address {
    const address = this.scratch(byteLength(info.type, sizeOf(info.dims)));
    this.#values.set(name, { address, info });
    return address;
  }

  alias(name: string, info: OutputInfo, address: Address): void {
    this.#values.set(name, { address, info });
  }

  scratch(bytes: number): Address {
    const first = this.#steps.length;
    return this.#buffer({ bytes: bytes + SLACK, constant: undefined, first, last: first });
  }

  /** `from` are the tensors the constant is made of. */
  constant(key: string, from: readonly Tensor[], bytes: number, fill: (into: Uint8Array) => void): Address {
    if (from.every(this.#isWeight))
      return this.#buffer({
        bytes,
        constant: { base: 'memory', value: this.#pool.place(key, bytes, fill) },
        first: 0,
        last: 0,
      });
    const known = this.#own.get(key);
    if (known !== undefined) return known.address;
    const data = new Uint8Array(bytes);
    fill(data);
    const offset = this.#ownBytes;
    this.#ownBytes = align(offset + bytes + SLACK);
    const address = this.#buffer({ bytes, constant: { base: 'words', value: offset }, first: 0, last: 0 });
    this.#own.set(key, { address, data, offset });
    return address;
  }

  #ownData(): Uint8Array {
    const all = new Uint8Array(this.#ownBytes);
    for (const { data, offset } of this.#own.values()) all.set(data, offset);
    return all;
  }

  rounded(name: string, error: RoundingError): void {
    this.#options.onRounded?.(name, error);
  }

  threadScratch(bytes: number): void {
    this.#threadScratch = Math.max(this.#threadScratch, align(bytes));
  }

  step(item: SettledNode, kernel: KernelName, params: Readonly<Record<string, unknown>>, work: Work): void {
    if (work.units <= 0) return;
    for (const value of Object.values(params))
      for (const v of Array.isArray(value) ? value : [value]) if (typeof v === 'object') this.#touch(v as Address);
    this.#shareInPlace(item, kernel, params);
    this.#steps.push({ item, call: { kernel, params, work } });
  }

  /** The step's output may take an input's place where the kernel allows it; whether it does is settled at the end. */
  #shareInPlace(
    { node, inputs, outputs }: SettledNode,
    kernel: KernelName,
    params: Readonly<Record<string, unknown>>,
  ): void {
    const fields = inPlaceFields[kernel];
    if (fields === undefined) return;
    const to = params[fields.output] as Address;
    const out = outputs[0]!;
    if (this.address(node.outputs[0]!)?.buffer !== to.buffer || to.offset !== 0) return;
    for (const field of fields.inputs) {
      const from = params[field] as Address | 0;
      if (from === 0 || from.offset !== 0 || this.#buffers[from.buffer]!.constant !== undefined) continue;
      // The caller's tensor, which other runs may read too.
      if (this.#fed.has(from.buffer)) continue;
      // As many elements of the same width: then element i of the output needs element i of the input. Bytes alone would
      // not do: 16 bools may be a comparison with 4 floats, repeated.
      const fits = inputs.some(
        (x, i) =>
          x !== undefined &&
          this.address(node.inputs[i]!)?.buffer === from.buffer &&
          sizeOf(x.dims) === sizeOf(out.dims) &&
          typeInfo(x.type).bits === typeInfo(out.type).bits,
      );
      if (fits && from.buffer !== to.buffer)
        this.#shares.push({ from: from.buffer, to: to.buffer, step: this.#steps.length });
    }
  }

  #buffer(buffer: Buffer): Address {
    this.#buffers.push(buffer);
    return { buffer: this.#buffers.length - 1, offset: 0 };
  }

  /** The step about to be added uses this. */
  #touch(address: Address): void {
    const b = this.#buffers[address.buffer]!;
    b.last = Math.max(b.last, this.#steps.length);
  }
}

function valuesOf({ node, inputs, outputs }: SettledNode): { reads: StepValue[]; writes: StepValue[] } {
  const value = (name: string, info: TensorInfo | OutputInfo): StepValue => ({
    name,
    type: info.type,
    dims: info.dims,
    constant: 'value' in info && info.value !== undefined,
  });
  return {
    reads: inputs.flatMap((x, i) => (x === undefined ? [] : [value(node.inputs[i]!, x)])),
    writes: outputs.flatMap((x, i) => (x === undefined || !node.outputs[i] ? [] : [value(node.outputs[i], x)])),
  };
}

/** The context of one `lower`. */
class Lowering extends Inference implements LowerCall<never> {
  readonly #builder: PlanBuilder;
  readonly #item: SettledNode;

  constructor(builder: PlanBuilder, item: SettledNode) {
    super(item.node, item.attributes, item.inputs);
    this.#builder = builder;
    this.#item = item;
  }

  get build(): 'plain' | 'fma' {
    return this.#builder.build;
  }

  get weights(): WeightType {
    return this.#builder.weights;
  }

  get tile(): Tile {
    return this.#builder.tile;
  }

  get winograd(): boolean {
    return this.#builder.winograd;
  }

  output(i: number): OutputInfo {
    const info = this.#item.outputs[i];
    if (info === undefined) throw this.error(`output ${i} is not there`, 'INTERNAL');
    return info;
  }

  in(i: number): Address {
    const { value } = this.input(i);
    if (value === undefined) return this.#builder.address(this.node.inputs[i]!)!;
    const bytes = bytesOf(value);
    return this.#builder.constant(this.node.inputs[i]!, [value], bytes.byteLength, (into) => into.set(bytes));
  }

  out(i: number): Address {
    // An output nobody named still needs a place when its kernel writes it.
    const name = this.wants(i) ? this.node.outputs[i]! : `${this.node.outputs.join()}#${i}`;
    return this.#builder.address(name) ?? this.#builder.define(name, this.output(i));
  }

  alias(i: number, j: number): void {
    this.#builder.alias(this.node.outputs[i]!, this.output(i), this.in(j));
  }

  constant(key: string, bytes: number, fill: (into: Uint8Array) => void): Address {
    const names = this.node.inputs.filter((_, i) => this.optional(i)?.value !== undefined);
    const from = this.node.inputs.flatMap((_, i) => this.optional(i)?.value ?? []);
    return this.#builder.constant(`${this.node.op}(${names.join(',')}) ${key}`, from, bytes, fill);
  }

  scratch(bytes: number): Address {
    return this.#builder.scratch(bytes);
  }

  rounded(i: number, error: RoundingError): void {
    this.#builder.rounded(this.node.inputs[i]!, error);
  }

  threadScratch(bytes: number): void {
    this.#builder.threadScratch(bytes);
  }

  step<K extends KernelName>(kernel: K, params: ParamsOf<K, Address>, work: Work): void {
    this.#builder.step(this.#item, kernel, params as Readonly<Record<string, unknown>>, work);
  }
}
