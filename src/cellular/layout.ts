// Where every word of the scheduler's state lives. The whole state is one run of Int32 words, so that threads which
// share a buffer share the scheduler, and a copy of the buffer is a snapshot of it.
//
//   offset ─▶ ┌────────┬───────┬───────────┬──────────┬──────────┬──────────┬──────────┬───────┬──────┐
//             │ header │ types │ instances │ tasks    │ requests │ parts    │ nodes    │ edges │ rows │
//             └────────┴───────┴───────────┴──────────┴──────────┴──────────┴──────────┴───────┴──────┘
//   words       32       15 each  4 each     12 + 3·b   12 each    12 each    8 each     4 each  2 each
//
// - A *request* owns a list of parts and a list of nodes.
// - A *part* is what a request has to do with one cell type. Either a chain (n steps, each feeding the next, kept as
//   two counters and no nodes at all), or the nodes of a graph that have this type.
// - A *node* is one call of a cell. It holds its first consumer itself; only further consumers cost an edge.
// - A *row* is where a node's output lives in the arena; which bytes that are is the runtime's affair.
//
// A request of one type costs 96 bytes, every further type 48, every node of a graph 32, a chain's node nothing, and
// every consumer of a node beyond its first 16. Nothing here knows what the words mean together: see state.ts.

export const NONE = -1;
export const MAGIC = 0x534b4550; // "SKEP"

// ── header ──────────────────────────────────────────────────────────────────────────────────────────────────────────
export const HEADER_WORDS = 32;
export const H_MAGIC = 0;
export const H_REQUESTS = 1; // capacities
export const H_PARTS = 2;
export const H_NODES = 3;
export const H_EDGES = 4;
export const H_ROWS = 5;
export const H_TYPES = 6;
export const H_INSTANCES = 7;
export const H_TASKS = 8; // task slots an instance has
export const H_LARGEST = 9; // the largest maxBatch a type may have
export const H_POLICY = 10; // a Policy
export const H_SUBMIT = 11; // maxTasksToSubmit
export const H_FREE_REQUEST = 12; // heads of the free lists …
export const H_FREE_PART = 13;
export const H_FREE_NODE = 14;
export const H_FREE_EDGE = 15;
export const H_LEFT_REQUESTS = 16; // … and how many are on them
export const H_LEFT_PARTS = 17;
export const H_LEFT_NODES = 18;
export const H_LEFT_EDGES = 19;
export const H_LEFT_ROWS = 20;
export const H_RESERVED = 21; // rows promised to admitted requests
export const H_ORDER = 22; // the next request's place in the order of arrival
export const H_LAST_TYPE = 23; // type of the last task, for alternating priority
export const H_FINISHED_HEAD = 24; // ended requests nobody has taken yet
export const H_FINISHED_TAIL = 25;
export const H_WAITING_HEAD = 26; // requests that wait for rows
export const H_WAITING_TAIL = 27;
export const H_DEADLINES = 28; // live requests that have a deadline
export const H_IDLE = 29; // why the last schedule() gave nothing: a Reason
export const H_TYPE_COUNT = 30; // types in use

// ── cell type ───────────────────────────────────────────────────────────────────────────────────────────────────────
export const TYPE_WORDS = 15;
export const T_MAX_BATCH = 0;
export const T_MIN_BATCH = 1;
export const T_RANK = 2; // priority: later cells higher
export const T_ROW = 3; // 1 when a node of it owns an arena row
export const T_CHUNK = 4; // steps of the following chain that one node of it feeds
export const T_READY = 5; // ready rows in its queue: one a node, its STEP_ROWS a chain's step
export const T_RUNNING = 6; // tasks in flight
export const T_HEAD = 7; // queue of parts with ready nodes, oldest request first
export const T_TAIL = 8;
export const T_LIVE = 9; // parts of it that exist: at 0 an old version may go
export const T_USED = 10; // 1 in use, 0 retired
export const T_PASSED = 12; // tasks of other types since it has had ready nodes and none of its own
export const T_MAX_STEPS = 13; // steps of a chain that one task may take when nobody else waits
export const T_NEEDS = 14; // steps of the chain before it that a step of it needs
export const T_SKIP = 11; // 1 while this schedule() has found that none of its ready nodes may run here

// ── instance and task ───────────────────────────────────────────────────────────────────────────────────────────────
export const INSTANCE_WORDS = 4;
export const I_FIRST = 0; // ring of task slots: the oldest, and how many
export const I_COUNT = 1;

export const TASK_WORDS = 12; // followed by 3 words an entry: part, node (graph) or first step (chain), how many steps
export const ENTRY_WORDS = 3;
export const K_INSTANCE = 0;
export const K_TYPE = 1;
export const K_SIZE = 2;
export const K_REASON = 3; // why this type: a Reason, with its numbers:
export const K_READY = 4; // nodes that were ready
export const K_RUNNING = 5; // tasks of it that ran
export const K_OLDEST = 6; // order of the oldest request in it
export const K_ENTRIES = TASK_WORDS;

