// The load generator: a thread of its own that does nothing but sleep until a request is due and say so. The thread under
// load may be as busy as it likes: requests are due when they are due, and how late it hears of them is part of what they
// wait. Started by live.ts; the message is how many requests are due by now.
import { parentPort, workerData } from 'node:worker_threads';

/** What the generator is given. */
export interface GeneratorData {
  /** Due times in ms after the start, Float64. */
  readonly times: SharedArrayBuffer;
  /** An Int32, a `State`, and at byte 8 a Float64: the start in ms since the epoch, as `timeOrigin + now()` has it. */
  readonly control: SharedArrayBuffer;
}

/** What the generator does: a thread takes its time to start, so it says 0 when it is there and waits to be told. */
export const State = { waiting: 0, running: 1, stopped: 2 } as const;

if (parentPort !== null) {
  const { times, control } = workerData as GeneratorData;
  const due = new Float64Array(times);
  const state = new Int32Array(control);
  const start = new Float64Array(control, 8, 1);
  const clock = () => performance.timeOrigin + performance.now() - start[0]!;
  parentPort.postMessage(0);
  Atomics.wait(state, 0, State.waiting);
  for (let sent = 0; sent < due.length && Atomics.load(state, 0) === State.running; ) {
    const left = due[sent]! - clock();
    if (left > 0) {
      Atomics.wait(state, 0, State.running, left);
      continue;
    }
    const now = clock();
    while (sent < due.length && due[sent]! <= now) sent++;
    parentPort.postMessage(sent);
  }
}
