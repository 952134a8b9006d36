// What the scheduler promises, one behaviour a test.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { CellularError } from '../../src/cellular/errors.js';
import * as L from '../../src/cellular/layout.js';
import { Priority } from '../../src/cellular/priority.js';
import { explain, explainIdle, Reason } from '../../src/cellular/reasons.js';
import { Scheduler } from '../../src/cellular/scheduler.js';
import { RequestState } from '../../src/cellular/state.js';
import { Unfolder, type Unfolding } from '../../src/cellular/unfold.js';

const unfolder = new Unfolder();
const chain = (length: number, type = 0): Unfolding => ({ kind: 'chain', type, length });

/** Keys of the instance's oldest task. */
function keys(s: Scheduler, instance = 0): number[] {
  const task = s.task(instance);
  return Array.from({ length: task.size }, (_, i) => task.key(i));
}

/** Schedules, notes the keys and completes, until nothing is left; ended requests are freed. */
function drain(s: Scheduler, each?: () => void): { tasks: number[][]; ended: number[] } {
  const tasks: number[][] = [];
  const ended: number[] = [];
  while (s.schedule(0) > 0) {
    tasks.push(keys(s));
    each?.();
    s.complete(0);
    for (let r = s.nextEnded(); r >= 0; r = s.nextEnded()) {
      ended.push(s.key(r));
      s.free(r);
    }
  }
  return { tasks, ended };
}

const code = (expected: string) => (e: unknown) => e instanceof CellularError && e.code === expected;

test('requests join at the next task and leave with their last cell', () => {
  const s = Scheduler.create({ cells: [{ maxBatch: 4 }] });
  unfolder.unfold(s, chain(3), 1);
  s.schedule(0);
  unfolder.unfold(s, chain(1), 2); // while the first step of 1 runs
  s.complete(0);
  const { tasks, ended } = drain(s);
  assert.equal(tasks, [[1, 2], [1]]);
  assert.equal(ended, [2, 1]);
});

test('the oldest requests fill a batch, and a batch is never over maxBatch', () => {
  const s = Scheduler.create({ cells: [{ maxBatch: 2 }] });
  for (const key of [1, 2, 3]) unfolder.unfold(s, chain(2), key);
  assert.equal(drain(s).tasks, [[1, 2], [1, 2], [3], [3]]);
});

test('a request of higher priority goes first; within one priority the oldest does', () => {
  const s = Scheduler.create({ cells: [{ maxBatch: 2 }] });
  unfolder.unfold(s, chain(1), 1);
  unfolder.unfold(s, chain(1), 2);
  unfolder.unfold(s, chain(1), 3, { priority: 5 });
  unfolder.unfold(s, chain(1), 4, { priority: -5 });
  assert.equal(drain(s).tasks, [
    [3, 1],
    [2, 4],
  ]);
});

test('a request past its deadline leaves the queue and is told as expired', () => {
  const s = Scheduler.create({ cells: [{ maxBatch: 4 }] });
  const r = unfolder.unfold(s, chain(5), 1, { deadline: 100 });
  unfolder.unfold(s, chain(5), 2);
  s.schedule(0, 99);
  assert.equal(keys(s), [1, 2]);
  s.complete(0);
  s.schedule(0, 100);
  assert.equal(keys(s), [2]);
  assert.is(s.nextEnded(), r);
  assert.is(s.state(r), RequestState.expired);
});

test('expire() finds a late request wherever it stands', () => {
  const s = Scheduler.create({ cells: [{ maxBatch: 1 }], rows: 1 });
  unfolder.unfold(s, chain(5), 1);
  const late = unfolder.unfold(s, chain(5), 2, { deadline: 10 }); // waits for the only row
  s.expire(9);
  assert.is(s.nextEnded(), -1);
  s.expire(10);
  assert.is(s.nextEnded(), late);
  s.free(late);
  assert.equal(drain(s).ended, [1]);
});

