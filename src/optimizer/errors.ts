// The one error of this layer. It has the same face as the engine's errors (a `code` for programs, a sentence for people)
// without importing the engine: the optimizer must run in a page, a test or a simulator that has no engine.

export type OptimizerErrorCode = 'INVALID_PROFILE' | 'INVALID_ARGUMENT' | 'INFEASIBLE';

/** A bad profile, a bad argument, or a question that no configuration answers. The message names what and where. */
export class OptimizerError extends Error {
  readonly code: OptimizerErrorCode;

  constructor(code: OptimizerErrorCode, message: string) {
    super(message);
    this.name = 'OptimizerError';
    this.code = code;
  }
}

/** A value as it is quoted in a message: short whatever was passed. */
export function quote(value: unknown): string {
  let text: string;
  try {
    text = typeof value === 'string' ? JSON.stringify(value) : String(value);
  } catch {
    text = typeof value;
  }
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}

/** Checks an integer argument; throws INVALID_ARGUMENT that says which one, what it may be and what it was. */
export function integerArgument(name: string, value: unknown, low: number, high: number): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= low && value <= high) return value;
  throw new OptimizerError(
    'INVALID_ARGUMENT',
    `${name}: expected an integer from ${low} to ${high}, got ${quote(value)}`,
  );
}

/** Checks a real argument, both ends allowed; throws INVALID_ARGUMENT. */
export function numberArgument(name: string, value: unknown, low: number, high: number): number {
  if (typeof value === 'number' && value >= low && value <= high) return value;
  throw new OptimizerError(
    'INVALID_ARGUMENT',
    `${name}: expected a number from ${low} to ${high}, got ${quote(value)}`,
  );
}
