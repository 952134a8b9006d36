// Whole models against the peers, one thread each, in one run.
//
//   node dist/bench/models.js [PATTERN…] [--peers web,node] [--rounds 15] [--build plain|fma] [--json]
import { modelCases } from './lib/networks.js';
import { runSuite } from './lib/suite.js';

await runSuite('models', modelCases);
