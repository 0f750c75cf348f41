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

	"daybook/internal/web/feed"
)

// heartbeatInterval is the interval of heartbeats on idle streams. Proxies cut connections
// after about a minute without data.
const heartbeatInterval = 15 * time.Second

// maxKeptBuffer is the largest buffer that a stream keeps between two writes, in bytes:
// most streams are idle most of the time.
const maxKeptBuffer = 64 << 10

// sse writes server-sent events. It buffers them until flush, so that a batch costs one
// write.
type sse struct {
	w   http.ResponseWriter
	rc  *http.ResponseController
	buf bytes.Buffer
}

// startSSE starts the response and sends its header at once.
func startSSE(w http.ResponseWriter) (*sse, error) {
	w.Header().Set("Content-Type", typeSSE)
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	s := &sse{w: w, rc: http.NewResponseController(w)}
	s.buf.WriteString("retry: 1000\n\n")
	return s, s.flush()
}

// event adds an event. An empty id or name is left out.
func (s *sse) event(id, name string, data any) error {
	if id != "" {
		fmt.Fprintf(&s.buf, "id: %s\n", id)
	}
	if name != "" {
		fmt.Fprintf(&s.buf, "event: %s\n", name)
	}
	s.buf.WriteString("data: ")
	// JSON contains no line break, and the encoder appends one.
	if err := encoder(&s.buf).Encode(data); err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	s.buf.WriteByte('\n')
	return nil
}

// beat adds a heartbeat. With an id it also sets the position that the client resumes
// from. Clients see no event.
func (s *sse) beat(id string) {
	s.buf.WriteString(":\n")
	if id != "" {
		fmt.Fprintf(&s.buf, "id: %s\n\n", id)
	}
}

// send sends the added events and then the encoded lines.
func (s *sse) send(lines []feed.Line) error {
	for _, l := range lines {
		s.buf.Write(l)
	}
	return s.flush()
}

// flush sends the added events.
func (s *sse) flush() error {
	if s.buf.Len() == 0 {
		return nil
	}
	_, err := s.w.Write(s.buf.Bytes())
	if s.buf.Cap() > maxKeptBuffer {
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

// streamed is the output of an operation that writes its response without huma. Body
// writes the whole response.
type streamed struct {
	Body func(huma.Context)
}

// stream returns an output whose response is written by write. After the response has
// started, write handles errors: the client has disconnected or will resume.
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
