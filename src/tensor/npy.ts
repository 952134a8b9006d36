// NumPy's .npy files, versions 1 to 3: a magic number, a header that is a Python dictionary, then the elements. Reads
// both byte orders and both memory orders; writes little-endian, row-major. Types NumPy has no name for (bfloat16 and
// smaller) are written as their bits. Format: numpy/lib/format.py.
import { SkepError } from './errors.js';
import { checkShape, sizeOf, stridesOf } from './shape.js';
import { bytesOf, Tensor, tensorFromBytes } from './tensor.js';
import { byteLength, type DataType, type TypedArray, typeInfo } from './types.js';

/** dtype.str without the byte order. */
const types: Readonly<Record<string, DataType>> = {
  b1: 'bool',
  i1: 'int8',
  i2: 'int16',
  i4: 'int32',
  i8: 'int64',
  u1: 'uint8',
  u2: 'uint16',
  u4: 'uint32',
  u8: 'uint64',
  f2: 'float16',
  f4: 'float32',
  f8: 'float64',
  c8: 'complex64',
  c16: 'complex128',
};

const MAGIC = '\x93NUMPY';

function bad(message: string): SkepError {
  return new SkepError('INVALID_INPUT', `not a readable .npy file: ${message}`);
}

/** Reads a .npy file: a view of the bytes where alignment, byte order and memory order allow. Throws INVALID_INPUT. */
export function readNpy(file: Uint8Array): Tensor {
  const bytes = new Uint8Array(file.buffer, file.byteOffset, file.byteLength);
  if (bytes.length < 10 || String.fromCharCode(...bytes.subarray(0, 6)) !== MAGIC) throw bad('no magic number');
  const version = bytes[6]!;
  if (version < 1 || version > 3) throw bad(`version ${version}; 1 to 3 are known`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const start = version === 1 ? 10 : 12;
  if (bytes.length < start) throw bad('it ends in its header');
  const end = start + (version === 1 ? view.getUint16(8, true) : view.getUint32(8, true));
  if (end > bytes.length) throw bad(`a header of ${end - start} bytes, past the end`);
  if (end - start > 65536) throw bad(`a header of ${end - start} bytes`);
  const { order, type, fortran, dims } = parseHeader(new TextDecoder().decode(bytes.subarray(start, end)));
  const size = checked(dims);
  const need = byteLength(type, size);
  if (bytes.length - end < need)
    throw bad(`${type} of shape [${dims.join(', ')}] needs ${need} bytes, but ${bytes.length - end} are left`);
  let data = bytes.subarray(end, end + need);
  if (order === '>') data = swapBytes(data, type);
  const tensor = tensorFromBytes(type, dims, data);
  if (type === 'bool' && (tensor.data as Uint8Array).some((x) => x > 1)) throw bad('a bool that is neither 0 nor 1');
  return fortran && dims.length > 1 ? toRowMajor(tensor) : tensor;
}

function checked(dims: readonly number[]): number {
  checkShape(dims, '.npy shape');
  return sizeOf(dims);
}

interface Header {
  readonly order: string;
  readonly type: DataType;
  readonly fortran: boolean;
  readonly dims: readonly number[];
}

/** The dictionary NumPy writes: three keys in any order, nothing nested. */
function parseHeader(text: string): Header {
  const descr = /['"]descr['"]\s*:\s*['"]([<>|=])([a-zA-Z]\d+)['"]/.exec(text);
  const fortran = /['"]fortran_order['"]\s*:\s*(True|False)/.exec(text);
  const shape = /['"]shape['"]\s*:\s*\(([\d\s,L]*)\)/.exec(text);
  if (descr === null || fortran === null || shape === null)
    throw bad(`header ${JSON.stringify(text.trim().slice(0, 100))} (structured and text types are not supported)`);
  const type = Object.hasOwn(types, descr[2]!) ? types[descr[2]!] : undefined;
  if (type === undefined) throw bad(`elements of type '${descr[2]}'`);
  const dims = shape[1]!
    .split(',')
    .map((d) => d.replace('L', '').trim())
    .filter((d) => d !== '')
    .map(Number);
  return { order: descr[1]!, type, fortran: fortran[1] === 'True', dims };
}

/** Reverses the bytes of each number (of each part, for complex). */
function swapBytes(data: Uint8Array, type: DataType): Uint8Array {
  const width = typeInfo(type).array.BYTES_PER_ELEMENT;
  const out = new Uint8Array(data.length);
  for (let i = 0; i < data.length; i++) out[i] = data[i - (i % width) + width - 1 - (i % width)]!;
  return out;
}

/** Elements stored first axis fastest, into last axis fastest. */
function toRowMajor(tensor: Tensor): Tensor {
  const { dims, type } = tensor;
  const from = tensor.data as TypedArray;
  const into = new (typeInfo(type).array)(from.length);
  // A complex element is two numbers.
  const parts = tensor.size === 0 ? 1 : from.length / tensor.size;
  const strides = stridesOf([...dims].reverse()).reverse();
  const index = new Array<number>(dims.length).fill(0);
  let source = 0;
  for (let i = 0; i < tensor.size; i++) {
    for (let p = 0; p < parts; p++) into[i * parts + p] = from[source * parts + p]!;
    for (let axis = dims.length - 1; axis >= 0; axis--) {
      source += strides[axis]!;
      if (++index[axis]! < dims[axis]!) break;
      source -= strides[axis]! * dims[axis]!;
      index[axis] = 0;
    }
  }
  return new Tensor(type, into, dims);
}

/** Writes a .npy file, version 1 (2 for a header past 64 KiB). Types NumPy lacks go out as unsigned integers. */
export function writeNpy(tensor: Tensor): Uint8Array {
  const { type } = tensor;
  if (type === 'string') throw new SkepError('INVALID_INPUT', 'strings cannot be written as .npy');
  const { bits, array } = typeInfo(type);
  const named = Object.entries(types).find(([, t]) => t === type)?.[0];
  const code = named ?? `u${array.BYTES_PER_ELEMENT}`;
  const dims = bits < 8 ? [(tensor.data as Uint8Array).length] : tensor.dims;
  const order = array.BYTES_PER_ELEMENT === 1 ? '|' : '<';
  const tuple = dims.length === 1 ? `(${dims[0]},)` : `(${dims.join(', ')})`;
  const text = `{'descr': '${order}${code}', 'fortran_order': False, 'shape': ${tuple}, }`;
  // Elements begin at a multiple of 64 bytes.
  const version = text.length + 74 > 65535 ? 2 : 1;
  const start = version === 1 ? 10 : 12;
  const length = Math.ceil((start + text.length + 1) / 64) * 64 - start;
  const data = bytesOf(tensor);
  const out = new Uint8Array(start + length + data.length);
  const view = new DataView(out.buffer);
  for (let i = 0; i < 6; i++) out[i] = MAGIC.charCodeAt(i);
  out[6] = version;
  if (version === 1) view.setUint16(8, length, true);
  else view.setUint32(8, length, true);
  out.set(new TextEncoder().encode(`${text.padEnd(length - 1)}\n`), start);
  out.set(data, start + length);
  return out;
}
