// The caller's side of the thread that runs the optimizer (advising.ts): started at the first question, ended by `close`.
// It keeps the process alive only while somebody awaits an answer.
import { Worker } from 'node:worker_threads';
import { SkepError } from '../tensor/errors.js';
import type { Answer, Asked, Question, Questions } from './advising.js';
import { revive } from './requests.js';
import type { AdviserData } from './thread.js';

interface Waiting {
  readonly resolve: (answer: never) => void;
  readonly reject: (error: SkepError) => void;
}

export class Adviser {
  #worker: Worker | undefined;
  #ended: Promise<void> = Promise.resolve();
  readonly #waiting = new Map<number, Waiting>();
  #next = 0;

  ask<K extends keyof Questions>(kind: K, ask: Questions[K]['ask']): Promise<Questions[K]['answer']> {
    this.#worker ??= this.#start();
    const id = this.#next++;
    const worker = this.#worker;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      worker.ref();
      worker.postMessage({ id, ...({ kind, ask } as Question) } satisfies Asked);
    });
  }

  /** Ends the thread; what is asked still is rejected. */
  async close(): Promise<void> {
    const worker = this.#worker;
    if (worker === undefined) return;
    worker.ref();
    if (this.#waiting.size > 0) await worker.terminate();
    else worker.postMessage('end');
    await this.#ended;
  }

  #start(): Worker {
    const worker = new Worker(new URL('./worker.js', import.meta.url), {
      workerData: { role: 'adviser' } satisfies AdviserData,
      execArgv: [],
      name: 'skep adviser',
    });
    let failure = new SkepError('CLOSED', 'the model is closed');
    worker.on('message', (answer: Answer) => {
      const waiting = this.#waiting.get(answer.id);
      this.#waiting.delete(answer.id);
      if (this.#waiting.size === 0) worker.unref();
      if ('error' in answer) waiting?.reject(revive(answer.error));
      else waiting?.resolve(answer.answer as never);
    });
    worker.on('error', (error) => {
      failure = new SkepError('INTERNAL', `the optimizer's thread failed: ${error.message}`, { cause: error });
    });
    this.#ended = new Promise((resolve) =>
      worker.once('exit', () => {
        this.#worker = undefined;
        for (const { reject } of this.#waiting.values()) reject(failure);
        this.#waiting.clear();
        resolve();
      }),
    );
    return worker;
  }
}
