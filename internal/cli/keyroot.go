package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"daybook/events"
	"daybook/internal/keyfile"
	"daybook/internal/web/client"
	"daybook/proof"
)

type keyRootCmd struct {
	clientFlags
	File     string `arg:"" help:"File to create, readable only by its owner." placeholder:"FILE"`
	Existing bool   `help:"Use the root key in FILE, after an interruption or for a new origin."`
}

// Help is shown by "daybook key root --help".
func (c *keyRootCmd) Help() string {
	return "Creates a root key. The server signs a statement that adds it, and the root key introduces each key that signs now: an auditor who has only the root key can verify the ledger. " +
		"With the root key you introduce another signing key after the loss or theft of one. Keep the file offline, and give the printed verification key to auditors."
}

// Run creates and adds the root key, and prints its verification key.
func (c *keyRootCmd) Run(ctx context.Context, std *streams) error {
	api := c.api()
	if _, err := api.Signers(ctx); err != nil { // before the file exists
		return err
	}
	if !c.Existing {
		// A missing directory may be the mount point of a medium that is not there. Creating it would leave the
		// root key on this machine.
		if dir := filepath.Dir(c.File); !isDir(dir) {
			return usageError{fmt.Errorf("the directory %s does not exist: insert and mount the medium for the root key, or create the directory", dir)}
		}
		if _, err := createKey(c.File, proof.RootKeyPrefix+events.NewID(time.Now())); err != nil {
			return err
		}
	}
	root, err := readRootKey(c.File)
	if err != nil {
		return err
	}
	added, err := root.register(ctx, api)
	if refused, ok := errors.AsType[*client.Error](err); ok && len(added) == 0 && !c.Existing && refused.Status == http.StatusForbidden {
		return errors.Join(err, os.Remove(c.File)) // no statement names the key
	}
	if err != nil {
		return fmt.Errorf("%w; %s holds the root key: run the command again with --existing", err, c.File)
	}
	if c.JSON {
		return std.out.PrintJSON(struct {
			Key        string                   `json:"key"`
			Statements []client.SignerStatement `json:"statements"`
		}{root.vkey, added})
	}
	std.out.Printf("%s\n", root.vkey)
	for _, st := range added {
		if st.Action == proof.IntroduceSigner {
			std.err.Printf("The root key introduced the signer %s with statement %d.\n", st.Key, st.Number)
		}
	}
	if len(added) == 0 {
		std.err.Printf("The list of signers has the root key already, and it introduced each signer.\n")
	}
	std.err.Printf("%s holds the root key. Keep it offline: move it to a medium that no server reads, and keep a copy. Give the printed key to auditors.\n", c.File)
	return nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// rootKey is a key that signs statements.
type rootKey struct{ skey, vkey string }

func readRootKey(path string) (*rootKey, error) {
	skey, err := keyfile.Read(path)
	if err != nil {
		return nil, usageError{fmt.Errorf("read the root key: %w", err)}
	}
	_, vkey, err := proof.ParseKey(skey)
	if err != nil {
		return nil, usageError{fmt.Errorf("%s holds no signing key: %w", path, err)}
	}
	return &rootKey{skey, vkey}, nil
}

// signerList is the list of the signers of a server.
type signerList struct {
	*proof.Signers
	size uint64 // of the newest checkpoint
}

func readSigners(ctx context.Context, api *client.Client) (*signerList, error) {
	answer, err := api.Signers(ctx)
	if err != nil {
		return nil, err
	}
	list := &signerList{&proof.Signers{}, answer.Body.Size}
	for _, st := range answer.Body.Statements {
		if _, err := list.Add([]byte(st.Note)); err != nil {
			return nil, fmt.Errorf("the server's list of signers is not valid: %w", err)
		}
	}
	return list, nil
}

// add signs a statement that continues the list, and records it.
func (k *rootKey) add(ctx context.Context, api *client.Client, list *signerList, action proof.Action, vkey string, size uint64) (answer client.Answer[client.SignerChange], err error) {
	signer, _, err := proof.ParseKey(k.skey)
	if err != nil {
		return answer, err
	}
	st, err := list.Next(action, vkey, size).Sign(signer)
	if err != nil {
		return answer, err
	}
	if _, err := list.Add(st.Note); err != nil {
		return answer, usageError{err}
	}
	return api.AddStatement(ctx, st.Note)
}

// register adds the root key to the list, and introduces the signers with it. It leaves out
// statements that the list has.
func (k *rootKey) register(ctx context.Context, api *client.Client) (added []client.SignerStatement, err error) {
	added = []client.SignerStatement{} // in JSON, none is an empty list
	list, err := readSigners(ctx, api)
	if err != nil {
		return added, err
	}
	if !slices.Contains(list.Roots(), k.vkey) {
		answer, err := api.ChangeSigners(ctx, string(proof.AddRoot), k.vkey)
		if err != nil {
			return added, err
		}
		added = append(added, answer.Body.Statement)
		if list, err = readSigners(ctx, api); err != nil {
			return added, err
		}
	}
	trusted := list.Trust([]string{k.vkey})
	for _, vkey := range list.Keys() {
		if trusted.Source(vkey) == vkey && !trusted.Retired(vkey) { // the root key introduced it last
			continue
		}
		answer, err := k.add(ctx, api, list, proof.IntroduceSigner, vkey, list.size)
		if err != nil {
			return added, err
		}
		added = append(added, answer.Body.Statement)
	}
	return added, nil
}
