package cli_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"daybook/embed"
)

// Paths of clients that CI installs; see .ci/subscribers.
var (
	natsCLI = flag.String("nats-cli", "", "the nats command")
	node    = flag.String("node", "", "the node command")
	nodeDir = flag.String("node-dir", "", "folder of the packages for node")
)

var snippetBlock = regexp.MustCompile("(?ms)^```(sh|python|js|go)( \\w+)?\n(.*?)^```$")

// Every snippet of the guide to events works unchanged, except for the address of the server.
// Snippets that follow the ledger show new events, and recorded ones if they start there.
func TestGuideToEvents(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "subscribing.md"))
	if err != nil {
		t.Fatal(err)
	}
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	data := t.TempDir() // XDG_DATA_HOME of the snippets
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	book, err := embed.Start(ctx, embed.Options{
		DataDir: filepath.Join(data, "daybook"), HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}, NATS: embed.NATSOptions{Addr: "127.0.0.1:0", NoSync: true}, Runs: embed.RunOptions{DrainWait: -1}, Slots: embed.SlotOptions{Total: 2}, Webhooks: embed.WebhookOptions{AllowPrivate: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := book.Close(); err != nil {
			t.Error(err)
		}
	})
	before := runIn(t, book, "demo")
	g := &guide{book: book, bin: bin, data: data, before: before}
	count := map[string]int{}
	for _, m := range snippetBlock.FindAllStringSubmatch(string(raw), -1) {
		kind := m[1] + strings.TrimSpace(m[2])
		if kind == "shsetup" {
			g.setup = m[3]
			continue
		}
		count[kind]++
		t.Run(fmt.Sprintf("%s %d", kind, count[kind]), func(t *testing.T) { g.try(t, kind, m[3]) })
	}
	for kind, least := range map[string]int{"sh": 3, "python": 1, "shnats": 3, "js": 1, "go": 1, "shrotate": 1, "shtenant": 1, "pythonwebhook": 1, "shreplay": 1} {
		if count[kind] < least {
			t.Errorf("%d snippets of the kind %s", count[kind], kind)
		}
	}
}

// runIn runs a script in a session and waits until it is logged.
func runIn(t *testing.T, book *embed.Daybook, session string) (execution string) {
	t.Helper()
	known := map[string]string{"url": book.URL()}
	play(t, known, []step{
		{args: `run --detach -e 1 --session ` + session + at, stdout: "(?P<id>" + uuid + ")\n"},
		{args: `exec watch $id` + at, stdout: "1\n", stderr: ".*"},
		{eventually: true, args: `session log ` + session + ` --json` + at, stdout: ".*$id.*"},
	})
	return known["id"]
}

type guide struct {
	book                     *embed.Daybook
	bin, data, setup, before string
}

// try runs a snippet like a reader of the guide.
func (g *guide) try(t *testing.T, kind, text string) {
	at := strings.NewReplacer("http://127.0.0.1:8080", g.book.URL(), "nats://127.0.0.1:4222", g.book.NATSURL())
	text = at.Replace(text)
	dir := t.TempDir()
	var cmd *exec.Cmd
	live := true
	switch kind {
	case "shrotate":
		g.rotate(t, text)
		return
	case "shtenant":
		g.tenant(t, text)
		return
	case "sh", "shnats", "shreplay":
		needs(t, "bash", "curl")
		live = !strings.Contains(text, "consumer next") && kind != "shreplay" && (strings.Contains(text, "follow=true") || strings.Contains(text, "event-stream") || kind == "shnats")
		if kind == "shnats" {
			given(t, *natsCLI)
		}
		if kind == "shreplay" {
			text = strings.ReplaceAll(text, "--speed max", "--speed max --server "+g.book.URL())
		}
		cmd = exec.Command("bash", "-c", at.Replace(g.setup)+text)
		cmd.Env = append(cmd.Env, "PATH="+filepath.Dir(*natsCLI)+":"+filepath.Dir(g.bin)+":"+os.Getenv("PATH"))
	case "python":
		needs(t, "python3")
		cmd = exec.Command("python3", written(t, "follow.py", text))
	case "js":
		given(t, *node)
		given(t, *nodeDir)
		path := filepath.Join(*nodeDir, "guide-follow.mjs")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd = exec.Command(*node, path)
	case "go":
		bin := filepath.Join(dir, "follow")
		out, err := exec.Command("go", "build", "-o", bin, written(t, "main.go", text)).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		cmd = exec.Command(bin)
	case "pythonwebhook":
		g.tryReceiver(t, text)
		return
	default:
		t.Fatalf("a snippet of %s, which this test cannot check", kind)
	}
	if cmd.Env == nil {
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	}
	cmd.Env = append(cmd.Env, "XDG_DATA_HOME="+g.data, "HOME="+dir)
	cmd.Dir = dir
	shown := g.run(t, cmd)
	if !strings.Contains(text, "'events.default.>'") {
		shown.until(t, g.before, nil)
	}
	if live {
		// A subscription that does not exist yet misses events, so runs are started until it
		// shows one.
		shown.until(t, "", func() string { return runIn(t, g.book, "demo") })
	}
}

