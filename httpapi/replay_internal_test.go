package httpapi

import (
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// A replay as JSON lines sends heartbeats during a long pause.
func TestReplaySendsHeartbeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		s, err := startLines(w)()
		if err != nil {
			t.Fatal(err)
		}
		re := &replay{r: &request{}}
		start := time.Now()
		if err := re.sleep(t.Context(), s, 3*heartbeatInterval+time.Second); err != nil {
			t.Fatal(err)
		}
		if got := w.Body.String(); got != "\n\n\n" || time.Since(start) != 3*heartbeatInterval+time.Second {
			t.Errorf("%q in %s", got, time.Since(start))
		}
	})
}
