// What `skep check` calls equal, and how it says what is not.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { difference } from '../../src/cli/compare.js';
import { Tensor } from '../../src/tensor/tensor.js';
import type { DataType } from '../../src/tensor/types.js';

const tolerance = { rtol: 1e-3, atol: 1e-7 };
const tensor = (type: DataType, values: number[], dims?: number[]) => new Tensor(type, values, dims);

test('within tolerance, NaN and infinities included', () => {
  const want = tensor('float32', [1, 1000, Number.NaN, Number.POSITIVE_INFINITY, 0]);
  const got = tensor('float32', [1.0009, 1000.9, Number.NaN, Number.POSITIVE_INFINITY, 5e-8]);
  assert.is(difference(got, want, tolerance), undefined);
});

test('the worst element is named by its index', () => {
  const want = tensor('float32', [1, 2, 3, 4], [2, 2]);
  const got = tensor('float32', [1, 2.5, 9, 4], [2, 2]);
  assert.is(difference(got, want, tolerance), '2 of 4 elements differ; the worst at [1, 0]: expected 3, got 9');
});

test('a NaN or an infinity on one side is a difference', () => {
  const one = tensor('float32', [1]);
  for (const odd of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
    assert.ok(difference(tensor('float32', [odd]), one, tolerance), `got ${odd}`);
    assert.ok(difference(one, tensor('float32', [odd]), tolerance), `want ${odd}`);
  }
  const up = tensor('float32', [Number.POSITIVE_INFINITY]);
  const down = tensor('float32', [Number.NEGATIVE_INFINITY]);
  assert.ok(difference(up, down, tolerance));
});

test('type and shape count', () => {
  const want = tensor('float32', [1, 2], [2]);
  assert.is(difference(tensor('float64', [1, 2], [2]), want, tolerance), 'expected float32 [2], got float64 [2]');
  assert.is(difference(tensor('float32', [1, 2], [1, 2]), want, tolerance), 'expected float32 [2], got float32 [1, 2]');
  assert.is(difference(undefined, want, tolerance), 'was not computed');
});

test('strings, sequences and optionals', () => {
  const x = new Tensor('string', ['a', 'b'], [2]);
  assert.is(difference(new Tensor('string', ['a', 'c'], [2]), x, tolerance), "at [1]: expected 'b', got 'c'");
  assert.is(difference([x, x], [x, x], tolerance), undefined);
  assert.is(difference([x], [x, x], tolerance), 'expected a sequence of 2, got a sequence of 1');
  assert.is(difference(null, null, tolerance), undefined);
  assert.is(difference(null, x, tolerance), 'expected string [2], got an empty optional');
  assert.is(difference(x, [x], tolerance), 'expected a sequence of 1, got string [2]');
});

test.run();
