import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Channel, Status } from '../../src/runtime/channel.js';

test('requests are taken oldest first and come back with their answers', () => {
  const caller = Channel.create(4);
  const instance = Channel.over(caller.buffer);
  caller.submit(2, 1000);
  caller.submit(0, 2000);
  for (const [slot, request] of [
    [2, 1000],
    [0, 2000],
  ] as const) {
    assert.is(instance.next(), slot);
    instance.take(slot, 3);
    assert.ok(instance.start(slot));
    assert.is(instance.request(slot), request);
    instance.finish(slot, Status.answered, request + 1);
    assert.is(caller.nextDone(), slot);
    const { status, response, instance: who, takenAt, finishedAt } = caller.result(slot);
    assert.equal({ status, response, who }, { status: Status.answered, response: request + 1, who: 3 });
    assert.ok(finishedAt >= takenAt);
  }
  assert.is(caller.nextDone(), -1);
});

test('the rings wrap', () => {
  const channel = Channel.create(2);
  for (let i = 0; i < 1000; i++) {
    const slot = i % channel.slots;
    channel.submit(slot, i + 1);
    assert.is(channel.next(), slot);
    assert.ok(channel.start(slot));
    assert.is(channel.request(slot), i + 1);
    channel.finish(slot, Status.answered, 0);
    assert.is(channel.nextDone(), slot);
    channel.release(slot);
  }
});

test('exactly one of cancel and start wins, and either way the slot comes back once', () => {
  const channel = Channel.create(4);
  channel.submit(0, 1);
  assert.ok(channel.cancel(0));
  assert.is(channel.next(), 0);
  assert.not(channel.start(0));
  channel.finish(0, Status.cancelled, 0);
  assert.is(channel.nextDone(), 0);
  channel.release(0);

  channel.submit(0, 1);
  assert.is(channel.next(), 0);
  assert.ok(channel.start(0));
  assert.not(channel.aborted(0));
  assert.not(channel.cancel(0));
  assert.ok(channel.aborted(0));
});

test('an answer is held until its caller has released it, whatever the slot does next', () => {
  const channel = Channel.create(4);
  channel.submit(1, 1);
  channel.next();
  channel.start(1);
  const generation = channel.generation(1);
  channel.finish(1, Status.answered, 64);
  assert.not(channel.released(1, generation));
  channel.nextDone();
  channel.release(1);
  assert.ok(channel.released(1, generation));
  channel.submit(1, 2);
  channel.next();
  channel.start(1);
  channel.finish(1, Status.answered, 128);
  assert.ok(channel.released(1, generation));
  assert.not(channel.released(1, channel.generation(1)));
});

test('what an instance had when its thread ended is told apart from what others have', () => {
  const channel = Channel.create(8);
  for (const slot of [0, 1, 2, 3, 4]) {
    channel.submit(slot, 1);
    channel.next();
    channel.take(slot, slot === 4 ? 6 : 5);
  }
  channel.start(0);
  channel.start(1);
  channel.finish(1, Status.answered, 64);
  channel.start(2);
  channel.finish(2, Status.answered, 64);
  while (channel.nextDone() !== 2);
  channel.release(2);
  channel.submit(2, 1);
  channel.cancel(3);
  const found = [0, 1, 2, 3, 4].map((slot) => channel.abandoned(slot, 5));
  assert.equal(found, ['undone', 'done', undefined, 'undone', undefined]);
});

test('the lock says who has it', () => {
  const channel = Channel.create(2);
  assert.is(channel.holder, -1);
  channel.lock(7);
  assert.is(channel.holder, 7);
  channel.unlock();
  assert.is(channel.holder, -1);
});

test('the last to leave a closed channel wipes the memory', () => {
  const channel = Channel.create(2);
  const wiped: number[] = [];
  for (let i = 0; i < 3; i++) channel.enter();
  channel.leave(() => wiped.push(0));
  channel.close();
  channel.leave(() => wiped.push(1));
  assert.not(channel.wiped);
  channel.leave(() => wiped.push(2));
  assert.equal(wiped, [2]);
  assert.ok(channel.wiped);
});

test('only the first completion after arming wakes the caller', () => {
  const channel = Channel.create(4);
  const finish = (slot: number) => {
    channel.submit(slot, 1);
    channel.next();
    channel.start(slot);
    return channel.finish(slot, Status.answered, 0);
  };
  assert.not(finish(0));
  channel.arm();
  assert.ok(finish(1));
  assert.not(finish(2));
});

test('a closed channel gives what is queued, then −1', () => {
  const channel = Channel.create(4);
  channel.submit(3, 1);
  channel.close();
  assert.is(channel.next(), 3);
  assert.is(channel.next(), -1);
});

test('any order of submits, cancels and serving loses no slot and gives none twice', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(5), { maxLength: 200 }), (actions) => {
      const channel = Channel.create(8);
      const free = Array.from({ length: channel.slots }, (_, i) => i);
      const queued: number[] = [];
      const out = new Set<number>();
      for (const action of actions) {
        if (action <= 2 && free.length > 0) {
          const slot = free.shift()!;
          channel.submit(slot, 1);
          queued.push(slot);
        } else if (action === 3 && queued.length > 0) channel.cancel(queued[action % queued.length]!);
        else if (queued.length > 0) {
          const slot = channel.next();
          assert.is(slot, queued.shift());
          const status = channel.start(slot) ? Status.answered : Status.cancelled;
          channel.finish(slot, status, 0);
          out.add(slot);
        }
        if (action === 5)
          for (let slot = channel.nextDone(); slot >= 0; slot = channel.nextDone()) {
            assert.ok(out.delete(slot));
            channel.release(slot);
            free.push(slot);
          }
      }
    }),
  );
});

test.run();
