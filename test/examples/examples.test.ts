// The examples on their own input: what is written there is read, what is said there is heard.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { example, importExample } from './modules.js';

const { readImage } = await importExample('lib/image.mjs');
const { readWav } = await importExample('lib/wav.mjs');

/** What the pictures say, in reading order. PP-OCRv4's multilingual network often drops spaces between Latin words. */
const written = {
  'screenshot.png': [
    'Invoice 2024-0173',
    'Customer',
    'Willow Lane Apiary',
    'Honey jars, 24 pieces',
    '168.00',
    'Beeswax candles',
    '45.50',
    'Total amount due',
    '213.50',
    'Please pay within thirty days. Thank you!',
    'Cancel',
    'Pay now',
  ],
  'sign.jpg': ['BEE GARDEN', 'Open daily 9:30 - 17:45', 'KEEP DISTANCE', 'Tickets at the old mill'],
};

test('ocr.mjs reads a screenshot and a photographed sign', async () => {
  const { openReader } = await importExample('ocr.mjs');
  const reader = await openReader();
  for (const [name, lines] of Object.entries(written)) {
    const found = await reader.read(readImage(example(`assets/${name}`)));
    const squeeze = (text: string) => text.replaceAll(' ', '');
    assert.equal(
      found.map((f) => squeeze(f.text)),
      lines.map(squeeze),
      name,
    );
    for (const { score } of found) assert.ok(score > 0.9);
  }
  await reader.close();
});

test('speech.mjs hears two sentences', async () => {
  const { openDetector } = await importExample('speech.mjs');
  const detector = await openDetector();
  const { sampleRate, samples } = readWav(example('assets/speech.wav'));
  assert.is(sampleRate, 16000);
  const found = await detector.find(samples);
  // Where the sentences were put when the recording was made; voices start and end softly.
  const spoken = [
    [0.5, 1.17],
    [2.07, 3.4],
  ];
  assert.is(found.length, spoken.length);
  for (const [i, { start, end }] of found.entries()) {
    assert.ok(Math.abs(start - spoken[i]![0]!) < 0.2, `segment ${i} starts at ${start}`);
    assert.ok(Math.abs(end - spoken[i]![1]!) < 0.2, `segment ${i} ends at ${end}`);
  }
  await detector.close();
});

test.run();
