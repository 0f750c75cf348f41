package httpapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"daybook/audit"
	"daybook/events"
	"daybook/internal/resources/budget"
	"daybook/internal/resources/reads"
	"daybook/internal/web/access"
	"daybook/ledger"
	"daybook/proof"
)

// Path of checkpoints, and media types of proofs and blobs.
const (
	checkpointPath = "/api/ledger/checkpoint"
	typeText       = "text/plain"
	typeBytes      = "application/octet-stream"
)

func (a *api) proofRoutes(r *router) {
	signed := checkpointAnswers(r)
	signed["200"].Headers = map[string]*huma.Param{sequenceHeader: {
		Description: "Number of events that the checkpoint covers. Send it as Daybook-Min-Sequence to read this checkpoint or a newer one from any server.",
		Schema:      &huma.Schema{Type: huma.TypeInteger, Format: "int64"},
	}}
	register(r, huma.Operation{
		OperationID: "get-checkpoint", Method: http.MethodGet, Path: checkpointPath, Tags: []string{tagLedger},
		Summary: "Get the newest signed checkpoint",
		Description: "A signed note (C2SP tlog-checkpoint) with the number of events and their Merkle tree hash; with Accept: application/json an object. " +
			"Daybook-Min-Sequence waits for a checkpoint that covers that position. The request causes no signature: a checkpoint is signed at most every second, after an event other than a checkpoint was recorded. " +
			"The tiles of the tree are under /api/ledger/tile/ (C2SP tlog-tiles).",
		Responses: checkpointAnswers(r),
	}, []int{http.StatusBadRequest, http.StatusNotFound}, a.checkpoint)
	register(r, huma.Operation{
		OperationID: "get-cosigned-checkpoint", Method: http.MethodGet, Path: checkpointPath + "/cosigned", Tags: []string{tagLedger},
		Summary: "Get the newest checkpoint that enough witnesses cosigned",
		Description: "A signed note like that of /api/ledger/checkpoint, with the cosignatures of the witnesses (C2SP tlog-cosignature). It satisfies the policy of the server and is often older than the newest checkpoint. " +
			"404 if the server has no witnesses, or too few have cosigned yet.",
		Responses: checkpointAnswers(r),
	}, []int{http.StatusNotFound}, a.cosignedCheckpoint)
	register(r, huma.Operation{
		OperationID: "sign-checkpoint", Method: http.MethodPost, Path: checkpointPath, Tags: []string{tagLedger},
		Summary: "Sign a checkpoint of all recorded events",
		Description: "The response is that of GET. The checkpoint covers all recorded events, except checkpoints at the end, and the position of Daybook-Min-Sequence in any case. " +
			"A new checkpoint is signed only if the newest one does not cover these, at most four per second for all callers together; other callers wait for the next one. Requires the scope sign, which admin includes.",
		Metadata:      map[string]any{scopeKey: access.Sign},
		DefaultStatus: http.StatusOK,
		Responses:     signed,
	}, []int{http.StatusNotFound}, a.signCheckpoint)
	register(r, markHeavy(huma.Operation{
		OperationID: "get-proof", Method: http.MethodGet, Path: "/api/ledger/proof", Tags: []string{tagLedger},
		Summary: "Get an inclusion proof of an event, or a consistency proof",
		Description: "With seq: an inclusion proof of the event at that position. With from and to: a consistency proof between the trees of the first from and the first to events. " +
			"Hashes are those of RFC 6962, in base64. The proof is for the tree of the newest checkpoint; the request waits for a checkpoint that is due. If a checkpoint covers only a part of the requested positions, pending has the others and the proof ends at the newest checkpoint. " +
			"The proof is empty if the checkpoint does not cover seq or from. POST /api/ledger/checkpoint signs a checkpoint that covers them.",
	}), []int{http.StatusBadRequest, http.StatusNotFound}, a.proof)
	register(r, markHeavy(huma.Operation{
		OperationID: "export-events", Method: http.MethodGet, Path: "/api/ledger/export", Tags: []string{tagLedger},
		Summary: "Export events with their proofs",
		Description: "One JSON object per line: a CloudEvent with the headers and the exact payload that its leaf is computed from. Unless the selection is all that the checkpoint covers, " +
			"a line with the inclusion proof follows each event. The command daybook events export writes a directory from it that can be verified without the server.",
		Responses: map[string]*huma.Response{"200": {Description: "Events and proofs.", Content: map[string]*huma.MediaType{typeNDJSON: mediaOf[exportLine](r)}}},
	}), []int{http.StatusBadRequest, http.StatusNotFound}, a.exportEvents)
	register(r, markHeavy(huma.Operation{
		OperationID: "get-blob", Method: http.MethodGet, Path: "/api/ledger/blobs/{kind}/{hash}", Tags: []string{tagLedger},
		Summary:     "Get a heap or a text that an event names",
		Description: "The server compares the content with its hash while it sends it, and sends the last bytes only if they match: a client that receives Content-Length bytes has the intact content.",
		Responses: map[string]*huma.Response{"200": {
			Description: "The content.",
			Content:     map[string]*huma.MediaType{typeBytes: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}},
		}},
	}), []int{http.StatusBadRequest, http.StatusNotFound}, a.blob)
}

