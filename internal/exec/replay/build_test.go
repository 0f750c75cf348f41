package replay_test

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"daybook/events"
	"daybook/internal/exec/worker"
	"daybook/ledger"
	"daybook/runner"
)

// otherBuild gives the workers of a pool another build, which converts files or scripts in
// another way if convert is set.
type otherBuild struct {
	*worker.Pool
	build   string
	convert func(*runner.Task)
}

func (b *otherBuild) Engine(ctx context.Context, stateful bool) (events.Engine, error) {
	e, err := b.Pool.Engine(ctx, stateful)
	e.Build = b.build
	return e, err
}

func (b *otherBuild) Run(ctx context.Context, t runner.Task, lines func(context.Context, []events.Line) error) (runner.Outcome, error) {
	if b.convert != nil {
		b.convert(&t)
	}
	return b.Pool.Run(ctx, t, lines)
}

// A run is compared with what another build of the same engine makes of it, and a difference
// says that the build may be the reason.
func TestReplayByAnotherBuild(t *testing.T) {
	s := newTestServer(t)
	engine, err := s.pool.Engine(t.Context(), true)
	if err != nil || engine.Build == "" {
		t.Fatalf("the build of the workers is %q, %v", engine.Build, err)
	}
	// These conversions move what follows by a line.
	moveFiles := func(t *runner.Task) {
		t.Files = bytes.ReplaceAll(t.Files, []byte("export"), []byte("globalThis.n = 1;\\nexport"))
	}
	moveScript := func(t *runner.Task) { t.Code = append([]byte("\n"), t.Code...) }
	withFile := func(s *ledger.Submission) {
		s.Files = map[string]string{"fail.ts": "export const one = 1\nexport function position() {\n  return new Error('here').stack.match(/fail.ts\\S*:(\\d+):/)[1]\n}"}
	}
	javascript := s.run(`const kept = { n: 1 }; console.log("a"); kept.n`)
	if javascript.Started.Engine != engine {
		t.Errorf("recorded engine %+v, want %+v", javascript.Started.Engine, engine)
	}
	quiet := s.run(`import { one } from "./fail.ts"; console.log(one); one`, withFile)
	position := s.run(`import { position } from "./fail.ts"; console.log("at", position())`, withFile)
	for _, test := range []struct {
		name    string
		rec     *ledger.Recording
		build   string
		convert func(*runner.Task)
		want    events.ReplayPart // what differs
		// compared reports whether javascript and heap are compared; other whether a
		// difference is remarked.
		compared, other bool
	}{
		{name: "the recorded build", rec: quiet, build: engine.Build, compared: true},
		{name: "another build", rec: javascript, build: "other", compared: true},
		{name: "another build that converts the script in another way", rec: javascript, build: "other", convert: moveScript},
		{name: "files", rec: quiet, build: "other"},
		{name: "an unknown build", rec: quiet},
		{name: "files that are converted in another way", rec: quiet, build: "other", convert: moveFiles},
		{name: "a position in them", rec: position, build: "other", convert: moveFiles, want: events.ReplayOutput, other: true},
		{name: "the recorded build that converts in another way", rec: position, build: engine.Build, convert: moveFiles, want: events.ReplayOutput},
		{name: "another script in the recorded build", rec: javascript, build: engine.Build, convert: moveScript, want: events.ReplayJavaScript},
	} {
		report := s.replay(test.rec, &otherBuild{s.pool, test.build, test.convert})
		if test.want == "" {
			if report.Verdict != events.ReplayIdentical || report.OtherBuild {
				t.Errorf("%s: %s", test.name, describe(report))
			}
			for _, part := range []events.ReplayPart{events.ReplayJavaScript, events.ReplayHeap} {
				if slices.Contains(report.Compared, part) != test.compared {
					t.Errorf("%s: compared %v", test.name, report.Compared)
				}
			}
			continue
		}
		if report.Difference == nil || report.Difference.Part != test.want || report.OtherBuild != test.other {
			t.Errorf("%s: %s, another build: %t", test.name, describe(report), report.OtherBuild)
		}
	}
}
