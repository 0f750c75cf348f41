// One run: evaluates the source, then runs the event loop until the run ends.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "compiler_window.h"
#include "isolate.h"

namespace daybook {

constexpr size_t kTextLimit = size_t{16} << 20;
constexpr size_t kNameLimit = 128;  // bytes of the name of a timer's callback

namespace {

using v8::Local;
using v8::Value;
using Clock = std::chrono::steady_clock;

class Run {
 public:
  Run(daybook_isolate* d, Local<v8::Context> context, bool skip_waits, uintptr_t timers, daybook_result* result)
      : d_(d),
        isolate_(d->isolate),
        context_(context),
        skip_waits_(skip_waits),
        timers_(timers),
        caught_(d->isolate),
        result_(result) {}

  void execute(daybook_script script, daybook_bytes servers, daybook_bytes globals, bool node_globals) {
    d_->pending_calls = 0;
    d_->regexps = 0;
    d_->has_new_error = false;
    d_->globals_refused.clear();
    d_->globals_hidden.clear();
    d_->global_change.clear();
    Local<v8::String> callable, name, file, mappings;
    if (!string_of(servers, &callable) || !string_of(script.name, &name) || !string_of(script.file, &file) ||
        !string_of(script.mappings, &mappings)) {
      return conclude_stopped();
    }
    Local<Value> start[5] = {v8::Number::New(isolate_, d_->start_ms), callable, name, file, mappings};
    if (call_entry(d_, context_, "begin", 5, start).IsEmpty()) return conclude_exception(take_exception());
    if (node_globals && call_entry(d_, context_, "defineNodeGlobals", 0, nullptr).IsEmpty()) return conclude_exception(take_exception());
    if (globals.size > 0 && !define_globals(globals)) return conclude_exception(take_exception());
    // A script with a syntax error evaluates no module. V8 reports the error below.
    if (script.modules.size > 0 && compiles(script.source) && !import_modules(script)) return;
    Local<v8::String> text;
    if (!string_of(script.source, &text)) {
      result_->status = DAYBOOK_INTERNAL;
      return set_text("The source is too large for a JavaScript string.");
    }
    Local<Value> value;
    // In REPL mode the body of the script runs inside an async function. Without a value,
    // the body has not run.
    if (!v8::debug::EvaluateGlobal(isolate_, text, v8::debug::EvaluateGlobalMode::kDefault, true).ToLocal(&value)) {
      return conclude_not_evaluated();
    }
    run_loop(value);
  }

 private:
  // Defines a property of the global object for each member of a JSON object. No code of a
  // script runs: no accessor with such a name, and no JSON.parse of user code. A let, const
  // or class of the same name keeps its value. Returns false if the run was stopped.
  bool define_globals(daybook_bytes globals) {
    v8::HandleScope handles(isolate_);
    Local<v8::String> text;
    Local<Value> parsed;
    if (!string_of(globals, &text) || !v8::JSON::Parse(context_, text).ToLocal(&parsed)) return false;
    Local<v8::Object> values = parsed.As<v8::Object>();
    Local<v8::Array> names;
    if (!values
             ->GetPropertyNames(context_, v8::KeyCollectionMode::kOwnOnly, v8::ONLY_ENUMERABLE,
                                v8::IndexFilter::kIncludeIndices, v8::KeyConversionMode::kConvertToString)
             .ToLocal(&names)) {
      return false;
    }
    Local<Value> count;
    if (!names->Get(context_, new_string(isolate_, "length")).ToLocal(&count)) return false;
    const int length = static_cast<int>(count->NumberValue(context_).FromMaybe(0));
    Local<v8::Object> global = context_->Global();
    std::vector<v8::Global<v8::String>> declared;
    v8::debug::GlobalLexicalScopeNames(context_, &declared);
    for (int i = 0; i < length; i++) {
      Local<Value> name, value;
      if (!names->Get(context_, v8::Number::New(isolate_, i)).ToLocal(&name) || !values->Get(context_, name).ToLocal(&value)) {
        return false;
      }
      Local<v8::Name> key = name.As<v8::Name>();
      for (const auto& other : declared) {
        v8::HandleScope inner(isolate_);
        if (other.Get(isolate_)->StrictEquals(key)) add_name(&d_->globals_hidden, name);
      }
      if (global->CreateDataProperty(context_, key, value).FromMaybe(false)) continue;
      // A property that var or function declared is not configurable. This sets its value
      // and keeps its attributes.
      v8::PropertyDescriptor descriptor(value);
      if (!global->DefineProperty(context_, key, descriptor).FromMaybe(false)) add_name(&d_->globals_refused, name);
      if (is_stopped()) return false;
    }
    if (!d_->globals_refused.empty()) d_->global_change = global_change();
    return !is_stopped();
  }

