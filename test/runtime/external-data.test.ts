// Tensors stored beside a model: read from the folder of the path given and, when that is a link, from the folder of the
// file it leads to; from nowhere else.
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { GraphBuilder } from '../../src/graph/builder.js';
import { writeModel } from '../../src/onnx/writer.js';
import { openModel } from '../../src/runtime/source.js';
import { SkepError } from '../../src/tensor/errors.js';

const folder = mkdtempSync(path.join(tmpdir(), 'skep-external-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
const at = (...parts: string[]) => path.join(folder, ...parts);
for (const name of ['plain', 'blobs', 'snapshot/onnx', 'elsewhere', 'blobs-too', 'link'])
  mkdirSync(at(...name.split('/')), { recursive: true });

const g = new GraphBuilder('net');
g.output('y', g.matmul(g.input('x', 'float32', ['n', 32]), g.weights([32, 32], { name: 'w' })));
const built = g.model();
const { model, data } = writeModel(built, { externalData: 'model.onnx_data' });

function opens(file: string): void {
  assert.equal(openModel({ kind: 'file', path: file }).graph.initializers, built.graph.initializers);
}

function refuses(file: string, pattern: RegExp): void {
  assert.throws(
    () => openModel({ kind: 'file', path: file }),
    (e: unknown) => e instanceof SkepError && e.code === 'INVALID_MODEL' && pattern.test(e.message),
  );
}

test('data beside the model', () => {
  writeFileSync(at('plain', 'model.onnx'), model);
  refuses(at('plain', 'model.onnx'), /cannot read the model's external data: ENOENT.*plain/);
  writeFileSync(at('plain', 'model.onnx_data'), data);
  opens(at('plain', 'model.onnx'));
  opens(path.relative(process.cwd(), at('plain', 'model.onnx')));
});

test('links into one folder of blobs, as Hugging Face caches have them', () => {
  writeFileSync(at('blobs', 'aaaa'), model);
  writeFileSync(at('blobs', 'bbbb'), data);
  symlinkSync(path.join('..', '..', 'blobs', 'aaaa'), at('snapshot', 'onnx', 'model.onnx'));
  symlinkSync(path.join('..', '..', 'blobs', 'bbbb'), at('snapshot', 'onnx', 'model.onnx_data'));
  opens(at('snapshot', 'onnx', 'model.onnx'));
});

test('a link to a model that has its data beside it', () => {
  symlinkSync(at('plain', 'model.onnx'), at('link', 'other name.onnx'));
  opens(at('link', 'other name.onnx'));
});

test('a link that leads to neither folder is refused', () => {
  writeFileSync(at('elsewhere', 'model.onnx'), model);
  symlinkSync(at('blobs', 'bbbb'), at('elsewhere', 'model.onnx_data'));
  refuses(at('elsewhere', 'model.onnx'), /'model\.onnx_data' leaves the model's folder/);
  // A folder whose name only begins like the model's.
  writeFileSync(at('blobs-too', 'cccc'), data);
  rmSync(at('blobs', 'bbbb'));
  symlinkSync(at('blobs-too', 'cccc'), at('blobs', 'bbbb'));
  refuses(at('snapshot', 'onnx', 'model.onnx'), /leaves the model's folder/);
});

test.run();
