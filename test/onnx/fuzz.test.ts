// A short run of the reader on mutated files; test/stress/fuzz-reader.ts is the long one.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Random } from '../../src/graph/random.js';
import { judge, mutate, seeds } from './fuzz.js';

test('3,000 mutated files load or are refused in words', () => {
  const random = new Random(2024);
  const models = seeds();
  for (const bytes of models) assert.is(judge(bytes), 'loaded');
  const count = { loaded: 0, refused: 0 };
  for (let i = 0; i < 3000; i++) count[judge(mutate(random, models[i % models.length]!, models))]++;
  assert.ok(count.loaded > 100 && count.refused > 100, JSON.stringify(count));
});

test('every prefix of a file loads or is refused in words', () => {
  for (const bytes of seeds()) for (let n = 0; n < bytes.length; n += 3) judge(bytes.subarray(0, n));
});

test.run();
