// A case as an ONNX file that onnxruntime-web can be asked about. It takes and gives tensors only, so values that are none
// are made of tensors before the node and taken apart after it:
//
//   x0_0, x0_1 ─▶ SequenceConstruct ─▶ x0 ─▶ node ─▶ y0 ─▶ SequenceLength, SequenceAt … ─▶ y0_n, y0_0, y0_1
import type { Graph, Model, Node } from '../../../src/graph/graph.js';
import { writeModel } from '../../../src/onnx/writer.js';
import type { HostValue } from '../../../src/operators/operator.js';
import { Tensor } from '../../../src/tensor/tensor.js';
import { graphOf } from '../../operators/harness.js';
import { attributes, type Case } from './generator.js';

/** What the oracle is asked. */
interface Question {
  readonly bytes: Uint8Array;
  readonly feeds: Map<string, Tensor>;
  /** The node's outputs from the oracle's. */
  collect(outputs: Readonly<Record<string, Tensor>>): HostValue[];
}

/** The operator set that goes with nodes of other domains. */
const BESIDE = 21;

const wanted = /^Optional/;

/** `like` are the outputs Skep gave: they tell which are sequences, and of what length. */
export function questionOf(c: Case, like: readonly HostValue[]): Question {
  const { graph, feeds } = graphOf(c);
  const plain = c.domain === undefined || c.domain === '';
  const opset = plain ? c.opset : BESIDE;
  const before: Node[] = [];
  const after: Node[] = [];
  const tensors = new Map<string, Tensor>();
  const node = (op: string, inputs: string[], output: string, attrs: Parameters<typeof attributes>[0] = {}): Node => ({
    op,
    domain: '',
    opset,
    name: '',
    inputs,
    outputs: [output],
    attributes: attributes(attrs),
  });
  const make = (name: string, value: HostValue): void => {
    if (value instanceof Tensor) {
      tensors.set(name, value);
    } else if (value === null)
      before.push(
        node('Optional', [], name, {
          type: { kind: 'type', value: { kind: 'tensor', type: 'float32', dims: [] } },
        }),
      );
    else if (value.length === 0) before.push(node('SequenceEmpty', [], name));
    else {
      const names = value.map((v, i) => {
        make(`${name}_${i}`, v);
        return `${name}_${i}`;
      });
      before.push(node('SequenceConstruct', names, name));
    }
  };
  // Before version 18 only optionals are asked what they hold.
  const boxed = wanted.test(c.op) && c.op !== 'Optional' && c.opset < 18;
  for (const [name, v] of feeds) {
    make(boxed && v !== null ? `${name}_in` : name, v);
    if (boxed && v !== null) before.push(node('Optional', [`${name}_in`], name));
  }
  const initializers = new Map(graph.initializers);
  const outputs: string[] = [];
  const readers = like.map((value, i): ((found: Readonly<Record<string, Tensor>>) => HostValue) => {
    let name = graph.outputs[i]!.name;
    if (c.op === 'Optional') {
      after.push(node('OptionalGetElement', [name], `${name}_got`));
      name = `${name}_got`;
    }
    if (!Array.isArray(value)) {
      outputs.push(name);
      return (found) => found[name]!;
    }
    after.push(node('SequenceLength', [name], `${name}_n`));
    outputs.push(`${name}_n`);
    const parts = value.map((_, k) => {
      initializers.set(`${name}_at${k}`, new Tensor('int64', [k], []));
      after.push(node('SequenceAt', [name, `${name}_at${k}`], `${name}_${k}`));
      outputs.push(`${name}_${k}`);
      return `${name}_${k}`;
    });
    return (found) => {
      if (Number(found[`${name}_n`]!.data[0]) !== parts.length) return [];
      return parts.map((p) => found[p]!);
    };
  });
  const wrapped: Graph = {
    ...graph,
    inputs: [...tensors].map(([name, t]) => ({
      name,
      type: { kind: 'tensor', type: t.type, dims: t.dims.map((_, i) => `${name}_d${i}`) },
    })),
    outputs: outputs.map((name) => ({ name })),
    initializers,
    nodes: [...before, ...graph.nodes, ...after],
  };
  const model: Model = {
    graph: wrapped,
    irVersion: opset >= 21 ? 10 : 8,
    opsets: new Map([['', opset], ...(plain ? [] : ([[c.domain!, c.opset]] as const))]),
    producer: 'skep',
    metadata: new Map(),
  };
  return { bytes: writeModel(model), feeds: tensors, collect: (found) => readers.map((read) => read(found)) };
}
