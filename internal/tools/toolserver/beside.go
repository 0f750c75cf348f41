package toolserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

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
	room int64  // guarded by mu; the length of the message that held is for
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
	taken, room := a.held != nil, a.room
	a.mu.Unlock()
	switch {
	case taken && n <= room:
		return nil
	case taken: // to wait for more while it holds some could last for ever
		return errors.New("the server's answer is longer than it said")
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
	a.held, a.room = held, n
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

// maxOthers bounds the requests that are no calls of tools whose answers may be large.
// Some are never answered.
const maxOthers = 64

// beside is the messages of one connection whose answers are on their way.
type beside struct {
	mu      sync.Mutex
	waiting map[string]*answer // guarded by mu; by id as JSON; nil for requests that are no calls of tools
	others  []string           // guarded by mu; the ids of those, oldest first
	waited  map[string]waited  // guarded by mu; by tenant
	asked   int                // guarded by mu; requests of the server whose responses have not left
}

// maxAsked bounds the requests of a server whose responses have not left, such as pings.
// Each takes a goroutine, and over HTTP a connection. Further ones get no response.
const maxAsked = 32

// accept reports whether the SDK gets a request of the server.
func (b *beside) accept() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.asked >= maxAsked {
		return false
	}
	b.asked++
	return true
}

// left notes that a message has left, or never will.
func (b *beside) left(m jsonrpc.Message) {
	if _, ok := m.(*jsonrpc.Response); !ok {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = max(0, b.asked-1)
}

// waited is how long answers of a tenant have kept others on a shared stream waiting.
type waited struct {
	time time.Duration
	at   time.Time
}

const (
	// sharedWait bounds how long answers of one tenant keep those after them on the same
	// stream waiting for memory, at once.
	sharedWait = 2 * time.Second
	// forgiveness is the part of the time that is taken off again.
	forgiveness = 10
	// maxWaited bounds the tenants whose waits are known.
	maxWaited = 1000
)

// maxWait returns how long an answer of a tenant may wait on a shared stream.
func (b *beside) maxWait(tenant string) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.waited[tenant]
	return sharedWait - max(0, w.time-time.Since(w.at)/forgiveness)
}

// hasWaited notes that an answer of a tenant waited.
func (b *beside) hasWaited(tenant string, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.waited[tenant]
	if b.waited == nil || len(b.waited) >= maxWaited {
		b.waited = map[string]waited{}
	}
	now := time.Now()
	b.waited[tenant] = waited{min(sharedWait, max(0, w.time-now.Sub(w.at)/forgiveness)+d), now}
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
	if a == nil {
		if b.others = append(b.others, string(id)); len(b.others) > maxOthers {
			if old, waits := b.waiting[b.others[0]]; waits && old == nil {
				delete(b.waiting, b.others[0])
			}
			b.others = slices.Delete(b.others, 0, 1)
		}
	}
	return a
}

// expectBody notes a request over HTTP before it leaves. It returns the answer that a
// call waits for, or nil, and the message, or nil.
func (b *beside) expectBody(r *http.Request) (*answer, jsonrpc.Message, error) {
	a := answerOf(r.Context())
	if r.Method != http.MethodPost || r.GetBody == nil {
		return nil, nil, nil
	}
	body, err := r.GetBody()
	if err != nil {
		return nil, nil, err
	}
	raw, err := io.ReadAll(body)
	if err != nil {
		return nil, nil, err
	}
	m, err := jsonrpc.DecodeMessage(raw)
	if err != nil {
		return nil, nil, err
	}
	return b.expect(a, m), m, nil
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

// divertAll is divert for a message or a batch of messages. It returns the messages that
// the SDK gets, which reads no batches over HTTP.
func (b *beside) divertAll(ctx context.Context, text []byte, only *answer) [][]byte {
	if text = bytes.TrimSpace(text); isBatch(text) {
		return b.divertBatch(ctx, text, only)
	}
	if message := b.divert(ctx, text, only); message != nil {
		return [][]byte{message}
	}
	return nil
}

// isBatch reports whether a text is a list of messages. Other lists may be a line of a
// message of several lines.
func isBatch(text []byte) bool {
	return len(text) > 0 && text[0] == '[' && bytes.Contains(text, []byte(`"jsonrpc"`)) && json.Valid(text)
}

// maxBatch bounds the messages of a batch.
const maxBatch = 1000

func (b *beside) divertBatch(ctx context.Context, text []byte, only *answer) [][]byte {
	var messages [][]byte
	d := json.NewDecoder(bytes.NewReader(text))
	_, _ = d.Token() // the bracket
	for n := 0; n < maxBatch && d.More(); n++ {
		var message json.RawMessage
		if d.Decode(&message) != nil {
			break
		}
		if message = b.divert(ctx, message, only); message != nil && isMessage(message) {
			messages = append(messages, message)
		}
	}
	return messages
}

// isMessage reports whether the SDK can read a message: if not, it ends the connection.
func isMessage(message []byte) bool {
	_, err := jsonrpc.DecodeMessage(message)
	return err == nil
}

// divert keeps the result of a call beside its message, and returns what the SDK gets
// in its place. It returns nil for a large message that nothing waits for, or that is not
// JSON. In the response
// to a call, an answer to another call is left out: only is the answer to that call, or
// nil on a stream that calls share.
func (b *beside) divert(ctx context.Context, message []byte, only *answer) []byte {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method json.RawMessage `json:"method"`
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	large := len(message) > smallMessage
	if err := json.Unmarshal(message, &m); err != nil {
		if large {
			return nil // the SDK reads it in part, into many values
		}
		return message // the SDK says what is wrong
	}
	id := idOf(m.ID)
	b.mu.Lock()
	a, expected := b.waiting[id]
	if m.Method == nil && only != nil && a != only {
		b.mu.Unlock()
		return nil
	}
	if expected && m.Method == nil {
		delete(b.waiting, id)
	}
	b.mu.Unlock()
	switch {
	case m.Method != nil || !expected:
		asks := m.Method != nil && len(m.ID) > 0 && string(m.ID) != "null"
		if large || asks && !b.accept() {
			return nil // it is a notice, or an answer to a call that was given up
		}
		return message
	case a == nil:
		return message
	case m.Result == nil || len(m.Error) > 0 && string(m.Error) != "null":
		if large {
			return refusal(id, errors.New("the server's error is longer than 64 KiB"))
		}
		return message
	}
	if !large && asksForInput(m.Result) {
		return message
	}
	if err := b.reserve(ctx, a, len(message), only == nil); err != nil {
		return refusal(id, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.over {
		a.raw = m.Result
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, id)
}

// reserve takes the memory for a message of n bytes that has come.
func (b *beside) reserve(ctx context.Context, a *answer, n int, shared bool) error {
	if n <= smallMessage {
		return nil
	}
	if shared {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, b.maxWait(a.tenant))
		defer stop()
		began := time.Now()
		defer func() { b.hasWaited(a.tenant, time.Since(began)) }()
	}
	return a.reserve(ctx, int64(n))
}

// idOf returns an id as requests have it: the SDK also takes 1.0 for 1.
func idOf(raw json.RawMessage) string {
	text := string(bytes.TrimSpace(raw))
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		return strconv.FormatInt(int64(f), 10)
	}
	return text
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
	defer c.beside.left(m)
	return c.Connection.Write(ctx, m)
}
