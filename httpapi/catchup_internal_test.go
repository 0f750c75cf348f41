package httpapi

import (
	"testing"
	"testing/synctest"
	"time"
)

// A reader that holds its place for long, because memory is short or the disk is slow,
// does not make the next one wait as long again.
func TestCatchUpPauseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCatchUp(1)
		leave, err := c.enter(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		var waited time.Duration
		admitted := make(chan struct{})
		go func() {
			defer close(admitted)
			start := time.Now()
			if leave, err := c.enter(t.Context(), "b"); err == nil {
				waited = time.Since(start)
				leave()
			}
		}()
		const held = 10 * time.Minute
		time.Sleep(held)
		leave()
		<-admitted
		if waited != held+maxCatchUpPause {
			t.Errorf("the next reader waited %s after the one before", waited-held)
		}
	})
}
