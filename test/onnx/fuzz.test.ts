// A short run of the reader on mutated files; test/stress/fuzz-reader.ts is the long one.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Random } from '../../src/graph/random.js';
import { SkepError } from '../../src/tensor/errors.js';
import { readNpy, writeNpy } from '../../src/tensor/npy.js';
import { readValueProto, writeValueProto } from '../../src/tensor/sequence-proto.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { writeTensorProto } from '../../src/tensor/tensor-proto.js';
import { judge, mutate, seeds } from './fuzz.js';

test('3,000 mutated files load or are refused in words', () => {
  const random = new Random(2024);
  const models = seeds();
  for (const bytes of models) assert.is(judge(bytes), 'loaded');
  const count = { loaded: 0, refused: 0 };
  for (let i = 0; i < 3000; i++) count[judge(mutate(random, models[i % models.length]!, models))]++;
  assert.ok(count.loaded > 100 && count.refused > 100, JSON.stringify(count));
});

test('mutated tensors, sequences and .npy files are read or refused in words', () => {
  const random = new Random(7);
  const tensors = [
    new Tensor('float32', [1, 2, 3, 4], [2, 2]),
    new Tensor('string', ['a', 'b']),
    new Tensor('int4', Uint8Array.of(1)),
  ];
  const files = [
    ...tensors.map((t) => [writeTensorProto(t, 'name'), (b: Uint8Array) => readValueProto(b, 'tensor')] as const),
    [writeValueProto([tensors, tensors[0]!]), (b: Uint8Array) => readValueProto(b, 'sequence')] as const,
    [writeValueProto([tensors[0]!]), (b: Uint8Array) => readValueProto(b, 'optional')] as const,
    [writeNpy(tensors[0]!), readNpy] as const,
  ];
  const others = files.map(([bytes]) => bytes);
  let read = 0;
  for (let i = 0; i < 3000; i++) {
    const [bytes, reader] = files[i % files.length]!;
    try {
      reader(mutate(random, bytes, others));
      read++;
    } catch (error) {
      if (!(error instanceof SkepError) || error.code === 'INTERNAL') throw error;
    }
  }
  assert.ok(read > 100 && read < 2900, `${read} read`);
});

test('every prefix of a file loads or is refused in words', () => {
  for (const bytes of seeds()) for (let n = 0; n < bytes.length; n += 3) judge(bytes.subarray(0, n));
});

test.run();
