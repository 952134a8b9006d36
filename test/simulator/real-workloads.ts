// Reads the workloads of the test data into plain arrays, for the conformance tests and the bench.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { WorkItem } from '../../src/cellular/policy.js';
import { pairs, treeFromBits, trees } from '../../src/simulator/workload.js';

const read = (folder: string, name: string) => JSON.parse(readFileSync(path.join(folder, 'workloads', name), 'utf8'));

/** Lengths of WikiText-2's test sentences. */
export function sentences(folder: string): number[] {
  return read(folder, 'wikitext2-lengths.json').splits.test.sentences;
}

/** Multi30k, English to German, at most 50 decoder steps. */
export function captions(folder: string): WorkItem[] {
  return pairs(read(folder, 'multi30k-lengths.json').pairs_en_de_fr, 50);
}

/** The parse trees of the Stanford Sentiment Treebank's test part. */
export function parses(folder: string): WorkItem[] {
  const shapes: [number, string][] = read(folder, 'sst-trees.json').trees.test;
  return trees(shapes.map(([leaves, hex]) => treeFromBits(leaves, hex)));
}
