package translog_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"daybook/internal/translog"
	"daybook/proof"
)

// A service that stores checkpoints receives a copy of each, or of a newer one. While it fails, checkpoints are
// signed.
func TestCopiesAreSent(t *testing.T) {
	t.Parallel()
	got := make(chan []byte, 10)
	refuse := make(chan struct{}, 1)
	refuse <- struct{}{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-refuse:
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		default:
		}
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- raw
	}))
	defer server.Close()
	store := newStore(t)
	log := start(t, store, translog.Options{Dir: t.TempDir(), WitnessURL: server.URL})
	for range 2 {
		c := mustCheckpoint(t, log, fill(t, store, 2))
		seen, err := proof.OpenCheckpoint(<-got, log.VKey())
		for err == nil && seen.Size < c.Size { // an older one may have waited
			seen, err = proof.OpenCheckpoint(<-got, log.VKey())
		}
		if err != nil || seen.Origin != c.Origin || seen.Size == c.Size && string(seen.Note) != string(c.Note) {
			t.Errorf("the service received\n%s\n%v, want\n%s", seen.Note, err, c.Note)
		}
	}
	if _, err := translog.Open(translog.Options{Dir: t.TempDir(), WitnessURL: "witness.example.com"}); err == nil || !strings.Contains(err.Error(), "https://") {
		t.Errorf("an address without a scheme: %v", err)
	}
}
