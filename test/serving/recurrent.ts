// Random recurrent models and requests of them, and a host that serves them as a test wants.
import type { Attribute, Graph, Node, ValueInfo } from '../../src/graph/graph.js';
import { defaultBuild } from '../../src/kernels/module.js';
import { writeModel } from '../../src/onnx/writer.js';
import type { HostValue } from '../../src/operators/operator.js';
import { newMemory } from '../../src/runtime/memory.js';
import { Host, type HostOptions } from '../../src/serving/host.js';
import { prepareKernels } from '../../src/serving/prepare.js';
import type { Outcome } from '../../src/serving/requests.js';
import { Tensor } from '../../src/tensor/tensor.js';

export interface RecurrentOptions {
  readonly op: 'LSTM' | 'GRU' | 'RNN';
  readonly layers: number;
  readonly hidden: number;
  readonly input: number;
  readonly direction: 'forward' | 'reverse' | 'bidirectional';
  readonly layout: number;
  readonly bias: boolean;
  readonly lengths: boolean;
  readonly initial: boolean;
  readonly peepholes: boolean;
  readonly clip: boolean;
  readonly special: boolean;
  /** What is done before the first layer, and after the last: nothing, something row-wise over time, something that is not. */
  readonly before: 'nothing' | 'rows' | 'whole';
  readonly after: 'nothing' | 'rows' | 'whole';
}

const int = (value: number): Attribute => ({ kind: 'int', value });

/** Numbers in [−0.5, 0.5) from a function that gives [−1, 1). */
function tensor(next: () => number, dims: readonly number[]): Tensor<'float32'> {
  const size = dims.reduce((a, b) => a * b, 1);
  return new Tensor(
    'float32',
    Float32Array.from({ length: size }, () => next() / 2),
    [...dims],
  );
}

/** An ONNX file: inputs x, and lengths, h and c where asked for; outputs y, and the last states. */
export function recurrentModel(o: RecurrentOptions, next: () => number): SharedArrayBuffer {
  const nodes: Node[] = [];
  const initializers = new Map<string, Tensor>();
  const gates = { LSTM: 4, GRU: 3, RNN: 1 }[o.op];
  const directions = o.direction === 'bidirectional' ? 2 : 1;
  const first = o.layout === 1;
  let values = 0;
  const weight = (dims: readonly number[]): string => {
    const name = `w${initializers.size}`;
    initializers.set(name, tensor(next, dims));
    return name;
  };
  const constant = (data: readonly number[]): string => {
    const name = `k${initializers.size}`;
    initializers.set(name, new Tensor('int64', [...data], [data.length]));
    return name;
  };
  const node = (op: string, inputs: string[], attributes: Record<string, Attribute> = {}, outputs = 1): string[] => {
    const names = Array.from({ length: outputs }, () => `v${values++}`);
    nodes.push({ op, domain: '', opset: 17, name: `${op}${nodes.length}`, inputs, outputs: names, attributes });
    return names;
  };
  const named = (name: string, dims: (string | number)[], type: 'float32' | 'int32' = 'float32'): ValueInfo => ({
    name,
    type: { kind: 'tensor', type, dims },
  });
  const inputs = [named('x', first ? ['batch', 'time', o.input] : ['time', 'batch', o.input])];
  const state = first ? ['batch', directions, o.hidden] : [directions, 'batch', o.hidden];
  if (o.lengths) inputs.push(named('lengths', ['batch'], 'int32'));
  if (o.initial) inputs.push(named('h', state));
  if (o.initial && o.op === 'LSTM') inputs.push(named('c', state));
  let x = 'x';
  if (o.before === 'rows') {
    [x] = node('MatMul', [x, weight([o.input, o.input])]) as [string];
    [x] = node('Tanh', [x]) as [string];
  }
  // Every time sees the sum over all of them.
  const time = first ? 1 : 0;
  const mixed = (y: string): string => {
    const [sum] = node('ReduceSum', [y, constant([time])]) as [string];
    return node('Add', [y, sum])[0]!;
  };
  if (o.before === 'whole') x = mixed(x);
  const states: string[] = [];
  let width = o.input;
  for (let layer = 0; layer < o.layers; layer++) {
    const fed = layer === 0;
    const args = [
      x,
      weight([directions, gates * o.hidden, width]),
      weight([directions, gates * o.hidden, o.hidden]),
      o.bias ? weight([directions, 2 * gates * o.hidden]) : '',
      o.lengths ? 'lengths' : '',
      o.initial && fed ? 'h' : '',
    ];
    if (o.op === 'LSTM') {
      args.push(o.initial && fed ? 'c' : '');
      if (o.peepholes) args.push(weight([directions, 3 * o.hidden]));
    }
    const [y, ...last] = node(
      o.op,
      args,
      {
        direction: { kind: 'string', value: o.direction },
        hidden_size: int(o.hidden),
        layout: int(o.layout),
        ...(o.clip && { clip: { kind: 'float', value: 0.4 } satisfies Attribute }),
        ...(o.special && o.op === 'GRU' && { linear_before_reset: int(1) }),
        ...(o.special && o.op === 'LSTM' && { input_forget: int(1) }),
      },
      o.op === 'LSTM' ? 3 : 2,
    ) as [string, ...string[]];
    states.push(...last);
    width = directions * o.hidden;
    // [time, directions, batch, hidden] or [batch, time, directions, hidden] to [.., .., directions · hidden].
    const turned = first ? y : node('Transpose', [y], { perm: { kind: 'ints', value: [0, 2, 1, 3] } })[0]!;
    [x] = node('Reshape', [turned, constant([0, 0, width])]) as [string];
  }
  if (o.after === 'rows') {
    [x] = node('MatMul', [x, weight([width, 5])]) as [string];
    [x] = node('Softmax', [x], { axis: int(-1) }) as [string];
  } else if (o.after === 'whole') x = mixed(x);
  const [y] = node('Identity', [x]) as [string];
  const graph: Graph = {
    name: 'recurrent',
    inputs,
    outputs: [y, ...states].map((name) => ({ name })),
    initializers,
    nodes,
  };
  const bytes = writeModel({ graph, irVersion: 8, opsets: new Map([['', 17]]), producer: 'test', metadata: new Map() });
  const shared = new SharedArrayBuffer(bytes.length);
  new Uint8Array(shared).set(bytes);
  return shared;
}

