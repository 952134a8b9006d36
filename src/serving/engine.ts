// Engine: what models share. A thread budget, compiled kernels, a pool of memories that closed models leave (V8 does not
// see shared memories as garbage, so they are reused rather than dropped), and the defaults. `load` without an engine uses
// one made on first use.
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { type WeightType, weightTypes } from '../kernels/int8.js';
import { type Build, canRun, defaultBuild } from '../kernels/module.js';
import type { Slo } from '../optimizer/choose.js';
import type { Configuration } from '../optimizer/configuration.js';
import { newMemory } from '../runtime/memory.js';
import type { Source } from '../runtime/source.js';
import { SkepError } from '../tensor/errors.js';
import { checkGroups } from './groups.js';
import { Host, type PooledMemory, type ServedGroup } from './host.js';
import { Model } from './model.js';
import { type PreparedKernels, prepareKernels } from './prepare.js';
import { checkObjective, type TuneObjective } from './tuning.js';

/** Options of an engine. */
export interface EngineOptions {
  /** Threads that models may use together; default: what the process may use (`os.availableParallelism()`). */
  readonly threads?: number;
  /** The kernels' build. Default: the fastest this runtime runs by itself; `plain` gives the same bits everywhere. */
  readonly build?: Build;
  /**
   * Use 256-bit instructions where V8 can make them (Node 24, x64): up to twice as fast, through a pass of V8 that is
   * experimental and that this switches on for the whole process. The kernels are tested against the plain ones first;
   * when they fail, or there is no such pass, the engine does without and says why: see `kernels()`. Default false.
   */
  readonly wide?: boolean;
  /** Bytes of memory kept of closed models for the next ones; default 1 GiB. */
  readonly poolBytes?: number;
}

/** Options of a model. */
export interface LoadOptions {
  /**
   * How the weights of matrix products (MatMul, Gemm) and recurrent layers (LSTM, GRU, RNN) are kept. `int8`: a quarter of
   * the memory, a scale a column, for work on few rows that is bound by reading weights; answers differ by some tenths of a
   * percent. `float16`: half the memory, a hundredth of that error; quicker only where memory is slow, for weights are made
   * floats as they are read. `skep inspect --weights TYPE` shows how far weights move. Default `float32`.
   */
  readonly weights?: WeightType;
  /** A name for errors and statistics; default: the file's. */
  readonly name?: string;
  /**
   * How it is served: groups of equal instances. Default: one instance with one thread, that computes concurrent requests
   * together where the proof allows it (`model.batching`), in batches that grow as long as it pays. With `batch: 1` it never
   * does. It can be changed while it serves: `model.configure`. `'auto'`: it starts with one instance that has all threads;
   * when there is a profile (stored, of `model.tune`, or measured by itself while no requests come) it follows the load.
   */
  readonly configuration?: Configuration | 'auto';
  /**
   * With `'auto'`: what the configuration is to be good for. Default `mean`: the least mean latency. `threads` (the fewest
   * that keep `slo`) and `throughput` need `slo`; `makespan`: the batch that is usually waiting, as fast as possible.
   */
  readonly objective?: TuneObjective;
  /** What latency must stay below, ms. */
  readonly slo?: Slo;
  /**
   * False: 3×3 convolutions are computed without Winograd's minimal filtering: two to three times slower, with errors of
   * about 1e-7 of the largest output in place of some 1e-6, and no output of NaN beside an input of infinity that it does
   * not see. Default true.
   */
  readonly winograd?: boolean;
  /** Requests waiting or running at most; one more is refused with `OVERLOADED`. Default 1,000. */
  readonly maxQueue?: number;
}

/** Where a model is: a path, a file: URL, or the bytes of an ONNX file. */
export type ModelSource = string | URL | Uint8Array | ArrayBuffer;

const POOL_BYTES = 2 ** 30;
const MAX_QUEUE = 1000;

export class Engine {
  /** The thread budget. */
  readonly threads: number;
  readonly build: Build;
  readonly #poolBytes: number;
  readonly #pool: PooledMemory[] = [];
  readonly #models = new Set<Model>();
  readonly #wide: boolean;
  #kernels: Promise<PreparedKernels> | undefined;
  #closed = false;