// checkpointAnswers documents the two forms of a checkpoint in responses.
func checkpointAnswers(r *router) map[string]*huma.Response {
	return map[string]*huma.Response{"200": {
		Description: "The checkpoint.",
		Content:     map[string]*huma.MediaType{typeText: {Schema: &huma.Schema{Type: huma.TypeString}}, "application/json": mediaOf[checkpoint](r)},
	}}
}

// pending is a range of recorded events that no checkpoint covers yet.
type pending struct {
	From       uint64   `json:"from" doc:"First position."`
	To         uint64   `json:"to" doc:"Last position."`
	LeafHashes []string `json:"leaf_hashes,omitempty" doc:"Leaf hashes of the first positions, at most 256, in order, in base64; in proofs only. The next checkpoint must cover them."`
}

// maxPendingLeaves bounds the leaf hashes in a response.
const maxPendingLeaves = 256

// checkpoint is a signed checkpoint as a JSON object.
type checkpoint struct {
	Origin   string      `json:"origin" doc:"Name of the ledger that the checkpoint is signed under."`
	Size     uint64      `json:"size" doc:"Number of events that the checkpoint covers: positions 1 to size."`
	RootHash string      `json:"root_hash" doc:"RFC 6962 tree hash of their leaves, in base64."`
	Note     string      `json:"note" doc:"The signed note."`
	VKeys    []string    `json:"vkeys" doc:"Verification keys of the ledger, the newest last. Verifiers should get the key from a trusted source instead."`
	Signers  string      `json:"signers,omitempty" doc:"Signed statements about the signers that a verifier needs for this checkpoint, each followed by an empty line; absent if the first key is the only one."`
	Removed  uint64      `json:"removed,omitempty" doc:"Last position of the removed volumes; absent if there are none."`
	Lost     events.Lost `json:"lost,omitempty" doc:"Positions that an event records as lost; absent if there are none."`
	Pending  *pending    `json:"pending,omitempty" doc:"Positions after those that the checkpoint covers; absent if only checkpoints follow."`
	Tenant   string      `json:"tenant,omitempty" doc:"The only tenant whose events the caller may see; absent if the caller may see all events."`
}

// checkProofs returns an error if the server has no proofs of its ledger.
func (a *api) checkProofs() error {
	if a.audit == nil {
		return absent("this server keeps no proofs of its ledger")
	}
	return nil
}

// newestCheckpoint returns the newest checkpoint. It causes no signature. covers is a
// position: if a checkpoint that includes it is due, newestCheckpoint waits for that
// checkpoint, up to positionTimeout. The returned checkpoint may not include the position.
func (a *api) newestCheckpoint(ctx context.Context, covers uint64) (proof.Checkpoint, error) {
	if err := a.checkProofs(); err != nil {
		return proof.Checkpoint{}, err
	}
	if covers == 0 {
		if c, ok := a.proofs.Latest(); ok && a.proofs.Damage() == nil {
			return c, nil
		}
		if _, err := a.newestPosition(ctx); err != nil {
			return proof.Checkpoint{}, err
		}
		if a.isUnsignable() {
			return proof.Checkpoint{}, errNoCheckpoint
		}
	}
	waiting, stop := context.WithTimeout(ctx, positionTimeout)
	defer stop()
	var c proof.Checkpoint
	err := reads.Wait(ctx, func() (err error) {
		c, err = a.proofs.Newest(waiting, covers)
		return err
	})
	if err != nil && a.isUnsignable() {
		return c, errNoCheckpoint
	}
	if err != nil && !errors.Is(err, events.ErrDamaged) && ctx.Err() == nil {
		return c, unavailable("there is no checkpoint of the ledger yet: %v; try again in a second", err)
	}
	return c, err
}

