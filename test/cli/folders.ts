// ONNX test folders made for tests: a model of one node, and what it should give.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Model } from '../../src/graph/graph.js';
import { writeModel } from '../../src/onnx/writer.js';
import { writeValueProto } from '../../src/tensor/sequence-proto.js';
import { Tensor } from '../../src/tensor/tensor.js';

/** A folder that is gone when the process ends. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'skep-test-'));
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** y = op(a, b) on float32 vectors of 2. */
export function binaryModel(op: string): Model {
  const vector = { kind: 'tensor', type: 'float32', dims: ['n', 2] } as const;
  return {
    graph: {
      name: 'test',
      inputs: [
        { name: 'a', type: vector },
        { name: 'b', type: vector },
      ],
      outputs: [{ name: 'y', type: vector }],
      initializers: new Map(),
      nodes: [{ op, domain: '', opset: 13, name: 'the-node', inputs: ['a', 'b'], outputs: ['y'], attributes: {} }],
    },
    irVersion: 8,
    opsets: new Map([['', 13]]),
    producer: 'test',
    metadata: new Map(),
  };
}

export const a = new Tensor('float32', Float32Array.of(1, 2, 3, 4), [2, 2]);
export const b = new Tensor('float32', Float32Array.of(5, 6, 7, 8), [2, 2]);
export const product = new Tensor('float32', Float32Array.of(19, 22, 43, 50), [2, 2]);

/** Writes a case: the model, and for each data set what y should be. */
export function writeCase(folder: string, model: Model, ...wanted: readonly Tensor[]): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(path.join(folder, 'model.onnx'), writeModel(model));
  for (const [i, y] of wanted.entries()) {
    const set = path.join(folder, `test_data_set_${i}`);
    mkdirSync(set);
    writeFileSync(path.join(set, 'input_0.pb'), writeValueProto(a));
    writeFileSync(path.join(set, 'input_1.pb'), writeValueProto(b));
    writeFileSync(path.join(set, 'output_0.pb'), writeValueProto(y));
  }
}
