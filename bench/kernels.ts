// The linear kernels alone: time inside the kernels of one node, best of several runs, for every build. Prints the machine.
//
//   node dist/bench/kernels.js [PATTERN]
import os from 'node:os';
import { Program } from '../src/compiler/program.js';
import type { Attribute, Graph } from '../src/graph/graph.js';
import type { Kernel } from '../src/kernels/abi.js';
import { bindKernels, canRun, compileKernelsSync, type Kernels } from '../src/kernels/module.js';
import { SharedConstants } from '../src/runtime/constants.js';
import { Executor } from '../src/runtime/executor.js';
import { Heap, ModelMemory } from '../src/runtime/memory.js';
import { createTeamBuffer, TeamLeader } from '../src/runtime/team.js';
import { sizeOf } from '../src/tensor/shape.js';
import { Tensor } from '../src/tensor/tensor.js';

interface Case {
  readonly name: string;
  readonly op: string;
  /** The first is fed, the others are constants. */
  readonly inputs: readonly (readonly number[])[];
  readonly attributes?: Readonly<Record<string, Attribute>>;
  readonly flops: number;
}

const ints = (...value: number[]): Attribute => ({ kind: 'ints', value });
const int = (value: number): Attribute => ({ kind: 'int', value });

function matMul(m: number, k: number, n: number): Case {
  return {
    name: `[${m},${k}]×[${k},${n}]`,
    op: 'MatMul',
    inputs: [
      [m, k],
      [k, n],
    ],
    flops: 2 * m * k * n,
  };
}

function conv(c: number, m: number, size: number, kernel: number, stride = 1, group = 1): Case {
  const pad = (kernel - 1) >> 1;
  const out = Math.floor((size + 2 * pad - kernel) / stride) + 1;
  return {
    name: `${group > 1 ? 'depthwise ' : ''}${kernel}×${kernel}${stride > 1 ? `/${stride}` : ''} ${c}→${m} @${size}`,
    op: 'Conv',
    inputs: [[1, c, size, size], [m, c / group, kernel, kernel], [m]],
    attributes: { pads: ints(pad, pad, pad, pad), strides: ints(stride, stride), group: int(group) },
    flops: (2 * m * c * kernel * kernel * out * out) / group,
  };
}

function lstm(batch: number, hidden: number): Case {
  return {
    name: `LSTM ${hidden}, batch ${batch}, 4 steps`,
    op: 'LSTM',
    inputs: [
      [4, batch, hidden],
      [1, 4 * hidden, hidden],
      [1, 4 * hidden, hidden],
      [1, 8 * hidden],
    ],
    flops: 4 * 2 * batch * 8 * hidden * hidden,
  };
}

const cases: readonly Case[] = [
  matMul(512, 512, 512),
  matMul(1024, 1024, 1024),
  matMul(8, 1024, 4096),
  matMul(1, 1024, 4096),
  conv(64, 64, 56, 3),
  conv(128, 128, 28, 3),
  conv(512, 512, 7, 3),
  conv(256, 64, 56, 1),
  conv(512, 2048, 7, 1),
  conv(3, 64, 224, 7, 2),
  conv(32, 32, 112, 3, 1, 32),
  conv(64, 64, 112, 3, 2, 64),
  conv(96, 96, 40, 5, 1, 96),
  lstm(1, 1024),
  lstm(8, 1024),
  lstm(64, 1024),
];

function randomTensor(dims: readonly number[]): Tensor {
  const scale = 1 / Math.sqrt(dims.at(-1) ?? 1);
  return new Tensor(
    'float32',
    Float32Array.from({ length: sizeOf(dims) }, () => (Math.random() - 0.5) * scale),
    dims,
  );
}

/** Kernels that add the time they take to `spent`, by name. */
function timed(kernels: Kernels, spent: Map<string, number>): Kernels {
  const wrap =
    (name: string, kernel: Kernel): Kernel =>
    (...args) => {
      const start = performance.now();
      kernel(...args);
      spent.set(name, (spent.get(name) ?? 0) + performance.now() - start);
    };
  return Object.fromEntries(Object.entries(kernels).map(([n, k]) => [n, wrap(n, k)])) as unknown as Kernels;
}

function graphOf(c: Case): { graph: Graph; feeds: Map<string, Tensor> } {
  const names = c.inputs.map((_, i) => `x${i}`);
  const tensors = c.inputs.map(randomTensor);
  const node = {
    op: c.op,
    domain: '',
    opset: 22,
    name: '',
    inputs: names,
    outputs: ['y'],
    attributes: c.attributes ?? {},
  };
  const graph: Graph = {
    name: 'bench',
    inputs: [{ name: 'x0' }],
    outputs: [{ name: 'y' }],
    initializers: new Map(names.slice(1).map((n, i) => [n, tensors[i + 1]!])),
    nodes: [node],
  };
  return { graph, feeds: new Map([['x0', tensors[0]!]]) };
}

const pattern = process.argv[2] ?? '';
console.log(`${os.cpus()[0]?.model ?? '?'}, ${os.cpus().length} CPUs, node ${process.version}, one thread`);
for (const build of (['plain', 'fma'] as const).filter(canRun)) {
  const module = compileKernelsSync(build);
  console.log(`\n${build}`);
  for (const c of cases.filter((c) => c.name.includes(pattern))) {
    const memory = new ModelMemory();
    const heap = new Heap(memory);
    const spent = new Map<string, number>();
    const kernels = timed(bindKernels(module, memory.memory), spent);
    const executor = new Executor(memory, new TeamLeader(createTeamBuffer(), kernels, 1, false), heap);
    const { graph, feeds } = graphOf(c);
    const program = new Program(graph, { build }, new SharedConstants(SharedConstants.createBuffer(), memory, heap));
    let best = { total: Number.POSITIVE_INFINITY, parts: '' };
    const until = performance.now() + 600;
    for (let i = 0; i < 20 || performance.now() < until; i++) {
      spent.clear();
      executor.run(program, feeds, ['y'], () => {});
      const total = [...spent.values()].reduce((a, b) => a + b, 0);
      if (total >= best.total) continue;
      best = { total, parts: [...spent].map(([n, ms]) => `${n} ${ms.toFixed(3)}`).join(', ') };
    }
    const rate = (c.flops / best.total / 1e6).toFixed(1).padStart(6);
    console.log(`${c.name.padEnd(34)}${best.total.toFixed(3).padStart(9)} ms ${rate} GFLOP/s   ${best.parts}`);
  }
}