// errNoCheckpoint is returned for a damaged ledger that has no checkpoint. The answer has the damage.
var errNoCheckpoint = fmt.Errorf("%w: there is no checkpoint", events.ErrDamaged)

// isUnsignable reports whether there is no checkpoint, and none comes, because the ledger is damaged: for
// example, because the directory of the proofs is missing.
func (a *api) isUnsignable() bool {
	_, ok := a.proofs.Latest()
	return !ok && a.damage != nil && a.damage.Err() != nil
}

// newestPosition returns the position of the newest event. If the ledger is empty, it returns a
// failure with status 404 and the code audit.CodeEmpty.
func (a *api) newestPosition(ctx context.Context) (uint64, error) {
	edge, err := a.events.LastSeq(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the end of the ledger: %w", err)
	}
	if edge == 0 {
		return 0, fail(http.StatusNotFound, audit.CodeEmpty, "", "the ledger has no events yet, so there is no checkpoint; run a script first")
	}
	return edge, nil
}

type checkpointInput struct {
	Reading
	Fresh bool `query:"fresh" doc:"Refused: POST to the same path signs a checkpoint of all recorded events." deprecated:"true"`
}

func (a *api) checkpoint(ctx context.Context, in *checkpointInput) (*streamed, error) {
	if in.Fresh {
		return nil, invalid("fresh", "reading signs nothing: POST %s signs a checkpoint of everything recorded so far, with the scope sign; without fresh the newest one is answered", checkpointPath)
	}
	c, err := a.newestCheckpoint(ctx, in.MinSequence)
	if err != nil {
		return nil, err
	}
	if c.Size < in.MinSequence {
		if edge, err := a.newestPosition(ctx); err == nil && in.MinSequence > edge {
			return nil, invalid("Daybook-Min-Sequence", "position %d is after the end of the ledger at %d; send a lower position", in.MinSequence, edge)
		}
		return nil, unavailable("no checkpoint covers position %d yet, the newest covers %d; try again in a second, or sign one with POST %s and the scope sign", in.MinSequence, c.Size, checkpointPath)
	}
	return a.showCheckpoint(ctx, c)
}

// cosignedCheckpoint responds with the newest checkpoint that enough witnesses cosigned.
func (a *api) cosignedCheckpoint(ctx context.Context, _ *struct{}) (*streamed, error) {
	if err := a.checkProofs(); err != nil {
		return nil, err
	}
	if !a.proofs.HasWitnesses() {
		return nil, fail(http.StatusNotFound, "not_found", "", "this server has no witnesses; start it with --witness-policy")
	}
	c, _, ok := a.proofs.Cosigned()
	if !ok {
		return nil, fail(http.StatusNotFound, "not_found", "", "too few witnesses have cosigned a checkpoint yet; try again later")
	}
	return a.showCheckpoint(ctx, c)
}

type signInput struct {
	MinSequence uint64 `header:"Daybook-Min-Sequence" doc:"Position that the checkpoint must cover. It must be recorded."`
}

// signCheckpoint responds with a checkpoint of all recorded events.
func (a *api) signCheckpoint(ctx context.Context, in *signInput) (*streamed, error) {
	if err := a.checkProofs(); err != nil {
		return nil, err
	}
	edge, err := a.newestPosition(ctx)
	if err != nil {
		return nil, err
	}
	if in.MinSequence > edge {
		return nil, fail(http.StatusNotFound, "not_found", "", "position %d is not recorded: the ledger ends at %d", in.MinSequence, edge)
	}
	waiting, stop := context.WithTimeout(ctx, positionTimeout)
	defer stop()
	c, err := a.proofs.Fresh(waiting, edge)
	if err != nil && !errors.Is(err, events.ErrDamaged) && ctx.Err() == nil {
		err = unavailable("sign a checkpoint: %v; try again in a second", err)
	}
	if err != nil {
		return nil, err
	}
	out, err := a.showCheckpoint(ctx, c)
	if err != nil {
		return nil, err
	}
	return &streamed{Body: func(hc huma.Context) {
		hc.SetHeader(sequenceHeader, strconv.FormatUint(c.Size, 10))
		out.Body(hc)
	}}, nil
}

