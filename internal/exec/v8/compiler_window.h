// V8 has no optimizing compilers in an isolate that can be saved: optimized code cannot be. A
// CompilerWindow lets V8 optimize while code of a script runs, and discards the optimized code at
// its end. It uses the byte of feature_window.h.
//
// No code may run between its end and the saving of the heap: V8 compiles a function that became
// hot in the window when it is next called, whatever the byte is. It then makes code that does not
// work, or that it cannot save.
#pragma once

#include "feature_window.h"

namespace daybook {

// Closes when it is destroyed. No JavaScript function may then be on the stack.
class CompilerWindow {
 public:
  explicit CompilerWindow(v8::Isolate* isolate) : isolate_(reinterpret_cast<v8::internal::Isolate*>(isolate)), window_(isolate) {}
  // Functions that still refer to optimized code end the process when the heap is saved.
  ~CompilerWindow() { discard(); }
  // Discards the optimized code. Before a collection: the code would keep objects that are garbage.
  // No JavaScript function may be on the stack.
  void discard() {
    if (!open()) return;
    isolate_->AbortConcurrentOptimization(v8::internal::BlockingBehavior::kBlock);
    v8::internal::Deoptimizer::DeoptimizeAll(isolate_);
  }
  CompilerWindow(const CompilerWindow&) = delete;
  void operator=(const CompilerWindow&) = delete;

  bool open() const { return window_.open(); }

 private:
  v8::internal::Isolate* const isolate_;
  FeatureWindow window_;  // sets the byte after the destructor of the CompilerWindow
};

}  // namespace daybook
