// RotaryEmbedding of ai.onnx (23) and com.microsoft: pairs of a head's elements are rotated by angles that depend on the
// position, given as tables of cosines and sines. Pairs are (i, i + half), or neighbours when interleaved; elements past
// rotary_embedding_dim stay as they are. X is [batch, heads, rows, size] or [batch, rows, heads · size].
import { decode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { sameShape, sizeOf } from '../tensor/shape.js';
import { apartStrides, besideStrides, type Strides } from './attention-core.js';
import { float, int } from './attributes.js';
import {
  type Address,
  type InferCall,
  type LowerCall,
  type Operator,
  operator,
  type ReferenceCall,
} from './operator.js';
import { fromNumbers, isFloat } from './reference.js';

export interface RotaryShape {
  readonly batch: number;
  readonly heads: number;
  readonly rows: number;
  readonly size: number;
  readonly half: number;
  readonly interleaved: boolean;
  readonly x: Strides;
  readonly y: Strides;
  /** Rows of the tables. */
  readonly most: number;
  /** Positions are one a batch, to which the row is added. */
  readonly offset: boolean;
}

/** The reference. A position is a row of the tables. */
export function rotate(
  s: RotaryShape,
  x: ArrayLike<number>,
  cos: ArrayLike<number>,
  sin: ArrayLike<number>,
  positionOf: (b: number, row: number) => number,
  y: Float64Array,
): void {
  for (let b = 0; b < s.batch; b++)
    for (let h = 0; h < s.heads; h++)
      for (let r = 0; r < s.rows; r++) {
        const from = b * s.x.batch + h * s.x.head + r * s.x.row;
        const to = b * s.y.batch + h * s.y.head + r * s.y.row;
        const at = positionOf(b, r) * s.half;
        for (let i = 2 * s.half; i < s.size; i++) y[to + i] = x[from + i]!;
        for (let i = 0; i < s.half; i++) {
          const [first, second] = s.interleaved ? [2 * i, 2 * i + 1] : [i, i + s.half];
          const [a, d, c, n] = [x[from + first]!, x[from + second]!, cos[at + i]!, sin[at + i]!];
          y[to + first] = a * c - d * n;
          y[to + second] = a * n + d * c;
        }
      }
}

/** Appends the step. */
export function lowerRotary(
  call: LowerCall<unknown>,
  s: RotaryShape,
  places: { readonly x: Address; readonly cos: Address; readonly sin: Address; readonly positions: Address | 0 },
  y: Address,
  wide: boolean,
  plus = 0,
): void {
  const units = s.batch * s.heads * s.rows;
  if (units * s.size === 0) return;
  call.step(
    'rotary',
    {
      ...places,
      y,
      heads: s.heads,
      rows: s.rows,
      size: s.size,
      half: s.half,
      interleaved: s.interleaved ? 1 : 0,
      xBatch: s.x.batch,
      xHead: s.x.head,
      xRow: s.x.row,
      yBatch: s.y.batch,
      yHead: s.y.head,
      yRow: s.y.row,
      wide: wide ? 1 : 0,
      offset: s.offset ? 1 : 0,
      most: s.most,
      plus,
    },
    { units, grain: Math.max(1, Math.ceil(4096 / s.size)), flops: 6 * units * s.half },
  );
}

/** Where an operator has its inputs. */
interface Places {
  readonly cos: number;
  readonly sin: number;
  readonly positions: number;
}

const specs = {
  interleaved: int(0),
  num_heads: int(0),
  rotary_embedding_dim: int(0),
  scale: float(1),
  is_packed_batching: int(0),
};

interface Attributes {
  readonly interleaved: number;
  readonly num_heads: number;
  readonly rotary_embedding_dim: number;
  readonly scale: number;
}

function shapeOf(call: InferCall<Attributes>, p: Places): RotaryShape {
  const { dims, type } = call.input(0);
  const a = call.attributes;
  if (!isFloat(type)) throw call.error(`X must be of a floating-point type, got ${type}`);
  if (dims.length !== 3 && dims.length !== 4)
    throw call.error(`X must have 3 or 4 dimensions, got ${formatShape(dims)}`);
  const fourD = dims.length === 4;
  const batch = dims[0]!;
  const rows = fourD ? dims[2]! : dims[1]!;
  const hidden = dims.at(-1)!;
  const cos = call.input(p.cos).dims;
  const sin = call.input(p.sin).dims;
  const halfOf = cos.at(-1) ?? 0;
  let heads = fourD ? dims[1]! : a.num_heads;
  // com.microsoft's takes the head's size from the table where the number of heads is not given.
  if (heads === 0 && !fourD && a.rotary_embedding_dim === 0 && halfOf > 0) heads = hidden / (2 * halfOf);
  if (!fourD && (heads < 1 || !Number.isInteger(heads) || hidden % heads !== 0))
    throw call.error(`X ${formatShape(dims)} needs a num_heads that divides it, got ${a.num_heads}`);
  const size = fourD ? hidden : hidden / heads;
  const rotated = a.rotary_embedding_dim || size;
  if (rotated > size || rotated % 2 !== 0 || rotated < 0)
    throw call.error(`rotary_embedding_dim must be even and at most the head's size ${size}, got ${rotated}`);
  const half = rotated / 2;
  const positions = call.optional(p.positions);
  const offset = positions !== undefined && sizeOf(positions.dims) === 1 && batch * rows !== 1;
  if (positions !== undefined && !offset && !sameShape(positions.dims, [batch, rows]) && sizeOf(positions.dims) !== 1)
    throw call.error(`position_ids must have shape [${batch}, ${rows}], got ${formatShape(positions.dims)}`);
  const want = positions === undefined ? [batch, rows, half] : [cos[0]!, half];
  if (!sameShape(cos, want) || !sameShape(sin, cos))
    throw call.error(
      `expected cos_cache and sin_cache of shape ${positions === undefined ? formatShape(want) : `[positions, ${half}]`}, ` +
        `got ${formatShape(cos)} and ${formatShape(sin)}`,
    );
  const strides = fourD ? apartStrides(rows, heads, size) : besideStrides(rows, heads, size);
  const interleaved = a.interleaved !== 0;
  const most = positions === undefined ? batch * rows : cos[0]!;
  return { batch, heads, rows, size, half, interleaved, x: strides, y: strides, most, offset };
}

function reference(call: ReferenceCall<Attributes>, p: Places) {
  const s = shapeOf(call, p);
  const x = call.tensor(0);
  const positions = call.ints(p.positions);
  const positionOf = (b: number, r: number) => {
    if (positions === undefined) return b * s.rows + r;
    const at = s.offset ? positions[0]! + r : positions[b * s.rows + r]!;
    if (at < 0 || at >= s.most)
      throw call.error(`position ${at} is outside the ${s.most} of the tables`, 'INVALID_INPUT');
    return at;
  };
  const y = new Float64Array(x.size);
  const [values, cos, sin] = [x, call.tensor(p.cos), call.tensor(p.sin)].map(decode) as [
    ArrayLike<number>,
    ArrayLike<number>,
    ArrayLike<number>,
  ];
  rotate(s, values, cos, sin, positionOf, y);
  return [fromNumbers(x.type, x.dims, y)];
}

function lower(call: LowerCall<Attributes>, p: Places): boolean {
  const s = shapeOf(call, p);
  if (![0, p.cos, p.sin].every((i) => call.input(i).type === 'float32')) return false;
  // One position for several batches is of the first: the kernel has one a batch.
  if (s.offset && s.batch > 1) return false;
  const positions = call.has(p.positions) ? call.in(p.positions) : 0;
  const wide = call.optional(p.positions)?.type !== 'int32';
  lowerRotary(call, s, { x: call.in(0), cos: call.in(p.cos), sin: call.in(p.sin), positions }, call.out(0), wide);
  return true;
}

function rotaryEmbedding(domain: string, since: number, inputs: readonly [number, number], p: Places) {
  return operator({
    name: 'RotaryEmbedding',
    domain,
    since: [since],
    inputs,
    attributes: specs,
    infer(call) {
      shapeOf(call, p);
      return [{ type: call.input(0).type, dims: call.input(0).dims }];
    },
    reference: (call) => reference(call, p),
    lower: (call) => lower(call, p),
  });
}

export const rotaryOperators: readonly Operator[] = [
  rotaryEmbedding('', 23, [3, 4], { cos: 1, sin: 2, positions: 3 }),
  rotaryEmbedding('com.microsoft', 1, [4, 4], { positions: 1, cos: 2, sin: 3 }),
];