func needs(t *testing.T, commands ...string) {
	t.Helper()
	for _, c := range commands {
		if _, err := exec.LookPath(c); err != nil {
			t.Skipf("needs %s", c)
		}
	}
}

func given(t *testing.T, value string) {
	t.Helper()
	if value == "" {
		t.Skip("needs the clients that .ci/subscribers installs")
	}
}

// display is the output of a running snippet.
type display struct {
	lines chan string
	seen  *strings.Builder // what until has read
}

// run starts a snippet. It and its child processes end with the test.
func (g *guide) run(t *testing.T, cmd *exec.Cmd) display {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = t.Output()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	d := display{make(chan string, 100_000), &strings.Builder{}}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		defer close(d.lines)
		for in := bufio.NewReader(r); ; {
			line, err := in.ReadString('\n')
			if err != nil {
				_, _ = io.Copy(io.Discard, in)
				return
			}
			d.lines <- line
		}
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait() // it was killed
		r.Close()
		<-gone
	})
	return d
}

// until reads up to a line that contains a text. With more, it calls more each time that no line
// arrives for some time, and accepts any of the returned texts.
func (d display) until(t *testing.T, text string, more func() string) {
	t.Helper()
	var texts []string
	if text != "" {
		texts = append(texts, text)
	}
	late := time.After(patience)
	for {
		if more != nil {
			texts = append(texts, more())
		}
		quiet := time.After(300 * time.Millisecond)
		for again := true; again; {
			select {
			case line, ok := <-d.lines:
				if !ok {
					t.Fatalf("the snippet ended without %q:\n%s", texts, d.seen.String())
				}
				d.seen.WriteString(line)
				for _, text := range texts {
					if strings.Contains(line, text) {
						return
					}
				}
			case <-quiet:
				again = false
			case <-late:
				t.Fatalf("the snippet did not show %q", texts)
			}
		}
	}
}

// shell returns a command that runs commands of the guide, with the programs that they call in
// its PATH.
func (g *guide) shell(t *testing.T, text string) *exec.Cmd {
	t.Helper()
	needs(t, "bash")
	cmd := exec.Command("bash", "-c", text)
	cmd.Env = []string{"PATH=" + filepath.Dir(*natsCLI) + ":" + filepath.Dir(g.bin) + ":" + os.Getenv("PATH"), "XDG_DATA_HOME=" + g.data, "HOME=" + t.TempDir()}
	return cmd
}

// rotate replaces the key of the default credential. The snippets after it use the new key.
func (g *guide) rotate(t *testing.T, text string) {
	file := g.book.SubscriberCredentials()
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out, err := g.shell(t, text).Output()
	if err != nil || strings.TrimSpace(string(out)) != file {
		t.Fatalf("it prints %q, %v", out, err)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) == string(before) {
		t.Errorf("the key stays: %v", err)
	}
	g.accepted(t, file)
}

// accepted waits until the server accepts a credentials file.
func (g *guide) accepted(t *testing.T, file string) {
	t.Helper()
	for late := time.Now().Add(patience); ; {
		nc, err := nats.Connect(g.book.NATSURL(), nats.UserCredentials(file))
		if err == nil {
			nc.Close()
			return
		}
		if time.Now().After(late) {
			t.Fatal(err)
		}
	}
}

// tenant creates a credential for another tenant, which receives no events of the default one.
// That tenant has no events, so the snippet shows none.
func (g *guide) tenant(t *testing.T, text string) {
	commands, follow, _ := strings.Cut(text, "nats --server")
	data, _, _ := strings.Cut(text, "\n")
	out, err := g.shell(t, commands).Output()
	if err != nil || !strings.HasPrefix(string(out), filepath.Join(g.data, "daybook", "nats", "acme.creds")+"\n") || !strings.Contains(string(out), "acme") {
		t.Fatalf("it prints %q, %v", out, err)
	}
	g.accepted(t, filepath.Join(g.data, "daybook", "nats", "acme.creds"))
	given(t, *natsCLI)
	shown := g.run(t, g.shell(t, data+"\nnats --server "+strings.TrimSpace(follow)+" 2>&1"))
	shown.until(t, "Subscribing", nil)
	runIn(t, g.book, "demo")
	select {
	case line := <-shown.lines:
		t.Errorf("a subscriber of another tenant is shown %s", line)
	case <-time.After(300 * time.Millisecond):
	}
}

// tryReceiver sends deliveries to the receiver of the guide.
func (g *guide) tryReceiver(t *testing.T, text string) {
	needs(t, "python3")
	// A free port: the Python program would not report a port that it chose.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	known := map[string]string{"url": g.book.URL(), "to": "http://127.0.0.1:" + port + "/hook"}
	play(t, known, []step{{args: `webhook add $to --session demo` + at, stdout: "id      (?P<id>.*)\nsecret  (?P<secret>.*)\n", stderr: ".*"}})
	cmd := exec.Command("python3", written(t, "receive.py", strings.Replace(text, `("127.0.0.1", 8000)`, `("127.0.0.1", `+port+`)`, 1)))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "WEBHOOK_SECRET=" + known["secret"]}
	g.run(t, cmd).until(t, "", func() string { return runIn(t, g.book, "demo") })
	play(t, known, []step{{args: `webhook remove $id` + at, stdout: "ok\n"}})
}
