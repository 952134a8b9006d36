// The examples' modules, which are plain JavaScript outside dist/, with the types the tests rely on.
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Model, Tensor } from '../../src/index.js';
import { root } from '../data.js';

export type Point = readonly [x: number, y: number];

export interface Image {
  readonly width: number;
  readonly height: number;
  readonly data: Uint8Array;
}

export interface Rectangle {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly angle: number;
}

interface Modules {
  readonly 'lib/image.mjs': {
    readImage(file: string): Image;
    resize(image: Image, width: number, height: number): Image;
    warp(image: Image, corners: readonly Point[], width: number, height: number): Image;
    toTensor(image: Image, mean: readonly number[], std: readonly number[], width?: number): Tensor<'float32'>;
  };
  readonly 'lib/boxes.mjs': {
    findBoxes(map: Float32Array, width: number, height: number): { corners: Point[]; score: number }[];
    convexHull(points: readonly Point[]): Point[];
    smallestRectangle(points: readonly Point[]): Rectangle;
  };
  readonly 'lib/wav.mjs': {
    readWav(file: string): { sampleRate: number; samples: Float32Array };
    resample(samples: Float32Array, from: number, to: number): Float32Array;
  };
  readonly 'ocr.mjs': {
    openReader(): Promise<{
      read(image: Image): Promise<{ text: string; score: number; corners: Point[] }[]>;
      close(): Promise<void>;
    }>;
    decode(output: unknown, characters: readonly string[]): { text: string; score: number };
  };
  readonly 'speech.mjs': {
    openDetector(): Promise<{
      readonly model: Model;
      find(samples: Float32Array): Promise<{ start: number; end: number }[]>;
      close(): Promise<void>;
    }>;
    segments(probabilities: readonly number[], duration: number): { start: number; end: number }[];
  };
}

/** A file of examples/. */
export function example(name: string): string {
  return path.join(root, 'examples', name);
}

/** Imports a module of examples/. */
export async function importExample<K extends keyof Modules>(name: K): Promise<Modules[K]> {
  return (await import(pathToFileURL(example(name)).href)) as Modules[K];
}
