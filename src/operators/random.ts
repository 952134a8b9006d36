// Random tensors: RandomNormal, RandomUniform, their Like forms, Bernoulli, Multinomial. Never folded. With a seed the
// numbers are the same every time (they are Skep's own: the specification fixes no generator); without one they differ.
import { decode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { sizeOf } from '../tensor/shape.js';
import { float, int, ints } from './attributes.js';
import { typeAttribute } from './generators.js';
import { type InferCall, type Operator, operator } from './operator.js';
import { outputOf } from './pick.js';
import { fromNumbers } from './reference.js';

/** Uniform numbers in [0, 1) by sfc32 (Chris Doty-Humphrey's small fast counter), 32 bits each. */
function generator(seed: number | undefined): () => number {
  const words = new Uint32Array(Float64Array.of(seed ?? Math.random()).buffer);
  let [a, b, c, count] = [words[0]!, words[1]!, 0x9e3779b9, 1];
  const next = () => {
    const t = (((a + b) | 0) + count) | 0;
    count = (count + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (c << 21) | (c >>> 11);
    c = (c + t) | 0;
    return (t >>> 0) / 2 ** 32;
  };
  for (let i = 0; i < 15; i++) next();
  return next;
}

/** A normal deviate from two uniform ones (Box and Muller). */
function normal(uniform: () => number): number {
  return Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
}

interface Parameters {
  readonly mean: number;
  readonly scale: number;
  readonly low: number;
  readonly high: number;
}

function distribution(name: string, { mean, scale, low, high }: Parameters): (uniform: () => number) => number {
  if (name.startsWith('RandomNormal')) return (u) => mean + scale * normal(u);
  return (u) => low + (high - low) * u();
}

/** RandomNormal, RandomUniform (shape by attribute) and their Like forms (shape of the input). */
function randomOperator(name: string): Operator {
  const like = name.endsWith('Like');
  return operator({
    name,
    since: [1, 22],
    inputs: like ? [1, 1] : [0, 0],
    attributes: {
      dtype: int(),
      mean: float(0),
      scale: float(1),
      low: float(0),
      high: float(1),
      seed: float(),
      shape: ints(),
    },
    deterministic: false,
    infer: (call) => [infoOf(call, like)],
    reference(call) {
      const { type, dims } = infoOf(call, like);
      const uniform = generator(call.attributes.seed);
      const draw = distribution(name, call.attributes);
      return [
        fromNumbers(
          type,
          dims,
          Float64Array.from({ length: sizeOf(dims) }, () => draw(uniform)),
        ),
      ];
    },
  });
}

function infoOf(
  call: InferCall<{ readonly dtype: number | undefined; readonly shape: readonly number[] | undefined }>,
  like: boolean,
) {
  const { dtype, shape } = call.attributes;
  if (like) return outputOf(call, typeAttribute(call, dtype, call.input(0).type), call.input(0).dims);
  if (shape === undefined) throw call.error("attribute 'shape' is missing");
  return outputOf(call, typeAttribute(call, dtype, 'float32'), shape);
}

const Bernoulli = operator({
  name: 'Bernoulli',
  since: [15, 22],
  inputs: [1, 1],
  attributes: { dtype: int(), seed: float() },
  deterministic: false,
  infer(call) {
    const { type, dims } = call.input(0);
    return [outputOf(call, typeAttribute(call, call.attributes.dtype, type), dims)];
  },
  reference(call) {
    const t = call.tensor(0);
    const uniform = generator(call.attributes.seed);
    const draws = Float64Array.from(decode(t), (p) => (uniform() < p ? 1 : 0));
    return [fromNumbers(typeAttribute(call, call.attributes.dtype, t.type), t.dims, draws)];
  },
});

const Multinomial = operator({
  name: 'Multinomial',
  since: [7, 22],
  inputs: [1, 1],
  attributes: { dtype: int(6), sample_size: int(1), seed: float() },
  deterministic: false,
  infer(call) {
    const { dims } = call.input(0);
    if (dims.length !== 2) throw call.error(`expected [batch, classes], got ${formatShape(dims)}`);
    return [
      outputOf(call, typeAttribute(call, call.attributes.dtype, 'int32'), [dims[0]!, call.attributes.sample_size]),
    ];
  },
  reference(call) {
    const t = call.tensor(0);
    const [batch, classes] = t.dims as [number, number];
    const { sample_size: samples, dtype, seed } = call.attributes;
    const type = typeAttribute(call, dtype, 'int32');
    outputOf(call, type, [batch, samples]);
    const logits = decode(t);
    const uniform = generator(seed);
    const y = new Float64Array(batch * samples);
    for (let b = 0; b < batch; b++) {
      // Inputs are log-probabilities, not normalized.
      let most = Number.NEGATIVE_INFINITY;
      for (let c = 0; c < classes; c++) most = Math.max(most, logits[b * classes + c]!);
      const weights = Array.from({ length: classes }, (_, c) => Math.exp(logits[b * classes + c]! - most));
      const total = weights.reduce((s, w) => s + w, 0);
      for (let i = 0; i < samples; i++) {
        let left = uniform() * total;
        let c = 0;
        while (c < classes - 1 && left >= weights[c]!) left -= weights[c++]!;
        y[b * samples + i] = c;
      }
    }
    return [fromNumbers(type, [batch, samples], y)];
  },
});

export const randoms: readonly Operator[] = [
  ...['RandomNormal', 'RandomNormalLike', 'RandomUniform', 'RandomUniformLike'].map(randomOperator),
  Bernoulli,
  Multinomial,
];
