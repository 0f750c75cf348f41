package projections

import (
	"daybook/events"
)

// replaySchema has the newest verdict about the replay of each execution: a LastReplay as JSON.
const replaySchema = `
CREATE TABLE IF NOT EXISTS replays (execution INTEGER PRIMARY KEY, seq INTEGER NOT NULL, replay TEXT NOT NULL);
`

// replayStatements are the statements about replays.
type replayStatements struct{ putReplay *statement }

func (s *replayStatements) queries() []statementDef {
	return []statementDef{
		{&s.putReplay, `INSERT OR REPLACE INTO replays VALUES (?, ?, ?)`},
	}
}

// LastReplay is the newest verdict about the replay of an execution, without the texts of its
// difference.
type LastReplay struct {
	Verdict  events.ReplayVerdict `json:"verdict" enum:"identical,different,not_replayed" doc:"identical: everything that was compared was equal. different: part names the first difference. not_replayed: reason says why."`
	At       string               `json:"at" format:"date-time" doc:"Time of the verdict."`
	Seq      uint64               `json:"sequence" doc:"Position of the event that records the verdict. It has the texts of the difference."`
	EngineID string               `json:"engine_id,omitempty" doc:"Engine of the replay."`
	Stopped  bool                 `json:"stopped,omitempty" doc:"True if the recorded run was stopped: it was compared up to its last recorded line and call."`
	Part     events.ReplayPart    `json:"part,omitempty" enum:"output,artifacts,calls,status,javascript,result,error,heap" doc:"What the first difference is about."`
	Line     int64                `json:"line,omitempty" doc:"Number of the line of output that differs, from 1."`
	Call     int                  `json:"call,omitempty" doc:"Number of the host call that differs, from 1."`
	Artifact int                  `json:"artifact,omitempty" doc:"Number of the artifact that differs, from 1."`
	Reason   string               `json:"reason,omitempty" doc:"Machine-readable cause of not_replayed, for example heap_collected."`
}

// applyReplayed stores a verdict. It is no event of the course of the execution, so the
// execution stays as it is.
func (a *applier) applyReplayed(e *events.Event, d *events.ExecutionReplayed) error {
	st, err := a.findExecution(e.Tenant, d.ExecutionID)
	if err != nil || st == nil { // its volume was removed
		return err
	}
	return a.exec(a.s.putReplay, st.id, e.Seq, asJSON(LastReplay{
		Verdict: d.Verdict, At: events.FormatTime(e.Time), Seq: e.Seq, EngineID: d.Engine.ID, Stopped: d.Stopped, Part: d.Part, Line: d.Line, Call: d.Call, Artifact: d.Artifact, Reason: d.Reason,
	}))
}
