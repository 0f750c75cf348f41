package toolserver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// noMemory is memory that never becomes available.
type noMemory struct{}

func (noMemory) Take(ctx context.Context, _ string, _ int64) (Held, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Many large answers of one tenant on a shared stream delay those of other tenants for
// no longer than one answer does.
func TestManyAnswersWaitLikeOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newAnswerRouter()
		large := strings.Repeat("x", 2*smallMessage)
		id := int64(0)
		answered := func(tenant string) time.Duration {
			id++
			a := &answer{tenant: tenant, memory: noMemory{}}
			request, err := jsonrpc.MakeID(float64(id))
			if err != nil {
				t.Fatal(err)
			}
			b.expect(a, &jsonrpc.Request{ID: request, Method: "tools/call"})
			began := time.Now()
			got := b.divert(t.Context(), fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"%s"}]}}`, id, large), nil)
			if !strings.Contains(string(got), `"error"`) {
				t.Errorf("%.200s", got)
			}
			return time.Since(began)
		}
		var loud time.Duration
		for range 20 {
			loud += answered("loud")
		}
		if loud != maxSharedWait {
			t.Errorf("20 answers of one tenant waited %s", loud)
		}
		if d := answered("quiet"); d != maxSharedWait {
			t.Errorf("an answer of another tenant waited %s", d)
		}
		time.Sleep(10 * maxSharedWait)
		if d := answered("loud"); d != maxSharedWait {
			t.Errorf("an answer after a pause waited %s", d)
		}
	})
}

// The memory for requests that are never answered is limited.
func TestUnansweredRequestsAreForgotten(t *testing.T) {
	b := newAnswerRouter()
	for id := range 10 * maxOtherRequests {
		request, err := jsonrpc.MakeID(float64(id + 1))
		if err != nil {
			t.Fatal(err)
		}
		b.expect(nil, &jsonrpc.Request{ID: request, Method: "tools/list"})
	}
	if len(b.waiting) != maxOtherRequests || len(b.otherRequests) != maxOtherRequests {
		t.Errorf("%d and %d are noted", len(b.waiting), len(b.otherRequests))
	}
}

// An answer that needs more memory than was taken for it is refused: a wait for more
// memory while some is held could be a deadlock.
func TestAnswerLongerThanItsMemory(t *testing.T) {
	a := &answer{tenant: "t", memory: noMemory{}, held: noMemoryHeld{}, heldFor: 2 * smallMessage}
	if err := a.reserve(t.Context(), 2*smallMessage); err != nil {
		t.Error(err)
	}
	if err := a.reserve(t.Context(), 3*smallMessage); err == nil {
		t.Error("it counts as held")
	}
}

// The router and the SDK read the id of an answer as the same one. Otherwise an answer that
// the router does not expect would end a call without its memory.
func TestIDsAreThoseOfTheSDK(t *testing.T) {
	for _, id := range []string{"1", "1.0", "1e0", "1.5", "-0.5", "10000000000", `"1"`, `"a"`} {
		m, err := jsonrpc.DecodeMessage([]byte(`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`))
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(m.(*jsonrpc.Response).ID.Raw())
		if err != nil {
			t.Fatal(err)
		}
		if got := idOf(json.RawMessage(" " + id)); got != string(want) {
			t.Errorf("%s is read as %s, by the SDK as %s", id, got, want)
		}
	}
}
