package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"daybook/events"
)

// sseEvents writes events of the ledger as server-sent events.
type sseEvents struct{ *sse }

func startSSEEvents(w http.ResponseWriter) func() (eventStream, error) {
	return func() (eventStream, error) {
		s, err := startSSE(w)
		return sseEvents{s}, err
	}
}

func (s sseEvents) event(e CloudEvent) error { return s.sse.event(e.Sequence, "", e) }

func (s sseEvents) encoded(e *liveEvent) error {
	if err := e.encode(); err != nil {
		return err
	}
	fmt.Fprintf(&s.buf, "id: %s\ndata: ", e.seq)
	s.buf.Write(e.json)
	s.buf.WriteString("\n\n")
	return nil
}

// edgeReached is the data of a caught-up event.
type edgeReached struct {
	Sequence string `json:"sequence"`
}

func (s sseEvents) caughtUp(seq string) error { return s.sse.event(seq, "caught-up", edgeReached{seq}) }

func (s sseEvents) beat(seq string) error {
	s.sse.beat(seq)
	return nil
}

// TypeCaughtUp is the type of the lines in a followed NDJSON answer that mark
// the live edge. They look like events so that one parser reads every line, but
// are in no ledger and have no data.
const TypeCaughtUp = "daybook.stream.caught_up.v1"

// lines writes events of the ledger as JSON lines. It collects them until
// flush, so that a batch costs one write.
type lines struct {
	w   http.ResponseWriter
	rc  *http.ResponseController
	buf bytes.Buffer
	enc *json.Encoder
}

// startLines begins the answer and shows the client that it has.
func startLines(w http.ResponseWriter) func() (eventStream, error) {
	return func() (eventStream, error) {
		w.Header().Set("Content-Type", typeNDJSON)
		w.Header().Set("X-Accel-Buffering", "no")
		w.WriteHeader(http.StatusOK)
		l := &lines{w: w, rc: http.NewResponseController(w)}
		l.enc = encoder(&l.buf)
		return l, l.rc.Flush()
	}
}

func (l *lines) event(e CloudEvent) error {
	if err := l.enc.Encode(e); err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	return nil
}

func (l *lines) encoded(e *liveEvent) error {
	if err := e.encode(); err != nil {
		return err
	}
	l.buf.Write(e.json)
	l.buf.WriteByte('\n')
	return nil
}

func (l *lines) caughtUp(seq string) error {
	return l.enc.Encode(marker{
		SpecVersion: "1.0", ID: "caught-up-" + seq, Source: events.Source, Type: TypeCaughtUp, Time: events.FormatTime(time.Now()), Sequence: seq,
	})
}

// marker is a line that is no event of the ledger.
type marker struct {
	SpecVersion string `json:"specversion"`
	ID          string `json:"id"`
	Source      string `json:"source"`
	Type        string `json:"type"`
	Time        string `json:"time"`
	Sequence    string `json:"sequence"`
}

// beat repeats the marker: a client may skip it unread, but sees the position
// move past what its filters left out.
func (l *lines) beat(seq string) error { return l.caughtUp(seq) }

// blank adds an empty line, which readers of JSON lines pass over: a sign of life
// where a marker would tell nothing.
func (l *lines) blank() { l.buf.WriteByte('\n') }

func (l *lines) flush() error {
	if l.buf.Len() == 0 {
		return nil
	}
	_, err := l.w.Write(l.buf.Bytes())
	if l.buf.Cap() > keptBuffer {
		l.buf = bytes.Buffer{}
	}
	l.buf.Reset()
	if err != nil {
		return err
	}
	return l.rc.Flush()
}
