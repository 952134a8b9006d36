// docs/configuration.md: the experiments of choosing instances, threads and batch, from published profiles, in virtual
// time, and live.
//
//   node dist/bench/configuration-choice.js [P1 P2 … S1 …] [--quick] [--virtual]
//
// All of them write the page; some of them only print.
import * as live from './configuration/live.js';
import * as model from './configuration/model.js';
import * as published from './configuration/published.js';
import { type Experiment, writePage } from './lib/document.js';

const experiments: Experiment[] = [
  {
    name: 'P1',
    title: 'what threads buy',
    what: 'How many times as fast one batch is with t threads as with one. If t threads were t times as fast, one instance with all of them would always be best, and there would be nothing to choose.',
    async run(page) {
      published.p1(page);
      await page.live(live.p1);
    },
  },
  {
    name: 'P2',
    title: 'the paper’s Table 2',
    what: 'BERT’s published profile, and the multiset of instances with the least makespan for a batch, using only the batch sizes that were measured, as the paper does. That the algorithm equals brute force on random profiles is a test (`test/optimizer/packrat.test.ts`).',
    run: published.p2,
  },
  {
    name: 'P3',
    title: 'expected and actual gain over one fat instance',
    what: 'Times measured alone promise gains that instances running side by side do not keep. So a candidate is judged with the interference among its instances, and, live, the best candidates are run once beside the fat instance (all threads, the whole batch), which stays unless it is beaten.',
    async run(page) {
      published.p3(page);
      await page.live(live.p3);
    },
  },
  {
    name: 'P4',
    title: 'fresh allocation and arenas',
    what: 'Most of the paper’s gain may be its allocator’s: 1.57× becomes 1.13× with another one in its own logs. Skep lays every tensor of a plan into one arena before it runs and allocates nothing while it runs.',
    run: (page) => page.say('Not measured: there is no way to switch the arenas off to compare with.'),
  },
  {
    name: 'P5',
    title: 'interference, and noisy neighbours',
    what: 'How much longer a request takes while k instances run, alone on the machine and beside a thread that streams through memory or one that only computes. The optimizer uses S[k] of the profile, and the controller corrects it by what live batches show.',
    run: (page) => page.live(live.p5),
  },
  {
    name: 'P6',
    title: 'end to end over HTTP',
    what: 'The same as P3, seen by a client.',
    run: (page) => page.say('Not measured: there is no server yet.'),
  },
  {
    name: 'P7',
    title: 'another configuration under load',
    what: 'A closed loop of 8 callers becomes 64 and the model is configured anew for that: nothing may be lost, answers may not stall, and it must end at the optimum of the profile.',
    run: (page) => page.live(live.p7),
  },
  {
    name: 'P8',
    title: 'the batch estimate',
    what: 'The queue is sampled 200 times a time-out; a moving average, rounded to a power of two with hysteresis, is one vote; the most frequent of the last ten decides.',
    run: published.p8,
  },
  {
    name: 'P9',
    title: 'against one-thread instances',
    what: 'The other extreme: as many instances as there are threads. Published profiles, any batch size, without interference.',
    run: published.p9,
  },
  {
    name: 'P10',
    title: 'any batch size',
    what: 'ResNet-50 at batch 24, published profile: pieces of any size, against only those that were measured (powers of two).',
    run: published.p10,
  },
  {
    name: 'S1',
    title: 'how constant service is',
    what: 'Times of single requests on one instance, one after another, on this machine as it is.',
    run: (page) => page.live(live.s1),
  },
  {
    name: 'S2',
    title: 'interference against instances',
    what: 'S[k] live, each round paired with one alone, and how well a line fits.',
    run: (page) => page.live(live.s2),
  },
  {
    name: 'S3',
    title: 'predicted and simulated, predicted and measured',
    what: 'Mean latency by the model (a formula for batch 1, a Markov chain for one instance that batches) against long simulations; and a live model against both, at the service time measured in the same minute.',
    async run(page) {
      model.s3(page);
      await page.live(live.s3);
    },
  },
  {
    name: 'S4',
    title: 'which configuration is best at which load',
    what: 'At low load threads make one request fast; at high load instances make many requests go. The chooser’s pick, against simulating every configuration, at loads up to 95 % of what the best can do.',
    run: model.s4,
  },
  {
    name: 'S5',
    title: 'a load that changes',
    what: 'Low, high, low. The controller sees arrivals and batches only. It must beat every configuration that stays the same, and come near an oracle that knows when the load changes.',
    async run(page) {
      model.s5(page);
      await page.live(live.s5);
    },
  },
  {
    name: 'S6',
    title: 'what predicting costs',
    what: 'Every configuration of a 16-core machine at 100 loads, against measuring each of them.',
    run: model.s6,
  },
  {
    name: 'S7',
    title: 'the other objectives',
    what: 'Least p99, fewest threads within a limit, most throughput within a limit: each pick against simulating all configurations.',
    run: model.s7,
  },
  {
    name: 'S8',
    title: 'arrivals that are not Poisson',
    what: 'Regular, bursty and heavy-tailed gaps: how wrong the model is when it takes them for Poisson, and when waiting is scaled by the squared coefficient of variation of the gaps. Where gaps have no variance no correction of a mean can help.',
    run: model.s8,
  },
];

await writePage(
  'configuration',
  'Choosing instances, threads and batch: the experiments',
  'Written by `npm run bench:configuration`; do not edit. Packrat’s optimizer (Bhardwaj et al., ICML 2025) and a queueing model in the spirit of SERF (Yan et al., IEEE TNSM 2018), on published profiles, in virtual time and live on this machine.',
  experiments,
);
