// Functions of one tensor without attributes: a table of name, versions, types and the function, in double precision and
// where integers are allowed in exact integers. Abs and Relu are rows like Sin. With parameters: activations.ts.
import { activations, erf } from '../kernels/activation.js';
import { unaryBlock, unaryCodes } from '../kernels/unary.js';
import { roundEven } from '../tensor/convert.js';
import { sizeOf } from '../tensor/shape.js';
import { typeInfo } from '../tensor/types.js';
import { type InferCall, type LowerCall, type Operator, type OutputInfo, operator } from './operator.js';
import { isInteger, mapBigInts, mapNumbers } from './reference.js';

/** Which types a function takes: floats, floats and signed integers, or floats and all integers. */
export type Domain = 'float' | 'signed' | 'number';

/** The output of a numeric function of input 0: like it. Throws unless its type is in the domain. */
export function numericRule(call: InferCall<unknown>, domain: Domain = 'float'): OutputInfo[] {
  const { type, dims } = call.input(0);
  const { kind } = typeInfo(type);
  const ok =
    kind === 'float' ||
    (kind === 'signed' && domain !== 'float') ||
    (kind === 'unsigned' && (domain === 'number' || call.opset < 13));
  const words = { float: 'floating-point', signed: 'signed or floating-point', number: 'numeric' };
  if (!ok) throw call.error(`input 0 must be ${words[domain]}, got ${type}`);
  return [{ type, dims }];
}

/** Lowers a float32 map to the unary kernel. `flops`: a rough cost of one element. */
export function lowerUnary<A>(call: LowerCall<A>, code: number, alpha = 0, beta = 0, flops = 1): boolean {
  const { type, dims } = call.input(0);
  if (type !== 'float32') return false;
  const size = sizeOf(dims);
  call.step(
    'unaryF32',
    { x: call.in(0), y: call.out(0), size, kind: code, alpha, beta },
    { units: Math.ceil(size / unaryBlock), grain: 4, flops: size * flops },
  );
  return true;
}

interface Row {
  readonly name: string;
  readonly since: readonly number[];
  readonly f: (x: number) => number;
  /** The same on 32- and 64-bit integers, for functions that take them. */
  readonly integer?: (x: bigint) => bigint;
  readonly domain?: Domain;
  /** Kernel code, where there is a kernel, and its parameters. */
  readonly code?: number;
  readonly alpha?: number;
  readonly beta?: number;
  readonly flops?: number;
}

function unaryOperator({ name, since, f, integer, domain = 'float', code, alpha, beta, flops }: Row): Operator {
  return operator({
    name,
    since,
    inputs: [1, 1],
    attributes: {},
    infer: (call) => numericRule(call, domain),
    reference(call) {
      numericRule(call, domain);
      const x = call.tensor(0);
      if (integer !== undefined && isInteger(x.type) && typeInfo(x.type).bits >= 32) return [mapBigInts(x, integer)];
      return [mapNumbers(x, f)];
    },
    ...(code !== undefined && { lower: (call: LowerCall<object>) => lowerUnary(call, code, alpha, beta, flops) }),
  });
}

const abs = (x: bigint) => (x < 0n ? -x : x);
const sign = (x: bigint) => (x > 0n ? 1n : x < 0n ? -1n : 0n);

const rows: readonly Row[] = [
  { name: 'Abs', since: [1, 6, 13], f: Math.abs, integer: abs, domain: 'number', code: unaryCodes.abs },
  { name: 'Neg', since: [1, 6, 13], f: (x) => -x, integer: (x) => -x, domain: 'signed', code: unaryCodes.neg },
  {
    name: 'Relu',
    since: [1, 6, 13, 14],
    f: (x) => Math.max(x, 0),
    integer: (x) => (x > 0n ? x : 0n),
    domain: 'signed',
    code: activations.relu.code,
  },
  { name: 'Sign', since: [9, 13], f: Math.sign, integer: sign, domain: 'number', code: unaryCodes.sign },
  { name: 'Floor', since: [1, 6, 13], f: Math.floor, code: unaryCodes.floor },
  { name: 'Ceil', since: [1, 6, 13], f: Math.ceil, code: unaryCodes.ceil },
  { name: 'Round', since: [11, 22], f: (x) => Math.sign(x) * roundEven(Math.abs(x)), code: unaryCodes.round },
  { name: 'Reciprocal', since: [1, 6, 13], f: (x) => 1 / x, code: unaryCodes.reciprocal },
  { name: 'Sqrt', since: [1, 6, 13], f: Math.sqrt, code: unaryCodes.sqrt },
  { name: 'Exp', since: [1, 6, 13], f: Math.exp, code: unaryCodes.exp, flops: 14 },
  { name: 'Log', since: [1, 6, 13], f: Math.log, code: unaryCodes.log, flops: 24 },
  { name: 'Erf', since: [9, 13], f: erf, code: unaryCodes.erf, flops: 24 },
  { name: 'Tanh', since: [1, 6, 13], f: Math.tanh, code: activations.tanh.code, flops: 20 },
  { name: 'Sigmoid', since: [1, 6, 13], f: activations.sigmoid.apply, code: activations.sigmoid.code, flops: 17 },
  { name: 'Softplus', since: [1, 22], f: activations.softplus.apply, code: activations.softplus.code, flops: 42 },
  { name: 'Softsign', since: [1, 22], f: activations.softsign.apply, code: activations.softsign.code, flops: 3 },
  { name: 'Mish', since: [18, 22], f: activations.mish.apply, code: activations.mish.code, flops: 62 },
  {
    name: 'HardSwish',
    since: [14, 22],
    f: (x) => activations.hardSwish.apply(x, 1 / 6, 0.5),
    code: activations.hardSwish.code,
    alpha: 1 / 6,
    beta: 0.5,
    flops: 5,
  },
  { name: 'Sin', since: [7, 22], f: Math.sin, code: unaryCodes.sin, flops: 30 },
  { name: 'Cos', since: [7, 22], f: Math.cos, code: unaryCodes.cos, flops: 30 },
  { name: 'Tan', since: [7, 22], f: Math.tan },
  { name: 'Asin', since: [7, 22], f: Math.asin },
  { name: 'Acos', since: [7, 22], f: Math.acos },
  { name: 'Atan', since: [7, 22], f: Math.atan },
  { name: 'Sinh', since: [9, 22], f: Math.sinh },
  { name: 'Cosh', since: [9, 22], f: Math.cosh },
  { name: 'Asinh', since: [9, 22], f: Math.asinh },
  { name: 'Acosh', since: [9, 22], f: Math.acosh },
  { name: 'Atanh', since: [9, 22], f: Math.atanh },
];

export const unaryOperators: readonly Operator[] = rows.map(unaryOperator);
