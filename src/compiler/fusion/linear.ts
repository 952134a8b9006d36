// What goes into a convolution or a matrix product: constant scales and shifts of its channels (batch normalization is
// one) into the weights, then a bias, a residual and an activation into what the kernel does as it stores. Products are
// `skep:Conv`, `skep:MatMul` and `skep:Gemm` when they have a residual or an activation, the plain operator otherwise.
//
//   y = act( s · (W∗x + b) + t  + z )   =   act( (s·W)∗x + (s·b + t)  + z )
//
// Valid for float32, while the product's result has this one reader, and in this order only: nothing is folded into the
// weights once there is a residual, and nothing added once there is an activation. Folded weights are rounded once more
// than the separate operations would; bias, residual and activation give the very bits of separate nodes.
import type { Attribute } from '../../graph/graph.js';
import { decode, encode } from '../../tensor/convert.js';
import { sameShape, sizeOf } from '../../tensor/shape.js';
import { Tensor } from '../../tensor/tensor.js';
import type { SettledNode } from '../lowering.js';
import { activationOf } from './activations.js';
import {
  listOf,
  numbersOf,
  type Rewriter,
  type Rewritten,
  type Rule,
  type Rules,
  scalarOf,
  type Value,
} from './rewriter.js';

/** A product with its parts, whichever operator it is. */
interface Linear {
  readonly item: SettledNode;
  /** The operator without domain. */
  readonly op: 'Conv' | 'ConvTranspose' | 'MatMul' | 'Gemm';
  readonly x: Value;
  readonly w: Value;
  readonly bias: Value | undefined;
  readonly residual: Value | undefined;
  readonly activated: boolean;
  readonly channels: number;
  /** The axis of the result that counts channels. */
  readonly axis: number;
}

const kinds = [
  'Conv',
  'ConvTranspose',
  'MatMul',
  'Gemm',
  'skep:Conv',
  'skep:ConvTranspose',
  'skep:MatMul',
  'skep:Gemm',
];

/** The product that computes `value` for one reader alone. */
function linearOf(value: Value | undefined, r: Rewriter): Linear | undefined {
  const item = r.only(value, ...kinds);
  if (item === undefined || value!.info.type !== 'float32') return undefined;
  const op = item.node.op as Linear['op'];
  const dims = value!.info.dims;
  const w = r.input(item, 1)!;
  // A vector operand of MatMul drops its dimension, and then no axis counts channels.
  if (op === 'MatMul' && w.info.dims.length < 2) return undefined;
  const axis = op === 'MatMul' || op === 'Gemm' ? dims.length - 1 : 1;
  const { activation } = item.attributes as { readonly activation?: string };
  return {
    item,
    op,
    x: r.input(item, 0)!,
    w,
    bias: r.input(item, 2),
    residual: r.input(item, 3),
    activated: activation !== undefined && activation !== 'none',
    channels: dims[axis]!,
    axis,
  };
}

/** The root's place for a product with other parts. */
function rebuild(
  root: SettledNode,
  r: Rewriter,
  l: Linear,
  parts: {
    readonly w?: Value;
    readonly bias?: Value | undefined;
    readonly residual?: Value;
    readonly activation?: { readonly name: string; readonly params: readonly number[] };
    readonly attributes?: Readonly<Record<string, Attribute>>;
  },
): Rewritten | undefined {
  const { item, op, x } = l;
  const w = parts.w ?? l.w;
  const bias = 'bias' in parts ? parts.bias : l.bias;
  const residual = parts.residual ?? l.residual;
  const attributes: Record<string, Attribute> = { ...item.node.attributes, ...parts.attributes };
  if (parts.activation !== undefined) {
    attributes.activation = { kind: 'string', value: parts.activation.name };
    attributes.activation_params = { kind: 'floats', value: parts.activation.params };
  }
  const fused = residual !== undefined || parts.activation !== undefined || (op === 'MatMul' && bias !== undefined);
  const inputs = residual !== undefined ? [x, w, bias, residual] : bias !== undefined ? [x, w, bias] : [x, w];
  // An auto_pad, a kernel_shape and the like mean the same to `skep:Conv`.
  return r.replace(
    root,
    fused ? { op, domain: 'skep', opset: 1, inputs, attributes } : { op, opset: item.node.opset, inputs, attributes },
    [item],
  );
}

