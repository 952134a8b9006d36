// Models and values on disk, as commands name them.
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { Model, ValueType } from '../graph/graph.js';
import { readModel } from '../onnx/reader.js';
import type { HostValue } from '../operators/operator.js';
import { encode } from '../tensor/convert.js';
import { formatShape, SkepError } from '../tensor/errors.js';
import { readNpy } from '../tensor/npy.js';
import { readValueProto } from '../tensor/sequence-proto.js';
import { sizeOf } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import { UsageError } from './command.js';

/** Reads a file; the error says which. */
export function readBytes(file: string): Uint8Array {
  try {
    return readFileSync(file);
  } catch (cause) {
    const why = (cause as NodeJS.ErrnoException).code === 'ENOENT' ? 'there is no such file' : (cause as Error).message;
    throw new SkepError('INVALID_INPUT', `${file}: ${why}`, { cause });
  }
}

/** Reads a model with its external data beside it. */
export function readModelFile(file: string): Model {
  const folder = path.dirname(file);
  return readModel(readBytes(file), { externalData: (location) => readBytes(path.join(folder, location)) });
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
