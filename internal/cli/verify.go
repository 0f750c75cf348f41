package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"daybook/embed"
	"daybook/internal/cli/settings"
	"daybook/internal/cli/terminal"
)

type verifyCmd struct {
	DataDir   string   `help:"Data directory of the ledger to verify, through the process that owns it, if any." default:"${datadir}" placeholder:"DIR"`
	Server    string   `help:"Server to verify instead of a data directory." placeholder:"URL"`
	Export    string   `help:"Directory of an export to verify instead, without a server." placeholder:"DIR" env:"-"`
	Keys      []string `name:"key" sep:"none" help:"Verification key to trust, as in the file audit/vkey, or a file of keys; may be repeated. Default: the keys beside the data." placeholder:"KEY"`
	Token     string   `help:"Bearer token, if the server requires one. Flags are visible to other users; prefer $DAYBOOK_TOKEN or --token-file." placeholder:"TOKEN"`
	TokenFile string   `help:"File that holds the bearer token." placeholder:"FILE"`
	CA        string   `name:"ca" help:"File of PEM certificates to trust for https, besides those of the system." placeholder:"FILE"`
	Insecure  bool     `help:"Send the token to another machine over plain HTTP, unencrypted."`
	KeyDir    string   `name:"key-dir" help:"Directory of the content keys, if it moved since the server ran." placeholder:"DIR"`
	SkipBlobs bool     `help:"Skip heaps and texts."`
	JSON      bool     `help:"Print JSON."`
}

// Help is shown by "daybook verify --help".
func (c *verifyCmd) Help() string {
	return "Recomputes the Merkle tree of all events and compares it with every signed checkpoint. Checks signatures, positions, the hashes of heaps and output, " +
		"and the rules of the ledger. Changes no event.\n\n" +
		"Examples:\n\n" +
		"  daybook verify\n\n" +
		"  daybook verify --server http://127.0.0.1:8080 --key audit.vkey\n\n" +
		"  daybook verify --export book\n\n" +
		"Exit status:\n\n" +
		"  0  Everything that was checked is intact. A ledger without events is intact: the report says that it is empty.\n\n" +
		"  1  Something is not intact (NOT INTACT), or it could not be read.\n\n" +
		"  2  The command line has a mistake, such as a mistyped key or a directory without a ledger or export, or the server refuses the request.\n\n" +
		"  5  The server does not answer, or cannot answer now.\n\n" +
		"  6  Everything is intact, but none of the keys given signed a checkpoint (WRONG KEY)."
}

// Validate checks the flags against each other.
func (c *verifyCmd) Validate(kctx *kong.Context) error {
	if c.Server != "" && c.Export != "" && settings.IsGiven(kctx, "server") {
		return errors.New("give --server or --export, not both")
	}
	if c.Server != "" {
		return clientFlags{Server: c.Server}.Validate()
	}
	return nil
}

// Run prints the verdict.
func (c *verifyCmd) Run(ctx context.Context, std *streams) error {
	keys, err := readKeys(c.Keys)
	if err != nil {
		return err
	}
	if c.Export != "" {
		if err := checkExportDir(c.Export); err != nil {
			return err
		}
	}
	p := terminal.NewProgress(std.err, "verified")
	opts := embed.VerifyOptions{DataDir: c.DataDir, Export: c.Export, ServerURL: c.Server, Keys: keys, KeyDir: c.KeyDir, SkipBlobs: c.SkipBlobs, Progress: p.Show}
	if c.Server != "" {
		client := clientFlags{Server: c.Server, Token: c.Token, TokenFile: c.TokenFile, CA: c.CA, Insecure: c.Insecure}
		opts.Server, opts.ServerPost = client.get, client.post
	}
	report, err := embed.Verify(ctx, opts)
	if errors.Is(err, embed.ErrLocked) {
		client := clientFlags{DataDir: c.DataDir, Token: c.Token, TokenFile: c.TokenFile}
		opts.Server, opts.ServerPost, opts.ServerURL = client.get, client.post, "the process that owns "+c.DataDir
		report, err = embed.Verify(ctx, opts)
	}
	p.Clear()
	if errors.Is(err, embed.ErrBadKey) {
		return usageError{fmt.Errorf("--key: %w", err)}
	}
	if err != nil {
		return optionError(err)
	}
	if c.JSON {
		err = std.out.PrintJSON(report)
	} else {
		_, err = fmt.Fprint(std.out, report)
	}
	switch {
	case err != nil || report.OK:
		return err
	case report.Verdict == embed.WrongKey:
		return exitError(exitWrongKey)
	default:
		return exitError(exitFailed)
	}
}

// readKeys replaces files of keys by the keys in them.
func readKeys(given []string) ([]string, error) {
	var keys []string
	for _, key := range given {
		if strings.Count(key, "+") >= 2 { // name+hash+base64
			keys = append(keys, key)
			continue
		}
		raw, err := os.ReadFile(key)
		if err != nil {
			return nil, usageError{fmt.Errorf("--key %q is neither a verification key nor a file of them: %w", key, err)}
		}
		keys = append(keys, strings.Fields(string(raw))...)
	}
	return keys, nil
}
