package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"daybook/internal/resources/reads"
)

// heavyKey is the metadata key of operations whose response costs far more than the
// request. See package reads.
const heavyKey = "weight"

// markHeavy returns the operation, marked as heavy.
func markHeavy(op huma.Operation) huma.Operation {
	if op.Metadata == nil {
		op.Metadata = map[string]any{}
	}
	op.Metadata[heavyKey] = true
	return op
}

func isHeavy(op huma.Operation) bool { return op.Metadata[heavyKey] != nil }

// takePermit waits for the permit of a heavy request. The response yields the permit
// whenever it writes; a handler that continues to read calls continueReading.
func takePermit(ctx context.Context) error { return reads.From(ctx).Take(ctx) }

// continueReading takes the permit again after a write to the client.
func continueReading(ctx context.Context) error { return reads.From(ctx).Continue(ctx) }

// heavyHandler calls next once the request has its permit.
func (a *api) heavyHandler(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := takePermit(r.Context()); err != nil {
			writeFailure(w, a.toFailure(r.Context(), err, subject{}))
			return
		}
		next(w, r)
	}
}

// readsFailure returns the failure for a tenant with too many heavy reads.
func readsFailure(err *reads.BusyError) *failure {
	f := unavailable("%s", err)
	f.retryAfter = int(reads.RetryAfter.Seconds())
	return f
}
