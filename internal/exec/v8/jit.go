package v8

import (
	"bytes"
	"errors"
	"fmt"
	"time"
)

// The scripts with which CheckJIT compares runs with and without the compiler. The numbers that
// optimized code computes make their heaps different.
const (
	checkFirst = `
const kept = [], double = x => x * 2;
class Point { #hidden = 1; constructor(x) { this.x = x; } get both() { return this.x + this.#hidden; } }
function* count(n) { for (let i = 0; i < n; i++) yield i; }
function add(a, b) { return a + b; }
let sum = 0, float = 0.5, point = new Point(0);
for (let i = 0; i < 60000; i++) { sum = add(sum, i) | 0; float = double(float + 0.5) % 1000; point = new Point(i); }
for (const i of count(5000)) sum ^= new Point(i).both;
kept.push(double(1.5), add("a", 1), add({}, 0.5), float, "a-b".replace(/-(.)/, (all, c) => c + sum));
new Float64Array(4).fill(double(0.75)).join() + kept`
	checkNext = `
for (let i = 0; i < 60000; i++) { sum = add(sum, i) ^ 1; float = double(float + 0.25) % 1000; }
kept.push(new Point(double(0.5)).both, float, ...count(3));
point.both + " " + sum + " " + kept`
)

// CheckJIT returns an error if V8 in this process does not do what Config.JIT needs: optimize in an
// isolate that can be saved, save the same heap for the same run, and continue from it with and
// without the compiler. AllowJIT MUST have been called. V8 may end the process instead.
func CheckJIT() error {
	if err := checkJIT(); err != nil {
		return fmt.Errorf("V8 %s cannot optimize stateful runs as --jit=on needs, so start with --jit=off: %w", CurrentEngine().V8Version, err)
	}
	return nil
}

func checkJIT() error {
	without, err := runToCheck(Config{}, checkFirst)
	if err != nil {
		return err
	}
	with, err := runToCheck(Config{JIT: true}, checkFirst)
	if err != nil {
		return err
	}
	again, err := runToCheck(Config{JIT: true}, checkFirst)
	switch {
	case err != nil:
		return err
	case with.text != without.text:
		return fmt.Errorf("a script returned %q with the compiler and %q without it", with.text, without.text)
	case bytes.Equal(with.heap, without.heap):
		return errors.New("V8 did not optimize")
	case !bytes.Equal(with.heap, again.heap):
		return errors.New("the same run made two heaps")
	}
	want, err := runToCheck(Config{Heap: without.heap}, checkNext)
	if err != nil {
		return err
	}
	for _, cfg := range []Config{{Heap: with.heap}, {Heap: with.heap, JIT: true}, {Heap: without.heap, JIT: true}} {
		next, err := runToCheck(cfg, checkNext)
		if err == nil && next.text != want.text {
			err = fmt.Errorf("the next script returned %q with the compiler and %q without it", next.text, want.text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

type checkedRun struct {
	text string
	heap []byte
}

// runToCheck runs a script and saves the heap.
func runToCheck(cfg Config, source string) (checkedRun, error) {
	cfg.Start = time.Unix(0, 0)
	i, err := New(cfg)
	if err != nil {
		return checkedRun{}, err
	}
	defer i.Dispose()
	r, err := i.Run(Script{Source: []byte(source)})
	switch {
	case err != nil:
		return checkedRun{}, err
	case r.Status != Completed || r.Text == nil:
		return checkedRun{}, fmt.Errorf("a script ended with status %d", r.Status)
	}
	heap, err := i.Snapshot()
	return checkedRun{*r.Text, bytes.Clone(heap)}, err
}
