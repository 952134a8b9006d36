// Beam search as cells. A step is k live decoder nodes and one select node that reads all of them: it takes the k best
// of the k·V continuations. Which beam goes on from which is its answer; the next step's decoders read their parents'
// rows by index, so reordering beams copies nothing, and a beam nobody goes on from gives its row back.
//
//   encoder ▶ ●₀ ─┐                 ┌ ●₀ reads parent 1 and the select node
//             ●₁ ─┼─ select ─(1,1,0)┼ ●₁ reads parent 1 and the select node   …
//             ●₂ ─┘                 └ ●₂ reads parent 0 and the select node
//
// The first step has one decoder: all beams are the same there. What is computed, and when to stop, is the caller's.

import { checkInteger } from './errors.js';
import type { Scheduler } from './scheduler.js';
import type { Task } from './task.js';

/** A request with a beam of `width`: an encoder chain of `source` steps, then at most `maximum` decoder steps. */
export interface Beam {
  readonly kind: 'beam';
  readonly encoder: number;
  readonly decoder: number;
  readonly select: number;
  readonly source: number;
  readonly width: number;
  readonly maximum: number;
}

/** Adds the encoder and the first step. Nodes' tags: beam × 2¹⁶ + step for decoders, the step for select nodes. */
export function beginBeam(s: Scheduler, request: number, beam: Beam): void {
  checkInteger('beam width', beam.width, 1, 1024);
  checkInteger('beam maximum', beam.maximum, 1, 65_535);
  s.addChain(request, beam.encoder, beam.source);
  s.addGraphAfter(request, beam.decoder);
  const first = s.addNode(request, beam.decoder, 0, []);
  s.addNode(request, beam.select, 0, [first]);
}

/**
 * Adds the next step while entry `i` of `task`, a select node, has been run and not completed. `parents[j]` says which
 * decoder of this step beam j goes on from. A search that is not extended ends with this select node; what a select node
 * has chosen is read now, for its row goes back with the next step.
 */
export function extendBeam(s: Scheduler, task: Task, i: number, beam: Beam, parents: ArrayLike<number>): void {
  if (!task.isLive(i)) return; // cancelled while it ran
  const request = task.request(i);
  const select = task.node(i);
  const step = task.tag(i) + 1;
  const decoders = new Int32Array(beam.width + 1);
  const count = task.inputs(i, decoders);
  checkInteger('beams that go on', parents.length, 1, beam.width);
  const next: number[] = [];
  for (let j = 0; j < parents.length; j++) {
    checkInteger(`parent of beam ${j}`, parents[j]!, 0, count - 1);
    next.push(s.addNode(request, beam.decoder, j * 65_536 + step, [decoders[parents[j]!]!, select]));
  }
  s.addNode(request, beam.select, step, next);
}
