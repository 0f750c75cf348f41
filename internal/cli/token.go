package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"daybook/internal/cli/terminal"
	"daybook/internal/web/access"
)

type tokenCmd struct {
	Create tokenCreateCmd `cmd:"" help:"Create a token and print it once."`
	List   tokenListCmd   `cmd:"" help:"List tokens without their secrets."`
	Revoke tokenRevokeCmd `cmd:"" help:"Revoke a token; servers refuse it within a second."`
}

// tokenFlags are the flags of the commands about a token file. These commands need no
// running server.
type tokenFlags struct {
	File    string `help:"Token file. Default: tokens.jsonl in the data directory." placeholder:"FILE"`
	DataDir string `help:"Data directory of the server." default:"${datadir}" placeholder:"DIR"`
}

func (f tokenFlags) path() string {
	if f.File != "" {
		return f.File
	}
	return filepath.Join(f.DataDir, "tokens.jsonl")
}

type tokenCreateCmd struct {
	tokenFlags
	Tenant    string        `help:"Tenant whose data the token gives access to: 1 to 64 characters of a-z, 0-9, _ and -." default:"default" placeholder:"NAME"`
	Principal string        `required:"" help:"Principal that the token is for; recorded with all of its actions." placeholder:"NAME"`
	Scopes    []string      `name:"scope" help:"Scopes of the token: read, run, sign, admin; may be repeated." default:"read,run" placeholder:"SCOPE"`
	Expires   time.Duration `help:"Lifetime, such as 720h. Default: unlimited." placeholder:"DURATION"`
	Out       string        `help:"New file for the token, readable only by its owner; an existing file is not overwritten. Default: stdout." placeholder:"FILE"`
}

// Help is shown by "daybook token create --help".
func (c *tokenCreateCmd) Help() string {
	return "Only the token is written to stdout or to the file of --out. It is stored nowhere else; the token file holds its hash. " +
		"The token file is created if it does not exist; without --file the data directory must be that of a server. " +
		"Start the server with \"daybook serve --auth tokens=FILE\", and give the token to clients as DAYBOOK_TOKEN or in an Authorization header."
}

func (c *tokenCreateCmd) Run(std *streams) error {
	scopes, err := scopesOf(c.Scopes)
	if err != nil {
		return usageError{fmt.Errorf("--scope: %w", err)}
	}
	now := time.Now()
	g := access.Grant{Tenant: c.Tenant, Principal: c.Principal, Scopes: scopes}
	if c.Expires != 0 {
		g.Expires = now.Add(c.Expires)
	}
	if c.File == "" {
		if err := checkLedgerIn(c.DataDir, "the token file with --file"); err != nil {
			return inputError(err)
		}
	}
	out, err := c.openOut()
	if err != nil {
		return inputError(err)
	}
	secret, t, err := access.CreateToken(c.path(), g, now)
	if err != nil {
		return inputError(errors.Join(err, removeEmptyFile(out)))
	}
	if out != nil {
		_, err = fmt.Fprintln(out, secret)
		if err = errors.Join(err, out.Close()); err != nil {
			return fmt.Errorf("write the token: %w; token %s is unusable; revoke it", err, t.ID)
		}
	}
	std.err.Printf("token %s for %s of tenant %s, which may: %s; %s\n", t.ID, t.Principal, t.Tenant, t.Scopes, expiryText(t))
	if out == nil {
		_, err = fmt.Fprintln(std.out, secret)
	}
	return err
}

// openOut creates the file for the token before the token exists, so that no token is
// lost. It returns nil without --out.
func (c *tokenCreateCmd) openOut() (*os.File, error) {
	if c.Out == "" {
		return nil, nil
	}
	f, err := os.OpenFile(c.Out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, fmt.Errorf("--out %s: the file exists and is not overwritten; name another one", c.Out)
	case err != nil:
		return nil, fmt.Errorf("--out: %w", err)
	}
	return f, nil
}

// removeEmptyFile removes a file that was created for a token but not written. f may be
// nil.
func removeEmptyFile(f *os.File) error {
	if f == nil {
		return nil
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func scopesOf(names []string) (access.Scopes, error) {
	list := make([]access.Scope, len(names))
	for i, n := range names {
		list[i] = access.Scope(n)
	}
	return access.NewScopes(list...)
}

// expiryText describes when a token ends or ended.
func expiryText(t access.Token) string {
	switch {
	case t.Revoked != nil:
		return "revoked " + t.Revoked.Format(time.RFC3339)
	case t.Expires == nil:
		return "never expires"
	case time.Now().After(*t.Expires):
		return "expired " + t.Expires.Format(time.RFC3339)
	default:
		return "expires " + t.Expires.Format(time.RFC3339)
	}
}

type tokenListCmd struct {
	tokenFlags
	JSON bool `help:"Print JSON."`
}

// listedToken is a token without its hash.
type listedToken struct {
	ID        string        `json:"id"`
	Tenant    string        `json:"tenant"`
	Principal string        `json:"principal"`
	Scopes    access.Scopes `json:"scopes"`
	Created   time.Time     `json:"created"`
	Expires   *time.Time    `json:"expires"`
	Revoked   *time.Time    `json:"revoked"`
}

// Run prints one token per line, oldest first.
func (c *tokenListCmd) Run(std *streams) error {
	list, err := access.ListTokens(c.path(), time.Now())
	if err != nil {
		return inputError(err)
	}
	if c.JSON {
		answer := struct {
			Tokens []listedToken `json:"tokens"`
		}{[]listedToken{}}
		for _, t := range list {
			answer.Tokens = append(answer.Tokens, listedToken{t.ID, t.Tenant, t.Principal, t.Scopes, t.Created, t.Expires, t.Revoked})
		}
		return std.out.PrintJSON(answer)
	}
	w := terminal.Table(std.out, "ID", "TENANT", "PRINCIPAL", "SCOPES", "CREATED", "STATE")
	for _, t := range list {
		w.Row(t.ID, t.Tenant, t.Principal, strings.ReplaceAll(t.Scopes.String(), " ", ","), t.Created.Format(time.RFC3339), expiryText(t))
	}
	return w.Flush()
}

type tokenRevokeCmd struct {
	tokenFlags
	ID string `arg:"" help:"Id of the token, the part between the underscores, or a unique prefix." placeholder:"ID"`
}

// Run revokes the token.
func (c *tokenRevokeCmd) Run(_ context.Context, std *streams) error {
	t, err := access.RevokeToken(c.path(), c.ID, time.Now())
	if err != nil {
		return inputError(err)
	}
	std.err.Printf("token %s of %s, tenant %s, is %s\n", t.ID, t.Principal, t.Tenant, expiryText(t))
	return nil
}
