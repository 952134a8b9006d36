// The networks by name: what `skep export`, the benchmarks and the tests build.
import { alexnet } from './alexnet.js';
import { bert } from './bert.js';
import { cifar10 } from './cifar10.js';
import { gpt2, gpt2Cache } from './gpt2.js';
import { inceptionV3 } from './inception.js';
import { lenet } from './lenet.js';
import { lstmLanguageModel } from './lstm.js';
import { mobilenetV2 } from './mobilenet.js';
import type { Network } from './network.js';
import { resnet50 } from './resnet.js';
import { seq2seq, seq2seqDecoder, seq2seqEncoder } from './seq2seq.js';
import { childSumInner, childSumLeaf, treeLstmInner, treeLstmLeaf } from './tree-lstm.js';

/** Every network, recurrent ones first, then image networks by size, then transformers. */
export const networks: ReadonlyMap<string, Network> = new Map(
  [
    lstmLanguageModel,
    seq2seqEncoder,
    seq2seqDecoder,
    seq2seq,
    treeLstmLeaf,
    treeLstmInner,
    childSumLeaf,
    childSumInner,
    lenet,
    cifar10,
    alexnet,
    mobilenetV2,
    resnet50,
    inceptionV3,
    bert,
    gpt2,
    gpt2Cache,
  ].map((n) => [n.name, n]),
);
