package otherwitness_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3"
	"golang.org/x/mod/sumdb/note"

	"daybook/internal/dev/tier"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/internal/translog"
	"daybook/internal/translog/translogtest"
	"daybook/internal/witness"
	"daybook/proof"
)

const covered = "witnesses and clients of this module, in internal/witness and internal/translog"

// built is the directory of the programs, once they are built.
var built string

// tools builds the programs of testdata/tools once and returns their directory.
var tools = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "witnesstools")
	if err != nil {
		return "", err
	}
	built = dir
	cmd := exec.Command("go", "build", "-o", dir+"/", "filippo.io/torchwood/cmd/litewitness", "github.com/transparency-dev/tessera/cmd/examples/posix-oneshot", "./agent")
	cmd.Dir = filepath.Join("testdata", "tools")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the programs of other authors: %w\n%s", err, out)
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	status := m.Run()
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(status)
}

func tool(t *testing.T, name string) string {
	t.Helper()
	dir, err := tools()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// launch starts a program that ends with the test.
func launch(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(2 * time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited two minutes for %s", what)
		}
	}
}

// listeningAt returns the address at which a process listens on 127.0.0.1, or an empty string. litewitness does
// not print the port that the system chooses, and another process could take a port that the test chooses.
func listeningAt(t *testing.T, pid int) string {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d", pid)
	table, err := os.ReadFile(dir + "/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(dir + "/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	isOpen := map[string]bool{}
	for _, file := range files {
		target, _ := os.Readlink(file) // the file may be closed already
		isOpen[target] = true
	}
	for line := range strings.Lines(string(table)) {
		const address, state, inode, listening = 1, 3, 9, "0A"
		f := strings.Fields(line)
		if len(f) <= inode || f[state] != listening || !isOpen["socket:["+f[inode]+"]"] {
			continue
		}
		if port, ok := strings.CutPrefix(f[address], "0100007F:"); ok {
			n, err := strconv.ParseUint(port, 16, 16)
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprintf("127.0.0.1:%d", n)
		}
	}
	return ""
}

// TestListeningAt finds the port at which this process listens.
func TestListeningAt(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	if got := "http://" + listeningAt(t, os.Getpid()); got != server.URL {
		t.Errorf("%s, want %s", got, server.URL)
	}
}

// startLitewitness runs litewitness, which follows the log with a key. It returns its URL and its key.
func startLitewitness(t *testing.T, logKey string) (url string, key proof.WitnessKey) {
	t.Helper()
	const name = "witness.example/lite"
	seed := make([]byte, 32)
	_, _ = rand.Read(seed) // never fails
	signer, err := proof.NewWitnessSigner(name, seed)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "lite") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket, db := filepath.Join(dir, "agent"), filepath.Join(dir, "db")
	agent := exec.Command(tool(t, "agent"), socket, fmt.Sprintf("%x", seed))
	if _, err := agent.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := agent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	launch(t, agent)
	fingerprint, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	lite := exec.Command(tool(t, "litewitness"), "-name", name, "-db", db, "-ssh-agent", socket, "-key", strings.TrimSpace(fingerprint), "-listen", "127.0.0.1:0")
	lite.Stderr = t.Output()
	launch(t, lite)
	until(t, "litewitness", func() bool {
		url = "http://" + listeningAt(t, lite.Process.Pid)
		return url != "http://"
	})
	// witnessctl, which adds a log, needs a module that the module proxy does not serve.
	origin, _, _ := strings.Cut(logKey, "+")
	conn, err := sql.Open("sqlite3", db)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, statement := range []struct {
		text string
		args []any
	}{
		{"INSERT INTO log (origin, tree_size, tree_hash) VALUES (?, 0, ?)", []any{origin, "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="}},
		{"INSERT INTO key (origin, key) VALUES (?, ?)", []any{origin, logKey}},
	} {
		if _, err := conn.ExecContext(t.Context(), statement.text, statement.args...); err != nil {
			t.Fatal(err)
		}
	}
	return url, signer.Key()
}

