package v8

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"
)

//go:embed prelude/[0-9]* platform/*.js
var sourceFiles embed.FS

// source is a source that V8 keeps outside its heap.
type source struct {
	name string
	text []byte // ASCII
}

// sources returns the prelude, the function that sets up a context, and the parts of the
// platform, which a context evaluates when it first needs them. The prelude consists of the
// files of its directory in the order of their names; a directory in it is a function whose body
// its files are. Each part is one file.
var sources = sync.OnceValue(func() []source {
	all := []source{{"prelude", function("host", preludeAddition, "return entry;", filesOf("prelude/[0-9]*"))}}
	for _, file := range filesOf("platform/*.js") {
		name := strings.TrimSuffix(path.Base(file), ".js")
		all = append(all, source{name, function("platform", "", "", []string{file})})
	}
	return all
})

// function returns the source of a function that has the files as its body, with text before and
// after them.
func function(parameter, first, last string, files []string) []byte {
	var b strings.Builder
	b.WriteString("(function (" + parameter + ") { \"use strict\";\n" + first)
	for _, name := range files {
		if path.Ext(name) == ".js" {
			writeFile(&b, name)
			continue
		}
		_, group, _ := strings.Cut(path.Base(name), "_") // 40_inspect
		b.WriteString("const evaluate" + strings.ToUpper(group[:1]) + group[1:] + " = () => {\n")
		for _, inner := range filesOf(name + "/*.js") {
			writeFile(&b, inner)
		}
		b.WriteString("};\n")
	}
	b.WriteString(last + " })")
	return []byte(b.String())
}

func writeFile(b *strings.Builder, name string) {
	text, err := sourceFiles.ReadFile(name)
	if err != nil {
		panic(fmt.Sprintf("read an embedded source: %v", err))
	}
	for line := range strings.Lines(string(text)) {
		b.WriteString(stripLine(line))
	}
	b.WriteByte('\n')
}

// preludeAddition is JavaScript at the start of the prelude; empty except in workers of tests.
var preludeAddition string

// AddToPrelude makes this process another engine, whose prelude starts with source. It is for tests
// of heaps that another engine made. It MUST be called at most once, before anything else of this
// package.
func AddToPrelude(source string) { preludeAddition = source + "\n" }

// filesOf returns the embedded files that match pattern, in the order of their names.
func filesOf(pattern string) []string {
	names, err := fs.Glob(sourceFiles, pattern)
	if err != nil {
		panic(fmt.Sprintf("list the embedded sources: %v", err))
	}
	return names
}

// stripLine removes the indentation of a line, and the whole text of a comment line: every
// process keeps the sources. Line ends are kept, so that lines keep their numbers. No literal
// of the sources spans lines, which a test checks.
func stripLine(line string) string {
	line = strings.TrimLeft(line, " ")
	if strings.HasPrefix(line, "//") {
		return "\n"
	}
	return line
}

var preludeSHA256 = sync.OnceValue(func() string {
	h := sha256.New()
	for _, s := range sources() {
		fmt.Fprintf(h, "%s %d\n", s.name, len(s.text))
		h.Write(s.text)
	}
	return hex.EncodeToString(h.Sum(nil))
})
