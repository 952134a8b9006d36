// Contenders of a contest: one ONNX model and its inputs, run by Skep through its public API and by the peers through
// theirs. Tensors are made anew for every call and results read, as a user's program does.
import { readFileSync } from 'node:fs';
import { type DataType, Engine, type Model, Tensor } from '../../src/index.js';
import type { Contender } from './contest.js';
import { type Ort, onnxruntimeNode, onnxruntimeWeb, type TensorFlow, type TfTensor, tensorflowWasm } from './peers.js';

/** An input as a user has it. */
export interface Feed {
  readonly type: DataType;
  readonly data: Float32Array | Uint8Array | Int8Array | BigInt64Array;
  readonly dims: readonly number[];
}

/** A piece of work: a model, what goes in, and, where TensorFlow.js has such an operator, the same with it. */
export interface Work {
  readonly name: string;
  readonly model: Uint8Array | string;
  readonly feeds: Readonly<Record<string, Feed>>;
  /** Options of Skep's load. */
  readonly load?: Parameters<Engine['load']>[1];
  tensorflow?(tf: TensorFlow): { run(): TfTensor; close(): void };
}

/** The engines under test, each with one thread. */
export class Engines {
  readonly skep: Engine;
  readonly #web: Ort | undefined;
  readonly #node: Ort | undefined;
  readonly #tensorflow: TensorFlow | undefined;

  private constructor(skep: Engine, web: Ort | undefined, node: Ort | undefined, tensorflow: TensorFlow | undefined) {
    this.skep = skep;
    this.#web = web;
    this.#node = node;
    this.#tensorflow = tensorflow;
  }

  /** `peers` are those wanted of: web, node, tfjs. */
  static async open(peers: ReadonlySet<string>, build?: 'plain' | 'fma', wide = false): Promise<Engines> {
    // In this order: both register a backend `cpu`, and the first to do so keeps it.
    const node = peers.has('node') ? await onnxruntimeNode() : undefined;
    const web = peers.has('web') ? await onnxruntimeWeb(1) : undefined;
    const tensorflow = peers.has('tfjs') ? await tensorflowWasm(1) : undefined;
    const skep = new Engine({ wide, ...(build && { build }) });
    if (wide) {
      const { refused } = await skep.kernels();
      if (refused !== undefined) throw new Error(`no 256-bit kernels here: ${refused}`);
    }
    return new Engines(skep, web, node, tensorflow);
  }

  /** Everyone who can do this work; Skep first. */
  async contenders(work: Work): Promise<Contender[]> {
    const contenders = [await this.skepOf(work)];
    if (this.#web !== undefined) contenders.push(await ortContender('onnxruntime-web', 'wasm', this.#web, work));
    if (this.#node !== undefined) contenders.push(await ortContender('onnxruntime-node', 'cpu', this.#node, work));
    if (this.#tensorflow !== undefined && work.tensorflow !== undefined)
      contenders.push(tensorflowContender(this.#tensorflow, work));
    return contenders;
  }

  async skepOf(work: Work): Promise<Contender> {
    return skepContender(await this.skep.load(work.model, work.load), work);
  }

  close(): Promise<void> {
    return this.skep.close();
  }
}

function skepContender(model: Model, { feeds }: Work): Contender {
  const first = model.outputs[0]!.name;
  return {
    name: 'skep',
    run: async () => {
      const tensors = Object.entries(feeds).map(([n, f]) => [n, new Tensor(f.type, f.data as never, f.dims)] as const);
      return (await model.run(Object.fromEntries(tensors)))[first].data as ArrayLike<number>;
    },
    close: () => model.close(),
  };
}

/** Both onnxruntimes register their backends in one table, so each session says which it means. */
async function ortContender(name: string, provider: string, ort: Ort, { model, feeds }: Work): Promise<Contender> {
  const bytes = typeof model === 'string' ? readFileSync(model) : model;
  const session = await ort.InferenceSession.create(bytes, {
    executionProviders: [provider],
    intraOpNumThreads: 1,
    interOpNumThreads: 1,
    logSeverityLevel: 3,
  });
  const tensorsOf = () =>
    Object.fromEntries(Object.entries(feeds).map(([n, f]) => [n, new ort.Tensor(f.type, f.data, f.dims)]));
  return {
    name,
    run: async () => Object.values(await session.run(tensorsOf()))[0]!.data,
    close: () => session.release(),
  };
}

function tensorflowContender(tf: TensorFlow, work: Work): Contender {
  const { run, close } = work.tensorflow!(tf);
  return {
    name: 'tfjs-wasm',
    run: async () => {
      const y = run();
      const data = y.dataSync();
      y.dispose();
      return data;
    },
    close: async () => close(),
  };
}
