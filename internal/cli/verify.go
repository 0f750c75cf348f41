package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alecthomas/kong"

	"daybook/embed"
	"daybook/internal/cli/settings"
	"daybook/internal/cli/terminal"
)

type verifyCmd struct {
	DataDir   string        `help:"Data directory of the ledger to verify, through the process that owns it, if any." default:"${datadir}" placeholder:"DIR"`
	Server    string        `help:"Server to verify instead of a data directory." placeholder:"URL"`
	Export    string        `help:"Directory of an export to verify instead, without a server." placeholder:"DIR" env:"-"`
	Keys      []string      `name:"key" sep:"none" help:"Verification key to trust, as in the file audit/vkey, or a file of keys; may be repeated. Default: the keys beside the data." placeholder:"KEY"`
	Kept      []string      `name:"checkpoint" sep:"none" help:"File of a checkpoint that was kept; the ledger must extend its tree; may be repeated." placeholder:"FILE" env:"-"`
	Log       string        `name:"log" help:"Directory that keeps the trusted keys and the checkpoint of each verification, which the next one must agree with." placeholder:"DIR" env:"-"`
	Policy    string        `name:"witness-policy" help:"File with the witnesses that must have cosigned a checkpoint that covers the events, and how many of them must (C2SP tlog-policy)." placeholder:"FILE" env:"-"`
	Signers   int           `help:"Number of signers that must cover the newest events with checkpoints. Keys of which one introduced the other count as one signer; keys that a given root key introduced count each." default:"1" placeholder:"N" env:"-"`
	MaxAge    time.Duration `name:"max-age" help:"Maximum age of the newest event that a checkpoint covers, or with --witness-policy of the cosignatures; 0 accepts any age." default:"0" placeholder:"DURATION" env:"-"`
	Tenant    string        `help:"Tenant whose events the server shows, if the token may read those of one tenant only. The part is verified, not what other tenants recorded." placeholder:"NAME" env:"-"`
	Token     string        `help:"Bearer token, if the server requires one. Flags are visible to other users; prefer $DAYBOOK_TOKEN or --token-file." placeholder:"TOKEN"`
	TokenFile string        `help:"File that holds the bearer token." placeholder:"FILE"`
	CA        string        `name:"ca" help:"File of PEM certificates to trust for https, besides those of the system." placeholder:"FILE"`
	Insecure  bool          `help:"Send the token to another machine over plain HTTP, unencrypted."`
	KeyDir    string        `name:"key-dir" help:"Directory of the content keys, if it moved since the server ran." placeholder:"DIR"`
	SkipBlobs bool          `help:"Skip heaps and texts."`
	JSON      bool          `help:"Print JSON."`
}

// Help is shown by "daybook verify --help".
func (c *verifyCmd) Help() string {
	return "Recomputes the Merkle tree of all events and compares it with every signed checkpoint. Checks signatures, positions, the hashes of heaps and output, " +
		"and the rules of the ledger. Changes no event.\n\n" +
		"Without --key, the key beside the data is used, which proves nothing against a person who can write the data. " +
		"With --log, each verification is compared with the checkpoints of the earlier ones. " +
		"With --witness-policy, enough witnesses must have cosigned a checkpoint that covers the events: an operator who shows others another history cannot get them. Without --key, the keys of the logs in the policy are trusted.\n\n" +
		"With --signers, that many servers of a cluster must have signed: who has stolen one signing key cannot forge the end of the ledger alone. Give a key of each signer, or the root key that introduced them.\n\n" +
		"Examples:\n\n" +
		"  daybook verify --key audit.vkey\n\n" +
		"  daybook verify --server http://127.0.0.1:8080 --key audit.vkey --log seen\n\n" +
		"  daybook verify --server http://127.0.0.1:8080 --log seen --max-age 24h\n\n" +
		"  daybook verify --server http://127.0.0.1:8080 --witness-policy policy --max-age 1h\n\n" +
		"  daybook verify --export book --key audit.vkey --checkpoint kept\n\n" +
		"Exit status:\n\n" +
		"  0  INTACT: everything that was checked is intact, and a checkpoint of a given key covers every event. A ledger without events is intact: the report says that it is empty.\n\n" +
		"  1  Something is not intact (NOT INTACT), or it could not be read.\n\n" +
		"  2  The command line has a mistake, such as a mistyped key or a directory without a ledger or export, or the server refuses the request.\n\n" +
		"  5  The server does not answer, or cannot answer now.\n\n" +
		"  6  Everything is intact, but none of the keys given signed a checkpoint (WRONG KEY).\n\n" +
		"  7  Everything is intact with the key beside the data; no key was given (UNAUTHENTICATED).\n\n" +
		"  8  Everything is intact, but no checkpoint of a given key covers the newest events, or the newest covered event is older than --max-age (INTACT UP TO n). With --signers, fewer signers cover the newest events. With --witness-policy, too few witnesses cosigned a checkpoint that covers the newest events, or the cosignatures are older than --max-age.\n\n" +
		"  9  A given key signed two histories that contradict each other (FORKED).\n\n" +
		"  10  A signed checkpoint covers more events than there are (ROLLED BACK)."
}

