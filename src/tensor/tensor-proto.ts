// TensorProto and Tensor, both ways; and the SequenceProto, OptionalProto and MapProto that test data comes in. Raw data
// stays a view of the file where its alignment allows; data in typed fields, sparse and external data are brought to the
// same form. Sizes are checked against what the file holds before memory is taken.
import { SkepError } from './errors.js';
import { checkShape, sizeOf, stridesOf } from './shape.js';
import { bytesOf, Tensor, tensorFromBytes, zeros } from './tensor.js';
import { arrayLength, byteLength, type DataType, dataTypeOf, type TypedArray, typeInfo } from './types.js';
import { joinParts, type Parts, WireReader } from './wire-reader.js';
import { WireWriter } from './wire-writer.js';

/** Where a tensor's bytes are when they are in a file beside the model. */
export interface ExternalLocation {
  readonly location: string;
  readonly offset: number;
  /** Bytes the tensor takes (checked against the file's own `length`). */
  readonly length: number;
}

/** Gives the bytes of external data; exactly `length` of them. */
export type ExternalReader = (where: ExternalLocation, tensor: string) => Uint8Array;

/** A tensor with the name its message carries. */
export interface NamedTensor {
  readonly name: string;
  readonly tensor: Tensor;
}

/** Reads a TensorProto. Throws INVALID_MODEL with the tensor's name and byte. */
export function readTensorProto(bytes: Uint8Array): NamedTensor {
  return readTensor(new WireReader(bytes, 'TensorProto'));
}

/** Reads a TensorProto under a cursor. */
export function readTensor(r: WireReader, external?: ExternalReader): NamedTensor {
  const start = r.offset;
  const dims: Parts<number> = [];
  const floats: Parts<number> = [];
  const doubles: Parts<number> = [];
  const int32s: Parts<number> = [];
  const int64s: Parts<bigint> = [];
  const uint64s: Parts<bigint> = [];
  const strings: string[] = [];
  const entries = new Map<string, string>();
  let number = 0;
  let name = '';
  let raw: Uint8Array | undefined;
  let place = 0;
  while (r.next()) {
    switch (r.field) {
      case 1:
        r.ints(dims);
        break;
      case 2:
        number = r.int();
        break;
      case 3:
        throw r.error('tensors in segments are not supported', start);
      case 4:
        r.floats(floats);
        break;
      case 5:
        r.int32s(int32s);
        break;
      case 6:
        strings.push(r.text());
        break;
      case 7:
        r.bigs(int64s, true);
        break;
      case 8:
        name = r.string();
        break;
      case 9:
        raw = r.bytes();
        break;
      case 10:
        r.doubles(doubles);
        break;
      case 11:
        r.bigs(uint64s, false);
        break;
      case 13:
        entries.set(...readEntry(r.message('StringStringEntryProto')));
        break;
      case 14:
        place = r.int();
        break;
      default:
        r.skip();
    }
  }
  const fail = (message: string) => r.error(`tensor '${name}': ${message}`, start);
  const type = dataTypeOf(number);
  if (type === undefined) throw fail(number === 0 ? 'has no element type' : `unknown element type ${number}`);
  const shape = Array.from(joinParts(dims));
  const size = within(fail, () => {
    checkShape(shape);
    return sizeOf(shape);
  });
  if (place === 1) {
    if (type === 'string') throw fail('strings cannot be external data');
    if (external === undefined) throw fail('external data, which is not read here');
    const where = readLocation(entries, byteLength(type, size), fail);
    const found = external(where, name);
    return { name, tensor: within(fail, () => denseBool(tensorFromBytes(type, shape, found))) };
  }
  const typed = [floats, doubles, int32s, int64s, uint64s, strings].filter((x) => x.length > 0).length;
  if (typed > 1 || (typed === 1 && raw !== undefined && raw.length > 0)) throw fail('has data in more than one field');
  if (raw !== undefined && typed === 0 && type !== 'string')
    return { name, tensor: within(fail, () => denseBool(tensorFromBytes(type, shape, raw))) };
  const pick = <T>(parts: Parts<T>, field: string): ArrayLike<T> => {
    if (typed === 1 && parts.every((p) => p.length === 0)) throw fail(`${type} data must be in ${field} or raw_data`);
    return joinParts(parts);
  };
  const tensor = within(fail, () =>
    fromTyped(type, shape, size, { pick, floats, doubles, int32s, int64s, uint64s, strings }),
  );
  return { name, tensor };
}

