// The element-wise methods of the builder: arithmetic with broadcasting, comparisons, activations. Shapes stay or broadcast.
import { SkepError } from '../tensor/errors.js';
import { type DataType, dataTypes } from '../tensor/types.js';
import { type AttributeValue, BuilderCore, float, type Value } from './builder-core.js';
import { broadcastDims, type Dims } from './builder-shapes.js';

/** A value, or a number that becomes a constant of the other operand's type. */
export type Operand = Value | number;

/** A builder that knows the element-wise operators. */
export class ElementwiseBuilder extends BuilderCore {
  /** An operator of one output whose shape is known. */
  protected one(
    op: string,
    inputs: readonly (Value | undefined)[],
    attributes: Record<string, AttributeValue | undefined>,
    dims: Dims,
    type?: DataType,
  ): Value {
    return this.op(op, inputs, attributes, [type === undefined ? { dims } : { type, dims }])[0]!;
  }

  /** An operator that changes neither type nor shape. */
  unary(op: string, x: Value, attributes: Record<string, AttributeValue | undefined> = {}): Value {
    return this.one(op, [x], attributes, x.dims);
  }

  /** An element-wise operator of two operands with broadcasting. */
  binary(op: string, a: Operand, b: Operand, type?: DataType): Value {
    if (typeof a === 'number' && typeof b === 'number')
      throw new SkepError('INVALID_INPUT', `${op}: one operand must be a value`);
    const of = (x: Operand, other: Operand) => (typeof x === 'number' ? this.scalar((other as Value).type, x) : x);
    const l = of(a, b);
    const r = of(b, a);
    return this.one(op, [l, r], {}, broadcastDims(l.dims, r.dims, op), type);
  }

  add = (a: Operand, b: Operand): Value => this.binary('Add', a, b);
  sub = (a: Operand, b: Operand): Value => this.binary('Sub', a, b);
  mul = (a: Operand, b: Operand): Value => this.binary('Mul', a, b);
  div = (a: Operand, b: Operand): Value => this.binary('Div', a, b);
  pow = (a: Operand, b: Operand): Value => this.binary('Pow', a, b);
  min = (a: Operand, b: Operand): Value => this.binary('Min', a, b);
  max = (a: Operand, b: Operand): Value => this.binary('Max', a, b);
  mod = (a: Operand, b: Operand): Value => this.binary('Mod', a, b);
  equal = (a: Operand, b: Operand): Value => this.binary('Equal', a, b, 'bool');
  less = (a: Operand, b: Operand): Value => this.binary('Less', a, b, 'bool');
  greater = (a: Operand, b: Operand): Value => this.binary('Greater', a, b, 'bool');
  lessOrEqual = (a: Operand, b: Operand): Value => this.binary('LessOrEqual', a, b, 'bool');
  greaterOrEqual = (a: Operand, b: Operand): Value => this.binary('GreaterOrEqual', a, b, 'bool');
  and = (a: Value, b: Value): Value => this.binary('And', a, b, 'bool');
  or = (a: Value, b: Value): Value => this.binary('Or', a, b, 'bool');
  not = (x: Value): Value => this.unary('Not', x);

  /** `condition ? a : b`, element by element. */
  where(condition: Value, a: Operand, b: Operand): Value {
    const type = typeof a !== 'number' ? a.type : typeof b !== 'number' ? b.type : 'float32';
    const l = typeof a === 'number' ? this.scalar(type, a) : a;
    const r = typeof b === 'number' ? this.scalar(type, b) : b;
    const dims = broadcastDims(condition.dims, broadcastDims(l.dims, r.dims, 'Where'), 'Where');
    return this.one('Where', [condition, l, r], {}, dims, type);
  }

  relu = (x: Value): Value => this.unary('Relu', x);
  sigmoid = (x: Value): Value => this.unary('Sigmoid', x);
  tanh = (x: Value): Value => this.unary('Tanh', x);
  erf = (x: Value): Value => this.unary('Erf', x);
  exp = (x: Value): Value => this.unary('Exp', x);
  log = (x: Value): Value => this.unary('Log', x);
  sqrt = (x: Value): Value => this.unary('Sqrt', x);
  neg = (x: Value): Value => this.unary('Neg', x);
  abs = (x: Value): Value => this.unary('Abs', x);
  floor = (x: Value): Value => this.unary('Floor', x);
  ceil = (x: Value): Value => this.unary('Ceil', x);
  reciprocal = (x: Value): Value => this.unary('Reciprocal', x);
  softplus = (x: Value): Value => this.unary('Softplus', x);
  softsign = (x: Value): Value => this.unary('Softsign', x);
  hardSwish = (x: Value): Value => this.unary('HardSwish', x);
  identity = (x: Value): Value => this.unary('Identity', x);
  leakyRelu = (x: Value, alpha = 0.01): Value => this.unary('LeakyRelu', x, { alpha: float(alpha) });
  elu = (x: Value, alpha = 1): Value => this.unary('Elu', x, { alpha: float(alpha) });
  hardSigmoid = (x: Value, alpha = 0.2, beta = 0.5): Value =>
    this.unary('HardSigmoid', x, { alpha: float(alpha), beta: float(beta) });
  prelu = (x: Value, slope: Value): Value => this.one('PRelu', [x, slope], {}, x.dims);
  softmax = (x: Value, axis = -1): Value => this.unary('Softmax', x, { axis });
  logSoftmax = (x: Value, axis = -1): Value => this.unary('LogSoftmax', x, { axis });

  /** x · sigmoid(x): Mul and Sigmoid. */
  silu = (x: Value): Value => this.mul(x, this.sigmoid(x));

  /** Gelu; before operator set 20 as x · (1 + erf(x / √2)) / 2, or its tanh form. */
  gelu(x: Value, approximate: 'none' | 'tanh' = 'none'): Value {
    if (this.opset >= 20) return this.unary('Gelu', x, { approximate });
    const inner =
      approximate === 'none'
        ? this.erf(this.div(x, Math.SQRT2))
        : this.tanh(this.mul(this.add(x, this.mul(this.pow(x, 3), 0.044715)), Math.sqrt(2 / Math.PI)));
    return this.mul(this.mul(x, this.add(inner, 1)), 0.5);
  }

  /** Limits to [low, high]; an absent end is no limit. */
  clip(x: Value, low?: number, high?: number): Value {
    const end = (v: number | undefined) => (v === undefined ? undefined : this.scalar(x.type, v));
    return this.one('Clip', [x, end(low), end(high)], {}, x.dims);
  }

  cast(x: Value, type: DataType): Value {
    return this.one('Cast', [x], { to: dataTypes[type].onnx }, x.dims, type);
  }
}
