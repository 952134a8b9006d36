// A profile says only what was measured, and refuses nonsense by naming the place.
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { OptimizerError } from '../../src/optimizer/errors.js';
import { Profile } from '../../src/optimizer/profile.js';

const bert = { 2: { 1: 71, 8: 130 }, 3: { 1: 42, 8: 141 }, 4: { 1: 33, 8: 77, 16: 70, 32: 201 } };

test('interpolates over the batch, monotone, and never over threads', () => {
  const profile = Profile.from(bert);
  assert.is(profile.latency(2, 1), 71);
  assert.is(profile.latency(2, 8), 130);
  assert.is(profile.latency(3, 8), 141); // more threads, more time: kept
  assert.is(profile.latency(4, 16), 77); // the dip at 16 is not believed
  assert.is(profile.measured(4, 16), 70);
  assert.is(profile.latency(4, 24), 77 + (201 - 77) / 2);
  assert.is(profile.latency(2, 9), Number.POSITIVE_INFINITY);
  assert.is(profile.latency(5, 1), Number.POSITIVE_INFINITY);
  assert.is(Profile.from({ 1: { 4: 10 } }).latency(1, 2), 10); // below the smallest size: that one's time
});

test('factors start at 1, never fall with more instances, go on with the last slope', () => {
  const profile = Profile.from({ latency: bert, interference: { 2: 1.1, 4: 1.3, 6: 1.2 } });
  assert.is(profile.factor(1, 4, 1), 1);
  assert.ok(Math.abs(profile.factor(3, 4, 1) - 1.2) < 1e-12);
  assert.is(profile.factor(6, 4, 1), 1.3);
  const steep = Profile.from({ latency: bert, interference: { 2: 1.1, 3: 1.3 } });
  assert.ok(Math.abs(steep.factor(5, 4, 1) - 1.7) < 1e-12);
  const rows = Profile.from({
    latency: bert,
    interference: { 2: { 1: { 2: 1.5 }, 8: { 2: 1.1 } }, 4: { 8: { 2: 1.2 } } },
  });
  assert.is(rows.factor(2, 2, 1), 1.5);
  assert.is(rows.factor(2, 2, 7), 1.1);
  assert.is(rows.factor(2, 4, 1), 1.2);
  assert.is(Profile.from(bert).factor(9, 2, 1), 1);
});

test('the JSON form comes back unchanged, cells included', () => {
  const input = {
    latency: bert,
    interference: { 2: { 8: { 2: 1.25 } } },
    cells: {
      encoder: { latency: { 1: { 1: 2 } } },
      __proto__x: { latency: { 1: { 1: 3 } }, interference: { 2: 1.5 } },
    },
  };
  const once = Profile.from(input);
  const twice = Profile.from(JSON.parse(JSON.stringify(once)));
  assert.is(JSON.stringify(twice), JSON.stringify(once));
  assert.is(twice.cell('encoder').latency(1, 1), 2);
  assert.is(twice.cell('__proto__x').factor(2, 1, 1), 1.5);
  assert.throws(() => twice.cell('decoder'), /no cell type "decoder"; it has: encoder, __proto__x/);
  assert.is(once.scaled(2).latency(4, 32), 402);
});

test('a bad profile is refused with the place', () => {
  const cases: [unknown, RegExp][] = [
    [null, /^profile: expected an object, got null/],
    [[], /^profile: expected an object, got an array/],
    [{}, /^profile: empty/],
    [{ 3: { 8: -1 } }, /^profile\[3\]\[8\]: expected milliseconds above 0 and at most 1000000000000, got -1/],
    [{ 3: { 8: Number.NaN } }, /^profile\[3\]\[8\]: .* got NaN/],
    [{ 3: { 8: '5' } }, /^profile\[3\]\[8\]: .* got "5"/],
    [{ 3: {} }, /^profile\[3\]: empty/],
    [{ 0: { 1: 1 } }, /^profile: expected a thread count from 1 to 1024 as a key, got "0"/],
    [{ '01': { 1: 1 } }, /as a key, got "01"/],
    [{ 9999: { 1: 1 } }, /as a key, got "9999"/],
    [{ 1: { 1e9: 1 } }, /^profile\[1\]: expected a batch size/],
    [{ latency: { 1: { 1: 1 } }, interference: { 2: 0 } }, /^profile\.interference\[2\]: expected a factor above 0/],
    [
      { latency: { 1: { 1: 1 } }, interference: { 1: { 1: { 2: 'x' } } } },
      /interference\[1\]\[1\]\[2\]: expected a factor/,
    ],
    [{ latency: { 1: { 1: 1 } }, interference: { 1: 1, 2: { 1: 1 } } }, /interference\[2\]: expected a factor/],
    [{ format: 'other', latency: { 1: { 1: 1 } } }, /^profile\.format/],
    [{ version: 2, latency: { 1: { 1: 1 } } }, /^profile\.version/],
    [{ cells: { a: { latency: 5 } } }, /^profile\.cells\["a"\]\.latency: expected an object, got number/],
    [{ 1: Object.fromEntries(Array.from({ length: 300 }, (_, i) => [i + 1, 1])) }, /at most 256 batch sizes/],
  ];
  for (const [input, message] of cases) {
    assert.throws(
      () => Profile.from(input),
      (error: unknown) =>
        error instanceof OptimizerError && error.code === 'INVALID_PROFILE' && message.test(error.message),
      String(message),
    );
  }
});

test('whatever comes in, either a profile or an OptimizerError comes out', () => {
  fc.assert(
    fc.property(
      fc.oneof(fc.anything(), fc.object({ key: fc.constantFrom('latency', 'interference', 'cells', '1', '2', '-1') })),
      (input) => {
        try {
          const profile = Profile.from(input);
          for (const t of profile.threads) for (const b of profile.sizes(t)) assert.ok(profile.latency(t, b) > 0);
        } catch (error) {
          assert.instance(error, OptimizerError);
        }
      },
    ),
    { numRuns: 500 },
  );
});

test.run();
