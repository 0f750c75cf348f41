package runner

import (
	"fmt"
	"runtime/debug"
)

// guard calls do and turns a panic into an error with the stack in its text: a
// fault in one run must not end the others.
func guard(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return do()
}
