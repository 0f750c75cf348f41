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

// Memory limits the memory of answers of tools in this process.
type Memory interface {
	// Take waits until n bytes are available for a tenant and takes them. The error says
	// what to do.
	Take(ctx context.Context, tenant string, n int64) (Held, error)
}

// Held is memory that was taken. It is safe for concurrent use.
type Held interface {
	// Shrink returns all but n bytes.
	Shrink(n int64)
	// Release returns all bytes. It may be called more than once.
	Release()
}

const (
	// smallMessage is the length in bytes up to which a message takes no memory from the
	// budget.
	smallMessage = 64 << 10
	// answerCopies is the number of copies of an answer in memory while it is decoded.
	answerCopies = 4
)

// answer receives the answer to one call. The content of the answer bypasses the SDK, which
// would decode each value of the content into a Go value and so need many times the length
// of the answer. The SDK gets a message without content instead.
type answer struct {
	tenant string
	memory Memory // nil if memory is not limited

	mu       sync.Mutex
	id       string // id of the request as JSON; guarded by mu
	raw      []byte // the result as JSON; guarded by mu
	held     Held   // memory of the message, nil while none is taken; guarded by mu
	heldFor  int64  // length of the message that held is for; guarded by mu
	hasEnded bool   // whether the call has ended; guarded by mu
}

type answerKey struct{}

// answerOf returns the answer that a request with ctx waits for, or nil.
func answerOf(ctx context.Context) *answer {
	a, _ := ctx.Value(answerKey{}).(*answer)
	return a
}

// reserve takes memory for a message of n bytes.
func (a *answer) reserve(ctx context.Context, n int64) error {
	if a.memory == nil || n <= smallMessage {
		return nil
	}
	a.mu.Lock()
	taken, room := a.held != nil, a.heldFor
	a.mu.Unlock()
	switch {
	case taken && n <= room:
		return nil
	case taken: // a wait for more memory while some is held could be a deadlock
		return errors.New("the server's answer is longer than announced")
	}
	held, err := a.memory.Take(ctx, a.tenant, n*answerCopies)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.hasEnded || a.held != nil {
		held.Release()
		return nil
	}
	a.held, a.heldFor = held, n
	return nil
}

// take ends the call. It returns the result, or nil if none arrived, and the memory of
// the result.
func (a *answer) take() ([]byte, Held) {
	a.mu.Lock()
	defer a.mu.Unlock()
	raw, held := a.raw, a.held
	a.raw, a.held, a.hasEnded = nil, nil, true
	if held == nil {
		held = noMemoryHeld{}
	}
	return raw, held
}

// refusal returns the message that fails the call instead of its answer.
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

type noMemoryHeld struct{}

func (noMemoryHeld) Shrink(int64) {}
func (noMemoryHeld) Release()     {}

// maxOtherRequests is the maximum number of waiting requests other than tool calls. Beyond
// it, the oldest one is forgotten, and a large answer to it is dropped. Some requests are
// never answered.
const maxOtherRequests = 64

// answerRouter holds the state of the requests of one connection that wait for an answer.
type answerRouter struct {
	mu             sync.Mutex
	waiting        map[string]*answer  // by id as JSON, nil for requests other than tool calls; guarded by mu
	otherRequests  []string            // ids of requests other than tool calls, oldest first; guarded by mu
	waitTimes      map[string]waitTime // by tenant; guarded by mu
	serverRequests int                 // requests of the server whose responses are not sent; guarded by mu
}

// maxServerRequests is the maximum number of requests of a server, such as pings, whose responses
// are not sent. Each takes a goroutine, and over HTTP a connection. Further requests get
// no response.
const maxServerRequests = 32

// accept counts a request of the server. It reports whether the SDK gets the request, or
// false if there are too many.
func (b *answerRouter) accept() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.serverRequests >= maxServerRequests {
		return false
	}
	b.serverRequests++
	return true
}

// noteSent is called when a message was sent or could not be sent. It ends the count of a
// request of the server if the message is the response to it.
func (b *answerRouter) noteSent(m jsonrpc.Message) {
	if _, ok := m.(*jsonrpc.Response); !ok {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.serverRequests = max(0, b.serverRequests-1)
}

// waitTime is the time for which answers of a tenant have delayed others on a shared
// stream.
type waitTime struct {
	time time.Duration
	at   time.Time
}

const (
	// maxSharedWait is the maximum total time for which answers of one tenant that wait for
	// memory may delay later answers on the same stream. The total decreases with time.
	maxSharedWait = 2 * time.Second
	// waitDecay is the ratio of the elapsed time to the decrease of the total.
	waitDecay = 10
	// maxWaitTimes is the maximum number of tenants whose totals are kept. At the maximum,
	// all totals are dropped.
	maxWaitTimes = 1000
)

// maxWait returns how long an answer of a tenant may wait on a shared stream.
func (b *answerRouter) maxWait(tenant string) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.waitTimes[tenant]
	return maxSharedWait - max(0, w.time-time.Since(w.at)/waitDecay)
}

