package toolserver

import (
	"strings"
	"testing"
)

// An object or list is dropped if and only if the SDK would end the connection at it.
func TestStrayValues(t *testing.T) {
	t.Parallel()
	for line, stray := range map[string]bool{
		`{"jsonrpc":"2.0","method":"notifications/message","params":{}}`:        false,
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`:                              false,
		`{"jsonrpc":"2.0","id":1,"result":null}`:                                false,
		`{"jsonrpc":"2.0","id":"1","error":{"code":1,"message":"x","data":[]}}`: false,
		// The call fails immediately. Without the line it would wait for its time limit.
		`{"jsonrpc":"2.0","id":1}`:                                          false,
		`{"jsonrpc":"2.0","id":1,"error":null}`:                             false,
		`{"jsonrpc":"2.0","id":true,"result":{}}`:                           true,
		`{"jsonrpc":"2.0","id":{},"method":"ping"}`:                         true,
		`{"JSONRPC":"2.0","Method":"ping"}`:                                 true,
		`{"jsonrpc":"2.0","ID":1,"result":{}}`:                              true,
		`{"jsonrpc":"2.0","method":""}`:                                     false,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`: true,
		`{"jsonrpc":"2.0","id":1,"error":5}`:                                true,
		`{"jsonrpc":"1.0","method":"ping"}`:                                 true,
		`{"level":30,"id":1}`:                                               true,
		`[{"jsonrpc":"2.0","method":"ping"},5]`:                             false, // divert drops the 5 later
		// The SDK would end the connection at the result, but does not receive it.
		`{"jsonrpc":"2.0","id":1,"result":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`: false,
		`[]`:          true,
		`[1, "x"]`:    true,
		`[{"a":[1]}]`: true,
	} {
		var s strayLines
		if got := s.has([]byte(line)); got != stray {
			t.Errorf("%.80s is left out: %v, want %v", line, got, stray)
		}
	}
}
