// V8 in the whole process: its start, its version, and its fatal errors.
#include <malloc.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "isolate.h"

namespace daybook {

thread_local daybook_isolate* current = nullptr;

namespace {
// Notes that a run creates errors. V8 reports an event when it takes the stack trace of an
// error; there is no other sign of it.
class StackTraceEvents : public v8::TracingController {
 public:
  const uint8_t* GetCategoryGroupEnabled(const char* name) override {
    static const uint8_t no = 0, yes = 1;
    return strcmp(name, "disabled-by-default-v8.stack_trace") == 0 ? &yes : &no;
  }
  uint64_t AddTraceEvent(char, const uint8_t*, const char* name, const char*, uint64_t, uint64_t, int32_t, const char**,
                         const uint8_t*, const uint64_t*, std::unique_ptr<v8::ConvertableToTraceFormat>*,
                         unsigned int) override {
    if (current != nullptr && strcmp(name, "CaptureAndSetErrorStack") == 0) current->has_new_error = true;
    return 0;
  }
};

v8::Platform* the_platform;  // never deleted, because V8 cannot be restarted
void on_check_failure(const char*, int, const char* message) {
  // In an isolate that can be saved, V8 allocates internalized strings where a snapshot can
  // hold them. This is its only message for a string that is too long for that.
  bool saveable = current != nullptr && current->creator != nullptr;
  die(saveable && strcmp(message, "unreachable code") == 0 ? "string" : "check", "", message);
}
}  // namespace

v8::Platform* platform() { return the_platform; }

void die(const char* kind, const char* where, const char* why) {
  // The parent reads these lines and the exit code. This function MUST NOT allocate.
  char line[512];
  int n = snprintf(line, sizeof line, "daybook-v8: %s: %s%s%s\n", kind, where ? where : "",
                   where && *where && why && *why ? ": " : "", why ? why : "");
  if (n > static_cast<int>(sizeof line) - 1) n = sizeof line - 1;
  for (int i = 0; i + 1 < n; i++) {
    if (line[i] == '\n') line[i] = ' ';
  }
  if (write(2, line, static_cast<size_t>(n)) < 0) {
  }
  if (current != nullptr) {
    n = snprintf(line, sizeof line, "daybook-peak-heap: %zu\n", current->peak_heap.load());
    if (write(2, line, static_cast<size_t>(n)) < 0) {
    }
  }
  _exit(86);
}

}  // namespace daybook

extern "C" int daybook_start(daybook_bytes flags) {
  using namespace v8::platform;
  // Time zone and locale are inputs of a run, and must be equal on every machine: UTC and
  // ICU's default.
  setenv("TZ", "UTC", 1);
  unsetenv("LC_ALL");
  unsetenv("LC_MESSAGES");
  unsetenv("LANG");
  // An isolate allocates some megabytes and frees them at its end. The process keeps them
  // for the next isolate, so that they are not mapped and zeroed for every run.
  mallopt(M_TRIM_THRESHOLD, 8 << 20);
  mallopt(M_MMAP_THRESHOLD, 4 << 20);
  v8::V8::SetFlagsFromString(flags.data, flags.size);
  daybook::the_platform = NewDefaultPlatform(1, IdleTaskSupport::kDisabled, InProcessStackDumping::kDisabled, std::make_unique<daybook::StackTraceEvents>(),
                                             PriorityMode::kDontApply)
                              .release();
  v8::V8::InitializePlatform(daybook::the_platform);
  v8::V8::SetFatalErrorHandler(daybook::on_check_failure);
  // The build configuration of the library: pointer compression, 31-bit small integers,
  // sandbox. V8 refuses any other value.
  constexpr int kBuild = 1 | 2 | 4;
  return v8::V8::Initialize(kBuild) ? 0 : 1;
}

extern "C" const char* daybook_v8_version(void) { return v8::V8::GetVersion(); }
