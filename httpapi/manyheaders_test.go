package httpapi

import "testing"

// A header has space for a token of 16 KiB, the largest one, over HTTP/2 too, and for
// little more.
func TestHeadersAreBounded(t *testing.T) {
	if got := NewServer("", nil).MaxHeaderBytes; got != 20<<10 {
		t.Errorf("headers may have %d bytes, want 20 KiB", got)
	}
}
