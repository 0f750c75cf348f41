package audit

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"daybook/events"
	"daybook/proof"
)

// Finding is a problem that a verification found.
type Finding struct {
	// Position is the position of the event that the finding is about, or 0 for none.
	Position uint64 `json:"position,omitempty"`
	What     string `json:"what"`
}

// mostFindings is the maximum number of listed findings. All are counted.
const mostFindings = 100

// Report is the result of a verification.
type Report struct {
	// OK is true if the verdict is Intact.
	OK      bool    `json:"ok"`
	Verdict Verdict `json:"verdict"`
	// Source names what was verified.
	Source string `json:"source"`
	Origin string `json:"origin,omitempty"`
	// Key is the key that signed the checkpoint of Signed. Pinned is true if the caller gave the
	// keys to verify with; otherwise they were found beside the data, where a forger of the data
	// can replace them.
	Key    string `json:"key,omitempty"`
	Pinned bool   `json:"key_pinned"`
	// Events is the number of events read. First and Last are positions.
	Events uint64 `json:"events"`
	First  uint64 `json:"first,omitempty"`
	Last   uint64 `json:"last,omitempty"`
	// Complete is true if every event from position 1 to Signed or later was read, except for those
	// in Lost and Removed. A part proves its events, not that there are no others; Part describes it.
	Complete bool   `json:"complete"`
	Part     string `json:"part,omitempty"`
	// Signed is the size of the largest checkpoint that holds, and Root its tree hash. Checkpoints
	// is the number of sizes for which a checkpoint holds. Foreign is the number of checkpoints
	// that agree with the events, but are signed with other keys.
	Signed      uint64 `json:"signed"`
	Root        string `json:"root,omitempty"`
	Checkpoints int    `json:"checkpoints"`
	Foreign     int    `json:"foreign_checkpoints"`
	// Lost are positions that an event records as lost. Affected counts the rules that cannot be
	// checked because events are lost; LostEffects lists up to 100 of them. Incomparable counts
	// checkpoints over lost events whose hashes are unknown.
	Lost         []LostPositions `json:"lost,omitempty"`
	LostEffects  []Finding       `json:"lost_effects,omitempty"`
	Affected     int             `json:"affected,omitempty"`
	Incomparable int             `json:"incomparable_checkpoints,omitempty"`
	// Origins are the ends of origins, oldest first. Superseded counts checkpoints of ended origins
	// that cover more events than the trusted successor confirms.
	Origins    []OriginChange `json:"origins,omitempty"`
	Superseded int            `json:"superseded_checkpoints,omitempty"`
	// Notes are about files beside the ledger that were not used, and change no verdict.
	Notes []string `json:"notes,omitempty"`
	// Removed are the volumes that events record as removed.
	Removed []RemovedVolume `json:"removed,omitempty"`
	// Unsigned is the number of events that no checkpoint covers, and UnsignedSince the time of the
	// first one, if it is known.
	Unsigned      uint64     `json:"unsigned"`
	UnsignedSince *time.Time `json:"unsigned_since,omitempty"`
	// SignedTime is the time of the newest event that the checkpoint of Signed covers, if it was
	// read; that of a part is the time of its newest event. TooOld is true if it is older than VerifyOptions.MaxAge, or more than 10 minutes in the future.
	SignedTime *time.Time `json:"signed_time,omitempty"`
	TooOld     bool       `json:"too_old,omitempty"`
	// Checkpoint is the checkpoint of Signed, as a signed note. Keep it for the next verification;
	// see VerifyOptions.Known.
	Checkpoint string `json:"checkpoint,omitempty"`
	// Quorum is nil unless VerifyOptions.MinSigners requires more than one signer, of given keys.
	Quorum *Quorum `json:"quorum,omitempty"`
	// Cosigned is nil without VerifyOptions.Policy.
	Cosigned *Cosigned `json:"cosigned,omitempty"`
	// Known is the number of checkpoints in VerifyOptions.Known that hold.
	Known int `json:"known_checkpoints,omitempty"`
	// Executions, Ended and Entries count the executions, ended executions and session entries that
	// the rules were applied to. Blobs counts the blobs that were read and hashed, Tiles the files
	// of the tree that were compared.
	Executions int `json:"executions"`
	Ended      int `json:"ended"`
	Entries    int `json:"session_entries"`
	Blobs      int `json:"blobs"`
	Tiles      int `json:"tiles"`
	// Findings lists the first 100 findings. Found counts all.
	Findings []Finding     `json:"findings"`
	Found    int           `json:"found"`
	Elapsed  time.Duration `json:"elapsed_ns"`

	// contradictions counts the findings that a checkpoint of a trusted key contradicts the events,
	// and contradicted is the size of the smallest such checkpoint. beyond counts the findings that
	// one covers more events than there are.
	contradictions, beyond int
	contradicted           uint64
	// compared is true if proofs connect the checkpoint of a part with all that the caller kept.
	// isExport is true for an export, which ends where it was made. isPart is true if that has no tree
	// with which recorded checkpoints can be compared.
	compared, isExport, isPart bool
	// unread is true if no event was read, because no given key signed the newest checkpoint.
	unread bool
	// signers are the statements about the signers that were followed.
	signers *proof.Signers
	// foreign is the text of the finding that no checkpoint is signed with any of the given keys,
	// or "".
	foreign string
}

