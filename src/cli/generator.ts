// The load generator: a thread of its own that does nothing but sleep until a request is due and say so. The thread under
// load may be as busy as it likes: requests are due when they are due, and how late it hears of them is part of what they
// wait. Started by live.ts; the message is how many requests are due by now.
import { parentPort, workerData } from 'node:worker_threads';

/** What the generator is given. */
export interface GeneratorData {
  /** Due times in ms after `start`, Float64. */
  readonly times: SharedArrayBuffer;
  /** Ms since the epoch, as `performance.timeOrigin + performance.now()` has it. */
  readonly start: number;
  /** One Int32: it is no longer 0 when the generator is to stop. */
  readonly stop: SharedArrayBuffer;
}

const { times, start, stop } = workerData as GeneratorData;
const due = new Float64Array(times);
const stopped = new Int32Array(stop);
const clock = () => performance.timeOrigin + performance.now() - start;

for (let sent = 0; sent < due.length && Atomics.load(stopped, 0) === 0; ) {
  const left = due[sent]! - clock();
  if (left > 0) {
    Atomics.wait(stopped, 0, 0, left);
    continue;
  }
  const now = clock();
  while (sent < due.length && due[sent]! <= now) sent++;
  parentPort!.postMessage(sent);
}
