// What the reference semantics of most operators are made of: maps of one tensor, zips of several with broadcasting,
// and results rounded to their type. Arithmetic is in double precision and rounded once at the end; 32- and 64-bit
// integers go through BigInt, so that every bit counts and overflow wraps around as in C. Also the shape and type rules
// that go with them: `sameAs`, `broadcastOf`. Slow and obvious is the aim; kernels are elsewhere.
import { decode, decodeBig, encode, encodeBig } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { broadcastShapes, broadcastStrides, forEachOffset, sizeOf } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import { type DataType, type TypedArray, typeInfo } from '../tensor/types.js';
import type { InferCall, OutputInfo } from './operator.js';

/** True for signed and unsigned integers (not bool). */
export function isInteger(type: DataType): boolean {
  const { kind } = typeInfo(type);
  return kind === 'signed' || kind === 'unsigned';
}

/** True for floating-point types. */
export function isFloat(type: DataType): boolean {
  return typeInfo(type).kind === 'float';
}

/** A tensor of numbers rounded to `type` (see `encode`). */
export function fromNumbers(type: DataType, dims: readonly number[], values: ArrayLike<number>): Tensor {
  return new Tensor(type, encode(type, values), dims);
}

/** A tensor of integers, wrapped around to `type`. */
export function fromBigInts(type: DataType, dims: readonly number[], values: ArrayLike<bigint>): Tensor {
  return new Tensor(type, encodeBig(type, values), dims);
}

/** A bool tensor. */
export function fromBools(dims: readonly number[], values: ArrayLike<number | boolean>): Tensor {
  const out = new Uint8Array(values.length);
  for (let i = 0; i < values.length; i++) out[i] = values[i] ? 1 : 0;
  return new Tensor('bool', out, dims);
}

/** f of every element, rounded to `type` (default: the tensor's own). */
export function mapNumbers(t: Tensor, f: (x: number) => number, type: DataType = t.type): Tensor {
  const x = decode(t);
  const y = new Float64Array(x.length);
  for (let i = 0; i < y.length; i++) y[i] = f(x[i]!);
  return fromNumbers(type, t.dims, y);
}

/** f of every integer element, with wrap-around. */
export function mapBigInts(t: Tensor, f: (x: bigint) => bigint, type: DataType = t.type): Tensor {
  const x = decodeBig(t);
  const y = new Array<bigint>(x.length);
  for (let i = 0; i < y.length; i++) y[i] = f(x[i]!);
  return fromBigInts(type, t.dims, y);
}

/** Elements of tensors broadcast to one shape: calls `visit(element index per tensor, linear index)` in row-major order. */
export function forEachBroadcast(
  tensors: readonly Tensor[],
  dims: readonly number[],
  visit: (at: readonly number[], linear: number) => void,
): void {
  forEachOffset(
    dims,
    tensors.map((t) => broadcastStrides(t.dims, dims)),
    visit,
  );
}

/** f of the elements of tensors that broadcast to `dims`, in double precision, rounded to `type`. */
export function zipNumbers(
  tensors: readonly Tensor[],
  dims: readonly number[],
  type: DataType,
  f: (...xs: number[]) => number,
): Tensor {
  const data = tensors.map(decode);
  const y = new Float64Array(sizeOf(dims));
  const xs = new Array<number>(tensors.length);
  forEachBroadcast(tensors, dims, (at, i) => {
    for (let k = 0; k < xs.length; k++) xs[k] = data[k]![at[k]!]!;
    y[i] = f(...xs);
  });
  return fromNumbers(type, dims, y);
}

/** f of the integer elements of tensors that broadcast to `dims`, exact, wrapped around to `type`. */
export function zipBigInts(
  tensors: readonly Tensor[],
  dims: readonly number[],
  type: DataType,
  f: (...xs: bigint[]) => bigint,
): Tensor {
  const data = tensors.map(decodeBig);
  const y = new Array<bigint>(sizeOf(dims));
  const xs = new Array<bigint>(tensors.length);
  forEachBroadcast(tensors, dims, (at, i) => {
    for (let k = 0; k < xs.length; k++) xs[k] = data[k]![at[k]!]!;
    y[i] = f(...xs);
  });
  return fromBigInts(type, dims, y);
}

/**
 * An empty array to fill with elements of `type` as they are stored, and the way back to a tensor: for operators that
 * only move elements. Not for types of fewer than 8 bits, whose elements are not array elements.
 */
export function emptyStorage(type: DataType, size: number): TypedArray | string[] {
  return type === 'string' ? new Array<string>(size).fill('') : new (typeInfo(type).array)(size);
}

/** The output rule of operators whose output is like input `i`. */
export function sameAs(call: InferCall<unknown>, i = 0): OutputInfo[] {
  const { type, dims } = call.input(i);
  return [{ type, dims }];
}

/** The shape that the inputs of these indices (default: all that are given) broadcast to. Throws INVALID_MODEL. */
export function broadcastOf(call: InferCall<unknown>, indices?: readonly number[]): number[] {
  const which = indices ?? Array.from({ length: call.inputCount }, (_, i) => i).filter((i) => call.has(i));
  const shapes = which.map((i) => call.input(i).dims);
  const dims = broadcastShapes(...shapes);
  if (dims === undefined) throw call.error(`shapes ${shapes.map(formatShape).join(' and ')} do not broadcast`);
  return dims;
}

/** Throws unless all inputs of these indices have one type; gives it. */
export function commonType(call: InferCall<unknown>, indices?: readonly number[]): DataType {
  const which = indices ?? Array.from({ length: call.inputCount }, (_, i) => i).filter((i) => call.has(i));
  const types = which.map((i) => call.input(i).type);
  const differs = types.find((t) => t !== types[0]);
  if (differs !== undefined) throw call.error(`inputs must be of one type, got ${types.join(' and ')}`);
  return types[0]!;
}