  // Appends a name and a zero byte to a list.
  void add_name(std::string* list, Local<Value> name) {
    bool cut = false;
    std::string text = to_utf8(isolate_, name.As<v8::String>(), kTextLimit, &cut);
    std::replace(text.begin(), text.end(), '\0', ' ');
    list->append(text).push_back('\0');
  }

  // Returns what an earlier run did to the global object, so that it accepts no new
  // properties; empty if it accepts them.
  std::string global_change() {
    Local<Value> text;
    bool cut = false;
    if (!call_entry(d_, context_, "globalChange", 0, nullptr).ToLocal(&text) || !text->FullIsString()) return {};
    return to_utf8(isolate_, text.As<v8::String>(), kTextLimit, &cut);
  }

  // Reports whether a script has no syntax error. V8 cannot compile a script for REPL mode
  // without evaluating it, so this compiles it as the body of an async function.
  bool compiles(daybook_bytes source) {
    v8::HandleScope handles(isolate_);
    v8::TryCatch quiet(isolate_);
    CompileScope compiling(d_);
    std::string body(source.data, source.size);
    if (body.compare(0, 2, "#!") == 0) body.replace(0, 2, "//");
    body = "(async () => {\n" + body + "\n})";
    Local<v8::String> text;
    Local<v8::Script> compiled;
    return string_of({body.data(), body.size()}, &text) && v8::Script::Compile(context_, text).ToLocal(&compiled);
  }

  // Evaluates the modules that the script imports, and declares the names that its import
  // statements bind. Returns false if the run has ended.
  bool import_modules(daybook_script script) {
    v8::HandleScope handles(isolate_);
    Local<v8::String> text;
    Local<Value> plan, values, ignored;
    if (!string_of(script.modules, &text) || !v8::JSON::Parse(context_, text).ToLocal(&plan)) {
      conclude_exception(take_exception());
      return false;
    }
    if (!call_entry(d_, context_, "loadModules", 1, &plan).ToLocal(&values)) {
      conclude_exception(take_exception());
      return false;
    }
    if (script.bindings.size == 0) return true;
    // The declarations read the values from this property, and no other code runs meanwhile.
    Local<v8::Name> name = new_string(isolate_, "__daybookImports").As<v8::Name>();
    Local<v8::Object> global = context_->Global();
    if (!global->CreateDataProperty(context_, name, values).FromMaybe(false)) {
      if (is_stopped()) {
        conclude_stopped();
      } else {
        result_->status = DAYBOOK_EXCEPTION;
        std::string change = global_change();
        if (change.empty()) change = "made globalThis.__daybookImports read-only";
        set_text("TypeError: import statements cannot declare names here, because an earlier run " + change +
                 "; use await import(\"NAME\"), or run without the heap");
      }
      return false;
    }
    const bool declared = string_of(script.bindings, &text) &&
        v8::debug::EvaluateGlobal(isolate_, text, v8::debug::EvaluateGlobalMode::kDefault, true).ToLocal(&ignored);
    if (!declared) conclude_not_evaluated();
    v8::TryCatch quiet(isolate_);
    (void)global->Delete(context_, name);
    return declared;
  }

  bool string_of(daybook_bytes bytes, Local<v8::String>* text) {
    return v8::String::NewFromUtf8(isolate_, bytes.data == nullptr ? "" : bytes.data, v8::NewStringType::kNormal,
                                   static_cast<int>(bytes.size))
        .ToLocal(text);
  }

