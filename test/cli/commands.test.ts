// The command line as a user meets it: its output and its exit code. Most of it in this process, for starting one takes
// longer than what it does.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { writeModel } from '../../src/onnx/writer.js';
import { readNpy, writeNpy } from '../../src/tensor/npy.js';
import { writeValueProto } from '../../src/tensor/sequence-proto.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { a, b, binaryModel, product, temporaryFolder, writeCase } from './folders.js';
import { skep } from './program.js';

const folder = temporaryFolder();
const at = (...parts: string[]) => path.join(folder, ...parts);

test('the program: exit codes and streams', () => {
  const main = fileURLToPath(new URL('../../src/cli/main.js', import.meta.url));
  const help = spawnSync(process.execPath, [main, '--version'], { encoding: 'utf8' });
  assert.is(help.status, 0);
  assert.match(help.stdout, /^\d+\.\d+\.\d+\n$/);
  const misused = spawnSync(process.execPath, [main, 'dance'], { encoding: 'utf8' });
  assert.is(misused.status, 2);
  assert.is(misused.stdout, '');
  assert.match(misused.stderr, /'dance' is not a command/);
});

test('check says of every case whether it passes, and why not', async () => {
  const wrong = new Tensor('float32', Float32Array.of(19, 22, 43, 51), [2, 2]);
  writeCase(at('cases', 'suite', 'good'), binaryModel('MatMul'), product, product);
  writeCase(at('cases', 'suite', 'bad'), binaryModel('MatMul'), product, wrong);
  writeCase(at('cases', 'unknown'), binaryModel('NoSuchOperator'), product);
  writeCase(at('cases', 'empty'), binaryModel('MatMul'));
  writeFileSync(at('cases', 'README'), 'not a case');
  for (const engine of ['kernels', 'reference']) {
    const { code, out } = await skep('check', at('cases'), '--json', '--engine', engine);
    assert.is(code, 1);
    const { cases } = JSON.parse(out);
    assert.equal(
      cases.map((c: { name: string; status: string }) => `${c.name} ${c.status}`),
      ['empty fail', 'suite/bad fail', 'suite/good pass', 'unknown unsupported'],
    );
    assert.is(cases[0].why, 'has no test_data_set_N');
    assert.match(cases[1].why, /^test_data_set_1: output 'y': 1 of 4 elements differ; the worst at \[1, 1\]/);
    assert.is(cases[2].why, '');
    assert.match(cases[3].why, /NoSuchOperator 'the-node'/);
    assert.equal(JSON.parse(out).operators, [
      { operator: 'MatMul', passed: 1, failed: 2, unsupported: 0 },
      { operator: 'NoSuchOperator', passed: 0, failed: 0, unsupported: 1 },
    ]);
  }
  const { out } = await skep('check', at('cases'));
  assert.match(out, /^operator +passed +failed +unsupported\nMatMul +1 +2 +0\nNoSuchOperator +0 +0 +1\n\n1 passed/m);
});

test('check exits 0 when nothing fails and something passes', async () => {
  assert.is((await skep('check', at('cases'), '--filter', 'good|unknown')).code, 0);
  assert.is((await skep('check', at('cases', 'suite', 'good'))).code, 0);
  assert.is((await skep('check', at('cases', 'unknown'))).code, 1);
  assert.is((await skep('check', at('cases'), '--filter', 'no such case')).code, 1);
});

test('check feeds light models ramps', async () => {
  writeCase(at('light', 'sum'), binaryModel('Add'));
  renameSync(at('light', 'sum', 'model.onnx'), at('light', 'sum.onnx'));
  writeFileSync(at('light', 'sum_output_0.pb'), writeValueProto(new Tensor('float32', Float32Array.of(0, 1), [1, 2])));
  writeFileSync(at('light', 'alone.onnx'), 'no output beside it: not a case');
  assert.match((await skep('check', at('light'), '--verbose')).out, /^pass {8}sum\n[\s\S]+\n1 passed, 0 failed/);
});

test('check survives a file that is no model', async () => {
  writeCase(at('broken', 'case'), binaryModel('MatMul'), product);
  writeFileSync(at('broken', 'case', 'model.onnx'), 'rubbish');
  const { code, out } = await skep('check', at('broken'));
  assert.is(code, 1);
  assert.match(out, /^fail {8}case: .+\n0 passed, 1 failed, 0 unsupported/);
});

