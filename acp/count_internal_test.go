package acp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"daybook/internal/link"
	"daybook/ledger"
)

// Each request of a client is counted, also a prompt. A request over the rate is
// refused before it is handled.
func TestRequestsAreCounted(t *testing.T) {
	t.Parallel()
	counted := 0
	s := New(Options{Count: func() error {
		if counted++; counted > 3 {
			return &ledger.Error{Code: ledger.CodeExhausted, Message: "over the rate"}
		}
		return nil
	}})
	fromTest, in := io.Pipe()
	out, toTest := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- s.Serve(t.Context(), fromTest, toTest) }()
	answers := bufio.NewScanner(out)
	ask := func(id int, method, params string) string {
		if _, err := fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params); err != nil {
			t.Fatal(err)
		}
		if !answers.Scan() {
			t.Fatal("no answer")
		}
		return answers.Text()
	}
	if a := ask(0, sdk.AgentMethodInitialize, `{"protocolVersion":1}`); !strings.Contains(a, `"result"`) {
		t.Fatal(a)
	}
	for i := range 6 {
		// The handler of the request refuses the directory.
		a := ask(i+1, sdk.AgentMethodSessionNew, `{"cwd":"relative","mcpServers":[]}`)
		if over := strings.Contains(a, "over the rate"); over != (i >= 3) {
			t.Errorf("request %d: %s", i+1, a)
		}
	}
	if a := ask(9, sdk.AgentMethodSessionPrompt, `{"sessionId":"s","prompt":[]}`); !strings.Contains(a, "over the rate") || counted != 7 {
		t.Errorf("a prompt: %s; %d requests are counted, want 7", a, counted)
	}
	in.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A link repeats requests of a client at the next owner. They are not counted again,
// once for each session.
func TestRepeatedRequestsAreNotCounted(t *testing.T) {
	t.Parallel()
	over := errors.New("over the rate")
	c := &client{server: New(Options{Count: func() error { return over }}), turns: map[string]*turn{}}
	c.turns["again"], c.turns["first"] = &turn{}, &turn{}
	c.turns["again"].delivery.Again = true
	resume := json.RawMessage(`{"sessionId":"s","_meta":{"` + link.Reattached + `":true}}`)
	if err := c.count(sdk.AgentMethodSessionResume, resume); !errors.Is(err, over) {
		t.Errorf("a client that sends the mark of a link: %v, want %v", err, over)
	}
	c.restoring.Store(true)
	for i, one := range []struct {
		method string
		params json.RawMessage
		want   error
	}{
		{sdk.AgentMethodSessionPrompt, json.RawMessage(`{"sessionId":"again"}`), nil},
		{sdk.AgentMethodSessionPrompt, json.RawMessage(`{"sessionId":"first"}`), over},
		{sdk.AgentMethodSessionResume, resume, nil},
		{sdk.AgentMethodSessionResume, resume, over},
		{sdk.AgentMethodSessionResume, json.RawMessage(`{"sessionId":"other"}`), over},
	} {
		if err := c.count(one.method, one.params); !errors.Is(err, one.want) {
			t.Errorf("request %d: %v, want %v", i, err, one.want)
		}
	}
}

// A client at the limit that opens a session loses the least recently used one that
// runs no prompt.
func TestOpenSessionsAreBounded(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	c, other := &client{server: s, turns: map[string]*turn{}}, &client{server: s, turns: map[string]*turn{}}
	add := func(c *client, id string, age time.Duration) {
		announced := make(chan struct{})
		close(announced)
		n := &session{id: id, client: c, announced: announced}
		_, n.cancelAnnounce = context.WithCancel(t.Context())
		s.open(n)
		n.lastUse = n.lastUse.Add(-age)
	}
	add(other, "foreign", time.Hour)
	add(c, "prompted", time.Hour)
	add(c, "oldest", time.Minute)
	c.turns["prompted"] = &turn{}
	for i := range maxOpenSessions - 2 {
		if err := c.makeSpace(); err != nil {
			t.Fatal(err)
		}
		add(c, fmt.Sprint(i), 0)
	}
	if len(s.openSessions) != maxOpenSessions+1 {
		t.Fatalf("%d sessions are open", len(s.openSessions))
	}
	if err := c.makeSpace(); err != nil || s.openSessions["oldest"] != nil || s.openSessions["prompted"] == nil || s.openSessions["foreign"] == nil || len(s.openSessions) != maxOpenSessions {
		t.Errorf("at the limit: %v, %d sessions are open", err, len(s.openSessions))
	}
	add(c, "last", 0)
	for id := range s.openSessions {
		c.turns[id] = &turn{}
	}
	if err := c.makeSpace(); err == nil {
		t.Error("a session that runs a prompt was ended")
	}
}