// LostPositions is a range of positions whose events were lost.
type LostPositions struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
	// NamedBy is the position of the event that records the loss.
	NamedBy uint64 `json:"named_by"`
	// Proven is true if the hashes of the lost events are known. Checkpoints that cover the lost
	// events can then be compared.
	Proven bool `json:"proven"`
}

// addLossEffect adds a rule that cannot be checked because of lost events to the report.
func (r *Report) addLossEffect(seq uint64, lost events.LostRange, format string, args ...any) {
	r.Affected++
	if len(r.LostEffects) < mostFindings {
		r.LostEffects = append(r.LostEffects, Finding{seq, fmt.Sprintf(format, args...) + fmt.Sprintf(": lost in the hole named by event %d", lost.NamedAt)})
	}
}

func (r *Report) addFinding(seq uint64, format string, args ...any) {
	r.Found++
	if len(r.Findings) < mostFindings {
		r.Findings = append(r.Findings, Finding{seq, fmt.Sprintf(format, args...)})
	}
}

// addNote adds what changes no verdict.
func (r *Report) addNote(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// addContradiction reports that a checkpoint of a trusted key contradicts the events.
func (r *Report) addContradiction(seq, size uint64, format string, args ...any) {
	if r.contradictions == 0 || size < r.contradicted {
		r.contradicted = size
	}
	r.contradictions++
	r.addFinding(seq, format, args...)
}

// addBeyond reports that a checkpoint of a trusted key covers more events than there are.
func (r *Report) addBeyond(format string, args ...any) {
	r.beyond++
	r.addFinding(0, format, args...)
}

// noun returns what was verified.
func (r *Report) noun() string {
	if r.isExport {
		return "export"
	}
	return "ledger"
}

// finish sets the verdict.
func (r *Report) finish(began time.Time) *Report {
	r.Verdict = r.decide()
	if r.foreign != "" {
		r.addFinding(0, "%s", r.foreign)
	}
	r.OK = r.Verdict == Intact
	if r.Findings == nil {
		r.Findings = []Finding{}
	}
	r.Elapsed = time.Since(began)
	return r
}

// String returns the report as human-readable text.
func (r *Report) String() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-12s %s\n", name, inLine(fmt.Sprintf(format, args...)))
	}
	fmt.Fprintf(&b, "%s  %s", r.title(), r.Source)
	if r.Part != "" {
		b.WriteString(": " + inLine(r.Part))
	}
	b.WriteByte('\n')
	switch {
	case r.Events == 0 && r.Signed == 0 && r.Found == 0:
		line("events", "none: the ledger is empty, so there is nothing to prove yet")
	case r.unread:
		line("events", "not read")
	case r.Events == 0:
		line("events", "none")
	case r.Complete && len(r.Lost) > 0:
		line("events", "%d, positions %d to %d but for those lost", r.Events, r.First, r.Last)
	case r.Complete:
		line("events", "%d, positions %d to %d without a gap", r.Events, r.First, r.Last)
	default:
		line("events", "%d between positions %d and %d, each with a proof; it is not known whether there are others", r.Events, r.First, r.Last)
	}
	for i, l := range r.Lost {
		if i == 10 {
			line("", "and %d more", len(r.Lost)-i)
			break
		}
		known := "their hashes are unknown, and checkpoints over them cannot be compared"
		if l.Proven {
			known = "their hashes are known, and checkpoints over them hold"
		}
		line("lost", "positions %d to %d, as event %d says; %s", l.From, l.To, l.NamedBy, known)
	}
	for _, v := range r.Removed {
		line("removed", "positions %d to %d (volume %d) on %s by event %d, proven by the checkpoint of %d events that it was sealed with; export %s",
			v.First, v.Last, v.Volume, v.At, v.NamedBy, v.Signed, v.ExportSHA256)
	}
	if r.Affected > 0 {
		line("", "%d rules cannot be checked because of that (--json lists up to %d)", r.Affected, mostFindings)
	}
	if r.Incomparable > 0 {
		line("", "%d checkpoints cannot be compared because of that", r.Incomparable)
	}
	if r.Origin != "" {
		line("ledger", "%s", r.Origin)
	}
	for _, o := range r.Origins {
		what, next := o.lines()
		line("origin", "%s", what)
		line("", "%s", next)
	}
	if r.Superseded > 0 {
		line("", "%d checkpoints of ended origins cover more events than their successor confirms", r.Superseded)
	}
	if r.Signed > 0 {
		noun := "events"
		if r.Signed == 1 {
			noun = "event"
		}
		line("signed", "%d %s, tree hash %s", r.Signed, noun, r.Root)
		line("checkpoints", "%d compared", r.Checkpoints)
		if r.Foreign > 0 {
			others := "keys that were not given"
			if r.foreign != "" { // the checkpoints were compared under the key beside the data, not under those given
				others = "other keys"
			}
			line("", "%d agree, but are signed with %s", r.Foreign, others)
		}
		if r.SignedTime != nil {
			line("", "the newest signed event is of %s", events.FormatTime(*r.SignedTime))
		}
	}
	if r.Quorum != nil {
		name := "signers"
		for _, text := range r.Quorum.lines(r.Last) {
			line(name, "%s", text)
			name = ""
		}
	}
	if r.Cosigned != nil {
		line("cosigned", "%s", r.Cosigned.line())
	}
	if r.Known > 0 {
		line("kept", "checkpoints that you kept and that hold: %d", r.Known)
	}
	if r.Foreign > 0 && r.Signed == 0 {
		line("checkpoints", "%d agree, but are signed with keys that were not given", r.Foreign)
	}
	if r.Key != "" {
		trust := "it came with the data; give --key to pin one you know"
		switch {
		case r.foreign != "":
			trust = "it came with the data, and is not among the given keys"
		case r.Pinned:
			trust = "one that you gave, or that follows from one"
		}
		line("key", "%s", r.Key)
		line("", "(%s)", trust)
	}
	if r.Unsigned > 0 {
		since := ""
		if r.UnsignedSince != nil {
			since = "; the oldest is of " + events.FormatTime(*r.UnsignedSince)
		}
		line("not signed", "%d after the last checkpoint%s", r.Unsigned, since)
	}
	if !r.unread {
		line("executions", "%d, of which %d ended; %d session entries", r.Executions, r.Ended, r.Entries)
		line("blobs", "%d read and hashed", r.Blobs)
	}
	if r.Tiles > 0 {
		line("tiles", "%d compared", r.Tiles)
	}
	for _, note := range r.Notes {
		line("note", "%s", note)
	}
	line("took", "%s", r.Elapsed.Round(time.Millisecond))
	for i, f := range r.Findings {
		if i == 10 {
			break
		}
		if f.Position > 0 {
			fmt.Fprintf(&b, "  ! event %d: %s\n", f.Position, inLine(f.What))
		} else {
			fmt.Fprintf(&b, "  ! %s\n", inLine(f.What))
		}
	}
	if more := r.Found - 10; more > 0 {
		fmt.Fprintf(&b, "  ! and %d more (--json lists up to %d)\n", more, mostFindings)
	}
	if advice := r.advice(); advice != "" {
		b.WriteString(advice + "\n")
	}
	return b.String()
}

// inLine escapes line breaks and all other characters that are not visible. An export may contain any text, and
// MUST NOT add lines to the report or control the terminal.
func inLine(text string) string {
	isHidden := func(r rune) bool { return !unicode.IsGraphic(r) }
	if !strings.ContainsFunc(text, isHidden) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if isHidden(r) {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// signedByOthers sets the finding that no checkpoint is signed with any of the given keys. beside
// are the keys found beside the data, the newest last.
func (r *Report) signedByOthers(beside []string) {
	r.foreign = "no checkpoint is signed with the keys given"
	if len(beside) > 0 {
		r.foreign += "; the newest key beside the data is " + beside[len(beside)-1]
	}
}

// Unreadable returns the report on a ledger or an export that is too damaged to be verified. err is
// the only finding.
func Unreadable(opts VerifyOptions, began time.Time, err error) *Report {
	r := &Report{Source: opts.Source, Pinned: len(opts.Keys) > 0}
	r.addFinding(0, "%v", err)
	return r.finish(began)
}
