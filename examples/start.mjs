// npm start: reads the text in two pictures and finds the speech in a recording, and says how long it took and how it was
// served. Builds first when that has not been done.
//
//   npm start [-- --once]     (--once: do not go on serving; there is no server yet, so it always ends)
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

parseArgs({ options: { once: { type: 'boolean' } } });

const entry = fileURLToPath(import.meta.resolve('skep'));
if (!existsSync(entry)) {
  console.log('Building…');
  const cwd = path.join(path.dirname(entry), '../..');
  const { status } = spawnSync('npm', ['run', 'build'], { cwd, stdio: 'inherit', shell: process.platform === 'win32' });
  if (status !== 0) process.exit(1);
}
const { openReader } = await import('./ocr.mjs');
const { openDetector } = await import('./speech.mjs');
const { readImage } = await import('./lib/image.mjs');
const { readWav, resample } = await import('./lib/wav.mjs');

const asset = (name) => fileURLToPath(new URL(`./assets/${name}`, import.meta.url));
const ms = (t) => `${t.toFixed(0)} ms`;

/** Awaits `work` and gives its answer with the milliseconds it took. */
async function timed(work) {
  const started = performance.now();
  const answer = await work();
  return [answer, performance.now() - started];
}

/** How a model was served: its configuration and what its statistics say. */
function served(name, model) {
  const groups = model.configuration.map(
    ({ instances, threads, batch }) => `${instances} instance × ${threads} thread × batch ${batch}`,
  );
  const { answered, computing, queued } = model.stats();
  const times = `${ms(computing.mean)} computing and ${ms(queued.mean)} queued on average`;
  console.log(`  ${name}: ${groups.join(' + ')}, ${model.build} kernels; ${answered} requests, ${times}`);
}

const [reader, loadedReader] = await timed(openReader);
console.log(`PP-OCRv4: detection and recognition loaded in ${ms(loadedReader)}`);
for (const name of ['screenshot.png', 'sign.jpg']) {
  const [words, time] = await timed(() => reader.read(readImage(asset(name))));
  console.log(`\n${name}: ${words.length} pieces of text in ${ms(time)}`);
  for (const { text, score, corners } of words) {
    const box = corners.map((p) => p.map(Math.round).join(',')).join(' ');
    console.log(`  ${text.padEnd(44)} ${score.toFixed(2)}  ${box}`);
  }
}

const [detector, loadedDetector] = await timed(openDetector);
console.log(`\nSilero VAD loaded in ${ms(loadedDetector)}`);
const { sampleRate, samples } = readWav(asset('speech.wav'));
const [segments, time] = await timed(() => detector.find(resample(samples, sampleRate, 16000)));
const length = (samples.length / sampleRate).toFixed(1);
console.log(`\nspeech.wav: ${segments.length} segments of speech in ${length} s of sound, found in ${ms(time)}`);
for (const { start, end } of segments) console.log(`  ${start.toFixed(2)} s to ${end.toFixed(2)} s`);

console.log(`\nServed in this process by worker threads, Node ${process.versions.node}:`);
served('detection', reader.models.detection);
served('recognition', reader.models.recognition);
served('speech', detector.model);
await Promise.all([reader.close(), detector.close()]);
