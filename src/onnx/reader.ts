// Reads ONNX files: bytes → Model. Weights are views of the bytes (and of external data) where alignment allows, so the
// bytes must not change afterwards. The file is taken to be hostile: every length is checked before memory is taken for
// it, and an error says what is wrong and where. parse.ts knows the messages, link.ts what they mean together.
import type { Model } from '../graph/graph.js';
import { SkepError } from '../tensor/errors.js';
import type { ExternalReader } from '../tensor/tensor-proto.js';
import { link } from './link.js';
import { parseModel } from './parse.js';

/** How a model is read. */
export interface ReadOptions {
  /**
   * Gives the whole file of external data at `location`: a relative path with '/' that stays in the model's folder.
   * Called once a location. Without it, a model with external data is refused.
   */
  readonly externalData?: (location: string) => Uint8Array;
}

/**
 * Reads an ONNX model (ModelProto, IR versions 1 to 13, ai.onnx operator sets 1 to 27). Model-local functions are inlined,
 * sparse initializers made dense, nodes sorted. Throws `INVALID_MODEL` for what is not a valid model and `UNSUPPORTED`
 * for a newer format.
 */
export function readModel(bytes: Uint8Array, options: ReadOptions = {}): Model {
  // A Buffer's subarray and slice differ from a Uint8Array's.
  const plain = new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (plain.length === 0) throw new SkepError('INVALID_MODEL', 'not an ONNX model: it is empty');
  const mistaken = recognize(plain);
  if (mistaken !== undefined) throw new SkepError('INVALID_MODEL', `not an ONNX model: ${mistaken}`);
  return link(parseModel(plain, externalReader(options.externalData)));
}

/** Files that are often there in a model's place. */
function recognize(bytes: Uint8Array): string | undefined {
  const head = String.fromCharCode(...bytes.subarray(0, 64));
  if (head.startsWith('version https://git-lfs'))
    return 'it is a Git LFS pointer; fetch the file itself (git lfs pull)';
  if (/^\s*<(!doctype|html|\?xml)/i.test(head)) return 'it is a web page';
  if (head.startsWith('PK\x03\x04')) return 'it is a zip archive (a PyTorch checkpoint is one)';
  if (head.slice(4, 8) === 'ORTM') return 'it is in the ORT format; convert it back to ONNX';
  if (head.slice(4, 8) === 'TFL3') return 'it is a TensorFlow Lite model';
  return undefined;
}

function externalReader(files: ReadOptions['externalData']): ExternalReader {
  const opened = new Map<string, Uint8Array>();
  // Tensors that do not lie at their alignment are copied; overlapping ones could ask for any amount.
  const copied = new Map<string, number>();
  return ({ location, offset, length }, tensor) => {
    checkLocation(location, tensor);
    if (files === undefined)
      throw new SkepError(
        'INVALID_INPUT',
        `tensor '${tensor}' is in the file '${location}' beside the model: load the model by its path, or give externalData`,
      );
    let file = opened.get(location);
    if (file === undefined) {
      const found = files(location);
      if (!(found instanceof Uint8Array))
        throw new SkepError('INVALID_INPUT', `externalData('${location}') must give a Uint8Array`);
      file = new Uint8Array(found.buffer, found.byteOffset, found.byteLength);
      opened.set(location, file);
    }
    if (offset + length > file.length)
      throw new SkepError(
        'INVALID_MODEL',
        `tensor '${tensor}': needs bytes ${offset} to ${offset + length} of '${location}', which has ${file.length}`,
      );
    if ((file.byteOffset + offset) % 16 !== 0) {
      const total = (copied.get(location) ?? 0) + length;
      if (total > 2 * file.length)
        throw new SkepError(
          'INVALID_MODEL',
          `tensor '${tensor}': '${location}' is read over and over, out of alignment`,
        );
      copied.set(location, total);
    }
    return file.subarray(offset, offset + length);
  };
}

/** External data may not leave the model's folder, on any platform. */
function checkLocation(location: string, tensor: string): void {
  const parts = location.split('/');
  if (location.startsWith('/') || /[\\:\0]/.test(location) || parts.includes('..'))
    throw new SkepError(
      'INVALID_MODEL',
      `tensor '${tensor}': external data at '${location}' would be outside the model's folder`,
    );
}
