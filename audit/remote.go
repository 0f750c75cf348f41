package audit

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"daybook/events"
	"daybook/proof"
)

// Remote is a Source behind the REST interface of a server.
type Remote struct{ get, post Get }

// CodeEmpty is the error code of a server whose ledger has no events.
const CodeEmpty = "ledger_empty"

// Error codes of a server that does not have a heap or text, or removed it.
const codeNotFound, codeGone = "not_found", "gone"

// codeOf returns the error code of a server, or an empty text for any other error.
func codeOf(err error) string {
	answer, ok := errors.AsType[interface {
		error
		Code() string
	}](err)
	if !ok {
		return ""
	}
	return answer.Code()
}

// isEmpty reports whether a server answered that its ledger has no events.
func isEmpty(err error) bool { return codeOf(err) == CodeEmpty }

// AnswerError is returned if a server does not answer or refuses a request, or if its answer is
// cut off or not that of a Daybook server. It says nothing about the ledger.
type AnswerError struct{ Err error }

// Error returns the text of Err.
func (e *AnswerError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *AnswerError) Unwrap() error { return e.Err }

// cutOff returns err as an *AnswerError, or unchanged if ctx is done: then the caller ended the
// request.
func cutOff(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return &AnswerError{err}
}

// Get requests a path such as "/api/ledger/checkpoint" from a server, with header names and values
// in pairs. It returns responses with status 200 only, and any other as an error. The error may
// have a method Code() string with the error code of the server, and is an *AnswerError if no server
// answers. An error without a code does not show that a heap or text is missing or damaged; see
// blobError. The caller MUST close the body.
type Get func(ctx context.Context, path string, header ...string) (*http.Response, error)

// NewRemote returns the server that get reaches. post is like get with the method POST and without
// a body; the Remote requests new checkpoints with it. If post is nil or the server refuses the
// request, the Remote uses the newest existing checkpoint. An answer that is too slow is no answer; see withPace.
func NewRemote(get, post Get) *Remote { return &Remote{withPace(get), withPace(post)} }

const (
	// maxAnswerBytes is the maximum length in bytes of a response held in memory: the largest blob.
	maxAnswerBytes = 1 << 30
	// maxListBytes is that of a response with a list: of lost positions, which one event records, or
	// of damage.
	maxListBytes = 16 << 20
	// maxProofBytes is that of a response with a proof.
	maxProofBytes = 1 << 20
)

// ledgerPath is the prefix of all requested paths.
const ledgerPath = "/api/ledger/"

// Signed implements Source.
func (r *Remote) Signed(ctx context.Context, covers uint64) (SourceState, error) {
	header := []string{"Accept", "application/json"}
	if covers == 0 {
		if r.post != nil {
			if resp, err := r.post(ctx, ledgerPath+"checkpoint", header...); err == nil {
				made, err := readSigned(ctx, resp)
				made.CoversAll = true
				return made, err
			}
		}
		newest, err := r.checkpoint(ctx, r.get, header)
		if err != nil || newest.Pending == 0 {
			newest.CoversAll = err == nil
			return newest, err
		}
		// The server usually signs them within a second, without a request.
		covering := strconv.FormatUint(newest.Checkpoint.Size+newest.Pending, 10)
		if next, err := r.checkpoint(ctx, r.get, append(header, "Daybook-Min-Sequence", covering)); err == nil && next.Checkpoint.Size >= newest.Checkpoint.Size+newest.Pending {
			next.CoversAll = true
			return next, nil
		}
		return newest, ctx.Err()
	}
	header = append(header, "Daybook-Min-Sequence", strconv.FormatUint(covers, 10))
	signed, err := r.checkpoint(ctx, r.get, header)
	if err == nil || r.post == nil || ctx.Err() != nil {
		return signed, err
	}
	if made, postErr := r.checkpoint(ctx, r.post, header); postErr == nil {
		return made, nil
	}
	return signed, err
}

func (r *Remote) checkpoint(ctx context.Context, ask Get, header []string) (SourceState, error) {
	resp, err := ask(ctx, ledgerPath+"checkpoint", header...)
	if err != nil {
		return SourceState{}, err
	}
	return readSigned(ctx, resp)
}

