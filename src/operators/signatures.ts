// The type signatures of operators (those of other domains by `domain:name`), as the specification's type constraints have them, checked in one place before
// an operator's own rule is asked: an engine must never read the bytes of one type as another's. A word an input:
//
//   T U V W      any type; inputs with the same letter have the same type
//   N M          the same, but a number; F G H: a floating-point number; B C D: one of 8 bits; K: also a bool
//   I            int32 or int64 (indices); int64, int32, bool, string: that type; any: a value of any type
//   …            the last word again for all inputs that follow
//
// Shapes, and which numbers of a kind an engine takes, are the operator's. Operators not listed check their inputs alone.

import type { Node } from '../graph/graph.js';
import { formatShape } from '../tensor/errors.js';
import { type DataType, typeInfo } from '../tensor/types.js';
import type { InferCall } from './operator.js';

/** Functions of floating-point numbers alone. */
const floatFunctions = [
  'Floor Ceil Round Reciprocal Sqrt Exp Log Tanh Sigmoid Softplus Softsign Mish HardSwish',
  'Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh LeakyRelu Elu Celu ThresholdedRelu Swish Selu HardSigmoid Gelu',
  'Softmax LogSoftmax Hardmax LRN LpNormalization MeanVarianceNormalization IsNaN IsInf Multinomial',
  'AveragePool LpPool GlobalAveragePool GlobalMaxPool GlobalLpPool',
].flatMap((line) => line.split(' '));

