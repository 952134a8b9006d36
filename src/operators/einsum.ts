// Einsum and Det. An equation names the axes of every operand; picture one big loop over all names, where an operand's
// stride is 0 along names it does not have, and the result gathers the products over names that are not in the output.
import { decode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { forEachOffset, sizeOf, stridesOf } from '../tensor/shape.js';
import { required, string } from './attributes.js';
import { byteStrides, copyView, elementBytes } from './copy.js';
import { type Address, type InferCall, type LowerCall, type Operator, operator } from './operator.js';
import { outputOf } from './pick.js';
import { lowerPacked, packColumns, packRows } from './product.js';
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
  lower(call) {
    const { type, dims } = call.output(0);
    const e = einsumOf(call);
    const size = elementBytes(type);
    if (call.inputCount === 1 && e.summed.length === 0 && size > 0) {
      const inStrides = e.output.map((n) => e.strides[0]!.get(n)! * size);
      copyView(call, call.in(0), call.out(0), { dims, inStrides, outStrides: byteStrides(dims, size) }, size);
      return true;
    }
    const contraction = contractionOf(e);
    return type === 'float32' && contraction !== undefined && lowerContraction(call, e, contraction);
  },
});

/** The axes of a product of two operands by the part they play. */
interface Contraction {
  readonly batch: readonly string[];
  readonly rows: readonly string[];
  readonly columns: readonly string[];
  readonly inner: readonly string[];
}

/** How an equation of two operands is a batch of matrix products; undefined when a summed axis is in one operand only. */
function contractionOf({ output, summed, strides }: Einsum): Contraction | undefined {
  const [a, b] = strides;
  if (a === undefined || b === undefined || strides.length !== 2) return undefined;
  if (!summed.every((n) => a.has(n) && b.has(n))) return undefined;
  return {
    batch: output.filter((n) => a.has(n) && b.has(n)),
    rows: output.filter((n) => !b.has(n)),
    columns: output.filter((n) => !a.has(n)),
    inner: summed,
  };
}

/** An operand's view along these axes, and its dense copy in scratch (itself, where it is dense already). */
function arranged(call: LowerCall<unknown>, e: Einsum, input: number, names: readonly string[]): Address {
  const dims = names.map((n) => e.sizes.get(n)!);
  const own = names.map((n) => e.strides[input]!.get(n) ?? 0);
  const dense = stridesOf(dims);
  if (dims.every((d, i) => d === 1 || own[i] === dense[i])) return call.in(input);
  const copy = call.scratch(sizeOf(dims) * 4);
  const inStrides = own.map((s) => s * 4);
  copyView(call, call.in(input), copy, { dims, inStrides, outStrides: dense.map((s) => s * 4) }, 4);
  return copy;
}

/** Two operands become a batch of matrix products between rearranging copies. */
function lowerContraction(call: LowerCall<unknown>, e: Einsum, c: Contraction): boolean {
  const sizeAlong = (names: readonly string[]) => names.reduce((s, n) => s * e.sizes.get(n)!, 1);
  const [batches, m, n, k] = [c.batch, c.rows, c.columns, c.inner].map(sizeAlong) as [number, number, number, number];
  // An empty sum is zero, which no product computes.
  if (k === 0) return false;
  if (batches * m * n === 0) return true;
  const a = arranged(call, e, 0, [...c.batch, ...c.rows, ...c.inner]);
  const b = arranged(call, e, 1, [...c.batch, ...c.inner, ...c.columns]);
  const order = [...c.batch, ...c.rows, ...c.columns];
  const inPlace = order.every((name, i) => name === e.output[i]);
  const product = inPlace ? call.out(0) : call.scratch(batches * m * n * 4);
  const all = Array.from({ length: batches }, (_, i) => i);
  lowerPacked(call, {
    a: packRows(call, a, { matrices: batches, stride: m * k, row: k, column: 1 }, m, k),
    b: packColumns(call, b, { matrices: batches, stride: k * n, row: n, column: 1 }, k, n),
    c: product,
    m,
    n,
    k,
    batches,
    aIndex: all,
    bIndex: all,
    epilogue: {},
  });
  if (inPlace) return true;
  const own = byteStrides(
    order.map((name) => e.sizes.get(name)!),
    4,
  );
  const dims = e.output.map((name) => e.sizes.get(name)!);
  const inStrides = e.output.map((name) => own[order.indexOf(name)]!);
  copyView(call, product, call.out(0), { dims, inStrides, outStrides: byteStrides(dims, 4) }, 4);
  return true;
}

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