func readSigned(ctx context.Context, resp *http.Response) (SourceState, error) {
	defer resp.Body.Close()
	var answer struct {
		Note   string      `json:"note"`
		VKeys  []string    `json:"vkeys"`
		Tenant string      `json:"tenant"`
		Lost   events.Lost `json:"lost"`
		// Signers is in the form of proof.Signers.Bytes.
		Signers string `json:"signers"`
		// Removed is the last position of the removed volumes.
		Removed uint64 `json:"removed"`
		Pending struct {
			To uint64 `json:"to"`
		} `json:"pending"`
	}
	err := json.NewDecoder(io.LimitReader(resp.Body, maxListBytes)).Decode(&answer)
	if _, wrong := errors.AsType[*json.UnmarshalTypeError](err); wrong || err == nil && answer.Note == "" {
		err = errors.New("the answer is not from a Daybook server, or from one of another version")
	}
	if err != nil {
		return SourceState{}, cutOff(ctx, fmt.Errorf("read the server's checkpoint: %w", err))
	}
	c, err := proof.ParseCheckpoint([]byte(answer.Note))
	if err != nil {
		return SourceState{}, fmt.Errorf("read the server's checkpoint: %w", err)
	}
	return SourceState{Checkpoint: c, VKeys: answer.VKeys, Signers: answer.Signers, Tenant: answer.Tenant, Lost: answer.Lost, Removed: answer.Removed, Pending: max(answer.Pending.To, c.Size) - c.Size}, nil
}

// Lines implements Source.
func (r *Remote) Lines(ctx context.Context, c proof.Checkpoint, s proof.ExportSelection, after uint64, fn func(line, proof []byte) error) error {
	query := url.Values{"size": {strconv.FormatUint(c.Size, 10)}, "from": {strconv.FormatUint(s.From, 10)}, "to": {strconv.FormatUint(s.To, 10)}}
	set := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	if after > 0 {
		set("after", strconv.FormatUint(after, 10))
	}
	set("since", proof.FormatBound(s.Since))
	set("until", proof.FormatBound(s.Until))
	set("execution", s.Execution)
	set("session", s.Session)
	resp, err := r.get(ctx, ledgerPath+"export?"+query.Encode(), "Accept", "application/x-ndjson")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	in := bufio.NewReaderSize(resp.Body, 256<<10)
	var long, long2, first []byte
	for {
		line, err := nextLine(in, &long)
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		if err != nil {
			return cutOff(ctx, fmt.Errorf("the server broke off: %w", err))
		}
		if s.IsComplete(c.Size) {
			if err := fn(line, nil); err != nil {
				return err
			}
			continue
		}
		first = append(first[:0], line...)
		proof, err := nextLine(in, &long2)
		if err != nil {
			return cutOff(ctx, fmt.Errorf("the server broke off before a proof: %w", err))
		}
		if err := fn(first, proof); err != nil {
			return err
		}
	}
}

// Blob implements Source.
func (r *Remote) Blob(ctx context.Context, b Blob) ([]byte, error) {
	kind := "texts"
	if b.Heap {
		kind = "heaps"
	}
	path := ledgerPath + "blobs/" + kind + "/" + b.SHA256
	if b.Tenant != "" {
		path += "?tenant=" + url.QueryEscape(b.Tenant)
	}
	resp, err := r.get(ctx, path)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err != nil {
		return nil, cutOff(ctx, err)
	}
	return raw, nil
}

// Heap implements Blobs.
func (r *Remote) Heap(ctx context.Context, tenant, hash string) ([]byte, events.HeapInfo, error) {
	raw, err := r.checked(ctx, Blob{Tenant: tenant, Heap: true, SHA256: hash})
	return raw, events.HeapInfo{}, err
}

// Text implements Blobs.
func (r *Remote) Text(ctx context.Context, tenant, hash string) ([]byte, error) {
	return r.checked(ctx, Blob{Tenant: tenant, SHA256: hash})
}