// ── request ─────────────────────────────────────────────────────────────────────────────────────────────────────────
export const REQUEST_WORDS = 12;
export const R_STATE = 0; // RequestState in the low byte, priority above it
export const R_KEY = 1; // the caller's name for it
export const R_ORDER = 2;
export const R_DEADLINE = 3; // in the caller's milliseconds; NO_DEADLINE
export const R_FIRST_PART = 4;
export const R_LAST_PART = 5;
export const R_FIRST_NODE = 6; // the youngest node; every node links to the one before it
export const R_UNFINISHED = 7; // chains and nodes that have not ended
export const R_IN_FLIGHT = 8; // entries of tasks that are running
export const R_RESERVED = 9; // rows promised to it …
export const R_HELD = 10; // … and rows it holds
export const R_NEXT = 11; // in the free, waiting or finished list; TAKEN once the caller has been told it ended

export const TAKEN = -2;
export const STATE_MASK = 255;
export const PRIORITY_SHIFT = 8;

export const NO_DEADLINE = 0x7fffffff;

// ── part ────────────────────────────────────────────────────────────────────────────────────────────────────────────
export const PART_WORDS = 12;
export const P_TYPE = 0;
export const P_REQUEST = 1;
export const P_FLAGS = 2;
export const P_PIN = 3; // the instance that alone may take its nodes; NONE
export const P_IN_FLIGHT = 4; // nodes, or steps, of tasks that are running
export const P_STEP = 5; // chain: steps done                        graph: first ready node
export const P_LENGTH = 6; // chain: steps in all, or at most        graph: last ready node
export const P_LIMIT = 7; // chain: steps the part before it allows  graph: how many are ready
export const P_ROW = 8; // chain: its state's row                    graph: nodes that have not ended
export const P_NEXT = 9; // in the type's queue, or the free list
export const P_PREV = 10;
export const P_SIBLING = 11; // the request's next part

export const CHAIN = 1; // flags of a part
export const QUEUED = 2; // in its type's queue, which is so exactly when it has ready nodes and may run
export const AFTER = 4; // waits until all parts before it have ended
export const STEPWISE = 8; // step t waits for step ⌊t / chunk⌋ of the part before it
export const INHERITS = 16; // takes over the row of the chain before it
export const ADMITTED = 32; // its request has been admitted
export const MOST_ROWS = 0x7fffff;
export const STEP_ROWS = 8; // of a chain, above the flags: rows of a batch that one step fills

// ── node ────────────────────────────────────────────────────────────────────────────────────────────────────────────
export const NODE_WORDS = 8;
export const N_STATUS = 0; // NodeStatus in bits 0–3, OUTPUT in bit 4, consumers that have not ended in bits 8–31
export const N_PART = 1;
export const N_LINK = 2; // waiting: inputs still missing · ready: next ready node · running, done: its row
export const N_OUT = 3; // its consumers: NONE, a node, or ~(edge + 1) that leads to more
export const N_BESIDE = 4; // next input of its first consumer (an input reference)
export const N_IN = 5; // its first input (an input reference): NONE, a node, or ~(edge + 1)
export const N_TAG = 6; // the unfolding's: which token, leaf, beam …
export const N_BEFORE = 7; // the request's node made before it, or the free list

export const WAITING = 0;
export const READY = 1;
export const RUNNING = 2;
export const DONE = 3;
export const STATUS_MASK = 15;
export const OUTPUT = 16;
export const READER = 256; // one consumer, in the count above bit 8
export const MOST_READERS = 0x7fffff;

// ── edge: a consumer of a node beyond its first ─────────────────────────────────────────────────────────────────────
export const EDGE_WORDS = 4;
export const E_SOURCE = 0;
export const E_CONSUMER = 1;
export const E_OUT = 2; // the source's next consumer, as N_OUT; also the free list
export const E_BESIDE = 3; // the consumer's next input, as N_IN

/** How many of everything one scheduler holds. Fixed when its buffer is formatted. */
export interface Capacity {
  readonly requests: number;
  readonly parts: number;
  readonly nodes: number;
  readonly edges: number;
  readonly rows: number;
  readonly types: number;
  readonly instances: number;
  /** Task slots an instance has: tasks it may be given before it has completed the first. */
  readonly tasks: number;
  /** The largest maxBatch any type may have. */
  readonly largestBatch: number;
}

/** First word of every table, counted from the header's first word. */
export interface Bases {
  readonly types: number;
  readonly instances: number;
  readonly tasks: number;
  readonly requests: number;
  readonly parts: number;
  readonly nodes: number;
  readonly edges: number;
  readonly rows: number;
  readonly words: number;
  readonly taskWords: number;
}

export function layOut(c: Capacity): Bases {
  const taskWords = TASK_WORDS + ENTRY_WORDS * c.largestBatch;
  const types = HEADER_WORDS;
  const instances = types + TYPE_WORDS * c.types;
  const tasks = instances + INSTANCE_WORDS * c.instances;
  const requests = tasks + taskWords * c.instances * c.tasks;
  const parts = requests + REQUEST_WORDS * c.requests;
  const nodes = parts + PART_WORDS * c.parts;
  const edges = nodes + NODE_WORDS * c.nodes;
  const rows = edges + EDGE_WORDS * c.edges;
  return { types, instances, tasks, requests, parts, nodes, edges, rows, words: rows + 2 * c.rows, taskWords };
}
