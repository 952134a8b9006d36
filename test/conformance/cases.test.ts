// ONNX's backend test cases, by the reference semantics and by the kernels of every build this machine can run. A case
// whose operators are all there must pass, except for those listed here with a reason. What is unsupported is counted.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import {
  type CaseResult,
  findCases,
  operatorsOf,
  runCase,
  type TestCase,
  totalsByOperator,
} from '../../src/cli/cases.js';
import { readModelFile } from '../../src/cli/files.js';
import { type Graph, subgraphsOf } from '../../src/graph/graph.js';
import { findOperator } from '../../src/operators/registry.js';
import type { LocalOptions } from '../../src/runtime/local.js';
import { SkepError } from '../../src/tensor/errors.js';
import { readArchive } from '../archive.js';
import { dataFolder, hasData, root } from '../data.js';
import { countsIn, countsOf } from '../docs/table.js';
import { builds } from '../operators/harness.js';

/** Cases that may be unsupported though their operators are there, and why. Whole names. */
const skipped: Readonly<Record<string, string>> = {};

/** Minutes of plain loops each; SKEP_SLOW=1 runs them by the reference too. */
const slowReference = /^light\//;

/** Unpacks the cases; gives their folder. */
function unpack(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'skep-cases-'));
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
  for (const [name, bytes] of readArchive(path.join(dataFolder, 'onnx-cases.tar.gz'))) {
    const file = path.join(folder, name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, bytes);
  }
  return folder;
}

function everyOperatorIsThere(graph: Graph): boolean {
  return graph.nodes.every((node) => {
    try {
      findOperator(node);
    } catch (error) {
      if (error instanceof SkepError) return false;
      throw error;
    }
    return subgraphsOf(node).every(([, g]) => everyOperatorIsThere(g));
  });
}

/** Runs the cases; gives what became of each, and a line for each that should have passed. */
function judge(cases: readonly TestCase[], options: LocalOptions, what: string) {
  const counts = { pass: 0, fail: 0, unsupported: 0 };
  const wrong: string[] = [];
  const results: (CaseResult & TestCase)[] = [];
  for (const c of cases) {
    const result = runCase(c, options);
    const { name, status, why } = result;
    results.push({ ...result, ...c });
    counts[status]++;
    if (status === 'fail') wrong.push(`${name}: ${why}`);
    else if (status === 'pass' && name in skipped) wrong.push(`${name} passes, but is listed as unsupported`);
    else if (status === 'unsupported' && !(name in skipped) && everyOperatorIsThere(readModelFile(c.model).graph))
      wrong.push(`${name}: unsupported, ${why}`);
  }
  console.log(`NOTE ${what}: ${counts.pass} cases pass, ${counts.fail} fail, ${counts.unsupported} are unsupported`);
  return { wrong, results };
}

if (hasData) {
  const cases = findCases(unpack());

  test('the cases are there', () => {
    assert.is(cases.length, 1152);
  });

  test('by the reference', () => {
    const quick = cases.filter((c) => process.env.SKEP_SLOW === '1' || !slowReference.test(c.name));
    if (quick.length < cases.length)
      console.log(`SKIPPED ${cases.length - quick.length} light models by the reference: slow; SKEP_SLOW=1 runs them`);
    assert.equal(judge(quick, { engine: 'reference' }, 'reference').wrong, []);
  });

  for (const build of builds)
    test(`on ${build} kernels`, () => {
      const { wrong, results } = judge(cases, { engine: 'kernels', build }, build);
      assert.equal(wrong, []);
      const counts = countsOf(totalsByOperator(results.map((r) => ({ ...r, operators: operatorsOf(r) }))));
      const document = readFileSync(path.join(root, 'docs', 'operators.md'), 'utf8');
      assert.equal([...countsIn(document)].sort(), [...counts].sort(), 'npm run docs:operators -- CASES');
    });
} else test.skip('no test data: ONNX cases');

test.run();
