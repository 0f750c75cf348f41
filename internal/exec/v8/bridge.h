// The C interface between Go and the C++ that drives V8. One isolate exists at
// a time in a process, and every call but daybook_terminate comes from the
// operating system thread that created it.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct daybook_isolate daybook_isolate;

// A borrowed view of bytes owned by the other side.
typedef struct {
  const char* data;
  size_t size;
} daybook_bytes;

typedef struct {
  daybook_bytes heap;     // the snapshot to restore; must stay valid until dispose
  int plain;              // an ordinary isolate: no snapshot, all of JavaScript
  int plain_base;         // to be saved as the heap that plain isolates start from
  daybook_bytes prelude;  // source, for an isolate that restores no heap
  size_t heap_limit;      // bytes of V8 heap, 0 = V8's default
  size_t buffer_limit;    // bytes of ArrayBuffer contents, 0 = no limit
  uint8_t seed[16];
  double start_ms;        // the clock's first reading, milliseconds since 1970
  uintptr_t output;       // passed to daybook_write, 0 = discard
  uintptr_t host;         // passed to daybook_call and daybook_await, 0 = nothing can be called
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
  int truncated;       // text was cut at the cap
  daybook_bytes text;  // owned by the isolate, valid until its next call
  int line, column;    // of a syntax error, 1-based, 0 = unknown
  int timers_cancelled;  // because the run failed, its own and those of earlier runs
  int globals_refused;   // of the run's values, those that the global object did not take
  int globals_hidden;    // members whose names an earlier run declared with let, const or class
  size_t peak_heap;    // bytes, sampled at the beginning, before each collection and at the end
  int beyond_limit;    // the run used the headroom, and its heap is still close to the limit
  int above_limit;     // and it is larger than the limit
  double clock_ms;     // where the clock stood at the end
} daybook_result;

enum {
  DAYBOOK_SNAPSHOT_OK = 0,
  DAYBOOK_SNAPSHOT_UNSERIALIZABLE = 1,  // something alive cannot be saved
  DAYBOOK_SNAPSHOT_FAILED = 2,
};

// Starts V8 for the process. 0 on success. Called once.
int daybook_start(daybook_bytes flags);
const char* daybook_v8_version(void);
int daybook_external_references(void);

// Returns NULL and fills error (capacity bytes, NUL-terminated) on failure.
daybook_isolate* daybook_new(const daybook_config* config, char* error, size_t capacity);
// Replaces what the isolate was made with of these, before its run.
void daybook_assign(daybook_isolate*, const uint8_t seed[16], double start_ms, uintptr_t output, uintptr_t host);
// A script and how stack traces speak of it. All is UTF-8; empty is none.
typedef struct {
  daybook_bytes source;
  daybook_bytes name;      // the script's name in the heap; source ends in a sourceURL comment with it
  daybook_bytes file;      // what the run's own frames show in place of name
  daybook_bytes mappings;  // of a source map, when source is generated code
} daybook_script;

// Describes, as JSON, what the heap that was restored brings along besides values:
// changed intrinsics, timers and finalizers. Comes before the run. The text is owned by the isolate
// and valid until its next call. 0 on success; another value when it was stopped.
int daybook_inspect(daybook_isolate*, daybook_bytes* text);

// Counts the accessors and the read-only properties that user code put on the global
// object, and lists the first ones: of each the kind ('a' or 'r'), 's' for a symbol or
// '-', the length of the name in one byte, and the name. It looks at the first 20,000
// names of the global object; unseen counts the others. Otherwise like daybook_inspect.
int daybook_inspect_globals(daybook_isolate*, int* count, int* unseen, daybook_bytes* names);

// servers is the JSON of what the script may call, empty for nothing. globals is the
// JSON of an object, empty for none: its members become properties of the global
// object before the script is evaluated.
void daybook_run(daybook_isolate*, daybook_script script, daybook_bytes servers, daybook_bytes globals,
                 daybook_result* result);
// Ends the isolate's useful life, whatever it returns. The blob is owned by
// the isolate and valid until daybook_dispose.
int daybook_snapshot(daybook_isolate*, daybook_bytes* blob);
// May be called from any thread while the isolate lives.
void daybook_terminate(daybook_isolate*);
void daybook_dispose(daybook_isolate*);

// Implemented in Go. Returns 0 to go on, anything else to end the run.
int daybook_write(uintptr_t output, int level, double clock_ms, char* text, size_t size);

// What ends a wait for the host.
enum {
  DAYBOOK_HOST_STOPPED = 0,
  DAYBOOK_HOST_TICK = 1,    // due is reached, and no answer is from before it
  DAYBOOK_HOST_ANSWER = 2,
};

typedef struct {
  double number;    // of the call
  int ok;           // the text is a value as JSON, and otherwise a message
  double clock_ms;  // when it was given
  char* text;       // from malloc, the receiver's to free
  size_t size;
} daybook_answer;

// Implemented in Go. Begins a call; 0 to go on, anything else to end the run.
int daybook_call(uintptr_t host, double number, daybook_bytes server, daybook_bytes tool, daybook_bytes arguments);
// Implemented in Go. Blocks until there is an answer or due_ms (none when
// negative) is reached. daybook_terminate does not end it: its owner does.
int daybook_await(uintptr_t host, double due_ms, daybook_answer* answer);

#ifdef __cplusplus
}
#endif