test('run takes .npy, .pb and literals, and writes .npy', async () => {
  writeFileSync(at('m.onnx'), writeModel(binaryModel('MatMul')));
  writeFileSync(at('a.npy'), writeNpy(a));
  const pb = at('cases', 'suite', 'good', 'test_data_set_0', 'input_1.pb');
  for (const second of [pb, '[[5,6],[7,8]]']) {
    const words = ['-i', `a=${at('a.npy')}`, '--input', `b=${second}`, '-o', at('o')];
    const { code, out, err } = await skep('run', at('m.onnx'), ...words);
    assert.is(code, 0, err);
    assert.match(out, /^y +float32 \[2, 2\] +.*y\.npy$/m);
    const written = readNpy(readFileSync(at('o', 'y.npy')));
    assert.equal([written.type, written.dims, [...written.data]], ['float32', [2, 2], [...product.data]]);
  }
  writeFileSync(at('b.npy'), writeNpy(b));
  const json = await skep('run', at('m.onnx'), '-i', `a=${at('a.npy')}`, '-i', `b=${at('b.npy')}`, '--json');
  assert.equal(JSON.parse(json.out).outputs[0].shape, [2, 2]);
});

test('run fails in words', async () => {
  const missing = await skep('run', at('m.onnx'), '-i', `a=${at('a.npy')}`);
  assert.is(missing.code, 1);
  assert.match(missing.err, /input 'b' is missing/);
  const file = await skep('run', at('m.onnx'), '-i', 'a=nowhere.npy');
  assert.is(file.code, 1);
  assert.match(file.err, /nowhere\.npy: there is no such file/);
  const json = await skep('run', at('no.onnx'), '--json');
  assert.is(json.code, 1);
  assert.is(JSON.parse(json.out).error.code, 'INVALID_INPUT');
});

test('an output name cannot leave the folder', async () => {
  const model = binaryModel('MatMul');
  const name = '../../outside';
  const nodes = model.graph.nodes.map((n) => ({ ...n, outputs: [name] }));
  writeFileSync(at('n.onnx'), writeModel({ ...model, graph: { ...model.graph, nodes, outputs: [{ name }] } }));
  const { code, err } = await skep(
    'run',
    at('n.onnx'),
    '-i',
    'a=[[1,2]]',
    '-i',
    'b=[[1,2],[3,4]]',
    '-o',
    at('deep', 'er'),
  );
  assert.is(code, 0, err);
  assert.not.ok(existsSync(at('outside.npy')));
  assert.ok(existsSync(at('deep', 'er', '__.._outside.npy')));
});

test('inspect compiles for shapes and counts', async () => {
  writeFileSync(at('m.onnx'), writeModel(binaryModel('MatMul')));
  const { code, out } = await skep('inspect', at('m.onnx'), '--shape', 'a=4,2', '--shape', 'b=2,2', '--json');
  assert.is(code, 0);
  const json = JSON.parse(out);
  assert.equal(json.inputs[0], { name: 'a', type: 'float32', shape: ['n', 2] });
  assert.equal(json.compiled.shapes, { a: [4, 2], b: [2, 2] });
  assert.is(json.compiled.flops, 2 * 4 * 2 * 2);
  assert.equal(json.operators, [{ operator: 'MatMul', nodes: 1, kernel: 1, reference: 0, none: 0, unknown: 0 }]);
  assert.equal(json.unsupported, []);
});

test('inspect says what is not supported', async () => {
  const { code, out } = await skep('inspect', at('cases', 'unknown', 'model.onnx'));
  assert.is(code, 0);
  assert.match(out, /Not supported:\n {2}NoSuchOperator 'the-node'/);
});

test('inspect says which attributes are ignored', async () => {
  const model = binaryModel('MatMul');
  const nodes = model.graph.nodes.map((n) => ({ ...n, attributes: { colour: { kind: 'int' as const, value: 3 } } }));
  writeFileSync(at('tinted.onnx'), writeModel({ ...model, graph: { ...model.graph, nodes } }));
  const { out } = await skep('inspect', at('tinted.onnx'));
  assert.match(out, /ignored:\n {2}MatMul 'the-node': 'colour'/);
});

