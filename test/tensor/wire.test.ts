// The wire format by itself: numbers at their extremes, and every way a message can be broken, with the byte named.
import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SkepError } from '../../src/tensor/errors.js';
import { joinParts, type Parts, WireReader } from '../../src/tensor/wire-reader.js';
import { WireWriter } from '../../src/tensor/wire-writer.js';

const read = (bytes: readonly number[] | Uint8Array) => new WireReader(Uint8Array.from(bytes), 'TestProto');

function refuses(run: () => unknown, pattern: RegExp): void {
  assert.throws(run, (e: unknown) => e instanceof SkepError && e.code === 'INVALID_MODEL' && pattern.test(e.message));
}

test('integers of any size survive a round trip', () => {
  fc.assert(
    fc.property(fc.array(fc.maxSafeInteger()), (values) => {
      const w = new WireWriter();
      for (const v of values) w.int(3, v);
      w.packedInts(4, values);
      const r = read(w.finish());
      const single: number[] = [];
      const packed: Parts<number> = [];
      const big: Parts<bigint> = [];
      while (r.next()) {
        if (r.field === 3) single.push(r.int());
        else r.ints(packed);
      }
      const again = read(w.finish());
      while (again.next()) {
        if (again.field === 4) again.bigs(big, true);
        else again.skip();
      }
      assert.equal(
        single,
        values.map((v) => v + 0),
      );
      assert.equal(Array.from(joinParts(packed)), values);
      assert.equal(Array.from(joinParts(big)), values.map(BigInt));
    }),
  );
});

test('all 64 bits of an integer are kept where they count', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), (value) => {
      const bytes: number[] = [8];
      let v = BigInt.asUintN(64, value);
      for (; v >= 128n; v >>= 7n) bytes.push(Number(v & 127n) | 128);
      bytes.push(Number(v));
      for (const signed of [true, false]) {
        const r = read(bytes);
        const parts: Parts<bigint> = [];
        r.next();
        r.bigs(parts, signed);
        assert.is(joinParts(parts)[0], signed ? value : BigInt.asUintN(64, value));
      }
    }),
  );
});

test('a broken message says what and at which byte', () => {
  const walk = (bytes: readonly number[]) => {
    const r = read(bytes);
    while (r.next()) r.skip();
  };
  refuses(() => walk([0x08]), /TestProto at byte 1: ends inside a number/);
  refuses(() => walk([0x08, 0x80]), /at byte 1: ends inside a number/);
  refuses(() => walk([0x08, ...new Array(11).fill(0xff)]), /at byte 1: a number longer than 10 bytes/);
  refuses(() => walk([8, 1, 0x12, 5, 1, 2]), /at byte 2: field 2 needs 5 bytes, but only 2 are left/);
  refuses(() => walk([0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]), /at byte 0: field 2 has a length past 4 GiB/);
  refuses(() => walk([0x0d, 1, 2]), /field 1 needs 4 bytes, but only 2 are left/);
  refuses(() => walk([0x09, 1, 2]), /field 1 needs 8 bytes, but only 2 are left/);
  refuses(() => walk([0x0b]), /field 1 has wire type 3/);
  refuses(() => walk([0x00]), /at byte 0: not a protobuf field/);
  refuses(() => walk([0xff, 0xff, 0xff, 0xff, 0xff, 0x01]), /not a protobuf field/);
  const typed = (bytes: readonly number[], take: (r: WireReader) => unknown) => {
    const r = read(bytes);
    r.next();
    take(r);
  };
  refuses(() => typed([0x0a, 0], (r) => r.int()), /field 1 must be an integer, got wire type 2/);
  refuses(() => typed([0x08, 1], (r) => r.string()), /field 1 must be bytes, got wire type 0/);
  refuses(() => typed([0x0a, 2, 0xc3, 0x28], (r) => r.string()), /field 1 is not UTF-8/);
  typed([0x0a, 2, 0xc3, 0x28], (r) => assert.is(r.text(), '\ufffd('));
  refuses(() => typed([0x0a, 3, 1, 2, 3], (r) => r.floats([])), /packed field 1 has 3 bytes, not a multiple of 4/);
  refuses(() => typed([0x0a, 2, 1, 0x80], (r) => r.ints([])), /ends inside a number/);
  refuses(
    () => typed([0x0a, 12, ...new Array(11).fill(0x80), 1], (r) => r.ints([])),
    /at byte 2: a number longer than/,
  );
});

test('nested messages report bytes of the whole file, and end at a depth', () => {
  let bytes = Uint8Array.of(8, 0x80);
  for (let i = 0; i < 3; i++) bytes = Uint8Array.of(0x12, bytes.length, ...bytes);
  const down = (r: WireReader): void => {
    while (r.next()) {
      if (r.field === 2) down(r.message('Inner'));
      else r.skip();
    }
  };
  refuses(() => down(read(bytes)), /Inner at byte 7: ends inside a number/);
  const nested = (levels: number) => {
    let deep: Uint8Array = Uint8Array.of(8, 1);
    for (let i = 0; i < levels; i++) {
      const w = new WireWriter();
      w.bytes(2, deep);
      deep = w.finish();
    }
    return read(deep);
  };
  down(nested(100));
  refuses(() => down(nested(101)), /nested deeper than 100/);
});

test('weights are views of the file', () => {
  const w = new WireWriter();
  w.bytes(9, new Uint8Array(1000));
  const file = w.finish();
  const r = new WireReader(file, 'TestProto');
  r.next();
  assert.is(r.bytes().buffer, file.buffer);
});

test.run();
