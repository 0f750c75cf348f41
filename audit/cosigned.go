package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"daybook/events"
	"daybook/proof"
)

// Cosigned describes the newest checkpoint that satisfies VerifyOptions.Policy.
type Cosigned struct {
	// Size is the number of events that it covers, or 0 if there is none.
	Size uint64 `json:"size"`
	// Time is that of proof.Policy.Check: enough witnesses knew no larger checkpoint then. It is nil
	// if there is no such checkpoint, or the policy requires no witness.
	Time *time.Time `json:"time,omitempty"`
	// Checkpoint is the signed note with the cosignatures.
	Checkpoint string `json:"checkpoint,omitempty"`
	// Reason is why there is none.
	Reason string `json:"reason,omitempty"`
}

// cosignedState is the checkpoint that came with the data and may satisfy the policy.
type cosignedState struct {
	c proof.Checkpoint
	// agrees is true if the tree confirms it. err is why it could not be read.
	agrees bool
	err    error
}

// expectCosigned sets the note that may satisfy the policy. A verifier that computes the tree compares it
// like the other checkpoints of the ledger.
func (v *verifier) expectCosigned(note []byte, err error) {
	if v.opts.Policy == nil {
		return
	}
	v.cosigned.c, v.cosigned.err = proof.Checkpoint{}, err
	switch {
	case errors.Is(err, fs.ErrNotExist) || codeOf(err) == codeNotFound:
		v.cosigned.err = nil // there is none
	case err == nil:
		v.cosigned.c, v.cosigned.err = proof.ParseCheckpoint(note)
	}
}

// agreed notes that the tree confirms a checkpoint.
func (s *cosignedState) agreed(c proof.Checkpoint) {
	s.agrees = s.agrees || s.c.Note != nil && bytes.Equal(s.c.Note, c.Note)
}

// fetchCosigned asks a server for the cosigned checkpoint, and compares it with the verified checkpoint c.
func (v *verifier) fetchCosigned(ctx context.Context, r *Remote, c proof.Checkpoint) error {
	if v.opts.Policy == nil {
		return nil
	}
	v.expectCosigned(r.cosigned(ctx, c.Size))
	found := v.cosigned.c
	if found.Note == nil || v.checkCosigned() != nil { // it proves nothing
		return ctx.Err()
	}
	agrees, err := v.agreesWith(ctx, r, found, c, "the cosigned checkpoint")
	v.cosigned.agrees = agrees
	return err
}

// policy returns VerifyOptions.Policy, whose logs are those of the list of signers too. It is nil without one.
func (v *verifier) policy() *proof.Policy {
	if v.opts.Policy == nil {
		return nil
	}
	return v.opts.Policy.Following(v.opts.list)
}

// checkCosigned returns an error unless a trusted key signed the cosigned checkpoint, and it satisfies the
// policy.
func (v *verifier) checkCosigned() error {
	c, err := v.opts.trust.Open(v.cosigned.c.Note)
	if err != nil {
		return err
	}
	if v.opts.trust.Superseded(c) {
		return fmt.Errorf("the checkpoint of %d events is of %s, which ended before", c.Size, c.Origin)
	}
	_, err = v.policy().Check(c.Note)
	return err
}

// finishCosigned reports the newest checkpoint that satisfies the policy, and compares its time with
// VerifyOptions.MaxAge.
func (v *verifier) finishCosigned() {
	r, policy := v.report, v.policy()
	if policy == nil {
		return
	}
	if !policy.RequiresWitnesses() && r.Checkpoint != "" && v.cosigned.c.Size < r.Signed { // any checkpoint satisfies it
		v.expectCosigned([]byte(r.Checkpoint), nil)
		v.cosigned.agrees = true
	}
	r.Cosigned = &Cosigned{}
	var at time.Time
	err := v.cosigned.err
	switch {
	case err != nil:
	case v.cosigned.c.Note == nil:
		err = errors.New("there is no cosigned checkpoint")
	default:
		err = v.checkCosigned()
	}
	if err == nil && !v.cosigned.agrees {
		err = fmt.Errorf("the cosigned checkpoint of %d events was not confirmed", v.cosigned.c.Size)
	}
	if err == nil {
		at, err = policy.Check(v.cosigned.c.Note)
	}
	if err != nil {
		r.Cosigned.Reason = err.Error()
	} else {
		r.Cosigned.Size, r.Cosigned.Checkpoint = v.cosigned.c.Size, string(v.cosigned.c.Note)
	}
	if !at.IsZero() {
		r.Cosigned.Time = &at
	}
	if v.opts.MaxAge > 0 && policy.RequiresWitnesses() {
		r.TooOld = at.IsZero() || v.opts.isTooOld(&at)
	}
}

