// Activations and other functions of one tensor that have parameters: LeakyRelu's slope, Clip's bounds, IsInf's signs.
// Where the parameters of an activation are attributes, the operator is a row of the table; the rest are written out.
import { activations } from '../kernels/activation.js';
import { unaryBlock, unaryCodes } from '../kernels/unary.js';
import { decode, decodeBig } from '../tensor/convert.js';
import { sizeOf } from '../tensor/shape.js';
import { typeInfo } from '../tensor/types.js';
import { type AttributeSpec, type AttributeSpecs, float, int, string } from './attributes.js';
import { lowerBroadcast } from './broadcast.js';
import { type InferCall, type LowerCall, type Operator, type OutputInfo, operator } from './operator.js';
import { fromBools, isInteger, mapBigInts, mapNumbers } from './reference.js';
import { lowerUnary, numericRule } from './unary.js';

interface Row {
  readonly name: string;
  readonly since: readonly number[];
  readonly activation: keyof typeof activations;
  /** The attribute that is alpha, and its default. */
  readonly alpha: readonly [string, number];
  readonly beta?: readonly [string, number];
  readonly flops: number;
}

const rows: readonly Row[] = [
  { name: 'LeakyRelu', since: [1, 6, 16], activation: 'leakyRelu', alpha: ['alpha', 0.01], flops: 2 },
  { name: 'Elu', since: [1, 6, 22], activation: 'elu', alpha: ['alpha', 1], flops: 18 },
  { name: 'Celu', since: [12], activation: 'celu', alpha: ['alpha', 1], flops: 19 },
  { name: 'ThresholdedRelu', since: [1, 10, 22], activation: 'thresholdedRelu', alpha: ['alpha', 1], flops: 1 },
  { name: 'Swish', since: [24], activation: 'silu', alpha: ['alpha', 1], flops: 19 },
  {
    name: 'Selu',
    since: [1, 6, 22],
    activation: 'selu',
    alpha: ['alpha', 1.6732631921768188],
    beta: ['gamma', 1.0507010221481323],
    flops: 19,
  },
  {
    name: 'HardSigmoid',
    since: [1, 6, 22],
    activation: 'hardSigmoid',
    alpha: ['alpha', 0.2],
    beta: ['beta', 0.5],
    flops: 4,
  },
];

function activationOperator({ name, since, activation, alpha, beta, flops }: Row): Operator {
  const { code, apply } = activations[activation];
  const specs: Record<string, AttributeSpec<number>> = { [alpha[0]]: float(alpha[1]) };
  if (beta !== undefined) specs[beta[0]] = float(beta[1]);
  const parameters = (attributes: Readonly<Record<string, unknown>>): [number, number] => [
    attributes[alpha[0]] as number,
    beta === undefined ? 0 : (attributes[beta[0]] as number),
  ];
  return operator({
    name,
    since,
    inputs: [1, 1],
    attributes: specs as AttributeSpecs,
    infer: (call) => numericRule(call),
    reference(call) {
      numericRule(call);
      const [a, b] = parameters(call.attributes);
      return [mapNumbers(call.tensor(0), (x) => apply(x, a, b))];
    },
    lower: (call) => lowerUnary(call, code, ...parameters(call.attributes), flops),
  });
}

/** x · Φ(x), by erf or by its tanh approximation. */
const Gelu = operator({
  name: 'Gelu',
  since: [20],
  inputs: [1, 1],
  attributes: { approximate: string('none') },
  infer: (call) => numericRule(call),
  reference(call) {
    numericRule(call);
    const { apply } = call.attributes.approximate === 'tanh' ? activations.geluTanh : activations.gelu;
    return [mapNumbers(call.tensor(0), apply)];
  },
  lower(call) {
    const { code } = call.attributes.approximate === 'tanh' ? activations.geluTanh : activations.gelu;
    return lowerUnary(call, code, 0, 0, 27);
  },
});

/** x + bias below −lambd, x − bias above lambd, 0 between. */
const Shrink = operator({
  name: 'Shrink',
  since: [9],
  inputs: [1, 1],
  attributes: { bias: float(0), lambd: float(0.5) },
  infer: (call) => numericRule(call, 'number'),
  reference(call) {
    numericRule(call, 'number');
    const { bias, lambd } = call.attributes;
    const t = call.tensor(0);
    // Integers beyond 2^53 keep their bits where the bias is a whole number.
    if (isInteger(t.type) && Number.isInteger(bias)) {
      const by = BigInt(bias);
      return [mapBigInts(t, (x) => (Number(x) < -lambd ? x + by : Number(x) > lambd ? x - by : 0n))];
    }
    return [mapNumbers(t, (x) => (x < -lambd ? x + bias : x > lambd ? x - bias : 0))];
  },
  lower: (call) => lowerUnary(call, unaryCodes.shrink, call.attributes.lambd, call.attributes.bias, 4),
});

const clipSpecs = { min: float(), max: float() };

function clipRule(call: InferCall<unknown>): OutputInfo[] {
  const out = numericRule(call, 'number');
  for (const [i, what] of [
    [1, 'min'],
    [2, 'max'],
  ] as const) {
    const bound = call.optional(i);
    if (bound === undefined) continue;
    if (sizeOf(bound.dims) !== 1) throw call.error(`${what} must be a scalar, got shape [${bound.dims.join(', ')}]`);
    if (bound.type !== out[0]!.type) throw call.error(`${what} must be of type ${out[0]!.type}, got ${bound.type}`);
  }
  return out;
}

