// The compiled WebAssembly modules: which builds there are, which this machine can run, and compiling one. The bytes lie
// beside this file under stable names, found by literal URLs so that bundlers see them.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Kernel, KernelName } from './abi.js';

/** `plain` is 128-bit SIMD and runs everywhere; `fma` uses relaxed SIMD's fused multiply-add, faster, other last bits. */
export type Build = 'plain' | 'fma';

/** The kernels bound to one memory. */
export type Kernels = Readonly<Record<KernelName, Kernel>>;

/** A module that only needs relaxed SIMD: (func (result v128) … f32x4.relaxed_madd). */
const RELAXED_PROBE = new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 8, 1, 96, 3, 123, 123, 123, 1, 123, 3, 2, 1, 0, 10, 13, 1, 11, 0, 32, 0, 32, 1, 32, 2,
  253, 133, 2, 11,
]);

/** The fastest build this runtime validates. */
export function bestBuild(): Build {
  return WebAssembly.validate(RELAXED_PROBE) ? 'fma' : 'plain';
}

/** Reads and compiles a build (about 2 ms). */
export function compileKernels(build: Build): WebAssembly.Module {
  const url = build === 'fma' ? new URL('./fma.wasm', import.meta.url) : new URL('./plain.wasm', import.meta.url);
  return new WebAssembly.Module(readFileSync(fileURLToPath(url)));
}

/** Binds a compiled build to a shared memory. */
export function bindKernels(module: WebAssembly.Module, memory: WebAssembly.Memory): Kernels {
  return new WebAssembly.Instance(module, { env: { memory } }).exports as unknown as Kernels;
}
