// Convolutions and matrix products take in what follows them, and only where that is valid.
import { test } from 'uvu';
import { float, type GraphBuilder, type Value } from '../../src/graph/builder.js';
import type { Node } from '../../src/graph/graph.js';
import { checkFusion, checkUntouched, graphOf } from './fusion.js';

const image = [2, 4, 6, 5];

/** A 3×3 convolution to 6 channels that keeps height and width. */
function conv(g: GraphBuilder, x: Value, bias = true): Value {
  return g.conv2d(x, g.weights([6, 4, 3, 3]), bias ? g.weights([6]) : undefined, { pads: [1, 1, 1, 1] });
}

const positive = (g: GraphBuilder, n: number) => g.weights([n], { offset: 1.5, scale: 0.5 });

function batchNorm(g: GraphBuilder, x: Value, n: number): Value {
  return g.batchNorm(x, positive(g, n), g.weights([n]), g.weights([n]), positive(g, n));
}

test('batch normalization goes into the weights', () => {
  for (const bias of [true, false])
    checkFusion(
      graphOf(image, (g, x) => batchNorm(g, conv(g, x, bias), 6)),
      ['Conv'],
    );
});

test('grouped and depthwise convolutions take it too', () => {
  const options = { pads: [1, 1, 1, 1] };
  checkFusion(
    graphOf(image, (g, x) =>
      batchNorm(g, g.conv2d(x, g.weights([6, 2, 3, 3]), undefined, { ...options, group: 2 }), 6),
    ),
    ['Conv'],
  );
  checkFusion(
    graphOf(image, (g, x) => batchNorm(g, g.depthwiseConv2d(x, g.weights([4, 1, 3, 3]), undefined, options), 4)),
    ['Conv'],
  );
});

test('transposed convolutions have their channels on the other axis', () => {
  for (const group of [1, 2])
    checkFusion(
      graphOf(image, (g, x) => {
        const y = g.op('ConvTranspose', [x, g.weights([4, 3, 2, 2]), g.weights([3 * group])], {
          group,
          strides: [2, 2],
        });
        return g.relu(batchNorm(g, y, 3 * group));
      }),
      ['skep:ConvTranspose'],
    );
});

test('a training batch normalization stays', () => {
  const graph = graphOf(image, (g, x) => {
    const inputs = [conv(g, x), positive(g, 6), g.weights([6]), g.weights([6]), positive(g, 6)];
    return g.op('BatchNormalization', inputs, { training_mode: 1 }, 3)[0]!;
  });
  checkUntouched(graph);
});

test('scales and shifts of channels go into weights and bias, and an activation after them', () => {
  checkFusion(
    graphOf(image, (g, x) => {
      const scaled = g.mul(g.constant('float32', [0.7], [1]), conv(g, x));
      const shifted = g.add(g.sub(scaled, g.weights([6, 1, 1])), g.constant('float32', [0.25], [1]));
      return g.relu(g.div(shifted, g.weights([1, 6, 1, 1], { offset: 2, scale: 0.5 })));
    }),
    ['skep:Conv'],
  );
});

test('constant minus result scales by −1; constant over result does not', () => {
  checkFusion(
    graphOf(image, (g, x) => g.sub(g.weights([6, 1, 1]), conv(g, x))),
    ['Conv'],
  );
  checkUntouched(graphOf(image, (g, x) => g.div(g.weights([6, 1, 1]), conv(g, x))));
});

test('what varies within a channel is no scale, and what is shared by two readers is not changed', () => {
  checkUntouched(graphOf(image, (g, x) => g.mul(conv(g, x), g.weights([6, 1, 5]))));
  checkUntouched(graphOf(image, (g, x) => g.mul(conv(g, x), g.weights([5]))));
  checkUntouched(
    graphOf(image, (g, x) => {
      const c = conv(g, x);
      return [g.relu(c), g.sigmoid(c)];
    }),
  );
});

test('a value that is an output itself is not swallowed', () => {
  checkUntouched(
    graphOf(image, (g, x) => {
      const c = conv(g, x);
      return [c, g.relu(c)];
    }),
  );
});

test('a constant that widens the result is no bias', () => {
  // [1, 4, 6, 5] + [3, 1, 1, 1] has three images.
  checkUntouched(graphOf([1, 4, 6, 5], (g, x) => g.add(conv(g, x), g.weights([3, 1, 1, 1]))));
});

test('a residual and then an activation', () => {
  checkFusion(
    graphOf([2, 6, 6, 5], (g, x) => {
      const y = g.conv2d(x, g.weights([6, 6, 3, 3]), g.weights([6]), { pads: [1, 1, 1, 1] });
      return g.relu(g.add(y, x));
    }),
    ['skep:Conv'],
  );
  // Two branches of a residual network: the later convolution adds the other's result.
  checkFusion(
    graphOf(image, (g, x) => g.relu(g.op('Sum', [conv(g, x), batchNorm(g, conv(g, x), 6)]))),
    ['Conv', 'skep:Conv'],
  );
});

