// Cases of operators that work element by element: unary functions, arithmetic with broadcasting, logic, casts.
import type { DataType } from '../../../src/tensor/types.js';
import { dataTypes } from '../../../src/tensor/types.js';
import { ALL, attributes, type Family, FLOATS, f, type Generator, INTEGERS, type Make, NUMBERS } from './generator.js';

const unary =
  (
    types: readonly DataType[],
    low = -3,
    high = 3,
    attrs: (g: Generator) => Parameters<typeof attributes>[0] = () => ({}),
  ): Make =>
  (g) => ({
    inputs: [
      g.chance(0.3) ? g.oddTensor(g.pick(types), g.dims(), low, high) : g.tensor(g.pick(types), g.dims(), low, high),
    ],
    attributes: attributes(attrs(g)),
  });

const float = (low = -3, high = 3, attrs?: (g: Generator) => Parameters<typeof attributes>[0]) =>
  unary(FLOATS, low, high, attrs);

const binary =
  (types: readonly DataType[], low = -3, high = 3, odd = true): Make =>
  (g) => {
    const dims = g.dims(0, 5);
    const type = g.pick(types);
    const make = () => {
      const d = g.broadcast(dims);
      return odd && g.chance(0.2) ? g.oddTensor(type, d, low, high) : g.tensor(type, d, low, high);
    };
    return { inputs: [make(), make()], constants: g.constants(2) };
  };

const variadic: Make = (g, opset) => {
  const dims = g.dims(0, 5);
  const type = opset >= 12 ? g.pick(NUMBERS) : g.pick(FLOATS);
  const n = g.int(1, 4);
  return {
    inputs: g.list(n, () =>
      (g.chance(0.2) ? g.oddTensor : g.tensor).call(g, type, opset >= 8 ? g.broadcast(dims) : dims),
    ),
    constants: g.constants(n),
  };
};

const variadicFloat: Make = (g, opset) => {
  const dims = g.dims(0, 5);
  const type = g.pick(FLOATS);
  return { inputs: g.list(g.int(1, 4), () => g.tensor(type, opset >= 8 ? g.broadcast(dims) : dims)) };
};

const divide: Make = (g) => {
  const dims = g.dims(0, 5);
  const type = g.pick(NUMBERS);
  const isFloat = (FLOATS as readonly DataType[]).includes(type);
  return {
    inputs: [
      g.tensor(type, g.broadcast(dims), -100, 100),
      isFloat ? g.oddTensor(type, g.broadcast(dims)) : g.tensor(type, g.broadcast(dims), 1, 7),
    ],
    constants: g.constants(2),
  };
};

const numeric13 =
  (op: Make, types: readonly DataType[]): Make =>
  (g, opset) =>
    opset >= 13 ? op(g, opset) : binary(types)(g, opset);

const protoName = (type: DataType) =>
  type === 'float32' ? 'FLOAT' : type === 'float64' ? 'DOUBLE' : type.toUpperCase();

