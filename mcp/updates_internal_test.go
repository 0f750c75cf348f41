package mcp

import (
	"context"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A client that does not read delays no notification to another one. At most one
// notification per address waits for it.
func TestUpdatesDoNotWaitForOtherSessions(t *testing.T) {
	t.Parallel()
	var running sync.WaitGroup
	u := &updates{serverCtx: t.Context(), running: &running, pending: map[sdk.Session]map[string]func(context.Context){}}
	slow, quick := new(sdk.ServerSession), new(sdk.ServerSession)
	blocked, release, sent := make(chan struct{}, 100), make(chan struct{}), make(chan string, 100)
	handler := u.middleware(func(ctx context.Context, _ string, req sdk.Request) (sdk.Result, error) {
		if req.GetSession() == sdk.Session(slow) {
			blocked <- struct{}{}
			<-release
		}
		if ctx.Err() != nil {
			t.Error("the context of the notification has ended")
		}
		sent <- req.GetParams().(*sdk.ResourceUpdatedNotificationParams).URI
		return nil, nil
	})
	notify := func(to *sdk.ServerSession, uri string) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel() // as the SDK does when the call returns
		req := &sdk.ServerRequest[*sdk.ResourceUpdatedNotificationParams]{Session: to, Params: &sdk.ResourceUpdatedNotificationParams{URI: uri}}
		if _, err := handler(ctx, updatedMethod, req); err != nil {
			t.Error(err)
		}
	}
	notify(slow, "first")
	<-blocked
	for range 20 {
		notify(slow, "again")
	}
	notify(quick, "quick")
	select {
	case uri := <-sent:
		if uri != "quick" {
			t.Errorf("the address %q comes first", uri)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("a client waits for one that reads nothing")
	}
	close(release)
	running.Wait()
	close(sent)
	var rest []string
	for uri := range sent {
		rest = append(rest, uri)
	}
	if len(rest) != 2 || rest[0] != "first" || rest[1] != "again" || len(u.pending) != 0 {
		t.Errorf("the slow client is sent %q; %d sessions have goroutines", rest, len(u.pending))
	}
}
