// Reductions over axes: the ten Reduce operators, ArgMax and ArgMin. Axes are an attribute in old versions and an input
// in new ones; none means all of them, or with `noop_with_empty_axes` that every element is a group of its own.
// How axes are grouped for the kernel: `groupsOf`; in which order the kernel adds: assembly/reduce.ts.
import { reduceCodes, reduceColumns } from '../kernels/reduce.js';
import { decode, decodeBig } from '../tensor/convert.js';
import { normalizeAxis, sizeOf, stridesOf } from '../tensor/shape.js';
import type { Tensor } from '../tensor/tensor.js';
import { type DataType, typeInfo } from '../tensor/types.js';
import { type AttributesOf, int, ints } from './attributes.js';
import { type InferCall, type LowerCall, type Operator, type OutputInfo, operator } from './operator.js';
import { fromBigInts, fromNumbers, isInteger } from './reference.js';

const specs = { axes: ints(), keepdims: int(1), noop_with_empty_axes: int(0) };
type Call = InferCall<AttributesOf<typeof specs>>;

/** Which axes are reduced, as flags; from the attribute or input 1. */
function reducedAxes(call: Call): boolean[] {
  const rank = call.input(0).dims.length;
  const listed = (call.inputCount > 1 && call.has(1) ? call.ints(1) : call.attributes.axes) ?? [];
  const all = listed.length === 0 && call.attributes.noop_with_empty_axes === 0;
  const flags = new Array<boolean>(rank).fill(all);
  for (const axis of listed) flags[normalized(call, axis, rank)] = true;
  return flags;
}

/** The axis counted from the front; an error names the node. */
export function normalized(call: InferCall<unknown>, axis: number, rank: number): number {
  if (rank === 0 && (axis === 0 || axis === -1)) return 0;
  if (!Number.isInteger(axis) || axis < -rank || axis >= rank)
    throw call.error(`axis ${axis} is outside [${-rank}, ${rank - 1}]`);
  return normalizeAxis(axis, rank);
}

function outputDims(dims: readonly number[], reduced: readonly boolean[], keep: boolean): number[] {
  const kept = dims.map((d, i) => (reduced[i] ? 1 : d));
  return keep ? kept : kept.filter((_, i) => !reduced[i]);
}

/** The groups of elements that reduce to one, in order of the output; elements in row-major order. */
function collect<T>(data: ArrayLike<T>, dims: readonly number[], reduced: readonly boolean[]): T[][] {
  const outDims = outputDims(dims, reduced, true);
  const strides = stridesOf(outDims).map((s, i) => (reduced[i] ? 0 : s));
  const groups: T[][] = Array.from({ length: sizeOf(outDims) }, () => []);
  const own = stridesOf(dims);
  const size = sizeOf(dims);
  for (let i = 0; i < size; i++) {
    let at = 0;
    for (let axis = 0; axis < dims.length; axis++) at += (Math.floor(i / own[axis]!) % dims[axis]!) * strides[axis]!;
    groups[at]!.push(data[i]!);
  }
  return groups;
}

/** A reduction: of numbers, and for those that are exact on integers of BigInts. */
interface Reduction {
  readonly name: string;
  readonly since: readonly number[];
  readonly number: (xs: readonly number[]) => number;
  readonly integer?: (xs: readonly bigint[], type: DataType) => bigint;
  readonly code: number;
  readonly mean?: boolean;
  /** Operations an element. */
  readonly flops: number;
}

const total = (xs: readonly number[], f: (x: number) => number = (x) => x) => xs.reduce((a, x) => a + f(x), 0);
const totalBig = (xs: readonly bigint[], f: (x: bigint) => bigint = (x) => x) => xs.reduce((a, x) => a + f(x), 0n);

/** The ends of an integer type. */
function limits(type: DataType): [bigint, bigint] {
  const { kind, bits } = typeInfo(type);
  const b = BigInt(bits);
  return kind === 'signed' ? [-(2n ** (b - 1n)), 2n ** (b - 1n) - 1n] : [0n, 2n ** b - 1n];
}

function logSumExp(xs: readonly number[]): number {
  const max = xs.reduce((a, b) => Math.max(a, b), -Infinity);
  if (!Number.isFinite(max)) return max;
  return Math.log(total(xs, (x) => Math.exp(x - max))) + max;
}

