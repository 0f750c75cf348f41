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
	// largeCode is the length of a message, in bytes, from which its code travels
	// beside it.
	largeCode = 1 << 20
	// requestCopies is how often the content of a message is in memory while the SDK
	// decodes it.
	requestCopies = 8
)

// largeCodeStore holds the code of calls that are being answered, as JSON, by the text that
// takes its place in the message. The text starts with a secret of the process.
type largeCodeStore struct {
	secret string
	codes  sync.Map
}

func newLargeCodeStore() *largeCodeStore {
	return &largeCodeStore{secret: "daybook-code-" + rand.Text() + "-"}
}

// takeCode moves the code of a large call out of its message. It takes the memory for
// another large message, which the SDK copies. release MUST be called when the request
// has ended. It reports false after it has refused the request.
func (a *largeCodeStore) takeCode(w http.ResponseWriter, r *http.Request) (release func(), ok bool) {
	release = func() {}
	if r.Method != http.MethodPost {
		return release, true
	}
	body, err := readBody(r)
	if err != nil || len(body) < largeCode || len(body) > maxMessageBytes || isBatch(body) || !json.Valid(body) || !utf8.Valid(body) {
		return release, true // it is refused as a whole
	}
	code, start, ok := codeOfCall(body)
	if !ok {
		return release, takeCopies(w, r, len(body))
	}
	name := a.secret + rand.Text()
	a.codes.Store(name, code)
	message := slices.Concat(body[:start], []byte(`"`+name+`"`), body[start+len(code):])
	r.ContentLength = int64(len(message))
	setBody(r, message, nil)
	return func() { a.codes.Delete(name) }, true
}

// codeOfCall returns the code of a call as JSON, and where it begins in the message.
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

// takeCopies takes the memory for a message of n bytes that the SDK decodes. It reports
// false after it has refused the request.
func takeCopies(w http.ResponseWriter, r *http.Request, n int) bool {
	account := budget.From(r.Context())
	if account == nil || n < largeCode {
		return true
	}
	need := account.Limit(int64(n)*requestCopies) - account.Held()
	err := budget.Retry(r.Context(), func() error { return account.TakeOnce(need) })
	if err != nil {
		w.Header().Set("Retry-After", fmt.Sprintf("%.0f", budget.RetryAfter.Seconds()))
		rpcError(w, http.StatusServiceUnavailable, jsonrpc.CodeInternalError, err.Error())
	}
	return err == nil
}

// onlyMember returns a member that an object has once.
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

// arguments reads the arguments of a call, with the code that travels beside it.
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

// argCodeBytes is the argument that holds the length of the code that traveled beside the
// message, in bytes. No client can send it: no tool has it.
const argCodeBytes = " code aside"

// dropCode drops a large code from memory, because the run is recorded: a client that
// waits for its end holds no memory for it.
func dropCode(ctx context.Context, a arguments) {
	if !a.has(argCodeBytes) {
		return
	}
	const copies = 4 // as it came, as text, and as a blob before and after it is packed
	n := a.integer(argCodeBytes, 0)
	delete(a, codeProperty.name)
	delete(a, argCodeBytes)
	if account := budget.From(ctx); account != nil {
		account.Drop(n * copies)
	}
}