/** A constant as one number a channel of a result; undefined when it varies along other axes or changes the shape. */
function perChannel(value: Value, l: Linear, dims: readonly number[]): ArrayLike<number> | undefined {
  const t = value.info.value;
  if (t === undefined || t.type !== 'float32' || t.dims.length > dims.length) return undefined;
  const numbers = decode(t);
  if (t.size === 1) return new Array<number>(l.channels).fill(numbers[0]!);
  const own = t.dims.length - (dims.length - l.axis);
  if (t.size !== l.channels || t.dims[own] !== l.channels) return undefined;
  return numbers;
}

/** Weights and bias with channel c's result scaled by scale[c] and shifted by shift[c]. */
function fold(
  root: SettledNode,
  r: Rewriter,
  l: Linear,
  key: string,
  from: readonly Value[],
  scale: ArrayLike<number> | undefined,
  shift: ArrayLike<number> | undefined,
): Rewritten | undefined {
  if (l.activated || l.residual !== undefined || l.w.info.value === undefined) return undefined;
  if (l.bias !== undefined && numbersOf(l.bias) === undefined) return undefined;
  const attributes = l.item.attributes as { alpha?: number; beta?: number; transB?: number; group?: number };
  if (l.op === 'Gemm' && ((attributes.alpha ?? 1) !== 1 || (attributes.beta ?? 1) !== 1)) return undefined;
  if (l.op === 'Gemm' && l.bias !== undefined && !sameShape(l.bias.info.dims, [l.channels])) return undefined;
  const w = scale === undefined ? l.w : scaledWeights(r, l, key, from, scale);
  if (w === undefined) return undefined;
  const old = numbersOf(l.bias);
  if (old === undefined && shift === undefined) return rebuild(root, r, l, { w });
  const sources = l.bias === undefined ? from : [l.bias, ...from];
  const bias = r.constant(`bias(${l.bias?.name ?? l.w.name}${key})`, sources, () => {
    const sums = Array.from({ length: l.channels }, (_, c) => (old?.[c] ?? 0) * (scale?.[c] ?? 1) + (shift?.[c] ?? 0));
    return new Tensor('float32', encode('float32', sums), [l.channels]);
  });
  return rebuild(root, r, l, { w, bias });
}

function scaledWeights(
  r: Rewriter,
  l: Linear,
  key: string,
  from: readonly Value[],
  scale: ArrayLike<number>,
): Value | undefined {
  const t = l.w.info.value!;
  const { dims } = t;
  const group = (l.item.attributes.group as number | undefined) ?? 1;
  // Which channel of the result a weight belongs to: its index along `axis`, and in a transposed convolution, whose
  // weights are [C, M/group, …], also by the group its input channel is in.
  const axis =
    l.op === 'Conv'
      ? 0
      : l.op === 'ConvTranspose'
        ? 1
        : l.op === 'Gemm' && l.item.attributes.transB
          ? 0
          : dims.length - 1;
  const channelsOfGroup = dims[axis]!;
  const outer = sizeOf(dims.slice(0, axis));
  const inner = sizeOf(dims.slice(axis + 1));
  const perGroup = l.op === 'ConvTranspose' ? outer / group : outer;
  return r.constant(`weights(${l.w.name}${key})`, [l.w, ...from], () => {
    const data = decode(t);
    const out = new Float32Array(data.length);
    let i = 0;
    for (let o = 0; o < outer; o++) {
      const first = Math.floor(o / perGroup) * channelsOfGroup;
      for (let c = 0; c < channelsOfGroup; c++) {
        const s = scale[first + c]!;
        for (const end = i + inner; i < end; i++) out[i] = data[i]! * s;
      }
    }
    return new Tensor('float32', out, dims);
  });
}

