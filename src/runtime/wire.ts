// How values lie in a model's memory on their way between the caller and an instance: one block of words and bytes.
//
//   count │ value │ value │ …      value: ABSENT │ NULL │ TENSOR type rank dims… address │ STRINGS rank dims… address bytes
//                                         │ SEQUENCE count value…
//
// The words come first, the elements after them, each 64-byte aligned, all in one allocation, so freeing an answer is
// freeing one address. Strings are a JSON array in UTF-8.
import type { HostValue } from '../operators/operator.js';
import { SkepError } from '../tensor/errors.js';
import { bytesOf, Tensor } from '../tensor/tensor.js';
import { dataTypeOf, dataTypes } from '../tensor/types.js';
import type { Heap, ModelMemory } from './memory.js';
import { bytesIn, type Carried, copyOut, copyTo, type InMemory } from './staged.js';

const ABSENT = 0;
const NULL = 1;
const TENSOR = 2;
const STRINGS = 3;
const SEQUENCE = 4;

/** One thing to be copied behind the words. */
interface Payload {
  /** Index of the word that gets its address. */
  readonly word: number;
  /** Bytes to copy, or a tensor of the same memory. */
  readonly from: Uint8Array | InMemory;
}

/** Writes values into a fresh allocation; gives its address. undefined: absent. */
export function writeValues(memory: ModelMemory, heap: Heap, values: readonly (Carried | undefined)[]): number {
  const words: number[] = [values.length];
  const payloads: Payload[] = [];
  for (const v of values) describe(v, words, payloads);
  let offset = align(words.length * 4);
  const places = payloads.map(({ from }) => {
    const at = offset;
    offset = align(offset + (from instanceof Uint8Array ? from.byteLength : bytesIn(from)));
    return at;
  });
  const block = heap.allocate(offset);
  payloads.forEach(({ word }, i) => {
    words[word] = block + places[i]!;
  });
  memory.i32.set(words, block >> 2);
  const u8 = memory.u8;
  payloads.forEach(({ from }, i) => {
    const to = block + places[i]!;
    if (from instanceof Uint8Array) u8.set(from, to);
    else copyTo(memory, from, to);
  });
  return block;
}

/** Reads values without copying elements: tensors come as places in memory. */
export function readValues(memory: ModelMemory, block: number): (Carried | undefined)[] {
  const words = memory.i32;
  let at = block >> 2;
  const next = () => words[at++]!;
  const read = (): Carried | undefined => {
    const tag = next();
    switch (tag) {
      case ABSENT:
        return undefined;
      case NULL:
        return null;
      case TENSOR: {
        const type = dataTypeOf(next())!;
        const dims = Array.from({ length: next() }, next);
        return { kind: 'staged', type, dims, address: next() >>> 0 };
      }
      case STRINGS: {
        const dims = Array.from({ length: next() }, next);
        const address = next() >>> 0;
        const length = next();
        return new Tensor(
          'string',
          JSON.parse(Buffer.from(memory.bytes(address, length)).toString()) as string[],
          dims,
        );
      }
      case SEQUENCE:
        return Array.from({ length: next() }, () => copyOut(memory, read()!));
      default:
        throw new SkepError('INTERNAL', `unknown value tag ${tag}`);
    }
  };
  return Array.from({ length: next() }, read);
}

function describe(value: Carried | undefined, words: number[], payloads: Payload[]): void {
  if (value === undefined) words.push(ABSENT);
  else if (value === null) words.push(NULL);
  else if (Array.isArray(value)) {
    words.push(SEQUENCE, value.length);
    for (const v of value) describe(v as HostValue, words, payloads);
  } else if (value instanceof Tensor && value.type === 'string') {
    const bytes = Buffer.from(JSON.stringify(value.data));
    words.push(STRINGS, value.dims.length, ...value.dims);
    payloads.push({ word: words.length, from: bytes });
    words.push(0, bytes.length);
  } else {
    const { type, dims } = value as Tensor | InMemory;
    words.push(TENSOR, dataTypes[type].onnx, dims.length, ...dims);
    const from = value instanceof Tensor ? bytesOf(value) : (value as InMemory);
    payloads.push({ word: words.length, from });
    words.push(0);
  }
}

function align(bytes: number): number {
  return Math.ceil(bytes / 64) * 64;
}