  // Whether the loop continues.
  enum class Outcome { kContinue, kEnded };

  void run_loop(Local<Value> value) {
    Local<v8::Promise> awaited = value.As<v8::Promise>();
    bool unwrapped = false;
    for (;;) {
      if (drain() == Outcome::kEnded) return;
      if (awaited->State() == v8::Promise::kFulfilled && !unwrapped) {
        // V8 wraps the completion value, because it may be a promise.
        if (!awaited->Result().As<v8::Object>()->Get(context_, new_string(isolate_, ".repl_result")).ToLocal(&value)) {
          return conclude_exception(take_exception());
        }
        unwrapped = true;
        if (value->IsPromise()) {
          awaited = value.As<v8::Promise>();
        }
      }
      // A rejection that user code handles does not end a run. If that promise is the value
      // of the run, its reason is the error of the run.
      if (awaited->State() == v8::Promise::kRejected) return conclude_exception(awaited->Result());

      bool settled = unwrapped && awaited->State() == v8::Promise::kFulfilled;
      // Asynchronous WebAssembly compilation takes real time, but none on the script's clock:
      // it ends before any timer fires and before any answer arrives.
      if (isolate_->HasPendingBackgroundTasks()) {
        if (!wait_until(Clock::now() + std::chrono::milliseconds(1))) return conclude_stopped();
        continue;
      }
      switch (d_->pending_calls > 0 ? next_from_host() : next_timer()) {
        case Next::kFired:
          continue;
        case Next::kEnded:
          return;
        case Next::kNone:
          break;
      }
      if (!settled) return conclude_never_settled();
      if (value->IsPromise()) value = awaited->Result();
      return conclude_value(value);
    }
  }

  // Runs all microtasks and platform tasks, then checks whether the run ends.
  Outcome drain() {
    v8::HandleScope handles(isolate_);
    do {
      isolate_->PerformMicrotaskCheckpoint();
      if (is_stopped()) {
        conclude_stopped();
        return Outcome::kEnded;
      }
    } while (v8::platform::PumpMessageLoop(platform(), isolate_));
    if (d_->has_reported) {
      Local<Value> error = d_->reported.IsEmpty() ? undefined() : d_->reported.Get(isolate_);
      conclude_exception(error);
      return Outcome::kEnded;
    }
    if (!d_->rejections.empty()) drop_handled_rejections(d_);
    if (!d_->rejections.empty()) {
      conclude_exception(d_->rejections.front().reason.Get(isolate_));
      return Outcome::kEnded;
    }
    return Outcome::kContinue;
  }

  enum class Next { kNone, kFired, kEnded };

  // Waits for the next answer of the host, or for its notice that no answer comes before
  // the earliest timer. The host decides which is first, so that a run with the same answers
  // at the same times executes in the same order.
  Next next_from_host() {
    v8::HandleScope handles(isolate_);
    Local<Value> value;
    if (!call_entry(d_, context_, "nextDue", 0, nullptr).ToLocal(&value)) return fail(take_exception());
    double due = value->NumberValue(context_).FromMaybe(-1);
    if (due >= 0 && due <= d_->clock_ms) return fire(due);  // no answer can be earlier
    daybook_answer answer = {};
    switch (daybook_await(d_->host, due, &answer)) {
      case DAYBOOK_HOST_TICK:
        if (due >= 0 && !is_stopped()) {
          advance_real_time(due);
          return fire(due);
        }
        break;
      case DAYBOOK_HOST_ANSWER:
        return receive(answer);
    }
    conclude_stopped();
    return Next::kEnded;
  }

  // Moves the start of real time back if the script's clock is ahead of it. A host that
  // answers from the ledger does not wait, and later timers then do not wait either.
  void advance_real_time(double clock_ms) {
    const double ahead = clock_ms - d_->start_ms - std::chrono::duration<double, std::milli>(Clock::now() - real_start_).count();
    if (ahead > 0) {
      real_start_ -= std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(std::fmin(ahead, 1e9)));
    }
  }

