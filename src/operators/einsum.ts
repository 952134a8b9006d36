// Einsum and Det. An equation names the axes of every operand; picture one big loop over all names, where an operand's
// stride is 0 along names it does not have, and the result gathers the products over names that are not in the output.
import { decode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { forEachOffset, sizeOf, stridesOf } from '../tensor/shape.js';
import { required, string } from './attributes.js';
import { type InferCall, type Operator, operator } from './operator.js';
import { outputOf } from './pick.js';
import { commonType, fromNumbers } from './reference.js';

/** An equation applied to shapes: every name's size, and who has it. */
export interface Einsum {
  readonly output: readonly string[];
  readonly summed: readonly string[];
  readonly sizes: ReadonlyMap<string, number>;
  /** Strides of every operand by name (repeated names: their sum, a diagonal). */
  readonly strides: readonly ReadonlyMap<string, number>[];
}

/** Reads an equation for operands of these shapes. The axes of an ellipsis are named `.0`, `.1`, … from the right. */
export function parseEquation(
  call: InferCall<unknown>,
  equation: string,
  shapes: readonly (readonly number[])[],
): Einsum {
  const text = equation.replace(/\s+/g, '');
  const [left, right, more] = text.split('->');
  const terms = left!.split(',');
  if (more !== undefined || terms.length !== shapes.length)
    throw call.error(`equation '${equation}' has ${terms.length} terms for ${shapes.length} inputs`);
  const namesOf = (term: string, dots: number): string[] => {
    const parts = /^([A-Za-z]*)(\.\.\.)?([A-Za-z]*)$/.exec(term);
    if (parts === null) throw call.error(`equation '${equation}': '${term}' is not a list of axes`);
    const middle = parts[2] === undefined ? [] : Array.from({ length: dots }, (_, i) => `.${dots - 1 - i}`);
    return [...parts[1]!, ...middle, ...parts[3]!];
  };
  const sizes = new Map<string, number>();
  const counts = new Map<string, number>();
  let widest = 0;
  const strides = terms.map((term, k) => {
    const dims = shapes[k]!;
    const dots = dims.length - term.replace('...', '').length;
    const names = namesOf(term, Math.max(dots, 0));
    if (names.length !== dims.length)
      throw call.error(`equation '${equation}': '${term}' does not fit input ${k} of shape ${formatShape(dims)}`);
    if (term.includes('...')) widest = Math.max(widest, dots);
    const own = stridesOf(dims);
    const map = new Map<string, number>();
    names.forEach((name, a) => {
      const known = sizes.get(name);
      const d = dims[a]!;
      if (known !== undefined && known !== d && known !== 1 && d !== 1)
        throw call.error(`equation '${equation}': axis '${name}' is ${known} and ${d}`);
      sizes.set(name, known === undefined || known === 1 ? d : known);
      counts.set(name, (counts.get(name) ?? 0) + 1);
      map.set(name, (map.get(name) ?? 0) + (d === 1 ? 0 : own[a]!));
    });
    return map;
  });
  // Without an arrow: the ellipsis, then in order the names that occur once.
  const once = [...counts.keys()].filter((n) => !n.startsWith('.') && counts.get(n) === 1).sort();
  const output = right === undefined ? [...namesOf('...', widest), ...once] : namesOf(right, widest);
  for (const name of output)
    if (!sizes.has(name)) throw call.error(`equation '${equation}': output axis '${name}' is in no input`);
  if (new Set(output).size !== output.length) throw call.error(`equation '${equation}': an output axis occurs twice`);
  return { output, summed: [...sizes.keys()].filter((n) => !output.includes(n)), sizes, strides };
}

function einsumOf(call: InferCall<{ readonly equation: string }>): Einsum {
  const shapes = Array.from({ length: call.inputCount }, (_, i) => call.input(i).dims);
  return parseEquation(call, call.attributes.equation, shapes);
}

const Einsum = operator({
  name: 'Einsum',
  since: [12],
  inputs: [1, 0x7fffffff],
  attributes: { equation: required(string()) },
  infer(call) {
    const { output, sizes } = einsumOf(call);
    return [
      outputOf(
        call,
        commonType(call),
        output.map((n) => sizes.get(n)!),
      ),
    ];
  },
  reference(call) {
    const { output, summed, sizes, strides } = einsumOf(call);
    const dims = output.map((n) => sizes.get(n)!);
    outputOf(call, commonType(call), dims);
    const data = strides.map((_, i) => decode(call.tensor(i)));
    const along = (names: readonly string[]) => strides.map((s) => names.map((n) => s.get(n) ?? 0));
    const y = new Float64Array(sizeOf(dims));
    const inner = summed.map((n) => sizes.get(n)!);
    const innerStrides = along(summed);
    forEachOffset(dims, along(output), (start, i) => {
      let sum = 0;
      const base = [...start];
      forEachOffset(inner, innerStrides, (offset) => {
        let product = 1;
        for (let k = 0; k < data.length; k++) product *= data[k]![base[k]! + offset[k]!]!;
        sum += product;
      });
      y[i] = sum;
    });
    return [fromNumbers(commonType(call), dims, y)];
  },
});

/** Determinant by elimination with partial pivoting; destroys `m`. */
function determinant(m: Float64Array, n: number): number {
  let det = 1;
  for (let c = 0; c < n; c++) {
    let pivot = c;
    for (let r = c + 1; r < n; r++) if (Math.abs(m[r * n + c]!) > Math.abs(m[pivot * n + c]!)) pivot = r;
    if (m[pivot * n + c] === 0) return 0;
    if (pivot !== c) {
      det = -det;
      for (let k = 0; k < n; k++) [m[c * n + k], m[pivot * n + k]] = [m[pivot * n + k]!, m[c * n + k]!];
    }
    det *= m[c * n + c]!;
    for (let r = c + 1; r < n; r++) {
      const f = m[r * n + c]! / m[c * n + c]!;
      for (let k = c; k < n; k++) m[r * n + k]! -= f * m[c * n + k]!;
    }
  }
  return det;
}

const Det = operator({
  name: 'Det',
  since: [11, 22],
  inputs: [1, 1],
  attributes: {},
  infer(call) {
    const { type, dims } = call.input(0);
    if (dims.length < 2 || dims.at(-1) !== dims.at(-2))
      throw call.error(`expected square matrices, got shape ${formatShape(dims)}`);
    return [{ type, dims: dims.slice(0, -2) }];
  },
  reference(call) {
    const t = call.tensor(0);
    const n = t.dims.at(-1)!;
    const x = Float64Array.from(decode(t));
    const dims = t.dims.slice(0, -2);
    const y = Float64Array.from({ length: sizeOf(dims) }, (_, i) =>
      determinant(x.slice(i * n * n, (i + 1) * n * n), n),
    );
    return [fromNumbers(t.type, dims, y)];
  },
});

export const einsums: readonly Operator[] = [Einsum, Det];