  constructor(options: EngineOptions = {}) {
    checkOptions(options, 'new Engine');
    const { threads = availableParallelism(), build = defaultBuild(), wide = false, poolBytes = POOL_BYTES } = options;
    if (!Number.isInteger(threads) || threads < 1)
      throw new SkepError('INVALID_INPUT', `threads must be a positive integer, got ${threads}`);
    if (build !== 'plain' && build !== 'fma')
      throw new SkepError('INVALID_INPUT', `build must be 'plain' or 'fma', got '${String(build)}'`);
    if (!canRun(build))
      throw new SkepError('UNSUPPORTED', `this runtime cannot run the '${build}' build of the kernels`);
    this.threads = threads;
    this.build = build;
    this.#wide = wide;
    this.#poolBytes = poolBytes;
  }

  /** The models open now. */
  get models(): readonly Model[] {
    return [...this.#models];
  }

  /**
   * Loads a model and starts its instances. Rejects with `INVALID_INPUT` (no such file), `INVALID_MODEL`, `UNSUPPORTED`
   * (an operator or version Skep does not have), `OUT_OF_MEMORY`.
   */
  async load(source: ModelSource, options: LoadOptions = {}): Promise<Model> {
    if (this.#closed) throw new SkepError('CLOSED', 'the engine is closed');
    checkOptions(options, 'load');
    const { maxQueue = MAX_QUEUE } = options;
    if (!Number.isInteger(maxQueue) || maxQueue < 1)
      throw new SkepError('INVALID_INPUT', `maxQueue must be a positive integer, got ${maxQueue}`);
    const { weights = 'float32', winograd = true } = options;
    if (!weightTypes.includes(weights))
      throw new SkepError('INVALID_INPUT', `weights must be 'float32', 'float16' or 'int8', got '${String(weights)}'`);
    const auto = options.configuration === 'auto';
    const { objective = 'mean', slo } = options;
    checkObjective(objective, slo);
    const groups: readonly ServedGroup[] =
      options.configuration === undefined
        ? [{ instances: 1, threads: 1, batch: undefined }]
        : auto
          ? [{ instances: 1, threads: this.threads, batch: undefined }]
          : checkGroups(options.configuration as Configuration, this.threads);
    const kernels = this.#prepare();
    const memory = this.#pool.pop() ?? { memory: newMemory(), stagingBytes: 0 };
    try {
      const read = await toSource(source);
      const { host, info } = await Host.start(read, {
        build: this.build,
        weights,
        kernels,
        winograd,
        groups,
        threads: this.threads,
        maxQueue,
        memory,
      });
      const name = options.name ?? nameOf(source);
      const onClosed = (left: PooledMemory | undefined) => {
        this.#models.delete(model);
        if (left !== undefined) this.#keep(left);
      };
      const { threads, build } = this;
      const variant = kernels.then(({ wide }) => ({ weights, winograd, build, wide: wide !== undefined }));
      const model = new Model({
        ...{ name, host, info, source: read, variant, build, threads, maxQueue, onClosed },
        ...{ auto, objective, slo },
      });
      this.#models.add(model);
      const { ignored } = info;
      if (ignored.length > 0) {
        const more = ignored.length > 3 ? ` and ${ignored.length - 3} more nodes` : '';
        const said = `${ignored.slice(0, 3).join('; ')}${more}`;
        process.emitWarning(`model '${name}': attributes that operators do not have are ignored: ${said}`, {
          type: 'SkepWarning',
        });
      }
      return model;
    } catch (error) {
      // A model that does not load has written nothing.
      this.#keep(memory);
      // Made anew here, after the await, so that its stack shows the caller.
      if (error instanceof SkepError)
        throw new SkepError(error.code, `${nameOf(source)}: ${error.message}`, { cause: error });
      throw error;
    }
  }

  /** Which kernels the engine uses: the build, and whether as 256-bit instructions; if not though asked for, why not. */
  async kernels(): Promise<{ readonly build: Build; readonly wide: boolean; readonly refused?: string }> {
    const { wide, refused } = await this.#prepare();
    return { build: this.build, wide: wide !== undefined, ...(refused !== undefined && { refused }) };
  }

  #prepare(): Promise<PreparedKernels> {
    if (this.#kernels === undefined) {
      this.#kernels = prepareKernels(this.build, this.#wide);
      this.#kernels.then(
        ({ refused }) => {
          if (refused !== undefined) process.emitWarning(`256-bit kernels are not used: ${refused}`, 'SkepWarning');
        },
        () => {},
      );
    }
    return this.#kernels;
  }