/** By operator; 'from 18: …' gives another signature to later versions. */
const signatures: Readonly<Record<string, string | readonly (readonly [since: number, signature: string])[]>> = {
  Conv: 'F F F',
  ConvTranspose: 'F F F',
  Reshape: [
    [1, 'T'],
    [5, 'T int64'],
  ],
  Squeeze: [
    [1, 'T'],
    [13, 'T int64'],
  ],
  Unsqueeze: [
    [1, 'T'],
    [13, 'T int64'],
  ],
  Slice: [
    [1, 'T'],
    [10, 'T I I I I'],
  ],
  Expand: 'T int64',
  Tile: [
    [1, 'T T T'],
    [6, 'T int64'],
  ],
  Concat: 'T …',
  Split: [
    [1, 'T T'],
    [2, 'T'],
    [13, 'T int64'],
  ],
  Pad: [
    [1, 'T'],
    [11, 'T int64 T'],
    [18, 'T int64 T I'],
  ],
  CenterCropPad: 'T I',
  ReverseSequence: 'T int64',
  Trilu: 'T int64',
  Gather: 'T I',
  GatherElements: 'T I',
  GatherND: 'T I',
  Scatter: 'T I T',
  ScatterElements: 'T I T',
  ScatterND: 'T I T',
  TensorScatter: 'T T I',
  ConstantOfShape: 'int64',
  Range: 'N N N',
  OneHot: 'N M T',
  Resize: [
    [10, 'K float32'],
    [11, 'K F float32 int64'],
  ],
  Upsample: [
    [1, 'K'],
    [9, 'K float32'],
  ],
  GridSample: 'K F',
  AffineGrid: 'F int64',
  RoiAlign: 'F F int64',
  Col2Im: 'K int64 int64',
  EyeLike: 'K',
  Bernoulli: 'F',
  SimplifiedLayerNormalization: 'F G',
  SplitToSequence: 'T I',
  TopK: [
    [1, 'N'],
    [10, 'N int64'],
  ],
  Compress: 'T bool',
  NonMaxSuppression: 'float32 float32 int64 float32 float32',
  HannWindow: 'I',
  HammingWindow: 'I',
  BlackmanWindow: 'I',
  MelWeightMatrix: 'I I I F F',
  DFT: [
    [17, 'F I'],
    [20, 'F I int64'],
  ],
  STFT: 'F I F I',
  Einsum: 'N …',
  Det: 'F',
  If: 'bool',
  Loop: 'int64 bool any …',
  StringConcat: 'string string',
  StringSplit: 'string',
  StringNormalizer: 'string',
  RegexFullMatch: 'string',
  Gemm: 'N N N',
  MatMul: 'N N',
  GRU: 'F F F F int32 F',
  LSTM: 'F F F F int32 F F F',
  RNN: 'F F F F int32 F',
  Clip: [
    [1, 'N'],
    [11, 'N N N'],
  ],
  Not: 'bool',
  Add: 'N N',
  Sub: 'N N',
  Mul: 'N N',
  Div: 'N N',
  Pow: [
    [1, 'N N'],
    [12, 'N M'],
  ],
  Mod: 'N N',
  PRelu: 'N N',
  Sum: 'F …',
  Mean: 'F …',
  Min: 'N …',
  Max: 'N …',
  Equal: 'T T',
  Less: 'N N',
  Greater: 'N N',
  LessOrEqual: 'N N',
  GreaterOrEqual: 'N N',
  And: 'bool bool',
  Or: 'bool bool',
  Xor: 'bool bool',
  BitwiseAnd: 'N N',
  BitwiseOr: 'N N',
  BitwiseXor: 'N N',
  BitShift: 'N N',
  Where: 'bool T T',
  Dropout: [
    [1, 'F'],
    [12, 'F G bool'],
  ],
  ReduceSum: [
    [1, 'N'],
    [13, 'N int64'],
  ],
  ReduceMean: [
    [1, 'N'],
    [18, 'N int64'],
  ],
  ReduceMax: [
    [1, 'T'],
    [18, 'T int64'],
  ],
  ReduceMin: [
    [1, 'T'],
    [18, 'T int64'],
  ],
  ReduceProd: [
    [1, 'N'],
    [18, 'N int64'],
  ],
  ReduceSumSquare: [
    [1, 'N'],
    [18, 'N int64'],
  ],
  ReduceL1: [
    [1, 'N'],
    [18, 'N int64'],
  ],
  ReduceL2: [
    [1, 'N'],
    [18, 'N int64'],
  ],
  ReduceLogSum: [
    [1, 'N'],
    [18, 'N int64'],
  ],
  ReduceLogSumExp: [
    [1, 'N'],
    [18, 'N int64'],
  ],
  ArgMax: 'N',
  ArgMin: 'N',
  CumSum: 'N I',
  CumProd: 'N I',
  BatchNormalization: [
    [1, 'F F F F F'],
    [14, 'F F F G G'],
    [15, 'F G G H H'],
  ],
  InstanceNormalization: 'F F F',
  GroupNormalization: 'F F F',
  LayerNormalization: 'F G G',
  RMSNormalization: 'F G',
  MaxUnpool: 'F int64 int64',
  Attention: 'F F G any F G int64',
  RotaryEmbedding: 'F F F int64',
  LinearAttention: 'F F F G F F F',
  CausalConvWithState: 'F F F F',
  DeformConv: 'F F F F F',
  ConvInteger: 'B C B C',
  MatMulInteger: 'B C B C',
  QLinearConv: 'B float32 B C float32 C float32 D int32',
  QLinearMatMul: [
    [10, 'B float32 B C float32 C float32 D'],
    [21, 'B F B C F C F D'],
  ],
  DynamicQuantizeLinear: 'float32',
  'com.microsoft:Gelu': 'F',
  'com.microsoft:QuickGelu': 'F',
  'com.microsoft:FastGelu': 'F F',
  'com.microsoft:BiasGelu': 'F F',
  'com.microsoft:SkipLayerNormalization': 'F F F F F',
  'com.microsoft:SkipSimplifiedLayerNormalization': 'F F F F',
  'com.microsoft:SimplifiedLayerNormalization': 'F G',
  'com.microsoft:GroupQueryAttention': 'F F F F F int32 int32 F F int64 F F F F',
  'com.microsoft:MatMulNBits': 'F uint8 F any any F',
  'com.microsoft:RotaryEmbedding': 'F int64 F F',
  'com.microsoft:FusedMatMul': 'F F',
  'com.microsoft:FusedConv': 'F F F F',
  'com.microsoft:Attention': 'F F F int32 F F int32',
  'com.microsoft:MultiHeadAttention': 'F F F F int32 F F F int32 int32',
  'com.microsoft:EmbedLayerNormalization': 'int32 int32 F F F F F int32 int32',
  'com.microsoft:MatMulIntegerToFloat': 'B C F F B C F',
  'com.microsoft:DynamicQuantizeMatMul': 'float32 B float32 B float32',
};

