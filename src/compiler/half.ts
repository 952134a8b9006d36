// Half precision by the float32 kernels: a node of float16 or bfloat16 is lowered as if its tensors were float32, between
// conversions. How to picture it, for y = f(x, w) with weights w:
//
//   x ── cast ──┐
//               f32 kernel of f ── cast ── y          w: widened once a model
//
// What is stored stays 16 bits and every result is rounded once, as the reference does it. A value that several nodes of
// a plan read is widened once. Integers, where and how to convert them, and which nodes need this is not decided here.
import { castCodes, unaryBlock } from '../kernels/unary.js';
import { view } from '../operators/nested.js';
import type { Address, LowerCall, Operator, OutputInfo, TensorInfo } from '../operators/operator.js';
import { decode } from '../tensor/convert.js';
import { sizeOf } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import type { DataType } from '../tensor/types.js';

type Half = 'float16' | 'bfloat16';

export function isHalf(type: DataType): type is Half {
  return type === 'float16' || type === 'bfloat16';
}

/** Operators whose results are exact in the precision of their scales, which wider ones would change. */
const exact = new Set(['QuantizeLinear', 'QLinearMatMul', 'QLinearConv', 'CastLike', 'Cast', 'BitCast']);

/** True for nodes that may be computed in float32. */
export function mayWiden(operator: Operator, infos: readonly (TensorInfo | OutputInfo | undefined)[]): boolean {
  return (
    operator.lower !== undefined && !exact.has(operator.name) && infos.some((x) => x !== undefined && isHalf(x.type))
  );
}

/** A constant as float32, converted when its elements are read: most of the time only that it is constant matters. */
function widened(t: Tensor): Tensor {
  const properties = { type: 'float32', dims: t.dims, size: t.size };
  const lazy = Object.create(Tensor.prototype, Object.getOwnPropertyDescriptors(properties)) as object;
  return Object.defineProperty(lazy, 'data', { get: () => Float32Array.from(decode(t)) }) as Tensor;
}

function lowerCast(call: LowerCall<never>, x: Address, y: Address, size: number, from: DataType, to: DataType): void {
  const code = (type: DataType) => castCodes[type as keyof typeof castCodes];
  const params = { x, y, size, from: code(from), to: code(to) };
  call.step('cast', params, { units: Math.ceil(size / unaryBlock), grain: 4 });
}

/** Appends the steps of a node in float32; false when its operator has no kernel for that either. */
export function lowerWidened(call: LowerCall<never>, operator: Operator, known: Map<string, Address>): boolean {
  const wide = (info: TensorInfo): TensorInfo => {
    if (!isHalf(info.type)) return info;
    const { value } = info;
    return { type: 'float32', dims: info.dims, ...(value !== undefined && { value: widened(value) }) };
  };
  const inputs = call.node.inputs.map((_, i) => {
    const info = call.optional(i);
    return info && wide(info);
  });
  const results = new Map<number, Address>();
  const input = (i: number) => inputs[i] ?? call.input(i);
  const inside = view(call, {
    optional: (i: number) => inputs[i],
    input,
    value: (i: number) => input(i).value ?? call.value(i),
    output(i: number): OutputInfo {
      const { type, dims } = call.output(i);
      return { type: isHalf(type) ? 'float32' : type, dims };
    },
    constant: (key: string, bytes: number, fill: (into: Uint8Array) => void) =>
      call.constant(`float32 ${key}`, bytes, fill),
    in(i: number): Address {
      const { type, dims, value } = call.input(i);
      if (!isHalf(type)) return call.in(i);
      const size = sizeOf(dims);
      if (value !== undefined)
        return call.constant(`float32 of ${i}`, size * 4, (into) => {
          new Float32Array(into.buffer, into.byteOffset, size).set(decode(value));
        });
      const name = call.node.inputs[i]!;
      const found = known.get(name);
      if (found !== undefined) return found;
      const at = call.scratch(Math.max(4, size * 4));
      lowerCast(call, call.in(i), at, size, type, 'float32');
      known.set(name, at);
      return at;
    },
    out(i: number): Address {
      const { type, dims } = call.output(i);
      if (!isHalf(type)) return call.out(i);
      const at = results.get(i) ?? call.scratch(Math.max(4, sizeOf(dims) * 4));
      results.set(i, at);
      return at;
    },
  });
  if (operator.lower!(inside) !== true) return false;
  for (const [i, at] of results) {
    const { type, dims } = call.output(i);
    lowerCast(call, at, call.out(i), sizeOf(dims), 'float32', type);
  }
  return true;
}
