// skep check: runs ONNX test folders and says of each whether it passes, and if not, why.
import { canRun } from '../kernels/module.js';
import type { LocalOptions } from '../runtime/local.js';
import { SkepError } from '../tensor/errors.js';
import {
  type CaseResult,
  findCases,
  operatorsOf,
  runCase,
  type TestCase,
  tolerances,
  totalsByOperator,
} from './cases.js';
import { choiceOption, command, numberOption, UsageError } from './command.js';
import { formatTime, note, Progress, print, printJson, table } from './terminal.js';

const LAYOUTS = 'a folder with model.onnx and test_data_set_N, or NAME.onnx with NAME_output_M.pb beside it';

export const check = command({
  name: 'check',
  synopsis: 'DIR…',
  summary: 'run ONNX test folders: pass, fail or unsupported, with why',
  details: `
Looks in each DIR for folders with model.onnx and test_data_set_N/{input,output}_M.pb (TensorProto, and where the model
declares so SequenceProto or OptionalProto) and compares outputs with |got - want| <= atol + rtol * |want|. Also knows
the layout of ONNX's light models: NAME.onnx with NAME_output_M.pb beside it.

Prints totals by operator too: a case counts for each operator in it.

Exit code 0 when no case fails and at least one passes, 1 otherwise. Unsupported cases are listed but do not fail.`,
  positionals: [1, Number.POSITIVE_INFINITY],
  options: {
    engine: { type: 'string', value: 'ENGINE', help: 'kernels (default), or reference: the slow reference semantics' },
    build: { type: 'string', value: 'BUILD', help: 'kernels of this build: plain, or fma where this runtime can' },
    filter: { type: 'string', value: 'REGEXP', help: 'only cases whose name matches' },
    rtol: { type: 'string', value: 'X', help: 'relative tolerance; default 1e-3' },
    atol: { type: 'string', value: 'X', help: 'absolute tolerance; default 1e-7, with DFT or STFT 1e-3' },
    verbose: { type: 'boolean', help: 'also list cases that pass' },
  },
  async run({ positionals, options, json }) {
    const engine = choiceOption(options.engine, 'engine', ['kernels', 'reference']);
    const build = choiceOption(options.build, 'build', ['plain', 'fma']);
    const rtol = numberOption(options.rtol, 'rtol');
    const atol = numberOption(options.atol, 'atol');
    const tolerance =
      rtol === undefined && atol === undefined
        ? undefined
        : { rtol: rtol ?? tolerances.usual.rtol, atol: atol ?? tolerances.usual.atol };
    const filter = options.filter === undefined ? undefined : regExp(options.filter);
    if (build !== undefined && !canRun(build))
      throw new SkepError('UNSUPPORTED', `this runtime cannot run the '${build}' build of the kernels`);
    const found = positionals.flatMap(findCases);
    if (found.length === 0) note(`${positionals.join(', ')}: no test cases (${LAYOUTS})`);
    const cases = found.filter((c) => filter === undefined || filter.test(c.name));
    if (found.length > 0 && cases.length === 0) note(`none of ${found.length} cases has a name like ${filter}`);
    const local: LocalOptions = {
      ...(engine === undefined ? {} : { engine }),
      ...(build === undefined ? {} : { build }),
    };
    const started = performance.now();
    const results = runAll(cases, (c) => runCase(c, local, tolerance));
    const time = formatTime(performance.now() - started);
    const count = (status: CaseResult['status']) => results.filter((r) => r.status === status).length;
    const operators = totalsByOperator(results.map((r, i) => ({ ...r, operators: operatorsOf(cases[i]!) })));
    if (json) printJson({ cases: results, operators });
    else {
      for (const { name, status, why } of results)
        if (options.verbose === true || status !== 'pass')
          print(`${status.padEnd(11)} ${name}${why === '' ? '' : `: ${why}`}`);
      const rows = operators.map((o) => [o.operator, o.passed, o.failed, o.unsupported]);
      if (rows.length > 0) {
        for (const line of ['', ...table(['operator', 'passed', 'failed', 'unsupported'], rows), '']) print(line);
      }
      print(`${count('pass')} passed, ${count('fail')} failed, ${count('unsupported')} unsupported in ${time}`);
    }
    return count('fail') === 0 && count('pass') > 0 ? 0 : 1;
  },
});

function runAll(cases: readonly TestCase[], runOne: (c: TestCase) => CaseResult): CaseResult[] {
  const progress = new Progress();
  const results: CaseResult[] = [];
  let failed = 0;
  for (const c of cases) {
    progress.update(`${results.length}/${cases.length} cases, ${failed} failed: ${c.name}`);
    const result = runOne(c);
    if (result.status === 'fail') failed++;
    results.push(result);
  }
  progress.done();
  return results;
}

function regExp(text: string): RegExp {
  try {
    return new RegExp(text);
  } catch {
    throw new UsageError(`--filter is no regular expression: '${text}'`);
  }
}
