// 256-bit kernels: off unless asked for, tested before they serve, refused with a reason when the test fails or the runtime
// has no such pass. Where it has, they give the bits of the plain instructions.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Engine, Tensor } from '../../src/index.js';
import { readKernels } from '../../src/kernels/module.js';
import { writeModel } from '../../src/onnx/writer.js';
import { widen } from '../../src/runtime/wide.js';
import { builds } from '../operators/harness.js';

const hasPass = process.arch === 'x64' && Number.parseFloat(process.versions.v8) >= 13.6;
const here = () => undefined;

/** Kernels whose f32x4.mul is f32x4.add: valid, and wrong. */
function broken(): Uint8Array {
  const bytes = readKernels('plain');
  for (let i = 0; i + 2 < bytes.length; i++)
    if (bytes[i] === 0xfd && bytes[i + 1] === 0xe6 && bytes[i + 2] === 0x01) bytes[i + 1] = 0xe4;
  assert.ok(WebAssembly.validate(bytes));
  return bytes;
}

/** y = x · W. */
function model(): Uint8Array {
  const type = (dims: readonly number[]) => ({ kind: 'tensor', type: 'float32', dims }) as const;
  const w = new Tensor(
    'float32',
    Float32Array.from({ length: 40 * 30 }, (_, i) => Math.sin(i)),
    [40, 30],
  );
  return writeModel({
    irVersion: 8,
    producer: '',
    metadata: new Map(),
    opsets: new Map([['', 13]]),
    graph: {
      name: 'product',
      inputs: [{ name: 'x', type: type([20, 40]) }],
      outputs: [{ name: 'y', type: type([20, 30]) }],
      initializers: new Map([['w', w]]),
      nodes: [{ op: 'MatMul', domain: '', opset: 13, name: '', inputs: ['x', 'w'], outputs: ['y'], attributes: {} }],
    },
  });
}

async function answer(engine: Engine): Promise<Float32Array> {
  const m = await engine.load(model());
  const x = new Tensor(
    'float32',
    Float32Array.from({ length: 800 }, (_, i) => Math.cos(i)),
    [20, 40],
  );
  const { y } = await m.run({ x });
  return y!.data as Float32Array;
}

test('kernels that compute something else are refused', () => {
  const result = widen('plain', { bytes: broken(), rehearse: here });
  if (hasPass) assert.match('refused' in result ? result.refused : '', /gives other bits than the plain code/);
  else assert.match('refused' in result ? result.refused : '', /256-bit/);
});

test('kernels that are no module are refused', () => {
  const result = widen('plain', { bytes: new Uint8Array(9), rehearse: here });
  assert.match('refused' in result ? result.refused : '', hasPass ? /the kernels failed/ : /256-bit/);
});

test('a rehearsal that ends the process is a refusal', () => {
  const result = widen('plain', { rehearse: () => 'the runtime itself failed (SIGTRAP)' });
  assert.match('refused' in result ? result.refused : '', hasPass ? /SIGTRAP/ : /256-bit/);
});

test('an engine says which kernels it uses, and answers are the same', async () => {
  for (const build of builds) {
    await using plain = new Engine({ build });
    await using wide = new Engine({ build, wide: true });
    assert.equal(await plain.kernels(), { build, wide: false }, 'off by default');
    const kernels = await wide.kernels();
    assert.is(kernels.wide, hasPass, kernels.refused);
    assert.is(kernels.refused === undefined, hasPass);
    assert.equal(await answer(wide), await answer(plain));
  }
});

test.run();
