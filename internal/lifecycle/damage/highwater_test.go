package damage_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"daybook/internal/lifecycle/damage"
)

func open(t testing.TB, path string) *damage.HighWaterMark {
	t.Helper()
	m, err := damage.OpenMark(path)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A mark survives a process that did not close it.
func TestMarkOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "mark")
	m := open(t, path)
	var writers sync.WaitGroup
	for w := range uint64(4) {
		writers.Go(func() {
			for seq := range uint64(500) {
				m.Advance(seq*4 + w)
			}
		})
	}
	writers.Wait()
	again := open(t, path)
	if m.Position() != 1999 || again.Position() != 1999 {
		t.Errorf("marked %d, found %d, want 1999", m.Position(), again.Position())
	}
	if err := errors.Join(again.Close(), m.Sync(), m.Close()); err != nil {
		t.Error(err)
	}
}

// A damaged byte loses nothing after a Close, and at most the last step otherwise. It
// never raises the mark.
func TestDamagedMark(t *testing.T) {
	t.Parallel()
	for name, clean := range map[string]bool{"closed": true, "killed": false} {
		path := filepath.Join(t.TempDir(), name)
		m := open(t, path)
		for seq := range uint64(8) {
			m.Advance(seq + 1)
		}
		least := uint64(7)
		if clean {
			least = 8
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		} else {
			defer m.Close()
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range raw {
			bad := append([]byte{}, raw...)
			bad[i] ^= 1 << (i % 8)
			if err := os.WriteFile(path+"2", bad, 0o600); err != nil {
				t.Fatal(err)
			}
			found := open(t, path+"2")
			if found.Position() < least || found.Position() > 8 {
				t.Errorf("%s, byte %d: found %d, want %d to 8", name, i, found.Position(), least)
			}
			found.Close()
		}
	}
	path := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(path, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := damage.OpenMark(path)
	if !errors.Is(err, damage.ErrMarkUnreadable) || m.Position() != 0 {
		t.Errorf("a file of five bytes: %d, %v", m.Position(), err)
	}
	m.Advance(3)
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if m = open(t, path); m.Position() != 3 {
		t.Errorf("after opening it again the position is %d, want 3", m.Position())
	}
	m.Close()
}

func FuzzMark(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, 600))
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := filepath.Join(t.TempDir(), "mark")
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := damage.OpenMark(path)
		if err != nil && !errors.Is(err, damage.ErrMarkUnreadable) {
			t.Fatal(err)
		}
		next := m.Position() + 1
		m.Advance(next)
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if m = open(t, path); next != 0 && m.Position() != next {
			t.Errorf("found %d, want %d", m.Position(), next)
		}
		m.Close()
	})
}

func BenchmarkRaise(b *testing.B) {
	m := open(b, filepath.Join(b.TempDir(), "mark"))
	defer m.Close()
	for seq := uint64(1); b.Loop(); seq++ {
		m.Advance(seq)
	}
}
