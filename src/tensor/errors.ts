// The one error class of Skep. Every failure that a user can meet is a SkepError with a `code` to branch on and a message
// in words. Messages are built where the facts are known, with the helpers here, so that they all read alike:
// `Conv 'conv1': expected W of shape [64, 3, 7, 7], got [64, 3, 7]`.

/**
 * What kind of failure it is:
 * - `INVALID_MODEL`: the file is not a model, or a node of it breaks its operator's rules;
 * - `UNSUPPORTED`: a valid model that needs an operator, type or size Skep does not have;
 * - `INVALID_INPUT`: a feed, option or argument is wrong;
 * - `OUT_OF_MEMORY`: the model's WebAssembly memory or the engine's budget is full;
 * - `ABORTED`, `TIMEOUT`, `OVERLOADED`, `CLOSED`: how a request ended without an answer;
 * - `INTERNAL`: a bug in Skep.
 */
export type ErrorCode =
  | 'INVALID_MODEL'
  | 'UNSUPPORTED'
  | 'INVALID_INPUT'
  | 'OUT_OF_MEMORY'
  | 'ABORTED'
  | 'TIMEOUT'
  | 'OVERLOADED'
  | 'CLOSED'
  | 'INTERNAL';

/** An error with words and a `code`. `name` is `AbortError`/`TimeoutError` for those two codes, as the web platform has it. */
export class SkepError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.name = code === 'ABORTED' ? 'AbortError' : code === 'TIMEOUT' ? 'TimeoutError' : 'SkepError';
  }
}

/** `[1, 3, 224, 224]`; unknown dimensions as `?`. */
export function formatShape(dims: readonly (number | string | null)[]): string {
  return `[${dims.map((d) => d ?? '?').join(', ')}]`;
}

/** `Conv 'conv1'`, or `Conv (node 12)` when the node has no name. */
export function formatNode(node: { readonly op: string; readonly name: string; readonly index?: number }): string {
  if (node.name !== '') return `${node.op} '${node.name}'`;
  return node.index === undefined ? node.op : `${node.op} (node ${node.index})`;
}
