// Writes kernel parameter blocks as the 32-bit words the kernels read (kernels/abi.ts), and notes which words are
// pointers that move with the arena or with the words themselves.
import type { Fields, FieldType } from '../kernels/abi.js';
import type { Address } from '../operators/operator.js';
import { SkepError } from '../tensor/errors.js';
import type { Plan } from './plan.js';

/** Where a symbolic address ended up, in bytes: an offset from a base of the plan or in the words, or an absolute address. */
export interface Place {
  readonly base: number | 'words' | 'memory';
  readonly value: number;
}

const f32 = new Float32Array(1);
const i32 = new Int32Array(f32.buffer);

/** Collects the parameter blocks of one plan. */
export class Encoder {
  readonly #resolve: (address: Address) => Place;
  readonly #words: number[];
  readonly #bases: number[][] = [];
  readonly #self: number[] = [];

  /** `data` (constants of this plan alone) comes first in the words. */
  constructor(resolve: (address: Address) => Place, data: Uint8Array) {
    this.#resolve = resolve;
    this.#words = Array.from(new Int32Array(data.buffer, data.byteOffset, data.byteLength / 4));
  }

  /** Appends a block; gives the index of its first word. */
  block(fields: Fields, params: Readonly<Record<string, unknown>>, kernel: string): number {
    const names = Object.keys(fields);
    const start = this.#reserve(names.length);
    names.forEach((name, i) => {
      const value = params[name];
      if (value === undefined) throw new SkepError('INTERNAL', `kernel ${kernel}: parameter '${name}' is missing`);
      this.#put(start + i, fields[name]!, value);
    });
    return start;
  }

  /** `bases`: how many there are. */
  finish(bases: number): Pick<Plan, 'words' | 'relocations' | 'wordRelocations'> {
    return {
      words: Int32Array.from(this.#words),
      relocations: Array.from({ length: bases }, (_, b) => Int32Array.from(this.#bases[b] ?? [])),
      wordRelocations: Int32Array.from(this.#self),
    };
  }

  #reserve(count: number): number {
    const start = this.#words.length;
    for (let i = 0; i < count; i++) this.#words.push(0);
    return start;
  }

  #put(at: number, field: FieldType, value: unknown): void {
    switch (field) {
      case 'i32':
        this.#words[at] = (value as number) | 0;
        break;
      case 'f32':
        f32[0] = value as number;
        this.#words[at] = i32[0]!;
        break;
      case 'ptr':
        if (value !== 0) this.#point(at, this.#resolve(value as Address));
        break;
      case 'i32s':
      case 'ptrs': {
        const list = value as readonly unknown[];
        const start = this.#reserve(list.length);
        for (let i = 0; i < list.length; i++) this.#put(start + i, field === 'i32s' ? 'i32' : 'ptr', list[i]);
        this.#words[at] = start * 4;
        this.#self.push(at);
        break;
      }
      default:
        field satisfies never;
    }
  }

  #point(at: number, { base, value }: Place): void {
    this.#words[at] = value | 0;
    if (base === 'words') this.#self.push(at);
    else if (base !== 'memory') {
      this.#bases[base] ??= [];
      this.#bases[base].push(at);
    }
  }
}
