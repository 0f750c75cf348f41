package events

import "slices"

// Nondeterminism is a way in which a script learned when the engine collected garbage, which
// depends on more than the inputs of a run.
type Nondeterminism string

// The reasons why a run may not repeat, in the order in which they are recorded.
const (
	// ReadCollectedWeakRef means that WeakRef.prototype.deref returned undefined, because
	// the target was collected.
	ReadCollectedWeakRef Nondeterminism = "weak_ref"
	// RanFinalizer means that a callback of a FinalizationRegistry ran, during the script or
	// when its heap was saved.
	RanFinalizer Nondeterminism = "finalizer"
)

// AllNondeterminism returns every reason, in order.
func AllNondeterminism() []Nondeterminism {
	return []Nondeterminism{ReadCollectedWeakRef, RanFinalizer}
}

// ValidNondeterminism reports whether list has known reasons, each at most once, in order.
func ValidNondeterminism(list []Nondeterminism) bool {
	all := AllNondeterminism()
	for _, n := range list {
		i := slices.Index(all, n)
		if i < 0 {
			return false
		}
		all = all[i+1:]
	}
	return true
}
