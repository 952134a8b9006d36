// How values lie in a model's memory on their way between the caller and an instance: one block of words and bytes.
//
//   count │ value │ value │ …      value: ABSENT │ NULL │ TENSOR type rank dims… address │ STRINGS rank dims… address bytes
//                                         │ SEQUENCE count value…
//
// The words come first, the elements after them, each 64-byte aligned, all in one allocation, so freeing an answer is
// freeing one address. Strings are a JSON array in UTF-8.
import { align } from '../compiler/layout.js';
import { SLACK } from '../compiler/plan.js';
import type { HostValue } from '../operators/operator.js';
import { SkepError } from '../tensor/errors.js';
import { sizeOf } from '../tensor/shape.js';
import { bytesOf, Tensor } from '../tensor/tensor.js';
import { byteLength, dataTypeOf, dataTypes } from '../tensor/types.js';
import type { Heap, ModelMemory } from './memory.js';
import { type Carried, copyOut, copyTo, type InMemory } from './staged.js';

const ABSENT = 0;
const NULL = 1;
const TENSOR = 2;
const STRINGS = 3;
const SEQUENCE = 4;

/** One run of elements behind the words. */
interface Payload {
  /** Index of the value it is of, when it is not known yet or in the same memory. */
  readonly value: number;
  /** Index of the word that gets its address. */
  readonly word: number;
  readonly bytes: number;
  /** What to copy. */
  readonly from: Uint8Array | undefined;
}

/** A tensor that may still be to be computed. */
type Planned = { readonly kind: string } & Pick<InMemory, 'type' | 'dims'>;

/** An allocation with everything in it but for elements that are still to be computed, or copied from the same memory. */
export interface Block {
  readonly address: number;
  /** Where the elements of the values go, 64-byte aligned; 0 for those that are in the block already. */
  readonly places: readonly number[];
}

/** Lays values out in a fresh allocation. undefined: absent. */
export function layValues(memory: ModelMemory, heap: Heap, values: readonly (Carried | Planned | undefined)[]): Block {
  const words: number[] = [values.length];
  const payloads: Payload[] = [];
  for (let i = 0; i < values.length; i++) describe(values[i], i, words, payloads);
  let end = align(words.length * 4);
  for (const { bytes } of payloads) end += align(bytes);
  // Kernels read inputs and write results right here.
  const address = heap.allocate(end + SLACK);
  const places = new Array<number>(values.length).fill(0);
  let at = address + align(words.length * 4);
  for (const { value, word, bytes, from } of payloads) {
    words[word] = at;
    if (from === undefined) places[value] = at;
    else memory.u8.set(from, at);
    at += align(bytes);
  }
  memory.i32.set(words, address >>> 2);
  return { address, places };
}

/** Copies to their places the values that are not there. */
export function fillBlock(memory: ModelMemory, { places }: Block, values: readonly (Carried | undefined)[]): void {
  values.forEach((value, i) => {
    const to = places[i]!;
    if (to === 0) return;
    const from = value as InMemory;
    if (from.kind !== 'staged' || from.address !== to) copyTo(memory, from, to);
  });
}

/** Writes values into a fresh allocation; gives its address. */
export function writeValues(memory: ModelMemory, heap: Heap, values: readonly (Carried | undefined)[]): number {
  const block = layValues(memory, heap, values);
  fillBlock(memory, block, values);
  return block.address;
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

function describe(value: Carried | Planned | undefined, index: number, words: number[], payloads: Payload[]): void {
  if (value === undefined) words.push(ABSENT);
  else if (value === null) words.push(NULL);
  else if (Array.isArray(value)) {
    words.push(SEQUENCE, value.length);
    for (const v of value) describe(v as HostValue, index, words, payloads);
  } else if (value instanceof Tensor && value.type === 'string') {
    const bytes = Buffer.from(JSON.stringify(value.data));
    words.push(STRINGS, value.dims.length, ...value.dims);
    payloads.push({ value: index, word: words.length, bytes: bytes.length, from: bytes });
    words.push(0, bytes.length);
  } else {
    const { type, dims } = value as Tensor | Planned;
    words.push(TENSOR, dataTypes[type].onnx, dims.length, ...dims);
    const from = value instanceof Tensor ? bytesOf(value) : undefined;
    const bytes = from?.byteLength ?? byteLength(type, sizeOf(dims));
    payloads.push({ value: index, word: words.length, bytes, from });
    words.push(0);
  }
}
