// What a user imports: the public API, re-exported from the layers that own it. No code of its own.
export {
  type Choice,
  type ChooseOptions,
  type ChooseResult,
  choose,
  type Objective,
  type Slo,
} from './optimizer/choose.js';
export type { Configuration, InstanceGroup } from './optimizer/configuration.js';
export { type Admission, Controller, type ControllerOptions, type Decision } from './optimizer/controller.js';
export { type Crossing, crossings } from './optimizer/crossings.js';
export { OptimizerError, type OptimizerErrorCode } from './optimizer/errors.js';
export { type Candidate, type OptimizeOptions, type OptimizeResult, optimize, verified } from './optimizer/packrat.js';
export { type Prediction, type PredictOptions, predict } from './optimizer/predict.js';
export {
  type FactorTable,
  type InterferenceTable,
  type LatencyTable,
  Profile,
  type ProfileInput,
  type ProfileJson,
} from './optimizer/profile.js';
export { Engine, type EngineOptions, type LoadOptions, load, type ModelSource } from './serving/engine.js';
export type { Feeds, FeedValue, TensorLike } from './serving/feeds.js';
export type { Model, ModelValue, Outputs, RunOptions } from './serving/model.js';
export type { ModelStatistics, Percentiles } from './serving/statistics.js';
export type {
  ConfigurationChange,
  StoredProfileOptions,
  TunedCandidate,
  TuneObjective,
  TuneOptions,
  TuneProgress,
  TuneResult,
} from './serving/tuning.js';
export { type ErrorCode, SkepError } from './tensor/errors.js';
export { Tensor, type TensorData } from './tensor/tensor.js';
export type { DataType } from './tensor/types.js';
