package translog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"daybook/internal/redact"
	"daybook/proof"
)

const (
	// roundEvery is the minimum time between two rounds. In a round, all witnesses are asked to cosign
	// the same checkpoint: a quorum needs several cosignatures of one.
	roundEvery = time.Second
	// roundTime is the maximum time of a round, and of one request.
	roundTime = 10 * time.Second
	// quorumGrace is the maximum time that a round waits for further witnesses after a quorum.
	quorumGrace = 2 * time.Second
	// refreshEvery is the age after which a cosignature of the newest checkpoint is asked for again: it
	// states that there was no larger checkpoint meanwhile.
	refreshEvery = 10 * time.Minute
	// longestWitnessPause is the maximum time before a witness that fails is asked again.
	longestWitnessPause = 5 * time.Minute
	// firstAskTime is the maximum time that the first signature after a start waits for the answers of
	// the witnesses.
	firstAskTime = 4 * time.Second
	// loggedFailures is the number of failures in a row after which they are logged.
	loggedFailures = 3
)

// CheckWitnessPolicy returns an error unless path is empty or the file of a valid policy whose addresses
// are HTTP addresses.
func CheckWitnessPolicy(path string) error {
	if path == "" {
		return nil
	}
	p, _, err := readPolicy(path)
	if err != nil {
		return err
	}
	return checkAddresses(p)
}

func checkAddresses(p *proof.Policy) error {
	reachable := 0
	for _, w := range p.Witnesses {
		if w.URL == "" || !w.Key.Verifiable() {
			continue
		}
		reachable++
		if err := CheckWitness(w.URL); err != nil {
			return err
		}
	}
	if reachable == 0 {
		return errors.New("the policy has no witness with an Ed25519 key and a URL; add lines of the form: witness NAME VKEY URL")
	}
	return nil
}

// WitnessConflict says that a witness knows another history of the ledger than the tree. Then the ledger was
// set back to an earlier state, or a part of it was replaced, or the witness is wrong.
type WitnessConflict struct {
	// Witness is the name of the witness in the policy.
	Witness string
	// Size is the size of the checkpoint that the witness cosigned last.
	Size uint64
	// Checkpoint is that checkpoint if the witness showed it and a key of this ledger signed it: this is a
	// proof, and nothing more is signed or sent to any witness. Otherwise its Note is nil, and the
	// conflict is only a claim of the witness.
	Checkpoint proof.Checkpoint
}

// Error says what contradicts the tree.
func (c *WitnessConflict) Error() string {
	if c.Checkpoint.Note == nil {
		return fmt.Sprintf("the witness %s says that it cosigned a checkpoint of %d events that this ledger does not continue, and shows none", c.Witness, c.Size)
	}
	return fmt.Sprintf("the witness %s has a checkpoint of %d events, signed by a key of this ledger, that this ledger does not continue: the ledger was set back or changed, or its key is used elsewhere", c.Witness, c.Size)
}

// witnesses asks the witnesses of a policy to cosign the newest checkpoint. It never blocks the signer. A
// witness that fails is asked again after a growing pause, and delays the others by at most a round.
type witnesses struct {
	l      *Log
	policy *proof.Policy
	list   []*witnessClient
	client *http.Client
	news   chan struct{}
	// every, refresh, grace, firstAsk and roundTime are the constants above. Tests change them.
	every, refresh, grace, pause, firstAsk, roundTime time.Duration

	// The fields below are used by run only.

	ledger Ledger

	// current is the checkpoint of this round with the cosignatures so far.
	current proof.Note

	mu sync.Mutex
	// cosigned is the newest checkpoint that satisfies the policy, and at its time; see
	// proof.Policy.Check.
	cosigned proof.Checkpoint
	at       time.Time
	// tried is the size of the newest checkpoint that all witnesses that were due were asked about.
	tried    uint64
	changed  chan struct{}     // closed and replaced when cosigned or tried changes
	conflict *WitnessConflict  // the proven one
	claims   map[string]uint64 // the sizes in conflicts without a proof, by witness
	refused  map[string]string // why witnesses refuse the checkpoints of the current key, by witness
	failing  map[string]string // why other witnesses do not cosign, by witness, from loggedFailures on
}

