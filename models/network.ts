// What a network of models/ is: a name, numbers to set with three presets (a test's, a bench's, the paper's), and a function
// that writes it with the graph builder. How to picture it: a recipe; `build` gives a Model with weights from a seed, and
// `feeds` inputs that suit it. The recipes are in a file each, the list in index.ts.
import type { Dim, Model } from '../src/graph/graph.js';
import { Random } from '../src/graph/random.js';
import { SkepError } from '../src/tensor/errors.js';
import { sizeOf } from '../src/tensor/shape.js';
import { Tensor } from '../src/tensor/tensor.js';
import { Layers } from './layers.js';

/** What can be set of a network: positive whole numbers by name. */
export type Settings = Readonly<Record<string, number>>;

export const sizes = ['tiny', 'small', 'paper'] as const;
/** `tiny` runs by the reference in a moment, `small` by the kernels in a few milliseconds, `paper` is as published. */
export type Size = (typeof sizes)[number];

/** How a network is built. */
export interface BuildOptions {
  /** The preset. Default `paper`. */
  readonly size?: Size;
  /** Instead of the preset's numbers. */
  readonly set?: Settings;
  /** Seed of the weights. Default 1. */
  readonly seed?: number;
  /** Operator set of ai.onnx, 17 to 27. Default 20. */
  readonly opset?: number;
  /** Zero weights: only the structure is wanted. */
  readonly zeros?: boolean;
}

/** A network that can be built. */
export interface Network {
  readonly name: string;
  /** A line for people. */
  readonly summary: string;
  /** What can be set, and what it means. */
  readonly options: Readonly<Record<string, string>>;
  readonly sizes: Readonly<Record<Size, Settings>>;
  /** The numbers a build uses. Throws `INVALID_INPUT` for a name it has not or a number that is no size. */
  settings(options?: BuildOptions): Settings;
  /** The model, verified. Throws like `settings`, and where the numbers do not fit each other. */
  build(options?: BuildOptions): Model;
  /**
   * Inputs for a model built with these options: seeded, integers within what they index. `axes` are the sizes of the
   * symbolic dimensions; one that is not given is 1. A sum (`past + sequence`) is added up.
   */
  feeds(model: Model, axes: Readonly<Record<string, number>>, options?: BuildOptions): Map<string, Tensor>;
}

/** How a network is written down. */
export interface Recipe<S extends Settings> {
  readonly name: string;
  readonly summary: string;
  readonly options: { readonly [K in keyof S]: string };
  readonly sizes: Readonly<Record<Size, S>>;
  /** Integer inputs by name: their values are in [low, high). Floats are in [−1, 1). */
  ranges?(
    settings: S,
    axes: Readonly<Record<string, number>>,
  ): Readonly<Record<string, readonly [low: number, high: number]>>;
  build(g: Layers, settings: S): void;
}

/** Makes a recipe a network. */
export function network<const K extends string>(recipe: Recipe<Readonly<Record<K, number>>>): Network {
  const { name, summary, options, sizes: presets } = recipe;
  const settings = ({ size = 'paper', set = {} }: BuildOptions = {}): Readonly<Record<K, number>> => {
    for (const [key, value] of Object.entries(set)) {
      if (!Object.hasOwn(options, key))
        throw new SkepError(
          'INVALID_INPUT',
          `${name} has no option '${key}'; it has ${Object.keys(options).join(', ')}`,
        );
      if (!Number.isSafeInteger(value) || value < 1)
        throw new SkepError('INVALID_INPUT', `${name}: ${key} must be a positive whole number, got ${value}`);
    }
    return { ...presets[size], ...set };
  };
  return {
    name,
    summary,
    options,
    sizes: presets,
    settings,
    build(o = {}) {
      const { seed = 1, opset = 20, zeros = false } = o;
      const g = new Layers(name, { seed, opset, zeros });
      recipe.build(g, settings(o));
      return g.model();
    },
    feeds(model, axes, o = {}) {
      const ranges = recipe.ranges?.(settings(o), axes) ?? {};
      const random = new Random(o.seed ?? 1);
      return new Map(
        model.graph.inputs.map(({ name: input, type }): [string, Tensor] => {
          if (type?.kind !== 'tensor' || type.dims === undefined)
            throw new SkepError('INTERNAL', `${name}: input '${input}' is not declared`);
          const dims = type.dims.map((d) => sizeOfDim(d, axes));
          if (type.type === 'float32') return [input, new Tensor('float32', random.floats(sizeOf(dims), -1, 1), dims)];
          const range = ranges[input];
          if (range === undefined) throw new SkepError('INTERNAL', `${name}: input '${input}' has no range`);
          const [low, high] = range;
          const values = Array.from({ length: sizeOf(dims) }, () => low + random.below(high - low));
          return [input, new Tensor(type.type, values, dims)];
        }),
      );
    },
  };
}

function sizeOfDim(dim: Dim, axes: Readonly<Record<string, number>>): number {
  if (typeof dim === 'number') return dim;
  if (dim === null) return 1;
  return dim.split(' + ').reduce((sum, axis) => sum + (axes[axis] ?? 1), 0);
}
