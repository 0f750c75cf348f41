package toolserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Memory bounds what the answers of tools take in this process.
type Memory interface {
	// Take waits until n bytes are free for a tenant and takes them. The error says
	// what to do.
	Take(ctx context.Context, tenant string, n int64) (Held, error)
}

// Held is memory that was taken. It is safe for concurrent use.
type Held interface {
	// Shrink gives back all but n bytes.
	Shrink(n int64)
	// Release gives back everything. It may be called more than once.
	Release()
}

const (
	// smallMessage is the length of a message, in bytes, up to which no memory is
	// taken for it.
	smallMessage = 64 << 10
	// answerCopies is how often an answer is in memory while it is decoded.
	answerCopies = 4
)

// answer is the way that the answer to one call takes beside the SDK, which would hold
// it many times over: each value in it becomes a Go value. The SDK gets a message
// without content in its place.
type answer struct {
	tenant string
	memory Memory // nil takes none

	mu   sync.Mutex
	id   string // guarded by mu; of the request, as JSON
	raw  []byte // guarded by mu; the result as JSON
	held Held   // guarded by mu; nil while nothing is taken
	over bool   // guarded by mu; the call has ended
}

type answerKey struct{}

// answerOf returns the answer that a request under ctx waits for, or nil.
func answerOf(ctx context.Context) *answer {
	a, _ := ctx.Value(answerKey{}).(*answer)
	return a
}

// reserve takes the memory for a message of n bytes.
func (a *answer) reserve(ctx context.Context, n int64) error {
	if a.memory == nil || n <= smallMessage {
		return nil
	}
	a.mu.Lock()
	taken := a.held != nil
	a.mu.Unlock()
	if taken {
		return nil
	}
	held, err := a.memory.Take(ctx, a.tenant, n*answerCopies)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over || a.held != nil {
		held.Release()
		return nil
	}
	a.held = held
	return nil
}

// take ends the call. It returns the result that came, or nil, and the memory that it
// takes.
func (a *answer) take() ([]byte, Held) {
	a.mu.Lock()
	defer a.mu.Unlock()
	raw, held := a.raw, a.held
	a.raw, a.held, a.over = nil, nil, true
	if held == nil {
		held = unheld{}
	}
	return raw, held
}

// refusal is the message that fails the call in place of its answer.
func (a *answer) refusal(why error) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return refusal(a.id, why)
}

func refusal(id string, why error) []byte {
	text, err := json.Marshal(why.Error())
	if err != nil {
		text = []byte(`"the answer cannot be read"`)
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, id, jsonrpc.CodeInternalError, text)
}

type unheld struct{}

func (unheld) Shrink(int64) {}
func (unheld) Release()     {}

// beside is the messages of one connection whose answers are on their way.
type beside struct {
	mu      sync.Mutex
	waiting map[string]*answer // guarded by mu; by id as JSON; nil for requests that are no calls of tools
}

func newBeside() *beside { return &beside{waiting: map[string]*answer{}} }

// expect notes a request before it leaves, and returns a if it is a call of a tool.
func (b *beside) expect(a *answer, m jsonrpc.Message) *answer {
	r, ok := m.(*jsonrpc.Request)
	if !ok || !r.IsCall() {
		return nil
	}
	id, err := json.Marshal(r.ID.Raw())
	if err != nil {
		return nil
	}
	if r.Method != "tools/call" {
		a = nil
	}
	if a != nil {
		a.mu.Lock()
		a.id = string(id)
		a.mu.Unlock()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting[string(id)] = a
	return a
}

// expectBody notes a request over HTTP before it leaves. It returns the answer that a
// call waits for, or nil.
func (b *beside) expectBody(r *http.Request) (*answer, error) {
	a := answerOf(r.Context())
	if r.Method != http.MethodPost || r.GetBody == nil {
		return nil, nil
	}
	body, err := r.GetBody()
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	m, err := jsonrpc.DecodeMessage(raw)
	if err != nil {
		return nil, err
	}
	return b.expect(a, m), nil
}

// forget ends the wait for an answer.
func (b *beside) forget(a *answer) {
	a.mu.Lock()
	id := a.id
	a.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting[id] == a {
		delete(b.waiting, id)
	}
}

// divert keeps the result of a call beside its message, and returns what the SDK gets
// in its place. It returns nil for a large message that nothing waits for. wait bounds
// the time for memory that was not taken yet.
func (b *beside) divert(wait context.Context, message []byte) []byte {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method json.RawMessage `json:"method"`
		Result json.RawMessage `json:"result"`
	}
	large := len(message) > smallMessage
	if err := json.Unmarshal(message, &m); err != nil {
		return message // the SDK says what is wrong
	}
	id := string(bytes.TrimSpace(m.ID))
	b.mu.Lock()
	a, expected := b.waiting[id]
	if expected && m.Method == nil {
		delete(b.waiting, id)
	}
	b.mu.Unlock()
	switch {
	case m.Method != nil || !expected:
		if large {
			return nil // it is a notice, or an answer to a call that was given up
		}
		return message
	case a == nil:
		return message
	case m.Result == nil:
		if large {
			return refusal(id, errors.New("the server's error is longer than 64 KiB"))
		}
		return message
	}
	if !large && asksForInput(m.Result) {
		return message
	}
	if err := a.reserve(wait, int64(len(message))); err != nil {
		return refusal(id, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.over {
		a.raw = m.Result
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, id)
}

// asksForInput reports whether a result is no end of a call: the SDK answers it.
func asksForInput(result []byte) bool {
	var r struct {
		Type string `json:"resultType"`
	}
	return json.Unmarshal(result, &r) == nil && r.Type != "" && r.Type != "complete"
}

// expecting is a transport whose requests are noted before they leave.
type expecting struct {
	sdk.Transport
	beside *beside
}

// Connect implements sdk.Transport.
func (e expecting) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := e.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return expectingConn{c, e.beside}, nil
}

type expectingConn struct {
	sdk.Connection
	beside *beside
}

func (c expectingConn) Write(ctx context.Context, m jsonrpc.Message) error {
	c.beside.expect(answerOf(ctx), m)
	return c.Connection.Write(ctx, m)
}
