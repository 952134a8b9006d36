// The words of a cut: stages, and where the values lie that cross from one to the next. See cells.ts. Picture a request as a
// row of chains for the scheduler, and its block as one piece of memory with everything that must outlive a task.
import type { Graph, Node } from '../graph/graph.js';
import { formatNode } from '../tensor/errors.js';
import type { Tensor } from '../tensor/tensor.js';
import type { DataType } from '../tensor/types.js';

/** Where a value is while a request runs. */
export type Place =
  | { readonly kind: 'block'; readonly type: DataType; readonly dims: readonly number[]; readonly offset: number }
  /** Where the caller put it: input so and so. */
  | { readonly kind: 'input'; readonly type: DataType; readonly dims: readonly number[]; readonly name: string }
  | { readonly kind: 'constant'; readonly type: DataType; readonly dims: readonly number[]; readonly value: Tensor };

/** When a stage's chain may begin: `stepwise`, as the one before it goes on; `after`, when all before it have ended. */
export type Order = 'first' | 'stepwise' | 'after';

interface StageBase {
  readonly order: Order;
  /** Nodes of its chain. */
  readonly length: number;
}

/** A value that a stage reads or writes, with its time along `axis`. */
export interface Sequence {
  readonly name: string;
  readonly place: Place;
  readonly axis: number;
}

/** Some times at once. */
export interface RowsStage extends StageBase {
  readonly kind: 'rows';
  /** The same for stages that run the same graph; requests may share a task where `type` is equal too. */
  readonly id: string;
  readonly type: string;
  readonly graph: Graph;
  readonly times: number;
  /** Times of a node of its chain, and rows of a batch at each time. */
  readonly chunk: number;
  readonly rows: number;
  readonly inputs: readonly Sequence[];
  readonly outputs: readonly Sequence[];
}

/** The recurrence: a time a node of its chain. */
export interface StepsStage extends StageBase {
  readonly kind: 'steps';
  readonly id: string;
  readonly type: string;
  /** Inputs g, lengths, h, c; outputs y, hNext, cNext: see `skep:LSTMSteps`. */
  readonly graph: Graph;
  readonly node: Node;
  readonly times: number;
  readonly rows: number;
  readonly directions: number;
  readonly hidden: number;
  readonly width: number;
  readonly batchFirst: boolean;
  readonly backwards: readonly boolean[];
  readonly products: Place;
  readonly lengths: Place | undefined;
  readonly y: Place | undefined;
  /** h, and c where there is one: where they start from (undefined: zeros) and where they are kept. */
  readonly states: readonly { readonly from: Place | undefined; readonly place: Place }[];
}

/** Once a request. */
export interface WholeStage extends StageBase {
  readonly kind: 'whole';
  readonly id: string;
  readonly graph: Graph;
  readonly inputs: ReadonlyMap<string, Place>;
  readonly outputs: ReadonlyMap<string, Place>;
}

/** The last: what is left to compute, if anything, and the answer. */
export interface EndStage extends StageBase {
  readonly kind: 'end';
  readonly id: string;
  readonly graph: Graph | undefined;
  readonly inputs: ReadonlyMap<string, Place>;
  /** The wanted outputs, in order: where they are, or undefined when the graph computes them. */
  readonly outputs: readonly { readonly name: string; readonly place: Place | undefined }[];
}

export type Stage = RowsStage | StepsStage | WholeStage | EndStage;

/** How a request is cut. */
export interface Cut {
  readonly stages: readonly Stage[];
  /** Of its block. */
  readonly bytes: number;
}

/** Why it is not. */
export interface Uncut {
  readonly why: string;
}

/** The stages in words, in their order. */
export function describeStages({ stages }: Cut): string[] {
  return stages.map((stage) => {
    switch (stage.kind) {
      case 'rows':
        return `rows, ${stage.chunk} of ${stage.times} times at once: ${operators(stage.graph)}`;
      case 'steps':
        return `steps, one time after the other: ${formatNode(stage.node)}`;
      case 'whole':
        return `whole, once a request: ${operators(stage.graph)}`;
      case 'end':
        return stage.graph === undefined ? 'end: the answer' : `end, once a request: ${operators(stage.graph)}`;
      default:
        return stage satisfies never;
    }
  });
}

/** Along which axis each input that is read as rows has its time. */
export function timesOf({ stages }: Cut): ReadonlyMap<string, number> {
  const sequences = stages.flatMap((s) => (s.kind === 'rows' ? s.inputs : []));
  return new Map(sequences.flatMap(({ place, axis }) => (place.kind === 'input' ? [[place.name, axis] as const] : [])));
}

function operators({ nodes }: Graph): string {
  const names = [...new Set(nodes.map((n) => n.op))];
  return names.length <= 6
    ? names.join(', ')
    : `${names.slice(0, 5).join(', ')} and ${names.length - 5} other operators`;
}
