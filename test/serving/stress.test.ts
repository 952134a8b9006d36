// A slice of the stress test: random requests with cancels and timeouts give what lone runs give.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { storm } from '../stress/together.js';

for (const [instances, batch] of [
  [1, 8],
  [2, 8],
  [1, undefined],
] as const)
  test(`a thousand random requests, ${instances} instances, batch ${batch ?? 'grown'}`, async () => {
    const { together, answered } = await storm(1000, instances, batch, 1);
    assert.ok(together > 1);
    assert.ok(answered > 500);
  });

test.run();
