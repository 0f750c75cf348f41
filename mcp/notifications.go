//nolint:staticcheck // logging is deprecated, but clients use it
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
	// outputWindow is how long output is collected before a notification. It is the minimum
	// time between two notifications of a kind.
	outputWindow = 100 * time.Millisecond
	// maxNotifiedLines and maxNotifiedBytes bound one notification. The recorded output is
	// complete.
	maxNotifiedLines = 1000
	maxNotifiedBytes = 64 << 10
	// progressInterval is the time between progress notifications without new output. They
	// keep the client and proxies from timing out.
	progressInterval = 5 * time.Second
)

// listener is the destination of notifications about a run before its end. The zero
// value receives none.
type listener struct {
	session *sdk.ServerSession
	// token is the progress token; nil for none.
	token any
	// level returns the current minimum level of console output; empty for none.
	level func() sdk.LoggingLevel
	// meta is added to each notification.
	meta sdk.Meta
}

func (l listener) isListening() bool {
	return l.token != nil || l.level != nil && l.level() != ""
}

// severities orders the levels of the protocol.
var severities = map[sdk.LoggingLevel]int{
	"debug": 1, "info": 2, "notice": 3, "warning": 4, "error": 5, "critical": 6, "alert": 7, "emergency": 8,
}

// protocolLevel returns the protocol's name of a console level.
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

// outputNotifier sends the notifications about one run to a listener.
type outputNotifier struct {
	listener
	queries   Queries
	tenant    string
	execution string

	start     time.Time
	lastSent  time.Time // of the last notification
	nextLine  int64     // the next line to send
	seenBytes int64     // bytes of output at the last check
	timer     *time.Timer
}

func (s *Server) newOutputNotifier(l listener, execution string) *outputNotifier {
	return &outputNotifier{listener: l, queries: s.opts.Queries, tenant: s.tenant, execution: execution, start: time.Now(), nextLine: 1}
}

// notice starts the window if the run has written output. Output within a window is sent
// in one notification.
func (l *outputNotifier) notice(d projections.ExecutionDetail) {
	if l.timer == nil && d.TotalBytes > l.seenBytes && l.isListening() {
		l.timer = time.NewTimer(outputWindow)
	}
}

// window returns the channel of the window's end; nil if no window is open.
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

// finish sends the remaining output of an ended run. It keeps the minimum time between
// notifications.
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

// flush sends the output since the last notification.
func (l *outputNotifier) flush(ctx context.Context, d projections.ExecutionDetail) {
	l.stop()
	l.lastSent, l.seenBytes = time.Now(), d.TotalBytes
	if l.level != nil && l.level() != "" {
		l.sendLines(ctx, d)
	}
	l.progress(ctx, d)
}

// consoleMessage is the data of a notification: consecutive lines of the console,
// without those below the client's level.
type consoleMessage struct {
	ExecutionID string `json:"execution_id"`
	StartLine   int64  `json:"start_line"`
	EndLine     int64  `json:"end_line"`
	Text        string `json:"text"`
	// Truncated is true if the text was cut; get_execution_output returns all of it.
	Truncated bool `json:"truncated,omitempty"`
}

// sendLines sends the next lines as one message, at the highest of their levels.
func (l *outputNotifier) sendLines(ctx context.Context, d projections.ExecutionDetail) {
	lines, _, err := l.queries.Lines(ctx, l.tenant, l.execution, l.nextLine, maxNotifiedLines)
	if err != nil || len(lines) == 0 {
		return // sent with the next lines, or with the answer
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
		// The rest is sent with the next window, if there is one.
		l.seenBytes, m.Truncated = 0, m.Truncated || d.Status.Terminal()
	}
	if level == "" {
		return
	}
	m.Text = strings.TrimSuffix(text.String(), "\n")
	// If the client cannot be reached, writing the answer fails too.
	_ = l.session.Log(ctx, &sdk.LoggingMessageParams{Meta: l.meta, Logger: "console", Level: level, Data: m})
}

// progress sends the elapsed time and the state of the run.
func (l *outputNotifier) progress(ctx context.Context, d projections.ExecutionDetail) {
	if l == nil || l.token == nil {
		return
	}
	_ = l.session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
		Meta: l.meta, ProgressToken: l.token, Progress: time.Since(l.start).Seconds(), Message: runningMessage(d),
	})
}

// notifyTaskOutput sends notifications about a run that was started as a task, after the
// answer to the call. It ends with the run or the server, even if the client has
// disconnected.
func (s *Server) notifyTaskOutput(l listener, r ledger.Receipt) {
	if !l.isListening() {
		return
	}
	l.meta = sdk.Meta{relatedTask: object{{"taskId", r.ExecutionID}}}
	// The context.Context of the call cannot be used: the stream of the call ends with the
	// answer, and later notifications belong to the stream of the session.
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	if s.serverCtx.Err() != nil {
		return
	}
	s.watches.running.Go(func() {
		_, _ = s.awaitEnd(s.serverCtx, r, s.newOutputNotifier(l, r.ExecutionID)) // the client requests the outcome separately
	})
}

// level returns a function that returns the level of console output for a request. In
// revisions without transport sessions, the _meta of the request names the level. In the
// others, it is the level that the client has set for the connection.
func (o origin) level(meta sdk.Meta) func() sdk.LoggingLevel {
	_, sessionless := meta[sdk.MetaKeyProtocolVersion]
	return func() sdk.LoggingLevel {
		var level any = meta[sdk.MetaKeyLogLevel]
		if text, ok := level.(string); ok && sessionless {
			return sdk.LoggingLevel(text)
		}
		if o.logLevel == nil || sessionless {
			return ""
		}
		set, _ := o.logLevel.Load().(sdk.LoggingLevel)
		return set
	}
}

// rememberLevel stores the level that a client sets for a connection.
func rememberLevel(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		res, err := next(ctx, method, req)
		p, ok := req.GetParams().(*sdk.SetLoggingLevelParams)
		if o, known := ctx.Value(originKey{}).(origin); err == nil && ok && known && o.logLevel != nil {
			o.logLevel.Store(p.Level)
		}
		return res, err
	}
}
