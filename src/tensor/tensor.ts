// Tensor: an element type, a shape and the elements, row-major. The class a user meets; compatible by shape with
// onnxruntime-common's, and what the reference semantics compute on. It owns no WebAssembly memory.
import { encode } from './convert.js';
import { formatShape, SkepError } from './errors.js';
import { checkShape, sizeOf } from './shape.js';
import { arrayLength, type DataType, dataTypes, type TypedArray, typeInfo } from './types.js';

/** What a tensor of a type holds in `data`. */
export interface DataTypeMap {
  float32: Float32Array;
  uint8: Uint8Array;
  int8: Int8Array;
  uint16: Uint16Array;
  int16: Int16Array;
  int32: Int32Array;
  int64: BigInt64Array;
  string: string[];
  bool: Uint8Array;
  float16: Uint16Array;
  float64: Float64Array;
  uint32: Uint32Array;
  uint64: BigUint64Array;
  complex64: Float32Array;
  complex128: Float64Array;
  bfloat16: Uint16Array;
  float8e4m3fn: Uint8Array;
  float8e4m3fnuz: Uint8Array;
  float8e5m2: Uint8Array;
  float8e5m2fnuz: Uint8Array;
  uint4: Uint8Array;
  int4: Uint8Array;
  float4e2m1: Uint8Array;
  float8e8m0: Uint8Array;
  uint2: Uint8Array;
  int2: Uint8Array;
}

/** What the constructor takes as data besides the type's own array: plain arrays, and wider integer arrays for 64 bits. */
export type TensorData =
  | TypedArray
  | Uint8ClampedArray
  | readonly (number | bigint | boolean | string)[]
  | ArrayBufferView;

/**
 * A tensor. `new Tensor('float32', data, [1, 3, 224, 224])`; without `dims` it has one dimension.
 *
 * - int64 and uint64 accept number[], bigint[], Int32Array or the 64-bit arrays, and hold the 64-bit ones;
 * - float16 accepts Uint16Array (bits) and Float16Array where it exists, number[] is rounded;
 * - bool accepts booleans; strings are a string[].
 *
 * The type's own array is kept without a copy. Throws `INVALID_INPUT` when the data does not fit the type or the shape.
 */
export class Tensor<T extends DataType = DataType> {
  readonly type: T;
  readonly data: DataTypeMap[T];
  readonly dims: readonly number[];
  /** Number of elements. */
  readonly size: number;

  constructor(type: T, data: TensorData, dims?: readonly number[]) {
    if (!Object.hasOwn(dataTypes, type)) throw new SkepError('INVALID_INPUT', `unknown element type '${String(type)}'`);
    const array = toArray(type, data);
    const shape = dims === undefined ? [array.length] : Array.from(dims);
    checkShape(shape, 'tensor shape');
    const size = sizeOf(shape);
    const needed = arrayLength(type, size);
    if (array.length !== needed)
      throw new SkepError(
        'INVALID_INPUT',
        `${an(type)} tensor of shape ${formatShape(shape)} needs ${needed} values, got ${array.length}`,
      );
    this.type = type;
    this.data = array as DataTypeMap[T];
    this.dims = shape;
    this.size = size;
  }
}

/** `an int64`, `a float32`. */
function an(type: DataType): string {
  return `${type.startsWith('int') ? 'an' : 'a'} ${type}`;
}

/** A tensor of zeros (empty strings for strings). */
export function zeros<T extends DataType>(type: T, dims: readonly number[]): Tensor<T> {
  checkShape(dims, 'tensor shape');
  const length = arrayLength(type, sizeOf(dims));
  const data = type === 'string' ? new Array<string>(length).fill('') : new (typeInfo(type).array)(length);
  return new Tensor(type, data, dims);
}

