// skep export: what it writes is what the network's builder builds, and misuse is told.
import { readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { networks } from '../../models/index.js';
import { readModel } from '../../src/onnx/reader.js';
import { writeModel } from '../../src/onnx/writer.js';
import { temporaryFolder } from './folders.js';
import { skep } from './program.js';

const folder = temporaryFolder();
const at = (...parts: string[]) => path.join(folder, ...parts);

test('a network of a size, with numbers, a seed and an operator set', async () => {
  const words = [
    '--size',
    'tiny',
    '--seed',
    '5',
    '--opset',
    '17',
    '--set',
    'hidden=20,layers=1',
    '--set',
    'vocabulary=9',
  ];
  const { code, out } = await skep('export', 'lstm-lm', ...words, '--output', at('new', 'lm.onnx'));
  assert.is(code, 0);
  assert.match(out, /lm\.onnx: 3\.02 k parameters, 12\.\d kB, written in/);
  assert.match(
    out,
    /input {3}tokens: int64 of shape \[batch, sequence\]\n {2}output {2}logits: float32 of shape \[batch, sequence, 9\]/,
  );
  const set = { hidden: 20, layers: 1, vocabulary: 9 };
  const want = networks.get('lstm-lm')!.build({ size: 'tiny', seed: 5, opset: 17, set });
  assert.ok(readFileSync(at('new', 'lm.onnx')).equals(writeModel(want)));
});

test('for machines', async () => {
  const { code, out } = await skep('export', 'lenet', '--json', '-o', at('lenet.onnx'));
  assert.is(code, 0);
  const { milliseconds, ...said } = JSON.parse(out);
  assert.type(milliseconds, 'number');
  assert.equal(said, {
    file: at('lenet.onnx'),
    bytes: statSync(at('lenet.onnx')).size,
    network: 'lenet',
    settings: { width: 100 },
    parameters: 61706,
    inputs: [{ name: 'image', type: 'float32 of shape [batch, 1, 28, 28]' }],
    outputs: [{ name: 'probabilities', type: 'float32 of shape [batch, 10]' }],
  });
});

test('weights in a file of their own', async () => {
  const { code } = await skep('export', 'gpt2', '--size', 'tiny', '--external-data', '-o', at('gpt2.onnx'));
  assert.is(code, 0);
  const data = readFileSync(at('gpt2.onnx.data'));
  const model = readModel(readFileSync(at('gpt2.onnx')), { externalData: () => data });
  assert.equal(model, networks.get('gpt2')!.build({ size: 'tiny' }));
  const run = await skep('run', at('gpt2.onnx'), '--input', 'input_ids=[[1,2,3]]');
  assert.is(run.code, 0);
  assert.match(run.out, /logits {2}float32 \[1, 3, 53\]/);
});

test('--list names every network and what can be set', async () => {
  const { code, out } = await skep('export', '--list');
  assert.is(code, 0);
  assert.match(out, /resnet50 +25\.6 M/);
  assert.match(out, /lstm-lm +hidden +16 +256 +1024 +units of a layer/);
  const list = JSON.parse((await skep('export', '--list', '--json')).out).networks;
  assert.equal(
    list.map((n: { name: string }) => n.name),
    [...networks.keys()],
  );
  assert.is(list.find((n: { name: string }) => n.name === 'gpt2').parameters, 124_439_808);
});

test('misuse', async () => {
  const misused = async (pattern: RegExp, ...words: string[]) => {
    const { code, err } = await skep('export', ...words);
    assert.is(code, 2, words.join(' '));
    assert.match(err, pattern);
  };
  await misused(/which network\? --list says/);
  await misused(/there is no network 'vgg'; there are lstm-lm, /, 'vgg');
  await misused(/--size must be one of tiny, small, paper, got 'huge'/, 'lenet', '--size', 'huge');
  await misused(/--seed must be a whole number, got '1\.5'/, 'lenet', '--seed', '1.5');
  await misused(/lenet has no option 'hidden'; it has width/, 'lenet', '--set', 'hidden=3');
  await misused(/--set width: 0|'0' must be at least 1/, 'lenet', '--set', 'width=0');
  await misused(/--set must be NAME=/, 'lenet', '--set', 'width');
  await misused(/--list takes no name/, 'lenet', '--list');
  const wrong = await skep('export', 'resnet50', '--set', 'depth=51', '-o', at('x.onnx'));
  assert.is(wrong.code, 1);
  assert.match(wrong.err, /depth must be one of 14, 26, 50, 101, 152, got 51/);
  const old = await skep('export', 'lenet', '--opset', '9', '-o', at('x.onnx'));
  assert.is(old.code, 1);
  assert.match(old.err, /operator sets 17 to 27, not 9/);
});

test.run();