// TestLitewitness lets litewitness cosign the checkpoints of a ledger, also after a restart of the ledger, and
// finds a ledger with another history and the same key.
func TestLitewitness(t *testing.T) {
	tier.NightlyOnly(t, covered)
	keyFile := filepath.Join(t.TempDir(), "key")
	first, err := translog.Open(translog.Options{Dir: t.TempDir(), KeyFile: keyFile, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	url, key := startLitewitness(t, first.VKey())
	text := "log " + first.VKey() + "\nwitness lite " + key.String() + " " + url + "\nquorum lite\n"
	path := filepath.Join(t.TempDir(), "policy")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	policy, err := proof.ParsePolicy([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	conflicts := make(chan *translog.WitnessConflict, 10)
	open := func(store *jetstream.Store, dir string) *translogtest.Running {
		return translogtest.Start(t, store, translog.Options{Dir: dir, KeyFile: keyFile, SignedFile: filepath.Join(dir, "signed"), WitnessPolicy: path, OnWitnessConflict: func(c *translog.WitnessConflict) { conflicts <- c }})
	}
	store, dir := storetest.Start(t), t.TempDir()
	for range 2 { // the second time without the file of the cosigned checkpoint: litewitness names the size
		log := open(store, dir)
		for range 2 {
			last := translogtest.Fill(t, store, 300)
			translogtest.Checkpoint(t, log, last)
			until(t, "a cosignature of litewitness", func() bool { c, _, ok := log.Cosigned(); return ok && c.Size >= last })
		}
		c, at, _ := log.Cosigned()
		if checked, err := policy.Check(c.Note); err != nil || !checked.Equal(at) || time.Since(at) > time.Minute {
			t.Errorf("%v, %v: %v\n%s", checked, at, err, c.Note)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, "cosigned")); err != nil {
			t.Fatal(err)
		}
	}
	if len(conflicts) > 0 {
		t.Fatalf("a conflict of a sound ledger: %v", <-conflicts)
	}
	for _, events := range []int{5, 2000} {
		other := storetest.Start(t)
		log := open(other, t.TempDir())
		translogtest.Checkpoint(t, log, translogtest.Fill(t, other, events))
		if c := <-conflicts; c.Witness != "lite" || c.Size == 0 {
			t.Errorf("%d events: %v", events, c)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTessera lets a log of tessera use a witness of this module. tessera publishes a checkpoint only if its policy
// is satisfied.
func TestTessera(t *testing.T) {
	tier.NightlyOnly(t, covered)
	skey, vkey, err := note.GenerateKey(rand.Reader, "example.com/tessera")
	if err != nil {
		t.Fatal(err)
	}
	w, err := witness.Open(witness.Options{Dir: t.TempDir(), Name: "witness.example/w1", Logs: []string{vkey}, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	server := httptest.NewServer(w.Handler())
	t.Cleanup(server.Close)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	text := "log " + vkey + "\nwitness w1 " + w.VKey() + " " + server.URL + "\ngroup g all w1\nquorum g\n"
	policy, err := proof.ParsePolicy([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	key, policyFile := write("skey", skey), write("policy", text)
	for round := range 3 {
		entries := write(fmt.Sprintf("entry-%d", round), fmt.Sprintf("entry %d", round))
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
		cmd := exec.CommandContext(ctx, tool(t, "posix-oneshot"), "--storage_dir", filepath.Join(dir, "log"), "--entries", entries, "--private_key", key, "--witness_policy_file", policyFile)
		out, err := cmd.CombinedOutput()
		stop()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		published, err := os.ReadFile(filepath.Join(dir, "log", "checkpoint"))
		if err != nil {
			t.Fatal(err)
		}
		if at, err := policy.Check(published); err != nil || time.Since(at) > time.Minute {
			t.Errorf("%v, %v\n%s", at, err, published)
		}
		resp, err := http.Get(server.URL + "/" + witness.OriginHash("example.com/tessera") + "/checkpoint") //nolint:noctx // the server ends with the test
		if err != nil {
			t.Fatal(err)
		}
		served, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !bytes.HasPrefix(served, fmt.Appendf(nil, "example.com/tessera\n%d\n", round+1)) {
			t.Errorf("%s, %v", served, err)
		}
	}
}
