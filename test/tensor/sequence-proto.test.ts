// Sequences, optionals and maps as test data stores them.
import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readValueProto, type StoredValue, writeValueProto } from '../../src/tensor/sequence-proto.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { WireWriter } from '../../src/tensor/wire-writer.js';

const tensor = fc.array(fc.integer(), { maxLength: 3 }).map((values) => new Tensor('int32', values));
const { value } = fc.letrec<{ value: StoredValue }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    tensor,
    fc.array(tensor, { maxLength: 3 }),
    fc.array(tie('value'), { maxLength: 1 }),
  ),
}));

test('what was written is read again', () => {
  fc.assert(
    fc.property(value, (v) => {
      assert.equal(readValueProto(writeValueProto(v, 'name'), v instanceof Tensor ? 'tensor' : 'sequence'), v);
    }),
  );
  assert.is(readValueProto(writeValueProto(null), 'optional'), null);
  assert.equal(readValueProto(writeValueProto([null, null]), 'sequence'), [null, null]);
});

test('an optional holds a tensor or a sequence', () => {
  const t = new Tensor('int32', [1, 2]);
  assert.equal(readValueProto(writeValueProto([t]), 'optional'), t);
  assert.equal(readValueProto(writeValueProto([[t, t]]), 'optional'), [t, t]);
});

test('a map is its keys and its values', () => {
  const map = (type: number, fill: (w: WireWriter) => void) => {
    const w = new WireWriter();
    w.int(2, type);
    fill(w);
    w.bytes(5, writeValueProto([new Tensor('int32', [1]), new Tensor('int32', [2])]));
    return w.finish();
  };
  const values = [new Tensor('int32', [1]), new Tensor('int32', [2])];
  assert.equal(
    readValueProto(
      map(7, (w) => w.packedInts(3, [5, -6])),
      'map',
    ),
    [new Tensor('int64', [5n, -6n]), values],
  );
  const named = map(8, (w) => {
    w.string(4, 'a');
    w.string(4, 'b');
  });
  assert.equal(readValueProto(named, 'map'), [new Tensor('string', ['a', 'b']), values]);
  assert.throws(
    () =>
      readValueProto(
        map(7, (w) => w.int(3, 5)),
        'map',
      ),
    /1 keys and 2 values/,
  );
  assert.throws(
    () =>
      readValueProto(
        map(1, () => {}),
        'map',
      ),
    /keys of type float32/,
  );
});

test.run();
