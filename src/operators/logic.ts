// Comparisons, logic and bits of two tensors with broadcasting, and Where. Comparisons of 64-bit integers are exact.
import type { BroadcastOp } from '../kernels/broadcast.js';
import { decode, decodeBig } from '../tensor/convert.js';
import { sizeOf } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import { type DataType, type TypedArray, typeInfo } from '../tensor/types.js';
import { legacyBroadcast, operandDims, operands } from './arithmetic.js';
import { type AttributesOf, required, string } from './attributes.js';
import { lowerBroadcast } from './broadcast.js';
import { type InferCall, type LowerCall, type Operator, type OutputInfo, operator } from './operator.js';
import {
  broadcastOf,
  commonType,
  emptyStorage,
  forEachBroadcast,
  fromBools,
  isInteger,
  zipBigInts,
} from './reference.js';

type Legacy = AttributesOf<typeof legacyBroadcast>;

/** Which types an operator takes, in words for its errors. */
interface Allowed {
  readonly words: string;
  readonly test: (type: DataType) => boolean;
}

const bools: Allowed = { words: 'bool', test: (t) => t === 'bool' };
const integers: Allowed = { words: 'integers', test: isInteger };
const unsigned: Allowed = { words: 'unsigned integers', test: (t) => typeInfo(t).kind === 'unsigned' };
const anything: Allowed = { words: 'of a comparable type', test: (t) => typeInfo(t).kind !== 'complex' };
const ordered: Allowed = {
  words: 'numeric',
  test: (t) => ['float', 'signed', 'unsigned'].includes(typeInfo(t).kind),
};

function rule(call: InferCall<Legacy>, allowed: Allowed, out?: DataType): OutputInfo[] {
  const type = commonType(call, [0, 1]);
  if (!allowed.test(type)) throw call.error(`inputs must be ${allowed.words}, got ${type}`);
  return [{ type: out ?? type, dims: operandDims(call).out }];
}

/** The elements of a tensor in a form that `<` and `===` compare exactly. */
function comparable(t: Tensor): ArrayLike<number | bigint | string> {
  if (t.type === 'string') return t.data as string[];
  return t.type === 'int64' || t.type === 'uint64' ? decodeBig(t) : decode(t);
}

type Comparable = number | bigint | string;

function lower(call: LowerCall<Legacy>, op: BroadcastOp): boolean {
  const { a, b, out } = operandDims(call);
  return lowerBroadcast(call, op, call.input(0).type, out, [
    { at: call.in(0), dims: a },
    { at: call.in(1), dims: b },
  ]);
}

/** A function of two elements whose result is a bool. */
function predicate(
  name: string,
  since: readonly number[],
  allowed: Allowed,
  op: BroadcastOp,
  holds: (a: Comparable, b: Comparable) => boolean,
): Operator {
  return operator({
    name,
    since,
    inputs: [2, 2],
    attributes: legacyBroadcast,
    infer: (call) => rule(call, allowed, 'bool'),
    reference(call) {
      const [{ dims }] = rule(call, allowed, 'bool') as [OutputInfo];
      const list = operands(call);
      const [a, b] = list.map(comparable) as [ArrayLike<Comparable>, ArrayLike<Comparable>];
      const out = new Uint8Array(sizeOf(dims));
      forEachBroadcast(list, dims, ([i, j], at) => {
        out[at] = holds(a[i!]!, b[j!]!) ? 1 : 0;
      });
      return [fromBools(dims, out)];
    },
    lower: (call) => lower(call, op),
  });
}

/** A function of the bits of two integers. */
function bitwise(name: string, op: BroadcastOp, f: (a: bigint, b: bigint) => bigint): Operator {
  return operator({
    name,
    since: [18],
    inputs: [2, 2],
    attributes: legacyBroadcast,
    infer: (call) => rule(call, integers),
    reference(call) {
      const [{ type, dims }] = rule(call, integers) as [OutputInfo];
      return [zipBigInts(operands(call), dims, type, (a, b) => f(a!, b!))];
    },
    lower: (call) => lower(call, op),
  });
}

