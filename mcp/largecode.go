package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"daybook/internal/resources/budget"
	"daybook/internal/web"
	"daybook/ledger"
)

const (
	// largeCode is the length of a message, in bytes, from which its code is passed beside
	// it.
	largeCode = 1 << 20
	// requestCopies is the number of copies of a message's content in memory while the SDK
	// decodes it.
	requestCopies = 8
	// codeCopies is the number of copies of large code in memory: as received, as text, and as a
	// blob before and after compression.
	codeCopies = 4
)

// largeCodeStore holds the code of large calls in progress, as JSON. The key is the text
// that replaces the code in the message. It starts with a random secret of the process,
// so that clients cannot guess it.
type largeCodeStore struct {
	secret string
	codes  sync.Map
}

func newLargeCodeStore() *largeCodeStore {
	return &largeCodeStore{secret: "daybook-code-" + rand.Text() + "-"}
}

// takeCode moves the code of a large call out of its message. If the rest of the message, or
// another message, is large, it accounts for the copies of the SDK. The caller MUST call release when the request
// has ended. takeCode returns ok false after it has refused the request.
func (a *largeCodeStore) takeCode(w http.ResponseWriter, r *http.Request) (release func(), ok bool) {
	release = func() {}
	if r.Method != http.MethodPost {
		return release, true
	}
	body, err := readBody(r)
	if err != nil || len(body) < largeCode || len(body) > maxMessageBytes || isBatch(body) || !json.Valid(body) || !utf8.Valid(body) {
		return release, true // the SDK refuses the message
	}
	code, start, ok := codeOfCall(body)
	if !ok {
		return release, takeCopies(w, r, len(body), 0)
	}
	if !takeCopies(w, r, len(body)-len(code), len(code)) {
		return release, false
	}
	name := a.secret + rand.Text()
	a.codes.Store(name, code)
	message := slices.Concat(body[:start], []byte(`"`+name+`"`), body[start+len(code):])
	r.ContentLength = int64(len(message))
	setBody(r, message, nil)
	return func() { a.codes.Delete(name) }, true
}

// codeOfCall returns the code of a tools/call as JSON, and its offset in the message in
// bytes. It reports whether the code is large.
func codeOfCall(message []byte) (code []byte, start int, ok bool) {
	if m, ok := onlyMember(message, "method"); !ok || string(m.Value) != `"tools/call"` {
		return nil, 0, false
	}
	code = message
	for _, name := range []string{"params", "arguments", codeProperty.name} {
		m, ok := onlyMember(code, name)
		if !ok {
			return nil, 0, false
		}
		code, start = m.Value, start+m.Start
	}
	return code, start, len(code) >= largeCode/2 && code[0] == '"'
}

// takeCopies accounts for the copies of a message of n bytes, beside code bytes of code that
// was moved out of it. It reports false after it has refused the request.
func takeCopies(w http.ResponseWriter, r *http.Request, n, code int) bool {
	account := budget.From(r.Context())
	if account == nil || n < largeCode {
		return true
	}
	need := account.Limit(int64(n)*requestCopies+int64(code)*codeCopies) - account.Held()
	err := budget.Retry(r.Context(), func() error { return account.TakeOnce(need) })
	if err != nil {
		w.Header().Set("Retry-After", fmt.Sprintf("%.0f", budget.RetryAfter.Seconds()))
		rpcError(w, http.StatusServiceUnavailable, jsonrpc.CodeInternalError, err.Error())
	}
	return err == nil
}

// onlyMember returns the member of an object with a name. It reports false unless
// exactly one member has this name.
func onlyMember(data []byte, name string) (found web.JSONMember, ok bool) {
	list, _ := web.JSONMembers(data)
	for _, m := range list {
		if m.Name == name {
			if ok {
				return web.JSONMember{}, false
			}
			found, ok = m, true
		}
	}
	return found, ok
}

// arguments decodes the arguments of a call, including code that is passed beside the
// message.
func (s *Server) arguments(t tool, raw json.RawMessage) (arguments, error) {
	a, err := decodeArguments(t.name, t.input, raw)
	if err != nil {
		return nil, err
	}
	name := a.text(codeProperty.name)
	if !strings.HasPrefix(name, s.tenants.largeCode.secret) {
		return a, nil
	}
	code, ok := s.tenants.largeCode.codes.LoadAndDelete(name)
	if !ok {
		return nil, ledger.Invalid(codeProperty.name, "the request ended before its code was read; call %s again", t.name)
	}
	a[codeProperty.name], err = codeProperty.decode(code.([]byte))
	a[argCodeBytes] = int64(len(code.([]byte)))
	return a, err
}

// argCodeBytes is an internal argument: the length in bytes of code that was passed
// beside the message. Clients cannot send it, because no tool declares it.
const argCodeBytes = " code aside"

// dropCode releases the memory of large code after the run is recorded, so that a client
// that waits for the end holds none.
func dropCode(ctx context.Context, a arguments) {
	if !a.has(argCodeBytes) {
		return
	}
	n := a.integer(argCodeBytes, 0)
	delete(a, codeProperty.name)
	delete(a, argCodeBytes)
	account := budget.From(ctx)
	if account == nil {
		return
	}
	if rest := account.Held() - n*codeCopies; rest >= largeCode {
		account.DropTo(rest) // the SDK holds the rest of the message
		return
	}
	account.Drop(n * codeCopies)
}