func (a *api) showCheckpoint(ctx context.Context, c proof.Checkpoint) (*streamed, error) {
	if !wantsJSON(requestOf(ctx).header.Values("Accept")) {
		return stream(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", typeText+"; charset=utf-8")
			w.Header().Set("Cache-Control", "no-cache")
			_, _ = w.Write(c.Note)
		}), nil
	}
	edge, err := a.newestPosition(ctx)
	if err != nil {
		return nil, err
	}
	body := checkpoint{
		Origin: c.Origin, Size: c.Size, RootHash: base64.StdEncoding.EncodeToString(c.Root[:]), Note: string(c.Note),
		VKeys: a.proofs.VKeys(), Signers: string(a.proofs.Signers().Under(c)), Lost: a.proofs.Lost(), Removed: a.removal().UpTo(), Tenant: a.visibleTenant(ctx),
	}
	waiting, stop := context.WithTimeout(ctx, positionTimeout)
	defer stop()
	if !a.proofs.Covers(waiting, c, edge) {
		body.Pending = &pending{From: c.Size + 1, To: edge}
	}
	return stream(func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, body) }), nil
}

// wantsJSON reports whether an Accept header names JSON. Tools that read signed notes
// send no header, or */*.
func wantsJSON(accept []string) bool {
	for part := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		if name, _, err := mime.ParseMediaType(part); err == nil && name == "application/json" {
			return true
		}
	}
	return false
}

// visibleTenant returns the only tenant whose events the caller may see. The result is empty
// if the server has no authentication: then every caller may see all events.
func (a *api) visibleTenant(ctx context.Context) string {
	if a.gate.auth == nil {
		return ""
	}
	return requestOf(ctx).tenant
}

type proofInput struct {
	Reading
	Seq  optional[uint64] `query:"seq" doc:"Position of the event to prove."`
	Size optional[uint64] `query:"size" doc:"Size of the tree that the event is proven to be in; default: that of the newest checkpoint."`
	From optional[uint64] `query:"from" doc:"Size of the older tree."`
	To   optional[uint64] `query:"to" doc:"Size of the newer tree; default: that of the newest checkpoint."`
}

// Proof is an inclusion or a consistency proof.
type Proof struct {
	Kind   string `json:"kind" enum:"inclusion,consistency" doc:"Kind of the proof."`
	Origin string `json:"origin" doc:"Name of the ledger."`
	// The members of an inclusion proof, then those of a consistency proof.
	Sequence  *uint64 `json:"sequence,omitempty" doc:"Inclusion: position of the event."`
	LeafIndex *uint64 `json:"leaf_index,omitempty" doc:"Inclusion: index of its leaf, the position minus one."`
	LeafHash  string  `json:"leaf_hash,omitempty" doc:"Inclusion: hash of its leaf."`
	FromSize  *uint64 `json:"from_size,omitempty" doc:"Consistency: size of the older tree."`
	FromRoot  string  `json:"from_root_hash,omitempty" doc:"Consistency: its hash."`
	// Size and RootHash are those of the tree that the proof is for.
	Size       uint64   `json:"size" doc:"Size of the tree; for consistency, of the newer one."`
	RootHash   string   `json:"root_hash" doc:"Its hash."`
	Hashes     []string `json:"hashes" doc:"The proof: RFC 6962 path, in base64. Empty if seq or from is pending."`
	Checkpoint string   `json:"checkpoint,omitempty" doc:"The newest checkpoint as a signed note, if it has this size."`
	Pending    *pending `json:"pending,omitempty" doc:"Requested positions after the newest checkpoint, where the proof ends; absent if the proof is complete."`
}

