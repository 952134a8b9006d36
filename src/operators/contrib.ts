// Activations of com.microsoft that exported transformers contain, with a bias before them: Gelu, FastGelu, BiasGelu and
// QuickGelu. Semantics: onnxruntime's ContribOperators.
import { type Activation, activations } from '../kernels/activation.js';
import { formatShape } from '../tensor/errors.js';
import { sameShape } from '../tensor/shape.js';
import { float } from './attributes.js';
import { lowerBroadcast } from './broadcast.js';
import { type InferCall, type Operator, operator } from './operator.js';
import { zipNumbers } from './reference.js';
import { lowerUnary, numericRule } from './unary.js';

const domain = 'com.microsoft';

/** f(x + bias), the bias (where given) a vector along the last axis. */
function biased(name: string, bias: 'none' | 'optional' | 'required', f: Activation): Operator {
  const check = (call: InferCall<unknown>) => {
    const b = call.optional(1);
    const { dims } = call.input(0);
    if (b !== undefined && !sameShape(b.dims, dims.slice(-1)))
      throw call.error(`expected bias of shape [${dims.at(-1) ?? ''}], got ${formatShape(b.dims)}`);
    return numericRule(call);
  };
  return operator({
    name,
    domain,
    since: [1],
    inputs: [bias === 'required' ? 2 : 1, bias === 'none' ? 1 : 2],
    attributes: {},
    infer: check,
    reference(call) {
      check(call);
      const x = call.tensor(0);
      const operands = call.has(1) ? [x, call.tensor(1)] : [x];
      return [zipNumbers(operands, x.dims, x.type, (a, b = 0) => f.apply(a + b, f.alpha, f.beta))];
    },
    lower(call) {
      if (!call.has(1)) return lowerUnary(call, f.code, f.alpha, f.beta, 27);
      const { type, dims } = call.input(0);
      if (type !== 'float32' || call.input(1).type !== 'float32') return false;
      const operands = [0, 1].map((i) => ({ at: call.in(i), dims: call.input(i).dims }));
      return lowerBroadcast(call, 'add', type, dims, operands, { code: f.code, alpha: f.alpha, beta: f.beta });
    },
  });
}

const quickGelu = operator({
  name: 'QuickGelu',
  domain,
  since: [1],
  inputs: [1, 1],
  attributes: { alpha: float(1.702) },
  infer: (call) => numericRule(call),
  reference(call) {
    const x = call.tensor(0);
    return [zipNumbers([x], x.dims, x.type, (a) => activations.silu.apply(a, call.attributes.alpha))];
  },
  lower: (call) => lowerUnary(call, activations.silu.code, call.attributes.alpha, 0, 19),
});

export const contribOperators: readonly Operator[] = [
  biased('Gelu', 'none', activations.gelu),
  biased('FastGelu', 'optional', activations.geluTanh),
  biased('BiasGelu', 'required', activations.gelu),
  quickGelu,
];
