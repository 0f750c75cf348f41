package mcp

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"daybook/ledger"
)

// largeCode is the length of a message, in bytes, from which its code travels beside
// it: the SDK copies a message eight times while it decodes it.
const largeCode = 1 << 20

// aside holds the code of calls that are being answered, as JSON, by the text that
// takes its place in the message. The text starts with a secret of the process.
type aside struct {
	secret string
	held   sync.Map
}

func newAside() *aside { return &aside{secret: "daybook-code-" + rand.Text() + "-"} }

// take moves the code of a large call out of its message. release MUST be called when
// the request has ended.
func (a *aside) take(r *http.Request) (release func()) {
	release = func() {}
	if r.Method != http.MethodPost {
		return release
	}
	body, err := readBody(r)
	if err != nil || len(body) < largeCode || len(body) > maxMessageBytes || isBatch(body) || !json.Valid(body) || !utf8.Valid(body) {
		return release
	}
	code, start := body, 0
	for _, name := range []string{"params", "arguments", codeProperty.name} {
		m, ok := onlyMember(code, name)
		if !ok {
			return release
		}
		code, start = m.Value, start+m.Start
	}
	if len(code) < largeCode/2 || code[0] != '"' {
		return release
	}
	name := a.secret + rand.Text()
	a.held.Store(name, code)
	message := slices.Concat(body[:start], []byte(`"`+name+`"`), body[start+len(code):])
	r.ContentLength = int64(len(message))
	setBody(r, message, nil)
	return func() { a.held.Delete(name) }
}

// onlyMember returns a member that an object has once.
func onlyMember(data []byte, name string) (found ledger.JSONMember, ok bool) {
	list, _ := ledger.JSONMembers(data)
	for _, m := range list {
		if m.Name == name {
			if ok {
				return ledger.JSONMember{}, false
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
	if !strings.HasPrefix(name, s.tenants.aside.secret) {
		return a, nil
	}
	code, ok := s.tenants.aside.held.Load(name)
	if !ok {
		return nil, fmt.Errorf("read the code of %s: the request has ended before it was read; send it again", t.name)
	}
	a[codeProperty.name], err = codeProperty.decode(code.([]byte))
	return a, err
}
