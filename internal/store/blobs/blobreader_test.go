package blobs_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/resources/budget"
	"daybook/internal/store/blobs"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
)

func newBudget() *budget.Budget {
	return budget.New(budget.Options{Answers: 64 << 20, Runs: 1, Cache: 1, Patience: 1})
}

// readHeap reads a heap in pieces and returns what the account held during the reading.
func readHeap(t *testing.T, s *jetstream.Store, hash string) (got []byte, held int64, err error) {
	t.Helper()
	account := newBudget().Answer(tenant, 1)
	defer account.Release()
	r, info, err := s.OpenHeap(budget.With(t.Context(), account), tenant, hash)
	if err != nil {
		return nil, account.Held(), err
	}
	defer r.Close()
	if info.Size != r.Size() || info.SHA256 != hash {
		t.Errorf("described as %+v, of %d bytes", info, r.Size())
	}
	got, err = io.ReadAll(r)
	return got, account.Held(), err
}

func TestHeapsInPieces(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	for _, cache := range []int64{-1, 64 << 20} {
		s := storetest.Open(t, server, jetstream.Options{CacheBytes: cache})
		if err := s.SetBase(t.Context(), "e", noise(300<<10)); err != nil {
			t.Fatal(err)
		}
		for _, blob := range [][]byte{
			{}, []byte("x"), noise(chunk + 1), append(noise(300<<10), "more"...),
			append(make([]byte, 16<<20), noise(300<<10)...), append(noise(2<<20), make([]byte, 12<<20)...),
		} {
			hash, err := s.PutHeap(t.Context(), tenant, blob, "e")
			if err != nil {
				t.Fatal(err)
			}
			got, held, err := readHeap(t, s, hash)
			if err != nil || !bytes.Equal(got, blob) {
				t.Errorf("%d bytes: got %d, %v", len(blob), len(got), err)
			}
			if held > 10<<20 {
				t.Errorf("%d bytes: the account holds %d", len(blob), held)
			}
			if got, _, err := s.Heap(t.Context(), tenant, hash); err != nil || !bytes.Equal(got, blob) {
				t.Errorf("%d bytes: at once: %d, %v", len(blob), len(got), err)
			}
			if _, err := s.VerifyHeap(t.Context(), tenant, hash); err != nil {
				t.Errorf("%d bytes: %v", len(blob), err)
			}
		}
	}
}

// A heap that exceeds the account is not read.
func TestHeapOverBudget(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, storetest.StartServer(t, t.TempDir()), jetstream.Options{CacheBytes: -1})
	hash, err := s.PutHeap(t.Context(), tenant, make([]byte, 8<<20), "e")
	if err != nil {
		t.Fatal(err)
	}
	b := budget.New(budget.Options{Answers: 4 << 20, Runs: 1, Cache: 1})
	ctx := budget.With(t.Context(), b.Answer(tenant, 1))
	if _, _, err := s.OpenHeap(ctx, tenant, hash); !budget.IsExhausted(err) {
		t.Errorf("in pieces: %v", err)
	}
	if _, _, err := s.Heap(ctx, tenant, hash); !budget.IsExhausted(err) {
		t.Errorf("at once: %v", err)
	}
}

// The verification of a heap waits for memory that other requests hold, and keeps none.
// Only one that gets no memory counts as a refusal.
func TestVerifyHeapWaitsForMemory(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, storetest.StartServer(t, t.TempDir()), jetstream.Options{CacheBytes: -1})
	hash, err := s.PutHeap(t.Context(), tenant, make([]byte, 8<<20), "e")
	if err != nil {
		t.Fatal(err)
	}
	for _, patience := range []time.Duration{time.Millisecond, time.Minute} {
		b := budget.New(budget.Options{Answers: 64 << 20, Runs: 1, Cache: 1, Patience: patience})
		others, account := b.Answer("others", 1), b.Answer(tenant, 1)
		if err := others.Take(54 << 20); err != nil {
			t.Fatal(err)
		}
		refusals := int64(1)
		if patience == time.Minute {
			refusals = 0
			time.AfterFunc(20*time.Millisecond, others.Release)
		}
		_, err := s.VerifyHeap(budget.With(t.Context(), account), tenant, hash)
		if budget.IsExhausted(err) != (refusals == 1) || err != nil && refusals == 0 {
			t.Errorf("with a patience of %s: %v", patience, err)
		}
		if n := b.Stats().Refused; n != refusals || account.Held() != 0 {
			t.Errorf("with a patience of %s: %d refusals, %d bytes held", patience, n, account.Held())
		}
	}
}

// Bytes of a damaged heap may be read before the damage is found, but never all of them
// without an error.
func TestDamagedHeapInPieces(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{CacheBytes: -1})
	blob := append(make([]byte, 9<<20), noise(2*chunk)...) // more than the largest window
	put := func() (hash string) {
		hash, err := s.PutHeap(t.Context(), tenant, blob, "e")
		if err != nil {
			t.Fatal(err)
		}
		return hash
	}
	damage := func(change func(packed []byte, info *natsjs.ObjectInfo) []byte) (string, int, error) {
		t.Helper()
		blob[0]++ // another heap
		hash := put()
		if err := blobs.ReplacePacked(t.Context(), s.Store, tenant, hash, change); err != nil {
			t.Fatal(err)
		}
		got, _, err := readHeap(t, s, hash)
		return hash, len(got), err
	}
	size := func(n int) func([]byte, *natsjs.ObjectInfo) []byte {
		return func(packed []byte, info *natsjs.ObjectInfo) []byte {
			info.Metadata["size"] = strconv.Itoa(n)
			return packed
		}
	}
	for name, change := range map[string]func([]byte, *natsjs.ObjectInfo) []byte{
		"other content": func([]byte, *natsjs.ObjectInfo) []byte {
			other := bytes.Clone(blob)
			other[len(other)-1] ^= 1
			return blobs.Compress(other)
		},
		"cut":           func(packed []byte, _ *natsjs.ObjectInfo) []byte { return packed[:len(packed)-10] },
		"one bit":       func(packed []byte, _ *natsjs.ObjectInfo) []byte { packed[len(packed)/2] ^= 4; return packed },
		"longer":        size(len(blob) - 1),
		"shorter":       size(len(blob) + 1),
		"larger window": func([]byte, *natsjs.ObjectInfo) []byte { return blobs.CompressWithWindow(blob, 64<<20) },
	} {
		if _, n, err := damage(change); !errors.Is(err, events.ErrDamaged) {
			t.Errorf("%s: %d bytes, %v; want damage", name, n, err)
		}
	}
	// A blob that cannot be read now is not damaged.
	hash := put()
	ctx, cancel := context.WithCancel(t.Context())
	r, _, err := s.OpenHeap(ctx, tenant, hash)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cancel()
	if _, err := io.Copy(io.Discard, r); err == nil || errors.Is(err, events.ErrDamaged) {
		t.Errorf("a reader that left: %v", err)
	}
}