  /** Closes every model. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.models.map((m) => m.close()));
    this.#pool.length = 0;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Keeps a closed model's memory (its threads have zeroed it) within the pool's bound; the smallest go first. */
  #keep(memory: PooledMemory): void {
    this.#pool.push(memory);
    this.#pool.sort((a, b) => a.memory.buffer.byteLength - b.memory.buffer.byteLength);
    let total = this.#pool.reduce((n, m) => n + m.memory.buffer.byteLength, 0);
    while (total > this.#poolBytes) total -= this.#pool.shift()!.memory.buffer.byteLength;
  }
}

let defaultEngine: Engine | undefined;

/** Loads a model with the default engine: `const model = await load('model.onnx')`. */
export function load(source: ModelSource, options?: LoadOptions): Promise<Model> {
  defaultEngine ??= new Engine();
  return defaultEngine.load(source, options);
}

/** Bytes copied between two turns of the event loop. */
const COPY_CHUNK = 4 << 20;

function checkOptions(options: unknown, what: string): void {
  if (typeof options !== 'object' || options === null || Array.isArray(options))
    throw new SkepError(
      'INVALID_INPUT',
      `${what}: options must be an object, got ${Array.isArray(options) ? 'an array' : options === null ? 'null' : typeof options}`,
    );
}

/** The path that a text or URL means. Throws INVALID_INPUT for a URL of another scheme. */
function pathOf(source: string | URL): string {
  const scheme =
    source instanceof URL ? source.protocol : /^([a-z][a-z0-9+.-]+:)(?=\/\/)|^(data|blob|file):/i.exec(source)?.[0];
  // A drive letter is no scheme: those have two letters or more.
  if (scheme === undefined) return source as string;
  if (!/^file:$/i.test(scheme))
    throw new SkepError(
      'INVALID_INPUT',
      `a model is not loaded from a ${scheme} URL: get the bytes first, load(new Uint8Array(await (await fetch(url)).arrayBuffer()))`,
    );
  try {
    return fileURLToPath(source);
  } catch (cause) {
    throw new SkepError('INVALID_INPUT', `no file has this URL: ${(cause as Error).message}`, { cause });
  }
}

async function toSource(source: ModelSource): Promise<Source> {
  if (typeof source === 'string' || source instanceof URL) return { kind: 'file', path: path.resolve(pathOf(source)) };
  if (!(source instanceof Uint8Array || source instanceof ArrayBuffer))
    throw new SkepError('INVALID_INPUT', 'a model is loaded from a path, a file: URL, or the bytes of an ONNX file');
  if (source.byteLength === 0)
    throw new SkepError(
      'INVALID_INPUT',
      'the bytes of the model are empty: an empty file, or a buffer that was transferred to another thread',
    );
  const bytes = source instanceof Uint8Array ? source : new Uint8Array(source);
  const shared = new SharedArrayBuffer(bytes.length);
  const to = new Uint8Array(shared);
  for (let at = 0; at < bytes.length; at += COPY_CHUNK) {
    if (at > 0) await new Promise((resolve) => setImmediate(resolve));
    to.set(bytes.subarray(at, at + COPY_CHUNK), at);
  }
  return { kind: 'bytes', bytes: shared };
}

function nameOf(source: ModelSource): string {
  if (typeof source === 'string' || source instanceof URL) return path.basename(String(source));
  return 'model';
}
