// docs/cellular-batching.md: the experiments of cellular batching, in virtual time and live.
//
//   node dist/bench/cellular-batching.js [B1 B2 …] [--quick] [--virtual]
//
// All of them write the page; some of them only print.
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { root } from '../test/data.js';
import * as live from './cellular/live.js';
import * as virtual from './cellular/virtual.js';
import { type Experiment, type Page, writePage } from './lib/document.js';

/** Runs a test file and says what it said. */
function tested(page: Page, file: string, what: string): void {
  const { stdout, status } = spawnSync(process.execPath, [path.join(root, 'dist/test', file)], { encoding: 'utf8' });
  const [, passed] = /Passed:\s+(\d+)/.exec(stdout) ?? [];
  page.holds(
    `${what} (\`${file.replace('.js', '.ts')}\`: ${passed ?? 0} tests passed)`,
    status === 0 && passed !== undefined,
  );
}

const experiments: Experiment[] = [
  {
    name: 'B1',
    title: 'what batching buys',
    what: 'How long one step of an LSTM takes for a batch of 1, 2, 4, … rows, live, on one thread: the median of interleaved rounds. Rows a second must saturate; the smallest batch with 95 % of the most is the knee, and what a task of that cell type should hold at most.',
    run: (page) => page.live(live.b1),
  },
  {
    name: 'B2',
    title: 'latency against load',
    what: 'Requests are sentences of different lengths, sent at random (Poisson, open loop) at a share of capacity. Cellular batching lets a request join at the next step and leave with its last; its rivals close a batch and pad it: to the longest of the oldest requests, or within buckets of ten lengths, served in turn; or they run one request at a time. Same kernels, same arrivals. In virtual time steps cost what was measured once (the tables are the same on every machine); live they cost what they cost here.',
    async run(page) {
      virtual.b2(page);
      await page.live(live.b2);
      await page.live(live.b2Narrow);
    },
  },
  {
    name: 'B3',
    title: 'what cells cost',
    what: 'All lengths equal and always more requests than can be served: padding wastes nothing then, so the difference is what cells cost.',
    async run(page) {
      virtual.b3(page);
      await page.live(live.b3);
    },
  },
  {
    name: 'B4',
    title: 'queueing and computing',
    what: 'Where latency goes, by load: until the first cell of a request starts, and from there to its end.',
    async run(page) {
      virtual.b4(page);
      await page.live(live.b4);
    },
  },
  {
    name: 'B5',
    title: 'bucket widths and the variation of lengths',
    what: 'A saturated system in virtual time; lengths of mean 25 with a coefficient of variation from 0 to 1. How many times the throughput of padding and of buckets of 1 to 40 lengths cellular batching has.',
    run: virtual.b5,
  },
  {
    name: 'B6',
    title: 'which cell type goes first',
    what: 'Seq2Seq, an encoder and a decoder that is fed its own last token, in virtual time. When both have ready cells, who is next? `algorithm1` is the paper’s (a full batch, then a type that stands idle, then any; later cells first), `laterFirst` strictly the decoder, `oldestRequest` the type of the oldest request, `alternating` in turn, `fullest`, the default, the type whose batch would be fullest.',
    run: virtual.b6,
  },
  {
    name: 'B7',
    title: 'trees',
    what: 'Binary TreeLSTM over parse trees in virtual time: against closed batches computed depth by depth (TensorFlow Fold) and one tree at a time. That results equal recursion is part of `test/cellular/exact.test.ts`, see B9.',
    run: virtual.b7,
  },
  {
    name: 'B8',
    title: 'tasks submitted at once',
    what: 'The paper hands five tasks to an instance at a time, because launching on a GPU takes long. Here instances pull their work: how many should they take?',
    run: virtual.b8,
  },
  {
    name: 'B9',
    title: 'nothing breaks',
    what: 'Two instances, 100,000 random cells in graphs of every shape, requests cancelled at random: no dependency may be broken, no row leak, and every result must be exact.',
    run: (page) =>
      tested(page, 'cellular/exact.test.js', 'two instances, random graphs and cancels: exact, no row leaks'),
  },
  {
    name: 'B10',
    title: 'beam search and an upgrade under load',
    what: 'Beam searches of different widths beside other requests, and a new version of the model in the middle: tokens must be those of a search alone, nothing may be lost, and no request may mix versions.',
    run: (page) =>
      tested(
        page,
        'cellular/exact.test.js',
        'beam searches and an upgrade under load: tokens as alone, no request lost, none mixes versions',
      ),
  },
];

await writePage(
  'cellular-batching',
  'Cellular batching: the experiments',
  `Written by \`npm run bench:cellular\`; do not edit. What cellular batching is (Gao, Yu, Wu, Li: Low latency RNN inference with cellular batching, EuroSys 2018), measured against its rivals on the same kernels, in virtual time and live. ${virtual.workloads}`,
  experiments,
);
