package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"

	"daybook/events"
	"daybook/ledger"
)

type blobInput struct {
	Kind string `path:"kind" enum:"heaps,texts" doc:"heaps or texts."`
	Hash string `path:"hash" doc:"SHA-256 of the content, 64 lowercase hex characters."`
	// Of is ignored if the caller may see one tenant only.
	Of string `query:"tenant" doc:"Tenant of the blob, if the caller may see all tenants; default: the tenant of the caller."`
}

func (in blobInput) about() subject { return subject{"hash", "Blob", in.Hash} }

// explainRemoval returns an error that names the event which records that a heap was removed
// or lost, or err if there is no such event.
func (a *api) explainRemoval(ctx context.Context, tenant, heap string, err error) error {
	if _, why := a.q.Heap(ctx, tenant, heap); errors.Is(why, events.ErrRemoved) {
		return why
	}
	if lost, ok := errors.AsType[*events.LostError](a.cmd.ExplainRemoval(ctx, tenant, heap)); ok {
		return lost
	}
	return err
}

func (a *api) blob(ctx context.Context, in *blobInput) (*streamed, error) {
	if a.blobs == nil {
		return nil, absent("this server does not serve blobs: it keeps no proofs of its ledger")
	}
	if !events.ValidHash(in.Hash) {
		return nil, invalid("hash", `hash must be 64 lowercase hex characters, not "%s"`, ledger.Excerpt(in.Hash))
	}
	tenant := requestOf(ctx).tenant
	if in.Of != "" && a.visibleTenant(ctx) == "" {
		tenant = in.Of
	}
	content, size, err := a.blobs.OpenBlob(ctx, tenant, in.Kind == "heaps", in.Hash)
	if errors.Is(err, events.ErrRemoved) && in.Kind == "heaps" {
		err = a.explainRemoval(ctx, tenant, in.Hash, err)
	}
	if err != nil {
		return nil, err
	}
	b := &blobAnswer{content: content, size: size}
	if err := b.readPiece(); err != nil {
		content.Close()
		return nil, err
	}
	return stream(func(w http.ResponseWriter, r *http.Request) {
		defer content.Close()
		if err := b.serve(w, r); err != nil {
			a.logFailure(ctx, "blob response ended early", err, "hash", in.Hash)
			panic(http.ErrAbortHandler) // a regular end would look like the complete content
		}
	}), nil
}

// blobPiece is the length of the pieces that a blob is read and sent in, in bytes.
const blobPiece = 64 << 10

// blobAnswer sends a blob in pieces. It sends a piece only after it has read the next
// one, so the last piece is sent only if the content matches its hash.
type blobAnswer struct {
	content io.Reader
	size    int64
	piece   []byte // read and not sent
	sent    []byte // the piece before; its memory is reused for the next one
	ended   bool   // the content was read to its end and matches its hash
}

// readPiece reads the next piece into piece and sets ended.
func (b *blobAnswer) readPiece() error {
	room := b.sent[:cap(b.sent)]
	if len(room) == 0 {
		room = make([]byte, min(blobPiece, b.size+1))
	}
	n, err := io.ReadFull(b.content, room)
	b.piece = room[:n]
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, events.ErrDamaged):
		b.ended = true
	case err != nil:
		return err
	}
	return nil
}

func (b *blobAnswer) serve(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", typeBytes)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Length", strconv.FormatInt(b.size, 10))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	for {
		piece, ended := b.piece, b.ended
		if !ended {
			if err := continueReading(r.Context()); err != nil {
				return err
			}
			if err := b.readPiece(); err != nil {
				return err
			}
		}
		if _, err := w.Write(piece); err != nil || ended {
			return err
		}
		b.sent = piece
	}
}
