// Parameter blocks of quantization (assembly/quantize.ts): which scale an element has is pictured there.

const fields = {
  x: 'ptr',
  scale: 'ptr',
  zero: 'ptr',
  y: 'ptr',
  type: 'i32',
  width: 'i32',
  vector: 'i32',
  rows: 'i32',
  block: 'i32',
  outerStride: 'i32',
  axisStride: 'i32',
} as const;

export const quantization = {
  /** float32 to 8- and 16-bit integers. Units: rows × chunks of `quantizeChunk` elements of a row. */
  quantize: fields,
  /** Integers of 4 to 32 bits to float32. Units: the same. */
  dequantize: fields,
  /** Least and most of blocks of `quantizeChunk` elements. */
  dynamicRange: { x: 'ptr', ranges: 'ptr', size: 'i32' },
  /** The scale and zero point for `count` such blocks. One unit. */
  dynamicScale: { ranges: 'ptr', count: 'i32', scale: 'ptr', zero: 'ptr' },
} as const;

/** Elements of a row a unit takes. */
export const quantizeChunk = 4096;

/** Codes of quantized element types. */
export const integerCodes: Readonly<Partial<Record<string, number>>> = {
  int8: 0,
  uint8: 1,
  int16: 2,
  uint16: 3,
  int32: 4,
  int4: 5,
  uint4: 6,
};
