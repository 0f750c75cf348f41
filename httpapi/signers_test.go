package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"daybook/events"
	"daybook/httpapi"
	"daybook/internal/store/jetstream"
	"daybook/internal/translog"
	"daybook/internal/web/access"
	"daybook/proof"
)

// ledgerSigners changes the signers of a log.
type ledgerSigners struct {
	*translog.Log
	store *jetstream.Store
}

func (l ledgerSigners) ChangeSigners(ctx context.Context, action proof.Action, vkey string, actor events.Actor) (proof.Statement, error) {
	st, err := l.Log.ChangeSigners(ctx, l.store, action, vkey, actor)
	return st, refused(err)
}

func (l ledgerSigners) AddStatement(ctx context.Context, signed []byte, actor events.Actor) (proof.Statement, bool, error) {
	st, err := l.Log.AddStatement(ctx, l.store, signed, actor)
	return st, false, refused(err)
}

func (l ledgerSigners) RotateKey(ctx context.Context, actor events.Actor) (string, error) {
	vkey, err := l.Log.RotateKey(ctx, l.store, actor)
	return vkey, refused(err)
}

func refused(err error) error {
	if _, ok := errors.AsType[*translog.StatementError](err); ok || errors.Is(err, translog.ErrNotSigner) {
		return &httpapi.SignersError{Err: err}
	}
	return err
}

// signing is a stack whose signers can be changed.
func signing(t *testing.T, opts translog.Options, change ...func(*httpapi.Options)) (*stack, *translog.Log) {
	t.Helper()
	l := &ledgerSigners{}
	s, log := auditedWith(t, opts, append(change, func(o *httpapi.Options) { o.Signers = l })...)
	l.Log, l.store = log, s.store
	return s, log
}

