// Mutations of small models, the same for the same seed: bit flips, cuts, splices, and numbers made huge. What the short
// test and the long run share; each mutated file must load or be refused in words.
import { float, GraphBuilder } from '../../src/graph/builder.js';
import type { Random } from '../../src/graph/random.js';
import { verify } from '../../src/graph/verify.js';
import { readModel } from '../../src/onnx/reader.js';
import { writeModel } from '../../src/onnx/writer.js';
import { SkepError } from '../../src/tensor/errors.js';
import { f, info, message, model, node, nodeFields } from './protobuf.js';

/** Small models that together use every message and field the reader knows. */
export function seeds(): Uint8Array[] {
  const g = new GraphBuilder('convnet');
  const x = g.input('x', 'float32', ['n', 2, 8, 8]);
  const c = g.relu(g.conv2d(x, g.weights([3, 2, 3, 3]), g.weights([3]), { pads: [1, 1, 1, 1] }));
  g.output('y', g.softmax(g.linear(g.flatten(g.maxPool(c, [2, 2], { strides: [2, 2] })), g.weights([48, 4]))));

  const h = new GraphBuilder('branches', { opset: 17 });
  const s = h.input('s', 'float32', ['seq', 'n', 4]);
  const { y } = h.lstm(s, h.weights([1, 16, 4]), h.weights([1, 16, 4]), h.weights([1, 32]));
  const flag = h.input('flag', 'bool', []);
  const then = h.subgraph('then', (b) => b.output('a', b.op('Celu', [y], { alpha: float(2) })));
  const other = h.subgraph('else', (b) => b.output('b', b.neg(y)));
  h.output('r', h.op('If', [flag], { then_branch: then, else_branch: other }));
  const text = h.tensor(h.graph().initializers.values().next().value!, 'again');
  h.output('t', h.add(text, 1));

  const values = f(1, f(1, 2), f(2, 1), f(8, 'sparse'), f(9, new Uint8Array(8).fill(1)));
  const typed = [
    f(5, f(1, 2), f(2, 7), f(8, 'i64'), f(7, 5), f(7, 6)),
    f(5, f(1, 2), f(2, 10), f(8, 'half'), f(5, 5), f(5, 6)),
    f(5, f(1, 1), f(2, 8), f(8, 'text'), f(6, 'word')),
    f(15, values, f(2, f(1, 2), f(2, 7), f(7, 1), f(7, 3)), f(3, 4)),
  ];
  const ref = f(5, f(1, 'alpha'), f(20, 1), f(21, 'alpha'));
  const fn = f(
    25,
    f(1, 'Twice'),
    f(4, 'p'),
    f(5, 'q'),
    f(11, f(1, 'alpha'), f(20, 1)),
    f(7, nodeFields('Elu', ['p'], ['m'], ref)),
    f(7, nodeFields('Neg', ['m'], ['q'])),
    f(9, f(2, 17)),
    f(10, 'local'),
  );
  const call = (i: string, o: string) => node('Twice', [i], [o], f(7, 'local'), f(3, 'call'));
  const functions = model(
    [info(11, 'x'), ...typed, call('x', 'u'), call('u', 'v'), info(12, 'v')],
    fn,
    f(14, f(1, 'k')),
  );
  return [writeModel(g.model()), writeModel(h.model()), functions, message([1, 8], [8, [[2, 17]]], [7, []])];
}

/** One to four mutations. */
export function mutate(random: Random, bytes: Uint8Array, others: readonly Uint8Array[]): Uint8Array {
  let out: Uint8Array = Uint8Array.from(bytes);
  for (let k = 1 + random.below(4); k > 0 && out.length > 0; k--) {
    const at = random.below(out.length);
    switch (random.below(7)) {
      case 0:
        out[at]! ^= 1 << random.below(8);
        break;
      case 1:
        out[at] = random.below(256);
        break;
      case 2:
        out = out.subarray(0, at);
        break;
      case 3: {
        // A piece of another model in the place of one of this.
        const from = others[random.below(others.length)]!;
        const start = random.below(from.length);
        const piece = from.subarray(start, start + random.below(Math.min(64, from.length - start)));
        out = join(out.subarray(0, at), piece, out.subarray(at + random.below(64)));
        break;
      }
      case 4:
        // A huge number.
        out = join(
          out.subarray(0, at),
          new Uint8Array(1 + random.below(10)).fill(255),
          Uint8Array.of(1),
          out.subarray(at + 1),
        );
        break;
      case 5: {
        // A piece twice.
        const piece = out.slice(at, at + random.below(32));
        out = join(out.subarray(0, at), piece, out.subarray(at));
        break;
      }
      default:
        // Interesting bytes: most positive and negative, empty, one.
        out[at] = [0, 1, 127, 128, 255][random.below(5)]!;
    }
  }
  return out;
}

function join(...parts: readonly Uint8Array[]): Uint8Array {
  const out = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const p of parts) {
    out.set(p, at);
    at += p.length;
  }
  return out;
}

/** What became of a file. Anything else that is thrown is a bug, and thrown on. */
export function judge(bytes: Uint8Array): 'loaded' | 'refused' {
  let loaded: ReturnType<typeof readModel>;
  try {
    loaded = readModel(bytes, { externalData: () => new Uint8Array(64) });
  } catch (error) {
    if (!(error instanceof SkepError) || error.code === 'INTERNAL' || error.message.length < 10) throw error;
    return 'refused';
  }
  // What loads holds together, and can be written (functions of another operator set cannot: said in words).
  verify(loaded);
  try {
    writeModel(loaded);
  } catch (error) {
    if (!(error instanceof SkepError) || error.code === 'INTERNAL') throw error;
  }
  return 'loaded';
}