test('a cancelled request gives everything back once nothing of it is in flight', () => {
  const s = Scheduler.create({ cells: [{ maxBatch: 4 }, { maxBatch: 4 }], rows: 16 });
  const full = s.left;
  const r = unfolder.unfold(s, { kind: 'tree', leaf: 0, inner: 1, parents: [4, 4, 5, 5, 6, 6, -1] }, 1);
  s.schedule(0);
  assert.is(s.cancel(r), true);
  assert.is(s.cancel(r), false);
  assert.is(s.nextEnded(), -1, 'a task of it runs');
  assert.throws(() => s.free(r), code('E_STATE'));
  assert.is(s.schedule(0), 0, 'nothing more of it is run');
  s.complete(0);
  assert.is(s.nextEnded(), r);
  assert.is(s.state(r), RequestState.cancelled);
  s.free(r);
  assert.equal(s.left, full);
  assert.throws(() => s.free(r), code('E_STATE'));
});

test('when rows run out requests wait, in order, and nothing is corrupted', () => {
  const s = Scheduler.create({ cells: [{ maxBatch: 8 }, { maxBatch: 8 }], rows: 4 });
  unfolder.unfold(s, chain(2), 1);
  const wide = unfolder.unfold(s, { kind: 'tree', leaf: 0, inner: 1, parents: [3, 3, 3, -1] }, 2); // needs all 4
  const last = unfolder.unfold(s, chain(1), 3); // would fit, but does not overtake
  assert.is(s.state(wide), RequestState.waiting);
  assert.is(s.state(last), RequestState.waiting);
  assert.equal(drain(s).ended, [1, 2, 3]);
  assert.throws(() => unfolder.unfold(s, { kind: 'stacked', types: [0, 0, 0, 0, 0], length: 1 }, 4), code('E_ROWS'));
  assert.is(s.left.rows, 4);
});

test('no slot left is an answer, not an accident', () => {
  const s = Scheduler.create({ cells: [{ maxBatch: 8 }], requests: 2 });
  unfolder.unfold(s, chain(1), 1);
  unfolder.unfold(s, chain(1), 2);
  assert.is(unfolder.unfold(s, chain(1), 3), -1);
  assert.throws(() => s.begin(3), code('E_FULL'));
});

test('a failed node leaves the graph as it was', () => {
  const s = Scheduler.create({ cells: [{ maxBatch: 8 }], edges: 1 });
  const full = s.left;
  const r = s.begin(1);
  const a = s.addNode(r, 0, 0, []);
  s.addNode(r, 0, 1, [a]); // a's first consumer costs no edge
  s.addNode(r, 0, 2, [a]); // the second does
  const before = s.left;
  assert.throws(() => s.addNode(r, 0, 3, [a, a]), code('E_FULL'));
  assert.equal(s.left, before);
  s.submit(r, 3);
  assert.equal(drain(s).tasks, [[1], [1, 1]]);
  assert.equal(s.left, full);
});

test('a task knows the rows it reads, in the order of its inputs', () => {
  const s = Scheduler.create({ cells: [{ maxBatch: 8 }, { maxBatch: 8 }] });
  unfolder.unfold(s, { kind: 'tree', leaf: 0, inner: 1, parents: [3, 4, 3, 4, -1] }, 1);
  s.schedule(0);
  const rows = new Map<number, number>();
  const task = s.task();
  for (let i = 0; i < task.size; i++) rows.set(task.tag(i), task.row(i));
  s.complete(0);
  s.schedule(0);
  const inputs = new Int32Array(2);
  assert.is(task.moveTo(0, 0).inputRows(0, inputs), 2);
  assert.equal([...inputs], [rows.get(0), rows.get(2)]);
  assert.is(task.tag(0), 3);
});

test('a row is free as soon as its last reader is done', () => {
  const s = Scheduler.create({ cells: [{ maxBatch: 8 }], rows: 8 });
  const graph = [0, 1, 2, 3, 4].map((i) => ({ type: 0, inputs: i === 0 ? [] : [i - 1], output: i === 4 }));
  unfolder.unfold(s, { kind: 'graph', nodes: graph }, 1);
  const left: number[] = [];
  drain(s, () => left.push(s.left.rows));
  assert.equal(left, [7, 6, 6, 6, 6], 'never more than a node and its reader');
  assert.is(s.left.rows, 8);
});

