// Numbers as quantization rounds them: to a floating-point type of few bits, and to an integer type with ties to even
// and saturation. Used by the reference semantics of every quantized operator.
import { bfloat16ToNumber, float16ToNumber, numberToBfloat16, numberToFloat16 } from '../tensor/convert.js';
import { roundEven } from '../tensor/rounding.js';
import { type DataType, typeInfo } from '../tensor/types.js';

/** Rounding to the nearest number of a floating-point type. */
export function rounderOf(type: DataType): (x: number) => number {
  if (type === 'float16') return (x) => float16ToNumber(numberToFloat16(x));
  if (type === 'bfloat16') return (x) => bfloat16ToNumber(numberToBfloat16(x));
  return type === 'float64' ? (x) => x : Math.fround;
}

/** The nearest integer, ties to even. */
export function rint(x: number): number {
  return x < 0 ? -roundEven(-x) : roundEven(x);
}

/** The least and largest value of an integer type of at most 32 bits. */
export function rangeOf(type: DataType): readonly [number, number] {
  const { bits, kind } = typeInfo(type);
  return kind === 'signed' ? [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1] : [0, 2 ** bits - 1];
}

/** round(x) + zero, saturated to the range; NaN is the least value. */
export function saturate(x: number, zero: number, [low, high]: readonly [number, number]): number {
  return Number.isNaN(x) ? low : Math.min(high, Math.max(low, rint(x) + zero));
}
