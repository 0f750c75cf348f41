package worker

import (
	"encoding/json"

	"github.com/go-sourcemap/sourcemap"

	"daybook/internal/exec/v8"
)

// script returns what the isolate evaluates. V8 knows it by the file's name and the
// hash of the source as the caller gave it, so equal scripts leave equal heaps and a
// frame of an earlier run names its source. The name comes last in the code, so a
// sourceURL that the script itself carries loses.
func (p *program) script(given []byte) v8.Script {
	name := v8.ScriptName(p.file, given)
	code := make([]byte, 0, len(p.code)+len(name)+20)
	code = append(code, p.code...)
	code = append(code, "\n//# sourceURL="...)
	code = append(code, name...)
	return v8.Script{Source: code, Name: name, File: p.file, Mappings: p.mappings()}
}

// mappings returns those of the source map, or "" when the code is the source.
func (p *program) mappings() string {
	if p.maps == nil {
		return ""
	}
	var m struct {
		Mappings string `json:"mappings"`
	}
	if json.Unmarshal(p.maps, &m) != nil {
		return "" // positions stay those of the code V8 saw
	}
	return m.Mappings
}

// position maps a place in the code V8 saw, 1-based, to the caller's source.
func (p *program) position(m *sourcemap.Consumer, line, column int) (int, int, bool) {
	_, _, l, c, ok := m.Source(line, column-1)
	return l, c + 1, ok
}

func (p *program) consumer() *sourcemap.Consumer {
	if p.maps == nil {
		return nil
	}
	m, err := sourcemap.Parse("", p.maps)
	if err != nil {
		return nil // positions stay those of the code V8 saw
	}
	return m
}
