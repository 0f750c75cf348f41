package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"daybook/embed"
	"daybook/internal/redact"
	"daybook/internal/web/client"
)

type monitorCmd struct {
	Server    string        `required:"" help:"Server to watch." placeholder:"URL"`
	Keys      []string      `name:"key" sep:"none" help:"Verification key to trust, as in the file audit/vkey, or a file of keys; may be repeated. Default: the keys in --log." placeholder:"KEY"`
	Log       string        `name:"log" required:"" help:"Directory that keeps the trusted keys and the checkpoints, which each later one must agree with." placeholder:"DIR" env:"-"`
	Every     time.Duration `help:"Time between two rounds." default:"1m" placeholder:"DURATION" env:"-"`
	Once      bool          `help:"Do one round and exit with its status."`
	Policy    string        `name:"witness-policy" help:"File with the witnesses that must have cosigned a checkpoint that covers the events, and how many of them must (C2SP tlog-policy)." placeholder:"FILE" env:"-"`
	Samples   int           `help:"Events that each round reads and compares with the checkpoint, besides the newest one." default:"20" placeholder:"N" env:"-"`
	Signers   int           `help:"Number of signers that must cover the newest events with checkpoints, as in daybook verify." default:"1" placeholder:"N" env:"-"`
	Tenant    string        `help:"Tenant whose events the server shows, if the token may read those of one tenant only. Their samples are compared, not what other tenants recorded." placeholder:"NAME" env:"-"`
	MaxAge    time.Duration `name:"max-age" help:"Maximum age of the newest event that a checkpoint covers, or with --witness-policy of the cosignatures; 0 accepts any age." default:"0" placeholder:"DURATION" env:"-"`
	Patience  time.Duration `help:"Time for which the server may give no answer." default:"15m" placeholder:"DURATION" env:"-"`
	Webhook   string        `help:"URL that receives each alert by POST, as JSON." placeholder:"URL"`
	Token     string        `help:"Bearer token, if the server requires one. Flags are visible to other users; prefer $DAYBOOK_TOKEN or --token-file." placeholder:"TOKEN"`
	TokenFile string        `help:"File that holds the bearer token." placeholder:"FILE"`
	CA        string        `name:"ca" help:"File of PEM certificates to trust for https, besides those of the system." placeholder:"FILE"`
	Insecure  bool          `help:"Send the token to another machine over plain HTTP, unencrypted."`
	JSON      bool          `help:"Print the report of each round as a line of JSON."`
}

// Help is shown by "daybook monitor --help".
func (c *monitorCmd) Help() string {
	return "Watches the proof of a server. Each round reads the newest checkpoint, verifies that it extends those that were kept in --log, and reads a sample of the events with their proofs. It changes nothing on the server. " +
		"Run it where the operator of the server cannot write. It finds a changed tree in the next round, and a changed event when a sample has it: verify everything from time to time, with daybook verify.\n\n" +
		"It ends at the first verdict that is not INTACT, and at an error, after it sent the report or the error to --webhook. A supervisor, such as systemd with OnFailure, can alert too.\n\n" +
		"Examples:\n\n" +
		"  daybook monitor --server http://127.0.0.1:8080 --key audit.vkey --log seen\n\n" +
		"  daybook monitor --server https://ledger.example.com --log seen --once --max-age 24h\n\n" +
		"  daybook monitor --server https://ledger.example.com --log seen --witness-policy policy --max-age 1h\n\n" +
		"Exit status: that of daybook verify, and\n\n" +
		"  0  It was stopped, or with --once: INTACT.\n\n" +
		"  5  The server gave no answer, or said that it cannot answer now, for longer than --patience; with --once, in this round."
}

// Validate checks the flags.
func (c *monitorCmd) Validate() error {
	if c.Signers < 1 {
		return errors.New("--signers must be at least 1")
	}
	if c.Every <= 0 || c.Samples < 0 || c.Patience < 0 || c.MaxAge < 0 {
		return errors.New("--every must be positive, --samples, --patience and --max-age not negative")
	}
	if u, err := url.Parse(c.Webhook); c.Webhook != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return fmt.Errorf("--webhook %q is not a URL with http:// or https://", redact.Address(c.Webhook))
	}
	return clientFlags{Server: c.Server}.Validate()
}

// Run watches until ctx is done or a verdict is not INTACT.
func (c *monitorCmd) Run(ctx context.Context, std *streams) error {
	keys, err := readVKeys("--key", c.Keys)
	if err != nil {
		return err
	}
	policy, err := readWitnessPolicy(c.Policy)
	if err != nil {
		return err
	}
	server := clientFlags{Server: c.Server, Token: c.Token, TokenFile: c.TokenFile, CA: c.CA, Insecure: c.Insecure}
	opts := embed.VerifyOptions{Server: server.get, ServerURL: c.Server, Keys: keys, Memory: c.Log, WitnessPolicy: policy, MaxAge: c.MaxAge, MinSigners: c.Signers, Tenant: c.Tenant}
	return c.watch(ctx, std, opts, roundTime)
}

