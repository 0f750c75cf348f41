package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"daybook/events"
	"daybook/internal/web/feed"
)

// sseEvents writes events of the ledger as server-sent events.
type sseEvents struct{ *sse }

func startSSEEvents(w http.ResponseWriter) func() (eventStream, error) {
	return func() (eventStream, error) {
		s, err := startSSE(w)
		return sseEvents{s}, err
	}
}

func (s sseEvents) event(e events.CloudEvent) error { return s.sse.event(e.Sequence, "", e) }

func (s sseEvents) encoded(e *feed.Event) error {
	if err := e.Encode(); err != nil {
		return err
	}
	fmt.Fprintf(&s.buf, "id: %s\ndata: ", e.Seq)
	s.buf.Write(e.JSON)
	s.buf.WriteString("\n\n")
	return nil
}

// edgeReached is the data of the events caught-up and end.
type edgeReached struct {
	Sequence string `json:"sequence"`
}

func (s sseEvents) caughtUp(seq string) error { return s.sse.event(seq, "caught-up", edgeReached{seq}) }

func (s sseEvents) beat(seq string) error {
	s.sse.beat(seq)
	return nil
}

// typeCaughtUp is the type of the lines that mark the newest event in an NDJSON
// response with follow=true. They have the form of events so that one parser reads
// every line, but they are not in the ledger and have no data.
const typeCaughtUp = "daybook.stream.caught_up.v1"

// lines writes events of the ledger as JSON lines. It buffers them until flush, so that
// a batch costs one write.
type lines struct {
	w   http.ResponseWriter
	rc  *http.ResponseController
	buf bytes.Buffer
	enc *json.Encoder
}

// startLines returns a function that starts the response and sends its header at once.
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

func (l *lines) event(e events.CloudEvent) error {
	if err := l.enc.Encode(e); err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	return nil
}

func (l *lines) encoded(e *feed.Event) error {
	if err := e.Encode(); err != nil {
		return err
	}
	l.buf.Write(e.JSON)
	l.buf.WriteByte('\n')
	return nil
}

func (l *lines) caughtUp(seq string) error {
	return l.enc.Encode(marker{
		SpecVersion: "1.0", ID: "caught-up-" + seq, Source: events.Source, Type: typeCaughtUp, Time: events.FormatTime(time.Now()), Sequence: seq,
	})
}

// marker is a line of type typeCaughtUp.
type marker struct {
	SpecVersion string `json:"specversion"`
	ID          string `json:"id"`
	Source      string `json:"source"`
	Type        string `json:"type"`
	Time        string `json:"time"`
	Sequence    string `json:"sequence"`
}

// beat adds another marker as a heartbeat. Clients may ignore the marker. A client that
// resumes after the position of the marker skips the events that its filter left out.
func (l *lines) beat(seq string) error { return l.caughtUp(seq) }

// blank adds an empty line as a heartbeat without a position. Readers of JSON lines
// skip it.
func (l *lines) blank() { l.buf.WriteByte('\n') }

func (l *lines) flush() error {
	if l.buf.Len() == 0 {
		return nil
	}
	_, err := l.w.Write(l.buf.Bytes())
	if l.buf.Cap() > maxKeptBuffer {
		l.buf = bytes.Buffer{}
	}
	l.buf.Reset()
	if err != nil {
		return err
	}
	return l.rc.Flush()
}
