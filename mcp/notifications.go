//nolint:staticcheck // logging is deprecated, and what clients have
package mcp

import (
	"context"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/events"
	"daybook/ledger"
	"daybook/projections"
)

const (
	// outputWindow is how long output is gathered before a client that listens
	// hears of it, and so the least time between two notifications of a kind.
	outputWindow = 100 * time.Millisecond
	// maxNotifiedLines and liveBytes bound what one notification tells. The whole
	// output is on record.
	maxNotifiedLines = 1000
	maxNotifiedBytes = 64 << 10
	// progressInterval is how often a client that listens is told that there is
	// nothing new: often enough to keep it, and what is in between, from giving
	// up.
	progressInterval = 5 * time.Second
)

// listener is what a client wants to hear of a run before it ends. The zero
// value is nothing.
type listener struct {
	session *sdk.ServerSession
	// token is that of progress notifications, nil for none.
	token any
	// level returns the least severe console level that it wants, as it is now;
	// empty for none.
	level func() sdk.LoggingLevel
	// meta goes with each notification.
	meta sdk.Meta
}

func (l listener) isListening() bool {
	return l.token != nil || l.level != nil && l.level() != ""
}

// severities order the levels of the protocol.
var severities = map[sdk.LoggingLevel]int{
	"debug": 1, "info": 2, "notice": 3, "warning": 4, "error": 5, "critical": 6, "alert": 7, "emergency": 8,
}

// protocolLevel is the protocol's name of a console level.
func protocolLevel(l events.Level) sdk.LoggingLevel {
	switch l {
	case events.LevelDebug, events.LevelTrace:
		return "debug"
	case events.LevelWarn:
		return "warning"
	case events.LevelError:
		return "error"
	default:
		return "info"
	}
}

// outputNotifier tells a listener of one run.
type outputNotifier struct {
	listener
	queries   Queries
	tenant    string
	execution string

	start     time.Time
	lastSent  time.Time // of the last notification
	nextLine  int64     // the next to tell
	seenBytes int64     // how much output had been written at the last look
	timer     *time.Timer
}

func (s *Server) newOutputNotifier(l listener, execution string) *outputNotifier {
	return &outputNotifier{listener: l, queries: s.opts.Queries, tenant: s.tenant, execution: execution, start: time.Now(), nextLine: 1}
}

// notice looks at a run that may have written something. It tells nothing yet:
// what comes within a window is told together.
func (l *outputNotifier) notice(d projections.ExecutionDetail) {
	if l.timer == nil && d.TotalBytes > l.seenBytes && l.isListening() {
		l.timer = time.NewTimer(outputWindow)
	}
}

// window ends when there is something to tell.
func (l *outputNotifier) window() <-chan time.Time {
	if l == nil || l.timer == nil {
		return nil
	}
	return l.timer.C
}

// stop releases the timer.
func (l *outputNotifier) stop() {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}

// finish tells what is left when the run has ended, keeping the pace.
func (l *outputNotifier) finish(ctx context.Context, d projections.ExecutionDetail) {
	l.stop()
	if d.TotalBytes <= l.seenBytes || !l.isListening() {
		return
	}
	if rest := outputWindow - time.Since(l.lastSent); rest > 0 && !l.lastSent.IsZero() {
		t := time.NewTimer(rest)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
	l.flush(ctx, d)
}

// flush notifies the client of the output since the last notification.
func (l *outputNotifier) flush(ctx context.Context, d projections.ExecutionDetail) {
	l.stop()
	l.lastSent, l.seenBytes = time.Now(), d.TotalBytes
	if l.level != nil && l.level() != "" {
		l.sendLines(ctx, d)
	}
	l.progress(ctx, d)
}

// consoleMessage is the data of a notification: consecutive lines, as the
// console wrote them, less those that the client does not want.
type consoleMessage struct {
	ExecutionID string `json:"execution_id"`
	StartLine   int64  `json:"start_line"`
	EndLine     int64  `json:"end_line"`
	Text        string `json:"text"`
	// Truncated is set when the text was cut; get_execution_output has it all.
	Truncated bool `json:"truncated,omitempty"`
}

// sendLines sends the next lines as one message, at the level of the most severe.
func (l *outputNotifier) sendLines(ctx context.Context, d projections.ExecutionDetail) {
	lines, _, err := l.queries.Lines(ctx, l.tenant, l.execution, l.nextLine, maxNotifiedLines)
	if err != nil || len(lines) == 0 {
		return // told with the answer, or with the next lines
	}
	least := severities[l.level()]
	m := consoleMessage{ExecutionID: l.execution}
	var level sdk.LoggingLevel
	var text strings.Builder
	for _, line := range lines {
		l.nextLine = line.Line + 1
		its := protocolLevel(line.Level)
		if severities[its] < least {
			continue
		}
		if m.StartLine == 0 {
			m.StartLine = line.Line
		}
		m.EndLine = line.Line
		if severities[its] > severities[level] {
			level = its
		}
		if room := maxNotifiedBytes - text.Len(); len(line.Text) <= room {
			text.WriteString(line.Text)
			text.WriteByte('\n')
		} else {
			text.WriteString(strings.ToValidUTF8(line.Text[:max(room, 0)], ""))
			m.Truncated = true
		}
	}
	if l.nextLine <= d.TotalLines {
		// What did not fit comes with the next window, if there is one.
		l.seenBytes, m.Truncated = 0, m.Truncated || d.Status.Terminal()
	}
	if level == "" {
		return
	}
	m.Text = strings.TrimSuffix(text.String(), "\n")
	// A client that cannot be told is found out when it is answered.
	_ = l.session.Log(ctx, &sdk.LoggingMessageParams{Meta: l.meta, Logger: "console", Level: level, Data: m})
}

// progress tells how long the run has taken, and what it is at.
func (l *outputNotifier) progress(ctx context.Context, d projections.ExecutionDetail) {
	if l == nil || l.token == nil {
		return
	}
	_ = l.session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
		Meta: l.meta, ProgressToken: l.token, Progress: time.Since(l.start).Seconds(), Message: runningMessage(d),
	})
}

// notifyTaskOutput tells a client of a run that it has begun as a task, after the call
// has been answered. It ends with the run or the server; that a client has gone
// meanwhile makes no difference to anybody.
func (s *Server) notifyTaskOutput(l listener, r ledger.Receipt) {
	if !l.isListening() {
		return
	}
	l.meta = sdk.Meta{relatedTask: object{{"taskId", r.ExecutionID}}}
	// Not the call's context: its stream ends with the answer, and what comes
	// later belongs on the session's own.
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	if s.serverCtx.Err() != nil {
		return
	}
	s.watches.running.Go(func() {
		_, _ = s.awaitEnd(s.serverCtx, r, s.newOutputNotifier(l, r.ExecutionID)) // the client asks for the outcome itself
	})
}