const words = new Map<string, readonly (readonly [since: number, words: readonly string[]])[]>(
  floatFunctions.map((op) => [op, [[1, ['F']]]]),
);

function wordsOf({ domain, op: name, opset }: Pick<Node, 'domain' | 'op' | 'opset'>): readonly string[] | undefined {
  const op = domain === '' ? name : `${domain}:${name}`;
  let found = words.get(op);
  if (found === undefined) {
    const s = Object.hasOwn(signatures, op) ? signatures[op]! : [];
    found = (typeof s === 'string' ? [[1, s] as const] : s).map(([since, text]) => [since, text.split(' ')] as const);
    words.set(op, found);
  }
  return found.findLast(([since]) => since <= opset)?.[1];
}

const kinds: Readonly<Record<string, string>> = {
  N: 'a number of 8 to 64 bits',
  M: 'a number of 8 to 64 bits',
  F: 'float32, float64, float16 or bfloat16',
  G: 'float32, float64, float16 or bfloat16',
  H: 'float32, float64, float16 or bfloat16',
  B: 'a number of 8 bits',
  C: 'a number of 8 bits',
  D: 'a number of 8 bits',
  K: 'a number or bool',
};

const floats: readonly string[] = ['float32', 'float64', 'float16', 'bfloat16'];

/** Types smaller than a byte, and float8, are for storage: only operators that convert or move them take them. */
function isKind(word: string, type: DataType): boolean {
  const { kind, bits } = typeInfo(type);
  const integer = (kind === 'signed' || kind === 'unsigned') && bits >= 8;
  switch (word) {
    case 'N':
    case 'M':
      return integer || floats.includes(type);
    case 'F':
    case 'G':
    case 'H':
      return floats.includes(type);
    case 'B':
    case 'C':
    case 'D':
      return bits === 8 && kind !== 'bool' && type !== 'float8e8m0';
    case 'K':
      return kind !== 'string' && kind !== 'complex';
    default:
      return true;
  }
}

/** The main input and those of its type by signature; undefined where there is no signature, or the main type is fixed. */
export function inputsOfOneType(node: Pick<Node, 'domain' | 'op' | 'opset'>, count: number): number[] | undefined {
  const signature = wordsOf(node);
  const main = signature?.find((word) => word.length === 1 && word !== 'I' && word !== '…');
  if (signature === undefined || main === undefined) return undefined;
  const last = signature.at(-1) === '…' ? signature.length - 2 : signature.length;
  return Array.from({ length: count }, (_, i) => i).filter((i) => signature[Math.min(i, last)] === main);
}

/** Throws INVALID_MODEL when the types of a node's inputs break its operator's signature. */
export function checkTypes(call: InferCall<unknown>): void {
  const signature = wordsOf(call.node);
  if (signature === undefined) return;
  const most = signature.length;
  if (signature.at(-1) !== '…' && call.inputCount > most)
    throw call.error(
      `expected at most ${most} input${most === 1 ? '' : 's'} in version ${call.opset}, got ${call.inputCount}`,
    );
  const bound = new Map<string, number>();
  const describe = (i: number): string => `input ${i} is ${call.input(i).type} ${formatShape(call.input(i).dims)}`;
  for (let i = 0; i < call.inputCount; i++) {
    const last = signature.at(-1) === '…' ? signature.length - 2 : signature.length;
    const word = signature[Math.min(i, last)];
    if (word === undefined || word === 'any' || !call.has(i)) continue;
    const { type } = call.input(i);
    if (word === 'I') {
      if (type !== 'int32' && type !== 'int64') throw call.error(`${describe(i)}; it must be int32 or int64`);
    } else if (word.length > 1) {
      if (type !== word) throw call.error(`${describe(i)}; it must be ${word} in version ${call.opset}`);
    } else {
      const first = bound.get(word);
      if (first === undefined) {
        if (!isKind(word, type)) throw call.error(`${describe(i)}; it must be ${kinds[word]} in version ${call.opset}`);
        bound.set(word, i);
      } else if (call.input(first).type !== type)
        throw call.error(`${describe(first)} and ${describe(i)}; they must be of one type`);
    }
  }
}
