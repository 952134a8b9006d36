// Activation functions that kernels apply as they store: one table of codes for every kernel with an epilogue, the same
// codes as assembly/activation.ts (a test compares the two), with the functions in double precision for references.
// `alpha` and `beta` mean what the ONNX operator of the kind means by them; clip's are its bounds.

/** What is known of an activation: its code in kernels, the defaults of its parameters, and what it computes. */
export interface Activation {
  readonly code: number;
  readonly alpha: number;
  readonly beta: number;
  readonly apply: (x: number, alpha: number, beta: number) => number;
}

const hardSigmoid = (x: number, alpha: number, beta: number) => Math.max(0, Math.min(1, alpha * x + beta));
const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));
const softplus = (x: number) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));

/** Every activation by name. */
export const activations = {
  none: { code: 0, alpha: 0, beta: 0, apply: (x) => x },
  relu: { code: 1, alpha: 0, beta: 0, apply: (x) => Math.max(x, 0) },
  leakyRelu: { code: 2, alpha: 0.01, beta: 0, apply: (x, alpha) => (x < 0 ? alpha * x : x) },
  clip: {
    code: 3,
    alpha: Number.NEGATIVE_INFINITY,
    beta: Number.POSITIVE_INFINITY,
    apply: (x, min, max) => Math.min(Math.max(x, min), max),
  },
  hardSigmoid: { code: 4, alpha: 0.2, beta: 0.5, apply: hardSigmoid },
  /** x · hardSigmoid(x). */
  hardSwish: { code: 5, alpha: 1 / 6, beta: 0.5, apply: (x, alpha, beta) => x * hardSigmoid(x, alpha, beta) },
  sigmoid: { code: 6, alpha: 0, beta: 0, apply: sigmoid },
  tanh: { code: 7, alpha: 0, beta: 0, apply: Math.tanh },
  /** x · sigmoid(alpha · x); alpha 1.702 is QuickGelu. */
  silu: { code: 8, alpha: 1, beta: 0, apply: (x, alpha) => x * sigmoid(alpha * x) },
  /** x · Φ(x) by erf. */
  gelu: { code: 9, alpha: 0, beta: 0, apply: (x) => 0.5 * x * (1 + erf(x * Math.SQRT1_2)) },
  geluTanh: {
    code: 10,
    alpha: 0,
    beta: 0,
    apply: (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x * x * x))),
  },
  elu: { code: 11, alpha: 1, beta: 0, apply: (x, alpha) => (x < 0 ? alpha * Math.expm1(x) : x) },
  celu: { code: 12, alpha: 1, beta: 0, apply: (x, alpha) => (x < 0 ? alpha * Math.expm1(x / alpha) : x) },
  /** beta is the operator's gamma. */
  selu: {
    code: 13,
    alpha: 1.6732631921768188,
    beta: 1.0507010221481323,
    apply: (x, alpha, gamma) => gamma * (x < 0 ? alpha * Math.expm1(x) : x),
  },
  softplus: { code: 14, alpha: 0, beta: 0, apply: softplus },
  softsign: { code: 15, alpha: 0, beta: 0, apply: (x) => x / (1 + Math.abs(x)) },
  mish: { code: 16, alpha: 0, beta: 0, apply: (x) => x * Math.tanh(softplus(x)) },
  thresholdedRelu: { code: 17, alpha: 1, beta: 0, apply: (x, alpha) => (x > alpha ? x : 0) },
  /** alpha · x + beta. */
  affine: { code: 18, alpha: 1, beta: 0, apply: (x, alpha, beta) => alpha * x + beta },
  /** alpha · tanh(beta · x). */
  scaledTanh: { code: 19, alpha: 1, beta: 1, apply: (x, alpha, beta) => alpha * Math.tanh(beta * x) },
} as const satisfies Record<string, Activation>;

export type ActivationName = keyof typeof activations;

/** The activation with a name, or undefined. */
export function activationNamed(name: string): Activation | undefined {
  return Object.hasOwn(activations, name) ? activations[name as ActivationName] : undefined;
}

/** The error function to double precision: its Taylor series near 0, a continued fraction of erfc beyond. */
export function erf(x: number): number {
  if (Number.isNaN(x)) return x;
  const a = Math.abs(x);
  if (a > 6) return Math.sign(x);
  if (a < 2.5) {
    // 2/√π · e^(−x²) · Σ 2^n x^(2n+1) / (2n+1)!!: all terms positive, no cancellation.
    let term = a;
    let sum = a;
    for (let n = 1; term > sum * 1e-17; n++) {
      term *= (2 * a * a) / (2 * n + 1);
      sum += term;
    }
    return Math.sign(x) * (2 / Math.sqrt(Math.PI)) * Math.exp(-a * a) * sum;
  }
  let f = a;
  for (let n = 60; n >= 1; n--) f = a + n / 2 / f;
  return Math.sign(x) * (1 - Math.exp(-a * a) / (Math.sqrt(Math.PI) * f));
}
