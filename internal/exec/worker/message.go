package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"daybook/internal/exec/v8"
)

// errProtocol reports a worker that does not keep to the protocol.
var errProtocol = errors.New("worker broke protocol")

// helloMagic opens the conversation: a process that finds anything else on its
// standard input was not started by a Pool.
const helloMagic = "daybook worker protocol 6"

// helloMessage says what a worker is going to be.
type helloMessage struct {
	Magic string `json:"magic"`
	// Stateful workers run tasks whose heap is saved, and only those; the others
	// run only those whose heap is not.
	Stateful bool `json:"stateful"`
	// BaseSize is the size in bytes of the base heap that follows: an earlier worker
	// of the pool made it. 0 asks the worker to make one and to send it.
	BaseSize int `json:"base_size,omitempty"`
}

// maxBaseHeap bounds the base heap of the protocol, in bytes. It has about half a
// megabyte.
const maxBaseHeap = 8 << 20

// readyMessage says that a worker can take a task.
type readyMessage struct {
	Engine v8.Engine `json:"engine"`
	// Layers are those of package sandbox that the worker found in force.
	Layers []string `json:"layers"`
	// Problem is why there are not more, as far as the worker can tell.
	Problem string `json:"problem,omitempty"`
	// BaseSize is the size in bytes of the base heap that follows, 0 for none.
	BaseSize int `json:"base_size,omitempty"`
}

// taskHeader precedes the code and the heap.
type taskHeader struct {
	FileName    string   `json:"file_name"`
	CodeSize    int      `json:"code_size"`
	HeapSize    int      `json:"heap_size"`
	Stateful    bool     `json:"stateful"`
	HeapLimit   int64    `json:"heap_limit"`
	BufferLimit int64    `json:"buffer_limit"`
	Seed        [16]byte `json:"seed"`
	StartMicros int64    `json:"start_micros"`
	// ServersSize is the length of what may be called, as JSON; it comes first.
	ServersSize int `json:"servers_size"`
	// GlobalsSize is the length of the values for the global object, as JSON; they
	// come after that.
	GlobalsSize int `json:"globals_size,omitempty"`
}

// check refuses sizes that no task has.
func (h *taskHeader) check() error {
	for _, part := range []struct {
		size, most int
	}{{h.ServersSize, maxServers}, {h.GlobalsSize, MaxGlobals}, {h.CodeSize, MaxCode}, {h.HeapSize, math.MaxInt32}} {
		if part.size < 0 || part.size > part.most {
			return fmt.Errorf("%w: a part of %d bytes, %d are allowed", errProtocol, part.size, part.most)
		}
	}
	return nil
}

// maxServers is more than the JSON of what a task may call.
const maxServers = math.MaxInt32

// How a worker says a run ended. The parent makes statuses and reasons of it.
const (
	endCompleted      = "completed"
	endException      = "exception"
	endSyntax         = "syntax_error"
	endNeverSettled   = "never_settled"
	endOutOfMemory    = "out_of_memory"
	endTerminated     = "terminated"
	endUnserializable = "unserializable_heap"
	endInternal       = "internal"
)

// endHeader precedes the text, a result or an error, and the heap.
type endHeader struct {
	End              string `json:"end"`
	HasText          bool   `json:"has_text"`
	Truncated        bool   `json:"truncated"`
	TextSize         int64  `json:"text_size"`
	HeapSize         int64  `json:"heap_size"`
	TranspiledSHA256 string `json:"transpiled_sha256"`
	CPUMicros        int64  `json:"cpu_micros"`
	PeakHeap         int64  `json:"peak_heap"`
	// TimersCancelled belongs to the heap of a failed run.
	TimersCancelled int      `json:"timers_cancelled,omitempty"`
	Warnings        []string `json:"warnings,omitempty"`
}

// decodeMessage decodes exactly one JSON value with known fields.
func decodeMessage(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: a message is followed by more", errProtocol)
	}
	return nil
}

func writeMessage(w io.Writer, t frameType, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode message %c: %w", t, err)
	}
	return writeFrame(w, t, b)
}
