// Long runs whose every value is checked: B9 (two instances, random cells, random cancels) and B10 (beam search and
// upgrades under load). Values are integers (interpreter.ts), so "equal" is exact.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Scheduler } from '../../src/cellular/scheduler.js';
import { RequestState } from '../../src/cellular/state.js';
import { Unfolder, type Unfolding } from '../../src/cellular/unfold.js';
import { Random } from '../../src/simulator/random.js';
import { randomTree } from '../../src/simulator/workload.js';
import { expected, type Running, runTask, start } from './interpreter.js';

interface Run {
  readonly s: Scheduler;
  readonly arena: Int32Array;
  readonly live: Map<number, Running>;
  readonly requests: Map<number, number>;
  readonly results: Map<number, { state: RequestState; running: Running }>;
  cells: number;
}

function begin(options: Parameters<typeof Scheduler.create>[0]): Run {
  const s = Scheduler.create(options);
  return { s, arena: new Int32Array(s.left.rows), live: new Map(), requests: new Map(), results: new Map(), cells: 0 };
}

/** The instance runs one task, if it has one or gets one. Returns whether it has. */
function turn(run: Run, instance: number): boolean {
  const { s } = run;
  if (s.taskCount(instance) === 0 && s.schedule(instance) === 0) return false;
  const task = s.task(instance);
  runTask(s, task, run.arena, run.live);
  run.cells += task.size;
  return true;
}

function complete(run: Run, instance: number): void {
  const { s } = run;
  s.complete(instance);
  for (let r = s.nextEnded(); r >= 0; r = s.nextEnded()) {
    const key = s.key(r);
    assert.not(run.results.has(key), 'told twice');
    run.results.set(key, { state: s.state(r), running: run.live.get(key)! });
    run.live.delete(key);
    run.requests.delete(key);
    s.free(r);
  }
}

function add(run: Run, unfolder: Unfolder, key: number, unfolding: Unfolding): void {
  run.live.set(key, start(unfolding, key));
  run.requests.set(key, unfolder.unfold(run.s, unfolding, key));
  assert.ok(run.requests.get(key)! >= 0);
}

test('B9: two instances, 100,000 random cells, random cancels: exact, and no row leaks', () => {
  const random = new Random(9);
  const cell = { maxBatch: 6 };
  const run = begin({ cells: [cell, cell, cell, cell], instances: 2, requests: 64, nodes: 64 * 80, rows: 600 });
  const full = run.s.left;
  const unfolder = new Unfolder();
  const make: (() => Unfolding)[] = [
    () => ({ kind: 'chain', type: 0, length: 1 + random.below(40) }),
    () => ({ kind: 'encoder-decoder', encoder: 0, decoder: 1, source: 1 + random.below(30), maximum: 30 }),
    () => ({ kind: 'tree', leaf: 2, inner: 3, parents: randomTree(1 + random.below(30), random) }),
    () => ({
      kind: 'graph',
      nodes: Array.from({ length: 1 + random.below(30) }, (_, i) => ({
        type: random.below(4),
        inputs: i === 0 ? [] : Array.from({ length: random.below(4) }, () => random.below(i)),
      })),
    }),
  ];
  let key = 0;
  let cancelled = 0;
  const busy = [false, false];
  while (run.cells < 100_000 || run.live.size > 0) {
    while (run.cells < 100_000 && run.live.size < 48) add(run, unfolder, key++, make[random.below(4)]!());
    if (random.below(20) === 0 && run.requests.size > 0) {
      const victims = [...run.requests.values()];
      if (run.s.cancel(victims[random.below(victims.length)]!)) cancelled += 1;
    }
    const instance = random.below(2);
    if (busy[instance]) complete(run, instance);
    busy[instance] = !busy[instance] && turn(run, instance);
    if (!busy[0] && !busy[1] && run.s.ready(0) + run.s.ready(1) + run.s.ready(2) + run.s.ready(3) === 0) {
      // All that is left has been cancelled while it stood in a queue: nobody completes it, so ask.
      for (let r = run.s.nextEnded(); r >= 0; r = run.s.nextEnded()) {
        const k = run.s.key(r);
        run.results.set(k, { state: run.s.state(r), running: run.live.get(k)! });
        run.live.delete(k);
        run.requests.delete(k);
        run.s.free(r);
      }
    }
  }
  assert.is(run.results.size, key);
  assert.ok(cancelled > 100);
  let exact = 0;
  for (const [seed, { state, running }] of run.results) {
    if (state !== RequestState.finished) continue;
    assert.equal(
      [...running.result].sort((a, b) => a - b),
      expected(running.unfolding, seed),
    );
    exact += 1;
  }
  assert.is(exact + cancelled, key);
  assert.equal(run.s.left, full);
});

test('B10: beam searches and an upgrade under load: tokens as alone, no request mixes versions, none is lost', () => {
  const random = new Random(10);
  const cell = { maxBatch: 8 };
  // Version v has its encoder, decoder and select at types 3v, 3v + 1, 3v + 2 (slots are used again).
  const run = begin({ cells: [cell, cell, cell], types: 6, instances: 2, requests: 64, nodes: 64 * 64, rows: 64 * 12 });
  const full = run.s.left;
  const unfolder = new Unfolder();
  let version = [0, 1, 2];
  let upgrades = 0;
  let key = 0;
  const busy = [false, false];
  const seen = new Map<number, Set<number>>(); // request → types that ran for it
  const old = new Set<number>();
  while (key < 600 || run.live.size > 0) {
    while (key < 600 && run.live.size < 40) {
      const [encoder, decoder, select] = version as [number, number, number];
      const source = 1 + random.below(10);
      const unfolding: Unfolding =
        random.below(3) === 0
          ? { kind: 'encoder-decoder', encoder, decoder, source, maximum: 12 }
          : { kind: 'beam', encoder, decoder, select, source, width: 1 + random.below(5), maximum: 10 };
      add(run, unfolder, key++, unfolding);
    }
    // Upgrade as soon as nothing of the version before the present one is left.
    if (key >= 60 * (upgrades + 1) && key < 600 && [...old].every((type) => run.s.liveParts(type) === 0)) {
      old.clear();
      for (const type of version) old.add(type);
      const next = version.map(() => run.s.addType(cell));
      for (const type of version) run.s.retireType(type);
      version = next;
      upgrades += 1;
    }
    const instance = random.below(2);
    if (busy[instance]) complete(run, instance);
    busy[instance] = !busy[instance] && turn(run, instance);
    if (busy[instance]) {
      const task = run.s.task(instance);
      for (let i = 0; i < task.size; i++) {
        if (!seen.has(task.key(i))) seen.set(task.key(i), new Set());
        seen.get(task.key(i))!.add(task.type);
      }
    }
  }
  assert.ok(upgrades >= 3, `${upgrades} upgrades`);
  assert.is(run.results.size, 600);
  for (const [seed, { state, running }] of run.results) {
    assert.is(state, RequestState.finished);
    assert.equal(
      [...running.result].sort((a, b) => a - b),
      expected(running.unfolding, seed),
    );
    const u = running.unfolding;
    const own =
      u.kind === 'beam' ? [u.encoder, u.decoder, u.select] : u.kind === 'encoder-decoder' ? [u.encoder, u.decoder] : [];
    assert.ok([...seen.get(seed)!].every((type) => own.includes(type)));
  }
  assert.equal(run.s.left, full);
});

test.run();