/** Inputs of one request, in the model's order. `below(n)`: a random whole number. */
export function recurrentFeeds(
  o: RecurrentOptions,
  times: number,
  batch: number,
  next: () => number,
  below: (n: number) => number,
): HostValue[] {
  const directions = o.direction === 'bidirectional' ? 2 : 1;
  const state = o.layout === 1 ? [batch, directions, o.hidden] : [directions, batch, o.hidden];
  const feeds: HostValue[] = [tensor(next, o.layout === 1 ? [batch, times, o.input] : [times, batch, o.input])];
  if (o.lengths)
    feeds.push(
      new Tensor(
        'int32',
        Int32Array.from({ length: batch }, () => below(times + 1)),
        [batch],
      ),
    );
  if (o.initial) feeds.push(tensor(next, state));
  if (o.initial && o.op === 'LSTM') feeds.push(tensor(next, state));
  return feeds;
}

const kernels = new Map<string, ReturnType<typeof prepareKernels>>();

export interface TestHostOptions extends Partial<HostOptions> {
  readonly instances?: number;
  /** 1 runs every request alone, in one piece. */
  readonly batch?: number | undefined;
}

/** Starts a host; by default one instance, up to 8 rows at once. */
export async function startHost(
  bytes: SharedArrayBuffer,
  { instances = 1, batch = 8, ...options }: TestHostOptions = {},
): Promise<Host> {
  const build = options.build ?? defaultBuild();
  if (!kernels.has(build)) kernels.set(build, prepareKernels(build, false));
  const { host } = await Host.start(
    { kind: 'bytes', bytes },
    {
      build,
      kernels: kernels.get(build)!,
      weights: 'float32',
      winograd: true,
      groups: [{ instances, threads: 1, batch }],
      threads: 4,
      maxQueue: 1000,
      memory: { memory: newMemory(), stagingBytes: 0 },
      ...options,
    },
  );
  return host;
}

export function request(host: Host, feeds: readonly HostValue[], wanted: readonly number[]): Promise<Outcome> {
  return new Promise((resolve) => {
    host.submit(feeds, wanted, resolve);
  });
}

/** The values of an outcome; throws when it failed. */
export function valuesOf(outcome: Outcome): Tensor[] {
  if (outcome.status === 'failed') throw outcome.error;
  return outcome.values as Tensor[];
}
