package damage

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"daybook/events"
)

// Ways in which damage is found.
const (
	FoundAtStart = "start"
	FoundOnRead  = "reading"
	FoundByScrub = "scrub"
)

// maxFindings bounds what is kept of each radius; more are counted. Findings that have
// ended are forgotten for new ones.
const maxFindings = 100

// Radius is what a Finding affects.
type Radius string

// The radii.
const (
	// OfLedger makes the server read-only.
	OfLedger Radius = "ledger"
	// OfBlob affects what needs a heap or text, and nothing else.
	OfBlob Radius = "blob"
)

// Finding is one thing that is wrong.
type Finding struct {
	// Radius is what it affects; Report takes an empty one for OfLedger.
	Radius Radius `json:"radius" enum:"ledger,blob" doc:"What it affects: ledger makes the server read-only, blob affects only what needs that heap or text."`
	// Blob is the heap or text, where it is known. Its kind is heap, text, or base
	// for a heap that others are stored against.
	Blob *events.LostBlob `json:"blob,omitempty" doc:"The heap or text that is damaged; kind base is a heap that others are stored against."`
	// Stream is where: a volume of the ledger, or the store of blobs. Empty for
	// what is not about one.
	Stream string `json:"stream,omitempty"`
	// First and Last are the positions concerned; 0 where none can be named.
	First uint64 `json:"first,omitempty"`
	Last  uint64 `json:"last,omitempty"`
	// What is a sentence that says what is wrong.
	What string `json:"what"`
	// By is how it was found: FoundAtStart, FoundOnRead or FoundByScrub.
	By   string    `json:"by"`
	Time time.Time `json:"time"`
	// Ended is when it was repaired, or the blob was removed, and Repair says how;
	// nil while it lasts.
	Ended  *time.Time `json:"ended,omitempty" doc:"When the damage ended; not set while it lasts."`
	Repair string     `json:"repair,omitempty" doc:"How the damage ended."`
}

// String says what is wrong and where.
func (f Finding) String() string {
	switch {
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

// RecoveryAdvice says what to do about damage of the ledger.
const RecoveryAdvice = "restore the data directory from a copy, or go on without what is lost: start once with --accept-damage"

// BlobAdvice says what to do about a damaged heap or text.
const BlobAdvice = "run the script that made the heap again, which stores it again if the run leaves the same heap; reset a session that continues from the heap; restore the data directory from a copy; or record the loss: start once with --accept-damage"

// State is the list of findings. It is safe for concurrent use.
type State struct {
	mu       sync.Mutex
	findings []Finding
	// more counts the findings about the ledger that are not listed, and unlisted are
	// the blobs of findings that are not listed and have not ended.
	more     int
	unlisted map[events.LostBlob]bool
	found    chan struct{} // closed by the first finding about the ledger
}

// NewState makes a State without findings.
func NewState() *State {
	return &State{unlisted: map[events.LostBlob]bool{}, found: make(chan struct{})}
}

// Report adds a finding, unless it is known. It reports whether it is new.
func (s *State) Report(f Finding) (news bool) {
	if f.Time.IsZero() {
		f.Time = time.Now().UTC()
	}
	if f.Radius == "" {
		f.Radius = OfLedger
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.findings, f.repeats) {
		return false
	}
	known := s.count(f.Radius)
	if f.Radius == OfLedger && known == 0 {
		close(s.found)
	}
	if known == maxFindings && !s.forgetEnded(f.Radius) {
		return s.leaveOut(f)
	}
	if f.Blob != nil {
		delete(s.unlisted, *f.Blob)
	}
	s.findings = append(s.findings, f)
	return true
}

// forgetEnded removes the oldest finding of a radius that has ended. It reports
// whether there was one. The caller must hold mu.
func (s *State) forgetEnded(r Radius) bool {
	i := slices.IndexFunc(s.findings, func(f Finding) bool { return f.Radius == r && f.Ended != nil })
	if i < 0 {
		return false
	}
	s.findings = slices.Delete(s.findings, i, i+1)
	return true
}

// leaveOut counts a finding that is not listed, each blob once. It reports whether
// the finding is new. The caller must hold mu.
func (s *State) leaveOut(f Finding) (news bool) {
	if f.Radius == OfLedger {
		s.more++
		return true
	}
	var blob events.LostBlob // that of a finding about no blob that is known
	if f.Blob != nil {
		blob = *f.Blob
	}
	news = !s.unlisted[blob]
	s.unlisted[blob] = true
	return news
}

// repeats reports whether a finding is about what k is about.
func (f Finding) repeats(k Finding) bool {
	switch {
	case f.Radius != k.Radius || k.Ended != nil:
		return false
	case f.Blob != nil || k.Blob != nil:
		return f.Blob != nil && k.Blob != nil && *f.Blob == *k.Blob
	}
	return k.Stream == f.Stream && k.First == f.First && k.Last == f.Last && (k.What == f.What || f.First != 0)
}

// count returns how many findings are listed of a radius. The caller must hold mu.
func (s *State) count(r Radius) (n int) {
	for _, f := range s.findings {
		if f.Radius == r {
			n++
		}
	}
	return n
}

// Repaired ends the findings about blobs that match. It reports whether there was
// one.
func (s *State) Repaired(how string, match func(Finding) bool) (ended bool) {
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

// Findings are the findings in the order found, at most 100 of each radius, and how
// many more there are.
func (s *State) Findings() (list []Finding, more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.findings), s.more + len(s.unlisted)
}

// Found is closed when the ledger is found damaged.
func (s *State) Found() <-chan struct{} { return s.found }

// Damaged reports whether the ledger is damaged. A damaged blob does not count.
func (s *State) Damaged() bool {
	select {
	case <-s.found:
		return true
	default:
		return false
	}
}

// Count returns how many findings of a radius have not ended.
func (s *State) Count(r Radius) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.more
	if r == OfBlob {
		n = len(s.unlisted)
	}
	for _, f := range s.findings {
		if f.Radius == r && f.Ended == nil {
			n++
		}
	}
	return n
}

// Blobs returns the findings about blobs that have not ended.
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

// Err is the damage of the ledger in a sentence, as events.ErrDamaged, or nil.
func (s *State) Err() error {
	if !s.Damaged() {
		return nil
	}
	return fmt.Errorf("%w: %s", events.ErrDamaged, s.summary())
}

// ReadOnly is why nothing may be written, as *events.UnwritableError, or nil.
func (s *State) ReadOnly() error {
	if !s.Damaged() {
		return nil
	}
	return &events.UnwritableError{What: "the ledger", Reason: "it is damaged (" + s.summary() + "); " + RecoveryAdvice}
}

// summary names the first findings about the ledger.
func (s *State) summary() string {
	const named = 5
	s.mu.Lock()
	defer s.mu.Unlock()
	var parts []string
	more := s.count(OfLedger) + s.more
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
