// The optimizer on a thread of its own: a decision about tails is half a second of simulating, which must not stand in the
// way of the caller's event loop. The thread answers one question after another, in their order; what a controller has
// seen stays here between them. Pure otherwise: the answers are those of optimizer/.
import type { MessagePort } from 'node:worker_threads';
import { type ChooseOptions, type ChooseResult, choose } from '../optimizer/choose.js';
import { Controller, type ControllerOptions, type Decision } from '../optimizer/controller.js';
import { OptimizerError } from '../optimizer/errors.js';
import { type OptimizeOptions, type OptimizeResult, optimize } from '../optimizer/packrat.js';
import type { ProfileInput, ProfileJson } from '../optimizer/profile.js';
import { type PlainError, plainError } from '../runtime/source.js';
import type { TaskReport } from './host.js';

/** What has happened to a model since it was told last. Times in ms, from any origin, never going back. */
export interface Observation {
  readonly now: number;
  /** When requests arrived. */
  readonly arrivals: readonly number[];
  readonly tasks: readonly TaskReport[];
  /** Samples of the number of requests in the system, 200 a second. */
  readonly samples: readonly number[];
  /** Requests waiting. */
  readonly queued: number;
  /** False: it is only told, nothing is to be decided. */
  readonly decide: boolean;
}

/** Questions, and what the answers are. */
export interface Questions {
  readonly optimize: {
    readonly ask: { profile: ProfileInput; options: OptimizeOptions };
    readonly answer: OptimizeResult;
  };
  readonly choose: { readonly ask: { profile: ProfileInput; options: ChooseOptions }; readonly answer: ChooseResult };
  /** Starts a controller anew. */
  readonly control: { readonly ask: ControllerOptions; readonly answer: ControllerState };
  readonly observe: {
    readonly ask: Observation;
    readonly answer: { readonly decision: Decision | undefined; readonly profile: ProfileJson };
  };
}

export interface ControllerState {
  readonly profile: ProfileJson;
}

export type Question = {
  [K in keyof Questions]: { readonly kind: K; readonly ask: Questions[K]['ask'] };
}[keyof Questions];
export type Asked = Question & { readonly id: number };
export type Answer =
  | { readonly id: number; readonly answer: Questions[keyof Questions]['answer'] }
  | { readonly id: number; readonly error: PlainError };

/** Answers until the port is closed. */
export function advise(port: MessagePort): void {
  let controller: Controller | undefined;
  const answer = (question: Question): Questions[keyof Questions]['answer'] => {
    switch (question.kind) {
      case 'optimize':
        return optimize(question.ask.profile, question.ask.options);
      case 'choose':
        return choose(question.ask.profile, question.ask.options);
      case 'control':
        controller = new Controller(question.ask);
        return { profile: controller.profile.toJSON() };
      case 'observe': {
        const { now, arrivals, tasks, samples, queued, decide } = question.ask;
        for (const time of arrivals) controller!.arrived(time);
        for (const { threads, rows, milliseconds, busy } of tasks)
          controller!.served({ threads, rows, ms: milliseconds, busy });
        for (const sample of samples) controller!.sampled(sample);
        const decision = decide ? controller!.decide(now, queued) : undefined;
        return { decision, profile: controller!.profile.toJSON() };
      }
      default:
        return question satisfies never;
    }
  };
  port.on('message', (question: Asked | 'end') => {
    if (question === 'end') {
      port.close();
      return;
    }
    try {
      port.postMessage({ id: question.id, answer: answer(question) } satisfies Answer);
    } catch (error) {
      port.postMessage({ id: question.id, error: plain(error) } satisfies Answer);
    }
  });
}

/** An optimizer's error is an answer to a user's argument. */
function plain(error: unknown): PlainError {
  if (error instanceof OptimizerError) return { code: 'INVALID_INPUT', message: error.message };
  return plainError(error);
}