// The list of signers is read and changed over REST. A mistake of the client is refused with its reason.
func TestSigners(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	s, log := signing(t, translog.Options{}, k.option)
	admin, reader := bearer(k.token(events.DefaultTenant, "ada", access.Read, access.Sign, access.Admin)), bearer(k.token("acme", "bob", access.Read))
	change := func(status int, body string, into any) string {
		t.Helper()
		a := s.do("POST", "/api/ledger/signers", body, admin...)
		a.into(t, status, into)
		return string(a.body)
	}
	_, other, err := proof.NewKey("daybook/other")
	if err != nil {
		t.Fatal(err)
	}
	if text := change(http.StatusNotFound, `{"action":"introduce","key":"`+other+`"}`, nil); !strings.Contains(text, "ledger_empty") {
		t.Error(text)
	}
	s.request(events.DefaultTenant, 2)
	s.do("POST", "/api/ledger/checkpoint", "", admin...).into(t, http.StatusOK, nil)
	first := log.VKey()

	// Each client with the scope read can read the list, as notes or as an object.
	notes := s.do("GET", "/api/ledger/signers", "", reader...)
	list, err := proof.ParseSigners(notes.body)
	if err != nil || notes.Header.Get("Content-Type") != "text/plain; charset=utf-8" || !bytes.Equal(notes.body, list.Bytes()) || !list.Signs(first) {
		t.Errorf("%s: %v in\n%s", notes.Header.Get("Content-Type"), err, notes.body)
	}
	var got httpapi.SignerList
	read := func() {
		t.Helper()
		got = httpapi.SignerList{}
		s.do("GET", "/api/ledger/signers", "", append(reader, "Accept", "application/json")...).into(t, http.StatusOK, &got)
	}
	if read(); got.Origin != log.Origin() || got.Key != first || len(got.Keys) != 1 || got.Keys[0] != first || len(got.Roots) != 0 || got.Size == 0 || len(got.Statements) != 1 || got.Statements[0].Action != proof.StartOrigin {
		t.Errorf("the list is %+v", got)
	}

	// Mistakes.
	_, second, err := proof.NewKey(log.Origin())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		body   string
		status int
		want   string
	}{
		{`{"action":"introduce","key":"nokey"}`, 400, "not a verification key"},
		{`{"action":"start","key":"` + second + `"}`, 400, "introduce, retire or root"},
		{`{"statement":"x","key":"y"}`, 400, "either"},
		{`{"statement":"x"}`, 400, "signed note"},
		{`{}`, 400, "action"},
		{`{"action":"introduce","key":"` + other + `"}`, 409, "must be named so"},
		{`{"action":"retire","key":"` + first + `"}`, 409, "daybook key rotate"},
		{`{"action":"retire","key":"` + second + `"}`, 409, "no signer"},
	} {
		if text := change(tt.status, tt.body, nil); !strings.Contains(text, tt.want) {
			t.Errorf("%s: %s, want %q", tt.body, text, tt.want)
		}
	}

	var changed httpapi.SignerChange
	change(http.StatusOK, `{"action":"introduce","key":"`+second+`"}`, &changed)
	if st := changed.Statement; st.Number != 1 || st.Action != proof.IntroduceSigner || st.Key != second || changed.Restart {
		t.Errorf("introduced %+v", changed)
	}
	skey, root, err := proof.NewKey(proof.RootKeyPrefix + "1")
	if err != nil {
		t.Fatal(err)
	}
	signer, _, err := proof.ParseKey(skey)
	if err != nil {
		t.Fatal(err)
	}
	change(http.StatusOK, `{"action":"root","key":"`+root+`"}`, nil)
	submit := func(status int, st proof.Statement) string {
		t.Helper()
		st, err := st.Sign(signer)
		if err != nil {
			t.Fatal(err)
		}
		body, err := json.Marshal(map[string]string{"statement": string(st.Note)})
		if err != nil {
			t.Fatal(err)
		}
		return change(status, string(body), nil)
	}
	retire := log.Signers().Next(proof.RetireSigner, second, 2)
	submit(http.StatusOK, retire)
	submit(http.StatusOK, retire) // again: it is recorded
	retire.Key = first
	if text := submit(http.StatusConflict, retire); !strings.Contains(text, "read GET /api/ledger/signers again") {
		t.Error(text)
	}
	if text := submit(http.StatusConflict, log.Signers().Next(proof.RetireSigner, first, 2)); !strings.Contains(text, "only signer") {
		t.Error(text)
	}

	var rotated httpapi.RotatedKey
	s.do("POST", "/api/ledger/key/rotate", "", admin...).into(t, http.StatusOK, &rotated)
	if rotated.Former != first || rotated.Key != log.VKey() || rotated.Key == first {
		t.Errorf("rotated %+v", rotated)
	}
	if read(); got.Key != rotated.Key || len(got.Keys) != 1 || got.Keys[0] != rotated.Key || len(got.Roots) != 1 || len(got.Statements) != 6 || got.Statements[3].Size != 2 {
		t.Errorf("the list is %+v", got)
	}
	err = s.store.EachMatching(t.Context(), events.SignersSubject(events.LedgerTenant), func(e events.Event) error {
		if d := e.Data.(*events.LedgerSignersChanged); d.Number > 0 && d.Actor.Principal != "ada" {
			t.Errorf("statement %d is by %+v", d.Number, d.Actor)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// One of several servers whose key no statement introduces answers a change with the way out.
func TestOnlyASignerChangesTheSigners(t *testing.T) {
	t.Parallel()
	s, log := signing(t, translog.Options{Shared: true})
	s.request(events.DefaultTenant, 1)
	s.do("POST", "/api/ledger/checkpoint", "").into(t, http.StatusOK, nil)
	skey, vkey, err := proof.NewKey(log.Origin())
	if err != nil {
		t.Fatal(err)
	}
	signer, _, err := proof.ParseKey(skey)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.ChangeSigners(t.Context(), s.store, proof.IntroduceSigner, vkey, events.Actor{}); err != nil {
		t.Fatal(err)
	}
	st, err := log.Signers().Next(proof.RetireSigner, log.VKey(), 1).Sign(signer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.AddStatement(t.Context(), s.store, st.Note, events.Actor{}); err != nil {
		t.Fatal(err)
	}
	for path, body := range map[string]string{"/api/ledger/signers": `{"action":"retire","key":"` + vkey + `"}`, "/api/ledger/key/rotate": ""} {
		if a := s.do("POST", path, body); a.StatusCode != http.StatusConflict || !strings.Contains(string(a.body), "root key") {
			t.Errorf("POST %s: %s %s", path, a.Status, a.body)
		}
	}
}