/** Batch normalization of a product: a scale and a shift of every channel, when it does not train. */
const batchNormalization: Rule = (root, r) => {
  const l = linearOf(r.input(root, 0), r);
  if (l === undefined || l.axis !== 1) return undefined;
  const a = root.attributes as { epsilon: number; training_mode?: number; spatial?: number; is_test?: number };
  if (a.training_mode || a.spatial === 0) return undefined;
  // Before version 7 a node trained unless told otherwise.
  if (root.node.opset < 7 && a.is_test !== 1) return undefined;
  const parts = [1, 2, 3, 4].map((i) => r.input(root, i)!);
  const [gamma, beta, mean, variance] = parts.map((v) => numbersOf(v));
  if (gamma === undefined || beta === undefined || mean === undefined || variance === undefined) return undefined;
  if (gamma.length !== l.channels) return undefined;
  const scale = Array.from(gamma, (g, c) => g / Math.sqrt(variance[c]! + a.epsilon));
  const shift = Array.from(beta, (b, c) => b - mean[c]! * scale[c]!);
  return fold(root, r, l, ` bn ${parts.map((v) => v.name).join()} ${a.epsilon}`, parts, scale, shift);
};

/** Which operand of a two-operand root is a product's result, and the other one. */
function* operands(root: SettledNode, r: Rewriter): Generator<{ l: Linear; other: Value; first: boolean }> {
  for (const [i, j] of [
    [0, 1],
    [1, 0],
  ] as const) {
    const l = linearOf(r.input(root, i), r);
    if (l !== undefined) yield { l, other: r.input(root, j)!, first: i === 0 };
  }
}

/** Before version 7 an attribute could align the second operand at any axis. Sum may have any number of operands. */
function isPlainBinary(root: SettledNode): boolean {
  const aligned = root.node.opset < 7 && root.node.domain === '' && root.attributes.broadcast === 1;
  return root.node.inputs.length === 2 && !aligned;
}

const scaleShift: Rule = (root, r) => {
  if (!isPlainBinary(root)) return undefined;
  const dims = root.outputs[0]!.dims;
  for (const { l, other, first } of operands(root, r)) {
    const numbers = perChannel(other, l, dims);
    if (numbers === undefined) continue;
    const op = root.node.op === 'Sum' ? 'Add' : root.node.op;
    const key = ` ${op}${first ? '' : ' of'} ${other.name}`;
    // s / y is no scaling of y; s − y is: by −1.
    if (op === 'Div' && !first) continue;
    const scale =
      op === 'Mul'
        ? numbers
        : op === 'Div'
          ? Array.from(numbers, (s) => 1 / s)
          : op === 'Sub' && !first
            ? Array.from(numbers, () => -1)
            : undefined;
    const shift =
      op === 'Add' || (op === 'Sub' && !first) ? numbers : op === 'Sub' ? Array.from(numbers, (s) => -s) : undefined;
    const folded = fold(root, r, l, key, [other], scale, shift);
    if (folded !== undefined) return folded;
  }
  return undefined;
};

/** A bias vector that is no constant, added to a matrix product. */
const addBias: Rule = (root, r) => {
  if (!isPlainBinary(root)) return undefined;
  for (const { l, other } of operands(root, r)) {
    if (l.op !== 'MatMul' || l.activated || l.residual !== undefined || l.bias !== undefined) continue;
    if (other.info.type === 'float32' && sameShape(other.info.dims, [l.channels]))
      return rebuild(root, r, l, { bias: other });
  }
  return undefined;
};

/** A residual of the result's own shape. Of two products the later one takes the other's result. */
const addResidual: Rule = (root, r) => {
  if (!isPlainBinary(root)) return undefined;
  const found = [...operands(root, r)].filter(
    ({ l, other }) => !l.activated && l.residual === undefined && sameShape(other.info.dims, root.outputs[0]!.dims),
  );
  for (const { l, other } of found.reverse()) {
    const made = rebuild(root, r, l, { residual: other });
    if (made !== undefined) return made;
  }
  return undefined;
};