const reductions: readonly Reduction[] = [
  {
    name: 'ReduceSum',
    since: [1, 11, 13],
    number: (xs) => total(xs),
    integer: (xs) => totalBig(xs),
    code: reduceCodes.sum,
    flops: 1,
  },
  {
    name: 'ReduceMean',
    since: [1, 11, 13, 18],
    number: (xs) => total(xs) / xs.length,
    code: reduceCodes.sum,
    mean: true,
    flops: 1,
  },
  {
    name: 'ReduceMax',
    since: [1, 11, 12, 13, 18, 20],
    number: (xs) => xs.reduce((a, x) => Math.max(a, x), -Infinity),
    // biome-ignore lint/complexity/useMathMinMax: Math.max does not take BigInts
    integer: (xs, type) => xs.reduce((a, x) => (x > a ? x : a), limits(type)[0]),
    code: reduceCodes.max,
    flops: 1,
  },
  {
    name: 'ReduceMin',
    since: [1, 11, 12, 13, 18, 20],
    number: (xs) => xs.reduce((a, x) => Math.min(a, x), Infinity),
    // biome-ignore lint/complexity/useMathMinMax: Math.min does not take BigInts
    integer: (xs, type) => xs.reduce((a, x) => (x < a ? x : a), limits(type)[1]),
    code: reduceCodes.min,
    flops: 1,
  },
  {
    name: 'ReduceProd',
    since: [1, 11, 13, 18],
    number: (xs) => xs.reduce((a, x) => a * x, 1),
    integer: (xs) => xs.reduce((a, x) => BigInt.asIntN(64, a * x), 1n),
    code: reduceCodes.prod,
    flops: 1,
  },
  {
    name: 'ReduceSumSquare',
    since: [1, 11, 13, 18],
    number: (xs) => total(xs, (x) => x * x),
    integer: (xs) => totalBig(xs, (x) => x * x),
    code: reduceCodes.sumSquare,
    flops: 2,
  },
  {
    name: 'ReduceL1',
    since: [1, 11, 13, 18],
    number: (xs) => total(xs, Math.abs),
    integer: (xs) => totalBig(xs, (x) => (x < 0n ? -x : x)),
    code: reduceCodes.l1,
    flops: 2,
  },
  {
    name: 'ReduceL2',
    since: [1, 11, 13, 18],
    number: (xs) => Math.sqrt(total(xs, (x) => x * x)),
    code: reduceCodes.l2,
    flops: 2,
  },
  {
    name: 'ReduceLogSum',
    since: [1, 11, 13, 18],
    number: (xs) => Math.log(total(xs)),
    code: reduceCodes.logSum,
    flops: 1,
  },
  {
    name: 'ReduceLogSumExp',
    since: [1, 11, 13, 18],
    number: logSumExp,
    code: reduceCodes.logSumExp,
    flops: 17,
  },
];

function rule(call: Call): OutputInfo[] {
  const { type, dims } = call.input(0);
  const { kind } = typeInfo(type);
  if (kind === 'string' || kind === 'complex') throw call.error(`input 0 must be numeric, got ${type}`);
  return [{ type, dims: outputDims(dims, reducedAxes(call), call.attributes.keepdims !== 0) }];
}

function reduction(r: Reduction): Operator {
  return operator({
    name: r.name,
    since: r.since,
    inputs: [1, 2],
    attributes: specs,
    infer: rule,
    reference(call) {
      const [out] = rule(call) as [OutputInfo];
      return [reduceReference(call.tensor(0), reducedAxes(call), out, r)];
    },
    lower(call) {
      const { type, dims } = call.input(0);
      if (type !== 'float32') return false;
      const reduced = reducedAxes(call);
      const count = sizeOf(dims.filter((_, i) => reduced[i]));
      lowerReduce(call, dims, reduced, r.code, r.mean === true ? count : 1, r.flops);
      return true;
    },
  });
}

function reduceReference(x: Tensor, reduced: readonly boolean[], out: OutputInfo, r: Reduction): Tensor {
  if (isInteger(out.type) && r.integer !== undefined) {
    const { integer } = r;
    const groups = collect(decodeBig(x), x.dims, reduced);
    return fromBigInts(
      out.type,
      out.dims,
      groups.map((g) => integer(g, out.type)),
    );
  }
  const values = collect(decode(x), x.dims, reduced).map(r.number);
  // The maximum of no bools is false, the minimum true.
  const bounded = out.type === 'bool' ? values.map((v) => (v > 0 ? 1 : 0)) : values;
  return fromNumbers(out.type, out.dims, bounded);
}

/** Neighbouring axes that are reduced alike, as one. Axes of length 1 keep groups apart, so that a batch of 1 is no
 * special case: which elements are neighbours in a sum must not depend on it. */
