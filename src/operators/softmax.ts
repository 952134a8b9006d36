// Functions along one axis: Softmax, LogSoftmax and Hardmax, CumSum and CumProd. Before version 13 softmax flattened its
// input to a matrix at `axis`; `rowsOf` hides the difference: rows of n elements, `inner` apart.
import { scanTypes } from '../kernels/reduce.js';
import { decode, decodeBig } from '../tensor/convert.js';
import { sizeOf } from '../tensor/shape.js';
import { typeInfo } from '../tensor/types.js';
import { type AttributesOf, int } from './attributes.js';
import { type InferCall, type Operator, type OutputInfo, operator } from './operator.js';
import { normalized } from './reduce.js';
import { fromBigInts, fromNumbers, isInteger } from './reference.js';
import { numericRule } from './unary.js';

/** outer × n × inner. */
interface Along {
  readonly outer: number;
  readonly n: number;
  readonly inner: number;
  /** The lines lie along the last axis. */
  readonly rows: boolean;
}

function along(dims: readonly number[], axis: number): Along {
  return {
    outer: sizeOf(dims.slice(0, axis)),
    n: dims[axis] ?? 1,
    inner: sizeOf(dims.slice(axis + 1)),
    rows: axis >= dims.length - 1,
  };
}

/** Replaces every line of n elements by f of it. */
function mapLines<T>(data: ArrayLike<T>, { outer, n, inner }: Along, f: (line: T[]) => T[]): T[] {
  const result = new Array<T>(data.length);
  for (let o = 0; o < outer; o++)
    for (let i = 0; i < inner; i++) {
      const at = (k: number) => (o * n + k) * inner + i;
      const line = f(Array.from({ length: n }, (_, k) => data[at(k)]!));
      for (let k = 0; k < n; k++) result[at(k)] = line[k]!;
    }
  return result;
}

const specs = { axis: int() };

function rowsOf(call: InferCall<AttributesOf<typeof specs>>): Along {
  const { dims } = call.input(0);
  if (call.opset >= 13) return along(dims, normalized(call, call.attributes.axis ?? -1, dims.length));
  const axis = call.attributes.axis ?? 1;
  // axis may be the rank here: rows of one element.
  const at = axis === dims.length ? axis : normalized(call, axis, dims.length);
  return { outer: sizeOf(dims.slice(0, at)), n: sizeOf(dims.slice(at)), inner: 1, rows: true };
}

const functions = {
  Softmax(xs: number[]): number[] {
    const max = xs.reduce((a, b) => Math.max(a, b), -Infinity);
    const e = xs.map((x) => Math.exp(x - max));
    const sum = e.reduce((a, b) => a + b, 0);
    return e.map((x) => x / sum);
  },
  LogSoftmax(xs: number[]): number[] {
    const max = xs.reduce((a, b) => Math.max(a, b), -Infinity);
    const sum = xs.reduce((a, x) => a + Math.exp(x - max), 0);
    return xs.map((x) => x - max - Math.log(sum));
  },
  /** 1 at the first of the largest. */
  Hardmax(xs: number[]): number[] {
    const at = xs.reduce((best, x, i) => (x > xs[best]! ? i : best), 0);
    return xs.map((_, i) => (i === at ? 1 : 0));
  },
};

function softmax(name: keyof typeof functions): Operator {
  return operator({
    name,
    since: [1, 11, 13],
    inputs: [1, 1],
    attributes: specs,
    infer(call) {
      rowsOf(call);
      return numericRule(call);
    },
    reference(call) {
      const [{ type, dims }] = numericRule(call) as [OutputInfo];
      return [fromNumbers(type, dims, mapLines(decode(call.tensor(0)), rowsOf(call), functions[name]))];
    },
    lower(call) {
      const { type } = call.input(0);
      if (type !== 'float32' || name === 'Hardmax') return false;
      const { outer, n, inner, rows } = rowsOf(call);
      const size = outer * n * inner;
      const units = outer * (rows ? 1 : Math.ceil(inner / 4));
      call.step(
        'softmaxF32',
        { x: call.in(0), y: call.out(0), rows: rows ? 1 : 0, n, inner, log: name === 'LogSoftmax' ? 1 : 0 },
        { units, grain: Math.max(1, Math.ceil(512 / Math.max(1, n))), flops: size * 18 },
      );
      return true;
    },
  });
}

const scanSpecs = { exclusive: int(0), reverse: int(0) };

function scanRule(call: InferCall<unknown>): OutputInfo[] {
  const { type, dims } = call.input(0);
  const { kind } = typeInfo(type);
  if (kind !== 'float' && !isInteger(type)) throw call.error(`input 0 must be numeric, got ${type}`);
  return [{ type, dims }];
}

/** Running sums or products along the axis given by input 1. */
function scan(name: 'CumSum' | 'CumProd', since: readonly number[]): Operator {
  const product = name === 'CumProd';
  const axisOf = (call: InferCall<unknown>) => {
    const axes = call.ints(1);
    if (axes?.length !== 1) throw call.error('axis must be a scalar');
    return normalized(call, axes[0]!, call.input(0).dims.length);
  };
  return operator({
    name,
    since,
    inputs: [2, 2],
    attributes: scanSpecs,
    infer: scanRule,
    reference(call) {
      const [{ type, dims }] = scanRule(call) as [OutputInfo];
      const { exclusive, reverse } = call.attributes;
      const lines = along(dims, axisOf(call));
      const running =
        <T>(one: T, f: (a: T, b: T) => T) =>
        (xs: T[]) => {
          const line = reverse !== 0 ? xs.reverse() : xs;
          let acc = one;
          const sums = line.map((x) => {
            const before = acc;
            acc = f(acc, x);
            return exclusive !== 0 ? before : acc;
          });
          return reverse !== 0 ? sums.reverse() : sums;
        };
      const x = call.tensor(0);
      if (isInteger(type)) {
        const f = (a: bigint, b: bigint) => BigInt.asIntN(64, product ? a * b : a + b);
        return [fromBigInts(type, dims, mapLines(decodeBig(x), lines, running(product ? 1n : 0n, f)))];
      }
      const f = (a: number, b: number) => (product ? a * b : a + b);
      return [fromNumbers(type, dims, mapLines(decode(x), lines, running(product ? 1 : 0, f)))];
    },
    lower(call) {
      const { type, dims } = call.input(0);
      if (!Object.hasOwn(scanTypes, type) || call.input(1).value === undefined) return false;
      const { outer, n, inner } = along(dims, axisOf(call));
      const { exclusive, reverse } = call.attributes;
      call.step(
        'scan',
        {
          x: call.in(0),
          y: call.out(0),
          type: scanTypes[type as keyof typeof scanTypes],
          product: product ? 1 : 0,
          n,
          inner,
          exclusive,
          reverse,
        },
        { units: outer * inner, grain: Math.max(1, Math.ceil(1024 / Math.max(1, n))), flops: outer * n * inner },
      );
      return true;
    },
  });
}

export const softmaxOperators: readonly Operator[] = [
  softmax('Softmax'),
  softmax('LogSoftmax'),
  softmax('Hardmax'),
  scan('CumSum', [11, 14]),
  scan('CumProd', [26]),
];