test('nothing is added behind an activation, nothing folded behind a residual', () => {
  checkFusion(
    graphOf(image, (g, x) => g.add(g.relu(conv(g, x)), g.weights([6, 1, 1]))),
    ['skep:Conv', 'Add'],
  );
  checkFusion(
    graphOf([2, 6, 6, 5], (g, x) => {
      const y = g.conv2d(x, g.weights([6, 6, 1, 1]));
      return g.mul(g.add(y, x), g.weights([6, 1, 1]));
    }),
    ['skep:Conv', 'Mul'],
  );
});

test('a residual of another shape stays an Add', () => {
  checkUntouched(graphOf([2, 6, 6, 5], (g, x) => g.add(g.conv2d(x, g.weights([1, 6, 1, 1])), x)));
});

const matrix = [2, 3, 8];

test('matrix products take a bias, a residual and an activation', () => {
  checkFusion(
    graphOf(matrix, (g, x) => g.sigmoid(g.add(g.add(g.matmul(x, g.weights([8, 8])), g.weights([8])), x))),
    ['skep:MatMul'],
  );
  checkFusion(
    graphOf([3, 8], (g, x) => g.tanh(g.gemm(x, g.weights([8, 5]), g.weights([5])))),
    ['skep:Gemm'],
  );
  checkFusion(
    graphOf([3, 8], (g, x) => g.relu(g.gemm(x, g.weights([5, 8]), undefined, { transB: true }))),
    ['skep:Gemm'],
  );
});

test('a bias that is computed is a bias too, and on either side', () => {
  const graph = graphOf(matrix, (g, x) => g.add(g.input('b', 'float32', [8]), g.matmul(x, g.weights([8, 8]))));
  checkFusion(graph, ['skep:MatMul']);
});

test('products of vectors have no channels', () => {
  checkUntouched(graphOf([3, 8], (g, x) => g.add(g.matmul(x, g.weights([8])), g.weights([3]))));
});

test('a scale of columns goes into constant weights only', () => {
  checkFusion(
    graphOf(matrix, (g, x) => g.mul(g.matmul(x, g.weights([8, 5])), g.weights([5]))),
    ['MatMul'],
  );
  checkUntouched(graphOf(matrix, (g, x) => g.mul(g.matmul(x, g.input('w', 'float32', [8, 5])), g.weights([5]))));
});

test('a Gemm with alpha or beta keeps its weights', () => {
  checkUntouched(
    graphOf([3, 8], (g, x) => g.mul(g.gemm(x, g.weights([8, 5]), g.weights([5]), { alpha: 0.5 }), g.weights([5]))),
  );
});

test('zeros around the input become the convolution’s own pads', () => {
  const padded = (g: GraphBuilder, x: Value, pads: readonly number[], value?: Value, mode = 'constant') =>
    g.op('Pad', [x, g.ints(pads), value], { mode });
  const both = [0, 0, 1, 2, 0, 0, 0, 1];
  checkFusion(
    graphOf(image, (g, x) => g.conv2d(padded(g, x, both), g.weights([6, 4, 3, 3]), undefined, { pads: [1, 0, 0, 1] })),
    ['Conv'],
  );
  const cases: readonly ((g: GraphBuilder, x: Value) => Value)[] = [
    (g, x) => padded(g, x, both, g.constant('float32', [0.5], [])),
    (g, x) => padded(g, x, both, undefined, 'reflect'),
    (g, x) => padded(g, x, [0, 0, -1, 0, 0, 0, 0, 0]),
    (g, x) => padded(g, x, [0, 1, 0, 0, 0, 0, 0, 0]),
  ];
  for (const make of cases)
    checkUntouched(
      graphOf(image, (g, x) => {
        const p = make(g, x);
        return g.op('Conv', [p, g.weights([6, make === cases[3] ? 5 : 4, 3, 3])]);
      }),
    );
});

test('clips with constant bounds and leaky slopes are activations of a product', () => {
  checkFusion(
    graphOf(image, (g, x) => g.clip(conv(g, x), 0, 1.5)),
    ['skep:Conv'],
  );
  checkFusion(
    graphOf(image, (g, x) => g.unary('LeakyRelu', conv(g, x), { alpha: float(0.1) })),
    ['skep:Conv'],
  );
  checkUntouched(graphOf(image, (g, x) => g.op('Clip', [conv(g, x), g.input('low', 'float32', [])])));
});

test('an activation of a sum or product of tensors is one pass', () => {
  for (const op of ['Add', 'Sub', 'Mul', 'Div'])
    checkFusion(
      graphOf(image, (g, x) => g.relu(g.binary(op, g.neg(x), g.weights([5], { offset: 2, scale: 0.5 })))),
      ['Neg', `skep:${op}`],
      { rtol: 0, atol: 0 },
    );
  checkUntouched(
    graphOf(image, (g, x) => {
      const sum = g.add(g.neg(x), x);
      return [sum, g.relu(sum)];
    }),
  );
});

test('an operand that an attribute aligns elsewhere is no bias', () => {
  // [8, 8] + [8] along axis 0: every row gets one number, not every column.
  const graph = graphOf([8, 8], (g, x) => g.add(g.matmul(x, g.weights([8, 8])), g.weights([8])));
  const nodes = graph.nodes.map((n): Node => {
    const attributes = { broadcast: { kind: 'int', value: 1 }, axis: { kind: 'int', value: 0 } } as const;
    return n.op === 'Add' ? { ...n, opset: 6, attributes } : n;
  });
  checkUntouched({ ...graph, nodes });
});

test.run();