  // Sets the clock to the time of the answer and settles the promise of the call.
  Next receive(const daybook_answer& answer) {
    std::unique_ptr<char, decltype(&free)> owned(answer.text, &free);
    d_->pending_calls--;
    if (answer.clock_ms > d_->clock_ms) d_->clock_ms = answer.clock_ms;
    advance_real_time(answer.clock_ms);
    Local<v8::String> text;
    if (is_stopped() || !v8::String::NewFromUtf8(isolate_, answer.text == nullptr ? "" : answer.text,
                                                 v8::NewStringType::kNormal, static_cast<int>(answer.size))
                             .ToLocal(&text)) {
      conclude_stopped();
      return Next::kEnded;
    }
    Local<Value> args[3] = {v8::Number::New(isolate_, answer.number), v8::Number::New(isolate_, answer.ok), text};
    if (call_entry(d_, context_, "answer", 3, args).IsEmpty()) return fail(take_exception());
    return Next::kFired;
  }

  // Sets the clock to the due time of the earliest timer and runs its callback. Before that it
  // waits in real time until the timer is due, unless waits are skipped.
  Next next_timer() {
    v8::HandleScope handles(isolate_);
    Local<Value> value;
    if (!call_entry(d_, context_, "nextDue", 0, nullptr).ToLocal(&value)) return fail(take_exception());
    double due = value->NumberValue(context_).FromMaybe(-1);
    if (!(due >= 0)) return Next::kNone;
    // 1e9 ms is longer than any timeout, and the conversion cannot overflow.
    double delay = skip_waits_ ? 0 : std::fmin(due - d_->start_ms, 1e9);
    auto deadline = real_start_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(delay));
    if (!wait_until(deadline)) {
      conclude_stopped();
      return Next::kEnded;
    }
    return fire(due);
  }

  Next fire(double due) {
    if (due > d_->clock_ms) d_->clock_ms = due;
    if (timers_ != 0 && !report_timer()) {
      conclude_stopped();
      return Next::kEnded;
    }
    if (call_entry(d_, context_, "fire", 0, nullptr).IsEmpty()) {
      Local<Value> thrown = take_exception();
      if (!is_stopped()) isolate_->PerformMicrotaskCheckpoint();  // jobs do not survive a snapshot: run them now
      return fail(thrown);
    }
    return Next::kFired;
  }

  // Reports the timer that fires next. It only reads properties of the prelude's data: a
  // function of the prelude that ran would change the saved heap. Returns false if the run
  // was stopped.
  bool report_timer() {
    auto get = [&](Local<Value> object, const char* name) {
      Local<Value> value;
      (void)object.As<v8::Object>()->Get(context_, new_string(isolate_, name)).ToLocal(&value);
      return value;
    };
    Local<Value> timers = get(context_->SlowGetEmbedderData(kEntryIndex), "timers");
    Local<Value> timer;
    if (timers.IsEmpty() || !timers.As<v8::Object>()->Get(context_, v8::Number::New(isolate_, 0)).ToLocal(&timer)) return false;
    Local<Value> immediate = get(timer, "immediate"), repeat = get(timer, "repeat"), delay = get(timer, "delay"),
                 callback = get(timer, "callback");
    if (immediate.IsEmpty() || repeat.IsEmpty() || delay.IsEmpty() || callback.IsEmpty()) return false;
    auto number = [&](Local<Value> value) { return value->NumberValue(context_).FromMaybe(0); };
    std::string name;
    if (callback->IsFunction()) {
      Local<Value> text = callback.As<v8::Function>()->GetDebugName();  // calls no getter
      bool cut = false;
      if (text->FullIsString()) name = to_utf8(isolate_, text.As<v8::String>(), kNameLimit, &cut);
    }
    const int kind = number(immediate) != 0 ? 2 : number(repeat) != 0 ? 1 : 0;
    return daybook_fired(timers_, d_->clock_ms, kind, number(delay), {name.data(), name.size()}) == 0;
  }

  Next fail(Local<Value> thrown) {
    conclude_exception(thrown);
    return Next::kEnded;
  }

  // Returns false if the run was stopped before the deadline.
  bool wait_until(Clock::time_point deadline) {
    std::unique_lock<std::mutex> lock(d_->mutex);
    return !d_->wake.wait_until(lock, deadline, [this] { return d_->stop; });
  }

