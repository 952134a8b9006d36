// Embeddings of com.microsoft: EmbedLayerNormalization (words, positions and segments summed and normalized, the beginning
// of every optimized BERT) and GatherBlockQuantized (rows of a table kept in blocks of few bits, the beginning of quantized
// language models).
import { decode } from '../tensor/convert.js';
import { formatShape } from '../tensor/errors.js';
import { normalizeAxis, sameShape, sizeOf } from '../tensor/shape.js';
import type { Tensor } from '../tensor/tensor.js';
import { type TypedArray, typeInfo } from '../tensor/types.js';
import { float, int } from './attributes.js';
import { lowerBroadcast } from './broadcast.js';
import { lowerRowNorm, normalizeLast } from './contrib-normalization.js';
import { gathers } from './gather.js';
import { type Inner, lowerInner, type Placed, view } from './nested.js';
import { type Address, type InferCall, type Operator, operator } from './operator.js';
import { fromNumbers, isFloat } from './reference.js';

const domain = 'com.microsoft';

const gather: Inner = {
  operator: gathers.find((o) => o.name === 'Gather')!,
  opset: 13,
  attributes: { axis: 0 },
};

/** Where the sum of tables' rows is normalized: inputs by what they are. */
const at = { ids: 0, segments: 1, words: 2, positions: 3, segmentTable: 4, gamma: 5, beta: 6, mask: 7, positionIds: 8 };

function embedded(call: InferCall<unknown>) {
  const { dims } = call.input(at.ids);
  const word = call.input(at.words);
  if (dims.length !== 2 || word.dims.length !== 2)
    throw call.error(
      `expected input_ids [batch, sequence] and word embeddings [words, size], got ${formatShape(dims)} and ${formatShape(word.dims)}`,
    );
  const [batch, sequence] = dims as [number, number];
  const hidden = word.dims[1]!;
  for (const i of [at.positions, at.segmentTable]) {
    const t = call.optional(i);
    if (t !== undefined && (t.dims.length !== 2 || t.dims[1] !== hidden))
      throw call.error(`input ${i} must have shape [n, ${hidden}], got ${formatShape(t.dims)}`);
  }
  for (const i of [at.gamma, at.beta])
    if (!sameShape(call.input(i).dims, [hidden]))
      throw call.error(`expected input ${i} of shape [${hidden}], got ${formatShape(call.input(i).dims)}`);
  for (const i of [at.segments, at.mask]) {
    const t = call.optional(i);
    if (t !== undefined && !sameShape(t.dims, dims))
      throw call.error(`expected input ${i} of shape ${formatShape(dims)}, got ${formatShape(t.dims)}`);
  }
  const given = call.optional(at.positionIds);
  if (given !== undefined && !sameShape(given.dims, dims) && !sameShape(given.dims, [1, sequence]))
    throw call.error(`expected position_ids of shape ${formatShape(dims)}, got ${formatShape(given.dims)}`);
  const positions = call.input(at.positions).dims[0]!;
  if (given === undefined && sequence > positions)
    throw call.error(`${sequence} positions are outside the ${positions} rows of their table`, 'INVALID_INPUT');
  return { batch, sequence, hidden, type: word.type, sharedPositions: given !== undefined && given.dims[0] !== batch };
}

