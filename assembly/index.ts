// The kernels' entry point: re-exports every kernel family. Each export has the signature (params, begin, end, scratch).
export function nop(params: usize, begin: i32, end: i32, scratch: usize): void {}
export { gather, gatherElements, gatherND, scatterElements, scatterND, tensorScatter } from './indexing';
export { gridSample, resample, roiAlign } from './sampling';
export { topK } from './selection';
export { copy, tableCopy, transpose, trilu } from './movement';
export * from './unary';
export { gemm, packA, packB } from './gemm';
export { col2im, conv, interleave, padSpatial } from './conv';
export { gemmInt8, quantizeRows } from './int8';
export { gemmHalf } from './half';
export { depthwise } from './depthwise';
export { winograd } from './winograd';
export * from './broadcast';
export { cast } from './cast';
export { gruStep, lstmStep, rnnStep } from './recurrent';
export { argF32, reduceF32, scan, softmaxF32 } from './reduce';
export { channelNorm, lrn, rowNorm } from './normalize';
export { poolF32 } from './pool';
export { dequantize, dynamicRange, dynamicScale, quantize } from './quantize';
export { integerProduct, packIntegers } from './integer-product';
export { integerConv, integerDepthwise, padIntegers } from './integer-conv';
export { attention } from './attention';
export { attentionScores } from './attention-scores';
export { appendRows, rotary } from './rotary';