  bool is_stopped() {
    return isolate_->IsExecutionTerminating() || caught_.HasTerminated() || d_->out_of_memory || d_->stop_requested();
  }

  Local<Value> undefined() {
    Local<Value> value;
    v8::Local<v8::Array> empty = v8::Array::New(isolate_, nullptr, 0);
    (void)empty->Get(context_, new_string(isolate_, "daybook.undefined")).ToLocal(&value);
    return value;
  }

  // Returns and clears the pending exception, so that later calls do not see it.
  Local<Value> take_exception() {
    if (!caught_.HasCaught() || caught_.HasTerminated()) return {};
    Local<Value> thrown = caught_.Exception();
    caught_.Reset();
    return thrown;
  }

  void set_text(std::string text) {
    d_->text = std::move(text);
    result_->has_text = 1;
  }

  void set_text(Local<v8::String> value) {
    bool cut = false;
    set_text(to_utf8(isolate_, value, kTextLimit, &cut));
    result_->truncated = cut;
  }

  void conclude_stopped() {
    result_->status = d_->out_of_memory ? DAYBOOK_OUT_OF_MEMORY : DAYBOOK_TERMINATED;
    result_->has_text = 0;
    d_->text.clear();
  }

  void conclude_never_settled() {
    result_->status = DAYBOOK_NEVER_SETTLED;
    set_text("Top-level await never settled: nothing is pending that could resume it");
  }

  void conclude_value(Local<Value> value) {
    Local<Value> text;
    if (!call_entry(d_, context_, "result", 1, &value).ToLocal(&text)) return conclude_exception(take_exception());
    result_->status = DAYBOOK_COMPLETED;
    if (text->FullIsString()) set_text(text.As<v8::String>());
  }

  void conclude_exception(Local<Value> thrown) {
    if (is_stopped() || thrown.IsEmpty()) return conclude_stopped();
    result_->status = DAYBOOK_EXCEPTION;
    Local<Value> text;
    if (call_entry(d_, context_, "error", 1, &thrown).ToLocal(&text) && text->FullIsString()) {
      set_text(text.As<v8::String>());
    } else if (is_stopped()) {
      return conclude_stopped();
    } else {
      (void)take_exception();
      set_text("Uncaught exception that could not be printed");
    }
  }

  void conclude_not_evaluated() {
    if (is_stopped() || !caught_.HasCaught()) return conclude_stopped();
    Local<v8::Message> message = caught_.Message();
    if (!message.IsEmpty()) {
      result_->line = message->GetLineNumber(context_).FromMaybe(0);
      result_->column = message->GetStartColumn(context_).FromMaybe(-1) + 1;
    }
    Local<Value> thrown = take_exception();
    bool syntax = false;
    if (!thrown.IsEmpty() && thrown->IsNativeError()) {
      bool cut;
      syntax = to_utf8(isolate_, thrown.As<v8::Object>()->GetConstructorName(), 64, &cut) == "SyntaxError";
    }
    conclude_exception(thrown);
    if (!syntax || result_->status != DAYBOOK_EXCEPTION) return;
    result_->status = DAYBOOK_SYNTAX_ERROR;
    Local<v8::String> plain;
    Local<Value> explained;
    if (string_of({d_->text.data(), d_->text.size()}, &plain)) {
      Local<Value> arg = plain;
      if (call_entry(d_, context_, "explainSyntaxError", 1, &arg).ToLocal(&explained) && explained->FullIsString()) {
        return set_text(explained.As<v8::String>());
      }
    }
    (void)take_exception();
  }

  daybook_isolate* const d_;
  v8::Isolate* const isolate_;
  const Local<v8::Context> context_;
  const bool skip_waits_;
  const uintptr_t timers_;
  v8::TryCatch caught_;
  daybook_result* const result_;
  Clock::time_point real_start_ = Clock::now();
};