// addWait adds the wait of an answer of a tenant.
func (b *answerRouter) addWait(tenant string, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.waitTimes[tenant]
	if b.waitTimes == nil || len(b.waitTimes) >= maxWaitTimes {
		b.waitTimes = map[string]waitTime{}
	}
	now := time.Now()
	b.waitTimes[tenant] = waitTime{min(maxSharedWait, max(0, w.time-now.Sub(w.at)/waitDecay)+d), now}
}

func newAnswerRouter() *answerRouter { return &answerRouter{waiting: map[string]*answer{}} }

// expect registers the request m before it is sent. It returns a if m is a tool call, and
// otherwise nil.
func (b *answerRouter) expect(a *answer, m jsonrpc.Message) *answer {
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
		if b.otherRequests = append(b.otherRequests, string(id)); len(b.otherRequests) > maxOtherRequests {
			if old, waits := b.waiting[b.otherRequests[0]]; waits && old == nil {
				delete(b.waiting, b.otherRequests[0])
			}
			b.otherRequests = slices.Delete(b.otherRequests, 0, 1)
		}
	}
	return a
}

// expectBody registers a request over HTTP before it is sent. It returns the answer that
// a tool call waits for, or nil, and the message, or nil.
func (b *answerRouter) expectBody(r *http.Request) (*answer, jsonrpc.Message, error) {
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
func (b *answerRouter) forget(a *answer) {
	a.mu.Lock()
	id := a.id
	a.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting[id] == a {
		delete(b.waiting, id)
	}
}

// divertAll is divert for a message or a batch of messages. It returns separate messages
// for the SDK, which reads no batches over HTTP.
func (b *answerRouter) divertAll(ctx context.Context, text []byte, only *answer) [][]byte {
	if text = bytes.TrimSpace(text); isBatch(text) {
		return b.divertBatch(ctx, text, only)
	}
	if message := b.divert(ctx, text, only); message != nil {
		return [][]byte{message}
	}
	return nil
}

// isBatch reports whether a text is a list of messages. Any other list may be one line
// of a message of several lines.
func isBatch(text []byte) bool {
	return len(text) > 0 && text[0] == '[' && bytes.Contains(text, []byte(`"jsonrpc"`)) && json.Valid(text)
}

// maxBatch is the maximum number of messages in a batch.
const maxBatch = 1000

func (b *answerRouter) divertBatch(ctx context.Context, text []byte, only *answer) [][]byte {
	var messages [][]byte
	d := json.NewDecoder(bytes.NewReader(text))
	_, _ = d.Token() // the opening bracket
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

// isMessage reports whether the SDK can read a message. The SDK ends the connection at a
// message that it cannot read.
func isMessage(message []byte) bool {
	_, err := jsonrpc.DecodeMessage(message)
	return err == nil
}

// divert stores the result of a call in its answer and returns the message that the SDK
// gets instead. It returns nil for a large message that is not JSON or that no request
// waits for, and for a request of the server that accept refuses. If the message is from a
// response or stream of a single call, only is the answer to that call, and divert drops
// answers to other calls. On a stream that calls share, only is nil.
func (b *answerRouter) divert(ctx context.Context, message []byte, only *answer) []byte {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method json.RawMessage `json:"method"`
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	large := len(message) > smallMessage
	if err := json.Unmarshal(message, &m); err != nil {
		if large {
			return nil // the SDK would read a part of it into many values
		}
		return message // the SDK reports the error
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
			return nil // if large: a notification, or an answer to a cancelled call
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
	if !a.hasEnded {
		a.raw = m.Result
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, id)
}

// reserve takes memory for a received message of n bytes.
func (b *answerRouter) reserve(ctx context.Context, a *answer, n int, shared bool) error {
	if n <= smallMessage {
		return nil
	}
	if shared {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, b.maxWait(a.tenant))
		defer stop()
		start := time.Now()
		defer func() { b.addWait(a.tenant, time.Since(start)) }()
	}
	return a.reserve(ctx, int64(n))
}

// idOf returns an id in the form that requests use. It reads a number as the SDK does,
// which drops its fraction: an answer to 1.5 is one to 1.
func idOf(raw json.RawMessage) string {
	text := string(bytes.TrimSpace(raw))
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		return strconv.FormatInt(int64(f), 10)
	}
	return text
}

// asksForInput reports whether a result asks for more input and does not end the call.
// The SDK answers such a result.
func asksForInput(result []byte) bool {
	var r struct {
		Type string `json:"resultType"`
	}
	return json.Unmarshal(result, &r) == nil && r.Type != "" && r.Type != "complete"
}

// trackedTransport is a transport that registers requests before they are sent.
type trackedTransport struct {
	sdk.Transport
	router *answerRouter
}

// Connect implements sdk.Transport.
func (e trackedTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := e.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return trackedConn{c, e.router}, nil
}

type trackedConn struct {
	sdk.Connection
	router *answerRouter
}

func (c trackedConn) Write(ctx context.Context, m jsonrpc.Message) error {
	c.router.expect(answerOf(ctx), m)
	defer c.router.noteSent(m)
	return c.Connection.Write(ctx, m)
}
