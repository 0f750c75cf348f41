package translog

import (
	"slices"

	"daybook/proof"
)

// The ledger says whose signature of a checkpoint counts: Log.counting returns that, and nothing else
// decides it. There are two other lists of keys, which decide nothing:
//
//   - keys.known are the keys that this server has had, in the file "vkey". They recognize what this
//     server signed itself. Only while the ledger has no statements, they count.
//   - VKeys are the keys of the current origin, for callers that know none.

// counting returns the keys whose signatures of checkpoints count, of ended origins too. Its method Open
// respects up to which size a retired key counts; its Keys contain retired keys. The caller must hold
// mu.
func (l *Log) counting() *proof.Trust {
	last := l.signers.Next("", "", 0) // names the whole list, because each statement has the hash of the one before
	if l.trust == nil || l.trustOf.Number != last.Number || l.trustOf.Previous != last.Previous || !slices.Equal(l.trustKnown, l.keys.known) {
		given := l.keys.known
		if list := l.signers.Statements(); len(list) > 0 {
			given = nil
			for _, st := range list {
				if st.Action == proof.StartOrigin || st.Action == proof.IntroduceSigner {
					given = append(given, st.Key)
				}
			}
		}
		l.trust, l.trustOf, l.trustKnown = l.signers.Trust(given), last, slices.Clone(l.keys.known)
	}
	return l.trust
}

// VKeys returns the verification keys of the current origin, that of this server last.
func (l *Log) VKeys() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []string
	for _, k := range ofOrigin(append(l.signers.Keys(), l.keys.known...), l.keys.Origin) {
		if k != l.keys.vkey && !slices.Contains(list, k) {
			list = append(list, k)
		}
	}
	if l.keys.vkey != "" {
		list = append(list, l.keys.vkey)
	}
	return list
}

// ofOrigin returns the keys whose name is an origin.
func ofOrigin(vkeys []string, origin string) []string {
	return slices.DeleteFunc(slices.Clone(vkeys), func(k string) bool {
		name, err := proof.VKeyName(k)
		return err != nil || name != origin
	})
}