test('a projected chain goes no further than its projection', () => {
  const s = Scheduler.create({
    cells: [{ maxBatch: 8, row: false, chunk: 4 }, { maxBatch: 8 }],
    priority: Priority.laterFirst,
  });
  unfolder.unfold(s, { kind: 'projected', projection: 0, chunk: 4, type: 1, length: 6 }, 1);
  const types: number[] = [];
  drain(s, () => types.push(s.task().type));
  assert.equal(types, [0, 1, 1, 1, 1, 0, 1, 1]);
});

test('a decoder goes on from its encoder’s row and ends at the stop token', () => {
  const s = Scheduler.create({ cells: [{ maxBatch: 8 }, { maxBatch: 8 }], rows: 1 });
  unfolder.unfold(s, { kind: 'encoder-decoder', encoder: 0, decoder: 1, source: 2, maximum: 50 }, 1);
  const seen: string[] = [];
  drain(s, () => {
    const task = s.task();
    seen.push(`${task.type}.${task.step(0)} row ${task.row(0)}${task.startsFresh(0) ? ' fresh' : ''}`);
    if (task.type === 1 && task.step(0) === 1) s.stop(0, 0);
  });
  assert.equal(seen, ['0.0 row 0 fresh', '0.1 row 0', '1.0 row 0', '1.1 row 0']);
});

test('tasks submitted together follow one another, pinned to their instance', () => {
  const s = Scheduler.create({ cells: [{ maxBatch: 4 }], instances: 2, maxTasksToSubmit: 3, tasks: 3 });
  unfolder.unfold(s, chain(4), 1);
  assert.is(s.schedule(0), 3);
  assert.equal(
    [0, 1, 2].map((k) => s.task(0, k).step(0)),
    [0, 1, 2],
  );
  assert.is(s.task(0, 1).reason, Reason.sameSubmission);
  assert.is(s.schedule(1), 0);
  assert.is(s.idleReason, Reason.pinnedElsewhere);
  assert.is(s.schedule(0), 0);
  assert.is(s.idleReason, Reason.instanceFull);
  for (let k = 0; k < 3; k++) s.complete(0);
  assert.is(s.schedule(1), 1, 'nothing in flight: unpinned');
});

test('a further task of a submission needs minBatch nodes', () => {
  const s = Scheduler.create({ cells: [{ maxBatch: 4, minBatch: 3 }], maxTasksToSubmit: 5, tasks: 5 });
  for (const [key, length] of [5, 2, 2].entries()) unfolder.unfold(s, chain(length), key);
  assert.is(s.schedule(0), 2, 'the third would have one node');
});

test('with maxTasksToSubmit 1 nothing is pinned: two instances share one tree', () => {
  const s = Scheduler.create({ cells: [{ maxBatch: 2 }, { maxBatch: 2 }], instances: 2 });
  unfolder.unfold(s, { kind: 'tree', leaf: 0, inner: 1, parents: [4, 4, 5, 5, 6, 6, -1] }, 1);
  assert.is(s.schedule(0), 1);
  assert.is(s.schedule(1), 1);
  assert.is(s.task(1).size, 2);
});

test('priorities choose as they say, with the numbers', () => {
  // Type 0: two ready of at most 4; type 1: one ready of at most 1, younger; none runs.
  const choose = (priority: Priority): [number, Reason] => {
    const s = Scheduler.create({ cells: [{ maxBatch: 4 }, { maxBatch: 1 }], priority });
    unfolder.unfold(s, chain(1, 0), 1);
    unfolder.unfold(s, chain(1, 0), 2);
    unfolder.unfold(s, chain(1, 1), 3);
    s.schedule(0);
    return [s.task().type, s.task().reason];
  };
  assert.equal(choose(Priority.fullest), [1, Reason.fullBatch]);
  assert.equal(choose(Priority.algorithm1), [1, Reason.fullBatch]);
  assert.equal(choose(Priority.laterFirst), [1, Reason.latestType]);
  assert.equal(choose(Priority.oldestRequest), [1, Reason.fullBatch]);
  assert.equal(choose(Priority.alternating), [0, Reason.nextInTurn]);

  const s = Scheduler.create({
    cells: [{ maxBatch: 8 }, { maxBatch: 8 }],
    instances: 2,
    priority: Priority.algorithm1,
  });
  for (const key of [1, 2, 3]) unfolder.unfold(s, chain(2, 1), key);
  unfolder.unfold(s, chain(2, 0), 4);
  s.schedule(0);
  assert.is(
    explain(s.task(), (t) => ['encoder', 'decoder'][t]!),
    'decoder × 3: 3 ready, none running',
  );
  unfolder.unfold(s, chain(2, 1), 5);
  s.schedule(1); // the decoder runs, so criterion 2 goes to the encoder
  assert.is(
    explain(s.task(1), (t) => ['encoder', 'decoder'][t]!),
    'encoder × 1: 1 ready, none running',
  );
  s.schedule(0);
  assert.is(s.task(0, 1).reason, Reason.someReady);
  s.schedule(1);
  assert.is(explainIdle(s.idleReason), 'idle: nothing is ready');
});