const activate: Rule = (root, r) => {
  const activation = activationOf(root, r);
  const l = activation && linearOf(activation.x, r);
  if (activation === undefined || l === undefined || l.activated || activation.name === 'none') return undefined;
  return rebuild(root, r, l, { activation });
};

/** An activation of a sum or product of two tensors: one pass over memory instead of two, the same bits. */
const activateBinary: Rule = (root, r) => {
  const activation = activationOf(root, r);
  const item = activation && r.only(activation.x, 'Add', 'Sub', 'Mul', 'Div');
  if (activation === undefined || item === undefined || !isPlainBinary(item)) return undefined;
  const attributes: Record<string, Attribute> = {
    activation: { kind: 'string', value: activation.name },
    activation_params: { kind: 'floats', value: activation.params },
  };
  const inputs = [r.input(item, 0), r.input(item, 1)];
  return r.replace(root, { op: item.node.op, domain: 'skep', inputs, attributes }, [item]);
};

/** Zeros around a convolution's input, which it can add itself: spatial axes only, none taken away. */
const padInto: Rule = (root, r) => {
  const pad = r.only(r.input(root, 0), 'Pad');
  if (pad === undefined || r.input(pad, 0)!.info.type !== 'float32') return undefined;
  const rank = root.inputs[0]!.dims.length;
  const old = pad.node.opset < 11;
  const mode = (pad.attributes.mode as string | undefined) ?? 'constant';
  const filler = r.input(pad, 2);
  const value = old ? ((pad.attributes.value as number | undefined) ?? 0) : filler === undefined ? 0 : scalarOf(filler);
  if (mode !== 'constant' || value !== 0 || r.input(pad, 3) !== undefined) return undefined;
  const pads = (pad.attributes.pads as readonly number[] | undefined) ?? listOf(r.input(pad, 1));
  if (pads?.length !== 2 * rank || pads.some((p) => p < 0)) return undefined;
  if ([0, 1, rank, rank + 1].some((i) => pads[i] !== 0)) return undefined;
  const auto = (root.attributes.auto_pad as string | undefined) ?? 'NOTSET';
  if (auto !== 'NOTSET' && auto !== 'VALID') return undefined;
  const spatial = [...pads.slice(2, rank), ...pads.slice(rank + 2)];
  const own = auto === 'VALID' ? undefined : (root.attributes.pads as readonly number[] | undefined);
  const attributes: Record<string, Attribute> = {
    ...root.node.attributes,
    auto_pad: { kind: 'string', value: 'NOTSET' },
    pads: { kind: 'ints', value: spatial.map((p, i) => p + (own?.[i] ?? 0)) },
  };
  const inputs = root.inputs.map((_, i) => (i === 0 ? r.input(pad, 0) : r.input(root, i)));
  const { op, domain, opset } = root.node;
  return r.replace(root, { op, domain, opset, inputs, attributes }, [pad]);
};

/** Every operator that is an activation; Mul and Add are looked at by the other rules. */
const activating = [
  'skep:Activation',
  'Relu',
  'LeakyRelu',
  'Clip',
  'Sigmoid',
  'Tanh',
  'HardSigmoid',
  'HardSwish',
  'Swish',
  'Elu',
  'Celu',
  'Selu',
  'Softplus',
  'Softsign',
  'Mish',
  'ThresholdedRelu',
  'Gelu',
];

export const linearRules: Rules = {
  ...Object.fromEntries(activating.map((k) => [k, [activate]])),
  BatchNormalization: [batchNormalization],
  Mul: [scaleShift],
  Div: [scaleShift],
  Sub: [scaleShift],
  Add: [scaleShift, addBias, addResidual],
  Sum: [scaleShift, addBias, addResidual],
  Conv: [padInto],
};

/** For the walk after all others: a sum or product that could go into a product or an activation has gone there by now. */
export const binaryRules: Rules = Object.fromEntries(activating.map((k) => [k, [activateBinary]]));
