package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"daybook/embed"
)

type verifyCmd struct {
	DataDir   string   `help:"Verify the ledger in this directory; through the process that owns it, if there is one." default:"${datadir}" placeholder:"DIR"`
	Server    string   `help:"Verify what a running server answers instead." placeholder:"URL"`
	Export    string   `help:"Verify an export instead: nothing else is needed." placeholder:"DIR" env:"-"`
	Keys      []string `name:"key" sep:"none" help:"Trust only this verification key, as in the file audit/vkey, or a file of keys; may be repeated. Without it the keys found beside the data are believed." placeholder:"KEY"`
	Token     string   `help:"Bearer token, if the server wants one. Other users can see flags: rather use the environment variable or --token-file." placeholder:"TOKEN"`
	TokenFile string   `help:"File that holds the bearer token." placeholder:"FILE"`
	Insecure  bool     `help:"Send the token to another machine over http, where anybody on the way can read it."`
	KeyDir    string   `name:"key-dir" help:"Directory of the keys that sessions are encrypted under, if it was moved since the server ran." placeholder:"DIR"`
	SkipBlobs bool     `help:"Do not read heaps and texts."`
	JSON      bool     `help:"Print JSON instead of text for people."`
}

// Help is shown by "daybook verify --help".
func (c *verifyCmd) Help() string {
	return "Computes everything anew and compares: the Merkle tree of all events with every signed checkpoint, signatures, positions, the hashes of heaps and of output, " +
		"and the rules that every sound ledger keeps.\n\nExit status: 0 everything holds, 1 something does not, or could not be read, 2 mistake in the command line, a mistyped key included, " +
		"6 everything else holds, but no checkpoint is signed with the keys given."
}

// Validate checks the flags against each other.
func (c *verifyCmd) Validate(kctx *kong.Context) error {
	if c.Server != "" && c.Export != "" && isGiven(kctx, "server") {
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
	p := newProgress(std.err, "verified")
	opts := embed.VerifyOptions{DataDir: c.DataDir, Export: c.Export, ServerURL: c.Server, Keys: keys, KeyDir: c.KeyDir, SkipBlobs: c.SkipBlobs, Progress: p.show}
	if c.Server != "" {
		client := clientFlags{Server: c.Server, Token: c.Token, TokenFile: c.TokenFile, Insecure: c.Insecure}
		opts.Server, opts.ServerPost = client.get, client.post
	}
	report, err := embed.Verify(ctx, opts)
	if errors.Is(err, embed.ErrLocked) {
		client := clientFlags{DataDir: c.DataDir, Token: c.Token, TokenFile: c.TokenFile}
		opts.Server, opts.ServerPost, opts.ServerURL = client.get, client.post, "the process that owns "+c.DataDir
		report, err = embed.Verify(ctx, opts)
	}
	p.clear()
	if errors.Is(err, embed.ErrBadKey) {
		return usageError{fmt.Errorf("--key: %w", err)}
	}
	if err != nil {
		return err
	}
	if c.JSON {
		err = std.out.printJSON(report)
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

// readKeys resolves files of keys.
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
