// Requests made up for a model: inputs of the declared shapes with numbers from a seed. Dimensions that have a name get a
// size by it; one of them may be a request's length; and the batch axis may have several rows, for policies that put whole
// requests together.
import type { ValueType } from '../graph/graph.js';
import type { FeedValue, Model } from '../index.js';
import { Random } from '../simulator/random.js';
import { encode } from '../tensor/convert.js';
import { SkepError } from '../tensor/errors.js';
import { sizeOf } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import { type DataType, dataTypes, typeInfo } from '../tensor/types.js';
import { UsageError } from './command.js';
import { readInput, splitAssignment } from './files.js';

export interface RequestOptions {
  /** Sizes of named dimensions; 1 for those not given. */
  readonly dims: Readonly<Record<string, number>>;
  /** `NAME=FILE`, `NAME=VALUE`, or `NAME=@DIM`: filled with the size of that dimension. */
  readonly inputs: readonly string[];
  /** The dimension that lengths are of; undefined: the likeliest. */
  readonly lengthOf: string | undefined;
  readonly hasLengths: boolean;
  readonly seed: number;
}

type Feeds = Record<string, FeedValue>;

/** Names of dimensions that are lengths, likeliest first. */
const LENGTHS = ['sequence', 'seq', 'time', 'steps', 'length', 'frames', 'tokens'];
/** Bytes of requests that are kept to be sent again. */
const KEPT = 256e6;

export class RequestMaker {
  /** The dimension that lengths are of. */
  readonly lengthOf: string | undefined;
  readonly #model: Model;
  readonly #dims: Readonly<Record<string, number>>;
  readonly #given = new Map<string, string>();
  readonly #random: Random;
  readonly #kept = new Map<string, Feeds>();
  #bytes = 0;

  /** Throws UsageError where an option does not fit the model. */
  constructor(model: Model, options: RequestOptions) {
    this.#model = model;
    this.#random = new Random(options.seed);
    const names = new Set(model.inputs.flatMap((i) => i.shape ?? []).filter((d): d is string => typeof d === 'string'));
    const known = names.size === 0 ? 'none' : [...names].join(', ');
    for (const name of [...Object.keys(options.dims), ...(options.lengthOf === undefined ? [] : [options.lengthOf])])
      if (!names.has(name)) throw new UsageError(`the model has no dimension '${name}'; it has ${known}`);
    this.#dims = options.dims;
    for (const text of options.inputs) {
      const [name, value] = splitAssignment(text, 'input');
      if (!model.inputs.some((i) => i.name === name))
        throw new UsageError(`--input ${text}: the model has inputs ${model.inputs.map((i) => i.name).join(', ')}`);
      if (value.startsWith('@') && !names.has(value.slice(1)))
        throw new UsageError(`--input ${text}: the model has no dimension '${value.slice(1)}'; it has ${known}`);
      this.#given.set(name, value);
    }
    if (!options.hasLengths) return;
    const open = [...names].filter((n) => !Object.hasOwn(options.dims, n));
    const likely = open.filter((n) => LENGTHS.some((l) => n.toLowerCase().includes(l)));
    const others = open.filter((n) => !/^(n|batch\w*)$/i.test(n));
    this.lengthOf = options.lengthOf ?? likely[0] ?? others[0];
    if (this.lengthOf === undefined)
      throw new UsageError(`--lengths: the model has no open dimension for them; it has ${known}`);
  }

  /** A request of a length, or `rows` of them along the given axes (by input). */
  feeds(length: number | undefined, rows = 1, axes: Readonly<Record<string, number | null>> = {}): Feeds {
    const key = `${length} ${rows}`;
    const kept = this.#kept.get(key);
    if (kept !== undefined) return kept;
    const feeds: Feeds = Object.create(null);
    for (const input of this.#model.inputs) {
      if (input.optional && !this.#given.has(input.name)) continue;
      const value = this.#value(input, length, rows, axes[input.name] ?? undefined);
      feeds[input.name] = value;
      if (value instanceof Tensor) this.#bytes += value.size * 8;
    }
    if (this.#bytes < KEPT) this.#kept.set(key, feeds);
    return feeds;
  }

  #value(
    input: Model['inputs'][number],
    length: number | undefined,
    rows: number,
    axis: number | undefined,
  ): FeedValue {
    const { name, type, shape } = input;
    const given = this.#given.get(name);
    if (given !== undefined && !given.startsWith('@')) {
      if (rows > 1 && axis !== undefined)
        throw new UsageError(`--input ${name}: a policy that puts whole requests together makes up its inputs`);
      const known = Object.hasOwn(dataTypes, type);
      const declared: ValueType | undefined = known
        ? { kind: 'tensor', type: type as DataType, ...(shape && { dims: shape }) }
        : undefined;
      return readInput(given, declared) as FeedValue;
    }
    if (!Object.hasOwn(dataTypes, type) || type === 'string' || shape === undefined)
      throw new UsageError(`input '${name}' (${type}) cannot be made up: give it with --input ${name}=FILE`);
    const dims = shape.map((d) => this.#size(d, length));
    if (axis !== undefined) dims[axis]! *= rows;
    const element = type as Exclude<DataType, 'string'>;
    const n = sizeOf(dims);
    if (n > 2 ** 30) throw new SkepError('INVALID_INPUT', `input '${name}' would have ${n} elements`);
    const filled = given === undefined ? undefined : this.#size(given.slice(1), length);
    const real = typeInfo(element).kind === 'float';
    const data = Float64Array.from(
      { length: n },
      () => filled ?? (real ? 2 * this.#random.uniform() - 1 : this.#random.below(2)),
    );
    return new Tensor(element, encode(element, data), dims);
  }

  #size(dim: number | string | null, length: number | undefined): number {
    if (typeof dim === 'number') return dim;
    if (dim === null) return 1;
    if (dim === this.lengthOf && length !== undefined) return length;
    return this.#dims[dim] ?? 1;
  }
}