interface TypedFields {
  readonly pick: <T>(parts: Parts<T>, field: string) => ArrayLike<T>;
  readonly floats: Parts<number>;
  readonly doubles: Parts<number>;
  readonly int32s: Parts<number>;
  readonly int64s: Parts<bigint>;
  readonly uint64s: Parts<bigint>;
  readonly strings: readonly string[];
}

function fromTyped(type: DataType, dims: readonly number[], size: number, f: TypedFields): Tensor {
  switch (type) {
    case 'string':
      return new Tensor(type, f.pick([f.strings], 'string_data') as string[], dims);
    case 'float32':
    case 'complex64':
      return new Tensor(type, toTyped(type, size, f.pick(f.floats, 'float_data')), dims);
    case 'float64':
    case 'complex128':
      return new Tensor(type, toTyped(type, size, f.pick(f.doubles, 'double_data')), dims);
    case 'int64':
      return new Tensor(type, toTyped(type, size, f.pick(f.int64s, 'int64_data')), dims);
    case 'uint64':
      return new Tensor(type, toTyped(type, size, f.pick(f.uint64s, 'uint64_data')), dims);
    case 'uint32':
      return new Tensor(type, toTyped(type, size, f.pick(f.uint64s, 'uint64_data'), Number), dims);
    case 'bool':
      return new Tensor(
        type,
        toTyped(type, size, f.pick(f.int32s, 'int32_data'), (x) => (x === 0 ? 0 : 1)),
        dims,
      );
    default:
      return new Tensor(type, toTyped(type, size, f.pick(f.int32s, 'int32_data')), dims);
  }
}

/** Values in the array of a type. The count is checked first: the shape may be a lie. */
function toTyped<T extends number | bigint>(
  type: DataType,
  size: number,
  values: ArrayLike<T>,
  convert?: (x: T) => number,
): TypedArray {
  const { array } = typeInfo(type);
  const length = arrayLength(type, size);
  if (values.length !== length)
    throw new SkepError('INVALID_MODEL', `its shape asks for ${length} values, got ${values.length}`);
  if (values instanceof array && convert === undefined) return values as unknown as TypedArray;
  const out = new array(length);
  for (let i = 0; i < length; i++) out[i] = convert === undefined ? values[i]! : convert(values[i]!);
  return out;
}

/** Raw bytes of a bool tensor may be any number; Skep's are 0 and 1. */
function denseBool(tensor: Tensor): Tensor {
  if (tensor.type !== 'bool') return tensor;
  const data = tensor.data as Uint8Array;
  return data.every((x) => x < 2)
    ? tensor
    : new Tensor(
        'bool',
        data.map((x) => (x === 0 ? 0 : 1)),
        tensor.dims,
      );
}

function readLocation(entries: Map<string, string>, length: number, fail: (m: string) => SkepError): ExternalLocation {
  const location = entries.get('location');
  if (location === undefined || location === '') throw fail('external data without a location');
  const count = (key: string, fallback: number) => {
    const text = entries.get(key);
    if (text === undefined) return fallback;
    if (!/^\d{1,15}$/.test(text)) throw fail(`external data with ${key} '${text.slice(0, 40)}'`);
    return Number(text);
  };
  const offset = count('offset', 0);
  const given = count('length', length);
  if (given !== length) throw fail(`needs ${length} bytes, but its external data has length ${given}`);
  return { location, offset, length };
}

