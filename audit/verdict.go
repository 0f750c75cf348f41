package audit

import (
	"fmt"
	"time"
)

// Verdict is the outcome of a verification.
type Verdict string

// The verdicts, from the best to the worst. If several apply, the worst counts.
const (
	// Intact means that all checks passed, and that a checkpoint of a key that the caller gave
	// covers every event. With VerifyOptions.MaxAge, the newest covered event is not older. If
	// Report.Complete is false, it holds only for the part that was read.
	Intact Verdict = "intact"
	// IntactUpTo means that all checks passed, but that no checkpoint of a given key covers the
	// last events, or that the newest covered event is older than VerifyOptions.MaxAge. Nothing
	// proves the events after Report.Signed. With VerifyOptions.Policy, nothing proves the events after
	// the checkpoint in Report.Cosigned, or its cosignatures are older than MaxAge. With
	// VerifyOptions.MinSigners, too few signers cover the events after the size in Report.Quorum.
	IntactUpTo Verdict = "intact_up_to"
	// Unauthenticated means that all checks passed, but that the caller gave no key: the keys beside
	// the data were used, which anyone who can write the data can replace.
	Unauthenticated Verdict = "unauthenticated"
	// WrongKey means that all other checks passed, but no checkpoint is signed with any of the
	// keys that the caller gave: either these are keys of another ledger, or this ledger is signed
	// with a key that the caller does not trust. Watch then checks nothing else.
	WrongKey Verdict = "wrong_key"
	// RolledBack means that a signed checkpoint covers more events than there are, and that
	// nothing else is wrong: the ledger was set back to an earlier state, or its end was cut off.
	RolledBack Verdict = "rolled_back"
	// Forked means that keys that the caller gave signed two trees of which neither extends the other: there are
	// two histories.
	Forked Verdict = "forked"
	// NotIntact means that a check failed.
	NotIntact Verdict = "not_intact"
)

// decide returns the verdict on the findings of the report.
func (r *Report) decide() Verdict {
	switch {
	case r.Found > r.contradictions+r.beyond:
		return NotIntact
	case r.contradictions > 0 && r.contradicted <= r.Signed && r.Pinned && r.foreign == "":
		return Forked
	case r.contradictions > 0: // no checkpoint of a given key confirms these events: they may have been changed
		return NotIntact
	case r.beyond > 0:
		return RolledBack
	case r.foreign != "" && r.Pinned:
		return WrongKey
	case r.foreign != "":
		return NotIntact
	case !r.Pinned:
		return Unauthenticated
	case r.Unsigned > 0 || r.TooOld || r.lacksSigners() || r.lacksWitnesses():
		return IntactUpTo
	}
	return Intact
}

// title returns the verdict as the first words of a report.
func (r *Report) title() string {
	switch r.Verdict {
	case Intact:
		if !r.Complete {
			return "INTACT PART"
		}
		return "INTACT"
	case IntactUpTo:
		return fmt.Sprintf("INTACT UP TO %d", r.upTo())
	case Unauthenticated:
		return "UNAUTHENTICATED"
	case WrongKey:
		return "WRONG KEY"
	case RolledBack:
		return "ROLLED BACK"
	case Forked:
		return "FORKED"
	default:
		return "NOT INTACT"
	}
}

// advice returns what the verdict means and what to do, or an empty string.
func (r *Report) advice() string {
	switch r.Verdict {
	case IntactUpTo:
		if r.Unsigned == 0 && r.lacksSigners() {
			return r.signersAdvice()
		}
		if r.lacksWitnesses() {
			return "No checkpoint that enough witnesses of the policy cosigned covers the newest events. Witnesses usually cosign within seconds: verify again. " +
				"If that does not help, the ledger may have another history for others."
		}
		if r.Cosigned != nil && r.Cosigned.Time != nil && r.TooOld {
			return "The cosignatures are older than --max-age. The witnesses of a running ledger renew them every 10 minutes: ask its operator for newer ones."
		}
		if r.Unsigned == 0 {
			at := r.SignedTime
			if r.Quorum != nil {
				at = r.Quorum.Time
			}
			if at != nil && time.Until(*at) > maxAhead {
				return "The newest event that a checkpoint covers is of the future, so nothing shows that it is not older than --max-age. Compare the clocks."
			}
			return "The newest event that a checkpoint covers is older than --max-age. If the ledger should have newer events, ask for them where they were recorded."
		}
		return "No checkpoint of a key that you trust covers the newest events: a server signs within a second after it recorded an event, and when it stops. " +
			"If that time is over, they may be forged, or events after them may be missing."
	case Unauthenticated:
		return "All checks passed with the key beside the data, which anyone who can write the data can replace. Give the key that the operator published, with --key."
	case WrongKey:
		holds := "Everything else holds."
		if r.unread {
			holds = "Nothing else was checked."
		}
		if len(r.Origins) > 0 {
			return holds + " Either the origin that your key signed for ended, as the line origin says: ask the operator why, and compare the new key with the published one before you give it. Or your key is of another ledger."
		}
		return holds + " Either the key is of another ledger, or this ledger is not signed by the one you trust: compare your key with the one that the operator of the ledger publishes."
	case RolledBack:
		if r.isExport {
			return "The export is older than a checkpoint that you keep. Ask for a newer one: if the operator has none, the ledger was set back."
		}
		return "A signed checkpoint proves that there were more events. Ask the operator for them: the ledger was set back to an earlier state, or its end was cut off."
	case Forked:
		return "The key signed two histories that contradict each other. Keep both checkpoints: together they prove it."
	}
	return ""
}
