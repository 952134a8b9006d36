// What can go wrong when the scheduler is used wrongly or is full. One class with a `code`, as in the rest of Skep;
// it has a class of its own because this layer imports nothing of the engine.

/** Codes: `E_CONFIG` a bad configuration, `E_ARGUMENT` a bad call, `E_FULL` no slot left, `E_ROWS` more rows than there are. */
export type CellularErrorCode = 'E_CONFIG' | 'E_ARGUMENT' | 'E_FULL' | 'E_ROWS' | 'E_STATE';

export class CellularError extends Error {
  readonly code: CellularErrorCode;

  constructor(code: CellularErrorCode, message: string) {
    super(message);
    this.name = 'CellularError';
    this.code = code;
  }
}

/** Throws unless `value` is an integer in [least, most]. `what` names it in the message. */
export function checkInteger(what: string, value: number, least: number, most: number): void {
  if (!Number.isInteger(value) || value < least || value > most)
    throw new CellularError(
      'E_ARGUMENT',
      `${what}: expected an integer from ${least} to ${most}, got ${String(value)}`,
    );
}