// Passes all top-level names to the prelude, which can report later which run declared
// one. Returns false if the run was stopped.
bool note_names(daybook_isolate* d, v8::Local<v8::Context> context) {
  std::vector<v8::Global<v8::String>> names;
  v8::debug::GlobalLexicalScopeNames(context, &names);
  std::vector<v8::Local<v8::Value>> list;
  list.reserve(names.size());
  for (const auto& name : names) list.push_back(name.Get(d->isolate));
  v8::Local<v8::Value> all = v8::Array::New(d->isolate, list.data(), list.size());
  return !call_entry(d, context, "noteNames", 1, &all).IsEmpty();
}

// Reports whether the garbage of the run must be collected before the heap is prepared to be
// saved. V8 collects garbage when it saves the heap, which is enough for most runs. It is too
// late for
//   - callbacks of a FinalizationRegistry, which have to run before;
//   - objects with native data, which have a global handle: they cannot be saved, and only a
//     collection shows whether they are garbage;
//   - the search for errors and regular expressions, which would find those that are garbage;
//   - a run that used the headroom of the heap limit, because its heap is then measured.
//
// keeps_finalizers is whether the heap has such a callback.
bool needs_collection(const daybook_isolate* d, bool keeps_finalizers) {
  return keeps_finalizers || d->has_new_error || d->regexps != 0 || d->used_headroom ||
         global_handle_bytes(d->isolate) > d->baseline_handles;
}

// Prepares the heap to be saved: collects garbage if it has to, until no finalization callback
// is pending. The run holds no handles into the heap at this point. V8 cannot save a
// FinalizationRegistry with pending callbacks, so they run, after the result is known, and
// their exceptions are dropped. If the run failed, all timers are cancelled, so that they do
// not keep a later run from ending. Returns false if the run was stopped.
bool prepare_for_snapshot(daybook_isolate* d, std::optional<CompilerWindow>& window, daybook_result* result) {
  v8::Isolate* isolate = d->isolate;
  v8::HandleScope handles(isolate);
  v8::Local<v8::Context> context = d->context.Get(isolate);
  v8::Context::Scope scope(context);
  v8::TryCatch ignored(isolate);
  isolate->PerformMicrotaskCheckpoint();  // jobs do not survive a snapshot
  const bool failed = result->status != DAYBOOK_COMPLETED;
  // These two run before each collection: a cancelled timer, or the prelude's list of
  // calls, may hold the last reference to an object.
  bool keeps_finalizers = true;
  auto forget_calls = [&] {
    v8::Local<v8::Value> kept;
    if (call_entry(d, context, "forgetCalls", 0, nullptr).ToLocal(&kept)) keeps_finalizers = kept->FullIsTrue();
  };
  auto cancel_timers = [&] {
    v8::Local<v8::Value> count;
    if (!failed || !call_entry(d, context, "cancelTimers", 0, nullptr).ToLocal(&count)) return false;
    const int cancelled = static_cast<int>(count->NumberValue(context).FromMaybe(0));
    result->timers_cancelled += cancelled;
    return cancelled > 0;
  };
  cancel_timers();
  if (d->creator != nullptr) forget_calls();
  d->is_quiescent = d->creator != nullptr && !needs_collection(d, keeps_finalizers);
  // Callbacks may create new garbage with callbacks, so the number of rounds is limited.
  for (int round = 0; d->creator != nullptr && !d->is_quiescent && round < 16; round++) {
    forget_calls();
    if (window) window->discard();
    isolate->LowMemoryNotification();
    bool ran = false;
    while (!isolate->IsExecutionTerminating() && v8::platform::PumpMessageLoop(platform(), isolate)) {
      isolate->PerformMicrotaskCheckpoint();
      ran = true;
    }
    d->rejections.clear();
    d->reported.Reset();
    d->is_quiescent = !cancel_timers() && !ran;
    if (d->stop_requested() || d->out_of_memory) return false;
  }
  // What earlier runs left is as they left it when they were saved.
  if (d->creator != nullptr && d->is_quiescent && d->has_new_error) {
    read_stacks(d, context);
    if (d->stop_requested() || d->out_of_memory) return false;
  }
  if (d->creator != nullptr && d->is_quiescent && d->regexps != 0) {
    unshare_regexps(d, context);
    if (d->stop_requested() || d->out_of_memory) return false;
  }
  if (d->creator != nullptr && !note_names(d, context)) return false;
  v8::Local<v8::Value> ran = v8::Number::New(isolate, 1);
  return !call_entry(d, context, "end", 1, &ran).IsEmpty() && !d->stop_requested();
}