/** The elements as bytes, little-endian, without a copy. Not for strings. */
export function bytesOf(tensor: Tensor): Uint8Array {
  if (tensor.type === 'string') throw new SkepError('INTERNAL', 'a string tensor has no bytes');
  const data = tensor.data as TypedArray;
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

/** A tensor over bytes at an offset of a buffer: a view when the offset is aligned, a copy otherwise. */
export function tensorFromBytes<T extends DataType>(type: T, dims: readonly number[], bytes: Uint8Array): Tensor<T> {
  const { array } = typeInfo(type);
  const length = arrayLength(type, sizeOf(dims));
  const need = length * array.BYTES_PER_ELEMENT;
  if (bytes.byteLength !== need)
    throw new SkepError(
      'INVALID_INPUT',
      `${an(type)} tensor of shape ${formatShape(dims)} needs ${need} bytes, got ${bytes.byteLength}`,
    );
  // Not slice(): a Buffer's gives a view.
  const aligned = bytes.byteOffset % array.BYTES_PER_ELEMENT === 0 ? bytes : new Uint8Array(bytes);
  return new Tensor(type, new array(aligned.buffer, aligned.byteOffset, length), dims);
}

function toArray(type: DataType, data: TensorData): TypedArray | string[] {
  const { array, kind } = typeInfo(type);
  if (kind === 'string') {
    if (!Array.isArray(data) || !data.every((x) => typeof x === 'string'))
      throw new SkepError('INVALID_INPUT', 'a string tensor needs an array of strings');
    return data as string[];
  }
  if (data instanceof array) return data as TypedArray;
  if (ArrayBuffer.isView(data)) return fromView(type, data);
  if (!Array.isArray(data)) throw new SkepError('INVALID_INPUT', `data of ${an(type)} tensor must be an array`);
  return fromValues(type, data);
}

function fromView(type: DataType, data: ArrayBufferView): TypedArray {
  const name = data.constructor.name;
  if (type === 'float16' && name === 'Float16Array')
    return new Uint16Array(data.buffer, data.byteOffset, data.byteLength / 2);
  if (data instanceof Uint8ClampedArray && type === 'uint8')
    return new Uint8Array(data.buffer, data.byteOffset, data.length);
  if (
    (type === 'int64' || type === 'uint64') &&
    !(data instanceof Float32Array) &&
    !(data instanceof Float64Array) &&
    !(data instanceof DataView)
  )
    return fromValues(type, Array.from(data as unknown as ArrayLike<number | bigint>));
  throw new SkepError(
    'INVALID_INPUT',
    `data of ${an(type)} tensor must be a ${typeInfo(type).array.name} or an array, got ${name}`,
  );
}

function fromValues(type: DataType, values: readonly unknown[]): TypedArray {
  const { array, kind, bits } = typeInfo(type);
  if (kind === 'float' && bits < 8)
    throw new SkepError('INVALID_INPUT', `data of ${an(type)} tensor must be given as bits (${array.name})`);
  if (kind === 'float' && bits < 32) {
    const wrong = values.findIndex((x) => typeof x !== 'number');
    if (wrong >= 0)
      throw new SkepError(
        'INVALID_INPUT',
        `value ${wrong} of ${an(type)} tensor must be a number, got ${typeof values[wrong]}`,
      );
    return encode(type, values as readonly number[]);
  }
  const out = new array(values.length);
  const big = out instanceof BigInt64Array || out instanceof BigUint64Array;
  for (let i = 0; i < values.length; i++) {
    const x = values[i];
    if (big) {
      if (typeof x === 'bigint') out[i] = x;
      else if (typeof x === 'number' && Number.isInteger(x)) out[i] = BigInt(x);
      else
        throw new SkepError('INVALID_INPUT', `value ${i} of ${an(type)} tensor must be an integer, got ${String(x)}`);
    } else if (typeof x === 'number') out[i] = x;
    else if (typeof x === 'boolean' && kind === 'bool') out[i] = x ? 1 : 0;
    else throw new SkepError('INVALID_INPUT', `value ${i} of ${an(type)} tensor must be a number, got ${typeof x}`);
  }
  return out;
}
