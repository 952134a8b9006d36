// What instances and the scheduler say to each other in a turn (dispatch.ts): what a request is, what is to be done, and how
// it went. Plain data, made and read by one thread.
import type { Order } from '../compiler/cell-stages.js';
import type { Status } from '../runtime/channel.js';

/** What an admitted request is to the scheduler. */
export interface Admitted {
  /** 8 words that stand for its kind; undefined: it runs alone. */
  readonly digest: Int32Array | undefined;
  readonly rows: number;
  /** It is cut into cells; where there is no room for that it runs alone. */
  readonly cells?: CellRequest | undefined;
}

/** What an instance does for the requests that it finds in the ring, and for the model. */
export interface Admitting {
  admit(slot: number): Admitted;
  /** Memory for the blocks of requests that are cut, once a model; 0: there is none. */
  reserve(bytes: number): number;
}

/** How an instance's task went. */
export interface Done {
  readonly type: number;
  /** Rows and time of a task that was computed in one run and did not fail. */
  readonly measured: { readonly rows: number; readonly milliseconds: number; readonly steps?: number } | undefined;
  /** False: the proof says that requests of this type may not be merged. */
  readonly mergeable: boolean;
  /** Entries whose chain has nothing more to do. */
  readonly stopped?: readonly number[];
  /** How requests end whose entries these are; the answer is given when nothing of them is in flight any more. */
  readonly endings?: readonly Ending[];
}

/** A part of a task: some steps of a stage of a request that is cut. */
export interface Entry {
  readonly slot: number;
  /** Where its block is; undefined: nobody waits for it any more. */
  readonly block: number | undefined;
  /** Which of its stages. */
  readonly stage: number;
  /** Nodes of the stage's chain: the first, and how many. */
  readonly step: number;
  readonly steps: number;
}

/** What an instance is to do next. */
export interface Turn {
  /** Slots of the requests of its task, oldest first; none: there is nothing to do now. */
  readonly slots: readonly number[];
  /** Where these are cut: what of each. */
  readonly entries: readonly Entry[] | undefined;
  readonly type: number;
  /** There is work left for another instance. */
  readonly more: boolean;
  /** Instances that have a task now, this one among them. */
  readonly busy: number;
  /** The instance is to go. */
  readonly retired: boolean;
  /** The caller must be woken. */
  readonly wake: boolean;
}

/** A request that is cut, as the scheduler gets it. */
export interface CellRequest {
  /** Of its block. */
  readonly bytes: number;
  readonly parts: readonly CellPart[];
}

/** A stage of it: a chain. */
export interface CellPart {
  /** 8 words that stand for its cell type; undefined: it shares no task. */
  readonly digest: Int32Array | undefined;
  readonly length: number;
  /** Rows of a batch, of those that a task may have so many of. */
  readonly rows: number;
  readonly order: Order;
  /** Nodes of a chain that goes stepwise behind it that one of its nodes feeds, and nodes it needs of the one before it. */
  readonly chunk: number;
  readonly needs: number;
  /** Rows that a node computes; 0 for a recurrence. */
  readonly rowsAtOnce: number;
}

/** How a request ends. */
export interface Ending {
  /** Its entry in the task. */
  readonly entry: number;
  readonly status: Status;
  /** Where its answer or error is, 0: nowhere. */
  readonly address: number;
}
