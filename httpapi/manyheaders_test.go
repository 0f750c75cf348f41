package httpapi

import "testing"

// Short headers take thirty times their length in memory.
func TestHeadersAreBounded(t *testing.T) {
	if got := NewServer("", nil).MaxHeaderBytes; got <= 0 || got > 16<<10 {
		t.Errorf("headers may have %d bytes, want at most 16 KiB", got)
	}
}
