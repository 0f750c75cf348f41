package client_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/embed"
	"daybook/internal/web/client"
)

// cutting breaks each connection after some bytes of its answer.
type cutting struct{ after, connections int }

func (c *cutting) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err == nil {
		c.connections++
		resp.Body = &cutBody{resp.Body, c.after}
	}
	return resp, err
}

type cutBody struct {
	io.ReadCloser
	left int
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// Broken connections cost no event and repeat none.
func TestResume(t *testing.T) {
	t.Parallel()
	base := start(t, embed.Options{Slots: embed.SlotOptions{Total: 1}})
	whole := client.New(base, client.Options{})
	t.Cleanup(whole.CloseIdle)
	var id string
	for range 3 {
		id = run(t, whole, client.Run{Code: "for (let i = 0; i < 500; i++) console.log('a line of some length', i)"}).ExecutionID
	}
	last := must[client.Answer[client.OK]](t)(whole.SetTags(within(t), strings.Repeat("ab", 32), map[string]string{"last": "one"})).Sequence
	read := func(c *client.Client) (sequences, lines []string) {
		for e, err := range c.Events(within(t), client.From{After: 1}) {
			if err != nil {
				t.Fatal(err)
			}
			if e.CaughtUp {
				continue // the reading may begin before the last event is sent
			}
			if sequences = append(sequences, e.Sequence); e.Sequence == fmt.Sprint(last) {
				break
			}
		}
		for o, err := range c.FollowOutput(within(t), id) {
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, o.Line.Text)
		}
		return sequences, lines
	}
	wantSequences, wantLines := read(whole)
	if len(wantSequences) < 10 || wantSequences[0] != "2" || len(wantLines) != 500 {
		t.Fatalf("%d events from %v, %d lines", len(wantSequences), wantSequences[:1], len(wantLines))
	}
	cut := &cutting{after: 32 << 10}
	sequences, lines := read(client.New(base, client.Options{HTTP: &http.Client{Transport: cut}}))
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if diff := cmp.Diff(wantSequences, sequences); diff != "" || cut.connections < 4 {
		t.Errorf("over %d connections, events (-want +got):\n%s", cut.connections, diff)
	}
	if diff := cmp.Diff(wantLines, lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// After maxBroken connections without a message, follow returns an error.
func TestStreamThatAlwaysBreaks(t *testing.T) {
	t.Parallel()
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "retry: 1000\n\nid: 1\ndata: {")
	}))
	t.Cleanup(server.Close)
	c := client.New(server.URL, client.Options{})
	t.Cleanup(c.CloseIdle)
	var all []error
	for _, err := range c.Events(within(t), client.From{}) {
		all = append(all, err)
	}
	if len(all) != 1 || !errors.Is(all[0], client.ErrNoServer) || !strings.Contains(all[0].Error(), "closed /api/events?after=0 without finishing it") || asked != 6 {
		t.Errorf("after %d connections: %v", asked, all)
	}
}

// endless is a stream without line breaks.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) {
	e.read += int64(len(p))
	return len(p), nil
}

// A message of a stream without an end is an error once it exceeds the limit.
func TestMessagesAreBounded(t *testing.T) {
	t.Parallel()
	var source endless
	err := client.ReadMessagesWithin(&source, 1<<20)
	if err == nil || err == io.EOF || source.read > 2<<20 {
		t.Errorf("after %d bytes: %v", source.read, err)
	}
}

func FuzzReadMessages(f *testing.F) {
	for _, seed := range []string{"", "id: 1\ndata: a\n\n", "data: a\ndata:b\r\n\r\n", "event: end\n\n", ":\n\ndata\n\n", "id: 1\ndata: cut"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, stream string) {
		read := func(stream string) (out []string) {
			err := client.ReadMessages(strings.NewReader(stream), func(id, name, data string) {
				if strings.ContainsAny(id+name, "\n") {
					t.Errorf("id %q or name %q has more than one line", id, name)
				}
				out = append(out, id+"|"+name+"|"+data)
			})
			if err != io.EOF {
				t.Errorf("%q: %v", stream, err)
			}
			return out
		}
		got := read(stream)
		// Only complete events count: text after the last empty line is cut off.
		if again := read(stream + "id: x\ndata: cut"); !slices.Equal(got, again) && strings.HasSuffix(stream, "\n") {
			t.Errorf("%q reads %q, with a beginning of another event %q", stream, got, again)
		}
	})
}