/** input_ids, segment_ids?, word, position and segment embeddings, gamma, beta, mask?, position_ids? → normalized, lengths, sums. */
const embedLayerNormalization = operator({
  name: 'EmbedLayerNormalization',
  domain,
  since: [1],
  inputs: [7, 9],
  attributes: { epsilon: float(1e-12), mask_index_type: int(1) },
  infer(call) {
    const { batch, sequence, hidden, type } = embedded(call);
    const output = { type, dims: [batch, sequence, hidden] };
    return [output, { type: 'int32', dims: [batch] }, output];
  },
  reference(call) {
    const { batch, sequence, hidden, type } = embedded(call);
    const rows = batch * sequence;
    const numbers = (i: number) => (call.has(i) ? decode(call.tensor(i)) : undefined);
    const sums = new Float64Array(rows * hidden);
    const add = (row: number, i: number, index: number, what: string) => {
      const table = numbers(i)!;
      const count = table.length / hidden;
      if (!(index >= 0 && index < count))
        throw call.error(`${what} ${index} is outside the ${count} rows of its table`, 'INVALID_INPUT');
      for (let j = 0; j < hidden; j++) sums[row * hidden + j]! += table[index * hidden + j]!;
    };
    const [ids, segments, given] = [call.ints(at.ids)!, call.ints(at.segments), call.ints(at.positionIds)];
    for (let row = 0; row < rows; row++) {
      add(row, at.words, ids[row]!, 'input_ids');
      const position = given === undefined ? row % sequence : given[given.length === sequence ? row % sequence : row]!;
      add(row, at.positions, position, 'position');
      if (segments !== undefined && call.has(at.segmentTable)) add(row, at.segmentTable, segments[row]!, 'segment_ids');
    }
    const sum = fromNumbers(type, [batch, sequence, hidden], sums);
    const r = normalizeLast(decode(sum), hidden, numbers(at.gamma)!, numbers(at.beta)!, call.attributes.epsilon, false);
    const mask = numbers(at.mask);
    const counts = Array.from({ length: batch }, (_, b) => {
      let n = 0;
      if (mask !== undefined) for (let i = 0; i < sequence; i++) n += mask[b * sequence + i] === 1 ? 1 : 0;
      return n;
    });
    return [fromNumbers(type, sum.dims, r.y), fromNumbers('int32', [batch], counts), sum];
  },
  lower(call) {
    const { batch, sequence, hidden, type, sharedPositions } = embedded(call);
    const floats = [at.words, at.positions, at.segmentTable, at.gamma, at.beta];
    if (type !== 'float32' || !floats.every((i) => !call.has(i) || call.input(i).type === type)) return false;
    // Lengths are counted by the reference: they are few, but it computes all.
    if (call.wants(1)) return false;
    const dims = [batch, sequence, hidden];
    const rows = batch * sequence;
    if (rows * hidden === 0) return true;
    const placed = (i: number): Placed => ({ ...call.input(i), at: call.in(i) });
    const look = (table: number, index: number): Address => {
      const to = call.scratch(rows * hidden * 4);
      const shape = [...call.input(index).dims, hidden];
      lowerInner(call, gather, [placed(table), placed(index)], { type, dims: shape }, to);
      return to;
    };
    const add = (a: Address, b: Address, bDims: readonly number[], to: Address) => {
      const operands = [
        { at: a, dims },
        { at: b, dims: bDims },
      ];
      lowerBroadcast(view(call, { out: () => to }), 'add', type, dims, operands);
    };
    const sum = call.wants(2) ? call.out(2) : call.scratch(rows * hidden * 4);
    const words = look(at.words, at.ids);
    // Without position_ids the first rows of the table are the positions.
    const given = call.has(at.positionIds);
    const positions = given ? look(at.positions, at.positionIds) : call.in(at.positions);
    add(words, positions, given && !sharedPositions ? dims : [sequence, hidden], sum);
    if (call.has(at.segments) && call.has(at.segmentTable)) add(sum, look(at.segmentTable, at.segments), dims, sum);
    lowerRowNorm(call, sum, call.in(at.gamma), call.in(at.beta), rows, hidden, call.attributes.epsilon, false);
    return true;
  },
});

const blockSpecs = { bits: int(4), block_size: int(128), gather_axis: int(0), quantize_axis: int(1) };

