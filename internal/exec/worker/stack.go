package worker

import (
	"encoding/json"

	"github.com/go-sourcemap/sourcemap"

	"daybook/internal/exec/v8"
)

// script returns the script that the isolate evaluates. The name of
// the script in V8 is made of the file's name and the hash of the caller's source. So equal scripts
// leave equal heaps, and a stack frame of an earlier run identifies its source. The name is in
// the last line of the code, where it overrides a sourceURL comment of the script itself.
func (p *program) script(j *job) v8.Script {
	name := v8.ScriptName(p.file, j.code)
	code := make([]byte, 0, len(p.code)+len(name)+20)
	code = append(code, p.code...)
	code = append(code, "\n//# sourceURL="...)
	code = append(code, name...)
	return v8.Script{Source: code, Name: name, File: p.file, Mappings: p.mappings(), Modules: j.linked.modules, Bindings: j.linked.bindings}
}

// mappings returns the mappings of the source map, or "" if the code is the source.
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

// position maps a position in p.code to the caller's source. Lines and columns are 1-based.
// It reports false for a position that is in no line of the source.
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
