// Small models the tests run, written with the graph builder.
import { GraphBuilder } from '../src/graph/builder.js';
import { writeModel } from '../src/onnx/writer.js';

/** y = x·W₁·W₂·…: `layers` products with [width, width] weights, input [batch, width]. */
export function chain(layers: number, width: number): Uint8Array {
  const g = new GraphBuilder('chain');
  const x = g.input('x', 'float32', ['batch', width]);
  let y = x;
  for (let i = 0; i < layers; i++) y = g.matmul(y, g.weights([width, width]));
  g.output('y', y);
  return writeModel(g.model());
}

/** y = x + 1 and twice = 2·x, input [n]. */
export function plusOne(): Uint8Array {
  const g = new GraphBuilder('plus one');
  const x = g.input('x', 'float32', ['n']);
  g.output('y', g.binary('Add', x, 1));
  g.output('twice', g.binary('Mul', x, 2));
  return writeModel(g.model());
}
