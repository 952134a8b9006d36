// Damages a valid node: another rank, size or type of an input, inputs or outputs too few or too many, attributes out of
// their range or of another kind. What comes out may still be valid.
import type { Attribute } from '../../../src/graph/graph.js';
import type { HostValue } from '../../../src/operators/operator.js';
import { Tensor } from '../../../src/tensor/tensor.js';
import { ALL, type Case, type Generator } from './generator.js';

const integers = [0, 1, -1, 2, 3, 5, -7, 100, 2 ** 31, -(2 ** 31)];

function damagedTensor(g: Generator, t: Tensor): Tensor {
  const dims = [...t.dims];
  switch (g.int(0, 4)) {
    case 0:
      return g.tensor(g.pick(ALL), dims);
    case 1:
      dims.splice(g.int(0, dims.length), 0, g.int(0, 3));
      break;
    case 2:
      dims.splice(g.int(0, dims.length), 1);
      break;
    case 3:
      if (dims.length > 0) dims[g.int(0, dims.length - 1)] = g.int(0, 5);
      break;
    default:
      // Other values: indices, axes and sizes out of range.
      if (t.type === 'int64' || t.type === 'int32') {
        const data = Array.from(t.data as Int32Array, Number);
        if (data.length > 0) data[g.int(0, data.length - 1)] = g.pick(integers);
        return new Tensor(t.type, data, dims);
      }
      return g.oddTensor(t.type, dims, -3, 3);
  }
  return g.tensor(t.type, dims);
}

function damagedAttribute(g: Generator, a: Attribute): Attribute | undefined {
  switch (a.kind) {
    case 'int':
      return g.pick([
        { kind: 'int', value: g.pick(integers) },
        { kind: 'ints', value: [a.value] },
        { kind: 'string', value: 'x' },
      ] as const);
    case 'ints': {
      const value = [...a.value];
      const mode = g.int(0, 3);
      if (mode === 0) value.pop();
      else if (mode === 1) value.push(g.pick(integers));
      else if (value.length > 0) value[g.int(0, value.length - 1)] = g.pick(integers);
      return { kind: 'ints', value };
    }
    case 'float':
      return { kind: 'float', value: g.pick([0, -1, Number.NaN, Infinity, 1e30]) };
    case 'floats':
      return { kind: 'floats', value: a.value.slice(1) };
    case 'string':
      return { kind: 'string', value: g.pick(['', 'nonsense', a.value.toLowerCase(), `${a.value},`, '->', 'i->ij']) };
    case 'strings':
      return {
        kind: 'strings',
        value: g.pick([a.value.slice(1), [...a.value, 'Tanh'], a.value.map(() => 'nonsense')]),
      };
    default:
      return undefined;
  }
}

export function damage(g: Generator, c: Case): Case {
  const inputs: (HostValue | undefined)[] = [...c.inputs];
  const attributes: Record<string, Attribute> = { ...c.attributes };
  let outputs = c.outputs ?? 1;
  for (let n = g.int(1, 2); n > 0; n--) {
    const names = Object.keys(attributes);
    const mode = g.int(0, 9);
    if (mode < 5 && inputs.length > 0) {
      const i = g.int(0, inputs.length - 1);
      const t = inputs[i];
      if (t instanceof Tensor) inputs[i] = damagedTensor(g, t);
    } else if (mode < 8 && names.length > 0) {
      const name = g.pick(names);
      const a = g.chance(0.2) ? undefined : damagedAttribute(g, attributes[name]!);
      if (a === undefined) delete attributes[name];
      else attributes[name] = a;
    } else if (mode === 8) {
      if (g.chance(0.5)) inputs.pop();
      else if (inputs.length > 0) inputs[g.int(0, inputs.length - 1)] = undefined;
    } else if (g.chance(0.5)) inputs.push(g.tensor(g.pick(ALL), g.dims()));
    else outputs += g.int(-1, 3);
  }
  return {
    ...c,
    inputs,
    attributes,
    outputs: Math.max(1, outputs),
    constants: (c.constants ?? []).filter((i) => inputs[i] !== undefined),
  };
}
