package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"

	"daybook/internal/datadir"
	"daybook/internal/witness"
)

type witnessCmd struct {
	Listen string   `help:"Listen address. There is no authentication: see the help text before you listen beyond loopback." default:"127.0.0.1:7380" placeholder:"HOST:PORT"`
	State  string   `required:"" help:"State directory: the key and the newest checkpoint of each log. It is created if it does not exist. Never restore it from a backup." placeholder:"DIR"`
	Logs   []string `name:"log" sep:"none" required:"" help:"Verification key of a log to follow, as in the file audit/vkey, or a file of keys; may be repeated." placeholder:"KEY"`
	Name   string   `help:"Name of the key that the first start creates, such as witness.example.com/w1. Default: a random name." placeholder:"NAME"`
}

// Help is shown by "daybook witness --help".
func (c *witnessCmd) Help() string {
	return "A witness cosigns the checkpoints of the logs that it follows, each only if it extends the one before (C2SP tlog-witness). Run it on another machine, under another operator, than the ledger. " +
		"The first start creates a key; each start prints the verification key, which belongs into the policy of the server (daybook serve --witness-policy) and of everybody who verifies.\n\n" +
		"The interface is safe for untrusted clients: a request changes something only if the key of a followed log signed its checkpoint, and nothing that the witness serves is secret. It limits connections, bodies and time, but not the requests of one address. " +
		"Put a proxy with TLS in front of it to serve other machines.\n\n" +
		"Examples:\n\n" +
		"  daybook witness --state /var/lib/witness --log ledger.vkey --name witness.example.com/w1\n\n" +
		"Exit status:\n\n" +
		"  0  It was stopped.\n\n" +
		"  1  Its state is damaged or in use, or it cannot listen.\n\n" +
		"  2  The command line has a mistake, such as a mistyped key."
}

// Validate checks the address.
func (c *witnessCmd) Validate() error { return checkPort("--listen", c.Listen, "7380") }

// Run prints the key and serves until ctx is done.
func (c *witnessCmd) Run(ctx context.Context, std *streams) (err error) {
	std.serves = true
	keys, err := readVKeys("--log", c.Logs)
	if err != nil {
		return err
	}
	w, err := witness.Open(witness.Options{Dir: c.State, Name: c.Name, Logs: keys, Logger: slog.New(slog.NewTextHandler(std.err, nil))})
	switch {
	case errors.Is(err, witness.ErrBadOption):
		return usageError{err}
	case errors.Is(err, datadir.ErrLocked):
		return fmt.Errorf("the state directory %s is in use by another process (process %d); stop it, or choose another --state", c.State, datadir.OwnerPID(c.State))
	case err != nil:
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	if host, _, err := net.SplitHostPort(listener.Addr().String()); err == nil && !net.ParseIP(host).IsLoopback() {
		fmt.Fprintln(std.err, "daybook: the witness listens beyond loopback, without TLS and authentication")
	}
	_, _ = io.WriteString(std.out, fmt.Sprintf("witness key  %s\nlistening on http://%s\n", w.VKey(), listener.Addr()))
	return w.Serve(ctx, listener)
}

// mostFileBytes is the maximum length of a file that a command reads as a whole: a pipe or a device may have no end.
const mostFileBytes = 1 << 20

// readFile reads a file that may be a pipe.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, mostFileBytes+1))
	if err == nil && len(raw) > mostFileBytes {
		err = fmt.Errorf("%s is longer than %d bytes", path, mostFileBytes)
	}
	return raw, err
}

// readVKeys replaces files of verification keys by the keys in them. A value may also be the text of such a
// file, which has several lines after a rotation.
func readVKeys(flag string, given []string) ([]string, error) {
	var keys []string
	for _, key := range given {
		if strings.Count(key, "+") >= 2 { // name+hash+base64
			keys = append(keys, strings.Fields(key)...)
			continue
		}
		raw, err := readFile(key)
		if err != nil {
			advice := "give a key of the form name+hash+base64, or a file that holds one, such as audit/vkey in the data directory of the server"
			return nil, usageError{fmt.Errorf("%s %q is neither a verification key nor a file of them: %w; %s", flag, key, err, advice)}
		}
		found := strings.Fields(string(raw))
		if len(found) == 0 {
			return nil, usageError{fmt.Errorf("%s: the file %q holds no key", flag, key)}
		}
		keys = append(keys, found...)
	}
	return keys, nil
}