test('under an overload of one type no other starves', () => {
  const s = Scheduler.create({ cells: [{ maxBatch: 2 }, { maxBatch: 2 }] });
  for (let key = 0; key < 100; key++) unfolder.unfold(s, chain(10, 0), key);
  unfolder.unfold(s, chain(3, 1), 1000);
  const { tasks } = drain(s);
  assert.ok(tasks.findLastIndex((t) => t[0] === 1000) < 60);
});

test('two views of one buffer are one scheduler', () => {
  const options = { cells: [{ maxBatch: 3 }], instances: 2 };
  const buffer = new SharedArrayBuffer(Scheduler.bytes(options) + 128);
  const a = Scheduler.create(options, buffer, 128);
  const b = new Scheduler(buffer, 128);
  const r = unfolder.unfold(a, chain(2), 7);
  assert.is(b.schedule(1), 1);
  assert.equal(keys(a, 1), [7]);
  a.complete(1);
  a.schedule(0);
  b.complete(0);
  assert.is(a.nextEnded(), r);
  b.free(r);
  assert.is(a.state(r), RequestState.free);
  assert.throws(() => new Scheduler(buffer, 0), code('E_CONFIG'));
});

test('a copy of the words is a snapshot: both go on alike', () => {
  const options = { cells: [{ maxBatch: 2 }, { maxBatch: 2 }] };
  const buffer = new ArrayBuffer(Scheduler.bytes(options));
  const s = Scheduler.create(options, buffer);
  unfolder.unfold(s, { kind: 'tree', leaf: 0, inner: 1, parents: [4, 4, 5, 5, 6, 6, -1] }, 1);
  unfolder.unfold(s, chain(9), 2);
  s.schedule(0);
  const copy = new Scheduler(buffer.slice(0));
  s.complete(0);
  copy.complete(0);
  assert.equal(drain(copy), drain(s));
});

test('a request costs what layout.ts says', () => {
  // 64 bytes a request and 32 a node: a chain of one node has 96, a longer one and a decoder behind it less than that.
  assert.is(4 * (L.REQUEST_WORDS + L.PART_WORDS), 96);
  assert.ok(4 * (L.REQUEST_WORDS + 2 * L.PART_WORDS) <= 64 + 32 * 3);
  assert.is(4 * L.NODE_WORDS, 32);
});

test('upgrade: new requests run on new types, running ones end on the old, and the old slot is used again', () => {
  const s = Scheduler.create({ cells: [{ maxBatch: 4 }], types: 2 });
  unfolder.unfold(s, chain(3, 0), 1);
  s.schedule(0);
  const next = s.addType({ maxBatch: 4 });
  s.retireType(0);
  assert.throws(() => unfolder.unfold(s, chain(1, 0), 2), code('E_ARGUMENT'));
  unfolder.unfold(s, chain(3, next), 3);
  assert.is(s.liveParts(0), 1);
  assert.throws(() => s.addType({ maxBatch: 1 }), code('E_FULL'));
  s.complete(0);
  const mixed = drain(s).tasks.filter((t) => t.includes(1) && t.includes(3));
  assert.equal(mixed, []);
  assert.is(s.liveParts(0), 0);
  assert.is(s.addType({ maxBatch: 1 }), 0);
});

