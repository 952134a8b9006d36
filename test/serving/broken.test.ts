// A thread that dies takes its model with it, and says so: no call hangs, none is answered wrongly.
import { Worker } from 'node:worker_threads';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Engine, type SkepError, Tensor } from '../../src/index.js';
import { chain } from '../models.js';

/** The threads that were made ref'd since: those of models with pending requests. */
const threads = new Set<Worker>();
const { ref } = Worker.prototype;
Worker.prototype.ref = function (this: Worker) {
  threads.add(this);
  ref.call(this);
};

test('when a thread dies pending requests fail, later ones are refused, and others go on', async () => {
  const engine = new Engine({ threads: 4 });
  const other = await engine.load(chain(1, 8));
  for (const instances of [1, 2]) {
    threads.clear();
    const model = await engine.load(chain(20, 256), { configuration: [{ instances, threads: 1, batch: 4 }] });
    const x = new Tensor('float32', new Float32Array(256 * 64), [64, 256]);
    const pending = Array.from({ length: 20 }, () => model.run({ x }));
    const settled = Promise.allSettled(pending);
    const [victim] = threads;
    await victim!.terminate();
    const failed = (await settled).filter((s) => s.status === 'rejected');
    assert.ok(failed.length > 0);
    for (const { reason } of failed as PromiseRejectedResult[]) {
      assert.is((reason as SkepError).code, 'INTERNAL');
      assert.match((reason as SkepError).message, /a thread ended with code 1/);
    }
    try {
      await model.run({ x });
      assert.unreachable();
    } catch (error) {
      assert.is((error as SkepError).code, 'CLOSED');
      assert.match((error as SkepError).message, /load it again: a thread ended/);
    }
    await model.close();
    const { y } = await other.run({ x: new Tensor('float32', new Float32Array(8), [1, 8]) });
    assert.is(y.size, 8);
  }
  await engine.close();
  assert.is(engine.models.length, 0);
});

test.run();