func (a *api) proof(ctx context.Context, in *proofInput) (*struct{ Body Proof }, error) {
	switch {
	case in.Seq.Set == (in.From.Set || in.To.Set):
		return nil, invalid("seq", "give seq for an inclusion proof, or from and to for a consistency proof")
	case in.To.Set && !in.From.Set:
		return nil, invalid("from", "give from, the size of the older tree, with to")
	case in.From.Set && in.Size.Set:
		return nil, invalid("size", "size belongs to seq; give to with from")
	case in.Seq.Set && in.Seq.Value == 0, in.From.Set && in.From.Value == 0:
		return nil, invalid("", "positions and sizes start at 1")
	case in.Size.Set && in.Size.Value < in.Seq.Value:
		return nil, invalid("size", "event %d is not among the first %d", in.Seq.Value, in.Size.Value)
	case in.To.Set && in.To.Value < in.From.Value:
		return nil, invalid("to", "to is %d: it must not be below from, which is %d", in.To.Value, in.From.Value)
	}
	need := max(in.MinSequence, in.Seq.Value, in.Size.Value, in.From.Value, in.To.Value)
	edge, err := a.events.LastSeq(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the end of the ledger: %w", err)
	}
	if need > edge {
		return nil, fail(http.StatusNotFound, "not_found", "", "position %d is not recorded: the ledger ends at %d", need, edge)
	}
	c, err := a.newestCheckpoint(ctx, need)
	if err != nil {
		return nil, err
	}
	out := &struct{ Body Proof }{Body: Proof{Origin: c.Origin}}
	if need > c.Size {
		if out.Body.Pending, err = a.pending(c.Size+1, need); err != nil {
			return nil, err
		}
	}
	if max(in.Seq.Value, in.From.Value) > c.Size {
		leaf, err := a.proofs.Leaves(in.Seq.Value, in.Seq.Value)
		if err != nil {
			return nil, err
		}
		out.Body.fillPending(c, in, leaf)
		return out, nil
	}
	if err := out.Body.fill(a.proofs.Prover(c), c, in); err != nil {
		return nil, err
	}
	return out, nil
}

// pending returns a range of positions with the hashes of its first leaves.
func (a *api) pending(from, to uint64) (*pending, error) {
	p := &pending{From: from, To: to}
	leaves, err := a.proofs.Leaves(from, min(to, from+maxPendingLeaves-1))
	for _, leaf := range leaves {
		p.LeafHashes = append(p.LeafHashes, encodeHash(leaf))
	}
	return p, err
}

func encodeHash(h proof.Hash) string { return base64.StdEncoding.EncodeToString(h[:]) }

// fillPending sets p for a position or an older tree that no checkpoint covers yet: the
// proof is empty. leaf is the leaf hash of the event, or empty if the event is not
// hashed yet.
func (p *Proof) fillPending(c proof.Checkpoint, in *proofInput, leaf []proof.Hash) {
	p.Size, p.RootHash, p.Hashes, p.Checkpoint = c.Size, encodeHash(c.Root), []string{}, string(c.Note)
	if !in.Seq.Set {
		p.Kind, p.FromSize = "consistency", &in.From.Value
		return
	}
	index := in.Seq.Value - 1
	p.Kind, p.Sequence, p.LeafIndex = "inclusion", &in.Seq.Value, &index
	if len(leaf) > 0 {
		p.LeafHash = encodeHash(leaf[0])
	}
}

func (p *Proof) fill(prover proof.Prover, c proof.Checkpoint, in *proofInput) error {
	encode := encodeHash
	var hashes []proof.Hash
	if in.Seq.Set {
		proof, err := prover.Inclusion(in.Seq.Value, min(in.Size.or(c.Size), c.Size))
		if err != nil {
			return err
		}
		index := proof.Seq - 1
		p.Kind, p.Sequence, p.LeafIndex, p.LeafHash = "inclusion", &proof.Seq, &index, encode(proof.Leaf)
		p.Size, p.RootHash, hashes = proof.Size, encode(proof.Root), proof.Hashes
	} else {
		proof, err := prover.Consistency(in.From.Value, min(in.To.or(c.Size), c.Size))
		if err != nil {
			return err
		}
		p.Kind, p.FromSize, p.FromRoot = "consistency", &proof.From, encode(proof.FromRoot)
		p.Size, p.RootHash, hashes = proof.To, encode(proof.ToRoot), proof.Hashes
	}
	p.Hashes = make([]string, len(hashes))
	for i, h := range hashes {
		p.Hashes[i] = encode(h)
	}
	if p.Size == c.Size {
		p.Checkpoint = string(c.Note)
	}
	return nil
}

// exportPiece is the number of bytes from which lines are written.
const exportPiece = 64 << 10

