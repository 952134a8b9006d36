// Why the scheduler did what it did, as numbers. A decision costs three words in its task; people get the sentence.
// Read by `explain` commands and by the step-through, never by the scheduler itself.

/** Why a task was formed (below 16), or why none was (from 16). */
export const Reason = {
  none: 0,
  /** Criterion 1 of the paper: a whole batch is ready. */
  fullBatch: 1,
  /** Criterion 2: something is ready and no task of this type runs. */
  noneRunning: 2,
  /** Criterion 3: something is ready. */
  someReady: 3,
  /** No batch is full, and it has the oldest request of all types. */
  oldestRequest: 4,
  /** The latest cell type with anything ready. */
  latestType: 5,
  /** The next type in turn. */
  nextInTurn: 6,
  /** Submitted together with the task before it (maxTasksToSubmit > 1). */
  sameSubmission: 7,
  /** Of all types it fills most of a batch. */
  fullest: 8,
  /** It has been passed over long enough. */
  overdue: 9,
  nothingReady: 16,
  /** What is ready is pinned to other instances. */
  pinnedElsewhere: 17,
  /** What is ready needs a row, and none is free. */
  noRows: 18,
  /** The instance has as many tasks as it may. */
  instanceFull: 19,
} as const;
export type Reason = (typeof Reason)[keyof typeof Reason];

/** A task's decision, with its numbers. */
export interface Decision {
  readonly type: number;
  readonly reason: Reason;
  /** Nodes in the task. */
  readonly size: number;
  /** Nodes of the type that were ready, those in the task among them. */
  readonly ready: number;
  /** Tasks of the type that ran already. */
  readonly running: number;
  /** Place in the order of arrival of the oldest request in it. */
  readonly oldest: number;
}

/** The decision in words: `decoder × 4: 7 ready, none running`. */
export function explain(d: Decision, nameOf: (type: number) => string): string {
  const head = `${nameOf(d.type)} × ${d.size}`;
  const ready = `${d.ready} ready`;
  const running = d.running === 0 ? 'none running' : `${d.running} running`;
  switch (d.reason) {
    case Reason.fullBatch:
      return `${head}: a full batch, ${ready}, ${running}`;
    case Reason.noneRunning:
      return `${head}: ${ready}, none running`;
    case Reason.someReady:
      return `${head}: ${ready}, ${running}; no type has a full batch or stands idle`;
    case Reason.oldestRequest:
      return `${head}: request ${d.oldest} is the oldest, ${ready}, ${running}`;
    case Reason.fullest:
      return `${head}: fills most of a batch, ${ready}, ${running}`;
    case Reason.overdue:
      return `${head}: has been passed over long enough, ${ready}, ${running}`;
    case Reason.latestType:
      return `${head}: the latest cell with anything to do, ${ready}, ${running}`;
    case Reason.nextInTurn:
      return `${head}: next in turn, ${ready}, ${running}`;
    case Reason.sameSubmission:
      return `${head}: follows the task before it, ${ready}`;
    case Reason.none:
      return `${head}: no task`;
    default:
      return explainIdle(d.reason);
  }
}

/** Why an instance got nothing, in words. */
export function explainIdle(reason: Reason): string {
  switch (reason) {
    case Reason.nothingReady:
      return 'idle: nothing is ready';
    case Reason.pinnedElsewhere:
      return 'idle: all that is ready is pinned to other instances';
    case Reason.noRows:
      return 'idle: what is ready needs a state row and none is free';
    case Reason.instanceFull:
      return 'idle: the instance has all the tasks it may have';
    default:
      return 'not idle';
  }
}