func (r *Remote) checked(ctx context.Context, b Blob) ([]byte, error) {
	raw, err := r.Blob(ctx, b)
	switch {
	case err != nil:
		return nil, r.blobError(ctx, b, err)
	case events.Hash(raw) != b.SHA256:
		return nil, fmt.Errorf("%w: it came with other bytes", events.ErrDamaged)
	}
	return raw, nil
}

// blobError returns the error of a blob that a server did not send. If err says nothing about the
// blob, because the server is busy, shuts down or refuses the request, the error is an
// *AnswerError. For a damaged blob the server answers with the same error code as if it were busy,
// or cuts off the answer if the blob is large. Therefore blobError looks the blob up in the damage
// report of the server.
func (r *Remote) blobError(ctx context.Context, b Blob, err error) error {
	if code := codeOf(err); code == codeNotFound || code == codeGone {
		return err
	}
	if what, damaged := r.findDamage(ctx, b); damaged {
		return fmt.Errorf("%w: %s", events.ErrDamaged, what)
	}
	return cutOff(ctx, err)
}

// findDamage reports whether the damage report of the server has a blob, and describes the damage.
func (r *Remote) findDamage(ctx context.Context, b Blob) (what string, damaged bool) {
	resp, err := r.get(ctx, ledgerPath+"damage", "Accept", "application/json")
	if err != nil {
		return "", false
	}
	defer resp.Body.Close()
	var report struct {
		Findings []struct {
			Blob  *events.LostBlob `json:"blob"`
			What  string           `json:"what"`
			Ended *time.Time       `json:"ended"`
		} `json:"findings"`
	}
	if json.NewDecoder(io.LimitReader(resp.Body, maxListBytes)).Decode(&report) != nil {
		return "", false
	}
	kind := "text"
	if b.Heap {
		kind = "heap"
	}
	for _, f := range report.Findings {
		switch {
		case f.Ended != nil:
		case f.Blob == nil && strings.Contains(f.What, b.SHA256): // a text that belongs to the ledger
			return f.What, true
		case f.Blob != nil && f.Blob.Kind == kind && f.Blob.SHA256 == b.SHA256 && (b.Tenant == "" || f.Blob.Tenant == b.Tenant):
			return f.What, true
		}
	}
	return "", false
}

