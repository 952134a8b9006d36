#!/usr/bin/env node
// The program `skep`: the process around skep.ts.
import process from 'node:process';
import { skep } from './skep.js';

// A reader that has seen enough (`| head`) is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit();
});
skep(process.argv.slice(2)).then((code) => {
  process.exitCode = code;
});
