package main

import (
	"bytes"
	"encoding/binary"
	"image/png"
	"strings"
	"testing"
)

func TestStateKey(t *testing.T) {
	t.Parallel()
	s := newStateKey()
	for _, state := range []string{"", "first", "name=A.B. C"} {
		sealed := s.sign(state)
		if got, err := s.verify(sealed); err != nil || got != state {
			t.Errorf("%q came back as %q, %v", state, got, err)
		}
		for _, other := range []string{"", state, sealed + "-TAMPERED", "x" + sealed, strings.TrimSuffix(sealed, sealed[len(sealed)-1:]), newStateKey().sign(state)} {
			if got, err := s.verify(other); err == nil {
				t.Errorf("%q was taken for %q", other, got)
			}
		}
	}
}

func TestMedia(t *testing.T) {
	t.Parallel()
	if img, err := png.Decode(bytes.NewReader(pixel())); err != nil || img.Bounds().Dx() != 1 {
		t.Errorf("the image: %v", err)
	}
	w := silence()
	if got := int(binary.LittleEndian.Uint32(w[4:])); got != len(w)-8 || string(w[8:16]) != "WAVEfmt " || string(w[36:40]) != "data" {
		t.Errorf("the sound: %d bytes announced of %d, % x", got, len(w), w)
	}
}

func TestScripts(t *testing.T) {
	t.Parallel()
	for _, s := range scripts() {
		code := s.Code(func(string) string { return "a \"b\"\n\u2028" }, func(string) int64 { return 2 })
		want := map[string]string{
			"slow_compute": `await new Promise(done => setTimeout(done, 2000)); "a \"b\"\n\u2028"`,
			"failing_job":  `throw new Error("this job fails on purpose")`,
		}[s.Name]
		if code != want {
			t.Errorf("%s is %s, want %s", s.Name, code, want)
		}
	}
}
