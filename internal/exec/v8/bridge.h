// The C interface between Go and the C++ code that drives V8. A process has at most one
// isolate at a time. The caller MUST make every call except daybook_terminate from the
// operating system thread that created the isolate.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct daybook_isolate daybook_isolate;

// A view of bytes that the other side of the interface owns.
typedef struct {
  const char* data;
  size_t size;
} daybook_bytes;

typedef struct {
  daybook_bytes heap;     // the snapshot to restore; MUST stay valid until daybook_dispose
  int plain;              // 1: an isolate that is never saved and has all of JavaScript
  int plain_base;         // 1: it will be saved as the heap that plain isolates start from
  daybook_bytes prelude;  // replaces the prelude in an isolate that restores no heap; for tests
  size_t heap_limit;      // bytes of V8 heap, 0 = V8's default
  size_t buffer_limit;    // bytes of ArrayBuffer contents, 0 = no limit
  uint8_t seed[16];
  double start_ms;        // the clock at the start, milliseconds since 1970
  uintptr_t output;       // passed to daybook_write, 0 = discard the output
  uintptr_t host;         // passed to daybook_call and daybook_await, 0 = no host calls
} daybook_config;

enum {
  DAYBOOK_COMPLETED = 0,
  DAYBOOK_EXCEPTION = 1,
  DAYBOOK_TERMINATED = 2,
  DAYBOOK_OUT_OF_MEMORY = 3,
  DAYBOOK_NEVER_SETTLED = 4,
  DAYBOOK_SYNTAX_ERROR = 5,
  DAYBOOK_INTERNAL = 6,
};

typedef struct {
  int status;
  int has_text;        // result: present; error: always
  int truncated;       // the text was cut at its maximum length
  daybook_bytes text;  // owned by the isolate, valid until its next call
  int line, column;    // of a syntax error, 1-based, 0 = unknown
  int timers_cancelled;  // timers of this and earlier runs, cancelled because the run failed
  // Names of values of the run, each followed by a zero byte, owned as text is: values that
  // the global object did not accept, and values whose names an earlier run declared with
  // let, const or class.
  daybook_bytes globals_refused;
  daybook_bytes globals_hidden;
  daybook_bytes global_change;  // why it accepted no new property; empty if it did
  size_t peak_heap;    // bytes, sampled at the start, before each collection and at the end
  int beyond_limit;    // the run used the headroom, and its heap is still close to the limit
  int above_limit;     // the run used the headroom, and its heap is larger than the limit
  double clock_ms;     // the clock at the end
  int noted;           // what the run learned from the garbage collector
} daybook_result;

// Bits of daybook_result.noted. 67_registries.js has these numbers too.
#define DAYBOOK_NOTED_WEAK_REF 1   // it read a WeakRef whose target was collected
#define DAYBOOK_NOTED_FINALIZER 2  // a callback of a FinalizationRegistry ran

enum {
  DAYBOOK_SNAPSHOT_OK = 0,
  DAYBOOK_SNAPSHOT_UNSERIALIZABLE = 1,  // V8 cannot save an object that is in use
  DAYBOOK_SNAPSHOT_FAILED = 2,
};

// Starts V8 for the process. Returns 0 on success. The caller MUST call it only once.
int daybook_start(daybook_bytes flags);
// Adds a source of the prelude or the platform, in Latin-1. The caller MUST add all of them,
// in the same order in every process of an engine, before it creates the first isolate.
void daybook_add_source(daybook_bytes name, daybook_bytes text);
const char* daybook_v8_version(void);
// The number of native functions that heaps may refer to, besides the sources.
int daybook_external_references(void);

// Returns NULL on failure, with a message in error (at most capacity bytes, with the NUL).
daybook_isolate* daybook_new(const daybook_config* config, char* error, size_t capacity);
// Replaces these four values of the isolate's configuration. The run MUST NOT have started.
void daybook_assign(daybook_isolate*, const uint8_t seed[16], double start_ms, uintptr_t output, uintptr_t host);
// A script and its names in stack traces, in UTF-8. Any member but source may be empty.
typedef struct {
  daybook_bytes source;
  daybook_bytes name;      // the script's name in the heap; source ends in a sourceURL comment with it
  daybook_bytes file;      // the name that frames of this run show instead
  daybook_bytes mappings;  // the mappings of a source map, if source is generated code
  daybook_bytes modules;   // JSON for loadModules of the prelude: what the script imports; empty for nothing
  daybook_bytes bindings;  // a script that declares the imported names; empty for none
} daybook_script;

// Describes, as JSON, what the restored heap contains besides values: changed intrinsics,
// timers and finalizers. The caller MUST call it before the run. The isolate owns the text,
// which is valid until its next call. Returns 0, or another value if it was stopped.
int daybook_inspect(daybook_isolate*, daybook_bytes* text);

// Counts the accessors and the read-only properties that user code added to the global
// object, and lists the first ones. An entry has the kind ('a' or 'r'), 's' for a symbol or
// '-', the length of the name in one byte, and the name. The function reads the first
// 20,000 names of the global object; unseen is the number of the others. Otherwise it is
// like daybook_inspect.
int daybook_inspect_globals(daybook_isolate*, int* count, int* unseen, daybook_bytes* names);

