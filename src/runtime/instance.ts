// What an instance's leader does for its whole life: read the model, say what it is, then take requests from the channel,
// oldest first, run the program, write the answers, until the channel is closed. It waits on the channel's bell, never on
// its event loop. Starting threads and resolving promises is host.ts, on the caller's side.
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import path from 'node:path';
import type { CompileOptions } from '../compiler/plan.js';
import { Program } from '../compiler/program.js';
import type { Model, ValueInfo } from '../graph/graph.js';
import { readModel } from '../onnx/reader.js';
import { resolve } from '../operators/evaluate.js';
import { type ErrorCode, SkepError } from '../tensor/errors.js';
import { Tensor } from '../tensor/tensor.js';
import { type Channel, Status } from './channel.js';
import { Executor } from './executor.js';
import type { Heap, ModelMemory } from './memory.js';
import type { TeamLeader } from './team.js';
import { readValues, writeValues } from './wire.js';

/** Where a model comes from, as an instance gets it. */
export type Source =
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'bytes'; readonly bytes: SharedArrayBuffer };

/** What the caller's side needs to know of a model. */
export interface ModelInfo {
  readonly inputs: readonly (ValueInfo & { readonly optional: boolean })[];
  readonly outputs: readonly ValueInfo[];
  readonly opsets: ReadonlyMap<string, number>;
  readonly producer: string;
  readonly metadata: ReadonlyMap<string, string>;
}

/** An error as it crosses threads. */
export interface PlainError {
  readonly code: ErrorCode;
  readonly message: string;
}

/** Any error as plain data; what is no SkepError is a bug of Skep's and says so. */
export function plainError(error: unknown): PlainError {
  if (error instanceof SkepError) return { code: error.code, message: error.message };
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { code: 'INTERNAL', message: `an internal error: ${text}` };
}

/** Reads the model and checks that every operator outside branches is known. */
export function openModel(source: Source): Model {
  const model = source.kind === 'bytes' ? readModel(new Uint8Array(source.bytes)) : readModelFile(source.path);
  // A branch that is never taken may hold what it likes; it is judged when it is compiled.
  for (const node of model.graph.nodes) resolve(node);
  return model;
}

/**
 * Reads a model file; tensors stored beside it are read from its folder and nowhere else. A model that is a link has two:
 * the link's and that of the file it leads to (Hugging Face's cache keeps links to files in a folder of blobs).
 */
export function readModelFile(file: string): Model {
  let bytes: Uint8Array;
  try {
    bytes = readFileSync(file);
  } catch (cause) {
    throw new SkepError('INVALID_INPUT', `cannot read the model: ${(cause as Error).message}`, { cause });
  }
  return readModel(bytes, { externalData: (location) => readBeside(file, location) });
}

function readBeside(file: string, location: string): Uint8Array {
  try {
    const folders = [realpathSync(path.dirname(path.resolve(file))), path.dirname(realpathSync(file))];
    const named = folders.map((f) => path.resolve(f, location));
    const target = realpathSync(named.find((f) => existsSync(f)) ?? named[0]!);
    if (!folders.some((f) => target.startsWith(f.endsWith(path.sep) ? f : f + path.sep)))
      throw new Error(`'${location}' leaves the model's folder`);
    return readFileSync(target);
  } catch (cause) {
    throw new SkepError('INVALID_MODEL', `cannot read the model's external data: ${(cause as Error).message}`, {
      cause,
    });
  }
}

/** The part of a model the caller's side needs. */
export function infoOf(model: Model): ModelInfo {
  const { graph, opsets, producer, metadata } = model;
  const inputs = graph.inputs
    // Old files list every weight as an input too.
    .filter((v) => model.irVersion >= 4 || !graph.initializers.has(v.name))
    .map((v) => ({ ...v, optional: graph.initializers.has(v.name) }));
  return { inputs, outputs: graph.outputs, opsets, producer, metadata };
}

/** What a leader works with. */
export interface InstanceParts {
  readonly index: number;
  readonly model: Model;
  readonly program: Program;
  readonly channel: Channel;
  readonly memory: ModelMemory;
  readonly heap: Heap;
  readonly team: TeamLeader;
  /** Wakes the caller's thread. */
  readonly wake: () => void;
}

/** Serves requests until the channel is closed. */
export function serve(parts: InstanceParts): void {
  const { index, model, program, channel, memory, heap, team, wake } = parts;
  const executor = new Executor(memory, team, heap);
  const info = infoOf(model);
  const inputs = info.inputs.map((v) => v.name);
  const outputs = info.outputs.map((v) => v.name);
  /** Answers the caller may still be reading. */
  let outstanding: { slot: number; generation: number; address: number }[] = [];
  const reclaim = () => {
    outstanding = outstanding.filter(({ slot, generation, address }) => {
      const released = channel.released(slot, generation);
      if (released) heap.free(address);
      return !released;
    });
  };
  const finish = (slot: number, status: Status, address: number) => {
    if (address !== 0) outstanding.push({ slot, generation: channel.generation(slot), address });
    if (channel.finish(slot, status, address)) wake();
  };
  for (let slot = channel.take(reclaim); slot >= 0; slot = channel.take(reclaim)) {
    reclaim();
    if (!channel.start(slot, index)) {
      finish(slot, Status.cancelled, 0);
      continue;
    }
    try {
      const values = readValues(memory, channel.request(slot));
      const wanted = (executor.toHost(values.pop()!) as Tensor).data as Int32Array;
      const names = Array.from(wanted, (i) => outputs[i]!);
      const feeds = new Map(inputs.flatMap((name, i) => (values[i] === undefined ? [] : [[name, values[i]] as const])));
      const beforeStep = () => {
        if (channel.aborted(slot)) throw new Aborted();
      };
      const answer = executor.run(program, feeds, names, (found) => writeValues(memory, heap, found), beforeStep);
      finish(slot, Status.answered, answer);
    } catch (error) {
      if (error instanceof Aborted) finish(slot, Status.cancelled, 0);
      else finish(slot, Status.failed, writeError(memory, heap, error));
    }
  }
}

/** Stops a run between two steps. */
class Aborted extends Error {}

function writeError(memory: ModelMemory, heap: Heap, error: unknown): number {
  return writeValues(memory, heap, [new Tensor('string', [JSON.stringify(plainError(error))], [])]);
}

/** Makes the program an instance runs. */
export function programOf(
  model: Model,
  options: CompileOptions,
  constants: ConstructorParameters<typeof Program>[2],
): Program {
  return new Program(model.graph, options, constants);
}
