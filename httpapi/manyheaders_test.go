package httpapi

import "testing"

// The limit of a header allows a token of 16 KiB, the largest one, and little more,
// also over HTTP/2.
func TestHeadersAreBounded(t *testing.T) {
	if got := NewServer("", nil).MaxHeaderBytes; got != 20<<10 {
		t.Errorf("headers may have %d bytes, want 20 KiB", got)
	}
}