function blocksOf(
  call: InferCall<{
    readonly bits: number;
    readonly block_size: number;
    readonly gather_axis: number;
    readonly quantize_axis: number;
  }>,
) {
  const { bits, block_size: block, gather_axis, quantize_axis } = call.attributes;
  const [data, indices, scales] = [call.input(0), call.input(1), call.input(2)];
  const own = data.type === 'int4' || data.type === 'uint4';
  if (!own && data.type !== 'uint8') throw call.error(`data must be int4, uint4 or uint8, got ${data.type}`);
  if (bits !== 4 && (own || bits !== 8))
    throw call.error(`${bits} bits of ${data.type} are not supported`, 'UNSUPPORTED');
  if (block < 16 || (block & (block - 1)) !== 0)
    throw call.error(`block_size must be a power of two from 16 on, got ${block}`);
  const rank = data.dims.length;
  const axisOf = (axis: number, name: string) => {
    if (axis < -rank || axis >= rank) throw call.error(`${name} ${axis} is outside data ${formatShape(data.dims)}`);
    return normalizeAxis(axis, rank);
  };
  const axis = axisOf(gather_axis, 'gather_axis');
  const along = axisOf(quantize_axis, 'quantize_axis');
  if (axis === along) throw call.error('gather_axis and quantize_axis must differ');
  // Bytes of two elements each lie along the last axis.
  const packed = !own && bits === 4;
  if (packed && (axis !== 0 || along !== rank - 1))
    throw call.error('packed uint8 data are gathered along axis 0 and quantized along the last', 'UNSUPPORTED');
  const dims = packed ? data.dims.with(-1, data.dims.at(-1)! * 2) : data.dims;
  const blocks = dims.with(along, Math.ceil(dims[along]! / block));
  if (!isFloat(scales.type) || !sameShape(scales.dims, blocks))
    throw call.error(`expected scales of shape ${formatShape(blocks)}, got ${formatShape(scales.dims)}`);
  const zeros = call.optional(3);
  const zeroDims = packed ? blocks.with(-1, Math.ceil(blocks.at(-1)! / 2)) : blocks;
  if (zeros !== undefined && (zeros.type !== data.type || !sameShape(zeros.dims, zeroDims)))
    throw call.error(
      `expected zero_points ${data.type} of shape ${formatShape(zeroDims)}, got ${zeros.type} ${formatShape(zeros.dims)}`,
    );
  if (indices.type !== 'int32' && indices.type !== 'int64')
    throw call.error(`indices must be int32 or int64, got ${indices.type}`);
  const result = [...dims.slice(0, axis), ...indices.dims, ...dims.slice(axis + 1)];
  return { dims, blocks, axis, along, block, bits, packed, result, indexDims: indices.dims };
}

/** Element i of a tensor of 4 or 8 bits, read where it lies: a table is not unpacked for a few of its rows. */
function codeReader(t: Tensor, bits: number): (i: number) => number {
  const data = t.data as TypedArray;
  if (bits === 8) return (i) => Number(data[i]);
  const signed = typeInfo(t.type).kind === 'signed';
  return (i) => {
    const code = (Number(data[i >> 1]) >> ((i & 1) * 4)) & 15;
    return signed && code > 7 ? code - 16 : code;
  };
}

/** data, indices, scales, zero_points? → rows of the table, as floats. */
const gatherBlockQuantized = operator({
  name: 'GatherBlockQuantized',
  domain,
  since: [1],
  inputs: [3, 4],
  attributes: blockSpecs,
  infer: (call) => [{ type: call.input(2).type, dims: blocksOf(call).result }],
  reference(call) {
    const b = blocksOf(call);
    const { dims, blocks, axis, along, block, bits, packed, result } = b;
    const [data, scales] = [call.tensor(0), decode(call.tensor(2))];
    const code = codeReader(data, bits);
    const zero = call.has(3) ? codeReader(call.tensor(3), bits) : undefined;
    // Zero points of packed rows begin at a whole byte.
    const zeroRow = packed ? Math.ceil(blocks.at(-1)! / 2) * 2 : blocks.at(-1)!;
    const missing = data.type === 'uint8' ? 1 << (bits - 1) : 0;
    const inner = sizeOf(dims.slice(axis + 1));
    const count = sizeOf(b.indexDims);
    const n = dims[axis]!;
    const step = sizeOf(dims.slice(along + 1));
    const indices = call.ints(1)!.map((i) => {
      if (i < -n || i >= n) throw call.error(`index ${i} is outside [${-n}, ${n - 1}]`, 'INVALID_INPUT');
      return i < 0 ? i + n : i;
    });
    const y = new Float64Array(sizeOf(result));
    for (let o = 0, to = 0; o < sizeOf(dims.slice(0, axis)); o++)
      for (let i = 0; i < count; i++)
        for (let j = 0; j < inner; j++, to++) {
          const from = (o * n + indices[i]!) * inner + j;
          const line = Math.floor(from / (step * dims[along]!));
          const place = Math.floor(from / step) % dims[along]!;
          const s = (line * blocks[along]! + Math.floor(place / block)) * step + (from % step);
          const last = blocks.at(-1)!;
          const z = zero === undefined ? missing : zero(Math.floor(s / last) * zeroRow + (s % last));
          y[to] = (code(from) - z) * scales[s]!;
        }
    return [fromNumbers(call.tensor(2).type, result, y)];
  },
});

export const contribEmbeddingOperators: readonly Operator[] = [embedLayerNormalization, gatherBlockQuantized];
