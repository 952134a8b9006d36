// What a leader does that measures instead of serving: it runs batches of a sample request when it is told to, and says how
// long each took. It never looks at the queue. Several do so at once when interference is measured; then every round
// begins when all are there:
//
//   warm-up ─▶ │ barrier ─▶ run, timed │ × rounds ─▶ times
//
// Words in shared memory stop a run between two steps, and let go of those that wait at the barrier.
import type { MessagePort } from 'node:worker_threads';
import { Executor } from '../runtime/executor.js';
import { type PlainError, plainError } from '../runtime/source.js';
import { Judge } from './batching.js';
import { Gate } from './gate.js';
import { Sample, type SampleParts } from './sample.js';

/** What a leader that measures is told. */
export type MeasureOrder =
  | {
      readonly kind: 'measure';
      readonly rows: number;
      /** Who does so at once, this one among them. */
      readonly members: number;
      readonly gate: SharedArrayBuffer;
      /** Rounds at least and at most; between them it ends when so many milliseconds have passed. */
      readonly least: number;
      readonly most: number;
      readonly milliseconds: number;
    }
  | { readonly kind: 'end' };

/** What it says. `times`: milliseconds of each round. */
export type MeasureReport =
  | { readonly kind: 'measured'; readonly times: readonly number[]; readonly stopped: boolean }
  | { readonly kind: 'unmeasured'; readonly error: PlainError };

/** Measures until it is told to end. `ended` is called then. Gives whether the sample can be run in batches. */
export function measure(
  parts: Omit<SampleParts, 'executor' | 'judge'> & { readonly team: ConstructorParameters<typeof Executor>[1] },
  address: number,
  inputs: ConstructorParameters<typeof Judge>[1],
  port: MessagePort,
  ended: () => void,
): boolean {
  const { model, memory, heap, team } = parts;
  const executor = new Executor(memory, team, heap);
  const sample = new Sample({ ...parts, executor, judge: new Judge(model.graph, inputs, memory) }, address);
  const warm = new Set<number>();
  port.on('message', (order: MeasureOrder) => {
    if (order.kind === 'end') {
      ended();
      return;
    }
    const gate = new Gate(order.gate);
    const check = () => {
      if (gate.stopped) throw new Stopped();
    };
    const times: number[] = [];
    try {
      if (!warm.has(order.rows)) {
        sample.run(order.rows, check);
        warm.add(order.rows);
      }
      let begun = 0;
      for (let i = 0; i < order.most; i++) {
        gate.meet(order.members);
        check();
        const from = performance.now();
        begun ||= from;
        sample.run(order.rows, check);
        const to = performance.now();
        times.push(to - from);
        if (i + 1 >= order.least && to - begun >= order.milliseconds) break;
      }
      port.postMessage({ kind: 'measured', times, stopped: false } satisfies MeasureReport);
    } catch (error) {
      gate.stop();
      const report: MeasureReport =
        error instanceof Stopped
          ? { kind: 'measured', times, stopped: true }
          : { kind: 'unmeasured', error: plainError(error) };
      port.postMessage(report);
    }
  });
  return sample.batches;
}

class Stopped extends Error {}
