// Models and values on disk, as commands name them.
import { existsSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import type { Model, ValueType } from '../graph/graph.js';
import type { HostValue } from '../operators/operator.js';
import { readModelFile as readModel } from '../runtime/source.js';
import { encode } from '../tensor/convert.js';
import { formatShape, SkepError } from '../tensor/errors.js';
import { readNpy } from '../tensor/npy.js';
import { readValueProto } from '../tensor/sequence-proto.js';
import { sizeOf } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import { UsageError } from './command.js';

/** What the operating system's refusals mean. */
const refusals: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file or folder',
  EISDIR: 'is a folder, not a file',
  ENOTDIR: 'is a file, not a folder',
  EEXIST: 'is a file, not a folder',
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EROFS: 'the file system is read-only',
  ENOSPC: 'no space is left on the device',
  EMFILE: 'too many files are open',
  ELOOP: 'too many links lead to it',
  ENAMETOOLONG: 'the name is too long',
};

/** A failed system call in words, with the file: `out: is a file, not a folder`; undefined for any other error. */
export function inWords(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code, path: file, syscall, message } = error as NodeJS.ErrnoException;
  if (code === undefined || syscall === undefined) return undefined;
  return `${file === undefined ? '' : `${file}: `}${refusals[code] ?? message}`;
}

/** Reads a file; the error says which. */
export function readBytes(file: string): Uint8Array {
  try {
    return readFileSync(file);
  } catch (cause) {
    // Reading a folder fails without naming it.
    const refusal = refusals[(cause as NodeJS.ErrnoException).code ?? ''];
    throw new SkepError('INVALID_INPUT', `${file}: ${refusal ?? (cause as Error).message}`, { cause });
  }
}

/** Throws, in words, when a model's file cannot be there; what is in it is for the reader to say. */
export function checkModelFile(file: string): void {
  let folder: boolean;
  try {
    folder = statSync(file).isDirectory();
  } catch (cause) {
    throw new SkepError('INVALID_INPUT', inWords(cause) ?? `${file}: ${(cause as Error).message}`, { cause });
  }
  if (folder) throw new SkepError('INVALID_INPUT', `${file}: is a folder, not a model file`);
}

/** Reads a model with its external data beside it; errors name the file. */
export function readModelFile(file: string): Model {
  checkModelFile(file);
  return within(file, () => readModel(file));
}

/** Splits `NAME=REST` at the first `=`. Throws UsageError. */
export function splitAssignment(text: string, option: string): [name: string, rest: string] {
  const at = text.indexOf('=');
  if (at <= 0) throw new UsageError(`--${option} must be NAME=…, got '${text}'`);
  return [text.slice(0, at), text.slice(at + 1)];
}

/**
 * The value of an input as a command names it: a .npy file, a .pb file (TensorProto, or what `type` says), or a literal:
 * `16000`, `true`, `[1, 2, 3]`, nested as deep as the shape.
 */
export function readInput(text: string, type: ValueType | undefined): HostValue {
  const extension = path.extname(text).toLowerCase();
  if (extension === '.npy') return within(text, () => readNpy(readBytes(text)));
  if (extension === '.pb') return within(text, () => readValueProto(readBytes(text), type?.kind ?? 'tensor'));
  if (existsSync(text)) throw new UsageError(`'${text}' must be a .npy or .pb file`);
  let literal: unknown;
  try {
    literal = JSON.parse(text);
  } catch {
    throw new UsageError(`'${text}' is neither a file nor a value`);
  }
  return tensorOf(literal, type, text);
}

function tensorOf(literal: unknown, type: ValueType | undefined, text: string): Tensor {
  if (type !== undefined && type.kind !== 'tensor')
    throw new UsageError(`a ${type.kind} cannot be written as '${text}'`);
  const dims: number[] = [];
  for (let x = literal; Array.isArray(x); x = x[0]) dims.push(x.length);
  const flat: unknown[] = [];
  const visit = (x: unknown, depth: number): void => {
    if (depth === dims.length) {
      flat.push(x);
      return;
    }
    if (!Array.isArray(x) || x.length !== dims[depth]) throw new UsageError(`'${text}' is ragged`);
    for (const item of x) visit(item, depth + 1);
  };
  visit(literal, 0);
  const element = type?.type ?? 'float32';
  if (element === 'string') return new Tensor('string', flat.map(String), dims);
  if (!flat.every((x) => typeof x === 'number' || typeof x === 'boolean'))
    throw new UsageError(`'${text}' must hold numbers`);
  if (flat.length !== sizeOf(dims)) throw new UsageError(`'${text}' is no tensor of shape ${formatShape(dims)}`);
  return new Tensor(element, encode(element, flat.map(Number)), dims);
}

/** Puts the file's name into the error. */
export function within<T>(file: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof SkepError) || error.message.startsWith(file)) throw error;
    throw new SkepError(error.code, `${file}: ${error.message}`, { cause: error });
  }
}
