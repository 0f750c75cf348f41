package acp_test

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// transcripts is the directory for the messages of both sides of each conversation.
// .ci/acp checks them against the published schema.
var transcripts = flag.String("transcripts", "", "write each conversation to N.in and N.out in this directory")

var conversations atomic.Int64

// written returns streams that also write both sides of a conversation to transcripts,
// if it is set.
func written(t testing.TB, in io.WriteCloser, out io.Reader) (io.WriteCloser, io.Reader) {
	t.Helper()
	if *transcripts == "" {
		return in, out
	}
	name := filepath.Join(*transcripts, fmt.Sprintf("test-%d", conversations.Add(1)))
	side := func(suffix string) *os.File {
		f, err := os.Create(name + suffix)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	return teeCloser{io.MultiWriter(side(".in"), in), in}, io.TeeReader(out, side(".out"))
}

type teeCloser struct {
	io.Writer
	io.Closer
}
