// LabelEncoder of ai.onnx.ml: a table from keys to values, of strings, integers or floats, which classifiers exported from
// scikit-learn end with. Version 1 has one list of strings, to and from their places; version 4 may have its lists as
// tensors. Strings live outside WebAssembly memory: there is a reference only.
import { decode, decodeBig } from '../tensor/convert.js';
import { Tensor } from '../tensor/tensor.js';
import type { DataType, TypedArray } from '../tensor/types.js';
import { type AttributesOf, float, floats, int, ints, string, strings, tensor } from './attributes.js';
import { type InferCall, type Operator, operator } from './operator.js';
import { emptyStorage } from './reference.js';

const specs = {
  classes_strings: strings(),
  default_float: float(-0),
  default_int64: int(-1),
  default_string: string('_Unused'),
  default_tensor: tensor(),
  keys_floats: floats(),
  keys_int64s: ints(),
  keys_strings: strings(),
  keys_tensor: tensor(),
  values_floats: floats(),
  values_int64s: ints(),
  values_strings: strings(),
  values_tensor: tensor(),
};

type Call = InferCall<AttributesOf<typeof specs>>;

/** A list as a tensor: one of the attributes that are given. */
function listOf(call: Call, name: 'keys' | 'values'): Tensor {
  const a = call.attributes;
  const given = [
    a[`${name}_tensor`],
    a[`${name}_strings`] && new Tensor('string', a[`${name}_strings`]!),
    a[`${name}_int64s`] && new Tensor('int64', a[`${name}_int64s`]!),
    a[`${name}_floats`] && new Tensor('float32', a[`${name}_floats`]!),
  ].filter((t) => t !== undefined);
  if (given.length !== 1) throw call.error(`expected one of the attributes ${name}_*, got ${given.length}`);
  return given[0]!;
}

interface Table {
  readonly keys: Tensor;
  readonly values: Tensor;
  readonly missing: Tensor;
}

function tableOf(call: Call): Table {
  const a = call.attributes;
  const { type } = call.input(0);
  const defaults = (t: DataType): Tensor => {
    if (a.default_tensor !== undefined) return a.default_tensor;
    if (t === 'string') return new Tensor('string', [a.default_string]);
    return t === 'int64' ? new Tensor('int64', [a.default_int64]) : new Tensor(t, [a.default_float]);
  };
  if (a.classes_strings !== undefined) {
    const names = new Tensor('string', a.classes_strings);
    const places = new Tensor(
      'int64',
      Array.from(a.classes_strings, (_, i) => i),
    );
    const [keys, values] = type === 'string' ? [names, places] : [places, names];
    return { keys, values, missing: defaults(values.type) };
  }
  const [keys, values] = [listOf(call, 'keys'), listOf(call, 'values')];
  if (keys.size !== values.size) throw call.error(`${keys.size} keys have ${values.size} values`);
  const missing = defaults(values.type);
  if (missing.type !== values.type || missing.size !== 1)
    throw call.error(`the default must be one ${values.type}, got ${missing.size} of ${missing.type}`);
  return { keys, values, missing };
}

/** Elements as what a Map tells apart: every NaN is one key, and so are both zeros. */
function keysOf(t: Tensor): ArrayLike<string | number | bigint> {
  if (t.type === 'string') return t.data as string[];
  return t.type === 'int64' || t.type === 'uint64' ? decodeBig(t) : decode(t);
}

const labelEncoder = operator({
  name: 'LabelEncoder',
  domain: 'ai.onnx.ml',
  since: [1, 2, 4],
  inputs: [1, 1],
  attributes: specs,
  infer(call) {
    const { type, dims } = call.input(0);
    const { keys, values } = tableOf(call);
    if (keys.type !== type) throw call.error(`X is ${type}, but the keys are ${keys.type}`);
    return [{ type: values.type, dims }];
  },
  reference(call) {
    const { keys, values, missing } = tableOf(call);
    const x = call.tensor(0);
    const places = new Map<string | number | bigint, number>();
    // The first of equal keys counts.
    Array.from(keysOf(keys)).forEach((k, i) => {
      if (!places.has(k)) places.set(k, i);
    });
    const y = emptyStorage(values.type, x.size) as TypedArray;
    Array.from(keysOf(x)).forEach((k, i) => {
      const at = places.get(k);
      y[i] = ((at === undefined ? missing : values).data as TypedArray)[at ?? 0]!;
    });
    return [new Tensor(values.type, y, x.dims)];
  },
});

export const labelOperators: readonly Operator[] = [labelEncoder];