// Validate checks the flags against each other.
func (c *verifyCmd) Validate(kctx *kong.Context) error {
	if c.Signers < 1 {
		return errors.New("--signers must be at least 1")
	}
	if c.MaxAge < 0 {
		return errors.New("--max-age must not be negative")
	}
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
	keys, err := readVKeys("--key", c.Keys)
	if err != nil {
		return err
	}
	if c.Export != "" {
		if err := checkExportDir("--export", c.Export); err != nil {
			return err
		}
	}
	kept, err := readFiles(c.Kept)
	if err != nil {
		return err
	}
	policy, err := readWitnessPolicy(c.Policy)
	if err != nil {
		return err
	}
	p := terminal.NewProgress(std.err, "verified")
	opts := embed.VerifyOptions{DataDir: c.DataDir, Export: c.Export, ServerURL: c.Server, Keys: keys, Checkpoints: kept, Memory: c.Log, WitnessPolicy: policy, MaxAge: c.MaxAge, MinSigners: c.Signers, Tenant: c.Tenant, KeyDir: c.KeyDir, SkipBlobs: c.SkipBlobs, Progress: p.Show}
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
	if usage := verifyUsage(err); usage != nil && report == nil {
		return usage
	}
	if report == nil {
		return optionError(err)
	}
	if c.JSON {
		err = errors.Join(err, std.out.PrintJSON(report))
	} else {
		_, printed := fmt.Fprint(std.out, report)
		err = errors.Join(err, printed)
	}
	if err != nil || report.OK {
		return err
	}
	if status, ok := verdictStatus[report.Verdict]; ok {
		return exitError(status)
	}
	return exitError(exitFailed)
}

// readWitnessPolicy reads the file of --witness-policy. It returns nil if the flag is not given.
func readWitnessPolicy(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	policy, err := readFile(path)
	if err != nil {
		return nil, usageError{fmt.Errorf("--witness-policy: %w", err)}
	}
	return policy, nil
}

// verdictStatus has the exit status of each verdict that is neither INTACT nor NOT INTACT.
var verdictStatus = map[embed.Verdict]int{
	embed.WrongKey: exitWrongKey, embed.Unauthenticated: exitUnauthenticated, embed.IntactUpTo: exitIntactUpTo,
	embed.Forked: exitForked, embed.RolledBack: exitRolledBack,
}

// verifyUsage returns the error of a verification as a usage error that names the flag, or nil if no
// flag is the reason.
func verifyUsage(err error) error {
	if _, ok := errors.AsType[*embed.PolicyError](err); ok { // also for a key in it
		return usageError{fmt.Errorf("--witness-policy: %w", err)}
	}
	if errors.Is(err, embed.ErrBadKey) {
		return usageError{fmt.Errorf("--key: %w", err)}
	}
	if _, ok := errors.AsType[*embed.KnownError](err); ok {
		return usageError{fmt.Errorf("--checkpoint or --log: %w", err)}
	}
	if _, ok := errors.AsType[*embed.TenantError](err); ok {
		return usageError{fmt.Errorf("--tenant: %w", err)}
	}
	if _, ok := errors.AsType[*embed.SignersError](err); ok {
		return usageError{fmt.Errorf("--signers: %w", err)}
	}
	if _, ok := errors.AsType[*embed.MemoryError](err); ok {
		return usageError{fmt.Errorf("--log: %w", err)}
	}
	return nil
}

// readFiles reads the files of kept checkpoints.
func readFiles(paths []string) (list [][]byte, err error) {
	for _, path := range paths {
		raw, err := readFile(path)
		if err != nil {
			return nil, usageError{fmt.Errorf("--checkpoint: %w", err)}
		}
		list = append(list, raw)
	}
	return list, nil
}
