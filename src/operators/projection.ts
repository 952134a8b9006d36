// The input's share of every gate of a recurrent layer, X · Wᵀ: it does not depend on the state, so it is computed for many
// steps at once. As part of a layer's lowering, and as `skep:Projection` where a layer's steps are scheduled apart
// (compiler/cells.ts). The same product row for row, so the same bits.

import { decode } from '../tensor/convert.js';
import { sizeOf } from '../tensor/shape.js';
import { type Address, type LowerCall, type Operator, operator } from './operator.js';
import { lowerProduct, multiplyInto } from './product.js';
import { fromNumbers } from './reference.js';

/** Appends the product of X (input 0, [rows, input]) and W (input 1, [directions, width, input]) to `g`, [directions, rows, width]. */
export function lowerProjection(
  call: LowerCall<unknown>,
  s: { readonly rows: number; readonly input: number; readonly width: number; readonly directions: number },
  g: Address,
): void {
  const { rows, input, width, directions } = s;
  const each = Array.from({ length: directions }, (_, d) => d);
  lowerProduct(call, {
    a: { input: 0, matrices: 1, stride: rows * input, row: input, column: 1 },
    b: { input: 1, matrices: directions, stride: width * input, row: 1, column: input },
    c: g,
    m: rows,
    n: width,
    k: input,
    batches: directions,
    aIndex: each.map(() => 0),
    bIndex: each,
    epilogue: {},
  });
}

/** X […, input], W [directions, width, input] → [directions, …, width]. */
const projection = operator({
  name: 'Projection',
  domain: 'skep',
  since: [1],
  inputs: [2, 2],
  attributes: {},
  infer(call) {
    const [x, w] = [call.input(0), call.input(1)];
    const [directions = 0, width = 0, input] = w.dims;
    if (w.dims.length !== 3 || x.dims.at(-1) !== input || x.type !== w.type)
      throw call.error(`expected X […, input] and W [directions, width, input] of one type`);
    return [{ type: x.type, dims: [directions, ...x.dims.slice(0, -1), width] }];
  },
  reference(call) {
    const [x, w] = [call.tensor(0), call.tensor(1)];
    const [directions, width, input] = w.dims as [number, number, number];
    const rows = sizeOf(x.dims.slice(0, -1));
    const y = new Float64Array(directions * rows * width);
    const a = { data: decode(x), offset: 0, row: input, column: 1 };
    for (let d = 0; d < directions; d++) {
      const b = { data: decode(w), offset: d * width * input, row: 1, column: input };
      multiplyInto(y, d * rows * width, a, b, rows, width, input);
    }
    return [fromNumbers(x.type, [directions, ...x.dims.slice(0, -1), width], y)];
  },
  lower(call) {
    const [x, w] = [call.input(0), call.input(1)];
    if (x.type !== 'float32') return false;
    const [directions, width, input] = w.dims as [number, number, number];
    lowerProjection(call, { rows: sizeOf(x.dims.slice(0, -1)), input, width, directions }, call.out(0));
    return true;
  },
});

export const projectionOperators: readonly Operator[] = [projection];
