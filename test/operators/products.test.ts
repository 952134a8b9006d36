// Operators lowered to matrix products between rearranging copies: Einsum, DFT, STFT; kernels against the references,
// which are the sums of the definitions.
import fc from 'fast-check';
import { test } from 'uvu';
import type { Attribute } from '../../src/graph/graph.js';
import { sizeOf } from '../../src/tensor/shape.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { check } from './harness.js';

const int = (value: number): Attribute => ({ kind: 'int', value });
const int64 = (value: number) => new Tensor('int64', [value], []);
const loose = { rtol: 1e-4, atol: 1e-4 };

function wave(dims: readonly number[], shift = 0): Tensor {
  const data = Float32Array.from({ length: sizeOf(dims) }, (_, i) => Math.sin(i * 0.7 + shift) + ((i * 7) % 5) / 5);
  return new Tensor('float32', data, dims);
}

function einsum(equation: string, ...shapes: number[][]): void {
  const inputs = shapes.map((d, i) => wave(d, i));
  check({ op: 'Einsum', inputs, attributes: { equation: { kind: 'string', value: equation } } }, loose);
}

test('Einsum: products, batches, permuted results, diagonals, ellipses', () => {
  einsum('ij,jk->ik', [3, 4], [4, 5]);
  einsum('bij,bjk->bik', [2, 3, 4], [2, 4, 5]);
  einsum('bqhd,bkhd->bhqk', [2, 3, 4, 5], [2, 6, 4, 5]);
  einsum('bhqk,bkhd->bqhd', [2, 4, 3, 6], [2, 6, 4, 5]);
  einsum('i,j->ji', [3], [4]);
  einsum('i,i->', [9], [9]);
  einsum('...ij,jk->...ik', [2, 3, 4, 5], [5, 6]);
  einsum('ij,ij->ij', [3, 4], [3, 4]);
  einsum('iij,jk->ik', [4, 4, 5], [5, 2]);
  einsum('ij->ji', [3, 4]);
  einsum('ii->i', [4, 4]);
  einsum('b...d,d->b...', [2, 3, 5], [5]);
  einsum('ij,jk->ik', [0, 4], [4, 5]);
});

const letters = 'abcdef'.split('');
test('Einsum: random equations of two operands', () =>
  fc.assert(
    fc.property(
      fc.record({
        parts: fc.array(fc.constantFrom('batch', 'rows', 'columns', 'inner'), { minLength: 1, maxLength: 5 }),
        sizes: fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 5, maxLength: 5 }),
        seed: fc.integer({ min: 0, max: 1e6 }),
      }),
      ({ parts, sizes, seed }) => {
        const names = (not: string) => {
          const list = letters.filter((_, i) => parts[i] !== undefined && parts[i] !== not);
          // A rotation is shuffling enough.
          const r = seed % Math.max(1, list.length);
          return [...list.slice(r), ...list.slice(0, r)];
        };
        const [a, b, y] = [names('columns'), names('rows'), names('inner')];
        const dims = (list: string[]) => list.map((l) => sizes[letters.indexOf(l)]!);
        einsum(`${a.join('')},${b.join('')}->${y.join('')}`, dims(a), dims(b));
      },
    ),
    { numRuns: 40, includeErrorInReport: true },
  ));

test('DFT: real and complex, forward and back, one-sided, cut and padded, any axis', () =>
  fc.assert(
    fc.property(
      fc.record({
        dims: fc.tuple(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 2, max: 9 }), fc.integer({ min: 1, max: 4 })),
        axis: fc.constantFrom(0, 1, 2, -2),
        length: fc.option(fc.integer({ min: 1, max: 12 }), { nil: undefined }),
        form: fc.constantFrom('real', 'complex', 'inverse', 'half', 'half inverse'),
      }),
      ({ dims, axis, length, form }) => {
        const inverse = form.endsWith('inverse');
        const onesided = form.startsWith('half');
        const at: number = axis < 0 ? 2 : axis;
        const n = dims[at]!;
        if (onesided && inverse && n < 2 && length === undefined) return;
        const parts = form === 'real' || form === 'half' ? 1 : 2;
        check(
          {
            op: 'DFT',
            opset: 20,
            inputs: [wave([...dims, parts]), length === undefined ? undefined : int64(length), int64(axis)],
            constants: [1, 2],
            attributes: { inverse: int(inverse ? 1 : 0), onesided: int(onesided ? 1 : 0) },
          },
          loose,
        );
      },
    ),
    { numRuns: 60, includeErrorInReport: true },
  ));

test('STFT: frames that overlap, with and without a window, one-sided and not', () => {
  for (const [onesided, parts] of [
    [1, 1],
    [0, 1],
    [0, 2],
  ] as const)
    for (const window of [undefined, wave([8])])
      check(
        {
          op: 'STFT',
          inputs: [wave([2, 41, parts]), int64(3), window, int64(8)],
          constants: [1, 2, 3],
          attributes: { onesided: int(onesided) },
        },
        loose,
      );
});

test.run();
