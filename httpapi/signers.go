package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"daybook/events"
	"daybook/internal/web/access"
	"daybook/ledger"
	"daybook/proof"
)

// Signers changes the list of the keys that sign checkpoints. Proofs returns the list.
type Signers interface {
	// VKey returns the verification key of this server.
	VKey() string
	// SignersPosition returns the position of the newest statement.
	SignersPosition() uint64
	// ChangeSigners records a statement about a key that the key of this server signs.
	ChangeSigners(ctx context.Context, action proof.Action, vkey string, actor events.Actor) (proof.Statement, error)
	// AddStatement records a statement that was signed elsewhere. If restart is set, the server
	// is read-only because its key cannot be used, and must be started again.
	AddStatement(ctx context.Context, signed []byte, actor events.Actor) (st proof.Statement, restart bool, err error)
	// RotateKey replaces the key of this server and returns the new verification key.
	RotateKey(ctx context.Context, actor events.Actor) (string, error)
}

// SignersError is returned by Signers for a change that contradicts the list.
type SignersError struct{ Err error }

// Error returns the reason, and what to do.
func (e *SignersError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *SignersError) Unwrap() error { return e.Err }

const (
	signersPath   = "/api/ledger/signers"
	rotateKeyPath = "/api/ledger/key/rotate"
)

func (a *api) signerRoutes(r *router) {
	register(r, huma.Operation{
		OperationID: "get-signers", Method: http.MethodGet, Path: signersPath, Tags: []string{tagLedger},
		Summary: "Get the statements about the signers of the ledger",
		Description: "Signed notes, oldest first, each followed by an empty line; with Accept: application/json an object. A statement starts an origin, introduces or retires a key that signs checkpoints, or adds a root key. " +
			"A verifier follows the statements from the keys that it trusts. The list is empty until the first checkpoint is due.",
		Responses: map[string]*huma.Response{"200": {
			Description: "The statements.",
			Content:     map[string]*huma.MediaType{typeText: {Schema: &huma.Schema{Type: huma.TypeString}}, "application/json": mediaOf[SignerList](r)},
		}},
	}, nil, a.listSigners)
	change := huma.Operation{
		OperationID: "change-signers", Method: http.MethodPost, Path: signersPath, Tags: []string{tagLedger},
		Summary: "Introduce or retire a signing key, or add a root key",
		Description: "With statement: records a statement that was signed elsewhere, for example with a root key. With action and key: this server signs the statement. " +
			"A server that is read-only because its signing key was lost records signed statements too; restart it then. Requires a token of the tenant default with the scope admin.",
		Metadata:    map[string]any{scopeKey: access.Admin},
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": mediaOf[changeSignersBody](r)}},
	}
	register(r, change, []int{http.StatusBadRequest, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType}, a.changeSigners)
	delete(change.RequestBody.Content, "application/octet-stream")
	register(r, huma.Operation{
		OperationID: "rotate-key", Method: http.MethodPost, Path: rotateKeyPath, Tags: []string{tagLedger},
		Summary: "Replace the signing key of the server",
		Description: "Makes a new key, introduces it with the old one, signs with it from then on, and retires the old one. An interrupted rotation is continued by the next one with the same new key. " +
			"Requires a token of the tenant default with the scope admin.",
		Metadata: map[string]any{scopeKey: access.Admin},
	}, []int{http.StatusConflict}, a.rotateKey)
}

// SignerStatement is a statement about the signers of the ledger.
type SignerStatement struct {
	Number      uint64       `json:"number" doc:"Index of the statement in the list, from 0."`
	Action      proof.Action `json:"action" enum:"start,introduce,retire,root" doc:"start: an origin starts with the key as its first signer. introduce: the key may sign. retire: checkpoints of the key with more than size events do not count. root: the key is kept offline and may sign statements."`
	Key         string       `json:"key" doc:"Verification key that the statement is about."`
	Origin      string       `json:"origin" doc:"Name that checkpoints are signed under."`
	Size        uint64       `json:"size" doc:"Number of events: with start that of the last checkpoint of the predecessor that holds, with retire see action, otherwise that of the ledger at that time."`
	Predecessor string       `json:"predecessor,omitempty" doc:"Origin that this one succeeds; only with start."`
	RootHash    string       `json:"root_hash,omitempty" doc:"RFC 6962 tree hash over the first size events of the predecessor, in base64."`
	Note        string       `json:"note" doc:"The statement as a signed note."`
}

func showStatement(st proof.Statement) SignerStatement {
	shown := SignerStatement{Number: st.Number, Action: st.Action, Key: st.Key, Origin: st.Origin, Size: st.Size, Predecessor: st.Predecessor, Note: string(st.Note)}
	if st.Predecessor != "" {
		shown.RootHash = proof.EncodeHash(st.Root)
	}
	return shown
}

// SignerList is the list of the signers of the ledger as a JSON object.
type SignerList struct {
	Origin     string            `json:"origin" doc:"Name that checkpoints are signed under; empty before the first one."`
	Keys       []string          `json:"keys" nullable:"false" doc:"Verification keys that may sign checkpoints of the origin."`
	Roots      []string          `json:"roots" nullable:"false" doc:"Root keys of the origin, which may sign statements."`
	Key        string            `json:"key,omitempty" doc:"Verification key of this server. It signs only if keys contains it."`
	Size       uint64            `json:"size" doc:"Number of events that the newest checkpoint covers."`
	Statements []SignerStatement `json:"statements" nullable:"false" doc:"All statements, of earlier origins too, oldest first."`
}