// Reverts the changes that the start of a run made to the heap.
bool undo_begin(daybook_isolate* d) {
  v8::HandleScope handles(d->isolate);
  v8::Local<v8::Context> context = d->context.Get(d->isolate);
  v8::Context::Scope scope(context);
  v8::TryCatch ignored(d->isolate);
  d->is_quiescent = false;
  v8::Local<v8::Value> ran = v8::Number::New(d->isolate, 0);
  return !call_entry(d, context, "end", 1, &ran).IsEmpty() && !d->stop_requested();
}

}  // namespace
}  // namespace daybook

extern "C" int daybook_inspect(daybook_isolate* d, daybook_bytes* text) {
  using namespace daybook;
  v8::HandleScope handles(d->isolate);
  v8::Local<v8::Context> context = d->context.Get(d->isolate);
  v8::Context::Scope scope(context);
  v8::TryCatch ignored(d->isolate);
  v8::Local<v8::Value> described;
  if (!call_entry(d, context, "inspectHeap", 0, nullptr).ToLocal(&described) || !described->FullIsString()) return 1;
  bool cut = false;
  d->text = to_utf8(d->isolate, described.As<v8::String>(), kTextLimit, &cut);
  *text = {d->text.data(), d->text.size()};
  return 0;
}

extern "C" void daybook_run(daybook_isolate* d, daybook_script script, daybook_bytes servers, daybook_bytes globals,
                            int options, uintptr_t timers, daybook_result* result) {
  using namespace daybook;
  *result = {};
  d->text.clear();
  sample_heap(d);  // V8 may end the process before its first collection
  std::optional<CompilerWindow> window;  // callbacks of the script may run until the heap is prepared
  {
    v8::HandleScope handles(d->isolate);
    v8::Local<v8::Context> context = d->context.Get(d->isolate);
    v8::Context::Scope scope(context);
    if ((options & DAYBOOK_OPTIMIZE) != 0 && !window.emplace(d->isolate).open()) {
      d->text = "V8 cannot optimize code in an isolate that can be saved";
      result->status = DAYBOOK_INTERNAL;
      result->text = {d->text.data(), d->text.size()};
      result->has_text = 1;
      return;
    }
    Run(d, context, (options & DAYBOOK_SKIP_WAITS) != 0, timers, result).execute(script, servers, globals, (options & DAYBOOK_NODE_GLOBALS) != 0);
  }
  d->rejections.clear();
  d->reported.Reset();
  if (result->status == DAYBOOK_SYNTAX_ERROR) {
    // Nothing ran and nothing is saved. The isolate can run another source.
    if (!undo_begin(d)) result->status = DAYBOOK_TERMINATED;
  } else if (result->status != DAYBOOK_TERMINATED && result->status != DAYBOOK_OUT_OF_MEMORY && !prepare_for_snapshot(d, window, result)) {
    *result = {};
    d->text.clear();
    result->status = d->out_of_memory ? DAYBOOK_OUT_OF_MEMORY : DAYBOOK_TERMINATED;
  }
  window.reset();
  if (result->status == DAYBOOK_TERMINATED || result->status == DAYBOOK_OUT_OF_MEMORY) {
    d->isolate->CancelTerminateExecution();
  }
  const size_t used = sample_heap(d);
  result->beyond_limit = d->used_headroom && near_limit(d, used);
  result->above_limit = d->used_headroom && used > d->heap_limit;
  result->text = {d->text.data(), d->text.size()};
  result->globals_refused = {d->globals_refused.data(), d->globals_refused.size()};
  result->globals_hidden = {d->globals_hidden.data(), d->globals_hidden.size()};
  result->global_change = {d->global_change.data(), d->global_change.size()};
  result->peak_heap = d->peak_heap;
  result->clock_ms = d->clock_ms;
  result->noted = d->noted;
}
