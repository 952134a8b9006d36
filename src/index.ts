// What a user imports: the public API, re-exported from the layers that own it. No code of its own.
export { Engine, type EngineOptions, type LoadOptions, load, type ModelSource } from './serving/engine.js';
export type { Feeds, FeedValue, TensorLike } from './serving/feeds.js';
export type { InstanceGroup, Model, ModelValue, Outputs, RunOptions } from './serving/model.js';
export type { ModelStatistics, Percentiles } from './serving/statistics.js';
export { type ErrorCode, SkepError } from './tensor/errors.js';
export { Tensor, type TensorData } from './tensor/tensor.js';
export type { DataType } from './tensor/types.js';
