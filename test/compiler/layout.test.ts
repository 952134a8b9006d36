// The arena: buffers alive at the same time never overlap, and little is wasted.
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ALIGNMENT, align, type Lifetime, layOut, mergeInPlace, peakOf } from '../../src/compiler/layout.js';

const lifetime = fc
  .record({ bytes: fc.integer({ min: 0, max: 5000 }), first: fc.integer({ min: 0, max: 40 }), length: fc.nat(12) })
  .map(({ bytes, first, length }): Lifetime => ({ bytes, first, last: first + length }));

const alive = (a: Lifetime, b: Lifetime) => a.first <= b.last && b.first <= a.last;

test('buffers alive at the same step never overlap, all are aligned and inside the arena', () => {
  fc.assert(
    fc.property(fc.array(lifetime, { maxLength: 60 }), (buffers) => {
      const { offsets, bytes } = layOut(buffers);
      buffers.forEach((a, i) => {
        assert.is(offsets[i]! % ALIGNMENT, 0);
        assert.ok(offsets[i]! + a.bytes <= bytes);
        for (let j = 0; j < i; j++) {
          const b = buffers[j]!;
          if (!alive(a, b) || a.bytes === 0 || b.bytes === 0) continue;
          assert.ok(offsets[i]! + a.bytes <= offsets[j]! || offsets[j]! + b.bytes <= offsets[i]!, `${i} and ${j}`);
        }
      });
      assert.ok(bytes >= peakOf(buffers));
    }),
  );
});

test('a chain needs two buffers, however long it is', () => {
  const chain = Array.from({ length: 100 }, (_, i): Lifetime => ({ bytes: 640, first: i, last: i + 1 }));
  assert.is(layOut(chain).bytes, 2 * align(640));
  assert.is(peakOf(chain), 2 * align(640));
});

test('the peak is what is alive at one step', () => {
  const buffers = [
    { bytes: 64, first: 0, last: 3 },
    { bytes: 128, first: 2, last: 5 },
    { bytes: 1024, first: 6, last: 6 },
  ];
  assert.is(peakOf(buffers), 1024);
  assert.is(peakOf(buffers.slice(0, 2)), 192);
});

test('in place: merged buffers follow each other, whatever is asked for', () => {
  const share = fc.record({ from: fc.nat(19), to: fc.nat(19), step: fc.nat(50) });
  fc.assert(
    fc.property(fc.array(lifetime, { minLength: 20, maxLength: 20 }), fc.array(share), (buffers, shares) => {
      const { group, lifetimes } = mergeInPlace(buffers, shares);
      buffers.forEach((a, i) => {
        const whole = lifetimes.get(group[i]!)!;
        assert.ok(whole.first <= a.first && a.last <= whole.last && whole.bytes === a.bytes);
        // Two of a group meet only in the step that turns the one into the other.
        for (let j = 0; j < buffers.length; j++) {
          const b = buffers[j]!;
          if (i === j || group[i] !== group[j] || !alive(a, b)) continue;
          const [from, to] = a.last <= b.first ? [i, j] : [j, i];
          const turns = (f: number, t: number) =>
            shares.some((s) => s.from === f && s.to === t && buffers[f]!.last <= s.step && s.step <= buffers[t]!.first);
          assert.ok(turns(from, to) || turns(to, from), `${i} and ${j}`);
        }
      });
    }),
  );
});

test('a chain of element-wise steps lives in one buffer, a value read later keeps its own', () => {
  const chain = [0, 1, 2, 3].map((i): Lifetime => ({ bytes: 64, first: i, last: i + 1 }));
  const shares = [0, 1, 2].map((i) => ({ from: i, to: i + 1, step: i + 1 }));
  assert.equal(new Set(mergeInPlace(chain, shares).group).size, 1);
  const long = chain.map((b, i) => (i === 1 ? { ...b, last: 9 } : b));
  assert.equal(mergeInPlace(long, shares).group, [0, 0, 2, 2]);
});

test.run();
