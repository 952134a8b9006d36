import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Heap, ModelMemory, PAGE } from '../../src/runtime/memory.js';

test('ranges in use never overlap, are aligned, and come back when freed', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.integer({ min: 1, max: 300_000 }), fc.nat(1000)), { maxLength: 60 }),
      (actions) => {
        const memory = new ModelMemory();
        const heap = new Heap(memory);
        const live: { address: number; bytes: number }[] = [];
        for (const [bytes, choice] of actions) {
          if (choice % 3 === 0 && live.length > 0) heap.free(live.splice(choice % live.length, 1)[0]!.address);
          else {
            const address = heap.allocate(bytes);
            assert.is(address % 64, 0);
            assert.ok(address >= PAGE && address + bytes <= memory.memory.buffer.byteLength);
            for (const r of live) assert.ok(address + bytes <= r.address || r.address + r.bytes <= address);
            live.push({ address, bytes });
          }
        }
        for (const r of live) heap.free(r.address);
        assert.is(heap.usedBytes, 0);
        // Everything is one free range again where it was contiguous: the whole can be taken without growing.
        const size = memory.memory.buffer.byteLength;
        if (heap.ownedBytes > 0) heap.allocate(heap.ownedBytes);
        assert.is(memory.memory.buffer.byteLength, size);
      },
    ),
    { numRuns: 60 },
  );
});

test('two heaps share one memory without meeting', () => {
  const memory = new ModelMemory();
  const a = new Heap(memory);
  const b = new Heap(memory);
  const taken: [number, number][] = [];
  for (let i = 0; i < 40; i++) {
    const bytes = 100_000 + i * 7919;
    taken.push([(i % 2 === 0 ? a : b).allocate(bytes), bytes]);
  }
  taken.sort((x, y) => x[0] - y[0]);
  for (let i = 1; i < taken.length; i++) assert.ok(taken[i - 1]![0] + taken[i - 1]![1] <= taken[i]![0]);
});

test('views follow growth', () => {
  const memory = new ModelMemory();
  const other = new ModelMemory(memory.memory);
  const address = new Heap(memory).allocate(10 * PAGE);
  memory.u8[address + 5 * PAGE] = 7;
  assert.is(other.u8[address + 5 * PAGE], 7);
});

test('asking for more than 4 GiB says so in words', () => {
  assert.throws(
    () => new Heap(new ModelMemory()).allocate(5 * 2 ** 30),
    (e: Error) => /of at most 4 GiB/.test(e.message) && (e as Error & { code: string }).code === 'OUT_OF_MEMORY',
  );
});

test('freeing what is not allocated is an internal error', () => {
  const heap = new Heap(new ModelMemory());
  const address = heap.allocate(1);
  heap.free(address);
  assert.throws(() => heap.free(address), /not allocated/);
});

test.run();
