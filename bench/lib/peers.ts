// The engines that benchmarks run beside Skep. They live in bench/node_modules (`npm ci --prefix bench`), never in the
// root: the root's own `onnxruntime-web` is a stand-in without the engine.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

// From dist/bench/lib back to bench/.
const require = createRequire(new URL('../../../bench/package.json', import.meta.url));

/** The part of onnxruntime-common's interface that benchmarks use. */
export interface OrtSession {
  run(
    feeds: Record<string, unknown>,
  ): Promise<Record<string, { readonly data: ArrayLike<number>; readonly dims: readonly number[] }>>;
  release(): Promise<void>;
}

export interface Ort {
  readonly env: { readonly wasm: { numThreads?: number; proxy?: boolean } };
  readonly InferenceSession: { create(model: Uint8Array, options?: Record<string, unknown>): Promise<OrtSession> };
  readonly Tensor: new (type: string, data: unknown, dims: readonly number[]) => unknown;
}

/** onnxruntime-web with a number of threads. Throws with what to do when it is not installed. */
export async function onnxruntimeWeb(threads: number): Promise<Ort> {
  let file: string;
  try {
    file = require.resolve('onnxruntime-web');
  } catch (cause) {
    throw new Error('the peers are not installed: npm ci --prefix bench', { cause });
  }
  if (!existsSync(file)) throw new Error(`${file} is missing: npm ci --prefix bench`);
  const loaded = (await import(pathToFileURL(file).href)) as Ort & { readonly default?: Ort };
  const ort = loaded.InferenceSession === undefined ? loaded.default! : loaded;
  ort.env.wasm.numThreads = threads;
  return ort;
}
