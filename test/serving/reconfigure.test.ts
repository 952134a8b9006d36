// A slice of the stress test: random configurations under random load with cancels.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { reconfigure } from '../stress/reconfigure.js';

test('a dozen random configurations under random load lose nothing and change no bit', async () => {
  const { switches, answered } = await reconfigure(12, 1);
  assert.ok(switches >= 12);
  assert.ok(answered > 0);
});

test.run();
