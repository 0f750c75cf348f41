package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"daybook/events"
	"daybook/projections"
)

// Limits of the parameters last and max_bytes.
const (
	defaultTurns, maxTurns         = 20, 200
	defaultTurnBytes, maxTurnBytes = 2048, 64 << 10

	// maxTurnArtifacts bounds the artifacts that are listed for a run.
	maxTurnArtifacts = 20
)

func (a *api) turnRoutes(r *router) {
	const path = "/api/sessions/{name}/turns"
	register(r, markHeavy(huma.Operation{
		OperationID: "list-session-turns", Method: http.MethodGet, Path: path, Tags: []string{tagSessions},
		Summary:     "List the newest runs and resets of a session",
		Description: "The newest runs of a session of any kind in the order of acceptance, each with its code, output, result and error, the resets between them, and the commands of an ACP session. " + sessionText,
	}), []int{http.StatusBadRequest, http.StatusNotFound, http.StatusConflict}, a.sessionTurns)
	r.bounds(http.MethodGet, path, "last", 1, maxTurns, defaultTurns)
	r.bounds(http.MethodGet, path, "max_bytes", 0, maxTurnBytes, defaultTurnBytes)
}

type turnsInput struct {
	Reading
	OneSession
	Last     optional[int] `query:"last" doc:"Maximum number of runs."`
	MaxBytes optional[int] `query:"max_bytes" doc:"Maximum number of bytes of each code, output, result and error."`
}

type turnsAnswer struct{ Body sessionTurns }

// sessionTurns is the newest part of the history of a session.
type sessionTurns struct {
	Session projections.Session `json:"session"`
	Earlier int64               `json:"earlier" doc:"Number of runs before the first one listed."`
	Moments []moment            `json:"moments" doc:"Runs, resets and commands, oldest first."`
}

// moment is a run, a reset or a command. Exactly one of the three is set.
type moment struct {
	Run     *turnRun                  `json:"run,omitempty"`
	Reset   *projections.SessionReset `json:"reset,omitempty"`
	Command *projections.AgentCommand `json:"command,omitempty"`
}

type turnRun struct {
	ExecutionID string        `json:"execution_id"`
	Turn        *int64        `json:"turn" doc:"Number of the turn in a logical or ACP session; null in a named session."`
	Status      events.Status `json:"status"`
	Queued      bool          `json:"queued"`
	RequestedAt string        `json:"requested_at" format:"date-time"`
	StartedAt   string        `json:"started_at" format:"date-time"`
	CompletedAt *string       `json:"completed_at"`
	DurationMS  *int64        `json:"duration_ms" doc:"Time from the start to the end in milliseconds; null while it runs."`
	InputHeap   *string       `json:"input_heap"`
	Heap        *string       `json:"heap"`
	Reason      *string       `json:"reason"`
	Code        excerpt       `json:"code"`
	Output      excerpt       `json:"output"`
	Result      *excerpt      `json:"result"`
	Error       *excerpt      `json:"error"`
	Artifacts   int64         `json:"artifacts,omitempty" doc:"Number of artifacts that the script created; absent if there is none."`
	// ArtifactList holds the first artifacts.
	ArtifactList []projections.Artifact `json:"artifact_list,omitempty" doc:"The first 20 artifacts, without those that a later one of the same name replaced. GET /api/executions/{id}/artifacts lists all."`
	Erased       bool                   `json:"erased,omitempty" doc:"True if the content of the run was shredded."`
}

// excerpt is the beginning of a text.
type excerpt struct {
	Text  string `json:"text"`
	Bytes int64  `json:"bytes" doc:"Length of the complete text in bytes of UTF-8."`
}

func (a *api) sessionTurns(ctx context.Context, in *turnsInput) (*turnsAnswer, error) {
	last, most := in.Last.or(defaultTurns), in.MaxBytes.or(defaultTurnBytes)
	if f := checkRange("last", last, 1, maxTurns); f != nil {
		return nil, f
	}
	if f := checkRange("max_bytes", most, 0, maxTurnBytes); f != nil {
		return nil, f
	}
	if err := a.waitForPosition(ctx, in.Reading); err != nil {
		return nil, err
	}
	tenant := requestOf(ctx).tenant
	s, err := a.session(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	list, err := a.q.SessionMoments(ctx, tenant, s, last)
	if err != nil {
		return nil, err
	}
	out := &turnsAnswer{Body: sessionTurns{Session: s, Earlier: s.Runs, Moments: []moment{}}}
	for _, m := range list {
		if m.ExecutionID == "" {
			out.Body.Moments = append(out.Body.Moments, moment{Reset: m.Reset, Command: m.Command})
			continue
		}
		run, err := a.turnRun(ctx, tenant, m.ExecutionID, most)
		if err != nil {
			return nil, err
		}
		out.Body.Earlier--
		out.Body.Moments = append(out.Body.Moments, moment{Run: run})
	}
	out.Body.Earlier = max(out.Body.Earlier, 0) // a run may have been accepted meanwhile
	return out, nil
}

func (a *api) turnRun(ctx context.Context, tenant, id string, most int) (*turnRun, error) {
	d, err := a.execution(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	run := &turnRun{
		ExecutionID: id, Turn: d.Turn, Status: d.Status, Queued: d.Queued, RequestedAt: d.RequestedAt, StartedAt: d.StartedAt, CompletedAt: d.CompletedAt,
		InputHeap: d.InputHeap, Heap: d.Heap, Reason: d.Reason, Code: *excerptOf(&d.Code, most), Result: excerptOf(d.Result, most), Error: excerptOf(d.Error, most),
		Output: excerpt{Bytes: d.TotalBytes}, Artifacts: d.Artifacts, Erased: d.Shredded != nil,
	}
	if d.CompletedAt != nil {
		from, err1 := time.Parse(time.RFC3339, d.StartedAt)
		to, err2 := time.Parse(time.RFC3339, *d.CompletedAt)
		if err1 == nil && err2 == nil {
			ms := to.Sub(from).Milliseconds()
			run.DurationMS = &ms
		}
	}
	if d.Artifacts > 0 && !run.Erased {
		run.ArtifactList, err = a.q.CurrentArtifacts(ctx, tenant, id, maxTurnArtifacts)
		if err != nil && !errors.Is(err, events.ErrShredded) { // since d was read
			return nil, err
		}
	}
	if most == 0 || d.TotalBytes == 0 || run.Erased {
		return run, nil
	}
	from := int64(0)
	page, err := a.q.Output(ctx, tenant, id, projections.OutputQuery{ByteOffset: &from, ByteLimit: int64(most)})
	if err != nil {
		return nil, err
	}
	run.Output = excerpt{Text: page.Data, Bytes: max(page.TotalBytes, d.TotalBytes)}
	return run, nil
}

// excerptOf returns the excerpt of a text. A text of more than most bytes is cut there, or
// before the character that would be divided.
func excerptOf(text *string, most int) *excerpt {
	if text == nil {
		return nil
	}
	end := len(*text)
	if end > most {
		end = most
		for end > 0 && !utf8.RuneStart((*text)[end]) {
			end--
		}
	}
	return &excerpt{Text: strings.Clone((*text)[:end]), Bytes: int64(len(*text))}
}
