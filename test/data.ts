// Where the test data is: SKEP_TEST_DATA, or `../shared/data` beside the checkout. It is not part of the repository; tests
// that need it say so when it is not there.
import { existsSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** The root of the checkout. */
export const root: string = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');

/** The folder of the test data, whether it exists or not. */
export const dataFolder: string = path.resolve(root, process.env.SKEP_TEST_DATA ?? '../shared/data');

/** True when the test data is there; says so once when it is not. */
export const hasData: boolean = existsSync(path.join(dataFolder, 'README.md'));
if (!hasData) console.log(`SKIPPED: no test data at ${dataFolder} (set SKEP_TEST_DATA)`);
