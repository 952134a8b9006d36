// Operators that make tensors from attributes, shapes or a few scalars: Constant, ConstantOfShape, EyeLike, Range, OneHot.
// Random numbers are in random.ts, window functions in signal.ts.
import { decode, decodeBig, encode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { sizeOf } from '../tensor/shape.js';
import { bytesOf, Tensor } from '../tensor/tensor.js';
import { type DataType, dataTypeOf, typeInfo } from '../tensor/types.js';
import { float, floats, int, ints, string, strings, tensor } from './attributes.js';
import { bytesConstant, copyDense, elementBytes, fillDense } from './copy.js';
import { type Call, type InferCall, type Operator, operator } from './operator.js';
import { axisOf, elementsOf, fromElements, move, outputOf, pick, roomFor } from './pick.js';

/** The type with a number in an attribute, or the fallback when it is not given: one that holds real numbers. */
export function typeAttribute(call: Call<unknown>, onnx: number | undefined, fallback: DataType): DataType {
  const type = onnx === undefined ? fallback : dataTypeOf(onnx);
  if (type === undefined) throw call.error(`dtype ${onnx} is not an element type`);
  const { kind } = typeInfo(type);
  if (kind === 'string' || kind === 'complex') throw call.error(`the output cannot be ${type}`);
  return type;
}

interface ConstantAttributes {
  readonly value: Tensor | undefined;
  readonly value_float: number | undefined;
  readonly value_floats: readonly number[] | undefined;
  readonly value_int: number | undefined;
  readonly value_ints: readonly number[] | undefined;
  readonly value_string: string | undefined;
  readonly value_strings: readonly string[] | undefined;
}

function constantOf(call: Call<ConstantAttributes>): Tensor {
  const a = call.attributes;
  if (a.value !== undefined) return a.value;
  if (a.value_float !== undefined) return new Tensor('float32', Float32Array.of(a.value_float), []);
  if (a.value_floats !== undefined) return new Tensor('float32', Float32Array.from(a.value_floats));
  if (a.value_int !== undefined) return new Tensor('int64', encode('int64', [a.value_int]), []);
  if (a.value_ints !== undefined) return new Tensor('int64', encode('int64', a.value_ints));
  if (a.value_string !== undefined) return new Tensor('string', [a.value_string], []);
  if (a.value_strings !== undefined) return new Tensor('string', a.value_strings);
  throw call.error('no attribute gives the value (sparse values are not supported)', 'UNSUPPORTED');
}

const Constant = operator({
  name: 'Constant',
  since: [1, 9, 11, 12, 13, 19, 21, 23, 24, 25],
  inputs: [0, 0],
  attributes: {
    value: tensor(),
    value_float: float(),
    value_floats: floats(),
    value_int: int(),
    value_ints: ints(),
    value_string: string(),
    value_strings: strings(),
  },
  infer(call) {
    const value = constantOf(call);
    return [{ type: value.type, dims: value.dims }];
  },
  reference: (call) => [constantOf(call)],
  lower(call) {
    const value = constantOf(call);
    if (elementBytes(value.type) === 0) return false;
    const bytes = bytesOf(value);
    copyDense(call, bytesConstant(call, `of ${call.node.outputs[0]}`, bytes), call.out(0), bytes.length);
    return true;
  },
});

function filler(call: Call<{ readonly value: Tensor | undefined }>): Tensor {
  const value = call.attributes.value ?? new Tensor('float32', Float32Array.of(0), [1]);
  if (value.size !== 1) throw call.error(`value must be one element, got shape ${formatShape(value.dims)}`);
  return value;
}

const ConstantOfShape = operator({
  name: 'ConstantOfShape',
  since: [9, 20, 21, 23, 24, 25],
  inputs: [1, 1],
  attributes: { value: tensor() },
  infer: (call) => [outputOf(call, filler(call).type, call.ints(0)!)],
  reference(call) {
    const value = filler(call);
    const dims = call.ints(0)!;
    outputOf(call, value.type, dims);
    return [pick(value, dims, () => 0)];
  },
  lower(call) {
    const value = filler(call);
    const size = elementBytes(value.type);
    if (size === 0) return false;
    const bytes = bytesOf(value);
    fillDense(call, bytesConstant(call, `element ${bytes}`, bytes), call.out(0), sizeOf(call.output(0).dims), size);
    return true;
  },
});

interface EyeAttributes {
  readonly dtype: number | undefined;
  readonly k: number;
}

function eye(call: InferCall<EyeAttributes>): Tensor {
  const { type, dims } = call.input(0);
  const [rows, columns] = dims as [number, number];
  const values = new Uint8Array(rows * columns);
  for (let r = 0; r < rows; r++) {
    const c = r + call.attributes.k;
    if (c >= 0 && c < columns) values[r * columns + c] = 1;
  }
  const out = typeAttribute(call, call.attributes.dtype, type);
  return new Tensor(out, encode(out, values), dims);
}

const EyeLike = operator({
  name: 'EyeLike',
  since: [9, 22],
  inputs: [1, 1],
  attributes: { dtype: int(), k: int(0) },
  infer(call) {
    const { type, dims } = call.input(0);
    if (dims.length !== 2) throw call.error(`expected a matrix, got shape ${formatShape(dims)}`);
    return [outputOf(call, typeAttribute(call, call.attributes.dtype, type), dims)];
  },
  reference: (call) => [eye(call)],
  lower(call) {
    const { type, dims } = call.output(0);
    if (elementBytes(type) === 0) return false;
    const bytes = bytesOf(eye(call));
    copyDense(
      call,
      bytesConstant(call, `eye ${type} [${dims}] ${call.attributes.k}`, bytes),
      call.out(0),
      bytes.length,
    );
    return true;
  },
});

function rangeOf(call: InferCall<unknown>): { type: DataType; start: number; delta: number; count: number } {
  const { type } = call.input(0);
  const [start, limit, delta] = [0, 1, 2].map((i) => {
    const t = call.value(i);
    if (t.size !== 1) throw call.error(`input ${i} must be a scalar, got shape ${formatShape(t.dims)}`);
    return decode(t)[0]!;
  }) as [number, number, number];
  const count = Math.max(0, Math.ceil((limit - start) / delta));
  if (delta === 0 || !Number.isFinite(count))
    throw call.error(`cannot step from ${start} to ${limit} by ${delta}`, 'INVALID_INPUT');
  return { type, start, delta, count };
}

const Range = operator({
  name: 'Range',
  since: [11, 27],
  inputs: [3, 3],
  attributes: {},
  infer(call) {
    const { type, count } = rangeOf(call);
    return [outputOf(call, type, [count])];
  },
  reference(call) {
    const { type, start, delta, count } = rangeOf(call);
    outputOf(call, type, [count]);
    if (type === 'int64') {
      const [first, step] = [decodeBig(call.tensor(0))[0]!, decodeBig(call.tensor(2))[0]!];
      return [
        new Tensor(
          type,
          BigInt64Array.from({ length: count }, (_, i) => first + BigInt(i) * step),
        ),
      ];
    }
    const round = type === 'float32' ? Math.fround : (x: number) => x;
    return [
      new Tensor(
        type,
        encode(
          type,
          Float64Array.from({ length: count }, (_, i) => start + round(i * delta)),
        ),
      ),
    ];
  },
});

const OneHot = operator({
  name: 'OneHot',
  since: [9, 11],
  inputs: [3, 3],
  attributes: { axis: int(-1) },
  infer(call) {
    const depth = depthOf(call);
    const { dims } = call.input(0);
    const axis = axisOf(call, call.attributes.axis, dims.length + 1);
    return [outputOf(call, call.input(2).type, dims.toSpliced(axis, 0, depth))];
  },
  reference(call) {
    const depth = depthOf(call);
    const indices = decode(call.tensor(0));
    const axis = axisOf(call, call.attributes.axis, call.input(0).dims.length + 1);
    const dims = call.input(0).dims.toSpliced(axis, 0, depth);
    const values = call.tensor(2);
    if (values.size !== 2) throw call.error(`values must be [off, on], got shape ${formatShape(values.dims)}`);
    outputOf(call, values.type, dims);
    const to = roomFor(values.type, sizeOf(dims));
    const from = elementsOf(values);
    const inner = sizeOf(dims.slice(axis + 1));
    for (let i = 0; i < sizeOf(dims); i++) {
      const place = Math.floor(i / inner) % depth;
      const index = Math.trunc(indices[Math.floor(i / (inner * depth)) * inner + (i % inner)]!);
      // An index outside [−depth, depth) gives a row without a hot element.
      move(to, i, from, (index < 0 ? index + depth : index) === place ? 1 : 0);
    }
    return [fromElements(values.type, dims, to)];
  },
});

function depthOf(call: InferCall<unknown>): number {
  const depth = call.value(1);
  if (depth.size !== 1) throw call.error(`depth must be a scalar, got shape ${formatShape(depth.dims)}`);
  const n = Math.trunc(decode(depth)[0]!);
  if (!(n >= 0)) throw call.error(`depth ${n} must not be negative`, 'INVALID_INPUT');
  return n;
}

export const generators: readonly Operator[] = [Constant, ConstantOfShape, EyeLike, Range, OneHot];
