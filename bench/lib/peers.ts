// The engines that benchmarks run beside Skep. They live in bench/node_modules (`npm ci --prefix bench`), never in the
// root: the root's own `onnxruntime-web` is a stand-in without the engine.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
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
  readonly env: { readonly wasm: { numThreads?: number; proxy?: boolean }; logLevel?: string };
  readonly InferenceSession: { create(model: Uint8Array, options?: Record<string, unknown>): Promise<OrtSession> };
  readonly Tensor: new (type: string, data: unknown, dims: readonly number[]) => unknown;
}

/** A tensor of TensorFlow.js. */
export interface TfTensor {
  dataSync(): Float32Array;
  dispose(): void;
}

/** The part of @tensorflow/tfjs-core's interface that benchmarks use. */
export interface TensorFlow {
  tensor(data: ArrayLike<number>, dims: readonly number[]): TfTensor;
  matMul(a: TfTensor, b: TfTensor): TfTensor;
  conv2d(x: TfTensor, w: TfTensor, stride: number, pad: number): TfTensor;
  depthwiseConv2d(x: TfTensor, w: TfTensor, stride: number, pad: number): TfTensor;
  setBackend(name: string): Promise<boolean>;
  ready(): Promise<void>;
}

/** A peer's entry point. Throws with what to do when it is not installed. */
function find(name: string): string {
  let file: string;
  try {
    file = require.resolve(name);
  } catch (cause) {
    throw new Error('the peers are not installed: npm ci --prefix bench', { cause });
  }
  if (!existsSync(file)) throw new Error(`${file} is missing: npm ci --prefix bench`);
  return file;
}

async function importPeer<T extends object>(name: string): Promise<T & { readonly default?: T }> {
  return (await import(pathToFileURL(find(name)).href)) as T & { readonly default?: T };
}

async function importOrt(name: string): Promise<Ort> {
  const loaded = await importPeer<Ort>(name);
  return loaded.InferenceSession === undefined ? loaded.default! : loaded;
}

/** onnxruntime-web with a number of threads. */
export async function onnxruntimeWeb(threads: number): Promise<Ort> {
  const ort = await importOrt('onnxruntime-web');
  ort.env.wasm.numThreads = threads;
  ort.env.logLevel = 'error';
  return ort;
}

/** onnxruntime-node; undefined where its package has no binary for this machine. Threads are an option of a session. */
export async function onnxruntimeNode(): Promise<Ort | undefined> {
  try {
    const ort = await importOrt('onnxruntime-node');
    ort.env.logLevel = 'error';
    return ort;
  } catch (error) {
    console.error(`onnxruntime-node does not run here: ${(error as Error).message}`);
    return undefined;
  }
}

/** TensorFlow.js on its WebAssembly backend, with a number of threads. */
export async function tensorflowWasm(threads: number): Promise<TensorFlow> {
  // The backend finds the core through require, so both come that way.
  const tf = require('@tensorflow/tfjs-core') as TensorFlow;
  const backend = require('@tensorflow/tfjs-backend-wasm') as {
    setWasmPaths(folder: string): void;
    setThreadsCount(n: number): void;
  };
  backend.setWasmPaths(`${path.dirname(find('@tensorflow/tfjs-backend-wasm'))}${path.sep}`);
  backend.setThreadsCount(threads);
  await tf.setBackend('wasm');
  await tf.ready();
  return tf;
}