func (a *api) listSigners(ctx context.Context, _ *struct{}) (*streamed, error) {
	if err := a.checkProofs(); err != nil {
		return nil, err
	}
	list := a.proofs.Signers()
	if !wantsJSON(requestOf(ctx).header.Values("Accept")) {
		return stream(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", typeText+"; charset=utf-8")
			w.Header().Set("Cache-Control", "no-cache")
			_, _ = w.Write(list.Bytes())
		}), nil
	}
	newest, _ := a.proofs.Latest()
	body := SignerList{Origin: list.Origin(), Keys: append([]string{}, list.Keys()...), Roots: append([]string{}, list.Roots()...), Size: newest.Size, Statements: []SignerStatement{}}
	if a.signers != nil {
		body.Key = a.signers.VKey()
	}
	for _, st := range list.Statements() {
		body.Statements = append(body.Statements, showStatement(st))
	}
	return stream(func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, body) }), nil
}

// checkSigners returns an error if the server cannot change the signers.
func (a *api) checkSigners() error {
	if err := a.checkProofs(); err != nil {
		return err
	}
	if a.signers == nil {
		return absent("this server does not change the signers of its ledger")
	}
	return nil
}

// changeSignersBody documents the request body; changeSigners decodes it.
type changeSignersBody struct {
	Statement string       `json:"statement,omitempty" doc:"Signed note of a statement that continues the list; without the other members."`
	Action    proof.Action `json:"action,omitempty" enum:"introduce,retire,root" doc:"What this server states about the key."`
	Key       string       `json:"key,omitempty" doc:"Verification key, name+hash+base64. The name of a signer is the origin."`
}

type changeSignersInput struct{ RawBody []byte }

// SignerChange is the response to a recorded statement.
type SignerChange struct {
	Statement SignerStatement `json:"statement" doc:"The recorded statement."`
	Restart   bool            `json:"restart,omitempty" doc:"True if the server is read-only because its signing key cannot be used: restart it with a key that signs."`
}

type changeSignersAnswer struct {
	Written
	Body SignerChange
}

func (a *api) changeSigners(ctx context.Context, in *changeSignersInput) (*changeSignersAnswer, error) {
	if err := checkOperator(ctx, signersOfAll); err != nil {
		return nil, err
	}
	if f := requireJSON(requestOf(ctx), in.RawBody, `curl -H 'Content-Type: application/json' --data '{"action":"introduce","key":"..."}' ...`); f != nil {
		return nil, f
	}
	var statement, action, key string
	if f := decodeObject(in.RawBody, map[string]member{"statement": text(&statement, nil), "action": text(&action, nil), "key": text(&key, nil)}); f != nil {
		return nil, f
	}
	if err := a.checkSigners(); err != nil {
		return nil, err
	}
	switch {
	case statement != "" && (action != "" || key != ""):
		return nil, invalid("statement", "give either statement, or action and key")
	case statement != "":
		if _, err := proof.ParseStatement([]byte(statement)); err != nil {
			return nil, invalid("statement", "%s", err)
		}
	default:
		switch proof.Action(action) {
		case proof.IntroduceSigner, proof.RetireSigner, proof.AddRoot:
		default:
			return nil, invalid("action", "action must be introduce, retire or root, not %q; or give statement", action)
		}
		if err := proof.CheckVKeys([]string{key}); err != nil {
			return nil, invalid("key", "%s", err)
		}
	}
	if _, err := a.newestPosition(ctx); err != nil {
		return nil, err
	}
	var st proof.Statement
	var restart bool
	var err error
	if actor := requestOf(ctx).actor; statement != "" {
		st, restart, err = a.signers.AddStatement(ctx, []byte(statement), actor)
	} else {
		st, err = a.signers.ChangeSigners(ctx, proof.Action(action), key, actor)
	}
	if err != nil {
		return nil, signersFailure(err)
	}
	return &changeSignersAnswer{a.noteWrite(a.signers.SignersPosition()), SignerChange{showStatement(st), restart}}, nil
}

// signersOfAll says why only the operator may change the signers.
const signersOfAll = "the keys sign the events of all tenants"

// signersFailure converts a *SignersError to a failure with status 409.
func signersFailure(err error) error {
	if e, ok := errors.AsType[*SignersError](err); ok {
		if errors.Is(err, proof.ErrNotNext) {
			return fail(http.StatusConflict, string(ledger.CodeConflict), "statement", "%s; read GET %s again and sign a statement that continues it", e, signersPath)
		}
		return fail(http.StatusConflict, string(ledger.CodeConflict), "", "%s", e)
	}
	return err
}

// RotatedKey is the response to the rotation of the server's key.
type RotatedKey struct {
	Key    string `json:"key" doc:"New verification key of the server. Give it to auditors that do not read the list of signers."`
	Former string `json:"former" doc:"Retired verification key."`
}

type rotatedKeyAnswer struct {
	Written
	Body RotatedKey
}

func (a *api) rotateKey(ctx context.Context, _ *struct{}) (*rotatedKeyAnswer, error) {
	if err := checkOperator(ctx, signersOfAll); err != nil {
		return nil, err
	}
	if err := a.checkSigners(); err != nil {
		return nil, err
	}
	if _, err := a.newestPosition(ctx); err != nil {
		return nil, err
	}
	former := a.signers.VKey()
	key, err := a.signers.RotateKey(ctx, requestOf(ctx).actor)
	if err != nil {
		return nil, signersFailure(err)
	}
	return &rotatedKeyAnswer{a.noteWrite(a.signers.SignersPosition()), RotatedKey{Key: key, Former: former}}, nil
}
