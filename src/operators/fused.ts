// Operators that only the compiler's fusion makes and that belong to no other family: `skep:Activation`, any function of
// kernels/activation.ts on every element, whatever primitives the model wrote it with.
import { activationNamed } from '../kernels/activation.js';
import { unaryBlock } from '../kernels/unary.js';
import { sizeOf } from '../tensor/shape.js';
import { activationOf, epilogueAttributes } from './epilogue.js';
import { type Operator, operator } from './operator.js';
import { mapNumbers, sameAs } from './reference.js';

/** activation(x). */
const activation = operator({
  name: 'Activation',
  domain: 'skep',
  since: [1],
  inputs: [1, 1],
  attributes: epilogueAttributes,
  infer: (call) => sameAs(call),
  reference(call) {
    const { activation: f, alpha, beta } = activationOf(call);
    return [mapNumbers(call.tensor(0), (x) => f.apply(x, alpha, beta))];
  },
  lower(call) {
    if (call.input(0).type !== 'float32') return false;
    const { activation: f, alpha, beta } = activationOf(call);
    const size = sizeOf(call.input(0).dims);
    const params = { x: call.in(0), y: call.out(0), size, kind: f.code, alpha, beta };
    // Affine and clip cost two operations; one figure for all is near enough for the cost model.
    const flops = size * (f === activationNamed('affine') || f === activationNamed('clip') ? 2 : 16);
    call.step('unaryF32', params, { units: Math.ceil(size / unaryBlock), grain: 4, flops });
    return true;
  },
});

export const fusedOperators: readonly Operator[] = [activation];