// roundTime is the maximum time of a round. A server that never answers would stop the watch without it.
const roundTime = 5 * time.Minute

// watch does the rounds, each within limit.
func (c *monitorCmd) watch(ctx context.Context, std *streams, opts embed.VerifyOptions, limit time.Duration) error {
	answered := time.Now()
	for {
		report, err := watchOnce(ctx, opts, c.Samples, limit)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was stopped
		}
		silent := isNoAnswer(err)
		switch {
		case silent && !c.Once && time.Since(answered) <= c.Patience:
			fmt.Fprintln(std.err, "daybook: no answer:", err)
		case silent:
			return c.fail(ctx, std, err, alert{Verdict: "no_answer"})
		case err != nil:
			return c.fail(ctx, std, cmp.Or(verifyUsage(err), optionError(err)), alert{Verdict: "error", Report: report})
		default:
			answered = time.Now()
			printed := c.print(std, report)
			if !report.OK { // the alert does not depend on the output
				return c.end(std, verdictStatus[report.Verdict], errors.Join(printed, c.alert(ctx, alert{Verdict: string(report.Verdict), Report: report})))
			}
			if printed != nil {
				return c.fail(ctx, std, printed, alert{Verdict: "error"})
			}
		}
		if c.Once {
			return nil
		}
		select {
		case <-time.After(c.Every):
		case <-ctx.Done():
			return nil
		}
	}
}

// watchOnce does a round. If it takes longer than limit, the error is an *embed.AnswerError.
func watchOnce(ctx context.Context, opts embed.VerifyOptions, samples int, limit time.Duration) (*embed.Report, error) {
	round, stop := context.WithTimeout(ctx, limit)
	defer stop()
	report, err := embed.Watch(round, opts, samples)
	if err != nil && report == nil && round.Err() != nil && ctx.Err() == nil {
		return nil, &embed.AnswerError{Err: fmt.Errorf("%s did not complete a round within %s: %w", opts.ServerURL, limit, err)}
	}
	return report, err
}

// isNoAnswer reports whether the server gave no answer, or only said that it cannot answer now.
func isNoAnswer(err error) bool {
	refused, answered := errors.AsType[*client.Error](err)
	return isUnavailable(err) || answered && refused.IsTemporary()
}

// fail alerts that the watch ends with err, which it returns. It prints why an alert was not sent.
func (c *monitorCmd) fail(ctx context.Context, std *streams, err error, a alert) error {
	a.Error = err.Error()
	if unsent := c.alert(ctx, a); unsent != nil {
		fmt.Fprintln(std.err, "daybook:", unsent)
	}
	return err
}

// end returns the exit status of a verdict; 0 stands for NOT INTACT. It prints why the report was not printed
// or the alert not sent.
func (c *monitorCmd) end(std *streams, status int, failed error) error {
	if failed != nil {
		fmt.Fprintln(std.err, "daybook:", failed)
	}
	return exitError(cmp.Or(status, exitFailed))
}

// print prints the report of a round: a line, or all of it if it is not INTACT.
func (c *monitorCmd) print(std *streams, r *embed.Report) (err error) {
	switch {
	case c.JSON:
		var line []byte
		if line, err = json.Marshal(r); err == nil {
			err = std.out.WriteJSON(string(line))
		}
	case r.OK:
		_, err = fmt.Fprintf(std.out, "%s INTACT %d events signed, %d sampled\n", time.Now().UTC().Format(time.RFC3339), r.Signed, r.Events)
	default:
		_, err = fmt.Fprint(std.out, r)
	}
	return err
}

// alert is the body of a request to the webhook. Verdict is that of the report, "no_answer", or "error" if the
// watch ends for another reason.
type alert struct {
	Verdict string        `json:"verdict"`
	Source  string        `json:"source"`
	Report  *embed.Report `json:"report,omitempty"`
	Error   string        `json:"error,omitempty"`
}

// alertTime is the maximum time of a request to the webhook.
const alertTime = 30 * time.Second

// alert sends an alert about the server to the webhook, if there is one.
func (c *monitorCmd) alert(ctx context.Context, a alert) error {
	a.Source = c.Server
	if c.Webhook == "" {
		return nil
	}
	raw, err := json.Marshal(a)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, alertTime)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Webhook, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
		err = resp.Body.Close()
		if resp.StatusCode/100 != 2 {
			err = fmt.Errorf("it answered %s", resp.Status)
		}
	}
	if of, ok := errors.AsType[*url.Error](err); ok { // its text has the whole address
		err = of.Err
	}
	if err != nil {
		return fmt.Errorf("the alert did not reach --webhook: %w", err)
	}
	return nil
}