type exportInput struct {
	Size      uint64 `query:"size" doc:"Size of the tree that the proofs are for; default: that of the newest checkpoint."`
	From      uint64 `query:"from" doc:"First position; default: that of the first event that is not removed."`
	To        uint64 `query:"to" doc:"Last position; default: size."`
	After     uint64 `query:"after" doc:"Continue after this position."`
	Since     string `query:"since" format:"date-time" doc:"Only events of this time or later."`
	Until     string `query:"until" format:"date-time" doc:"Only events of this time or earlier."`
	Execution string `query:"execution" doc:"Only events about this execution, with the migrations of the heap that it left and for its start."`
	Session   string `query:"session" doc:"Only events of this session and its runs: a name, an id, an intent, a ref, or a unique prefix."`
}

// exportLine is a line of an export: an event, or the proof of the event before.
type exportLine struct {
	events.CloudEvent
	NATSSubject string   `json:"natssubject" doc:"Subject that the event is stored under."`
	NATSHeaders string   `json:"natsheaders" doc:"Stored headers, sorted by name, one per line."`
	DataBase64  string   `json:"data_base64,omitempty" doc:"Payload in base64 instead of data, if it is not JSON on one line."`
	Hashes      []string `json:"hashes,omitempty" doc:"The RFC 6962 path from the leaf. A line with a proof has only this and sequence."`
}

func (a *api) exportEvents(ctx context.Context, in *exportInput) (*streamed, error) {
	session, err := a.sessionFilter(ctx, in.Session)
	if err != nil {
		return nil, err
	}
	s := proof.ExportSelection{From: in.From, To: in.To, Execution: in.Execution, Session: session.selection()}
	for _, bound := range []struct {
		name, value string
		to          *time.Time
	}{{"since", in.Since, &s.Since}, {"until", in.Until, &s.Until}} {
		if bound.value == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, bound.value)
		if err != nil {
			return nil, invalid(bound.name, `%s must be a time such as 2026-11-21T09:30:00Z, not "%s"`, bound.name, ledger.Excerpt(bound.value))
		}
		*bound.to = at
	}
	latest, err := a.newestCheckpoint(ctx, 0)
	if err != nil {
		return nil, err
	}
	c := latest
	if in.Size != 0 && in.Size != latest.Size {
		p, err := a.proofs.Prover(latest).Consistency(min(in.Size, latest.Size), latest.Size)
		if err != nil {
			return nil, err
		}
		c = proof.Checkpoint{Origin: latest.Origin, Size: in.Size, Root: p.FromRoot}
	}
	if err := budget.TakeOnce(ctx, eventStreamBytes); err != nil {
		return nil, err
	}
	s.Tenant = a.visibleTenant(ctx)
	switch removal := a.removal(); {
	case removal.UpTo() == 0 || s.From > removal.UpTo() || s.From != 0 && in.After >= removal.UpTo():
	case s.From != 0:
		return nil, removal.Gone(fmt.Sprintf("events %d to %d were", max(s.From, in.After+1), removal.UpTo()))
	default:
		s.From = removal.UpTo() + 1
	}
	if c.Size > latest.Size || max(s.To, s.From) > c.Size || s.To != 0 && s.From > s.To {
		return nil, invalid("to", "from is %d and to is %d, but the tree has %d events, and checkpoints cover %d", s.From, s.To, c.Size, latest.Size)
	}
	return stream(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", typeNDJSON)
		if r.Method == http.MethodHead {
			w.WriteHeader(http.StatusOK)
			return
		}
		var piece bytes.Buffer
		started := false
		err := a.audit.Lines(ctx, c, s, in.After, func(line, proof []byte) error {
			for _, part := range [][]byte{line, proof} {
				if part != nil {
					piece.Write(part)
					piece.WriteByte('\n')
				}
			}
			if piece.Len() < exportPiece {
				return nil
			}
			started = true
			if _, err := piece.WriteTo(w); err != nil {
				return err
			}
			return continueReading(ctx)
		})
		if err != nil && !started && ctx.Err() == nil {
			writeFailure(w, a.toFailure(ctx, err, subject{}))
			return
		}
		if err == nil {
			_, err = piece.WriteTo(w)
		}
		if err != nil {
			a.logFailure(ctx, "export ended early", err)
			panic(http.ErrAbortHandler) // a regular end would look like a complete response
		}
	}), nil
}
