// Every register tile gives the same bits: which one is fastest is settled by the machine, so an answer must not depend on
// it. Sizes straddle all panel heights and widths, odd rests included.
import fc from 'fast-check';
import { test } from 'uvu';
import type { Attribute } from '../../src/graph/graph.js';
import { tiles } from '../../src/kernels/tile.js';
import { LocalModel } from '../../src/runtime/local.js';
import type { Tensor } from '../../src/tensor/tensor.js';
import { assertSameBits, builds, graphOf, type NodeTest } from './harness.js';
import { randomFrom, randomTensor } from './random.js';

const random = randomFrom(7);
const int = (value: number): Attribute => ({ kind: 'int', value });

function sameForAllTiles(t: NodeTest): void {
  const { graph, feeds } = graphOf(t);
  for (const build of builds) {
    const [first, ...others] = tiles.map((tile) => new LocalModel(graph, { build, tile }).run(feeds));
    for (const [i, other] of others.entries())
      for (const [name, value] of first!)
        assertSameBits(other.get(name) as Tensor, value as Tensor, `${t.op} (${build}) ${name}, tile ${i + 1}`);
  }
}

const upTo = (max: number) => fc.integer({ min: 1, max });

test('matrix products, with and without something after them', () =>
  fc.assert(
    fc.property(upTo(140), upTo(40), upTo(50), fc.boolean(), fc.boolean(), (m, k, n, bias, constant) => {
      const inputs = [
        randomTensor(random, [m, k]),
        randomTensor(random, [k, n]),
        ...(bias ? [randomTensor(random, [n])] : []),
      ];
      sameForAllTiles({ op: 'Gemm', inputs, constants: constant ? [1] : [] });
    }),
    { numRuns: 30 },
  ));

test('recurrent layers', () =>
  fc.assert(
    fc.property(
      fc.constantFrom('LSTM', 'GRU', 'RNN'),
      fc.oneof(upTo(14), fc.constant(70)),
      upTo(20),
      fc.boolean(),
      fc.boolean(),
      (op, batch, hidden, both, initial) => {
        const gates = { LSTM: 4, GRU: 3, RNN: 1 }[op]!;
        const directions = both ? 2 : 1;
        const inputs = [
          randomTensor(random, [3, batch, 5]),
          randomTensor(random, [directions, gates * hidden, 5]),
          randomTensor(random, [directions, gates * hidden, hidden]),
          randomTensor(random, [directions, 2 * gates * hidden]),
          undefined,
          ...(initial ? [randomTensor(random, [directions, batch, hidden])] : []),
        ];
        const direction: Attribute = { kind: 'string', value: both ? 'bidirectional' : 'forward' };
        sameForAllTiles({
          op,
          inputs,
          constants: [1, 2, 3],
          attributes: { hidden_size: int(hidden), direction },
          outputs: 2,
        });
      },
    ),
    { numRuns: 25 },
  ));

test.run();
