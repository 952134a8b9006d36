// The ONNX element types as a table: number in the protobuf, bits an element, and the JavaScript array that holds them.
// Types JavaScript has no array for are held as they are stored: float16 and bfloat16 as Uint16Array, the float8 and
// smaller types as bytes (sub-byte types packed, low bits first), complex as pairs. Arithmetic on them is convert.ts.

/** Arrays that hold tensor elements. bool is a Uint8Array of 0 and 1. */
export type TypedArray =
  | Float32Array
  | Float64Array
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array;

interface TypedArrayConstructor {
  readonly BYTES_PER_ELEMENT: number;
  new (length: number): TypedArray;
  new (buffer: ArrayBufferLike, byteOffset?: number, length?: number): TypedArray;
}

/** What is known of an element type. */
export interface TypeInfo {
  /** TensorProto.DataType */
  readonly onnx: number;
  /** Bits an element takes in raw data (a complex element: both parts). 0 for strings. */
  readonly bits: number;
  /** The array kept in `Tensor.data`; strings are a plain array. */
  readonly array: TypedArrayConstructor;
  /** Array elements per tensor element times `array` bits equals `bits` (2 for complex; below 1 for packed types). */
  readonly kind: 'float' | 'signed' | 'unsigned' | 'bool' | 'complex' | 'string';
}

/** Every element type of ONNX (TensorProto.DataType, IR version 13), by the names onnxruntime-common uses. */
export const dataTypes = {
  float32: { onnx: 1, bits: 32, array: Float32Array, kind: 'float' },
  uint8: { onnx: 2, bits: 8, array: Uint8Array, kind: 'unsigned' },
  int8: { onnx: 3, bits: 8, array: Int8Array, kind: 'signed' },
  uint16: { onnx: 4, bits: 16, array: Uint16Array, kind: 'unsigned' },
  int16: { onnx: 5, bits: 16, array: Int16Array, kind: 'signed' },
  int32: { onnx: 6, bits: 32, array: Int32Array, kind: 'signed' },
  int64: { onnx: 7, bits: 64, array: BigInt64Array, kind: 'signed' },
  string: { onnx: 8, bits: 0, array: Uint8Array, kind: 'string' },
  bool: { onnx: 9, bits: 8, array: Uint8Array, kind: 'bool' },
  float16: { onnx: 10, bits: 16, array: Uint16Array, kind: 'float' },
  float64: { onnx: 11, bits: 64, array: Float64Array, kind: 'float' },
  uint32: { onnx: 12, bits: 32, array: Uint32Array, kind: 'unsigned' },
  uint64: { onnx: 13, bits: 64, array: BigUint64Array, kind: 'unsigned' },
  complex64: { onnx: 14, bits: 64, array: Float32Array, kind: 'complex' },
  complex128: { onnx: 15, bits: 128, array: Float64Array, kind: 'complex' },
  bfloat16: { onnx: 16, bits: 16, array: Uint16Array, kind: 'float' },
  float8e4m3fn: { onnx: 17, bits: 8, array: Uint8Array, kind: 'float' },
  float8e4m3fnuz: { onnx: 18, bits: 8, array: Uint8Array, kind: 'float' },
  float8e5m2: { onnx: 19, bits: 8, array: Uint8Array, kind: 'float' },
  float8e5m2fnuz: { onnx: 20, bits: 8, array: Uint8Array, kind: 'float' },
  uint4: { onnx: 21, bits: 4, array: Uint8Array, kind: 'unsigned' },
  int4: { onnx: 22, bits: 4, array: Uint8Array, kind: 'signed' },
  float4e2m1: { onnx: 23, bits: 4, array: Uint8Array, kind: 'float' },
  float8e8m0: { onnx: 24, bits: 8, array: Uint8Array, kind: 'float' },
  uint2: { onnx: 25, bits: 2, array: Uint8Array, kind: 'unsigned' },
  int2: { onnx: 26, bits: 2, array: Uint8Array, kind: 'signed' },
} as const satisfies Record<string, TypeInfo>;

/** The name of an element type. */
export type DataType = keyof typeof dataTypes;

const byNumber = new Map<number, DataType>(Object.entries(dataTypes).map(([name, t]) => [t.onnx, name as DataType]));

/** The type with a TensorProto.DataType number, or undefined. */
export function dataTypeOf(onnx: number): DataType | undefined {
  return byNumber.get(onnx);
}

/** The table row of a type, widened for code that treats all types alike. */
export function typeInfo(type: DataType): TypeInfo {
  return dataTypes[type];
}

/** Bytes that `size` elements take in memory and in raw data. */
export function byteLength(type: DataType, size: number): number {
  return Math.ceil((size * dataTypes[type].bits) / 8);
}

/** Length of the array that holds `size` elements. */
export function arrayLength(type: DataType, size: number): number {
  const { array } = dataTypes[type];
  return type === 'string' ? size : Math.ceil((size * dataTypes[type].bits) / (8 * array.BYTES_PER_ELEMENT));
}
