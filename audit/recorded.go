package audit

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"slices"

	"daybook/events"
	"daybook/proof"
)

// recorded are the statements about the signers that the events of a ledger at rest have.
type recorded struct {
	notes []proof.Statement
	// incomplete is true if events with statements may be missing: some were lost or removed, or cannot be
	// read.
	incomplete bool
}

// mostNoteBytes is the maximum length in bytes of the statements in memory. It is more than a list has.
const mostNoteBytes = 8 << 20

// readRecorded reads the statements in the events. What is not valid, take reports later.
func readRecorded(ctx context.Context, archive Archive) (r recorded, err error) {
	if l, ok := archive.(interface{ Lost() events.Lost }); ok {
		r.incomplete = len(l.Lost()) > 0
	}
	if l, ok := archive.(interface{ Removed() events.Removal }); ok {
		r.incomplete = r.incomplete || l.Removed().UpTo() > 0
	}
	length := 0
	err = archive.EachMatching(ctx, events.SignersSubject(events.LedgerTenant), func(e events.Event) error {
		if d, ok := e.Data.(*events.LedgerSignersChanged); ok {
			if length += len(d.Note); length > mostNoteBytes {
				return nil
			}
			if st, err := proof.ParseStatement([]byte(d.Note)); err == nil {
				r.notes = append(r.notes, st)
			}
		}
		return nil
	})
	if err != nil && ctx.Err() == nil { // follow reports it
		r.incomplete, err = true, nil
	}
	return r, err
}

// addTo appends the statements to a list that it changes. Those that do not continue it are left out.
func (r recorded) addTo(list *proof.Signers) *proof.Signers {
	for _, st := range r.notes {
		_, _ = list.Add(st.Note)
	}
	return list
}

// agreesWith reports whether no statement contradicts a list. A second start of the first origin, by another
// server at the same time, contradicts nothing.
func (r recorded) agreesWith(list *proof.Signers) bool {
	all, started := list.Statements(), false
	for _, st := range r.notes {
		if st.Number == 0 && started {
			continue
		}
		started = started || st.Number == 0
		if st.Number < uint64(len(all)) && all[st.Number].Hash() != st.Hash() {
			return false
		}
	}
	return true
}

// followRecorded follows the list of signers in the events. The file in the audit directory
// is a copy of it, which proves nothing: only if events with statements may be missing, it is followed, and
// only if it contradicts neither the events nor VerifyOptions.Signers. If only the end of the list is missing
// in the events, as in a ledger that was set back, what the signers of the ledger signed counts.
func (v *verifier) followRecorded(r recorded) {
	file, fileErr := v.readSignersFile()
	kept := v.opts.Signers
	if kept == nil {
		kept = &proof.Signers{}
	}
	list := r.addTo(&proof.Signers{})
	if r.incomplete {
		if r.agreesWith(kept) {
			list = r.addTo(kept.Clone())
		}
		if fileErr == nil && r.agreesWith(file) && file.Continues(kept) == nil {
			list = r.addTo(file.Clone())
		}
	}
	switch {
	case fileErr != nil:
		v.report.addNote("the file of signers beside the ledger was not used: %v", fileErr)
	case list.Continues(file) != nil:
		v.report.addNote("the file of signers beside the ledger is not a copy of the statements in the events")
		if list.Continues(kept) == nil && file.Continues(list) == nil {
			continueWith(list, file)
		}
	}
	v.recorded = list
	v.opts.follow(list.Bytes())
	v.reportSigners()
}

// keysBeside returns the keys in an audit directory, or without them those of the statements.
func (r recorded) keysBeside(dir Directory) ([]string, error) {
	if dir != nil {
		if keys, err := dir.VKeys(); !errors.Is(err, fs.ErrNotExist) {
			return keys, err
		}
	}
	return keysOf(r.addTo(&proof.Signers{})), nil
}

// keysOf returns the keys that a list made signers.
func keysOf(list *proof.Signers) (keys []string) {
	for _, st := range list.Statements() {
		if st.Action == proof.StartOrigin || st.Action == proof.IntroduceSigner {
			keys = append(keys, st.Key)
		}
	}
	return keys
}

// isOwn reports whether a key that was given, that is beside the ledger or that its statements name signed
// a checkpoint. What others signed beside the ledger says nothing about the events: anyone can write it there.
func (v *verifier) isOwn(c proof.Checkpoint) bool {
	if bytes.Equal(c.Note, v.closing) {
		return true
	}
	if v.ownKeys == nil {
		v.ownKeys = slices.Concat(v.opts.Keys, keysOf(v.opts.list))
		if v.opts.Dir != nil {
			beside, _ := v.opts.Dir.VKeys()
			v.ownKeys = append(v.ownKeys, beside...)
		}
	}
	_, err := proof.OpenCheckpoint(c.Note, v.ownKeys...)
	return err == nil
}

// continueWith appends the statements of a longer list, up to the start of a successor: its own key signs
// that, so anyone can make it.
func continueWith(list, longer *proof.Signers) {
	all := longer.Statements()
	for _, st := range all[len(list.Statements()):] {
		if st.Action == proof.StartOrigin {
			return
		}
		_, _ = list.Add(st.Note)
	}
}

// readSignersFile reads the copy of the list of signers in the audit directory. Without one, the list is
// empty.
func (v *verifier) readSignersFile() (*proof.Signers, error) {
	if v.opts.Dir == nil {
		return &proof.Signers{}, nil
	}
	raw, err := v.opts.Dir.Signers()
	if err != nil {
		return nil, err
	}
	return proof.ParseSigners(raw)
}

// wasReported reports whether a statement of the events is in a list that was not followed, which is
// reported already.
func (v *verifier) wasReported(st proof.Statement) bool {
	if v.opts.notFollowed == nil || v.recorded == nil {
		return false
	}
	all := v.recorded.Statements()
	return st.Number < uint64(len(all)) && all[st.Number].Hash() == st.Hash()
}
