package v8

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"
	"sync"
)

//go:embed prelude/*.js
var preludeFiles embed.FS

// preludeSource returns the source of the function that sets up a context: the files of the
// prelude in the order of their names.
var preludeSource = sync.OnceValue(func() []byte {
	// ReadDir and Glob sort by name.
	names, err := fs.Glob(preludeFiles, "prelude/*.js")
	if err != nil {
		panic(fmt.Sprintf("list the embedded prelude: %v", err))
	}
	var b strings.Builder
	b.WriteString("(function (host) { \"use strict\";\n")
	for _, name := range names {
		text, err := preludeFiles.ReadFile(name)
		if err != nil {
			panic(fmt.Sprintf("read the embedded prelude: %v", err))
		}
		for line := range strings.Lines(string(text)) {
			b.WriteString(stripLine(line))
		}
		b.WriteByte('\n')
	}
	b.WriteString("return entry; })")
	return []byte(b.String())
})

// stripLine removes the indentation of a line, and the whole text of a comment line, because every
// saved heap contains the source. Line ends are kept, so that lines keep their numbers.
// No literal of the prelude spans lines, which a test checks.
func stripLine(line string) string {
	line = strings.TrimLeft(line, " ")
	if strings.HasPrefix(line, "//") {
		return "\n"
	}
	return line
}

var preludeSHA256 = sync.OnceValue(func() string {
	sum := sha256.Sum256(preludeSource())
	return hex.EncodeToString(sum[:])
})
