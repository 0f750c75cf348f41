package damage

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"daybook/events"
)

// The ways in which damage is found: values of Finding.By.
const (
	FoundAtStart = "start"
	FoundOnRead  = "reading"
	FoundByScrub = "scrub"
)

// maxFindings bounds the listed findings of each radius. If the list is full, a new finding
// replaces the oldest one that has ended. If none has ended, the new one is only counted.
const maxFindings = 100

// Radius is the part of the data that a Finding affects.
type Radius string

// The values of Radius.
const (
	// OfLedger makes the server read-only.
	OfLedger Radius = "ledger"
	// OfBlob affects only operations that need a certain heap or text.
	OfBlob Radius = "blob"
	// OfRun affects nothing but the trust in one execution: its replay differs from its
	// record.
	OfRun Radius = "run"
)

// Finding is one problem with the stored data.
type Finding struct {
	// Radius is the affected part. Report replaces an empty Radius with OfLedger.
	Radius Radius `json:"radius" enum:"ledger,blob,run" doc:"Affected part: ledger makes the server read-only, blob affects only operations that need that heap or text, and run affects no operation: the replay of that execution differs from its record."`
	// Blob is the damaged heap or text, if it is known. Its kind is heap, text, or base
	// for a heap that others are stored against.
	Blob *events.LostBlob `json:"blob,omitempty" doc:"Damaged heap or text; kind base is a heap that others are stored against."`
	// Run is the execution whose replay differs from its record.
	Run *Run `json:"run,omitempty" doc:"Execution whose replay differs from its record."`
	// Stream is a volume of the ledger or the store of blobs, or empty if the finding
	// concerns no stream.
	Stream string `json:"stream,omitempty"`
	// First and Last are the first and the last affected position, inclusive, or 0 if
	// unknown.
	First uint64 `json:"first,omitempty"`
	Last  uint64 `json:"last,omitempty"`
	// What describes the problem in a sentence.
	What string `json:"what"`
	// IsKeyLost is true if only the signing key cannot be used. Then no event is damaged.
	IsKeyLost bool `json:"-"`
	// By is FoundAtStart, FoundOnRead or FoundByScrub.
	By   string    `json:"by"`
	Time time.Time `json:"time"`
	// Ended is the time when the damage was repaired or the blob removed, or nil while
	// it lasts. Repair describes how it ended.
	Ended  *time.Time `json:"ended,omitempty" doc:"Time when the damage ended; not set while it lasts."`
	Repair string     `json:"repair,omitempty" doc:"Description of how the damage ended."`
}

// Run identifies an execution.
type Run struct {
	Tenant      string `json:"tenant"`
	ExecutionID string `json:"execution_id"`
}

// String describes the problem and its place.
func (f Finding) String() string {
	switch {
	case f.Run != nil:
		return fmt.Sprintf("execution %s of tenant %s: %s", f.Run.ExecutionID, f.Run.Tenant, f.What)
	case f.Blob != nil && f.Blob.Tenant != "":
		return fmt.Sprintf("%s %s of tenant %s: %s", f.Blob.Kind, f.Blob.SHA256, f.Blob.Tenant, f.What)
	case f.Blob != nil:
		return fmt.Sprintf("%s heap %s: %s", f.Blob.Kind, f.Blob.SHA256, f.What)
	case f.First == 0:
		return f.What
	case f.First == f.Last:
		return fmt.Sprintf("%s, position %d: %s", f.Stream, f.First, f.What)
	default:
		return fmt.Sprintf("%s, positions %d to %d: %s", f.Stream, f.First, f.Last, f.What)
	}
}

// RecoveryAdvice tells the operator how to recover from damage of the ledger.
const RecoveryAdvice = "restore the data directory from a backup that has its newest events, or start once with --accept-damage to continue without what is lost"

// keyAdvice tells the operator how to recover if only the signing key cannot be used.
const keyAdvice = "put the file of a key that signs the ledger in the place of the present one, from a backup or after you introduced it with a root key (daybook key introduce --root-key), and restart the server; if you have neither, start once with --accept-damage: no event is lost, and a successor origin with a new key starts"

// BlobAdvice tells the operator how to recover from a damaged heap or text.
const BlobAdvice = "run the script that made the heap again, which stores it again if the run leaves the same heap; reset a session that continues from the heap; restore the data directory from a backup; or start once with --accept-damage to record the loss"

// runAdvice tells the operator what to do about an execution whose replay differs.
const runAdvice = "look at the difference with daybook replay ID --step; if the script depends on what no engine repeats (docs/guides/replaying.md lists it), the record is sound; otherwise compare the run with an export or a backup, and report a fault of this program"

// State is the list of findings since the start of the process. It is safe for
// concurrent use.
type State struct {
	mu       sync.Mutex
	findings []Finding
	// unlistedLedger and unlistedRuns count unlisted findings about the ledger and about
	// executions. unlisted holds the blobs of unlisted findings that have not ended. The zero
	// LostBlob stands for all findings without a known blob.
	unlistedLedger int
	unlistedRuns   int
	unlisted       map[events.LostBlob]bool
	found          chan struct{} // closed by the first finding about the ledger
}

// NewState returns a State without findings.
func NewState() *State {
	return &State{unlisted: map[events.LostBlob]bool{}, found: make(chan struct{})}
}

// Report adds a finding, unless a finding about the same damage is listed and has not ended,
// and reports whether it is new. It sets Time if that is zero.
func (s *State) Report(f Finding) (news bool) {
	if f.Time.IsZero() {
		f.Time = time.Now().UTC()
	}
	if f.Radius == "" {
		f.Radius = OfLedger
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.findings, f.isRepeatOf) {
		return false
	}
	known := s.count(f.Radius)
	if f.Radius == OfLedger && known == 0 {
		close(s.found)
	}
	if known == maxFindings && !s.forgetEnded(f.Radius) {
		return s.countUnlisted(f)
	}
	if f.Blob != nil {
		delete(s.unlisted, *f.Blob)
	}
	s.findings = append(s.findings, f)
	return true
}

