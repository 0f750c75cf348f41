package catalog

import "context"

// BuiltinSource is the source name of the globals of every isolate.
const BuiltinSource = "builtin"

// Builtin is the source of the globals of every isolate. It leaves out the language
// itself (Array, Promise, Intl and so on), because models know it.
type Builtin struct{}

// Entries returns the same entries to every tenant.
func (Builtin) Entries(context.Context, string) []Entry { return builtins }

// builtins are ordered by id.
var builtins = []Entry{
	newBuiltin("clone", "Deep copies of values.", `declare function structuredClone<T>(value: T, options?: { transfer?: ArrayBuffer[] }): T;`),
	newBuiltin("console", "Console output: what get_execution_output returns.", `declare const console: {
  log(...data: unknown[]): void; debug(...data: unknown[]): void; info(...data: unknown[]): void;
  warn(...data: unknown[]): void; error(...data: unknown[]): void; trace(...data: unknown[]): void;
  table(data: unknown, columns?: string[]): void; dir(value: unknown, options?: object): void;
  group(...label: unknown[]): void; groupEnd(): void; assert(condition?: boolean, ...data: unknown[]): void;
  count(label?: string): void; countReset(label?: string): void;
  time(label?: string): void; timeLog(label?: string, ...data: unknown[]): void; timeEnd(label?: string): void;
};`),
	newBuiltin("crypto", "Random values and UUIDs, from the run's recorded seed.", `declare const crypto: {
  getRandomValues<T extends ArrayBufferView>(array: T): T; randomUUID(): string;
};`),
	newBuiltin("encoding", "Text to bytes and base64, and back.", `declare class TextEncoder { readonly encoding: string; encode(input?: string): Uint8Array; }
declare class TextDecoder { constructor(label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean }); decode(input?: ArrayBufferView | ArrayBuffer, options?: { stream?: boolean }): string; }
declare function atob(data: string): string;
declare function btoa(data: string): string;`),
	newBuiltin("performance", "Time since the run began, on its recorded clock.", `declare const performance: { now(): number; readonly timeOrigin: number };`),
	newBuiltin("timers", "Timers and microtasks. A run ends when none that keeps it alive is left.", `declare function setTimeout(callback: (...args: any[]) => void, ms?: number, ...args: any[]): any;
declare function setInterval(callback: (...args: any[]) => void, ms?: number, ...args: any[]): any;
declare function setImmediate(callback: (...args: any[]) => void, ...args: any[]): any;
declare function clearTimeout(id?: any): void;
declare function clearInterval(id?: any): void;
declare function clearImmediate(id?: any): void;
declare function queueMicrotask(callback: () => void): void;`),
}

func newBuiltin(name, summary, declaration string) Entry {
	return Entry{ID: BuiltinSource + "." + name, Source: BuiltinSource, Summary: summary, Declaration: declaration}
}
