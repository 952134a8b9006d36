// Tensors in a model's memory, as they lie between the caller, the arenas of plans, and the answers. How to picture the
// three forms, for a batch of requests a, b, c along an axis:
//
//   staged     ▇▇▇▇▇▇▇▇           one run of bytes
//   gathered   aa │ bb │ cc       several tensors that are read as one, joined along an axis
//   strip      ·bb···bb···bb··    one request's part of a batch: equal pieces at equal distances
//
// None holds elements; each says where they are. They are copied piece by piece, straight to where they are needed.
import type { HostValue } from '../operators/operator.js';
import { SkepError } from '../tensor/errors.js';
import { sizeOf } from '../tensor/shape.js';
import { tensorFromBytes } from '../tensor/tensor.js';
import { byteLength, type DataType } from '../tensor/types.js';
import type { ModelMemory } from './memory.js';

interface Placed {
  readonly type: DataType;
  readonly dims: readonly number[];
}

/** A tensor in one run of bytes. */
export interface Staged extends Placed {
  readonly kind: 'staged';
  readonly address: number;
}

/** Tensors of one type, and of one shape but for `axis`, read as one. `dims` is the shape of the whole. */
export interface Gathered extends Placed {
  readonly kind: 'gathered';
  readonly axis: number;
  readonly parts: readonly Staged[];
}

/** A tensor in pieces of `bytes`, the first at `address`, each `stride` bytes after the one before. */
export interface Strip extends Placed {
  readonly kind: 'strip';
  readonly address: number;
  readonly bytes: number;
  readonly stride: number;
}

/** A tensor in the model's memory. */
export type InMemory = Staged | Gathered | Strip;

/** A value as the executor carries it between segments. */
export type Carried = HostValue | InMemory;

export function isInMemory(value: Carried): value is InMemory {
  return value !== null && !Array.isArray(value) && 'kind' in (value as object);
}

/** Bytes of all its elements. */
export function bytesIn(value: InMemory): number {
  return byteLength(value.type, sizeOf(value.dims));
}

/** Copies a tensor of the model's memory to `to`, a place in the same memory or (with `into`) in other bytes. */
export function copyTo(memory: ModelMemory, value: InMemory, to: number, into?: Uint8Array): void {
  const u8 = memory.u8;
  const copy = (at: number, from: number, bytes: number) => {
    if (into === undefined) u8.copyWithin(to + at, from, from + bytes);
    else into.set(u8.subarray(from, from + bytes), to + at);
  };
  switch (value.kind) {
    case 'staged':
      copy(0, value.address, bytesIn(value));
      break;
    case 'strip': {
      const pieces = value.bytes === 0 ? 0 : bytesIn(value) / value.bytes;
      for (let i = 0; i < pieces; i++) copy(i * value.bytes, value.address + i * value.stride, value.bytes);
      break;
    }
    case 'gathered': {
      const outer = sizeOf(value.dims.slice(0, value.axis));
      const stride = outer === 0 ? 0 : bytesIn(value) / outer;
      let offset = 0;
      for (const part of value.parts) {
        const bytes = outer === 0 ? 0 : bytesIn(part) / outer;
        for (let o = 0; o < outer; o++) copy(o * stride + offset, part.address + o * bytes, bytes);
        offset += bytes;
      }
      break;
    }
    default:
      value satisfies never;
  }
}

/** A value outside the model's memory: a copy, for the memory is shared and its bytes will be reused. */
export function copyOut(memory: ModelMemory, value: Carried): HostValue {
  if (!isInMemory(value)) return value;
  const bytes = new Uint8Array(bytesIn(value));
  copyTo(memory, value, 0, bytes);
  return tensorFromBytes(value.type, value.dims, bytes);
}

/** Joins tensors along an axis, without copying. They agree in type and in all other dimensions. */
export function gather(parts: readonly Staged[], axis: number): Gathered {
  const first = parts[0]!;
  const rows = parts.reduce((n, p) => n + p.dims[axis]!, 0);
  return { kind: 'gathered', type: first.type, dims: first.dims.map((d, i) => (i === axis ? rows : d)), axis, parts };
}

/** Elements [begin, begin + count) of a batch along an axis, without copying. */
export function stripOf(value: Carried, axis: number, begin: number, count: number): Strip {
  if (!isStaged(value)) throw new SkepError('INTERNAL', 'a batch is not one run of bytes in the memory');
  const { type, dims } = value;
  const element = byteLength(type, sizeOf(dims.slice(axis + 1)));
  const stride = element * dims[axis]!;
  return {
    kind: 'strip',
    type,
    dims: dims.map((d, i) => (i === axis ? count : d)),
    address: value.address + begin * element,
    bytes: element * count,
    stride,
  };
}

/** True for a tensor that can be merged or compared: one run of bytes. Strings, sequences and optionals are not. */
export function isStaged(value: Carried | undefined): value is Staged {
  return value !== undefined && isInMemory(value) && value.kind === 'staged';
}