// forgetEnded removes the oldest ended finding of a radius, and reports whether there
// was one. The caller must hold mu.
func (s *State) forgetEnded(r Radius) bool {
	i := slices.IndexFunc(s.findings, func(f Finding) bool { return f.Radius == r && f.Ended != nil })
	if i < 0 {
		return false
	}
	s.findings = slices.Delete(s.findings, i, i+1)
	return true
}

// countUnlisted counts a finding that is not listed, each blob once, and reports whether the
// finding is new. The caller must hold mu.
func (s *State) countUnlisted(f Finding) (news bool) {
	if f.Radius == OfLedger {
		s.unlistedLedger++
		return true
	}
	if f.Radius == OfRun {
		s.unlistedRuns++
		return true
	}
	var blob events.LostBlob // stays zero for a finding without a known blob
	if f.Blob != nil {
		blob = *f.Blob
	}
	news = !s.unlisted[blob]
	s.unlisted[blob] = true
	return news
}

// isRepeatOf reports whether f is about the same damage as k, and k has not ended.
func (f Finding) isRepeatOf(k Finding) bool {
	switch {
	case f.Radius != k.Radius || k.Ended != nil:
		return false
	case f.Run != nil:
		return *f.Run == *k.Run
	case f.Blob != nil || k.Blob != nil:
		return f.Blob != nil && k.Blob != nil && *f.Blob == *k.Blob
	}
	return k.Stream == f.Stream && k.First == f.First && k.Last == f.Last && (k.What == f.What || f.First != 0)
}

// count returns the number of listed findings of a radius. The caller must hold mu.
func (s *State) count(r Radius) (n int) {
	for _, f := range s.findings {
		if f.Radius == r {
			n++
		}
	}
	return n
}

// EndBlobFindings ends the findings about blobs for which match returns true, and reports
// whether there was one. how describes the repair.
func (s *State) EndBlobFindings(how string, match func(Finding) bool) (ended bool) {
	now := time.Now().UTC()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, f := range s.findings {
		if f.Radius == OfBlob && f.Ended == nil && match(f) {
			s.findings[i].Ended, s.findings[i].Repair, ended = &now, how, true
		}
	}
	for blob := range s.unlisted {
		f := Finding{Radius: OfBlob}
		if blob != (events.LostBlob{}) {
			f.Blob = &blob
		}
		if match(f) {
			delete(s.unlisted, blob)
			ended = true
		}
	}
	return ended
}

// Findings returns the listed findings in the order in which they were found, at most
// 100 of each radius, and the number of unlisted ones.
func (s *State) Findings() (list []Finding, more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.findings), s.unlistedLedger + s.unlistedRuns + len(s.unlisted)
}

// Found returns a channel that is closed when the ledger is found damaged.
func (s *State) Found() <-chan struct{} { return s.found }

// Damaged reports whether the ledger is damaged. Damaged blobs do not count.
func (s *State) Damaged() bool {
	select {
	case <-s.found:
		return true
	default:
		return false
	}
}

// OnlyKeyLost reports whether the ledger counts as damaged only because the signing key cannot be used.
func (s *State) OnlyKeyLost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.findings {
		if f.Radius == OfLedger && !f.IsKeyLost {
			return false
		}
	}
	return s.unlistedLedger == 0 && s.count(OfLedger) > 0
}

// Advice tells the operator how to recover from the damage of the ledger or, if there is none,
// from that of heaps and texts, or what to do about executions whose replay differs. It is
// empty without any of these.
func (s *State) Advice() string {
	switch {
	case s.OnlyKeyLost():
		return keyAdvice
	case s.Damaged():
		return RecoveryAdvice
	case s.Count(OfBlob) > 0:
		return BlobAdvice
	case s.Count(OfRun) > 0:
		return runAdvice
	}
	return ""
}

// Count returns the number of findings of a radius that have not ended, listed or not.
func (s *State) Count(r Radius) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := map[Radius]int{OfLedger: s.unlistedLedger, OfBlob: len(s.unlisted), OfRun: s.unlistedRuns}[r]
	for _, f := range s.findings {
		if f.Radius == r && f.Ended == nil {
			n++
		}
	}
	return n
}

// Blobs returns the listed findings about blobs that have not ended.
func (s *State) Blobs() (list []Finding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.findings {
		if f.Radius == OfBlob && f.Ended == nil {
			list = append(list, f)
		}
	}
	return list
}

// Err returns an error that wraps events.ErrDamaged and names the first findings, or
// nil if the ledger is not damaged.
func (s *State) Err() error {
	if !s.Damaged() {
		return nil
	}
	return fmt.Errorf("%w: %s", events.ErrDamaged, s.summary())
}

// ReadOnly returns the reason why events cannot be written, as *events.UnwritableError,
// or nil.
func (s *State) ReadOnly() error {
	if !s.Damaged() {
		return nil
	}
	return &events.UnwritableError{What: "the ledger", Reason: "it is damaged (" + s.summary() + "); " + s.Advice()}
}

// summary describes the first findings about the ledger and counts the others.
func (s *State) summary() string {
	const named = 5
	s.mu.Lock()
	defer s.mu.Unlock()
	var parts []string
	more := s.count(OfLedger) + s.unlistedLedger
	for _, f := range s.findings {
		if f.Radius == OfLedger && len(parts) < named {
			parts = append(parts, f.String())
		}
	}
	if more -= len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}
