// docs/operators.md is what its generator gives now. The counts of cases are checked where the cases are
// (test/conformance/cases.test.ts); here they are taken from the file.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { root } from '../data.js';
import { measureOperators } from './measure.js';
import { countsIn, render } from './table.js';

test('docs/operators.md says what the code does (npm run docs:operators)', () => {
  const text = readFileSync(path.join(root, 'docs', 'operators.md'), 'utf8');
  const rows = measureOperators();
  for (const { name, types } of rows) assert.ok(types.size > 0 || name === 'SequenceEmpty', `${name}: no type works`);
  assert.is(render(rows, countsIn(text)), text);
});

test.run();
