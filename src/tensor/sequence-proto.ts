// SequenceProto, OptionalProto and MapProto: the values test data and tools store that are not plain tensors. A sequence
// is an array, an empty optional is null. Maps are read as pairs of a key tensor and a sequence of values.
import { Tensor } from './tensor.js';
import { readTensor, writeTensor } from './tensor-proto.js';
import { dataTypeOf, typeInfo } from './types.js';
import { joinParts, type Parts, WireReader } from './wire-reader.js';
import { WireWriter } from './wire-writer.js';

/** What a stored value can be: a tensor, a sequence, or an empty optional. */
export type StoredValue = Tensor | readonly StoredValue[] | null;

/** Which message a file holds: the format itself does not say. */
export type StoredKind = 'tensor' | 'sequence' | 'optional' | 'map';

/** Reads a TensorProto, SequenceProto, OptionalProto or MapProto. Throws INVALID_MODEL that says which byte is wrong. */
export function readValueProto(bytes: Uint8Array, kind: StoredKind): StoredValue {
  const plain = new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return readValue(new WireReader(plain, messageOf[kind]), kind);
}

const messageOf = {
  tensor: 'TensorProto',
  sequence: 'SequenceProto',
  optional: 'OptionalProto',
  map: 'MapProto',
} as const satisfies Record<StoredKind, string>;

/** SequenceProto.DataType; OptionalProto.DataType is the same list. */
const elementKinds = ['undefined', 'tensor', 'sparse tensor', 'sequence', 'map', 'optional'] as const;

function readValue(r: WireReader, kind: StoredKind): StoredValue {
  switch (kind) {
    case 'tensor':
      return readTensor(r).tensor;
    case 'sequence':
      return readElements(r);
    case 'optional':
      return readElements(r)[0] ?? null;
    case 'map':
      return readMap(r);
    default:
      throw r.error(`unknown kind ${String(kind satisfies never)}`);
  }
}

/** Fields 3 to 7 of both messages are the elements, by kind; an optional has at most one. */
function readElements(r: WireReader): StoredValue[] {
  const start = r.offset;
  const elements: StoredValue[] = [];
  while (r.next()) {
    switch (r.field) {
      case 2: {
        const kind = elementKinds[r.int()];
        if (kind === undefined || kind === 'sparse tensor')
          throw r.error(`elements of kind ${kind ?? 'unknown'}`, start);
        break;
      }
      case 3:
        elements.push(readValue(r.message('TensorProto'), 'tensor'));
        break;
      case 4:
        throw r.error('sparse tensors as elements are not supported', start);
      case 5:
        elements.push(readValue(r.message('SequenceProto'), 'sequence'));
        break;
      case 6:
        elements.push(readValue(r.message('MapProto'), 'map'));
        break;
      case 7:
        elements.push(readValue(r.message('OptionalProto'), 'optional'));
        break;
      default:
        r.skip();
    }
  }
  return elements;
}

function readMap(r: WireReader): StoredValue {
  const start = r.offset;
  const integers: Parts<bigint> = [];
  const strings: string[] = [];
  let number = 0;
  let values: readonly StoredValue[] = [];
  while (r.next()) {
    if (r.field === 2) number = r.int();
    else if (r.field === 3) r.bigs(integers, true);
    else if (r.field === 4) strings.push(r.text());
    else if (r.field === 5) values = readElements(r.message('SequenceProto'));
    else r.skip();
  }
  const type = dataTypeOf(number);
  const { kind } = typeInfo(type ?? 'float32');
  if (
    type === undefined ||
    (kind !== 'string' && kind !== 'signed' && kind !== 'unsigned') ||
    typeInfo(type).bits % 8 !== 0
  )
    throw r.error(`a map with keys of type ${type ?? number}`, start);
  const big = Array.from(joinParts(integers));
  const keys =
    kind === 'string'
      ? new Tensor(type, strings)
      : new Tensor(type, typeInfo(type).bits === 64 ? big : big.map(Number));
  if (keys.size !== values.length) throw r.error(`a map with ${keys.size} keys and ${values.length} values`, start);
  return [keys, values];
}

/** Writes a tensor as TensorProto, an array as SequenceProto, null as an empty OptionalProto. */
export function writeValueProto(value: StoredValue, name = ''): Uint8Array {
  const w = new WireWriter();
  writeValue(w, value, name);
  return w.finish();
}

function writeValue(w: WireWriter, value: StoredValue, name: string): void {
  if (value instanceof Tensor) {
    writeTensor(w, value, name);
    return;
  }
  if (name !== '') w.string(1, name);
  if (value === null) return;
  const first = value[0];
  const kind = first === undefined ? 0 : first instanceof Tensor ? 1 : first === null ? 5 : 3;
  w.int(2, kind);
  for (const element of value)
    w.message(element instanceof Tensor ? 3 : element === null ? 7 : 5, (m) => {
      writeValue(m, element, '');
    });
}
