package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/exec/worker"
	"daybook/runner"
)

// collected runs a task and returns its outcome, and its lines and artifacts in order.
func collected(t *testing.T, pool *worker.Pool, task runner.Task) (o runner.Outcome, steps []string) {
	t.Helper()
	task.OnArtifact = func(_ context.Context, a runner.Artifact) error {
		steps = append(steps, fmt.Sprintf("%s %s %d %x", a.Name, a.MIME, a.At.UnixMilli(), a.Bytes))
		return nil
	}
	o, err := pool.Run(t.Context(), task, func(_ context.Context, lines []events.Line) error {
		for _, l := range lines {
			steps = append(steps, l.Text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return o, steps
}

// Bytes of every kind arrive unchanged, between the lines that were written before and after,
// with the time of the script's clock.
func TestArtifacts(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 2})
	defer pool.Close()
	for _, stateful := range []bool{true, false} {
		task := patient(`
			console.log("first");
			artifact("string", "text/plain; charset=utf-8", "h\u00e9\ud800");
			artifact("empty", "a/b", "");
			const buffer = new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8]).buffer;
			artifact("buffer", "a/b", buffer);
			artifact("view", "a/b", new Uint16Array(buffer, 2, 2));
			artifact("data view", "a/b", new DataView(buffer, 7));
			artifact("clamped", "a/b", new Uint8ClampedArray(0));
			artifact("floats", "a/b", new Float64Array([1]));
			buffer.transfer();
			artifact("detached", "a/b", buffer);
			console.log("between");
			await new Promise(done => setTimeout(done, 5));
			artifact("../path\\", "a/b", "late");
			"done"`)
		task.Stateful, task.SkipWaits = stateful, true
		o, steps := collected(t, pool, task)
		at := task.Start.UnixMilli()
		want := []string{
			"first", fmt.Sprintf("string text/plain; charset=utf-8 %d 68c3a9efbfbd", at), fmt.Sprintf("empty a/b %d ", at), fmt.Sprintf("buffer a/b %d 0102030405060708", at),
			fmt.Sprintf("view a/b %d 03040506", at), fmt.Sprintf("data view a/b %d 08", at), fmt.Sprintf("clamped a/b %d ", at), fmt.Sprintf("floats a/b %d 000000000000f03f", at),
			fmt.Sprintf("detached a/b %d ", at), "between", fmt.Sprintf("../path\\ a/b %d 6c617465", at+5),
		}
		if o.Status != events.StatusCompleted || strings.Join(steps, "\n") != strings.Join(want, "\n") {
			t.Errorf("stateful %t: %s %s\n%s\nwant\n%s", stateful, o.Status, o.Error, strings.Join(steps, "\n"), strings.Join(want, "\n"))
		}
	}
}

// A heap keeps the function, and a script that replaced built-in objects changes nothing.
func TestArtifactsOfHeaps(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 2})
	defer pool.Close()
	first, _ := collected(t, pool, patient(`var kept = artifact, save = b => kept("kept", "a/b", b); RegExp.prototype.exec = null; String.prototype.slice = null; Array.prototype.includes = null; globalThis.artifact = 5`))
	if first.Status != events.StatusCompleted || len(first.Heap) == 0 {
		t.Fatalf("%s %s", first.Status, first.Error)
	}
	task := patient(`save("x"); kept("again", "a/b", new Uint8Array([255])); artifact`)
	task.Heap = first.Heap
	o, steps := collected(t, pool, task)
	at := task.Start.UnixMilli()
	if o.Result == nil || *o.Result != "5" || strings.Join(steps, "; ") != fmt.Sprintf("kept a/b %d 78; again a/b %d ff", at, at) {
		t.Errorf("%s %s, %q", o.Status, o.Error, steps)
	}
}

// Invalid arguments and exceeded limits are errors of the script.
func TestArtifactErrors(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 2})
	defer pool.Close()
	const typeError, rangeError = "TypeError: artifact: ", "RangeError: artifact: "
	for code, want := range map[string]string{
		`artifact()`:                                              typeError + "key must be a non-empty string",
		`artifact("", "a/b", "")`:                                 typeError + "key must be a non-empty string",
		`artifact(1, "a/b", "")`:                                  typeError + "key must be a non-empty string",
		`artifact("a\nb", "a/b", "")`:                             typeError + "key must not contain control characters",
		`artifact("é".repeat(129), "a/b", "")`:                    rangeError + "key must be at most 256 bytes of UTF-8",
		`artifact("n", "png", "")`:                                typeError + `mime must look like "type/subtype" (e.g. "image/png"), got "png"`,
		`artifact("n", "a/b\r\nx: y", "")`:                        typeError + `mime must look like "type/subtype" (e.g. "image/png"), got "a/b`,
		`artifact("n", "/b", "")`:                                 typeError + `mime must look like`,
		`artifact("n", "a/;", "")`:                                typeError + `mime must look like`,
		`artifact("n", "a/é", "")`:                                typeError + `mime must look like`,
		`artifact("n", undefined, "")`:                            typeError + `mime must look like "type/subtype" (e.g. "image/png"), got undefined`,
		`artifact("n", "a/b")`:                                    typeError + "bytes must be a Uint8Array, TypedArray, ArrayBuffer, or string",
		`artifact("n", "a/b", [1])`:                               typeError + "bytes must be",
		`artifact("n", "a/b", new Proxy(new Uint8Array(1), {}))`:  typeError + "bytes must be",
		`artifact("n", "a/b", new Uint8Array(16777217))`:          rangeError + "payload exceeds 16777216 bytes (got 16777217)",
		`artifact("n", "a/b", "é".repeat(8388609))`:               rangeError + "payload exceeds 16777216 bytes (got 16777218)",
		`for (let i = 0; i < 1001; i++) artifact("n", "a/b", "")`: rangeError + "a run creates at most 1000 artifacts",
		`const b = new Uint8Array(16777216); for (let i = 0; i < 17; i++) artifact("n", "a/b", b)`: rangeError + "the artifacts of a run have at most 268435456 bytes in total",
	} {
		o, steps := collected(t, pool, patient(code))
		if o.Reason != runner.ReasonException || !strings.HasPrefix(o.Error, want) || strings.Contains(o.Error, "prelude") {
			t.Errorf("%s: %s %.300s, want %s", code, o.Reason, o.Error, want)
		}
		if strings.Contains(code, "for") != (len(steps) > 0) {
			t.Errorf("%s: %d artifacts", code, len(steps))
		}
	}
}

// A receiver that fails stops the run, and gets no further artifact.
func TestArtifactReceiverFails(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	why := errors.New("the disk is full")
	calls := 0
	task := patient(`for (;;) { artifact("n", "a/b", "x"); await new Promise(done => setTimeout(done, 1)) }`)
	task.Timeout = 5 * time.Minute
	task.OnArtifact = func(context.Context, runner.Artifact) error {
		calls++
		return why
	}
	if _, err := pool.Run(t.Context(), task, discard); !errors.Is(err, why) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}
