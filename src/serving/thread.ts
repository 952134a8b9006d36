// The entry of every worker: a leader reads the model while the caller compiles the kernels, then serves; a follower
// computes its share of its leader's steps. Both block on shared words for the rest of their lives and return when told to,
// so the worker ends by running off its end. As a script of its own it rehearses the 256-bit kernels' test (wide.ts).
import { isMainThread, parentPort, workerData } from 'node:worker_threads';
import type { WeightType } from '../kernels/int8.js';
import { type Build, bindKernels } from '../kernels/module.js';
import { bestTile } from '../kernels/tile.js';
import { Channel } from '../runtime/channel.js';
import { SharedConstants } from '../runtime/constants.js';
import { Heap, ModelMemory } from '../runtime/memory.js';
import {
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
import type { Batching } from './batching.js';
import { Dispatch } from './dispatch.js';
import type { PreparedKernels } from './prepare.js';
import { serve } from './puller.js';

/** What a leader is started with. */
export interface LeaderData {
  readonly role: 'leader';
  readonly index: number;
  readonly source: Source;
  readonly build: Build;
  readonly winograd: boolean;
  readonly weights: WeightType;
  readonly instances: number;
  readonly threads: number;
  readonly spin: boolean;
  readonly channel: SharedArrayBuffer;
  readonly dispatch: SharedArrayBuffer;
  readonly constants: SharedArrayBuffer;
  readonly team: SharedArrayBuffer;
  readonly memory: WebAssembly.Memory;
  /** Pages of a reused memory that are this leader's from the start. */
  readonly range: { readonly address: number; readonly bytes: number } | undefined;
}

/** What a follower is started with. */
export interface FollowerData {
  readonly role: 'follower';
  readonly index: number;
  readonly spin: boolean;
  readonly team: SharedArrayBuffer;
  readonly memory: WebAssembly.Memory;
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
  | { readonly kind: 'model'; readonly info: ModelInfo }
  | { readonly kind: 'failed'; readonly error: PlainError }
  | { readonly kind: 'ready' }
  | { readonly kind: 'batching'; readonly batching: Batching }
  | { readonly kind: 'done' };

const port = parentPort!;
const tell = (message: LeaderMessage) => port.postMessage(message);

if (isMainThread) rehearsal(process.argv[2] as Build);
else start(workerData as LeaderData | FollowerData | TesterData);

function start(data: LeaderData | FollowerData | TesterData): void {
  if (data.role === 'tester') port.postMessage(widen(data.build) satisfies Widened);
  else if (data.role === 'follower') port.once('message', (message: StartMessage) => follower(data, message));
  else leader(data);
}

function follower({ team, index, spin, memory }: FollowerData, { module, wide }: StartMessage): void {
  follow(team, bindKernels(module, memory, wide), index, spin);
}

function leader(d: LeaderData): void {
  let model: ReturnType<typeof openModel>;
  try {
    model = openModel(d.source);
  } catch (error) {
    tell({ kind: 'failed', error: plainError(error) });
    return;
  }
  tell({ kind: 'model', info: infoOf(model) });
  port.once('message', ({ module, wide }: StartMessage) => {
    const memory = new ModelMemory(d.memory);
    const heap = new Heap(memory, d.range);
    const team = new TeamLeader(d.team, bindKernels(module, d.memory, wide), d.threads, d.spin);
    const channel = Channel.over(d.channel);
    const program = programOf(
      model,
      { build: d.build, weights: d.weights, tile: bestTile(d.build, wide !== undefined), winograd: d.winograd },
      new SharedConstants(d.constants, memory, heap),
    );
    tell({ kind: 'ready' });
    try {
      const parts = { index: d.index, model, program, memory, heap, team };
      const dispatch = new Dispatch(d.dispatch, channel);
      const judged = (batching: Batching) => tell({ kind: 'batching', batching });
      serve({ ...parts, channel, dispatch, wake: () => tell({ kind: 'done' }), judged });
      // The memory will serve another model: the last to go leaves nothing of this one in it.
      if (channel.leave() === d.instances - 1) memory.u8.fill(0);
    } finally {
      team.stop();
    }
  });
}
