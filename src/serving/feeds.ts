// What comes in with a `run()`: tensors by input name, checked against what the model declares before anything is copied.
// Any object with `type`, `data` and `dims` will do, so onnxruntime-common's tensors are taken as they are. Real programs
// are met halfway: extra feeds are ignored with one warning, a `[1]` stands for a declared scalar, and symbolic dimensions
// are not checked against each other (they are hints; the graph itself says when it cannot run).
import type { ValueType } from '../graph/graph.js';
import type { HostValue } from '../operators/operator.js';
import type { ModelInfo } from '../runtime/source.js';
import { formatShape, SkepError } from '../tensor/errors.js';
import { Tensor, type TensorData } from '../tensor/tensor.js';
import type { DataType } from '../tensor/types.js';

/** A tensor of Skep's, or one of the same shape: onnxruntime-common's. */
export interface TensorLike {
  readonly type: string;
  readonly data: unknown;
  readonly dims: readonly number[];
}

/** What an input may be fed: a tensor, a sequence of them, or null for an empty optional. */
export type FeedValue = TensorLike | readonly FeedValue[] | null;

/** Inputs by name. */
export type Feeds = Readonly<Record<string, FeedValue | undefined>>;

/** Feeds in the order of the model's inputs; undefined where an input has a default. `warn` hears of extra feeds. */
export function orderFeeds(info: ModelInfo, feeds: Feeds, warn: (message: string) => void): (HostValue | undefined)[] {
  if (typeof feeds !== 'object' || feeds === null || Array.isArray(feeds))
    throw new SkepError('INVALID_INPUT', 'run() takes an object of tensors by input name');
  const names = new Set(info.inputs.map((v) => v.name));
  const extra = Object.keys(feeds).filter((n) => !names.has(n));
  const values = info.inputs.map((input) => {
    const fed = Object.hasOwn(feeds, input.name) ? feeds[input.name] : undefined;
    if (fed === undefined) {
      if (input.optional) return undefined;
      const hint = extra.length === 0 ? '' : `; '${extra.join("', '")}' is no input of this model`;
      throw new SkepError('INVALID_INPUT', `input '${input.name}' is missing${hint}`);
    }
    const value = toHostValue(fed, input.name);
    return input.type === undefined ? value : matchType(value, input.type, `input '${input.name}'`);
  });
  if (extra.length > 0) warn(`ignored feeds that are no inputs of the model: ${extra.join(', ')}`);
  return values;
}

/** Indices of the wanted outputs; all of them when `names` is undefined. */
export function orderOutputs(info: ModelInfo, names: readonly string[] | undefined): number[] {
  if (names === undefined) return info.outputs.map((_, i) => i);
  return names.map((name) => {
    const i = info.outputs.findIndex((o) => o.name === name);
    if (i < 0)
      throw new SkepError(
        'INVALID_INPUT',
        `the model has no output '${name}'; it has '${info.outputs.map((o) => o.name).join("', '")}'`,
      );
    return i;
  });
}

function toHostValue(fed: FeedValue, name: string): HostValue {
  if (fed instanceof Tensor) {
    if (fed.size > 0 && fed.data.length === 0)
      throw new SkepError('INVALID_INPUT', `the data of input '${name}' is gone: its buffer was transferred`);
    return fed;
  }
  if (fed === null) return fed;
  if (Array.isArray(fed)) return fed.map((x: FeedValue) => toHostValue(x, name));
  const like = fed as TensorLike;
  if (typeof like !== 'object' || typeof like.type !== 'string' || !Array.isArray(like.dims) || like.data === undefined)
    throw new SkepError(
      'INVALID_INPUT',
      `input '${name}' must be a Tensor, got ${typeof fed === 'object' ? fed.constructor.name : typeof fed}`,
    );
  try {
    return new Tensor(like.type as DataType, like.data as TensorData, like.dims);
  } catch (error) {
    throw new SkepError('INVALID_INPUT', `input '${name}': ${(error as Error).message}`, { cause: error });
  }
}

/** The value, perhaps seen as a scalar; throws when it is not what is declared. */
function matchType(value: HostValue, want: ValueType, what: string): HostValue {
  switch (want.kind) {
    case 'tensor': {
      if (!(value instanceof Tensor)) throw mismatch(what, want, value);
      if (value.type !== want.type) throw mismatch(what, want, value);
      const { dims } = want;
      if (dims === undefined) return value;
      if (dims.length === 0 && value.size === 1)
        return value.dims.length === 0 ? value : new Tensor(value.type, value.data, []);
      if (
        dims.length !== value.dims.length ||
        dims.some((d, i) => typeof d === 'number' && d >= 0 && d !== value.dims[i])
      )
        throw mismatch(what, want, value);
      return value;
    }
    case 'sequence':
      if (!Array.isArray(value)) throw mismatch(what, want, value);
      return value.map((x: HostValue, i) => matchType(x, want.element, `${what}[${i}]`));
    case 'optional':
      return value === null ? null : matchType(value, want.element, what);
    case 'map':
      throw new SkepError('UNSUPPORTED', `${what}: maps are not supported`);
    default:
      return want satisfies never;
  }
}

function mismatch(what: string, want: ValueType, got: HostValue): SkepError {
  return new SkepError('INVALID_INPUT', `${what}: expected ${formatType(want)}, got ${formatValue(got)}`);
}

/** `float32 of shape [batch, 3, 224, 224]`. */
export function formatType(type: ValueType): string {
  switch (type.kind) {
    case 'tensor':
      return type.dims === undefined ? type.type : `${type.type} of shape ${formatShape(type.dims)}`;
    case 'sequence':
      return `a sequence of ${formatType(type.element)}`;
    case 'optional':
      return `an optional ${formatType(type.element)}`;
    case 'map':
      return `a map from ${type.key} to ${formatType(type.value)}`;
    default:
      return type satisfies never;
  }
}

function formatValue(value: HostValue): string {
  if (value === null) return 'an empty optional';
  if (value instanceof Tensor) return `${value.type} of shape ${formatShape(value.dims)}`;
  return `a sequence of ${value.length}`;
}
