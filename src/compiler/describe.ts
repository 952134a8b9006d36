// A plan in words and numbers: what `skep inspect` prints and step-through shows of each step, without running anything.
import { sizeOf } from '../tensor/shape.js';
import { byteLength } from '../tensor/types.js';
import type { Plan, Step, StepValue } from './plan.js';

/** One step of a plan. */
export interface StepDescription {
  readonly index: number;
  /** Names of the graph nodes it computes, the last one first; nodes without a name go by their first output. */
  readonly nodes: readonly string[];
  /** Their operators, in the same order. */
  readonly origins: readonly string[];
  /** The operator computed: `Conv`, or `skep:Conv` when fusion made it. */
  readonly operator: string;
  /** The kernel's name, or `reference`. */
  readonly kernel: string;
  /** Which of its operator's steps it is: [2, 3] is the second of three. */
  readonly part: readonly [number, number];
  readonly inputs: readonly StepValue[];
  readonly outputs: readonly StepValue[];
  /** Floating-point operations, 0 when not stated. */
  readonly flops: number;
  /** Bytes of the operator's inputs and outputs. */
  readonly bytes: number;
  /** Independent units its work can be divided into. */
  readonly units: number;
}

/** A plan as a whole. */
export interface PlanStatistics {
  readonly steps: number;
  readonly kernelSteps: number;
  /** Steps without a kernel: they run the slow reference semantics. */
  readonly referenceSteps: number;
  readonly flops: number;
  readonly arenaBytes: number;
  readonly liveBytes: number;
  readonly constantBytes: number;
}

/** Every step of a plan. */
export function describe(plan: Plan): StepDescription[] {
  // Steps of one operator share their list of nodes.
  const total = new Map<Step['nodes'], number>();
  for (const s of plan.steps) total.set(s.nodes, (total.get(s.nodes) ?? 0) + 1);
  const seen = new Map<Step['nodes'], number>();
  return plan.steps.map((step, index) => {
    const part = (seen.get(step.nodes) ?? 0) + 1;
    seen.set(step.nodes, part);
    return {
      index,
      nodes: step.nodes.map((n) => n.name || n.outputs.find((o) => o !== '') || n.op),
      origins: step.nodes.map((n) => n.op),
      operator: step.operator,
      kernel: step.kind === 'kernel' ? step.kernel : 'reference',
      part: [part, total.get(step.nodes)!],
      inputs: step.reads,
      outputs: step.writes,
      flops: step.flops,
      bytes: [...step.reads, ...step.writes].reduce((sum, v) => sum + byteLength(v.type, sizeOf(v.dims)), 0),
      units: step.kind === 'kernel' ? step.units : 1,
    };
  });
}

/** A plan in numbers. */
export function statisticsOf(plan: Plan): PlanStatistics {
  const kernelSteps = plan.steps.filter((s) => s.kind === 'kernel').length;
  return {
    steps: plan.steps.length,
    kernelSteps,
    referenceSteps: plan.steps.length - kernelSteps,
    flops: plan.steps.reduce((sum, s) => sum + s.flops, 0),
    arenaBytes: plan.arenaBytes,
    liveBytes: plan.liveBytes,
    constantBytes: plan.constantBytes,
  };
}
