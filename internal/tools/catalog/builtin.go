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
	newBuiltin("fetch", "HTTP requests that the server's policy permits. Each one is recorded.", `declare class Headers { constructor(init?: any); get(name: string): string | null; set(name: string, value: string): void; append(name: string, value: string): void; has(name: string): boolean; delete(name: string): void; }
declare class Request { constructor(input: any, init?: any); readonly url: string; readonly method: string; readonly headers: Headers; }
declare class Response { constructor(body?: any, init?: any); readonly ok: boolean; readonly status: number; readonly statusText: string; readonly url: string; readonly headers: Headers; text(): Promise<string>; json(): Promise<any>; bytes(): Promise<Uint8Array>; arrayBuffer(): Promise<ArrayBuffer>; blob(): Promise<any>; formData(): Promise<any>; }
declare function fetch(input: any, init?: { method?: string; headers?: any; body?: any; redirect?: "follow" | "error" | "manual"; signal?: AbortSignal }): Promise<Response>;`),
	newBuiltin("performance", "Time since the run began, on its recorded clock.", `declare const performance: { now(): number; readonly timeOrigin: number };`),
	newBuiltin("timers", "Timers and microtasks. A run ends when none that keeps it alive is left.", `declare function setTimeout(callback: (...args: any[]) => void, ms?: number, ...args: any[]): any;
declare function setInterval(callback: (...args: any[]) => void, ms?: number, ...args: any[]): any;
declare function setImmediate(callback: (...args: any[]) => void, ...args: any[]): any;
declare function clearTimeout(id?: any): void;
declare function clearInterval(id?: any): void;
declare function clearImmediate(id?: any): void;
declare function queueMicrotask(callback: () => void): void;`),
	newBuiltin("web", "Interfaces of the web: URLs, events, abort signals, blobs, forms, streams, messages. They follow their standards.", `declare class URL { constructor(url: string, base?: string); href: string; readonly origin: string; protocol: string; host: string; hostname: string; port: string; pathname: string; search: string; readonly searchParams: URLSearchParams; hash: string; static parse(url: string, base?: string): URL | null; static canParse(url: string, base?: string): boolean; }
declare class URLSearchParams { constructor(init?: any); get(name: string): string | null; getAll(name: string): string[]; set(name: string, value: string): void; append(name: string, value: string): void; delete(name: string, value?: string): void; has(name: string, value?: string): boolean; sort(): void; readonly size: number; }
declare class EventTarget { addEventListener(type: string, listener: any, options?: any): void; removeEventListener(type: string, listener: any, options?: any): void; dispatchEvent(event: any): boolean; }
declare class AbortSignal extends EventTarget { readonly aborted: boolean; readonly reason: any; static abort(reason?: any): AbortSignal; static timeout(ms: number): AbortSignal; static any(signals: AbortSignal[]): AbortSignal; throwIfAborted(): void; }
declare class AbortController { readonly signal: AbortSignal; abort(reason?: any): void; }
declare class Blob { constructor(parts?: any[], options?: { type?: string }); readonly size: number; readonly type: string; slice(start?: number, end?: number, type?: string): Blob; text(): Promise<string>; arrayBuffer(): Promise<ArrayBuffer>; stream(): any; }`),
}

func newBuiltin(name, summary, declaration string) Entry {
	return Entry{ID: BuiltinSource + "." + name, Source: BuiltinSource, Summary: summary, Declaration: declaration}
}
