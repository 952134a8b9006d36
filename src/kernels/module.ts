// The compiled WebAssembly modules: which builds there are, which this machine can run, and compiling one. The bytes lie
// beside this file under stable names, found by literal URLs so that bundlers see them.
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';
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

/** The build used unless one is asked for: `fma` where relaxed SIMD is standard (Node 22 and later). */
export function defaultBuild(): Build {
  return WebAssembly.validate(RELAXED_PROBE) ? 'fma' : 'plain';
}

/**
 * True when this runtime can run a build. Node 20 has relaxed SIMD behind a flag that can be set at run time, before the
 * first compile; it is set here only where it is known to exist, because V8 prints to stderr about flags it does not know.
 */
export function canRun(build: Build): boolean {
  if (build === 'plain' || WebAssembly.validate(RELAXED_PROBE)) return true;
  if (process.versions.v8.startsWith('11.')) setFlagsFromString('--experimental-wasm-relaxed-simd');
  return WebAssembly.validate(RELAXED_PROBE);
}

// By way of the parent: the threads' bundle, one folder beside, finds them too.
function urlOf(build: Build): URL {
  return build === 'fma'
    ? new URL('../kernels/fma.wasm', import.meta.url)
    : new URL('../kernels/plain.wasm', import.meta.url);
}

/** Reads and compiles a build off the caller's thread. */
export async function compileKernels(build: Build): Promise<WebAssembly.Module> {
  return WebAssembly.compile(await readFile(fileURLToPath(urlOf(build))));
}

/** The bytes of a build's module. */
export function readKernels(build: Build): Uint8Array<ArrayBuffer> {
  return new Uint8Array(readFileSync(fileURLToPath(urlOf(build))));
}

/** Reads and compiles a build at once; it blocks, for worker threads, tools and tests. */
export function compileKernelsSync(build: Build): WebAssembly.Module {
  return new WebAssembly.Module(readKernels(build));
}

/** Kernels that are worth 256-bit instructions; the self-test (runtime/self-test.ts) touches every one. */
export const wideKernels = [
  'gemm',
  'gemmInt8',
  'quantizeRows',
  'conv',
  'lstmStep',
  'gruStep',
  'rnnStep',
  'unaryF32',
  'softmaxF32',
  'rowNorm',
] as const satisfies readonly KernelName[];

/** Binds a compiled build to a shared memory. `wide` is the same build compiled with 256-bit instructions. */
export function bindKernels(
  module: WebAssembly.Module,
  memory: WebAssembly.Memory,
  wide?: WebAssembly.Module,
): Kernels {
  const instance = (m: WebAssembly.Module) =>
    new WebAssembly.Instance(m, { env: { memory } }).exports as unknown as Kernels;
  const kernels = instance(module);
  if (wide === undefined) return kernels;
  const fast = instance(wide);
  return { ...kernels, ...Object.fromEntries(wideKernels.map((name) => [name, fast[name]])) };
}
