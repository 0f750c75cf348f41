package replay

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"daybook/events"
	"daybook/ledger"
	"daybook/runner"
)

// Limits of a timeline. A script determines how many steps it has and what they say.
const (
	// maxSteps is the maximum number of steps of a timeline, without its end.
	maxSteps = 10000
	// maxTimelineBytes is the maximum size of all texts and names of a timeline together.
	maxTimelineBytes = 1 << 20
	// maxStepText is the maximum size of the text of a step. A longer text is cut.
	maxStepText = 4 << 10
)

// Timeline is what a replay did, in order, on the script's clock.
type Timeline struct {
	// Start is the script's clock at the start.
	Start time.Time
	// Steps are the first steps, and the end if the script reached it.
	Steps []Step
	// Timers, Calls, Answers, Lines and Artifacts count all steps, also those that are not in
	// Steps.
	Timers, Calls, Answers, Lines, Artifacts int64
	// Cut is true if steps are missing in Steps, or if the text of a step was shortened.
	Cut bool
}

// Step is a step of a replay.
type Step struct {
	Kind StepKind
	// At is the time on the script's clock. The time of output is in whole milliseconds.
	At time.Time
	// Call is the number of a host call, Line that of a line of output in the execution, and
	// Artifact that of an artifact, from 1; 0 for other steps.
	Call     int
	Line     int64
	Artifact int
	// Name is what happened: the tool of a call or answer as server.tool, the kind of a timer
	// such as setTimeout, the level of output, the name of an artifact, the status of the end.
	Name string
	// Text is the text of output, the arguments of a call, the value or error of an answer, the
	// name of the callback of a timer, the media type and size of an artifact, the result or
	// error of the end.
	Text string
	// Delay is the delay that a timer was set with.
	Delay time.Duration
	// Failed is true for an answer that is an error.
	Failed bool
}

// StepKind is the kind of a Step.
type StepKind string

// The kinds of steps.
const (
	StepTimer  StepKind = "timer"  // a timer fires
	StepCall   StepKind = "call"   // the script makes a host call
	StepAnswer StepKind = "answer" // the script receives the answer
	StepOutput StepKind = "output" // the script writes a line
	StepEnd    StepKind = "end"
	// StepArtifact means that the script creates an artifact.
	StepArtifact StepKind = "artifact"
)

// recorder records the timeline of a replay. A nil recorder records nothing.
type recorder struct {
	Timeline
	now       time.Time // the script's clock, which advances with timers and answers only
	bytes     int
	line      int64 // the number of the next line
	isMidLine bool  // the last piece of output did not end its line
	isOpen    bool  // the last step is that line, and takes its next piece
}

func newRecorder(start time.Time, firstLine int64) *recorder {
	return &recorder{Timeline: Timeline{Start: start}, now: start, line: firstLine}
}

func (r *recorder) add(s Step) {
	r.isOpen = false
	var cut bool
	if s.Text, cut = shorten(s.Text, maxStepText); cut {
		r.Cut = true
	}
	size := len(s.Text) + len(s.Name)
	if s.Kind != StepEnd && (len(r.Steps) >= maxSteps || r.bytes+size > maxTimelineBytes) {
		r.Cut = true
		r.bytes = maxTimelineBytes // no shorter step after a gap
		return
	}
	r.bytes += size
	r.Steps = append(r.Steps, s)
	r.isOpen = s.Kind == StepOutput
}

// shorten returns at most n bytes of text, with an ellipsis if it was cut.
func shorten(text string, n int) (string, bool) {
	if len(text) <= n {
		return text, false
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…", true
}

func (r *recorder) takeLine(l events.Line) {
	if r == nil {
		return
	}
	if r.isMidLine {
		if r.isOpen {
			r.extend(l.Text)
		}
	} else {
		r.Lines++
		level := l.Level
		if level == "" {
			level = events.LevelLog
		}
		r.add(Step{Kind: StepOutput, At: time.UnixMilli(l.TimeMillis).UTC(), Line: r.line, Name: string(level), Text: l.Text})
		r.line++
	}
	r.isMidLine = l.Continued
}

// extend adds a piece to the line of the last step.
func (r *recorder) extend(piece string) {
	last := &r.Steps[len(r.Steps)-1]
	if piece == "" || strings.HasSuffix(last.Text, "…") && len(last.Text) > maxStepText {
		return
	}
	before := len(last.Text)
	text, cut := shorten(last.Text+piece, maxStepText)
	if cut {
		r.Cut = true
	}
	if r.bytes+len(text)-before > maxTimelineBytes {
		r.Cut, r.bytes = true, maxTimelineBytes
		return
	}
	last.Text, r.bytes = text, r.bytes+len(text)-before
}

func (r *recorder) takeTimer(f runner.TimerFired) {
	r.Timers++
	r.now = f.At
	r.add(Step{Kind: StepTimer, At: f.At, Name: string(f.Kind), Text: f.Name, Delay: f.Delay})
}

func (r *recorder) takeCall(number int, tool string, arguments []byte) {
	if r == nil {
		return
	}
	r.Calls++
	r.add(Step{Kind: StepCall, At: r.now, Call: number, Name: tool, Text: string(arguments)})
}

func (r *recorder) takeArtifact(a runner.Artifact) {
	if r == nil {
		return
	}
	r.Artifacts++
	r.add(Step{Kind: StepArtifact, At: a.At, Artifact: int(r.Artifacts), Name: a.Name, Text: fmt.Sprintf("%s, %d bytes", a.MIME, len(a.Bytes))})
}

func (r *recorder) takeAnswer(tool string, a runner.HostAnswer) {
	r.Answers++
	if a.At.After(r.now) {
		r.now = a.At
	}
	r.add(Step{Kind: StepAnswer, At: r.now, Call: a.Number, Name: tool, Text: string(a.Text), Failed: !a.OK})
}

// finish adds the end of a script that ended, and the count of timers beyond those that were
// reported.
func (r *recorder) finish(o *runner.Outcome, status events.Status) {
	if !o.Clock.IsZero() {
		r.now = o.Clock
	}
	if o.TimersFired > r.Timers {
		r.Timers, r.Cut = o.TimersFired, true
	}
	text := o.Error
	if o.Result != nil {
		text = *o.Result
	}
	r.add(Step{Kind: StepEnd, At: r.now, Name: string(status), Text: strings.ToValidUTF8(text, "\uFFFD")})
}

// ReplaySteps is Replay with a Timeline in the Report.
func (r *Replayer) ReplaySteps(ctx context.Context, rec *ledger.Recording) (Report, error) {
	p := &replay{rec: rec, replayer: r}
	if s := rec.Started; s != nil {
		p.timeline = newRecorder(s.StartTime.Time, s.FirstLine)
	}
	report, err := p.report(ctx)
	if p.timeline != nil {
		report.Timeline = &p.timeline.Timeline
	}
	return report, err
}