test('what the system refuses is said in words, with the file', async () => {
  const fed = ['-i', 'a=[[1,2]]', '-i', 'b=[[1,2],[3,4]]'];
  for (const [words, said] of [
    [['run', at('m.onnx'), ...fed, '-o', at('a.npy')], /a\.npy: is a file, not a folder/],
    [['run', folder, ...fed], /: is a folder, not a model file/],
    [['inspect', folder], /: is a folder, not a model file/],
    [['inspect', at('none.onnx')], /none\.onnx: there is no such file/],
    [['inspect', at('broken', 'case', 'model.onnx')], /broken.case.model\.onnx: /],
    [['check', at('a.npy')], /a\.npy: is a file/],
  ] as const) {
    const { code, err } = await skep(...words);
    assert.is(code, 1, words.join(' '));
    assert.match(err, said);
    assert.not.match(err, /\n {4}at /, 'no stack');
  }
});

test('check says when there is nothing to check', async () => {
  mkdirSync(at('nothing'));
  const none = await skep('check', at('nothing'));
  assert.is(none.code, 1);
  assert.match(none.err, /no test cases \(a folder with model\.onnx/);
  assert.match((await skep('check', at('cases'), '--filter', 'no such')).err, /none of 4 cases has a name like/);
});

test('check refuses in words kernels that the runtime cannot run', async () => {
  const validate = WebAssembly.validate;
  WebAssembly.validate = () => false;
  try {
    const { code, err } = await skep('check', at('cases', 'suite', 'good'), '--build', 'fma');
    assert.is(code, 1);
    assert.match(err, /^skep: this runtime cannot run the 'fma' build/);
  } finally {
    WebAssembly.validate = validate;
  }
  assert.is((await skep('check', at('cases', 'suite', 'good'), '--build', 'fma')).code, 0);
});

test('external data is read from the model’s folder, and no link leads out of it', async () => {
  mkdirSync(at('ext', 'inside'), { recursive: true });
  const big = new Tensor('float32', new Float32Array(1024).fill(1), [512, 2]);
  const model = binaryModel('Add');
  const graph = { ...model.graph, inputs: model.graph.inputs.slice(0, 1), initializers: new Map([['b', big]]) };
  const split = writeModel({ ...model, graph }, { externalData: 'w.data' });
  writeFileSync(at('ext', 'inside', 'm.onnx'), split.model);
  writeFileSync(at('ext', 'inside', 'w.data'), split.data);
  assert.is((await skep('inspect', at('ext', 'inside', 'm.onnx'), '--shape', 'a=512,2')).code, 0);
  renameSync(at('ext', 'inside', 'w.data'), at('ext', 'w.data'));
  symlinkSync(at('ext', 'w.data'), at('ext', 'inside', 'w.data'));
  const out = await skep('inspect', at('ext', 'inside', 'm.onnx'));
  assert.is(out.code, 1);
  assert.match(out.err, /m\.onnx: .*leaves the model's folder/);
});

test('misuse exits 2 with a hint, help exits 0', async () => {
  for (const words of [
    [],
    ['dance'],
    ['check'],
    ['check', at('cases'), '--engine', 'magic'],
    ['check', at('cases'), '--filter', '('],
    ['check', at('cases'), '--rtol', 'small'],
    ['run', at('m.onnx'), '--input', 'nothing'],
    ['run', at('m.onnx'), '--input', 'c=1'],
    ['run', at('m.onnx'), '--input', 'a=[[1],[2,3]]'],
    ['run', at('m.onnx'), '--no-such-option'],
    ['inspect', at('m.onnx'), 'another'],
    ['inspect', at('m.onnx'), '--shape', 'a=2'],
    ['inspect', at('m.onnx'), '--shape', 'a=2,x'],
  ]) {
    const { code, err, out } = await skep(...words);
    assert.is(code, 2, `skep ${words.join(' ')}: ${out}${err}`);
    assert.ok(err.includes('--help'), words.join(' '));
  }
  assert.match((await skep('run', at('m.onnx'), '--ouput', 'o')).err, /no option '--ouput'; did you mean '--output'\?/);
  assert.match((await skep('inspcet')).err, /did you mean 'inspect'\?/);
  assert.not.match((await skep('dance')).err, /did you mean/);
  for (const words of [['dance'], ['run', at('m.onnx'), '--zzz'], ['check']]) {
    const { code, out } = await skep(...words, '--json');
    assert.is(code, 2);
    assert.is(JSON.parse(out).error.code, 'USAGE');
  }
  assert.match((await skep('--help')).out, /skep check DIR…/);
  const commands = [...(await skep('--help')).out.matchAll(/^ {2}skep (\w+)/gm)].map((m) => m[1]!);
  assert.ok(commands.length >= 4);
  for (const command of commands) {
    const { code, out } = await skep(command, '--help');
    assert.is(code, 0);
    assert.match(out, /--json/);
  }
});

test.run();