// witnessClient is the state of one witness. A round uses it in one goroutine.
type witnessClient struct {
	proof.PolicyWitness
	// known is the size that the witness cosigned last, as far as it is known; 0 if it is not.
	known   uint64
	checked bool          // its newest checkpoint was compared with the tree
	at      time.Time     // the time of its cosignature of the current checkpoint; zero if there is none
	got     time.Time     // when it arrived, by the clock of this machine
	failed  int           // failures since the last success
	cutOff  int           // since the last success, how often a round ended without its answer after enough had cosigned
	pause   time.Duration // after the last failure
	due     time.Time     // not asked before
	claimed bool          // a conflict without a proof was reported since the last success
}

// openWitnesses returns nil without a policy.
func openWitnesses(l *Log) (*witnesses, error) {
	if l.opts.WitnessPolicy == "" {
		return nil, nil //nolint:nilnil // no policy is no error
	}
	policy, raw, err := readPolicy(l.opts.WitnessPolicy)
	if err == nil {
		err = checkAddresses(policy)
	}
	if err == nil && !policy.Follows(l.keys.vkey) && !policy.Following(l.signers).Follows(l.keys.vkey) {
		isOfLedger := func(p proof.PolicyLog) bool {
			return slices.Contains(l.counting().Keys, p.VKey) || slices.Contains(l.keys.known, p.VKey) || strings.HasPrefix(p.VKey, proof.RootKeyPrefix)
		}
		if slices.ContainsFunc(policy.Logs, isOfLedger) { // the key was replaced since
			l.log.Warn("no statement in the ledger says that the current key follows from the keys in the policy of the witnesses; unless one does, add a line for it", "line", "log "+l.keys.vkey)
		} else {
			err = fmt.Errorf("it names logs, but not the current key of this ledger: add the line: log %s", l.keys.vkey)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the policy of the witnesses: %w", err)
	}
	if err := usePolicy(l.opts.Dir, raw, !l.opts.NoSync); err != nil {
		return nil, fmt.Errorf("store the policy of the witnesses: %w", err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes, transport.DisableCompression = maxAnswerBytes, true
	w := &witnesses{
		l: l, policy: policy, news: make(chan struct{}, 1), every: roundEvery, refresh: refreshEvery, grace: quorumGrace, pause: time.Second, firstAsk: firstAskTime, roundTime: roundTime,
		claims: map[string]uint64{}, refused: map[string]string{}, failing: map[string]string{}, changed: make(chan struct{}),
		client: &http.Client{Transport: transport, Timeout: roundTime, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
	if w.cosigned, w.at, err = readCosigned(l.opts.Dir, policy.Following(l.signers), l.keys.known); err != nil {
		l.log.Warn("the stored cosigned checkpoint is not used", "err", err)
	}
	for _, p := range policy.Witnesses {
		if p.URL != "" && p.Key.Verifiable() {
			w.list = append(w.list, &witnessClient{PolicyWitness: p, known: w.cosigned.Size})
		}
	}
	return w, nil
}

// reset forgets what the witnesses cosigned under an origin that ended, and keeps its file under another
// name. run MUST NOT be active.
func (w *witnesses) reset() error {
	if err := keepCosigned(w.l.opts.Dir, !w.l.opts.NoSync); err != nil {
		return err
	}
	w.current = proof.Note{}
	for _, wc := range w.list {
		*wc = witnessClient{PolicyWitness: wc.PolicyWitness}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cosigned, w.at, w.tried, w.conflict, w.claims = proof.Checkpoint{}, time.Time{}, 0, nil, map[string]uint64{}
	w.refused, w.failing = map[string]string{}, map[string]string{}
	return nil
}

// forgetConflict forgets a proven conflict, because the tree is computed again. run MUST NOT be active.
func (w *witnesses) forgetConflict() {
	for _, wc := range w.list {
		wc.checked = false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conflict = nil
}

// wake makes run look at the newest checkpoint.
func (w *witnesses) wake() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// run asks the witnesses in rounds until ctx is done. If a conflict is proven, it ends the signing and
// returns a *breakError. It returns other damage if the first answers cannot be compared.
func (w *witnesses) run(ctx context.Context, ledger Ledger) error {
	defer w.client.CloseIdleConnections()
	w.ledger = ledger
	if err := w.askFirst(ctx); err != nil {
		return err
	}
	for ctx.Err() == nil {
		pace := time.NewTimer(w.every)
		next := w.every
		if w.proven() == nil {
			next = w.round(ctx)
		}
		if conflict := w.proven(); conflict != nil {
			pace.Stop()
			return w.l.endSigning(conflict)
		}
		timer := time.NewTimer(next)
		select {
		case <-w.news:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		select {
		case <-pace.C:
		case <-ctx.Done():
			pace.Stop()
		}
	}
	return nil
}

func (w *witnesses) proven() *WitnessConflict {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.conflict
}

// round asks all witnesses that are due to cosign the newest checkpoint, and stores it if enough have. It
// returns the time until a witness is due again without news.
func (w *witnesses) round(ctx context.Context) time.Duration {
	c, ok := w.l.Latest()
	switch {
	case !ok:
		return w.refresh
	case w.l.Size() < c.Size: // after a start, the tree is computed again
		return w.every
	}
	if err := w.take(c); err != nil {
		w.l.log.ErrorContext(ctx, "the newest checkpoint cannot be sent to the witnesses", "err", err)
		return w.refresh
	}
	asking, stop := context.WithTimeout(ctx, w.roundTime)
	defer stop()
	type answer struct {
		from *witnessClient
		sig  proof.Signature
		at   time.Time
		err  error
	}
	answers := make(chan answer)
	asked := 0
	for _, wc := range w.list {
		if !wc.isDue(time.Now(), w.refresh) {
			continue
		}
		asked++
		go func() {
			sig, at, err := w.ask(asking, wc, c)
			answers <- answer{wc, sig, at, err}
		}()
	}
	late := time.AfterFunc(w.roundTime, stop)
	defer late.Stop()
	enough := false
	for range asked {
		a := <-answers
		switch {
		case a.err == nil:
			w.succeeded(a.from)
			a.from.at, a.from.got = a.at, time.Now()
			w.add(a.sig)
		case ctx.Err() == nil && (!enough || asking.Err() == nil):
			w.failed(ctx, a.from, a.err)
		case ctx.Err() == nil: // it was cut off
			if a.from.cutOff++; a.from.cutOff == loggedFailures {
				w.noteFailure(a.from, fmt.Sprintf("it does not answer within %s after enough others have cosigned", w.grace))
			}
		}
		if _, err := w.check(w.current.Encode()); err == nil && !enough {
			enough = true
			late.Reset(w.grace)
		}
	}
	if asked > 0 {
		w.store(ctx)
	}
	w.mu.Lock()
	w.tried = max(w.tried, c.Size)
	close(w.changed)
	w.changed = make(chan struct{})
	w.mu.Unlock()
	next := w.refresh
	for _, wc := range w.list {
		next = min(next, max(0, wc.nextDue(w.refresh)))
	}
	return next
}

// take makes a checkpoint the current one.
func (w *witnesses) take(c proof.Checkpoint) error {
	n, err := proof.ParseNote(c.Note)
	if err != nil || n.Text == w.current.Text {
		return err
	}
	w.current = n
	for _, wc := range w.list {
		wc.at = time.Time{}
	}
	return nil
}

// add adds a cosignature to the current checkpoint, in place of an older one of the same key.
func (w *witnesses) add(sig proof.Signature) {
	var kept []proof.Signature
	for _, s := range w.current.Signatures {
		if s.Name != sig.Name || s.ID != sig.ID {
			kept = append(kept, s)
		}
	}
	w.current.Signatures = append(kept, sig)
}

// check is proof.Policy.Check with the statements in the ledger.
func (w *witnesses) check(signed []byte) (time.Time, error) {
	return w.policy.Following(w.l.Signers()).Check(signed)
}

// store stores the current checkpoint if it satisfies the policy.
func (w *witnesses) store(ctx context.Context) {
	signed := w.current.Encode()
	at, err := w.check(signed)
	if err != nil {
		if !errors.Is(err, proof.ErrNoQuorum) {
			w.l.log.WarnContext(ctx, "the cosigned checkpoint does not satisfy the policy", "err", err)
		}
		return
	}
	for _, wc := range w.list { // for the quorum "none"
		if !w.policy.RequiresWitnesses() && wc.at.After(at) {
			at = wc.at
		}
	}
	c, err := proof.ParseCheckpoint(signed)
	w.mu.Lock()
	same := bytes.Equal(signed, w.cosigned.Note)
	w.mu.Unlock()
	if err != nil || same || at.IsZero() {
		return
	}
	if err := w.l.storeCosigned(signed); err != nil {
		w.l.log.WarnContext(ctx, "the cosigned checkpoint could not be stored", "err", err)
		return
	}
	w.mu.Lock()
	w.cosigned, w.at = c, at
	w.mu.Unlock()
}

// isDue reports whether a witness must be asked about the current checkpoint now.
func (wc *witnessClient) isDue(now time.Time, refresh time.Duration) bool {
	return !now.Before(wc.due) && (wc.at.IsZero() || now.Sub(wc.got) >= refresh)
}

// nextDue returns the time until the witness is due.
func (wc *witnessClient) nextDue(refresh time.Duration) time.Duration {
	wait := time.Until(wc.due)
	if !wc.at.IsZero() {
		wait = max(wait, time.Until(wc.got.Add(refresh)))
	}
	return wait
}

func (w *witnesses) succeeded(wc *witnessClient) {
	if wc.failed >= loggedFailures {
		w.l.log.Info("the witness cosigns checkpoints again", "witness", wc.Name)
	}
	wc.failed, wc.cutOff, wc.pause, wc.due, wc.claimed = 0, 0, 0, time.Time{}, false
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.claims, wc.Name)
	delete(w.refused, wc.Name)
	delete(w.failing, wc.Name)
}

// noteFailure lets WitnessFailures return why a witness does not cosign.
func (w *witnesses) noteFailure(wc *witnessClient, reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.refused, wc.Name)
	w.failing[wc.Name] = reason
}

// reasonOf returns the text of the error of a request, without the address: its path may be secret.
func reasonOf(err error) string {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return fmt.Sprintf("it does not answer within %s", roundTime)
	}
	if of, ok := errors.AsType[*url.Error](err); ok {
		err = of.Err
	}
	return err.Error()
}

// failed sets the pause of a witness, and reports the error: a conflict immediately, other errors when
// they have repeated.
func (w *witnesses) failed(ctx context.Context, wc *witnessClient, err error) {
	if errors.Is(err, errAhead) { // it needs a newer checkpoint, which is requested
		return
	}
	wc.failed++
	wc.pause = min(max(2*wc.pause, w.pause), longestWitnessPause)
	wc.due = time.Now().Add(wc.pause + rand.N(wc.pause/4+1))
	conflict, ok := errors.AsType[*WitnessConflict](err)
	if refusal, refused := errors.AsType[*refusedError](err); refused {
		w.mu.Lock()
		w.refused[wc.Name] = refusal.Error()
		delete(w.failing, wc.Name)
		w.mu.Unlock()
	} else if !ok && wc.failed >= loggedFailures {
		w.noteFailure(wc, reasonOf(err))
	}
	switch {
	case ok && conflict.Checkpoint.Note != nil:
		w.prove(ctx, conflict)
	case ok:
		w.mu.Lock()
		w.claims[wc.Name] = conflict.Size
		w.mu.Unlock()
		if !wc.claimed {
			wc.claimed = true
			w.report(ctx, conflict)
		}
	case wc.failed == loggedFailures && !ok:
		w.warn(ctx, "the witness does not cosign checkpoints", wc, err)
	}
}

func (w *witnesses) warn(ctx context.Context, what string, wc *witnessClient, err error) {
	if of, ok := errors.AsType[*url.Error](err); ok { // its text has the whole address
		err = of.Err
	}
	w.l.log.WarnContext(ctx, what, "witness", wc.Name, "url", redact.Address(wc.URL), "err", err)
}

func (w *witnesses) report(ctx context.Context, conflict *WitnessConflict) {
	w.l.log.ErrorContext(ctx, "a witness knows another history of the ledger", "err", conflict, "checkpoint", string(conflict.Checkpoint.Note))
	if w.l.opts.OnWitnessConflict != nil {
		w.l.opts.OnWitnessConflict(conflict)
	}
}
