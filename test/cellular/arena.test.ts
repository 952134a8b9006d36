// The arena of requests' memory: ranges never overlap, everything comes back, and what fits is given.
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Arena } from '../../src/cellular/arena.js';

test('ranges lie apart and within, whatever is taken and given back; a gap that fits is found', () => {
  const move = fc.tuple(fc.boolean(), fc.integer({ min: 1, max: 40 }), fc.nat());
  fc.assert(
    fc.property(fc.array(move, { maxLength: 150 }), fc.integer({ min: 1, max: 200 }), (moves, units) => {
      const buffer = new SharedArrayBuffer(8 + Arena.bytes(12));
      const views = [Arena.create(buffer, 8, units, 12), new Arena(buffer, 8)];
      const live: { start: number; size: number }[] = [];
      for (const [take, size, which] of moves) {
        const arena = views[which % 2]!;
        if (take) {
          const start = arena.allocate(size);
          const taken = new Uint8Array(units);
          for (const r of live) taken.fill(1, r.start, r.start + r.size);
          let run = 0;
          let longest = 0;
          for (const t of taken) {
            run = t === 1 ? 0 : run + 1;
            longest = Math.max(longest, run);
          }
          assert.is(start >= 0, longest >= size && live.length < 12);
          if (start < 0) continue;
          assert.ok(start + size <= units);
          assert.ok(taken.subarray(start, start + size).every((t) => t === 0));
          live.push({ start, size });
        } else if (live.length > 0) arena.free(live.splice(which % live.length, 1)[0]!.start);
        assert.is(arena.ranges, live.length);
        assert.is(
          arena.used,
          live.reduce((n, r) => n + r.size, 0),
        );
      }
      for (const { start } of live) views[0]!.free(start);
      assert.is(views[1]!.allocate(units), 0);
    }),
    { numRuns: 200 },
  );
});

test('a range is freed once', () => {
  const arena = Arena.create(new ArrayBuffer(Arena.bytes(4)), 0, 10, 4);
  const a = arena.allocate(3);
  const b = arena.allocate(3);
  arena.free(a);
  assert.throws(() => arena.free(a), /no range of the arena starts at 0/);
  assert.throws(() => arena.free(b + 1), /no range/);
  arena.free(b);
  assert.throws(() => arena.allocate(0), /units of a range/);
});

test.run();
