package httpapi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"

	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/internal/resources/budget"
	"daybook/internal/spans"
	"daybook/internal/web/access"
	"daybook/proof"
)

// tilePattern is the route of the tiles of the Merkle tree (C2SP tlog-tiles).
const tilePattern = "GET /api/ledger/tile/{path...}"

// immutableCache is the Cache-Control of full tiles of hashes. They never change, and their
// hashes reveal no content, so shared caches may keep them also if the request had a token.
const immutableCache = "public, max-age=604800, immutable"

func (a *api) tileRoutes(mux *http.ServeMux) {
	a.gate.scopes[tilePattern] = access.Read
	mux.HandleFunc(tilePattern, a.heavyHandler(func(w http.ResponseWriter, r *http.Request) {
		raw, immutable, err := a.tile(r)
		if err != nil {
			writeFailure(w, a.toFailure(r.Context(), err, subject{"path", "Tile", r.PathValue("path")}))
			return
		}
		w.Header().Set("Content-Type", typeBytes)
		if immutable {
			w.Header().Set("Cache-Control", immutableCache)
		}
		_, _ = w.Write(raw)
	}))
}

// tile returns a tile, and whether caches may keep it. They may not keep bundles: a bundle
// depends on the tenant of the caller, and it must not outlive the removal of its events.
func (a *api) tile(r *http.Request) (raw []byte, immutable bool, err error) {
	if err := a.checkProofs(); err != nil {
		return nil, false, err
	}
	t, err := proof.ParseTilePath("tile/" + r.PathValue("path"))
	if err != nil {
		return nil, false, fail(http.StatusNotFound, "not_found", "path", "%v", err)
	}
	if t.Entries {
		raw, err = a.bundle(r, t)
	} else {
		raw, err = a.proofs.Tile(t)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fail(http.StatusNotFound, "not_found", "path", "the tree has no %s yet; it has %d leaves", t.Path(), a.proofs.Size())
	}
	return raw, t.Width == 256 && !t.Entries, err
}

// bundle creates an entry bundle from the stream, because stored bundles would be a second
// copy of the headers of all events. An entry is the record of an event. The record names
// the tenant, the ids and the hash of the payload, so callers of other tenants may not read
// it.
func (a *api) bundle(r *http.Request, t proof.Tile) ([]byte, error) {
	first := t.Index*256 + 1
	last := first + uint64(t.Width) - 1
	if t.Index > 1<<50 || last > a.proofs.Size() {
		return nil, fs.ErrNotExist
	}
	if removal := a.removal(); first <= removal.UpTo() {
		return nil, removal.Gone(fmt.Sprintf("events %d to %d were", first, min(last, removal.UpTo())))
	}
	if err := budget.TakeOnce(r.Context(), eventStreamBytes); err != nil {
		return nil, err
	}
	var raw []byte
	tenant := a.visibleTenant(r.Context())
	for after := first - 1; after < last; {
		batch, err := a.audit.Stream.ReadRaw(r.Context(), after, int(last-after))
		if err != nil {
			return nil, err
		}
		if len(batch) == 0 {
			return nil, fmt.Errorf("%w: position %d cannot be read", events.ErrDamaged, after+1)
		}
		for _, m := range batch {
			for after++; after < m.Seq && after <= last; after++ { // lost positions without a known hash
				raw = appendEntry(raw, proof.AppendHole(nil, after))
			}
			if after = m.Seq; after > last {
				break
			}
			owner := events.HeaderValue(m.Header, "ce-tenant")
			if tenant != "" && (len(m.Header["ce-tenant"]) != 1 || owner != tenant && owner != events.LedgerTenant) {
				return nil, fail(http.StatusForbidden, codeForbidden, "path", "events %d to %d are not all of your tenant; ask for proofs of yours instead", first, last)
			}
			record, err := proof.AppendRecord(nil, eventproof.RecordOf(m))
			if err != nil {
				return nil, err
			}
			raw = appendEntry(raw, record)
		}
	}
	return raw, checkBundleKnown(a.proofs.Lost(), first, last)
}

// checkBundleKnown returns a failure with status 410 if events of a bundle are lost and their leaf
// hashes are known. Their records, which have these hashes, are lost. An unknown leaf hash is
// that of the record of a hole.
func checkBundleKnown(lost events.Lost, first, last uint64) error {
	var unknown []string
	namedAt := uint64(0)
	for _, r := range lost {
		if s := (spans.Span{From: max(r.From, first), To: min(r.To, last)}); len(r.Hashes) > 0 && s.From <= s.To {
			unknown, namedAt = append(unknown, s.String()), r.NamedAt
		}
	}
	if unknown == nil {
		return nil
	}
	return fail(http.StatusGone, "gone", "path", "the events at %s are lost, as event %d says; only their hashes are known, which the tiles have, so no bundle with them can be made; "+
		"ask for proofs of the other events instead", strings.Join(unknown, ", "), namedAt)
}

// appendEntry appends the length of a record and the record, which is shorter than 64 KiB.
func appendEntry(raw, record []byte) []byte {
	return append(binary.BigEndian.AppendUint16(raw, uint16(len(record))), record...)
}
