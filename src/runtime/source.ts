// Where a model comes from, and what crosses threads about it: an instance reads the file or the bytes for itself, checks
// its operators, and tells the caller's side what goes in and out. What instances then do is in serving/.
import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs';
import path from 'node:path';
import type { CompileOptions } from '../compiler/plan.js';
import { Program } from '../compiler/program.js';
import type { Model, ValueInfo } from '../graph/graph.js';
import { readModel } from '../onnx/reader.js';
import { ignoredIn, resolve } from '../operators/evaluate.js';
import { type ErrorCode, SkepError } from '../tensor/errors.js';

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
  /** Attributes that operators do not have, by node. */
  readonly ignored: readonly string[];
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

/** What changes when a file does; the same for instances that have read the same model. */
export function fingerprintOf(source: Source): string {
  if (source.kind === 'bytes') return '';
  const stat = statSync(source.path, { throwIfNoEntry: false });
  return stat === undefined ? 'absent' : `${stat.ino} ${stat.size} ${stat.mtimeMs}`;
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
  return { inputs, outputs: graph.outputs, opsets, producer, metadata, ignored: ignoredIn(graph) };
}

/** Makes the program an instance runs. */
export function programOf(
  model: Model,
  options: CompileOptions,
  constants: ConstructorParameters<typeof Program>[2],
): Program {
  return new Program(model.graph, options, constants);
}