export const elementwise: Family = {
  Abs: unary(NUMBERS),
  Neg: unary([...FLOATS, 'int8', 'int16', 'int32', 'int64']),
  Relu: (g, opset) => unary(opset >= 14 ? [...FLOATS, 'int8', 'int16', 'int32', 'int64'] : FLOATS)(g, opset),
  Sign: unary(NUMBERS),
  Floor: float(),
  Ceil: float(),
  Round: float(-4, 4),
  Reciprocal: float(),
  Sqrt: float(-0.5, 5),
  Exp: float(-5, 5),
  Log: float(-0.5, 5),
  Erf: float(),
  Tanh: float(-12, 12),
  Sigmoid: float(-20, 20),
  Softplus: float(-30, 30),
  Softsign: float(),
  Mish: float(-30, 30),
  HardSwish: float(-6, 6),
  Sin: float(-20, 20),
  Cos: float(-20, 20),
  Tan: float(-1.4, 1.4),
  Asin: float(-1, 1),
  Acos: float(-1, 1),
  Atan: float(-20, 20),
  Sinh: float(-6, 6),
  Cosh: float(-6, 6),
  Asinh: float(-20, 20),
  Acosh: float(0.9, 20),
  Atanh: float(-1, 1),
  LeakyRelu: float(-3, 3, (g) => ({ alpha: g.maybe(() => f(g.pick([0, 0.1, 2, -0.5]))) })),
  Elu: float(-3, 3, (g) => ({ alpha: g.maybe(() => f(g.pick([0.5, 2]))) })),
  Celu: unary(['float32'], -3, 3, (g) => ({ alpha: g.maybe(() => f(g.pick([0.5, 2]))) })),
  ThresholdedRelu: float(-3, 3, (g) => ({ alpha: g.maybe(() => f(g.pick([0.5, 0, -1]))) })),
  Swish: float(-3, 3, (g) => ({ alpha: g.maybe(() => f(g.pick([0.5, 2]))) })),
  Selu: float(-3, 3, (g) => ({ alpha: g.maybe(() => f(2)), gamma: g.maybe(() => f(1.5)) })),
  HardSigmoid: float(-6, 6, (g) => ({ alpha: g.maybe(() => f(g.pick([0.5, -0.1]))), beta: g.maybe(() => f(0.3)) })),
  Gelu: float(-6, 6, (g) => ({ approximate: g.maybe(() => g.pick(['none', 'tanh'])) })),
  Shrink: unary(NUMBERS, -4, 4, (g) => ({
    lambd: g.maybe(() => f(g.pick([1, 0, 2]))),
    bias: g.maybe(() => f(g.pick([1, 0.5]))),
  })),
  Clip: (g, opset) => {
    if (opset < 11)
      return unary(FLOATS, -3, 3, (h) => ({
        min: h.maybe(() => f(h.pick([-1, 0, 2]))),
        max: h.maybe(() => f(h.pick([1, 0.5, -2]))),
      }))(g, opset);
    const type = opset >= 12 ? g.pick(NUMBERS) : g.pick(FLOATS);
    const x = g.chance(0.3) ? g.oddTensor(type, g.dims()) : g.tensor(type, g.dims());
    const low = g.maybe(() => g.tensor(type, [], -2, 1));
    const high = g.maybe(() => g.tensor(type, [], 0, 2));
    const inputs = [x, low, high];
    while (inputs.at(-1) === undefined) inputs.pop();
    return { inputs, constants: g.constants(3).filter((i) => inputs[i] !== undefined) };
  },
  IsNaN: unary(FLOATS),
  IsInf: unary(['float32', 'float64'], -3, 3, (g) => ({
    detect_negative: g.maybe(() => g.int(0, 1)),
    detect_positive: g.maybe(() => g.int(0, 1)),
  })),
  Not: unary(['bool']),
  BitwiseNot: unary(INTEGERS),
  Add: binary(NUMBERS),
  Sub: binary(NUMBERS),
  Mul: binary(NUMBERS),
  Div: divide,
  Pow: (g, opset) => {
    const base = g.pick(['float32', 'float64', 'int32', 'int64'] as const);
    const dims = g.dims(0, 5);
    const isInt = base === 'int32' || base === 'int64';
    const power = opset >= 12 ? g.pick(['float32', 'float64', 'int32', 'int64'] as const) : base;
    return {
      inputs: [
        g.tensor(base, g.broadcast(dims), isInt ? 1 : 0.1, 4),
        g.tensor(power, g.broadcast(dims), isInt ? 0 : -3, 4),
      ],
      constants: g.constants(2),
    };
  },
  Mod: (g) => {
    const type = g.pick(NUMBERS);
    const fmod = (FLOATS as readonly DataType[]).includes(type) ? 1 : g.maybe(() => g.int(0, 1));
    const dims = g.dims(0, 5);
    const b = g.tensor(type, g.broadcast(dims), 1, 7);
    if (g.chance(0.5) && !type.startsWith('u') && type !== 'float16')
      for (let i = 0; i < b.size; i++)
        (b.data as unknown as Record<number, number>)[i] = -(b.data as unknown as Record<number, number>)[i]!;
    return { inputs: [g.tensor(type, g.broadcast(dims), -20, 20), b], attributes: attributes({ fmod }) };
  },
  PRelu: (g, opset) => {
    const type = opset >= 9 ? g.pick([...FLOATS, 'int32', 'int64', 'uint32', 'uint64'] as const) : g.pick(FLOATS);
    const dims = g.dims(0, 4);
    return { inputs: [g.tensor(type, dims), g.tensor(type, g.broadcast(dims))], constants: g.constants(2) };
  },
  Sum: variadicFloat,
  Mean: variadicFloat,
  Min: variadic,
  Max: variadic,
  Equal: (g, opset) =>
    binary(opset >= 19 ? ALL : opset >= 11 ? [...NUMBERS, 'bool'] : ['bool', 'int32', 'int64'])(g, opset),
  Less: numeric13(binary(NUMBERS), FLOATS),
  Greater: numeric13(binary(NUMBERS), FLOATS),
  LessOrEqual: binary(NUMBERS),
  GreaterOrEqual: binary(NUMBERS),
  And: binary(['bool']),
  Or: binary(['bool']),
  Xor: binary(['bool']),
  BitwiseAnd: binary(INTEGERS),
  BitwiseOr: binary(INTEGERS),
  BitwiseXor: binary(INTEGERS),
  BitShift: (g) => {
    const type = g.pick(['uint8', 'uint16', 'uint32', 'uint64'] as const);
    const dims = g.dims(0, 5);
    return {
      inputs: [g.oddTensor(type, g.broadcast(dims), 0, 200), g.tensor(type, g.broadcast(dims), 0, 7)],
      attributes: attributes({ direction: g.pick(['LEFT', 'RIGHT']) }),
    };
  },
  Where: (g) => {
    const dims = g.dims(0, 5);
    const type = g.pick(ALL);
    return {
      inputs: [
        g.tensor('bool', g.broadcast(dims)),
        g.tensor(type, g.broadcast(dims)),
        g.tensor(type, g.broadcast(dims)),
      ],
      constants: g.constants(3),
    };
  },
  Cast: (g, opset) => {
    const from = g.pick([...NUMBERS, 'bool'] as const);
    const to = g.pick([...NUMBERS, 'bool', 'string'] as const);
    const isFloat = (FLOATS as readonly DataType[]).includes(from);
    const x = g.tensor(from, g.dims(), to.startsWith('u') && isFloat ? 0 : -100, 100);
    return {
      inputs: [!isFloat || (FLOATS as readonly DataType[]).includes(to) ? g.oddTensor(from, x.dims) : x],
      attributes: attributes({ to: opset < 6 ? protoName(to) : dataTypes[to].onnx }),
    };
  },
  CastLike: (g) => ({ inputs: [g.tensor(g.pick(NUMBERS), g.dims(), 0, 100), g.tensor(g.pick(NUMBERS), g.dims())] }),
  Identity: unary(ALL),
  Dropout: (g, opset) => {
    const x = g.tensor(g.pick(FLOATS), g.dims());
    const outputs = g.int(1, 2);
    // Versions 1 and 6 train unless told otherwise.
    const is_test = opset < 7 ? 1 : undefined;
    if (opset < 12) return { inputs: [x], attributes: attributes({ ratio: g.maybe(() => f(0.3)), is_test }), outputs };
    const inputs = [
      x,
      g.maybe(() => g.tensor(g.pick(['float32', 'float64'] as const), [], 0.1, 0.9)),
      g.maybe(() => g.tensor('bool', [])),
    ];
    // Training draws random numbers.
    if (inputs[2] !== undefined) (inputs[2].data as Uint8Array)[0] = 0;
    while (inputs.at(-1) === undefined) inputs.pop();
    return { inputs, outputs };
  },
};