interface Group {
  readonly reduced: boolean;
  size: number;
  stride: number;
}

function groupsOf(dims: readonly number[], reduced: readonly boolean[]): Group[] {
  const strides = stridesOf(dims);
  const groups: Group[] = [];
  for (const [i, size] of dims.entries()) {
    const last = groups.at(-1);
    if (last?.reduced === reduced[i]) {
      last!.size *= size;
      last!.stride = strides[i]!;
    } else groups.push({ reduced: reduced[i]!, size, stride: strides[i]! });
  }
  return groups;
}

/** Appends a reduction of float32 input 0 into output 0. */
export function lowerReduce(
  call: LowerCall<unknown>,
  dims: readonly number[],
  reducedFlags: readonly boolean[],
  op: number,
  divisor: number,
  flops: number,
): void {
  const groups = groupsOf(dims, reducedFlags);
  const rows = groups.at(-1)?.reduced ?? true;
  const inner = rows ? 1 : groups.pop()!.size;
  const kept = groups.filter((g) => !g.reduced);
  const outer = groups.filter((g) => g.reduced);
  const last = outer.pop() ?? { size: 1, stride: 1 };
  const outputs = kept.reduce((a, g) => a * g.size, inner);
  const size = sizeOf(dims);
  const units = rows ? outputs : (outputs / Math.max(inner, 1)) * Math.ceil(inner / reduceColumns);
  call.step(
    'reduceF32',
    {
      x: call.in(0),
      y: call.out(0),
      op,
      rows: rows ? 1 : 0,
      inner,
      keptRank: kept.length,
      keptDims: kept.map((g) => g.size),
      keptStrides: kept.map((g) => g.stride),
      outerRank: outer.length,
      outerDims: outer.map((g) => g.size),
      outerStrides: outer.map((g) => g.stride),
      outerCount: outer.reduce((a, g) => a * g.size, 1),
      n: last.size,
      stride: last.stride,
      divisor,
    },
    { units, grain: Math.max(1, Math.ceil(4096 / Math.max(1, size / Math.max(1, units)))), flops: size * flops },
  );
}

const argSpecs = { axis: int(0), keepdims: int(1), select_last_index: int(0) };

function argRule(call: InferCall<AttributesOf<typeof argSpecs>>): { axis: number; out: OutputInfo } {
  const { type, dims } = call.input(0);
  const { kind } = typeInfo(type);
  if (kind === 'string' || kind === 'complex' || kind === 'bool')
    throw call.error(`input 0 must be numeric, got ${type}`);
  const axis = normalized(call, call.attributes.axis, dims.length);
  if (dims[axis] === 0) throw call.error(`axis ${axis} is empty: it has no largest element`);
  const flags = dims.map((_, i) => i === axis);
  return { axis, out: { type: 'int64', dims: outputDims(dims, flags, call.attributes.keepdims !== 0) } };
}

function arg(name: 'ArgMax' | 'ArgMin'): Operator {
  const smallest = name === 'ArgMin';
  return operator({
    name,
    since: [1, 11, 12, 13],
    inputs: [1, 1],
    attributes: argSpecs,
    infer: (call) => [argRule(call).out],
    reference(call) {
      const { axis, out } = argRule(call);
      const x = call.tensor(0);
      const last = call.attributes.select_last_index !== 0;
      const data: ArrayLike<number | bigint> = isInteger(x.type) ? decodeBig(x) : decode(x);
      const flags = x.dims.map((_, i) => i === axis);
      const found = collect(data, x.dims, flags).map((xs) => {
        let best = 0;
        for (let i = 1; i < xs.length; i++) {
          const [v, b] = [xs[i]!, xs[best]!];
          if ((smallest ? v < b : v > b) || (last && v === b)) best = i;
        }
        return best;
      });
      return [fromNumbers('int64', out.dims, found)];
    },
    lower(call) {
      const { type, dims } = call.input(0);
      if (type !== 'float32') return false;
      const { axis, out } = argRule(call);
      const n = dims[axis] ?? 1;
      call.step(
        'argF32',
        {
          x: call.in(0),
          y: call.out(0),
          n,
          inner: sizeOf(dims.slice(axis + 1)),
          smallest: smallest ? 1 : 0,
          last: call.attributes.select_last_index,
        },
        { units: sizeOf(out.dims), grain: Math.max(1, Math.ceil(2048 / n)), flops: sizeOf(dims) },
      );
      return true;
    },
  });
}

export const reduceOperators: readonly Operator[] = [...reductions.map(reduction), arg('ArgMax'), arg('ArgMin')];
