package worker

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

// job is one received task with its program.
type job struct {
	taskHeader
	servers, globals, files, bundle, code []byte
	heap                                  *heapBody
	modules                               []*heapBody // those of the header that are not kept

	cpuAtStart time.Duration // the CPU time of the process when the job started
	program    *program
	linked     *linked
	refused    *sourceError // why the imports cannot be resolved
	encoded    []byte       // the bundle that the task makes
}

func (s *server) readTask(payload []byte) (*job, error) {
	j, err := readJob(&s.in, payload, func() {
		// The isolate of the previous task may hold as much memory as this heap needs.
		s.isolateMu.Lock()
		defer s.isolateMu.Unlock()
	})
	if err != nil {
		return nil, err
	}
	if j.Stateful != s.stateful {
		return nil, errors.New("a task for another kind of worker")
	}
	s.mu.Lock()
	s.stop = false // an earlier terminate frame was for the previous task
	s.mu.Unlock()
	return j, nil
}

// readJob decodes the header of a task and reads its bodies in the order in which process.send
// writes them. It calls ready before it allocates memory for a large heap.
func readJob(in *frameReader, header []byte, ready func()) (_ *job, err error) {
	var j job
	if err := decodeMessage(header, &j.taskHeader); err != nil {
		return nil, err
	}
	if err := j.check(); err != nil {
		return nil, err
	}
	for _, part := range []struct {
		to   *[]byte
		size int
	}{{&j.servers, j.ServersSize}, {&j.globals, j.GlobalsSize}, {&j.files, j.FilesSize}, {nil, 0}, {&j.bundle, j.BundleSize}, {&j.code, j.CodeSize}} {
		if part.to == nil {
			if j.modules, err = readWASM(in, j.WASM); err != nil {
				return nil, err
			}
			continue
		}
		// The announced size may be false.
		if *part.to, err = readPart(in, make([]byte, 0, min(part.size, firstPiece)), part.size); err != nil {
			return nil, err
		}
	}
	if j.HeapSize >= mappedHeap {
		ready()
	}
	if j.FromKept {
		j.heap = &heapBody{}
		return &j, nil
	}
	if j.heap, err = newHeapBody(j.HeapSize); err != nil {
		return nil, err
	}
	if j.heap.bytes, err = readPart(in, j.heap.bytes, j.HeapSize); err != nil {
		j.heap.release()
		return nil, err
	}
	return &j, nil
}

// firstPiece limits the memory that is allocated for the announced size of a body before any
// of it was received, in bytes.
const firstPiece = 32 << 20

// readPart appends a body of size bytes to the empty slice to.
func readPart(in *frameReader, to []byte, size int) ([]byte, error) {
	for len(to) < size {
		t, data, err := in.next()
		if err != nil || t != frameData || len(data) == 0 || len(to)+len(data) > size {
			return nil, fmt.Errorf("%w: the body of a task does not match its header", errProtocol)
		}
		to = append(to, data...)
	}
	return to, nil
}

// begin prepares the program of a job and sends the job to jobs. It does not run on the
// thread of the isolates, because each step of the transpiler's goroutines would wait for a
// change of threads there.
func (s *server) begin(j *job, jobs chan<- *job) {
	j.cpuAtStart = cpuTime()
	if err := s.frame(frameAccepted, nil); err != nil {
		os.Exit(exitClean) // the pipe is closed: the parent has ended
	}
	switch err := s.prepareJob(j); {
	case err == nil || errors.Is(err, errStopped): // the isolate notices the stop
	case errors.As(err, &j.refused):
	default:
		os.Exit(exitClean) // the pipe is closed
	}
	jobs <- j
}

// largeFiles is the size of the files of a run, in bytes, above which Go collects garbage more
// often while it converts them.
const largeFiles = 512 << 10

// prepareJob makes the bundle of a job, or the program and what it imports.
func (s *server) prepareJob(j *job) error {
	if j.FilesSize > largeFiles || j.BundleSize > 0 {
		// The garbage of this process counts as memory of the run.
		before := debug.SetGCPercent(50)
		defer func() {
			debug.SetGCPercent(before)
			debug.FreeOSMemory()
		}()
	}
	j.linked = &linked{code: j.code}
	if j.BundleSize > 0 {
		var err error
		if j.encoded, err = bundlePackages(j.bundle); err != nil {
			return &sourceError{err.Error()}
		}
		j.bundle = nil
		return nil
	}
	found, err := s.linkImports(j)
	if err == nil {
		j.linked = found
	}
	j.program = javaScript(j.linked.code, j.FileName, j.Stateful)
	return err
}

// mappedHeap is the size in bytes from which a worker keeps the heap of a task outside the
// memory of Go. In the memory of Go, the heaps of earlier tasks, and the copies of a slice
// that grows, would remain until this garbage is several times as large as the memory in use.
const mappedHeap = 4 << 20

// heapBody is the memory for the heap of one task.
type heapBody struct {
	bytes  []byte
	mapped []byte // the whole mapping; nil if bytes is in Go's memory
}

// newHeapBody returns memory for a heap of size bytes: bytes is empty and has this
// capacity. A part that is not written to takes no memory. The caller MUST call release.
func newHeapBody(size int) (*heapBody, error) {
	if size < mappedHeap {
		return &heapBody{bytes: make([]byte, 0, size)}, nil
	}
	m, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("get memory for a heap of %d bytes: %w", size, err)
	}
	return &heapBody{bytes: m[:0], mapped: m}, nil
}

// release frees the memory. It may be called more than once.
func (b *heapBody) release() {
	if b.mapped != nil {
		_ = unix.Munmap(b.mapped) // fails only for a range that is not mapped
	}
	b.bytes, b.mapped = nil, nil
}