test('a task takes several steps of its chains while nobody else waits, and goes back to one when somebody does', () => {
  const s = Scheduler.create({ cells: [{ maxBatch: 2, maxSteps: 4 }] });
  const steps: string[] = [];
  const note = () => {
    const task = s.task();
    steps.push(
      Array.from({ length: task.size }, (_, i) => `${task.key(i)}:${task.step(i)}+${task.steps(i)}`).join(' '),
    );
  };
  unfolder.unfold(s, chain(11), 1);
  unfolder.unfold(s, chain(6), 2);
  s.schedule(0);
  note();
  unfolder.unfold(s, chain(1), 3); // three are ready next, and a task takes two
  s.complete(0);
  drain(s, note);
  assert.equal(steps.slice(0, 2), ['1:0+4 2:0+4', '1:4+1 2:4+1']);
  assert.ok(steps.every((t) => t.split(' ').length <= 2));
  // Each chain's steps come once, in order.
  for (const [key, length] of [
    [1, 11],
    [2, 6],
    [3, 1],
  ] as const) {
    let next = 0;
    for (const entry of steps.flatMap((t) => t.split(' '))) {
      const [who, step, count] = entry.split(/[:+]/).map(Number) as [number, number, number];
      if (who !== key) continue;
      assert.is(step, next);
      next += count;
    }
    assert.is(next, length);
  }
  s.setMaxSteps(0, 1);
  assert.is(s.maxSteps(0), 1);
});

test('a chain that works on several steps of the one before waits for all of them, or its end', () => {
  const s = Scheduler.create({
    cells: [
      { maxBatch: 1, maxSteps: 3 },
      { maxBatch: 1, needs: 4 },
    ],
  });
  const request = s.begin(1);
  s.addChain(request, 0, 10);
  s.addChain(request, 1, 3, { stepwise: true });
  s.submit(request, 2);
  let done = 0;
  const order: string[] = [];
  while (s.schedule(0) > 0) {
    const task = s.task();
    if (task.type === 0) done += task.steps(0);
    else assert.ok(done >= Math.min(10, (task.step(0) + task.steps(0)) * 4), `step ${task.step(0)} after ${done}`);
    assert.is(task.place(0), task.type);
    order.push(`${task.type}:${task.step(0)}`);
    s.complete(0);
  }
  assert.is(order.filter((o) => o.startsWith('1')).length, 3);
  assert.is(s.nextEnded(), request);
});

test('bad calls are refused with what and where', () => {
  const s = Scheduler.create({ cells: [{ maxBatch: 4 }] });
  const bad: [() => unknown, string][] = [
    [() => Scheduler.create({ cells: [{ maxBatch: 0 }] }), 'E_ARGUMENT'],
    [() => Scheduler.create({ cells: [{ maxBatch: 4 }], requests: -1 }), 'E_ARGUMENT'],
    [() => Scheduler.create({ cells: [{ maxBatch: 4 }] }, new ArrayBuffer(64)), 'E_CONFIG'],
    [() => unfolder.unfold(s, chain(1, 7), 1), 'E_ARGUMENT'],
    [() => unfolder.unfold(s, chain(0), 1), 'E_ARGUMENT'],
    [() => unfolder.unfold(s, chain(1.5), 1), 'E_ARGUMENT'],
    [() => unfolder.unfold(s, { kind: 'tree', leaf: 0, inner: 0, parents: [0] }, 1), 'E_ARGUMENT'],
    [() => unfolder.unfold(s, { kind: 'tree', leaf: 0, inner: 0, parents: [1, 0, -1] }, 1), 'E_ARGUMENT'],
    [() => unfolder.unfold(s, { kind: 'graph', nodes: [{ type: 0, inputs: [0] }] }, 1), 'E_ARGUMENT'],
    [() => unfolder.unfold(s, { kind: 'graph', nodes: [] }, 1), 'E_ARGUMENT'],
    [() => s.complete(0), 'E_STATE'],
    [() => s.complete(1), 'E_ARGUMENT'],
    [() => s.state(-1), 'E_ARGUMENT'],
    [() => s.addChain(0, 0, 1), 'E_STATE'],
  ];
  const full = s.left;
  for (const [call, expected] of bad) assert.throws(call, code(expected), String(call));
  assert.equal(s.left, full, 'and nothing is left behind');
});

test.run();
