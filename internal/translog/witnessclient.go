package translog

import (
	"bytes"
	"context"
	"daybook/proof"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxAnswerBytes is the maximum length of an answer of add-checkpoint.
const maxAnswerBytes = 32 << 10

// errAhead says that a witness has cosigned a larger checkpoint of this tree than the one it is asked for.
var errAhead = errors.New("the witness knows a newer checkpoint of this ledger")

// ask asks a witness to cosign a checkpoint, and returns the verified cosignature.
func (w *witnesses) ask(ctx context.Context, wc *witnessClient, c proof.Checkpoint) (proof.Signature, time.Time, error) {
	if !wc.checked {
		if _, err := w.compareNewest(ctx, wc); err != nil {
			return proof.Signature{}, time.Time{}, err
		}
		wc.checked = true
	}
	for range 3 { // the witness may say twice that it knows another size: others may send it checkpoints, too
		old := wc.known
		if old > c.Size {
			old = 0
		}
		a, err := w.post(ctx, wc, c, old)
		if err != nil {
			return proof.Signature{}, time.Time{}, err
		}
		switch {
		case a.status == http.StatusOK:
			sig, at, err := cosignatureIn(wc.Key, c.Note, a.body)
			if err == nil {
				wc.known = c.Size
			}
			return sig, at, err
		case a.status == http.StatusConflict && a.isSize && a.size != old:
			if err := w.checkSize(ctx, wc, c, a.size); err != nil {
				return proof.Signature{}, time.Time{}, err
			}
			wc.known = a.size
		case a.status == http.StatusUnprocessableEntity || a.status == http.StatusConflict && a.isSize:
			// The tree of the witness at the old size is another one.
			if _, err := w.compareNewest(ctx, wc); err != nil {
				return proof.Signature{}, time.Time{}, err
			}
			return proof.Signature{}, time.Time{}, &WitnessConflict{Witness: wc.Name, Size: old}
		case a.status == http.StatusForbidden || a.status == http.StatusNotFound:
			return proof.Signature{}, time.Time{}, &refusedError{a.status, a.body}
		default:
			return proof.Signature{}, time.Time{}, fmt.Errorf("the witness answered %d: %.200q", a.status, a.body)
		}
	}
	return proof.Signature{}, time.Time{}, errors.New("the witness names another size each time")
}

// refusedError says that a witness does not know the origin of a checkpoint (status 404), or the key that
// signed it (403).
type refusedError struct {
	status int
	body   []byte
}

// Error says which one, and what to do.
func (e *refusedError) Error() string {
	what := "the key that signs"
	if e.status == http.StatusNotFound {
		what = "the origin"
	}
	return fmt.Sprintf("it does not know %s, and answered %d: %.200q; ask its operator to add the current key of this ledger with --log", what, e.status, e.body)
}

// checkSize compares the size that a witness claims to have cosigned with the checkpoint and the tree.
func (w *witnesses) checkSize(ctx context.Context, wc *witnessClient, c proof.Checkpoint, size uint64) error {
	if size <= c.Size {
		return nil
	}
	last, err := w.ledger.LastSeq(ctx)
	if err != nil {
		return fmt.Errorf("read the end of the ledger: %w", err)
	}
	w.l.mu.Lock()
	beyond := size > max(w.l.tree.Size(), last)
	hashed := size <= w.l.tree.Size()
	if hashed {
		w.l.clientSize = max(w.l.clientSize, size) // a checkpoint that the witness can cosign
	}
	w.l.mu.Unlock()
	if hashed {
		w.l.signal()
	}
	switch shown, err := w.compareNewest(ctx, wc); {
	case err != nil:
		return err
	case beyond && !shown:
		return &WitnessConflict{Witness: wc.Name, Size: size}
	}
	return errAhead
}

// post sends a checkpoint with a consistency proof from an old size.
func (w *witnesses) post(ctx context.Context, wc *witnessClient, c proof.Checkpoint, old uint64) (witnessAnswer, error) {
	var body bytes.Buffer
	fmt.Fprintf(&body, "old %d\n", old)
	if old > 0 && old < c.Size {
		p, err := w.l.Prover(c).Consistency(old, c.Size)
		if err != nil {
			return witnessAnswer{}, err
		}
		for _, h := range p.Hashes {
			body.WriteString(proof.EncodeHash(h) + "\n")
		}
	}
	body.WriteByte('\n')
	body.Write(c.Note)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address(wc.URL, "add-checkpoint"), &body)
	if err != nil {
		return witnessAnswer{}, err
	}
	req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	return w.do(req, maxAnswerBytes)
}

func address(prefix, path string) string { return strings.TrimSuffix(prefix, "/") + "/" + path }

// witnessAnswer is the answer of a witness. isSize is set if it names the size of a checkpoint.
type witnessAnswer struct {
	status int
	body   []byte
	isSize bool
	size   uint64
}

func (w *witnesses) do(req *http.Request, most int64) (a witnessAnswer, err error) {
	resp, err := w.client.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	a.status = resp.StatusCode
	if a.body, err = io.ReadAll(io.LimitReader(resp.Body, most+1)); err != nil {
		return a, err
	}
	if int64(len(a.body)) > most {
		return a, fmt.Errorf("the answer is longer than %d bytes", most)
	}
	if resp.Header.Get("Content-Type") == "text/x.tlog.size" {
		a.size, err = strconv.ParseUint(strings.TrimSuffix(string(a.body), "\n"), 10, 63)
		a.isSize = err == nil
	}
	return a, nil
}

// cosignatureIn returns the newest cosignature of a key in the answer of a witness, verified.
func cosignatureIn(key proof.WitnessKey, signed, answer []byte) (sig proof.Signature, at time.Time, err error) {
	n, err := proof.ParseNote(append(bytes.Clone(signed), answer...))
	if err != nil {
		return sig, at, fmt.Errorf("the answer of the witness: %w", err)
	}
	for _, s := range n.Signatures {
		when, ok, err := key.Cosigned(proof.Note{Text: n.Text, Signatures: []proof.Signature{s}})
		if err != nil {
			return sig, at, err
		}
		if ok && when.After(at) {
			sig, at = s, when
		}
	}
	switch early := time.Until(at); {
	case at.IsZero():
		return sig, at, errors.New("the answer of the witness has no cosignature of its key")
	case early > time.Minute || early < -time.Hour:
		return sig, at, fmt.Errorf("the cosignature is of %s: the clock of the witness or of this machine is wrong", at.Format(time.RFC3339))
	}
	return sig, at, nil
}
