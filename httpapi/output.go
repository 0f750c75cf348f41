package httpapi

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"daybook/events"
	"daybook/internal/resources/budget"
	"daybook/ledger"
	"daybook/projections"
)

// linesSentBytes is approximately the memory of the lines that are sent to one client.
const linesSentBytes = 512 << 10

// endID is the event id of the last event of an output stream. The response to a
// browser that reconnects with it is 204, which makes the browser stop.
const endID = "end"

func (a *api) outputRoutes(r *router) {
	const path = "/api/executions/{id}/output"
	register(r, huma.Operation{
		OperationID: "get-execution-output", Method: http.MethodGet, Path: path, Tags: []string{tagExecutions},
		Summary: "Read or follow the output of an execution",
		Description: "A page of the output written so far, by lines or, with byte_offset, by bytes. " +
			"With Accept: text/event-stream, each line as an event as it is written, from line_offset or after Last-Event-ID, and then an event named end with the status; the event id is the line number. " +
			"If the output was cut at the run's limit, an event named truncated precedes the event end. It has the size of the stored output, and the size and hash of the complete output.",
		Responses: map[string]*huma.Response{
			"200": {Description: "The page, or the stream.", Content: map[string]*huma.MediaType{
				"application/json": mediaOf[projections.OutputPage](r),
				typeSSE:            mediaOf[projections.OutputLine](r),
			}},
			"204": {Description: "The stream has ended: Last-Event-ID is that of its last event."},
		},
	}, []int{http.StatusBadRequest, http.StatusNotFound}, a.output)
	r.bounds(http.MethodGet, path, "line_offset", 1, 0, 1)
	r.bounds(http.MethodGet, path, "line_limit", 1, 0, projections.DefaultLineLimit)
	r.bounds(http.MethodGet, path, "byte_offset", 0, 0, nil)
	r.bounds(http.MethodGet, path, "byte_limit", 1, 0, projections.DefaultByteLimit)
}

type outputInput struct {
	Reading
	OneExecution
	LineOffset  optional[int64] `query:"line_offset" doc:"First line, from 1. Ignored with byte_offset."`
	LineLimit   optional[int64] `query:"line_limit" doc:"Maximum number of lines. Ignored with byte_offset."`
	ByteOffset  optional[int64] `query:"byte_offset" doc:"First byte, from 0; selects paging by bytes."`
	ByteLimit   optional[int64] `query:"byte_limit" doc:"Maximum number of bytes. Only with byte_offset."`
	LastEventID string          `header:"Last-Event-ID" doc:"Streams only: id of the last event received."`
}

func (a *api) output(ctx context.Context, in *outputInput) (*streamed, error) {
	query, f := in.page()
	if f != nil {
		return nil, f
	}
	if err := a.waitForPosition(ctx, in.Reading); err != nil {
		return nil, err
	}
	r := requestOf(ctx)
	if r.accept == typeSSE {
		return a.followOutput(ctx, r, in, query)
	}
	if isLargePage(query) {
		if err := takePermit(ctx); err != nil {
			return nil, err
		}
	}
	page, err := readCurrent(ctx, a, func() (projections.OutputPage, error) { return a.q.Output(ctx, r.tenant, in.ID, query) })
	if err != nil {
		return nil, err
	}
	return stream(func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, outputPage{page}) }), nil
}

// isLargePage reports whether a page may be far larger than the pages of clients that
// poll to follow a run.
func isLargePage(q projections.OutputQuery) bool {
	if q.ByteOffset != nil {
		return q.ByteLimit > 4*projections.DefaultByteLimit
	}
	return q.LineLimit > 4*projections.DefaultLineLimit
}

// page returns the query for a page by bytes or by lines, or the failure of a parameter.
func (in *outputInput) page() (projections.OutputQuery, *failure) {
	if in.ByteOffset.Set {
		q := projections.OutputQuery{ByteOffset: &in.ByteOffset.Value, ByteLimit: in.ByteLimit.or(projections.DefaultByteLimit)}
		return q, firstFailure(checkMin("byte_offset", *q.ByteOffset, 0), checkMin("byte_limit", q.ByteLimit, 1))
	}
	q := projections.OutputQuery{LineOffset: in.LineOffset.or(1), LineLimit: in.LineLimit.or(projections.DefaultLineLimit)}
	return q, firstFailure(checkMin("line_offset", q.LineOffset, 1), checkMin("line_limit", q.LineLimit, 1))
}

func checkMin(field string, v, low int64) *failure {
	if v < low {
		return invalid(field, "%s must be %d or more, not %d", field, low, v)
	}
	return nil
}