/** Shifts of unsigned integers; bits that fall off are lost, and shifting by the width or more gives 0. */
const BitShift = operator({
  name: 'BitShift',
  since: [11],
  inputs: [2, 2],
  attributes: { ...legacyBroadcast, direction: required(string()) },
  infer: (call) => rule(call, unsigned),
  reference(call) {
    const [{ type, dims }] = rule(call, unsigned) as [OutputInfo];
    const { direction } = call.attributes;
    if (direction !== 'LEFT' && direction !== 'RIGHT')
      throw call.error(`direction must be LEFT or RIGHT, got '${direction}'`);
    const width = BigInt(typeInfo(type).bits);
    return [
      zipBigInts(operands(call), dims, type, (a, b) => (b! >= width ? 0n : direction === 'LEFT' ? a! << b! : a! >> b!)),
    ];
  },
});

function whereRule(call: InferCall<unknown>): OutputInfo[] {
  const condition = call.input(0).type;
  if (condition !== 'bool') throw call.error(`condition must be bool, got ${condition}`);
  return [{ type: commonType(call, [1, 2]), dims: broadcastOf(call) }];
}

/** Elements of the second input where the condition holds, of the third elsewhere. Any type. */
const Where = operator({
  name: 'Where',
  since: [9, 16],
  inputs: [3, 3],
  attributes: {},
  infer: whereRule,
  reference(call) {
    const [{ type, dims }] = whereRule(call) as [OutputInfo];
    const [c, a, b] = [call.tensor(0), call.tensor(1), call.tensor(2)];
    const { bits, kind } = typeInfo(type);
    if (kind !== 'string' && bits < 8) throw call.error(`${type} elements are not supported`, 'UNSUPPORTED');
    const width = kind === 'complex' ? 2 : 1;
    const out = emptyStorage(type, sizeOf(dims) * width);
    forEachBroadcast([c, a, b], dims, ([k, i, j], at) => {
      const [from, index] = (c.data as Uint8Array)[k!] ? [a, i!] : [b, j!];
      for (let part = 0; part < width; part++)
        (out as TypedArray)[at * width + part] = (from.data as TypedArray)[index * width + part]!;
    });
    return [new Tensor(type, out, dims)];
  },
  lower(call) {
    const [c, a, b] = [call.input(0), call.input(1), call.input(2)];
    return lowerBroadcast(call, 'where', a.type, call.output(0).dims, [
      { at: call.in(1), dims: a.dims },
      { at: call.in(2), dims: b.dims },
      { at: call.in(0), dims: c.dims },
    ]);
  },
});

export const logicOperators: readonly Operator[] = [
  predicate('Equal', [1, 7, 11, 13, 19], anything, 'equal', (a, b) => a === b),
  predicate('Less', [1, 7, 9, 13], ordered, 'less', (a, b) => a < b),
  predicate('Greater', [1, 7, 9, 13], ordered, 'greater', (a, b) => a > b),
  predicate('LessOrEqual', [12, 16], ordered, 'lessOrEqual', (a, b) => a <= b),
  predicate('GreaterOrEqual', [12, 16], ordered, 'greaterOrEqual', (a, b) => a >= b),
  predicate('And', [1, 7], bools, 'and', (a, b) => a !== 0 && b !== 0),
  predicate('Or', [1, 7], bools, 'or', (a, b) => a !== 0 || b !== 0),
  predicate('Xor', [1, 7], bools, 'xor', (a, b) => a !== b),
  bitwise('BitwiseAnd', 'and', (a, b) => a & b),
  bitwise('BitwiseOr', 'or', (a, b) => a | b),
  bitwise('BitwiseXor', 'xor', (a, b) => a ^ b),
  BitShift,
  Where,
];
