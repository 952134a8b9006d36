// Properties of the scheduler under random requests, cancels, instances and orders of completion.
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Priority } from '../../src/cellular/priority.js';
import { Scheduler } from '../../src/cellular/scheduler.js';
import { RequestState } from '../../src/cellular/state.js';
import type { Task } from '../../src/cellular/task.js';
import { Unfolder, type Unfolding } from '../../src/cellular/unfold.js';
import { expected, type Running, runTask, start } from './interpreter.js';

const tree = fc.array(fc.nat(), { maxLength: 24 }).map((picks) => {
  // Node i's parent is any later node: all such vectors are trees with children before parents.
  const count = picks.length + 1;
  return Array.from({ length: count }, (_, i) => (i === count - 1 ? -1 : i + 1 + (picks[i]! % (count - 1 - i))));
});
const graph = fc.array(fc.tuple(fc.nat(3), fc.array(fc.nat(), { maxLength: 4 }), fc.boolean()), {
  minLength: 1,
  maxLength: 20,
});
const length = fc.integer({ min: 1, max: 12 });

// Types 0–3 keep rows, 4 is a projection without one, 5 selects beams.
const unfolding: fc.Arbitrary<Unfolding> = fc.oneof(
  length.map((n): Unfolding => ({ kind: 'chain', type: 0, length: n })),
  length.map((n): Unfolding => ({ kind: 'projected', projection: 4, chunk: 4, type: 0, length: n })),
  length.map((n): Unfolding => ({ kind: 'stacked', types: [0, 1, 2], length: n })),
  length.map((n): Unfolding => ({ kind: 'bidirectional', forward: 0, backward: 1, merge: 2, length: n })),
  length.map((n): Unfolding => ({ kind: 'encoder-decoder', encoder: 0, decoder: 1, source: n, maximum: 10 })),
  fc.record({ source: length, width: fc.integer({ min: 1, max: 4 }) }).map(
    ({ source, width }): Unfolding => ({
      kind: 'beam',
      encoder: 0,
      decoder: 1,
      select: 5,
      source,
      width,
      maximum: 6,
    }),
  ),
  tree.map((parents): Unfolding => ({ kind: 'tree', leaf: 2, inner: 3, parents })),
  graph.map(
    (nodes): Unfolding => ({
      kind: 'graph',
      nodes: nodes.map(([type, picks, output], i) => ({
        type,
        output,
        inputs: i === 0 ? [] : picks.map((p) => p % i), // may name one node twice
      })),
    }),
  ),
);

const setting = fc.record({
  instances: fc.integer({ min: 1, max: 3 }),
  maxTasksToSubmit: fc.integer({ min: 1, max: 3 }),
  maxBatch: fc.integer({ min: 1, max: 5 }),
  minBatch: fc.integer({ min: 1, max: 2 }),
  maxSteps: fc.integer({ min: 1, max: 5 }),
  priority: fc.constantFrom(...Object.values(Priority)),
  rows: fc.integer({ min: 26, max: 80 }),
  requests: fc.array(unfolding, { minLength: 1, maxLength: 25 }),
  moves: fc.array(fc.nat(), { minLength: 50, maxLength: 200 }),
});

test('every node runs once, on the right rows, and everything is given back, whatever happens in whatever order', () => {
  fc.assert(
    fc.property(
      setting,
      ({ instances, maxTasksToSubmit, maxBatch, minBatch, maxSteps, priority, rows, requests, moves }) => {
        const cell = { maxBatch, maxSteps, minBatch: Math.min(minBatch, maxBatch) };
        const options = {
          cells: [cell, cell, cell, cell, { ...cell, row: false, chunk: 4 }, cell],
          instances,
          maxTasksToSubmit,
          priority,
          rows,
          requests: 64,
          nodes: 4000,
        };
        const buffer = new ArrayBuffer(Scheduler.bytes(options) + 64);
        const views = [Scheduler.create(options, buffer, 64), new Scheduler(buffer, 64)];
        const task = views[0]!.task();
        const full = views[0]!.left;
        const arena = new Int32Array(rows);
        const live = new Map<number, Running>();
        const numbers = new Map<number, number>(); // key → request
        const ended = new Map<number, number>(); // key → state
        const cancelled = new Set<number>();
        const unfolder = new Unfolder();
        let arrived = 0;

        const move = (pick: number, arriving: boolean): void => {
          const s = views[pick % 2]!; // either view: they are the same scheduler
          const kind = Math.floor(pick / 2) % 8;
          const who = Math.floor(pick / 16);
          if (arriving && kind < 3 && arrived < requests.length) {
            live.set(arrived, start(requests[arrived]!, arrived));
            numbers.set(arrived, unfolder.unfold(s, requests[arrived]!, arrived));
            assert.ok(numbers.get(arrived)! >= 0);
            arrived += 1;
          } else if (arriving && kind === 3 && numbers.size > 0) {
            const key = [...numbers.keys()][who % numbers.size]!;
            if (!ended.has(key) && s.cancel(numbers.get(key)!)) cancelled.add(key);
          } else {
            const instance = who % instances;
            if (s.taskCount(instance) > 0 && kind % 2 === 0) {
              assert.ok(task.moveTo(instance, 0).size <= maxBatch);
              checkSteps(task, maxSteps);
              runTask(s, task, arena, live);
              s.complete(instance);
            } else s.schedule(instance);
          }
          for (let r = s.nextEnded(); r >= 0; r = s.nextEnded()) {
            const key = s.key(r);
            assert.not(ended.has(key), 'told twice');
            ended.set(key, s.state(r));
            numbers.delete(key);
            s.free(r);
          }
        };
        for (const pick of moves) move(pick, true);
        while (arrived < requests.length) move(0, true);
        // No starvation: with everything arrived, turns of all instances end all requests.
        for (let turn = 0; ended.size < requests.length; turn++) {
          assert.ok(turn < 20_000, 'requests starve');
          for (let i = 0; i < instances; i++) for (const kind of [5, 4]) move(2 * kind + 16 * i, false);
        }
        for (const [key, { unfolding: u, result }] of live) {
          assert.is(ended.get(key), cancelled.has(key) ? RequestState.cancelled : RequestState.finished);
          if (!cancelled.has(key)) assert.equal(exact(u, result, maxTasksToSubmit), expected(u, key));
        }
        assert.equal(views[1]!.left, full);
      },
    ),
    { numRuns: 300, includeErrorInReport: true },
  );
});

/** Only chains take several steps, and no more than they may. */
function checkSteps(task: Task, maxSteps: number): void {
  for (let i = 0; i < task.size; i++) {
    assert.ok(task.steps(i) >= 1 && task.steps(i) <= (task.isChain(i) ? maxSteps : 1));
    assert.ok(task.steps(i) === 1 || task.size === task.ready, 'others wait');
  }
}

/** Steps a stopped decoder had submitted ahead run for nothing: leave them out. Everything else must be exact. */
function exact(u: Unfolding, result: readonly number[], maxTasksToSubmit: number): number[] {
  const sorted = [...result].sort((a, b) => a - b);
  if (maxTasksToSubmit === 1 || u.kind !== 'encoder-decoder') return sorted;
  const first = result.findIndex((v, i) => i >= u.source && (v & 7) === 0);
  return (first < 0 ? [...result] : result.slice(0, first + 1)).sort((a, b) => a - b);
}

test.run();
