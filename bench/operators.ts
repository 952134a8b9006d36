// Single operators against the peers, one thread each, in one run.
//
//   node dist/bench/operators.js [PATTERN…] [--peers web,node,tfjs] [--rounds 15] [--build plain|fma] [--json]
//
// V8 flags are the process's, so every engine has the same: node --experimental-wasm-revectorize dist/bench/operators.js
import { operatorCases } from './lib/operators.js';
import { runSuite } from './lib/suite.js';

await runSuite('operators', operatorCases);
