package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"daybook/ledger"
	"daybook/projections"
)

const statelessDescription = "Run JavaScript or TypeScript in a fresh V8 isolate and wait for its end. " +
	"Returns {output, result}: what the script wrote with console.*, and the value of the last expression. " +
	"A script that failed, timed out or was cancelled returns {output, error}. Top-level await works. Nothing is kept between runs."

const (
	// statelessWait is how long run_js waits for the end of a run. After that time, the run
	// continues.
	statelessWait    = 300 * time.Second
	statelessTimeout = "Execution did not complete within polling timeout"
	// abandonTimeout bounds the time that cancelAbandoned takes.
	abandonTimeout = 10 * time.Second
)

func (s *Server) statelessTools() []tool {
	about := s.opts.RunJSDescription
	if about == "" {
		about = statelessDescription
		if len(s.opts.WASMModules) > 0 {
			about += " Has " + s.aboutWebAssembly() + "."
		}
	}
	return []tool{{
		name: "run_js", title: "Run JavaScript", description: about,
		destructive: s.callsServers(), openWorld: s.callsServers(),
		input:  append([]property{codeProperty, filesProperty}, limitProperties...),
		output: objectSchema(typedField("output", "string"), nullableField("result", "string"), optionalField(typedField("error", "string")), artifactField()),
		submit: func(ctx context.Context, c caller, a arguments) (ledger.Receipt, error) {
			return s.opts.Commands.Submit(ctx, s.submission(c, a))
		},
		finish: s.waitForEnd,
	}}
}

// outputAnswer is the answer of run_js in stateless mode.
type outputAnswer struct {
	Output string `json:"output"`
	// Result is null unless the run completed with a result.
	Result *string `json:"result"`
	Error  *string `json:"error,omitempty"`
	// Artifacts are listed once the run has ended.
	Artifacts []artifactAnswer `json:"artifacts,omitempty"`
}

// waitForEnd returns the answer after the run has ended. If the client cancels the call,
// waitForEnd cancels the run, because the client has no other way to cancel the run or to
// read its outcome. The run is not cancelled when the server closes or the input of a
// stdio connection ends.
func (s *Server) waitForEnd(ctx context.Context, c caller, _ arguments, r ledger.Receipt) (answer, error) {
	wait, stop := context.WithTimeoutCause(ctx, statelessWait, errWaitTimeout)
	defer stop()
	var l *outputNotifier
	if c.listener.isListening() {
		l = s.newOutputNotifier(c.listener, r.ExecutionID)
	}
	d, err := s.awaitEnd(wait, r, l)
	switch {
	case err == nil:
	case errors.Is(context.Cause(wait), errWaitTimeout):
		message := statelessTimeout
		out, err := s.allOutput(ctx, r.ExecutionID)
		if err != nil {
			return answer{}, err
		}
		return answer{value: outputAnswer{Output: out, Error: &message}, seq: r.Seq}, nil
	case errors.Is(context.Cause(ctx), context.Canceled):
		s.cancelAbandoned(ctx, c, r.ExecutionID)
		return answer{}, err
	default:
		return answer{}, err
	}
	var out string
	if _, without := projections.HeadWithoutOutput(d); !without {
		if out, err = s.allOutput(ctx, r.ExecutionID); err != nil {
			return answer{}, err
		}
	}
	artifacts, blocks, err := s.artifactsOf(ctx, d)
	if err != nil {
		return answer{}, err
	}
	return answer{value: outputAnswer{Output: out, Result: d.Result, Error: d.Error, Artifacts: artifacts}, blocks: blocks, seq: d.Seq}, nil
}

// maxOutputBytes bounds the output in one message, which is in memory several times.
const maxOutputBytes = 4 << 20

// allOutput returns the console output written so far, up to maxOutputBytes. If there is
// more, the text ends with a note.
func (s *Server) allOutput(ctx context.Context, id string) (string, error) {
	var start int64
	page, err := s.opts.Queries.Output(ctx, s.tenant, id, projections.OutputQuery{ByteOffset: &start, ByteLimit: maxOutputBytes})
	if err != nil {
		return "", err
	}
	if !page.HasMore && !page.Truncated {
		return page.Data, nil
	}
	var b strings.Builder
	b.WriteString(page.Data)
	fmt.Fprintf(&b, "\n[output cut: %d of %d bytes shown]\n", page.EndByte, page.TotalBytes)
	return b.String(), nil
}

// cancelAbandoned cancels a run whose client has cancelled the call or disconnected.
func (s *Server) cancelAbandoned(ctx context.Context, c caller, id string) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), abandonTimeout)
	defer stop()
	_, err := s.opts.Commands.Cancel(ctx, s.tenant, id, c.actor)
	if err != nil && ledger.CodeOf(err) != ledger.CodeConflict {
		s.logger.WarnContext(ctx, "cancelling an abandoned run", "execution", id, "err", err)
	}
}
