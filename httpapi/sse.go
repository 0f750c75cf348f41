package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// heartbeat is how often a silent stream shows that it lives. Proxies cut
// connections after about a minute of silence.
const heartbeat = 15 * time.Second

// keptBuffer is the largest buffer, in bytes, that a stream keeps between two
// writes: most streams are silent most of the time.
const keptBuffer = 64 << 10

// sse writes server-sent events. It collects them until flush, so that a batch
// costs one write.
type sse struct {
	w   http.ResponseWriter
	rc  *http.ResponseController
	buf bytes.Buffer
}

// startSSE begins the stream and shows the client that it has.
func startSSE(w http.ResponseWriter) (*sse, error) {
	w.Header().Set("Content-Type", typeSSE)
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	s := &sse{w: w, rc: http.NewResponseController(w)}
	s.buf.WriteString("retry: 1000\n\n")
	return s, s.flush()
}

// event adds an event; empty id and name are left out.
func (s *sse) event(id, name string, data any) error {
	if id != "" {
		fmt.Fprintf(&s.buf, "id: %s\n", id)
	}
	if name != "" {
		fmt.Fprintf(&s.buf, "event: %s\n", name)
	}
	s.buf.WriteString("data: ")
	// JSON has no line breaks of its own, and the encoder ends with one.
	if err := encoder(&s.buf).Encode(data); err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	s.buf.WriteByte('\n')
	return nil
}

// beat adds a sign of life. With an id it also moves the position the client
// will resume from, which fires no event.
func (s *sse) beat(id string) {
	s.buf.WriteString(":\n")
	if id != "" {
		fmt.Fprintf(&s.buf, "id: %s\n\n", id)
	}
}

// send sends encoded lines after what was added.
func (s *sse) send(lines []outputLine) error {
	for _, l := range lines {
		s.buf.Write(l)
	}
	return s.flush()
}

// flush sends what was added.
func (s *sse) flush() error {
	if s.buf.Len() == 0 {
		return nil
	}
	_, err := s.w.Write(s.buf.Bytes())
	if s.buf.Cap() > keptBuffer {
		s.buf = bytes.Buffer{}
	}
	s.buf.Reset()
	if err != nil {
		return err
	}
	return s.rc.Flush()
}

func encoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc
}

// streamed is the output of an operation that may stream. Its function writes
// the whole answer.
type streamed struct {
	Body func(huma.Context)
}

// stream answers with whatever write writes. An error after the beginning of
// the answer means that the client is gone or will resume.
func stream(write func(w http.ResponseWriter, r *http.Request)) *streamed {
	return &streamed{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		write(w, r)
	}}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_ = encodeAnswer(w, v)
}
