// The optimizer on a thread of its own: a decision about tails is half a second of simulating, which must not stand in the
// way of the caller's event loop. The thread answers one question after another, in their order; what a controller has
// seen stays here between them. Pure otherwise: the answers are those of optimizer/.
import type { MessagePort } from 'node:worker_threads';
import { type ChooseOptions, type ChooseResult, choose } from '../optimizer/choose.js';
import type { Configuration } from '../optimizer/configuration.js';
import { Controller, type ControllerOptions, type Decision } from '../optimizer/controller.js';
import { OptimizerError } from '../optimizer/errors.js';
import { type OptimizeOptions, type OptimizeResult, optimize } from '../optimizer/packrat.js';
import type { ProfileInput } from '../optimizer/profile.js';
import { type PlainError, plainError } from '../runtime/source.js';
import { SkepError } from '../tensor/errors.js';
import type { TaskReport } from './requests.js';

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
}

/** Questions, and what the answers are. */
export interface Questions {
  readonly optimize: {
    readonly ask: { profile: ProfileInput; options: OptimizeOptions };
    readonly answer: OptimizeResult;
  };
  readonly choose: { readonly ask: { profile: ProfileInput; options: ChooseOptions }; readonly answer: ChooseResult };
  /** Starts a controller anew; says which configuration it takes for the running one. */
  readonly control: { readonly ask: ControllerOptions; readonly answer: { readonly configuration: Configuration } };
  /** Tells the controller what has happened, and what is to be done now. */
  readonly observe: { readonly ask: Observation; readonly answer: { readonly decision: Decision } };
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
        return { configuration: controller.configuration };
      case 'observe': {
        const { now, arrivals, tasks, samples, queued } = question.ask;
        if (controller === undefined) throw new SkepError('INTERNAL', 'there is no controller');
        for (const time of arrivals) controller.arrived(time);
        for (const { threads, rows, milliseconds, busy } of tasks)
          controller.served({ threads, rows, ms: milliseconds, busy });
        for (const sample of samples) controller.sampled(sample);
        return { decision: controller.decide(now, queued) };
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