// lacksWitnesses reports whether a policy was given, and no checkpoint that satisfies it covers the events.
func (r *Report) lacksWitnesses() bool {
	return r.Cosigned != nil && (r.Cosigned.Checkpoint == "" || r.Cosigned.Size < r.Last)
}

// upTo returns the number of events that are proven.
func (r *Report) upTo() uint64 {
	n := r.Signed
	if r.Quorum != nil {
		n = min(n, r.Quorum.Size)
	}
	if r.Cosigned != nil {
		n = min(n, r.Cosigned.Size)
	}
	return n
}

// line returns the description of a report.
func (c *Cosigned) line() string {
	switch {
	case c.Checkpoint == "":
		return "nothing: " + c.Reason
	case c.Time == nil:
		return fmt.Sprintf("%d events; the policy requires no witness", c.Size)
	default:
		return fmt.Sprintf("%d events; enough witnesses knew no larger checkpoint at %s", c.Size, events.FormatTime(*c.Time))
	}
}

// The cosignatures of a new checkpoint usually arrive within a second or two.
const (
	cosignedWait = 5 * time.Second
	cosignedPoll = 250 * time.Millisecond
)

// cosigned returns the newest cosigned checkpoint of the server, unverified. If there is one, and it covers
// fewer events than asked for, cosigned waits a few seconds for the next one.
func (r *Remote) cosigned(ctx context.Context, covers uint64) ([]byte, error) {
	late := time.NewTimer(cosignedWait)
	defer late.Stop()
	for {
		note, err := r.readCosigned(ctx)
		if err != nil {
			return nil, err
		}
		c, err := proof.ParseCheckpoint(note)
		if err != nil || c.Size >= covers {
			return note, err
		}
		poll := time.NewTimer(cosignedPoll)
		select {
		case <-poll.C:
		case <-late.C:
			poll.Stop()
			return note, nil
		case <-ctx.Done():
			poll.Stop()
			return nil, ctx.Err()
		}
	}
}

func (r *Remote) readCosigned(ctx context.Context) ([]byte, error) {
	resp, err := r.get(ctx, ledgerPath+"checkpoint/cosigned", "Accept", "text/plain")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	note, err := io.ReadAll(io.LimitReader(resp.Body, proof.MaxNoteBytes+1))
	if err == nil && len(note) > proof.MaxNoteBytes {
		err = fmt.Errorf("the cosigned checkpoint of the server is longer than %d bytes", proof.MaxNoteBytes)
	}
	return note, err
}

// cosigned returns the newest cosigned checkpoint of the ledger, unverified.
func (l Local) cosigned(context.Context, uint64) ([]byte, error) {
	if l.Cosigned == nil {
		return nil, errors.New("the ledger has no witnesses")
	}
	return l.Cosigned()
}

// withCosignatures returns the checkpoint c with the cosignatures of witnesses, if the source has a
// cosigned checkpoint with the same text. Otherwise it returns c.
func withCosignatures(ctx context.Context, src Source, c proof.Checkpoint, keys []string) proof.Checkpoint {
	from, ok := src.(interface {
		cosigned(ctx context.Context, covers uint64) ([]byte, error)
	})
	if !ok {
		return c
	}
	note, err := from.cosigned(ctx, c.Size)
	if err != nil {
		return c
	}
	found, err := proof.OpenCheckpoint(note, keys...)
	if err != nil || found.Origin != c.Origin || found.Size != c.Size || found.Root != c.Root {
		return c
	}
	return found
}
