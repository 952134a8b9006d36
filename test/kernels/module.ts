// Kernels alone, for tests: a build instantiated over a memory of its own, an allocator that only goes up, and calls by
// name with parameters encoded as the ABI tables say. Addresses are plain numbers.
import { readFileSync } from 'node:fs';
import v8 from 'node:v8';
import { abi, type Fields, type Kernel, type KernelName, type ParamsOf } from '../../src/kernels/abi.js';

/** What is used of the global; the compiler's library has it only with the DOM. */
declare const WebAssembly: {
  readonly Memory: new (options: object) => { readonly buffer: ArrayBufferLike };
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (module: object, imports: object) => { readonly exports: unknown };
  validate(bytes: Uint8Array): boolean;
};

export type Build = 'plain' | 'fma';

/** Both builds; the FMA one is not there when this V8 cannot run relaxed SIMD. */
export const builds: readonly Build[] = supportsFma() ? ['plain', 'fma'] : ['plain'];

function supportsFma(): boolean {
  if (Number(process.versions.node.split('.')[0]) < 22) v8.setFlagsFromString('--experimental-wasm-relaxed-simd');
  return WebAssembly.validate(readFileSync(wasmOf('fma')));
}

function wasmOf(build: Build): URL {
  return new URL(`../../src/kernels/${build}.wasm`, import.meta.url);
}

/** A module of one build with memory to lay arrays into. */
export class KernelModule {
  readonly #exports: Record<string, Kernel>;
  readonly #buffer: ArrayBufferLike;
  #top = 1024;

  constructor(build: Build, pages = 256) {
    const memory = new WebAssembly.Memory({ initial: pages, maximum: 65536, shared: true });
    const module = new WebAssembly.Module(readFileSync(wasmOf(build)));
    this.#exports = new WebAssembly.Instance(module, { env: { memory } }).exports as Record<string, Kernel>;
    this.#buffer = memory.buffer;
  }

  /** Forgets all allocations. */
  reset(): void {
    this.#top = 1024;
  }

  /** Bytes at a multiple of 16, plus `shift`. */
  alloc(bytes: number, shift = 0): number {
    const at = ((this.#top + 15) & ~15) + shift;
    this.#top = at + bytes;
    if (this.#top > this.#buffer.byteLength) throw new Error('the test memory is full');
    return at;
  }

  /** A float32 view. */
  f32(at: number, length: number): Float32Array {
    return new Float32Array(this.#buffer, at, length);
  }

  /** An int32 view. */
  i32(at: number, length: number): Int32Array {
    return new Int32Array(this.#buffer, at, length);
  }

  /** A byte view. */
  u8(at: number, length: number): Uint8Array {
    return new Uint8Array(this.#buffer, at, length);
  }

  /** Copies floats in; gives their address. */
  put(values: ArrayLike<number>, shift = 0): number {
    const at = this.alloc(values.length * 4, shift);
    this.f32(at, values.length).set(values);
    return at;
  }

  /** Copies any array in; gives its address. */
  putBytes(values: ArrayBufferView): number {
    const at = this.alloc(values.byteLength);
    this.u8(at, values.byteLength).set(new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
    return at;
  }

  /** Runs units [begin, end) of a kernel. */
  call<K extends KernelName>(kernel: K, params: ParamsOf<K, number>, begin: number, end: number, scratch = 0): void {
    const fields: Fields = abi[kernel];
    const names = Object.keys(fields);
    const block = this.alloc(names.length * 4);
    const view = new DataView(this.#buffer);
    names.forEach((name, i) => {
      const value = (params as Record<string, number | readonly number[]>)[name]!;
      const word = block + i * 4;
      if (typeof value !== 'number') {
        const list = this.alloc(value.length * 4);
        this.i32(list, value.length).set(value);
        view.setInt32(word, list, true);
      } else if (fields[name] === 'f32') view.setFloat32(word, value, true);
      else view.setInt32(word, value, true);
    });
    this.#exports[kernel]!(block, begin, end, scratch);
  }
}
