// Operators that give their input as it is: Identity, and Dropout as inference sees it. In training mode Dropout zeroes
// elements at random, which makes it the one operator here whose result may differ from run to run.
import { decode } from '../tensor/convert.js';
import { sizeOf } from '../tensor/shape.js';
import type { DataType } from '../tensor/types.js';
import { float, int } from './attributes.js';
import { type InferCall, type Operator, type OutputInfo, operator } from './operator.js';
import { fromBools, fromNumbers, sameAs } from './reference.js';

const Identity = operator({
  name: 'Identity',
  since: [1, 13, 14, 16, 19, 21, 23, 24, 25],
  inputs: [1, 1],
  attributes: {},
  // A sequence or an optional has no tensor type.
  infer: (call) => (call.has(0) ? sameAs(call) : 'dynamic'),
  reference: (call) => [call.host(0)!],
  lower(call) {
    call.alias(0, 0);
    return true;
  },
});

const specs = { ratio: float(0.5), is_test: int(0), seed: int() };

/** Whether this node drops anything, and what part. */
function training(call: InferCall<{ readonly ratio: number; readonly is_test: number }>): number | undefined {
  if (call.opset < 7) return call.attributes.is_test === 0 ? call.attributes.ratio : undefined;
  if (call.opset < 12 || !call.has(2) || decode(call.value(2))[0] === 0) return undefined;
  const ratio = call.has(1) ? decode(call.value(1))[0]! : 0.5;
  if (!(ratio >= 0 && ratio < 1)) throw call.error(`ratio must be in [0, 1), got ${ratio}`);
  return ratio;
}

function dropoutRule(call: InferCall<unknown>): OutputInfo[] {
  const [out] = sameAs(call) as [OutputInfo];
  const mask: DataType = call.opset < 10 ? out.type : 'bool';
  return [out, { type: mask, dims: out.dims }];
}

const Dropout = operator({
  name: 'Dropout',
  since: [1, 6, 7, 10, 12, 13, 22],
  inputs: [1, 3],
  attributes: specs,
  deterministic: false,
  infer: dropoutRule,
  reference(call) {
    const [out, mask] = dropoutRule(call) as [OutputInfo, OutputInfo];
    const x = call.tensor(0);
    const ratio = training(call) ?? 0;
    const random = generator(call.attributes.seed);
    const kept = Uint8Array.from({ length: sizeOf(out.dims) }, () => (random() < ratio ? 0 : 1));
    const m = mask.type === 'bool' ? fromBools(mask.dims, kept) : fromNumbers(mask.type, mask.dims, kept);
    if (ratio === 0) return [x, m];
    const values = decode(x);
    return [
      fromNumbers(
        out.type,
        out.dims,
        Float64Array.from(kept, (k, i) => (k * values[i]!) / (1 - ratio)),
      ),
      m,
    ];
  },
  lower(call) {
    // The training flag must be known to be off; asking a value that is not constant would only cut the plan.
    const flag = call.optional(2);
    const off =
      call.opset >= 12 ? flag === undefined || (flag.value && decode(flag.value)[0] === 0) : !isTraining(call);
    if (!off || call.wants(1)) return false;
    call.alias(0, 0);
    return true;
  },
});

function isTraining(call: InferCall<{ readonly ratio: number; readonly is_test: number }>): boolean {
  return training(call) !== undefined;
}

/** Numbers in [0, 1): the same sequence for the same seed, a new one without (mulberry32). */
function generator(seed: number | undefined): () => number {
  if (seed === undefined) return Math.random;
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

export const identityOperators: readonly Operator[] = [Identity, Dropout];
