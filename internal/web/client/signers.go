package client

import (
	"context"
	"net/http"

	"daybook/httpapi"
)

// SignerList is the list of the keys that sign the ledger, with the statements about them.
type SignerList = httpapi.SignerList

// SignerStatement is a statement about the signers of the ledger.
type SignerStatement = httpapi.SignerStatement

// SignerChange is a recorded statement.
type SignerChange = httpapi.SignerChange

// RotatedKey is the new key of a server.
type RotatedKey = httpapi.RotatedKey

const signersPath = "/api/ledger/signers"

// Signers returns the list of the keys that sign the ledger.
func (c *Client) Signers(ctx context.Context) (Answer[SignerList], error) {
	return call[SignerList](ctx, c, http.MethodGet, signersPath, nil)
}

// ChangeSigners records a statement about a key that the server signs. action is "introduce",
// "retire" or "root".
func (c *Client) ChangeSigners(ctx context.Context, action, vkey string) (Answer[SignerChange], error) {
	return call[SignerChange](ctx, c, http.MethodPost, signersPath, map[string]string{"action": action, "key": vkey})
}

// AddStatement records a statement that was signed elsewhere.
func (c *Client) AddStatement(ctx context.Context, note []byte) (Answer[SignerChange], error) {
	return call[SignerChange](ctx, c, http.MethodPost, signersPath, map[string]string{"statement": string(note)})
}

// RotateKey replaces the signing key of the server.
func (c *Client) RotateKey(ctx context.Context) (Answer[RotatedKey], error) {
	return call[RotatedKey](ctx, c, http.MethodPost, "/api/ledger/key/rotate", nil)
}
