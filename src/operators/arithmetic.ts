// Arithmetic of two or more tensors with broadcasting: Add to Mod, PRelu, and the n-ary Sum, Mean, Min and Max.
// Before version 7 broadcasting was one-sided and asked for by attributes; `operandDims` turns that into today's.
// Integers wrap around; an integer divided by 0 is 0, as in numpy.
import { activationNamed, activations } from '../kernels/activation.js';
import type { BroadcastOp } from '../kernels/broadcast.js';
import { unaryBlock, unaryCodes } from '../kernels/unary.js';
import { decode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { broadcastShapes, sizeOf } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import { type DataType, typeInfo } from '../tensor/types.js';
import { type AttributesOf, floats, int, string } from './attributes.js';
import { type Epilogue, lowerBroadcast } from './broadcast.js';
import {
  type InferCall,
  type LowerCall,
  type Operator,
  type OutputInfo,
  operator,
  type ReferenceCall,
} from './operator.js';
import { broadcastOf, commonType, isInteger, zipBigInts, zipNumbers } from './reference.js';
import { lowerUnary } from './unary.js';

/** The attributes of one-sided broadcasting, before version 7. */
export const legacyBroadcast = { axis: int(), broadcast: int(0) };

type LegacyAttributes = AttributesOf<typeof legacyBroadcast>;

/** The shapes of inputs 0 and 1 as numpy broadcasting takes them, and the output's. */
export function operandDims(call: InferCall<LegacyAttributes>): {
  a: readonly number[];
  b: readonly number[];
  out: number[];
} {
  const a = call.input(0).dims;
  let b = call.input(1).dims;
  if (call.opset < 7) {
    const { axis, broadcast } = call.attributes;
    if (broadcast !== 0 && axis !== undefined) {
      const from = axis < 0 ? axis + a.length : axis;
      const after = a.length - from - b.length;
      if (from < 0 || after < 0)
        throw call.error(`axis ${axis} does not place ${formatShape(b)} within ${formatShape(a)}`);
      b = [...b, ...new Array<number>(after).fill(1)];
    }
  }
  const out = broadcastShapes(a, b);
  if (out === undefined)
    throw call.error(`shapes ${formatShape(a)} and ${formatShape(call.input(1).dims)} do not broadcast`);
  return { a, b, out };
}

/** Inputs 0 and 1 with the shapes of `operandDims`. */
export function operands(call: ReferenceCall<LegacyAttributes>): [Tensor, Tensor] {
  const { a, b } = operandDims(call);
  const [x, y] = [call.tensor(0), call.tensor(1)];
  return [new Tensor(x.type, x.data, a), new Tensor(y.type, y.data, b)];
}

function requireNumeric(call: InferCall<unknown>, type: DataType): void {
  const { kind } = typeInfo(type);
  if (kind !== 'float' && kind !== 'signed' && kind !== 'unsigned')
    throw call.error(`inputs must be numeric, got ${type}`);
}

function binaryRule(call: InferCall<LegacyAttributes>): OutputInfo[] {
  const type = commonType(call, [0, 1]);
  requireNumeric(call, type);
  return [{ type, dims: operandDims(call).out }];
}

/** A function of two numbers and, on 32- and 64-bit integers, of two exact integers. */
interface Function2 {
  readonly number: (a: number, b: number) => number;
  readonly integer: (a: bigint, b: bigint) => bigint;
}

function zip(tensors: readonly Tensor[], out: OutputInfo, f: Function2): Tensor {
  if (isInteger(out.type) && typeInfo(out.type).bits >= 32)
    return zipBigInts(tensors, out.dims, out.type, (a, b) => f.integer(a!, b!));
  return zipNumbers(tensors, out.dims, out.type, (a, b) => f.number(a!, b!));
}

const functions = {
  Add: { number: (a, b) => a + b, integer: (a, b) => a + b },
  Sub: { number: (a, b) => a - b, integer: (a, b) => a - b },
  Mul: { number: (a, b) => a * b, integer: (a, b) => a * b },
  Div: { number: (a, b) => a / b, integer: (a, b) => (b === 0n ? 0n : a / b) },
  // biome-ignore-start lint/complexity/useMathMinMax: Math.min does not take BigInts
  Min: { number: Math.min, integer: (a, b) => (a < b ? a : b) },
  Max: { number: Math.max, integer: (a, b) => (a > b ? a : b) },
  // biome-ignore-end lint/complexity/useMathMinMax: as above
} as const satisfies Record<string, Function2>;

/** Small integers divide as integers too. */
function divide(a: number, b: number): number {
  return b === 0 ? 0 : Math.trunc(a / b);
}

function lowerBinary(call: LowerCall<LegacyAttributes>, op: BroadcastOp, epilogue?: Epilogue): boolean {
  const { type } = call.input(0);
  if (type === 'bool') return false;
  const { a, b, out } = operandDims(call);
  const list = [
    { at: call.in(0), dims: a },
    { at: call.in(1), dims: b },
  ];
  return lowerBroadcast(call, op, type, out, list, epilogue);
}

function arithmetic(name: 'Add' | 'Sub' | 'Mul' | 'Div', op: BroadcastOp): Operator {
  return operator({
    name,
    since: [1, 6, 7, 13, 14],
    inputs: [2, 2],
    attributes: legacyBroadcast,
    infer: binaryRule,
    reference(call) {
      const [out] = binaryRule(call) as [OutputInfo];
      const f = name === 'Div' && isInteger(out.type) ? { ...functions.Div, number: divide } : functions[name];
      return [zip(operands(call), out, f)];
    },
    lower: (call) => lowerBinary(call, op),
  });
}

/** Add, Sub, Mul or Div followed by an activation: made by fusion, never read from a file. float32 kernels only. */
function fused(name: 'Add' | 'Sub' | 'Mul' | 'Div', op: BroadcastOp): Operator {
  const attributes = { activation: string('none'), activation_params: floats([]) };
  const epilogueOf = (call: InferCall<AttributesOf<typeof attributes>>) => {
    const found = activationNamed(call.attributes.activation);
    if (found === undefined) throw call.error(`unknown activation '${call.attributes.activation}'`);
    const [alpha = found.alpha, beta = found.beta] = call.attributes.activation_params;
    return { ...found, alpha, beta };
  };
  const rule = (call: InferCall<unknown>): OutputInfo[] => [{ type: commonType(call), dims: broadcastOf(call) }];
  return operator({
    name,
    domain: 'skep',
    since: [1],
    inputs: [2, 2],
    attributes,
    infer: rule,
    reference(call) {
      const [{ type, dims }] = rule(call) as [OutputInfo];
      const { apply, alpha, beta } = epilogueOf(call);
      const f = functions[name].number;
      return [zipNumbers([call.tensor(0), call.tensor(1)], dims, type, (a, b) => apply(f(a!, b!), alpha, beta))];
    },
    lower(call) {
      const [a, b] = [call.input(0), call.input(1)];
      if (a.type !== 'float32') return false;
      const list = [
        { at: call.in(0), dims: a.dims },
        { at: call.in(1), dims: b.dims },
      ];
      return lowerBroadcast(call, op, 'float32', call.output(0).dims, list, epilogueOf(call));
    },
  });
}

function powRule(call: InferCall<LegacyAttributes>): OutputInfo[] {
  const { type } = call.input(0);
  requireNumeric(call, type);
  requireNumeric(call, call.input(1).type);
  return [{ type, dims: operandDims(call).out }];
}

/** x^y in the type of x. An integer to a negative power is its rounded reciprocal: 0, 1 or −1. */
const Pow = operator({
  name: 'Pow',
  since: [1, 7, 12, 13, 15],
  inputs: [2, 2],
  attributes: legacyBroadcast,
  infer: powRule,
  reference(call) {
    const [{ type, dims }] = powRule(call) as [OutputInfo];
    const list = operands(call);
    if (isInteger(type) && isInteger(list[1].type))
      return [
        zipBigInts(list, dims, type, (a, b) => {
          if (b! >= 0n) return BigInt.asIntN(64, power(a!, b!));
          return a === 1n ? 1n : a === -1n ? (b! % 2n === 0n ? 1n : -1n) : 0n;
        }),
      ];
    return [zipNumbers(list, dims, type, (a, b) => realPower(a!, b!))];
  },
  lower(call) {
    const [x, y] = [call.input(0), call.input(1)];
    if (x.type !== 'float32') return false;
    if (y.value !== undefined && sizeOf(y.dims) === 1 && y.dims.length <= x.dims.length) {
      const exponent = decode(y.value)[0];
      if (exponent === 2) return lowerUnary(call, unaryCodes.square);
      if (exponent === 3) return lowerUnary(call, unaryCodes.cube, 0, 0, 2);
    }
    return y.type === 'float32' && lowerBinary(call, 'pow');
  },
});

/** C's pow, which gives 1 for (±1)^±∞ and 1^NaN where JavaScript gives NaN. */
function realPower(a: number, b: number): number {
  return a === 1 || (a === -1 && Math.abs(b) === Infinity) ? 1 : a ** b;
}

/** a^b modulo 2^64, by squaring: exponents come from data. */
function power(a: bigint, b: bigint): bigint {
  let result = 1n;
  let base = a;
  for (let e = b; e > 0n; e >>= 1n) {
    if (e & 1n) result = BigInt.asIntN(64, result * base);
    base = BigInt.asIntN(64, base * base);
  }
  return result;
}

/** fmod 0: the remainder has the divisor's sign, as in Python; fmod 1: the dividend's, as in C. */
const Mod = operator({
  name: 'Mod',
  since: [10, 13],
  inputs: [2, 2],
  attributes: { ...legacyBroadcast, fmod: int(0) },
  infer: (call) => binaryRule(call),
  reference(call) {
    const [out] = binaryRule(call) as [OutputInfo];
    const c = call.attributes.fmod !== 0;
    const f: Function2 = {
      number(a, b) {
        if (b === 0 && isInteger(out.type)) return 0;
        const r = a % b;
        return !c && r !== 0 && r < 0 !== b < 0 ? r + b : r;
      },
      integer(a, b) {
        if (b === 0n) return 0n;
        const r = a % b;
        return !c && r !== 0n && r < 0n !== b < 0n ? r + b : r;
      },
    };
    return [zip(operands(call), out, f)];
  },
  lower(call) {
    const { type } = call.input(0);
    return call.attributes.fmod === 0 && (type === 'int32' || type === 'int64') && lowerBinary(call, 'mod');
  },
});

/** The slope's shape as it broadcasts to x: before version 7 one slope a channel. */
function slopeDims(call: InferCall<unknown>): readonly number[] {
  const x = call.input(0).dims;
  const slope = call.input(1).dims;
  if (call.opset < 7 && slope.length === 1 && slope[0] !== 1 && x.length > 2)
    return [slope[0]!, ...new Array<number>(x.length - 2).fill(1)];
  return slope;
}

function preluRule(call: InferCall<unknown>): OutputInfo[] {
  const type = commonType(call, [0, 1]);
  requireNumeric(call, type);
  const { dims } = call.input(0);
  const out = broadcastShapes(dims, slopeDims(call));
  if (out === undefined || out.length !== dims.length || out.some((d, i) => d !== dims[i]))
    throw call.error(`slope of shape ${formatShape(call.input(1).dims)} does not broadcast to ${formatShape(dims)}`);
  return [{ type, dims }];
}

/** x, or slope · x where x < 0. */
const PRelu = operator({
  name: 'PRelu',
  since: [1, 6, 7, 9, 16],
  inputs: [2, 2],
  attributes: {},
  infer: preluRule,
  reference(call) {
    const [out] = preluRule(call) as [OutputInfo];
    const slope = new Tensor(out.type, call.tensor(1).data, slopeDims(call));
    const f = {
      number: (x: number, s: number) => (x < 0 ? s * x : x),
      integer: (x: bigint, s: bigint) => (x < 0n ? s * x : x),
    };
    return [zip([call.tensor(0), slope], out, f)];
  },
  lower(call) {
    const { type, dims } = call.input(0);
    if (type !== 'float32') return false;
    return lowerBroadcast(call, 'prelu', type, dims, [
      { at: call.in(0), dims },
      { at: call.in(1), dims: slopeDims(call) },
    ]);
  },
});

function naryRule(call: InferCall<unknown>): OutputInfo[] {
  const type = commonType(call);
  requireNumeric(call, type);
  return [{ type, dims: broadcastOf(call) }];
}

function nary(name: 'Sum' | 'Mean' | 'Min' | 'Max', since: readonly number[], op: BroadcastOp): Operator {
  const { number, integer }: Function2 = name === 'Min' || name === 'Max' ? functions[name] : functions.Add;
  return operator({
    name,
    since,
    inputs: [1, Number.POSITIVE_INFINITY],
    attributes: {},
    infer: naryRule,
    reference(call) {
      const [{ type, dims }] = naryRule(call) as [OutputInfo];
      const list = Array.from({ length: call.inputCount }, (_, i) => call.tensor(i));
      if (isInteger(type) && typeInfo(type).bits >= 32)
        return [zipBigInts(list, dims, type, (...xs) => xs.reduce(integer))];
      const n = list.length;
      return [
        zipNumbers(list, dims, type, (...xs) => {
          const r = xs.reduce((a, b) => number(a, b));
          return name === 'Mean' ? r / n : r;
        }),
      ];
    },
    lower(call) {
      const { type, dims } = call.output(0);
      const n = call.inputCount;
      if (n === 1) {
        call.alias(0, 0);
        return true;
      }
      // Pair by pair from the left, the running result in the output.
      for (let i = 1; i < n; i++) {
        const left = i === 1 ? { at: call.in(0), dims: call.input(0).dims } : { at: call.out(0), dims };
        if (!lowerBroadcast(call, op, type, dims, [left, { at: call.in(i), dims: call.input(i).dims }])) return false;
      }
      if (name === 'Mean') {
        const size = sizeOf(dims);
        const y = call.out(0);
        call.step(
          'unaryF32',
          { x: y, y, size, kind: activations.affine.code, alpha: 1 / n, beta: 0 },
          { units: Math.ceil(size / unaryBlock), grain: 4, flops: size },
        );
      }
      return true;
    },
  });
}

export const arithmeticOperators: readonly Operator[] = [
  arithmetic('Add', 'add'),
  arithmetic('Sub', 'sub'),
  arithmetic('Mul', 'mul'),
  arithmetic('Div', 'div'),
  fused('Add', 'add'),
  fused('Sub', 'sub'),
  fused('Mul', 'mul'),
  fused('Div', 'div'),
  Pow,
  Mod,
  PRelu,
  nary('Sum', [1, 6, 8, 13], 'add'),
  nary('Mean', [1, 6, 8, 13], 'add'),
  nary('Min', [1, 6, 8, 12, 13], 'min'),
  nary('Max', [1, 6, 8, 12, 13], 'max'),
];
