package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"daybook/internal/cli/terminal"
	"daybook/internal/keyfile"
	"daybook/internal/web/client"
	"daybook/proof"
)

type keyCmd struct {
	List      keyListCmd      `cmd:"" help:"List the signing keys and the statements about them."`
	Introduce keyIntroduceCmd `cmd:"" help:"Let another key sign the ledger."`
	Revoke    keyRevokeCmd    `cmd:"" help:"Retire a key: its later checkpoints do not count."`
	Rotate    keyRotateCmd    `cmd:"" help:"Replace the signing key of the server."`
	New       keyNewCmd       `cmd:"" help:"Create a signing key for the ledger in a file."`
	Root      keyRootCmd      `cmd:"" help:"Create a root key to keep offline, and add it."`
}

type keyListCmd struct{ clientFlags }

// Help is shown by "daybook key list --help".
func (c *keyListCmd) Help() string {
	return "The first table has the keys that may sign now. The second one has all statements, oldest first; auditors read them with \"daybook verify\"."
}

// Run prints the keys of the origin, and the statements.
func (c *keyListCmd) Run(ctx context.Context, std *streams) error {
	answer, err := c.api().Signers(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return std.out.WriteJSON(compact(answer.JSON))
	}
	list := answer.Body
	w := terminal.Table(std.out, "ROLE", "KEY")
	if !slices.Contains(list.Keys, list.Key) {
		w.Row("this server, no signer", list.Key)
	}
	for _, k := range list.Keys {
		role := "signer"
		if k == list.Key {
			role = "signer, this server"
		}
		w.Row(role, k)
	}
	for _, k := range list.Roots {
		w.Row("root", k)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	std.out.Printf("\n")
	w = terminal.Table(std.out, "NUMBER", "ACTION", "SIZE", "ORIGIN", "KEY")
	for _, st := range list.Statements {
		w.Row(st.Number, st.Action, st.Size, st.Origin, st.Key)
	}
	return w.Flush()
}

// subjectKey is embedded in commands about one verification key.
type subjectKey struct {
	Key     string `arg:"" help:"Verification key, name+hash+base64, or a file that holds it." placeholder:"VKEY"`
	RootKey string `help:"File of a root key that signs the statement. Default: the server signs it." placeholder:"FILE" env:"-"`
}

// vkey returns the key of the command line.
func (s subjectKey) vkey() (string, error) {
	keys, err := readVKeys("VKEY", []string{s.Key})
	if err != nil {
		return "", err
	}
	if len(keys) != 1 {
		return "", usageError{fmt.Errorf("%s holds %d keys; give one of them", s.Key, len(keys))}
	}
	if err := proof.CheckVKeys(keys); err != nil {
		return "", usageError{err}
	}
	return keys[0], nil
}

type keyIntroduceCmd struct {
	clientFlags
	subjectKey
}

// Help is shown by "daybook key introduce --help".
func (c *keyIntroduceCmd) Help() string {
	return "Introduce the key of a second server at a server that signs; \"daybook key list\" on the second server prints its key. Auditors who trust a key trust the keys that it introduces. " +
		"After the signing key was lost, a root key introduces another one: the server is read-only then, and records this statement."
}

// Run records the statement and prints its number.
func (c *keyIntroduceCmd) Run(ctx context.Context, std *streams) error {
	vkey, err := c.vkey()
	if err != nil {
		return err
	}
	answer, err := changeSigners(ctx, c.clientFlags, proof.IntroduceSigner, vkey, c.RootKey, nil)
	if err != nil {
		return err
	}
	return showChange(std, c.JSON, answer, "Introduced %s with statement %d.\n", vkey, answer.Body.Statement.Number)
}

type keyRevokeCmd struct {
	clientFlags
	subjectKey
	Size *uint64 `help:"Number of events that the last valid checkpoint of the key covers, for a key that was stolen earlier; only with --root-key. Default: that of the newest checkpoint." placeholder:"N" env:"-"`
}

// Help is shown by "daybook key revoke --help".
func (c *keyRevokeCmd) Help() string {
	return "Verifiers ignore checkpoints of the key that cover more events than the statement says. For the key of a server that runs, use \"daybook key rotate\". " +
		"For a stolen key, introduce another one first, and retire the stolen one with a root key and --size: the size of the last checkpoint from before the theft."
}

// Run records the statement and prints its number.
func (c *keyRevokeCmd) Run(ctx context.Context, std *streams) error {
	vkey, err := c.vkey()
	if err != nil {
		return err
	}
	if c.Size != nil && c.RootKey == "" {
		return usageError{errors.New("--size needs --root-key: the server retires a key at its present size")}
	}
	answer, err := changeSigners(ctx, c.clientFlags, proof.RetireSigner, vkey, c.RootKey, c.Size)
	if err != nil {
		return err
	}
	st := answer.Body.Statement
	return showChange(std, c.JSON, answer, "Retired %s with statement %d: its checkpoints of more than %d events do not count.\n", vkey, st.Number, st.Size)
}

// changeSigners records a statement about a key, signed by the server or by the root key in a file.
// size is for the root key; nil is the size of the newest checkpoint.
func changeSigners(ctx context.Context, f clientFlags, action proof.Action, vkey, rootKey string, size *uint64) (answer client.Answer[client.SignerChange], err error) {
	if rootKey == "" {
		return f.api().ChangeSigners(ctx, string(action), vkey)
	}
	root, err := readRootKey(rootKey)
	if err != nil {
		return answer, err
	}
	list, err := readSigners(ctx, f.api())
	if err != nil {
		return answer, err
	}
	if list.Origin() == "" {
		return answer, usageError{errNoOrigin}
	}
	if size == nil {
		size = &list.size
	}
	return root.add(ctx, f.api(), list, action, vkey, *size)
}

// errNoOrigin is the error of a ledger without statements.
var errNoOrigin = errors.New("the ledger has no origin yet; run a script first")

// showChange prints a recorded statement.
func showChange(std *streams, json bool, answer client.Answer[client.SignerChange], format string, args ...any) error {
	if json {
		return std.out.WriteJSON(compact(answer.JSON))
	}
	std.out.Printf(format, args...)
	if answer.Body.Restart {
		fmt.Fprintln(std.err, "The server is read-only, because it cannot use its signing key. Restart it with a key that signs.")
	}
	return nil
}

type keyRotateCmd struct{ clientFlags }

// Help is shown by "daybook key rotate --help".
func (c *keyRotateCmd) Help() string {
	return "The server creates a key, introduces it with the old one, and retires the old one, whose file it keeps with the suffix .ended and a number. Runs continue. Auditors who trust the old key trust the new one; those who pin keys need the new one."
}

// Run rotates the key and prints the new one.
func (c *keyRotateCmd) Run(ctx context.Context, std *streams) error {
	answer, err := c.api().RotateKey(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return std.out.WriteJSON(compact(answer.JSON))
	}
	std.out.Printf("%s\n", answer.Body.Key)
	std.err.Printf("retired %s\n", answer.Body.Former)
	return nil
}

type keyNewCmd struct {
	clientFlags
	File   string `arg:"" help:"File to create, readable only by its owner." placeholder:"FILE"`
	Origin string `help:"Origin of the ledger. Default: that of the server." placeholder:"NAME" env:"-"`
}

// Help is shown by "daybook key new --help".
func (c *keyNewCmd) Help() string {
	return "Prints the verification key. It signs only when a statement introduces it: \"daybook key introduce\". Use it after the signing key was lost or stolen: start the server with it then. To replace a key that the server has, use \"daybook key rotate\"."
}

// Run creates the file and prints the verification key.
func (c *keyNewCmd) Run(ctx context.Context, std *streams) error {
	origin := c.Origin
	if origin == "" {
		answer, err := c.api().Signers(ctx)
		if err != nil {
			return err
		}
		if origin = answer.Body.Origin; origin == "" {
			return usageError{fmt.Errorf("%w, or give --origin", errNoOrigin)}
		}
	}
	vkey, err := createKey(c.File, origin)
	if err != nil {
		return err
	}
	if c.JSON {
		return std.out.PrintJSON(map[string]string{"key": vkey, "origin": origin})
	}
	std.out.Printf("%s\n", vkey)
	std.err.Printf("%s holds the new key; introduce it with \"daybook key introduce\"\n", c.File)
	return nil
}

// createKey creates a signing key in a file that does not exist.
func createKey(path, name string) (vkey string, err error) {
	_, vkey, err = keyfile.Create(path, name)
	if errors.Is(err, fs.ErrExist) {
		return "", usageError{fmt.Errorf("%s exists and is not overwritten; name another file", path)}
	}
	return vkey, inputError(err)
}