func firstFailure(fs ...*failure) *failure {
	for _, f := range fs {
		if f != nil {
			return f
		}
	}
	return nil
}

// followOutput checks a request for a live stream and prepares the stream. It refuses
// what can be refused before the response starts.
func (a *api) followOutput(ctx context.Context, r *request, in *outputInput, q projections.OutputQuery) (*streamed, error) {
	if in.ByteOffset.Set {
		return nil, invalid("byte_offset", "a stream delivers lines; use line_offset instead of byte_offset")
	}
	known := func() ([]projections.OutputLine, error) {
		lines, _, err := a.q.Lines(ctx, r.tenant, in.ID, q.LineOffset, 1)
		return lines, err
	}
	if _, err := readCurrent(ctx, a, known); err != nil {
		return nil, err
	}
	from := q.LineOffset
	switch in.LastEventID {
	case "":
	case endID:
		return stream(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }), nil
	default:
		n, err := strconv.ParseInt(in.LastEventID, 10, 64)
		if err != nil || n < 0 || n == math.MaxInt64 {
			return nil, invalid("Last-Event-ID", `Last-Event-ID must be the id of an event of this stream, a line number, not "%s"`, ledger.Excerpt(in.LastEventID))
		}
		from = n + 1
	}
	return stream(func(w http.ResponseWriter, hr *http.Request) {
		s, err := startSSE(w)
		if err != nil || hr.Method == http.MethodHead {
			return
		}
		if err := a.streamLines(ctx, s, r, in.ID, from); err != nil && ctx.Err() == nil {
			a.log.DebugContext(ctx, "output stream ended early", "execution", in.ID, "error", err)
		}
	}), nil
}

// truncated is the data of the event that reports output that was not stored. It is
// sent before the last event.
type truncated struct {
	ExecutionID string `json:"execution_id"`
	// TotalLines and TotalBytes are the size of the stored output, all of which was sent.
	TotalLines int64 `json:"total_lines"`
	TotalBytes int64 `json:"total_bytes"`
	// WrittenLines and WrittenBytes are the size of the complete output of the script, and
	// SHA256 is its hash. They are null if the output was not counted to its end.
	WrittenLines *int64  `json:"written_lines"`
	WrittenBytes *int64  `json:"written_bytes"`
	SHA256       *string `json:"sha256"`
}

// sendTruncated adds the event truncated if the output was cut.
func (a *api) sendTruncated(ctx context.Context, s *sse, tenant, id string) error {
	var from int64
	page, err := a.q.Output(ctx, tenant, id, projections.OutputQuery{ByteOffset: &from, ByteLimit: 1})
	if err != nil || !page.Truncated {
		return err
	}
	d, err := a.execution(ctx, tenant, id)
	if err != nil {
		return err
	}
	return s.event("", "truncated", truncated{id, d.TotalLines, d.TotalBytes, d.WrittenLines, d.WrittenBytes, d.OutputSHA256})
}

// end is the data of the last event of an output stream.
type end struct {
	ExecutionID string        `json:"execution_id"`
	Status      events.Status `json:"status"`
}

// streamLines sends the lines, starting at the line number from, until the run has ended.
func (a *api) streamLines(ctx context.Context, s *sse, r *request, id string, from int64) error {
	written, err := a.q.Output(ctx, r.tenant, id, projections.OutputQuery{LineLimit: 1})
	if err != nil {
		return err
	}
	// A client may ask for lines far beyond those written. The feed starts with a line
	// that other clients need too.
	run, leave := a.outputs.Join(ctx, r.tenant, id, min(from, max(written.TotalLines, 1)))
	defer leave()
	beat := time.NewTicker(heartbeatInterval)
	defer beat.Stop()
	for {
		lines, status, changed, kept, err := a.outputs.LinesFrom(run, from)
		if err == nil && !kept {
			lines, status, err = a.outputs.Stored(ctx, run, from)
		}
		if err != nil {
			return err
		}
		if len(lines) > 0 {
			from += int64(len(lines))
			// While the client receives these lines, only its response holds them in memory.
			err := budget.Piece(ctx, func() error {
				if err := budget.Retry(ctx, func() error { return budget.TakeOnce(ctx, linesSentBytes) }); err != nil {
					return err
				}
				return s.send(lines)
			})
			if err != nil {
				return err
			}
			continue
		}
		if status.Terminal() {
			if err := a.sendTruncated(ctx, s, r.tenant, id); err != nil {
				return err
			}
			if err := s.event(endID, "end", end{id, status}); err != nil {
				return err
			}
			return s.flush()
		}
		select {
		case <-changed:
		case <-beat.C:
			s.beat("")
			if err := s.flush(); err != nil {
				return err
			}
		case <-r.drain:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
