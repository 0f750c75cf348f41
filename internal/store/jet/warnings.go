package jet

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"daybook/internal/resources/exhausted"
)

const (
	// warnInterval is the minimum time between two equal warnings.
	warnInterval = time.Minute
	// maxWarnings bounds the different warnings that are kept during that time.
	maxWarnings = 64
)

// warnings logs failures of operations that are tried again soon, often by many
// readers. It logs the first of equal warnings, and then one per minute with the number
// of those since. It is safe for concurrent use.
type warnings struct {
	log *slog.Logger

	mu     sync.Mutex
	logged map[warning]*lastWarning
}

// warning is the key of equal warnings.
type warning struct{ message, cause string }

type lastWarning struct {
	at   time.Time
	more int // equal ones that were not logged
}

// warn logs a warning unless an equal one was logged within the last minute. Errors
// about the same exhausted resource are equal.
func (w *warnings) warn(ctx context.Context, message string, err error, attrs ...any) {
	key := warning{message, err.Error()}
	if r, ok := exhausted.Of(err); ok {
		key.cause = r.Reason
	}
	more, ok := w.take(key, time.Now())
	if !ok {
		return
	}
	attrs = append(attrs, "err", err)
	if more > 0 {
		attrs = append(attrs, "equal_since_last", more)
	}
	w.log.WarnContext(ctx, message, attrs...)
}

// take reports whether to log a warning, and how many equal ones were not logged.
func (w *warnings) take(key warning, now time.Time) (more int, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.logged[key]
	if last != nil && now.Sub(last.at) < warnInterval {
		last.more++
		return 0, false
	}
	if last == nil {
		if len(w.logged) >= maxWarnings {
			w.forget(now)
		}
		if w.logged == nil {
			w.logged = map[warning]*lastWarning{}
		}
		last = &lastWarning{}
		w.logged[key] = last
	}
	more = last.more
	last.at, last.more = now, 0
	return more, true
}

// forget removes old warnings. If there are none, it removes all; they are logged again
// if they repeat. The caller must hold mu.
func (w *warnings) forget(now time.Time) {
	for key, last := range w.logged {
		if now.Sub(last.at) >= warnInterval {
			delete(w.logged, key)
		}
	}
	if len(w.logged) >= maxWarnings {
		clear(w.logged)
	}
}