// consistency asks the server for a proof that the tree of size to extends the tree of size from.
func (r *Remote) consistency(ctx context.Context, from, to uint64) (proof.Consistency, error) {
	query := url.Values{"from": {strconv.FormatUint(from, 10)}, "to": {strconv.FormatUint(to, 10)}}
	resp, err := r.get(ctx, ledgerPath+"proof?"+query.Encode(), "Accept", "application/json")
	if err != nil {
		return proof.Consistency{}, err
	}
	defer resp.Body.Close()
	var answer struct {
		FromRoot string   `json:"from_root_hash"`
		Hashes   []string `json:"hashes"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxProofBytes)).Decode(&answer); err != nil {
		return proof.Consistency{}, cutOff(ctx, fmt.Errorf("read the server's proof: %w", err))
	}
	p := proof.Consistency{From: from, To: to}
	if p.FromRoot, err = proof.DecodeHash(answer.FromRoot); err != nil {
		return p, nil
	}
	for _, text := range answer.Hashes {
		h, err := proof.DecodeHash(text)
		if err != nil {
			return proof.Consistency{From: from, To: to}, nil
		}
		p.Hashes = append(p.Hashes, h)
	}
	return p, nil
}

// VerifyServer verifies a server without trusting it: its events under its checkpoint, or each
// event with a proof if the server shows those of one tenant only.
func VerifyServer(ctx context.Context, r *Remote, opts VerifyOptions) (*Report, error) {
	began := time.Now()
	if err := proof.CheckVKeys(opts.Keys); err != nil {
		return nil, err
	}
	if err := checkKnown(opts); err != nil {
		return nil, err
	}
	report, err := verifyServer(ctx, r, opts)
	if errors.Is(err, proof.ErrUnknownKey) { // verify the rest under the server's own key
		return underOwnKey(opts, began, func(opts VerifyOptions) (*Report, error) { return verifyServer(ctx, r, opts) })
	}
	return report, err
}

// TenantError is returned by VerifyServer if the server does not show the part of
// VerifyOptions.Tenant, and only that. Verify and VerifyExport return it for any tenant.
type TenantError struct{ err error }

// Error returns the message of the error.
func (e *TenantError) Error() string { return e.err.Error() }

// checkTenant compares the tenant that a server states with the one that the caller expects. Without
// it, a server could show no event at all, as the part of a tenant that has none.
func checkTenant(stated, want string) error {
	switch {
	case stated == want:
		return nil
	case stated == "":
		return &TenantError{fmt.Errorf("the server shows the events of all tenants, not only those of %q: verify all of them, without a tenant, or use a token of that tenant", want)}
	case want == "":
		return &TenantError{fmt.Errorf("the server shows only the events of tenant %q, which proves nothing about the others: verify this part with --tenant %s; no token reads all tenants, so verify the whole ledger in its data directory while the server is stopped (--data-dir)", stated, stated)}
	default:
		return &TenantError{fmt.Errorf("the server shows only the events of tenant %q, not those of %q: use a token of that tenant", stated, want)}
	}
}

// verifyServer returns proof.ErrUnknownKey if the caller gave keys and none of them signed the
// checkpoint.
func verifyServer(ctx context.Context, r *Remote, opts VerifyOptions) (*Report, error) {
	began := time.Now()
	signed, err := r.Signed(ctx, 0)
	if isEmpty(err) {
		return emptyReport(opts, began)
	}
	if err != nil {
		return nil, err
	}
	pinned := len(opts.Keys) > 0
	if !pinned {
		opts.Keys = signed.VKeys
	}
	opts.follow([]byte(signed.Signers))
	if err := opts.checkKnownSigned(); err != nil {
		return nil, err
	}
	c, err := opts.trust.Open(signed.Checkpoint.Note)
	if pinned && errors.Is(err, proof.ErrUnknownKey) {
		return nil, err
	}
	if err != nil {
		return Unreadable(opts, began, err), nil
	}
	if err := checkTenant(signed.Tenant, opts.Tenant); err != nil {
		return nil, err
	}
	if err := opts.checkOrigin(c.Origin); err != nil {
		return nil, err
	}
	// No event that the checkpoint covers can record losses that are named after it.
	lost := slices.DeleteFunc(signed.Lost, func(r events.LostRange) bool { return r.NamedAt > c.Size })
	if !lost.Valid(c.Size) {
		return Unreadable(opts, began, errors.New("the server lists lost positions that cannot be lost")), nil
	}
	if signed.Removed >= c.Size {
		return Unreadable(opts, began, fmt.Errorf("the server says that positions up to %d were removed, but its checkpoint covers %d events", signed.Removed, c.Size)), nil
	}
	s, err := proof.ExportSelection{From: signed.Removed + 1, Tenant: signed.Tenant}.Resolve(c.Size)
	if err != nil {
		return nil, err
	}
	l := newLineVerifier(opts, c, s)
	defer l.close()
	l.expectLost(lost)
	l.removedUpTo = signed.Removed
	l.report.Pinned = pinned
	err = l.run(ctx, func(emit func([]pair) error) error {
		b := batches{emit: emit}
		if err := r.Lines(ctx, c, s, 0, b.add); err != nil {
			return err
		}
		return b.flush()
	})
	if !signed.CoversAll {
		l.report.Unsigned = max(l.report.Unsigned, signed.Pending)
	}
	if err == nil && l.proven {
		err = l.checkExtends(c, func(from, to uint64) (proof.Consistency, error) { return r.consistency(ctx, from, to) })
	}
	if err == nil {
		err = l.fetchCosigned(ctx, r, c)
	}
	if err == nil {
		err = l.fetchSigners(ctx, r, c, signed.Tenant)
	}
	if err == nil && !opts.SkipBlobs {
		err = l.readBlobs(ctx, r)
	}
	if err != nil {
		return nil, fmt.Errorf("verify %s: %w", opts.Source, err)
	}
	l.finishQuorum()
	l.finishCosigned()
	return l.conclude(began)
}
