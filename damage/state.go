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
	AtStart   = "start"
	OnReading = "reading"
	ByScrub   = "scrub"
)

// maxFindings bounds what is kept; more are counted.
const maxFindings = 100

// Finding is one thing that is wrong.
type Finding struct {
	// Stream is where: a volume of the ledger, or the store of blobs. Empty for
	// what is not about one.
	Stream string `json:"stream,omitempty"`
	// First and Last are the positions concerned; 0 where none can be named.
	First uint64 `json:"first,omitempty"`
	Last  uint64 `json:"last,omitempty"`
	// What is a sentence that says what is wrong.
	What string `json:"what"`
	// By is how it was found: AtStart, OnReading or ByScrub.
	By   string    `json:"by"`
	Time time.Time `json:"time"`
}

// String says what is wrong and where.
func (f Finding) String() string {
	switch f.First {
	case 0:
		return f.What
	case f.Last:
		return fmt.Sprintf("%s, position %d: %s", f.Stream, f.First, f.What)
	default:
		return fmt.Sprintf("%s, positions %d to %d: %s", f.Stream, f.First, f.Last, f.What)
	}
}

// Advice says what to do about damage.
const Advice = "restore the data directory from a copy, or go on without what is lost: start once with --accept-damage"

// State is what is known to be wrong. It is safe for concurrent use; what was
// reported stays.
type State struct {
	mu       sync.Mutex
	findings []Finding
	more     int
	found    chan struct{} // closed by the first finding
}

// NewState makes a State without findings.
func NewState() *State { return &State{found: make(chan struct{})} }

// Report adds what is wrong, unless that is known. It reports whether it is news.
func (s *State) Report(f Finding) (news bool) {
	if f.Time.IsZero() {
		f.Time = time.Now().UTC()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.findings, func(k Finding) bool {
		return k.Stream == f.Stream && k.First == f.First && k.Last == f.Last && (k.What == f.What || f.First != 0)
	}) {
		return false
	}
	if len(s.findings) == maxFindings {
		s.more++
		return true
	}
	if len(s.findings) == 0 {
		close(s.found)
	}
	s.findings = append(s.findings, f)
	return true
}

// Findings are what is wrong, in the order found, at most 100, and how many more
// there were.
func (s *State) Findings() (list []Finding, more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.findings), s.more
}

// Found is closed when something is wrong.
func (s *State) Found() <-chan struct{} { return s.found }

// Damaged reports whether something is wrong.
func (s *State) Damaged() bool {
	select {
	case <-s.found:
		return true
	default:
		return false
	}
}

// Err is what is wrong in a sentence, as events.ErrDamaged, or nil.
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
	return &events.UnwritableError{What: "the ledger", Reason: "it is damaged (" + s.summary() + "); " + Advice}
}

// summary names the first findings.
func (s *State) summary() string {
	const named = 5
	list, more := s.Findings()
	var parts []string
	for i, f := range list {
		if i == named {
			break
		}
		parts = append(parts, f.String())
	}
	if more += len(list) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}
