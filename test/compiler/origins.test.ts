// Errors of shapes say whose shapes they are, and the caller's fault is told from the model's.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Attribute, Dim, Graph, Node, ValueInfo } from '../../src/graph/graph.js';
import { LocalModel } from '../../src/runtime/local.js';
import { SkepError } from '../../src/tensor/errors.js';
import { Tensor, zeros } from '../../src/tensor/tensor.js';

function node(op: string, inputs: string[], outputs: string[], attributes: Record<string, Attribute> = {}): Node {
  return { op, domain: '', opset: 21, name: `the-${op}`, inputs, outputs, attributes };
}

const input = (name: string, dims: readonly Dim[]): ValueInfo => ({
  name,
  type: { kind: 'tensor', type: 'float32', dims },
});

function graph(inputs: ValueInfo[], weights: Record<string, Tensor>, nodes: Node[]): Graph {
  const outputs = [{ name: nodes.at(-1)!.outputs[0]! }];
  return { name: 'g', inputs, outputs, initializers: new Map(Object.entries(weights)), nodes };
}

function failure(g: Graph, feeds: Record<string, readonly number[]>): SkepError {
  try {
    new LocalModel(g).run(new Map(Object.entries(feeds).map(([n, dims]) => [n, zeros('float32', dims)])));
  } catch (error) {
    assert.ok(error instanceof SkepError, String(error));
    return error;
  }
  throw new Error('it ran');
}

test('a shape error says which input, weight and node its shapes come from', () => {
  const g = graph([input('x', ['n', 63])], { w: zeros('float32', [64, 10]) }, [
    node('Relu', ['x'], ['h']),
    node('MatMul', ['h', 'w'], ['y']),
  ]);
  const e = failure(g, { x: [2, 63] });
  assert.is(e.code, 'INVALID_MODEL');
  assert.match(
    e.message,
    /^MatMul 'the-MatMul': .*; inputs: 0: float32 \[2, 63\], output of Relu 'the-Relu'; 1: float32 \[64, 10\], weight 'w'$/,
  );
});

test('an open dimension fed wrong is the caller’s fault, and what would do is said', () => {
  const g = graph([input('x', ['n', 'features'])], { w: zeros('float32', [64, 10]) }, [
    node('MatMul', ['x', 'w'], ['y']),
  ]);
  const e = failure(g, { x: [2, 63] });
  assert.is(e.code, 'INVALID_INPUT');
  assert.match(e.message, /^input 'x' is \[2, 63\], and its dimension 1 must be 64 here: MatMul 'the-MatMul'/);
});

test('a graph that could take no shape is the model’s fault', () => {
  const g = graph([input('x', ['n', 63])], { w: zeros('float32', [64, 10]) }, [node('MatMul', ['x', 'w'], ['y'])]);
  assert.is(failure(g, { x: [2, 63] }).code, 'INVALID_MODEL');
});

test('inputs that disagree on a symbol are named', () => {
  const g = graph([input('a', ['batch', 3]), input('b', ['batch', 3])], {}, [
    node('Relu', ['a'], ['h']),
    node('Add', ['h', 'b'], ['y']),
  ]);
  const e = failure(g, { a: [2, 3], b: [5, 3] });
  assert.is(e.code, 'INVALID_INPUT');
  assert.match(e.message, /^inputs 'a' and 'b' disagree on 'batch': 2 and 5: Add 'the-Add'/);
  // A hint and no contradiction where the graph can run.
  new LocalModel(g).run(
    new Map([
      ['a', zeros('float32', [1, 3])],
      ['b', zeros('float32', [5, 3])],
    ]),
  );
});

test('a mismatch that traces to inputs alone is the caller’s fault', () => {
  const g = graph([input('a', ['p', 3]), input('b', ['q', 3])], {}, [
    node('Relu', ['a'], ['h']),
    node('Relu', ['b'], ['k']),
    node('Add', ['h', 'k'], ['y']),
  ]);
  const e = failure(g, { a: [2, 3], b: [5, 3] });
  assert.is(e.code, 'INVALID_INPUT');
  assert.match(e.message, /^input 'a' \[2, 3\] and input 'b' \[5, 3\] cannot be computed together: Add/);
});

const int64 = (...values: number[]) => new Tensor('int64', values);
const lstm = (state: string, lengths = '') =>
  node('LSTM', ['x', 'w', 'r', '', lengths, state, state === '' ? '' : 'c0'], ['y'], {
    hidden_size: { kind: 'int', value: 4 },
  });
const layer = { w: zeros('float32', [1, 16, 3]), r: zeros('float32', [1, 16, 4]), c0: zeros('float32', [1, 1, 4]) };
const x = input('x', ['time', 'batch', 3]);

test('an LSTM exported at one batch size names the initializer that fixed it', () => {
  const e = failure(graph([x], { ...layer, h0: zeros('float32', [1, 1, 4]) }, [lstm('h0')]), { x: [5, 2, 3] });
  assert.is(e.code, 'INVALID_MODEL');
  assert.match(
    e.message,
    /the model was exported for batch size 1, and X has 2: initial_h is weight 'h0'\. Export it with a dynamic batch axis/,
  );
});

test('an LSTM exported at one batch size: the constant is found through folded nodes', () => {
  const fill = node('ConstantOfShape', ['size'], ['h1']);
  const moved = node('Unsqueeze', ['h1', 'axis'], ['h0']);
  const e = failure(graph([x], { ...layer, size: int64(1, 4), axis: int64(0) }, [fill, moved, lstm('h0')]), {
    x: [5, 2, 3],
  });
  assert.match(e.message, /initial_h is constant, by Unsqueeze 'the-Unsqueeze' from weight 'axis', weight 'size'/);
  const expand = node('Expand', ['zero', 'size'], ['h0']);
  const zero = node('Constant', [], ['zero'], { value_float: { kind: 'float', value: 0 } });
  const f = failure(graph([x], { ...layer, size: int64(1, 1, 4) }, [zero, expand, lstm('h0')]), { x: [5, 2, 3] });
  assert.match(f.message, /initial_h is constant, by Expand 'the-Expand' from .*weight 'size'/);
});

test('an LSTM exported at one batch size: constant sequence lengths', () => {
  const lengths = new Tensor('int32', [5], [1]);
  const e = failure(graph([x], { ...layer, lengths }, [lstm('', 'lengths')]), { x: [5, 2, 3] });
  assert.match(e.message, /exported for batch size 1, and X has 2: sequence_lens is weight 'lengths'/);
});

test('a state that is fed is not blamed', () => {
  const g = graph([x, input('h0', [1, 'b', 4])], layer, [lstm('h0')]);
  const e = failure(g, { x: [5, 2, 3], h0: [1, 3, 4] });
  assert.not.match(e.message, /initial_h is/);
});

test.run();