/** Reads a StringStringEntryProto under a cursor. */
export function readEntry(r: WireReader): [key: string, value: string] {
  let key = '';
  let value = '';
  while (r.next()) {
    if (r.field === 1) key = r.string();
    else if (r.field === 2) value = r.text();
    else r.skip();
  }
  return [key, value];
}

/** Reads a SparseTensorProto under a cursor and makes it dense. */
export function readSparseTensor(r: WireReader, external?: ExternalReader): NamedTensor {
  const start = r.offset;
  const parts: Parts<number> = [];
  let values: NamedTensor | undefined;
  let indices: NamedTensor | undefined;
  while (r.next()) {
    if (r.field === 1) values = readTensor(r.message('TensorProto'), external);
    else if (r.field === 2) indices = readTensor(r.message('TensorProto'), external);
    else if (r.field === 3) r.ints(parts);
    else r.skip();
  }
  const name = values?.name ?? '';
  const fail = (message: string) => r.error(`sparse tensor '${name}': ${message}`, start);
  if (values === undefined) throw fail('has no values');
  const dims = Array.from(joinParts(parts));
  within(fail, () => checkShape(dims));
  const type = values.tensor.type;
  if (type === 'string' || typeInfo(type).bits < 8 || typeInfo(type).kind === 'complex')
    throw fail(`of ${type} is not supported`);
  const bytes = byteLength(type, sizeOf(dims));
  const count = values.tensor.size;
  if (indices === undefined && count > 0) throw fail('has no indices');
  const at = indices?.tensor.data as BigInt64Array | undefined;
  const pairs = indices?.tensor.dims.length === 2;
  if (at !== undefined && (indices!.tensor.type !== 'int64' || at.length !== count * (pairs ? dims.length : 1)))
    throw fail(`its ${count} values do not match its indices`);
  if (!r.allow(bytes)) throw fail(`takes ${bytes} bytes when dense, out of proportion to the file`);
  const strides = stridesOf(dims);
  const dense = zeros(type, dims);
  const from = values.tensor.data as Float32Array;
  const into = dense.data as Float32Array;
  for (let i = 0; i < count; i++) {
    let offset = 0;
    if (!pairs) offset = Number(at![i]!);
    else
      for (let k = 0; k < dims.length; k++) {
        const index = Number(at![i * dims.length + k]!);
        if (index < 0 || index >= dims[k]!) throw fail(`index ${index} is outside axis ${k} of size ${dims[k]}`);
        offset += index * strides[k]!;
      }
    if (offset < 0 || offset >= dense.size) throw fail(`index ${offset} is outside its ${dense.size} elements`);
    into[offset] = from[i]!;
  }
  return { name, tensor: dense };
}

function within<T>(fail: (message: string) => SkepError, run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (!(error instanceof SkepError)) throw error;
    throw new SkepError(error.code === 'INVALID_INPUT' ? 'INVALID_MODEL' : error.code, fail(error.message).message, {
      cause: error,
    });
  }
}

/** Writes a TensorProto: strings in string_data, everything else as raw data. */
export function writeTensorProto(tensor: Tensor, name = ''): Uint8Array {
  const w = new WireWriter();
  writeTensor(w, tensor, name);
  return w.finish();
}

/** Writes the fields of a TensorProto; where the data is, if it is elsewhere. Raw data is not copied before `finish`. */
export function writeTensor(w: WireWriter, tensor: Tensor, name: string, external?: ExternalLocation): void {
  w.packedInts(1, tensor.dims);
  w.int(2, typeInfo(tensor.type).onnx);
  if (name !== '') w.string(8, name);
  if (external !== undefined) {
    for (const [key, value] of Object.entries(external))
      w.message(13, (m) => {
        m.string(1, key);
        m.string(2, String(value));
      });
    w.int(14, 1);
  } else if (tensor.type === 'string') for (const s of tensor.data as string[]) w.string(6, s);
  else w.bytes(9, bytesOf(tensor));
}
