// Writes docs/operators.md: `node dist/test/docs/operators.js [CASES]` (`npm run docs:operators -- CASES`), where CASES is a
// folder with ONNX's backend test cases, unpacked. Without it the counts of cases stay as they are in the file.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { findCases, operatorsOf, runCase, totalsByOperator } from '../../src/cli/cases.js';
import { root } from '../data.js';
import { measureOperators } from './measure.js';
import { countsIn, countsOf, render } from './table.js';

const file = path.join(root, 'docs', 'operators.md');
const folder = process.argv[2];
const counts =
  folder === undefined
    ? countsIn(existsSync(file) ? readFileSync(file, 'utf8') : '')
    : countsOf(totalsByOperator(findCases(folder).map((c) => ({ ...runCase(c, {}), operators: operatorsOf(c) }))));
writeFileSync(file, render(measureOperators(), counts));
