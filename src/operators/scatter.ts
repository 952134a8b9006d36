// Writing where indices say, onto a copy of the data: ScatterElements (and its old name Scatter), ScatterND, and
// TensorScatter (new positions of a KV cache). Updates are applied in order, so that of duplicates the last one counts;
// kernels divide the output among threads, never the updates.
import { decode, encode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { sameShape, sizeOf, stridesOf } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import { type DataType, typeInfo } from '../tensor/types.js';
import { int, string } from './attributes.js';
import { byteStrides, copyDense, elementBytes } from './copy.js';
import { checkedIndices, elementwiseAxis, grainOf, indexIn, indexWidth, tuplesOf } from './gather.js';
import { type Call, type InferCall, type Operator, operator } from './operator.js';
import { axisOf, type Elements, elementsOf, fromElements, move, roomFor } from './pick.js';

/** Codes of reductions in kernels. */
const reductions = { none: 0, add: 1, mul: 2, max: 3, min: 4 } as const;

function reductionOf(call: Call<{ readonly reduction: string }>): number {
  const { reduction } = call.attributes;
  if (!Object.hasOwn(reductions, reduction))
    throw call.error(`reduction must be none, add, mul, max or min, got '${reduction}'`);
  return reductions[reduction as keyof typeof reductions];
}

/** Combines an element with an update, in the element's own arithmetic. */
function combine(type: DataType, reduction: number): (a: never, b: never) => unknown {
  const { kind } = typeInfo(type);
  if (type === 'float16' || type === 'bfloat16') {
    const apply = combine('float64', reduction) as (a: number, b: number) => number;
    const read = (bits: number) => decode(new Tensor(type, Uint16Array.of(bits), []))[0]!;
    return (a, b) => encode(type, [apply(read(a), read(b))])[0];
  }
  if (kind === 'string' || kind === 'complex') return (_, b) => b;
  switch (reduction) {
    case 1:
      return kind === 'bool' ? (a, b) => a | b : (a, b) => (a as number) + (b as number);
    case 2:
      return (a, b) => (a as number) * (b as number);
    case 3:
      return (a, b) => (Number.isNaN(a) || a > b ? a : b);
    case 4:
      return (a, b) => (Number.isNaN(a) || a < b ? a : b);
    default:
      return (_, b) => b;
  }
}

/** A copy of the data to scatter onto, and what puts one update in place. */
function scatterer(data: Tensor, updates: Tensor, reduction: number) {
  const to = roomFor(data.type, data.size);
  const base = elementsOf(data);
  for (let i = 0; i < data.size; i++) move(to, i, base, i);
  const from: Elements = elementsOf(updates);
  const apply = combine(data.type, reduction);
  const items = to.items as unknown[];
  return {
    put(at: number, update: number): void {
      if (reduction === 0) move(to, at, from, update);
      else items[at] = apply(items[at] as never, from.items[update] as never);
    },
    done: () => fromElements(data.type, data.dims, to),
  };
}

/** True when kernels have this type and reduction. */
function kernelFor(call: InferCall<unknown>, reduction: number): boolean {
  const { type } = call.input(0);
  return elementBytes(type) > 0 && (reduction === 0 || type === 'float32');
}

function checkTypes(call: InferCall<unknown>): void {
  if (call.input(0).type !== call.input(2).type)
    throw call.error(`updates are ${call.input(2).type}, data is ${call.input(0).type}`);
}

function scatterElements(name: string, since: readonly number[]): Operator {
  return operator({
    name,
    since,
    inputs: [3, 3],
    attributes: { axis: int(0), reduction: string('none') },
    infer(call) {
      checkTypes(call);
      reductionOf(call);
      const { dims, indexDims } = elementwiseAxis(call);
      if (!sameShape(indexDims, call.input(2).dims))
        throw call.error(
          `indices ${formatShape(indexDims)} and updates ${formatShape(call.input(2).dims)} must have one shape`,
        );
      return [{ type: call.input(0).type, dims }];
    },
    reference(call) {
      const { axis, dims, indexDims } = elementwiseAxis(call);
      const { put, done } = scatterer(call.tensor(0), call.tensor(2), reductionOf(call));
      const strides = stridesOf(dims);
      const own = stridesOf(indexDims);
      call.ints(1)!.forEach((index, i) => {
        let to = 0;
        for (let a = 0; a < dims.length; a++)
          to += strides[a]! * (a === axis ? indexIn(call, index, dims[a]!) : Math.floor(i / own[a]!) % indexDims[a]!);
        put(to, i);
      });
      return [done()];
    },
    lower(call) {
      const { axis, dims, indexDims } = elementwiseAxis(call);
      const { type } = call.output(0);
      const reduction = reductionOf(call);
      const wide = indexWidth(call.input(1));
      if (!kernelFor(call, reduction) || wide === undefined) return false;
      const size = elementBytes(type);
      copyDense(call, call.in(0), call.out(0), sizeOf(dims) * size);
      if (sizeOf(indexDims) === 0 || sizeOf(dims) === 0) return true;
      const others = <T>(list: readonly T[]) => list.filter((_, a) => a !== axis);
      const strides = byteStrides(dims, size);
      const own = stridesOf(indexDims);
      call.step(
        'scatterElements',
        {
          output: call.out(0),
          indices: call.in(1),
          updates: call.in(2),
          dims: others(indexDims),
          indexStrides: others(own),
          outStrides: others(strides),
          rank: dims.length - 1,
          count: indexDims[axis]!,
          indexStride: own[axis]!,
          axisDim: dims[axis]!,
          axisStride: strides[axis]!,
          size,
          reduction,
          wide,
        },
        {
          units: sizeOf(others(indexDims)),
          grain: grainOf(indexDims[axis]! * size),
          ...checkedIndices(call, 1, [dims[axis]!]),
        },
      );
      return true;
    },
  });
}

/** Where ScatterND writes, checked. */
function scatterNDShape(call: InferCall<unknown>) {
  checkTypes(call);
  const { dims } = call.input(0);
  const indexDims = call.input(1).dims;
  const { tuple, count, rest } = tuplesOf(call, dims, indexDims, 0);
  const expected = [...indexDims.slice(0, -1), ...rest];
  if (!sameShape(call.input(2).dims, expected))
    throw call.error(`expected updates of shape ${formatShape(expected)}, got ${formatShape(call.input(2).dims)}`);
  return {
    dims,
    tuple,
    count,
    run: sizeOf(rest),
    indexed: dims.slice(0, tuple),
    strides: stridesOf(dims).slice(0, tuple),
  };
}

const ScatterND = operator({
  name: 'ScatterND',
  since: [11, 13, 16, 18],
  inputs: [3, 3],
  attributes: { reduction: string('none') },
  infer(call) {
    reductionOf(call);
    return [{ type: call.input(0).type, dims: scatterNDShape(call).dims }];
  },
  reference(call) {
    const { tuple, count, run, indexed, strides } = scatterNDShape(call);
    const { put, done } = scatterer(call.tensor(0), call.tensor(2), reductionOf(call));
    const indices = call.ints(1)!;
    for (let t = 0; t < count; t++) {
      let to = 0;
      for (let a = 0; a < tuple; a++) to += strides[a]! * indexIn(call, indices[t * tuple + a]!, indexed[a]!);
      for (let i = 0; i < run; i++) put(to + i, t * run + i);
    }
    return [done()];
  },
  lower(call) {
    const { dims, tuple, count, run, indexed, strides } = scatterNDShape(call);
    const reduction = reductionOf(call);
    const wide = indexWidth(call.input(1));
    if (!kernelFor(call, reduction) || wide === undefined) return false;
    const size = elementBytes(call.output(0).type);
    copyDense(call, call.in(0), call.out(0), sizeOf(dims) * size);
    if (count * run === 0 || sizeOf(dims) === 0) return true;
    call.step(
      'scatterND',
      {
        output: call.out(0),
        indices: call.in(1),
        updates: call.in(2),
        dims: indexed,
        strides: strides.map((s) => s * size),
        tuple,
        count,
        run,
        size,
        reduction,
        wide,
      },
      { units: run, grain: Math.max(64, grainOf(count * size)), ...checkedIndices(call, 1, indexed) },
    );
    return true;
  },
});

/** Shapes of TensorScatter, checked: [prefix…, positions, run…]. */
function cacheShape(call: InferCall<{ readonly axis: number; readonly mode: string }>) {
  const { type, dims } = call.input(0);
  const update = call.input(1);
  const axis = axisOf(call, call.attributes.axis, dims.length);
  const { mode } = call.attributes;
  if (axis === 0) throw call.error('axis must not be the batch axis 0');
  if (mode !== 'linear' && mode !== 'circular') throw call.error(`mode must be linear or circular, got '${mode}'`);
  const sequence = update.dims[axis] ?? 0;
  if (update.type !== type || !sameShape(update.dims, dims.with(axis, sequence)) || sequence > dims[axis]!)
    throw call.error(
      `update ${formatShape(update.dims)} does not fit the cache ${formatShape(dims)} along axis ${axis}`,
    );
  if (call.has(2) && sizeOf(call.input(2).dims) !== dims[0])
    throw call.error(`expected ${dims[0]} write indices, got ${formatShape(call.input(2).dims)}`);
  return {
    type,
    dims,
    sequence,
    capacity: dims[axis]!,
    prefixes: sizeOf(dims.slice(0, axis)),
    perBatch: sizeOf(dims.slice(1, axis)),
    run: sizeOf(dims.slice(axis + 1)),
    circular: mode === 'circular',
  };
}

const TensorScatter = operator({
  name: 'TensorScatter',
  since: [24],
  inputs: [2, 3],
  attributes: { axis: int(-2), mode: string('linear') },
  infer(call) {
    const { type, dims } = cacheShape(call);
    return [{ type, dims }];
  },
  reference(call) {
    const { sequence, capacity, prefixes, perBatch, run, circular } = cacheShape(call);
    const { put, done } = scatterer(call.tensor(0), call.tensor(1), 0);
    const starts = call.ints(2);
    for (let p = 0; p < prefixes; p++)
      for (let s = 0; s < sequence; s++) {
        const position = (starts?.[Math.floor(p / perBatch)] ?? 0) + s;
        const at = indexIn(call, circular ? position % capacity : position, capacity);
        if (position < 0) throw call.error(`write index ${position} is negative`, 'INVALID_INPUT');
        for (let i = 0; i < run; i++) put((p * capacity + at) * run + i, (p * sequence + s) * run + i);
      }
    return [done()];
  },
  lower(call) {
    const { type, dims, sequence, capacity, prefixes, perBatch, run, circular } = cacheShape(call);
    const size = elementBytes(type);
    const wide = call.has(2) ? indexWidth(call.input(2)) : 0;
    if (size === 0 || wide === undefined) return false;
    copyDense(call, call.in(0), call.out(0), sizeOf(dims) * size);
    if (prefixes * sequence * run === 0) return true;
    call.step(
      'tensorScatter',
      {
        output: call.out(0),
        updates: call.in(1),
        indices: call.has(2) ? call.in(2) : 0,
        perBatch,
        sequence,
        capacity,
        circular: circular ? 1 : 0,
        run: run * size,
        wide,
      },
      {
        units: prefixes * sequence,
        grain: grainOf(run * size),
        ...(call.has(2)
          ? checkedIndices(call, 2, [circular ? 2 ** 53 : capacity - sequence + 1], { negative: false })
          : {}),
      },
    );
    return true;
  },
});

export const scatters: readonly Operator[] = [
  { ...scatterElements('Scatter', [9]), ended: { version: 11, use: 'ScatterElements' } },
  scatterElements('ScatterElements', [11, 13, 16, 18]),
  ScatterND,
  TensorScatter,
];