// A global of user code. The isolate owns the texts, which are valid until its next call.
typedef struct {
  daybook_bytes name;
  int kind;                 // 'l': let, const or class; 'u': such a binding without a value; 'p': a property; 'a': an accessor
  daybook_bytes type;       // typeof, or null; empty for kinds u and a
  daybook_bytes class_name; // of an object
  double size;              // -1: none
  daybook_bytes preview;    // ~ or =, then the value as a person reads it; empty for kind u
  int is_preview_cut;
  daybook_bytes canonical;  // ~ if a part of the value is left out, or =, then the text by which heaps are compared
} daybook_global;

// Lists the globals of user code in the restored heap, in the order of their names, and keeps
// those after the first skip, at most `most`, for daybook_describe_global. No code of a script
// runs. The isolate MUST NOT run a script or be saved afterwards. Returns 0, or
// DAYBOOK_TERMINATED or DAYBOOK_OUT_OF_MEMORY.
int daybook_list_globals(daybook_isolate*, int skip, int most, int* listed, int* total);
// Describes a listed global. Returns like daybook_list_globals.
int daybook_describe_global(daybook_isolate*, int index, daybook_global* result);

// A WebAssembly module for the script of a plain isolate. key identifies the bytes. has_imports
// is 0 or 1.
typedef struct {
  daybook_bytes name, key, bytes;
  int has_imports;
} daybook_wasm;

// Offers modules to a script, in place of those that were offered before. The process forgets
// the code of all others. The caller MUST keep the bytes valid until daybook_dispose, and MUST
// call it before daybook_run. Returns 0 on success, also if the isolate is being stopped.
int daybook_offer_wasm(daybook_isolate*, const daybook_wasm* modules, int count);

#define DAYBOOK_SKIP_WAITS 1
#define DAYBOOK_NODE_GLOBALS 2
#define DAYBOOK_OPTIMIZE 4

// Runs a script. servers is JSON with the servers and tools that the script may call; empty
// means none. globals is a JSON object or empty: its members become properties of the
// global object before V8 evaluates the script. With DAYBOOK_SKIP_WAITS, timers do not wait in
// real time. With DAYBOOK_NODE_GLOBALS, the globals Buffer, process and global of Node exist.
// With DAYBOOK_OPTIMIZE, V8 may optimize code in an isolate that can be saved.
// timers is passed to daybook_fired for each timer that fires; 0 = no reports.
void daybook_run(daybook_isolate*, daybook_script script, daybook_bytes servers, daybook_bytes globals, int options,
                 uintptr_t timers, daybook_result* result);
// Gives a plain isolate a new context after a run, for which daybook_assign MUST follow. Returns 0
// if the isolate cannot serve another run, and can only be disposed of. It MUST NOT be called after
// a run that was terminated.
int daybook_renew(daybook_isolate*);
// Saves the heap. Afterwards the isolate can only be disposed of, also after an error. The
// isolate owns the blob, which is valid until daybook_dispose.
int daybook_snapshot(daybook_isolate*, daybook_bytes* blob);
// Stops the run. Any thread may call it as long as the isolate exists.
void daybook_terminate(daybook_isolate*);
void daybook_dispose(daybook_isolate*);

// Implemented in Go. Writes a console message. Returns 0 to continue, another value to end
// the run.
int daybook_write(uintptr_t output, int level, double clock_ms, char* text, size_t size);

// Implemented in Go. Reports that a timer fires: before its callback runs. kind is 0 for
// setTimeout, 1 for setInterval, 2 for setImmediate. delay_ms is the delay that it was set
// with. name is that of the callback. Returns 0 to continue, another value to end the run.
int daybook_fired(uintptr_t timers, double clock_ms, int kind, double delay_ms, daybook_bytes name);
// Implemented in Go. Passes an artifact on; data may be NULL if it has no bytes. output is
// that of daybook_write. Returns 0 to continue, another value to end the run.
int daybook_artifact(uintptr_t output, double clock_ms, daybook_bytes name, daybook_bytes mime, daybook_bytes content);

// The result of a wait for the host.
enum {
  DAYBOOK_HOST_STOPPED = 0,
  DAYBOOK_HOST_TICK = 1,    // the clock has reached due_ms, and there is no earlier answer
  DAYBOOK_HOST_ANSWER = 2,
};

typedef struct {
  double number;    // of the call
  int ok;           // 1: text is a value as JSON; 0: text is an error message
  double clock_ms;  // the time of the answer
  char* text;       // from malloc; the receiver MUST free it
  size_t size;
} daybook_answer;

// Implemented in Go. Starts a call. Returns 0 to continue, another value to end the run.
int daybook_call(uintptr_t host, double number, daybook_bytes server, daybook_bytes tool, daybook_bytes arguments);
// Implemented in Go. Blocks until there is an answer or the clock reaches due_ms; a
// negative due_ms means no such time. daybook_terminate does not end the wait: the Go code
// that calls it MUST also stop the host.
int daybook_await(uintptr_t host, double due_ms, daybook_answer* answer);

// The result of a computation.
enum {
  DAYBOOK_COMPUTED_BYTES = 0,
  DAYBOOK_COMPUTED_TEXT = 1,   // UTF-8
  DAYBOOK_COMPUTED_ERROR = 2,  // the name of the error, a line end, and its message
};

typedef struct {
  int kind;
  char* data;  // from malloc; the receiver MUST free it
  size_t size;
} daybook_computed;

// Implemented in Go. Computes a function of the platform from its inputs, and from nothing
// else.
void daybook_compute(daybook_bytes name, daybook_bytes* inputs, int count, daybook_computed* result);

#ifdef __cplusplus
}
#endif
