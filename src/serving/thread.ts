// The entry of every worker: a leader reads the model while the caller compiles the kernels, then serves, or measures for
// the profiler; a follower computes its share of its leader's steps; an adviser runs the optimizer. Those that serve block
// on shared words for the rest of their lives and return when told to, so the worker ends by running off its end. As a
// script of its own it rehearses the 256-bit kernels' test (wide.ts).
import { isMainThread, parentPort, workerData } from 'node:worker_threads';
import type { WeightType } from '../kernels/int8.js';
import { type Build, bindKernels } from '../kernels/module.js';
import { bestTile } from '../kernels/tile.js';
import { Channel } from '../runtime/channel.js';
import { SharedConstants } from '../runtime/constants.js';
import { Estates } from '../runtime/estates.js';
import { type Extent, Heap, ModelMemory } from '../runtime/memory.js';
import {
  fingerprintOf,
  infoOf,
  type ModelInfo,
  openModel,
  type PlainError,
  plainError,
  programOf,
  type Source,
} from '../runtime/source.js';
import { follow, TeamLeader } from '../runtime/team.js';
import { rehearsal, type Widened, widen } from '../runtime/wide.js';
import { advise } from './advising.js';
import type { Batching } from './batching.js';
import { Dispatch } from './dispatch.js';
import { type MeasureReport, measure } from './measuring.js';
import type { PreparedKernels } from './prepare.js';
import { server } from './puller.js';

/** What a leader is started with. */
export interface LeaderData {
  readonly role: 'leader';
  /** Its place among the model's instances. */
  readonly index: number;
  readonly source: Source;
  readonly build: Build;
  readonly winograd: boolean;
  readonly weights: WeightType;
  readonly threads: number;
  readonly spin: boolean;
  readonly channel: SharedArrayBuffer;
  readonly dispatch: SharedArrayBuffer;
  readonly constants: SharedArrayBuffer;
  readonly team: SharedArrayBuffer;
  readonly memory: WebAssembly.Memory;
  readonly estates: SharedArrayBuffer;
  /** What of the memory is this leader's from the start. */
  readonly extents: readonly Extent[];
  /**
   * Where a request like those to come lies, which is only read. To serve: batches of up to so many of its rows are tried
   * before it is ready. To measure: it is what is measured.
   */
  readonly sample: { readonly address: number; readonly rows: number } | undefined;
  readonly task: 'serve' | 'measure';
}

/** What a follower is started with. */
export interface FollowerData {
  readonly role: 'follower';
  readonly index: number;
  readonly spin: boolean;
  readonly team: SharedArrayBuffer;
  readonly memory: WebAssembly.Memory;
}

/** What the thread that runs the optimizer is started with. */
export interface AdviserData {
  readonly role: 'adviser';
}

/** What a thread that tests kernels is started with. It answers with one Widened and ends. */
export interface TesterData {
  readonly role: 'tester';
  readonly build: Build;
}

/** The message that starts a thread's work: the compiled kernels. */
export type StartMessage = Pick<PreparedKernels, 'module' | 'wide'>;

/** What a leader tells the caller's side. */
export type LeaderMessage =
  | { readonly kind: 'model'; readonly info: ModelInfo; readonly fingerprint: string }
  | { readonly kind: 'failed'; readonly error: PlainError }
  /** `batches`: of one that measures, whether the sample can be run in batches. */
  | { readonly kind: 'ready'; readonly batches: boolean }
  | { readonly kind: 'batching'; readonly batching: Batching }
  | { readonly kind: 'done' }
  | MeasureReport;

const port = parentPort!;
const tell = (message: LeaderMessage) => port.postMessage(message);

if (isMainThread) rehearsal(process.argv[2] as Build);
else start(workerData as LeaderData | FollowerData | TesterData | AdviserData);

function start(data: LeaderData | FollowerData | TesterData | AdviserData): void {
  if (data.role === 'tester') port.postMessage(widen(data.build) satisfies Widened);
  else if (data.role === 'follower') port.once('message', (message: StartMessage) => follower(data, message));
  else if (data.role === 'adviser') advise(port);
  else leader(data);
}

function follower({ team, index, spin, memory }: FollowerData, { module, wide }: StartMessage): void {
  follow(team, bindKernels(module, memory, wide), index, spin);
}

function leader(d: LeaderData): void {
  let model: ReturnType<typeof openModel>;
  // Before it is read: what is written meanwhile is noticed by the next.
  const fingerprint = fingerprintOf(d.source);
  try {
    model = openModel(d.source);
  } catch (error) {
    tell({ kind: 'failed', error: plainError(error) });
    return;
  }
  tell({ kind: 'model', info: infoOf(model), fingerprint });
  port.once('message', ({ module, wide }: StartMessage) => {
    const memory = new ModelMemory(d.memory);
    const estates = new Estates(d.estates);
    const heap = new Heap(memory, d.extents, (extent) => estates.add(d.index, extent));
    const team = new TeamLeader(d.team, bindKernels(module, d.memory, wide), d.threads, d.spin);
    const channel = Channel.over(d.channel);
    const program = programOf(
      model,
      { build: d.build, weights: d.weights, tile: bestTile(d.build, wide !== undefined), winograd: d.winograd },
      new SharedConstants(d.constants, memory, heap, d.index),
    );
    const parts = { index: d.index, model, program, memory, heap, team };
    // The memory will serve another model: the last to go leaves nothing of this one in it.
    const leave = () => channel.leave(() => memory.u8.fill(0));
    if (d.task === 'measure') {
      try {
        const batches = measure(parts, d.sample!.address, infoOf(model).inputs, port, () => {
          leave();
          team.stop();
          port.close();
        });
        tell({ kind: 'ready', batches });
      } catch (error) {
        tell({ kind: 'failed', error: plainError(error) });
        team.stop();
        port.close();
      }
      return;
    }
    try {
      const dispatch = new Dispatch(d.dispatch, channel);
      const judged = (batching: Batching) => tell({ kind: 'batching', batching });
      const { serve, warm } = server({ ...parts, channel, dispatch, wake: () => tell({ kind: 'done' }), judged });
      if (d.sample !== undefined) warm(d.sample.address, d.sample.rows);
      tell({ kind: 'ready', batches: false });
      serve();
      leave();
    } finally {
      team.stop();
    }
  });
}
