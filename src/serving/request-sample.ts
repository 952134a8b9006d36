// A request to measure with when nobody has sent one: zeros of the declared shapes.

import type { ModelInfo } from '../runtime/source.js';
import { formatShape, SkepError } from '../tensor/errors.js';
import { Tensor, zeros } from '../tensor/tensor.js';
import { candidateAxes } from './axes.js';
import type { RequestValues } from './requests.js';

/** Zeros for every input without a default. `dims`: sizes of named dimensions; any other that is left open is 1. */
export function syntheticRequest(info: ModelInfo, dims: Readonly<Record<string, number>> = {}): RequestValues {
  const named = new Set<string>();
  const inputs = info.inputs.map(({ name, type, optional }) => {
    if (optional) return undefined;
    if (type?.kind !== 'tensor' || type.dims === undefined)
      throw new SkepError('INVALID_INPUT', `input '${name}' declares no shape to make a request of: give feeds`);
    const shape = type.dims.map((d) => {
      if (typeof d === 'string') named.add(d);
      return typeof d === 'number' ? d : d === null ? 1 : (dims[d] ?? 1);
    });
    return zeros(type.type, shape);
  });
  for (const [name, size] of Object.entries(dims)) {
    if (!Number.isInteger(size) || size < 1)
      throw new SkepError('INVALID_INPUT', `dims: ${name} must be a positive integer, got ${String(size)}`);
    if (!named.has(name)) {
      const known = named.size === 0 ? 'none' : `'${[...named].join("', '")}'`;
      throw new SkepError('INVALID_INPUT', `dims: no input has a dimension '${name}'; there is ${known}`);
    }
  }
  return { inputs, wanted: info.outputs.map((_, i) => i) };
}

/** Types and shapes of a row of a request, as text: what a profile was measured with. */
export function signatureOf(info: ModelInfo, { inputs }: RequestValues): string {
  const axes = candidateAxes(info.inputs)[0];
  return info.inputs
    .map(({ name }, i) => {
      const value = inputs[i];
      if (value === undefined) return `${name}:`;
      if (!(value instanceof Tensor)) return `${name}:other`;
      return `${name}:${value.type}${formatShape(value.dims.map((d, axis) => (axis === axes?.[i] ? '*' : d)))}`;
    })
    .join(' ');
}
