package audit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"daybook/audit"
	"daybook/events"
	"daybook/proof"
)

// codeError is an error of a server.
type codeError string

func (e codeError) Error() string { return "the server answered " + string(e) }
func (e codeError) Code() string  { return string(e) }

// answer returns an answer with a body.
func answer(body io.Reader) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(body)}
}

// A heap that a server does not send is a finding only if the server does not have the heap, or
// lists it as damaged.
func TestErrorsOfRemoteBlobs(t *testing.T) {
	t.Parallel()
	hash := events.Hash([]byte("a heap"))
	const tenant = events.DefaultTenant
	finding := func(of, sha256, more string) string {
		return `{"findings":[{"radius":"blob","blob":{"tenant":"` + of + `","kind":"heap","sha256":"` + sha256 + `"},"what":"it lacks 3 bytes"` + more + `}]}`
	}
	listed, empty := finding(tenant, hash, ""), `{"findings":[]}`
	cut := func() io.Reader {
		return io.MultiReader(strings.NewReader("a h"), iotest.ErrReader(io.ErrUnexpectedEOF))
	}
	for name, test := range map[string]struct {
		err    error     // of the request for the heap
		body   io.Reader // of its answer
		report string    // the damage report; empty for none
		want   error     // events.ErrDamaged, a codeError, or nil for an *AnswerError
	}{
		"missing":                  {err: codeError("not_found"), want: codeError("not_found")},
		"removed":                  {err: codeError("gone"), want: codeError("gone")},
		"other bytes":              {body: strings.NewReader("a hat"), want: events.ErrDamaged},
		"damaged":                  {err: codeError("unavailable"), report: listed, want: events.ErrDamaged},
		"damaged and cut off":      {body: cut(), report: listed, want: events.ErrDamaged},
		"damaged text of a ledger": {err: codeError("unavailable"), report: `{"findings":[{"radius":"ledger","what":"text ` + hash + ` of the ledger: lost"}]}`, want: events.ErrDamaged},
		"busy":                     {err: codeError("unavailable"), report: empty},
		"over a limit":             {err: codeError("exhausted"), report: empty},
		"internal error":           {err: codeError("internal"), report: empty},
		"refused":                  {err: codeError("forbidden")},
		"no code":                  {err: errors.New("404"), report: empty},
		"cut off":                  {body: cut(), report: empty},
		"shut down":                {body: cut()},
		"another heap is damaged":  {err: codeError("unavailable"), report: finding(tenant, events.Hash(nil), "")},
		"that of another tenant":   {err: codeError("unavailable"), report: finding("other", hash, "")},
		"damage that has ended":    {err: codeError("unavailable"), report: finding(tenant, hash, `,"ended":"2026-11-21T09:30:00Z"`)},
		"a report that is cut off": {err: codeError("unavailable"), report: listed[:40]},
	} {
		remote := audit.NewRemote(func(_ context.Context, path string, _ ...string) (*http.Response, error) {
			switch {
			case path == "/api/ledger/damage" && test.report == "":
				return nil, codeError("unavailable")
			case path == "/api/ledger/damage":
				return answer(strings.NewReader(test.report)), nil
			case path != "/api/ledger/blobs/heaps/"+hash+"?tenant="+tenant:
				t.Errorf("%s: GET %s", name, path)
			case test.err != nil:
				return nil, test.err
			}
			return answer(test.body), nil
		}, nil)
		_, _, err := remote.Heap(t.Context(), tenant, hash)
		_, noAnswer := errors.AsType[*audit.AnswerError](err)
		if err == nil || noAnswer != (test.want == nil) || test.want != nil && !errors.Is(err, test.want) {
			t.Errorf("%s: %v, an AnswerError: %t; want %v", name, err, noAnswer, test.want)
		}
	}
}

// A request that the caller ended is no fault of the server.
func TestRemoteThatIsInterrupted(t *testing.T) {
	t.Parallel()
	for _, interrupted := range []bool{true, false} {
		ctx, stop := context.WithCancel(t.Context())
		t.Cleanup(stop)
		remote := audit.NewRemote(func(ctx context.Context, _ string, _ ...string) (*http.Response, error) {
			if interrupted {
				stop()
				return answer(iotest.ErrReader(ctx.Err())), nil
			}
			return answer(iotest.ErrReader(io.ErrUnexpectedEOF)), nil
		}, nil)
		_, signed := remote.Signed(ctx, 1)
		lines := remote.Lines(ctx, proof.Checkpoint{}, proof.ExportSelection{}, 0, nil)
		_, blob := remote.Blob(ctx, audit.Blob{SHA256: events.Hash(nil)})
		for name, err := range map[string]error{"checkpoint": signed, "lines": lines, "blob": blob} {
			if _, noAnswer := errors.AsType[*audit.AnswerError](err); noAnswer == interrupted || errors.Is(err, context.Canceled) != interrupted {
				t.Errorf("%s, interrupted %t: %v, an AnswerError: %t", name, interrupted, err, noAnswer)
			}
		}
	}
}
