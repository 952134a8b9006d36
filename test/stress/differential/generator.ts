// What the generators of one-node models are made of: a seeded source of numbers, shapes, tensors and attributes. A
// family file maps operator names to functions `(g, opset) → Case`; differential.ts runs the cases. Small sizes, odd
// values and now and then a dimension of zero: the corners are the point.
import type { Attribute } from '../../../src/graph/graph.js';
import { Random } from '../../../src/graph/random.js';
import { encode } from '../../../src/tensor/convert.js';
import { sizeOf } from '../../../src/tensor/shape.js';
import { Tensor } from '../../../src/tensor/tensor.js';
import { type DataType, typeInfo } from '../../../src/tensor/types.js';
import type { NodeTest } from '../../operators/harness.js';

/** A node with its inputs, and how exactly engines agree on it. */
export interface Case extends NodeTest {
  readonly opset: number;
  readonly rtol?: number;
  readonly atol?: number;
  /** True where no kernel is expected. */
  readonly fallback?: boolean;
  /** Random numbers: engines agree on types and shapes alone. */
  readonly shapeOnly?: boolean;
}

/** A case less what the driver knows. */
export type Made = Omit<Case, 'op' | 'opset'>;

export type Make = (g: Generator, opset: number) => Made;

/** Operators of a family by name. */
export type Family = Readonly<Record<string, Make>>;

export const FLOATS = ['float32', 'float32', 'float32', 'float64', 'float16'] as const satisfies readonly DataType[];
export const INTEGERS = ['int8', 'int16', 'int32', 'int64', 'uint8', 'uint16', 'uint32', 'uint64'] as const;
export const NUMBERS = [...FLOATS, ...INTEGERS] as const;
export const ALL = [...NUMBERS, 'bool', 'string'] as const;

/** Attributes by their JavaScript values: a number is an int; floats come as `f(x)`. */
export function attributes(
  values: Readonly<Record<string, number | string | readonly number[] | readonly string[] | Attribute | undefined>>,
): Record<string, Attribute> {
  const out: Record<string, Attribute> = {};
  for (const [name, v] of Object.entries(values)) {
    if (v === undefined) continue;
    if (typeof v === 'number') out[name] = { kind: 'int', value: v };
    else if (typeof v === 'string') out[name] = { kind: 'string', value: v };
    else if (Array.isArray(v))
      out[name] =
        typeof v[0] === 'string'
          ? { kind: 'strings', value: v as readonly string[] }
          : { kind: 'ints', value: v as readonly number[] };
    else out[name] = v as Attribute;
  }
  return out;
}

export function f(value: number): Attribute {
  return { kind: 'float', value: Math.fround(value) };
}

export function fs(value: readonly number[]): Attribute {
  return { kind: 'floats', value: value.map(Math.fround) };
}

/** A one-dimensional int64 tensor. */
export function int64(values: readonly number[], dims?: readonly number[]): Tensor {
  return new Tensor('int64', values, dims ?? [values.length]);
}

const words = ['', 'a', 'b', 'Straße', 'the', 'The', 'x y', '12', '-0.5', 'naïve', '日本', 'a,b,,c', ' pad '];
const odd = [0, -0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, Infinity, -Infinity, Number.NaN, 1e-8, 100, -100];

export class Generator {
  readonly random: Random;

  constructor(seed: number) {
    this.random = new Random(seed);
  }

  /** An integer of [low, high]. */
  int(low: number, high: number): number {
    return low + this.random.below(high - low + 1);
  }

  chance(p: number): boolean {
    return this.random.uniform() < p;
  }

  pick<T>(list: readonly T[]): T {
    return list[this.random.below(list.length)]!;
  }

  /** `value()`, or nothing half of the time (or with 1 − p). */
  maybe<T>(value: () => T, p = 0.5): T | undefined {
    return this.chance(p) ? value() : undefined;
  }

  list<T>(n: number, make: (i: number) => T): T[] {
    return Array.from({ length: n }, (_, i) => make(i));
  }

  ints(n: number, low: number, high: number): number[] {
    return this.list(n, () => this.int(low, high));
  }

  /** A shape of a rank in [least, most]; one in twenty has a dimension of zero unless `zero` is false. */
  dims(least = 0, most = 4, size = 4, zero = true): number[] {
    const out = this.ints(this.int(least, most), 1, size);
    if (zero && out.length > 0 && this.chance(0.05)) out[this.random.below(out.length)] = 0;
    return out;
  }

  /** An axis of a rank, from either end. */
  axis(rank: number): number {
    return rank === 0 ? 0 : this.int(-rank, rank - 1);
  }

  shuffled<T>(list: readonly T[]): T[] {
    const out = [...list];
    for (let i = out.length - 1; i > 0; i--) {
      const j = this.random.below(i + 1);
      [out[i], out[j]] = [out[j]!, out[i]!];
    }
    return out;
  }

  /** Some distinct axes of a rank, some of them negative. */
  axes(rank: number, least = 0): number[] {
    const all = this.shuffled(Array.from({ length: rank }, (_, i) => i));
    return all.slice(0, this.int(Math.min(least, rank), rank)).map((a) => (this.chance(0.3) ? a - rank : a));
  }

  /** A shape that broadcasts to `dims`. */
  broadcast(dims: readonly number[]): number[] {
    const tail = dims.slice(this.chance(0.4) ? this.int(0, dims.length) : 0);
    return tail.map((d) => (this.chance(0.25) ? 1 : d));
  }

  /** Elements in [low, high]; floats have a tenth of round ones. */
  tensor(type: DataType, dims: readonly number[], low = -3, high = 3): Tensor {
    const n = sizeOf(dims);
    if (type === 'string')
      return new Tensor(
        'string',
        this.list(n, () => this.pick(words)),
        dims,
      );
    if (type === 'bool')
      return new Tensor(
        'bool',
        this.list(n, () => this.chance(0.5)),
        dims,
      );
    const { kind } = typeInfo(type);
    const values =
      kind === 'float'
        ? this.list(n, () => {
            const x = low + (high - low) * this.random.uniform();
            return this.chance(0.1) ? Math.min(high, Math.max(low, Math.round(x * 2) / 2)) : x;
          })
        : this.list(n, () =>
            this.int(kind === 'unsigned' ? Math.max(0, Math.ceil(low)) : Math.ceil(low), Math.floor(high)),
          );
    return new Tensor(type, encode(type, values), dims);
  }

  /** The same with infinities, NaN, negative zero or extreme integers among them. */
  oddTensor(type: DataType, dims: readonly number[], low = -3, high = 3): Tensor {
    const t = this.tensor(type, dims, low, high);
    const { kind, bits } = typeInfo(type);
    const data = t.data as unknown as Record<number, unknown>;
    for (let i = 0; i < t.size; i++)
      if (this.chance(0.2)) {
        if (kind === 'float') data[i] = encode(type, [this.pick(odd)])[0];
        else if (kind === 'signed' || kind === 'unsigned') {
          const least = kind === 'signed' ? -(2n ** BigInt(bits - 1)) : 0n;
          const most = 2n ** BigInt(kind === 'signed' ? bits - 1 : bits) - 1n;
          const x = this.pick([least, most, 0n, 1n, most - 1n]);
          data[i] = bits === 64 ? x : Number(x);
        }
      }
    return t;
  }

  /** Which inputs are constants of the model: none, some or all. */
  constants(count: number, needed: readonly number[] = []): number[] {
    const mode = this.int(0, 2);
    return this.list(count, (i) => i).filter(
      (i) => needed.includes(i) || mode === 2 || (mode === 1 && this.chance(0.5)),
    );
  }
}