/** min(max(x, min), max): bounds are attributes before version 11, optional scalar inputs since. */
const Clip = operator({
  name: 'Clip',
  since: [1, 6, 11, 12, 13],
  inputs: [1, 3],
  attributes: clipSpecs,
  infer: clipRule,
  reference(call) {
    clipRule(call);
    const x = call.tensor(0);
    if (isInteger(x.type) && typeInfo(x.type).bits >= 32) {
      const low = call.has(1) ? decodeBig(call.tensor(1))[0]! : undefined;
      const high = call.has(2) ? decodeBig(call.tensor(2))[0]! : undefined;
      return [
        mapBigInts(x, (v) => {
          const a = low !== undefined && v < low ? low : v;
          return high !== undefined && a > high ? high : a;
        }),
      ];
    }
    const low = call.has(1) ? decode(call.tensor(1))[0]! : (call.attributes.min ?? Number.NEGATIVE_INFINITY);
    const high = call.has(2) ? decode(call.tensor(2))[0]! : (call.attributes.max ?? Number.POSITIVE_INFINITY);
    return [mapNumbers(x, (v) => Math.min(Math.max(v, low), high))];
  },
  lower(call) {
    const { type } = call.input(0);
    const bounds = [call.optional(1), call.optional(2)];
    if (bounds.every((b) => b === undefined || b.value !== undefined)) {
      const [low, high] = bounds.map((b) => (b === undefined ? undefined : decode(b.value!)[0]!));
      if (type === 'float32')
        return lowerUnary(
          call,
          activations.clip.code,
          low ?? call.attributes.min ?? Number.NEGATIVE_INFINITY,
          high ?? call.attributes.max ?? Number.POSITIVE_INFINITY,
          2,
        );
    }
    if (type !== 'float32' && type !== 'int32' && type !== 'int64') return false;
    // Bounds that are computed: a Max and a Min, the second in place.
    const { dims } = call.input(0);
    let from = call.in(0);
    if (call.has(1)) {
      lowerBroadcast(call, 'max', type, dims, [
        { at: from, dims },
        { at: call.in(1), dims: [] },
      ]);
      from = call.out(0);
    }
    if (call.has(2))
      lowerBroadcast(call, 'min', type, dims, [
        { at: from, dims },
        { at: call.in(2), dims: [] },
      ]);
    else if (!call.has(1)) call.alias(0, 0);
    return true;
  },
});

function predicateRule(call: InferCall<unknown>): OutputInfo[] {
  const [{ dims }] = numericRule(call) as [OutputInfo];
  return [{ type: 'bool', dims }];
}

function lowerClasses(call: LowerCall<unknown>, classes: number): boolean {
  const { type, dims } = call.input(0);
  if (type !== 'float32') return false;
  const size = sizeOf(dims);
  const units = Math.ceil(size / unaryBlock);
  call.step('classifyF32', { x: call.in(0), y: call.out(0), size, classes }, { units, grain: 8 });
  return true;
}

const IsNaN = operator({
  name: 'IsNaN',
  since: [9, 13, 20],
  inputs: [1, 1],
  attributes: {},
  infer: predicateRule,
  reference(call) {
    predicateRule(call);
    return [fromBools(call.input(0).dims, Array.from(decode(call.tensor(0)), Number.isNaN))];
  },
  lower: (call) => lowerClasses(call, 1),
});

const IsInf = operator({
  name: 'IsInf',
  since: [10, 20],
  inputs: [1, 1],
  attributes: { detect_negative: int(1), detect_positive: int(1) },
  infer: predicateRule,
  reference(call) {
    predicateRule(call);
    const { detect_negative, detect_positive } = call.attributes;
    const found = Array.from(
      decode(call.tensor(0)),
      (x) =>
        (x === Number.POSITIVE_INFINITY && detect_positive !== 0) ||
        (x === Number.NEGATIVE_INFINITY && detect_negative !== 0),
    );
    return [fromBools(call.input(0).dims, found)];
  },
  lower(call) {
    const { detect_negative, detect_positive } = call.attributes;
    return lowerClasses(call, (detect_positive !== 0 ? 2 : 0) + (detect_negative !== 0 ? 4 : 0));
  },
});

function boolRule(call: InferCall<unknown>): OutputInfo[] {
  const { type, dims } = call.input(0);
  if (type !== 'bool') throw call.error(`input 0 must be bool, got ${type}`);
  return [{ type, dims }];
}

const Not = operator({
  name: 'Not',
  since: [1],
  inputs: [1, 1],
  attributes: {},
  infer: boolRule,
  reference(call) {
    boolRule(call);
    return [mapNumbers(call.tensor(0), (x) => (x === 0 ? 1 : 0))];
  },
  lower(call) {
    const size = sizeOf(call.input(0).dims);
    const units = Math.ceil(size / unaryBlock);
    call.step('notU8', { x: call.in(0), y: call.out(0), size }, { units, grain: 8 });
    return true;
  },
});

function integerRule(call: InferCall<unknown>): OutputInfo[] {
  const { type, dims } = call.input(0);
  if (!isInteger(type)) throw call.error(`input 0 must be an integer tensor, got ${type}`);
  return [{ type, dims }];
}

const BitwiseNot = operator({
  name: 'BitwiseNot',
  since: [18],
  inputs: [1, 1],
  attributes: {},
  infer: integerRule,
  reference(call) {
    integerRule(call);
    return [mapBigInts(call.tensor(0), (x) => ~x)];
  },
});

export const activationOperators: readonly Operator[] = [
  ...rows.map(activationOperator),
  Gelu,
  Shrink,
  Clip,
  IsNaN,
  IsInf,
  Not,
  BitwiseNot,
];
