package cli_test

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"daybook/embed"
)

const tokenForm = `dbk_[a-z2-7]{10}_[a-z2-7]{52}`

func TestToken(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	known := map[string]string{"dir": dir, "file": filepath.Join(t.TempDir(), "tokens"), "open": written(t, "open", ""), "nowhere": filepath.Join(t.TempDir(), "nowhere")}
	if err := os.MkdirAll(filepath.Join(dir, "jetstream"), 0o700); err != nil { // as a server creates it
		t.Fatal(err)
	}
	known["out"] = filepath.Join(t.TempDir(), "ada.token")
	if err := os.Chmod(known["open"], 0o644); err != nil {
		t.Fatal(err)
	}
	play(t, known, []step{
		{args: `token list --file $file`, status: 2, stderr: "daybook: there is no token file $file: make one with \"daybook token create --file $file\"\n"},
		{args: `token create --file $file --principal ada --tenant acme`, stdout: "(?P<ada>" + tokenForm + ")\n", stderr: "token (?P<id>[a-z2-7]{10}) for ada of tenant acme, which may: read run; never expires\n"},
		{args: `token create --file $file --principal ops --scope admin --scope read --expires 720h`, stdout: tokenForm + "\n", stderr: "token .* of tenant default, which may: read admin; expires 20.*Z\n"},
		{args: `token list --file $file`, stdout: "ID +TENANT +PRINCIPAL +SCOPES +CREATED +STATE\n$id +acme +ada +read,run +20\\S+Z +never expires\n\\S+ +default +ops +read,admin +20\\S+Z +expires 20\\S+Z\n"},
		{args: `token revoke --file $file $id`, stderr: "token $id of ada, tenant acme, is revoked 20.*Z\n"},
		{args: `token revoke --file $file $id`, stderr: "token $id of ada, tenant acme, is revoked 20.*Z\n"},
		{args: `token revoke --file $file aaaaaaaaaa`, status: 2, stderr: "daybook: there is no token \"aaaaaaaaaa\" in $file; daybook token list shows the ids\n"},
		{args: `token list --file $file --json`, stdout: `\{\n  "tokens": \[\n    \{\n      "id": "$id",\n      "tenant": "acme".*"revoked": "20.*`},
		{args: `token create --file $file`, status: 2, stderr: "daybook: missing flags: --principal=NAME\n.*"},
		{args: `token create --file $file --principal a --scope all`, status: 2, stderr: "daybook: --scope: unknown scope \"all\"; the scopes are read, run, sign and admin\n"},
		{args: `token create --file $file --principal a --tenant A.B`, status: 2, stderr: "daybook: tenant \"A.B\" is not 1 to 64 characters.*\n"},
		{args: `token create --file $file --principal a --expires=-1h`, status: 2, stderr: "daybook: expires .* is not in the future\n"},
		{args: `token list --file $open`, status: 2, stderr: "daybook: token file $open is accessible to other users \\(mode 0644\\); run chmod 600 .*\n"},
		{args: `token create --data-dir $dir --principal ada`, stdout: tokenForm + "\n", stderr: "token .*"},
		{args: `token list --data-dir $dir`, stdout: "ID .*\n.* ada .*\n"},
		{args: `token create --data-dir $nowhere --principal ada`, status: 2, stderr: "daybook: there is no ledger in $nowhere: name the data directory of the server with --data-dir, or the token file with --file; .*\n"},
		{args: `nats credentials create --data-dir $nowhere --tenant acme`, status: 2, stderr: "daybook: there is no ledger in $nowhere: name the data directory of the server with --data-dir; .*\n"},
		{args: `nats credentials list --data-dir $nowhere`, status: 2, stderr: "daybook: there is no ledger in $nowhere: .*\n"},
		{args: `nats credentials rotate --data-dir $nowhere acme`, status: 2, stderr: "daybook: there is no ledger in $nowhere: .*\n"},
		{args: `nats credentials revoke --data-dir $nowhere acme`, status: 2, stderr: "daybook: there is no ledger in $nowhere: .*\n"},
		{args: `token create --file $file --principal bob --tenant A.B --out $out`, status: 2, stderr: "daybook: tenant .*\n"},
		{args: `token create --file $file --principal bob --out $out`, stderr: "token .* for bob .*\n"},
		{args: `token create --file $file --principal eve --out $out`, status: 2, stderr: "daybook: --out $out: the file exists and is not overwritten; name another one\n"},
		{args: `token list --file $file`, stdout: "ID .* bob [^\n]*\n"},
	})
	if _, err := os.Stat(known["nowhere"]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a refused command created the directory: %v", err)
	}
	if info, err := os.Stat(known["out"]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of --out: %v, %v", info, err)
	}
	if raw, err := os.ReadFile(known["out"]); err != nil || !regexp.MustCompile("^"+tokenForm+"\n$").Match(raw) {
		t.Errorf("the file of --out holds %q, %v", raw, err)
	}
	raw, err := os.ReadFile(known["file"])
	if err != nil {
		t.Fatal(err)
	}
	listed := daybook("", "token", "list", "--json", "--file", known["file"]).stdout
	for name, text := range map[string]string{"file": string(raw), "list": listed} {
		if secret := known["ada"][15:]; strings.Contains(text, secret) {
			t.Errorf("the %s holds the secret", name)
		}
	}
	if strings.Contains(listed, "sha256") {
		t.Error("the list shows hashes")
	}
}

func TestAuthMistakes(t *testing.T) {
	t.Parallel()
	play(t, map[string]string{"dir": filepath.Join(t.TempDir(), "data")}, []step{
		{args: `serve --data-dir $dir --auth yes`, status: 2, stderr: "daybook: --auth \"yes\": give tokens=FILE or oidc=ISSUER\n.*"},
		{args: `serve --data-dir $dir --auth tokens=`, status: 2, stderr: "daybook: --auth \"tokens=\": give .*\n.*"},
		{args: `serve --data-dir $dir --auth basic=x`, status: 2, stderr: "daybook: --auth \"basic=x\": give .*\n.*"},
		{args: `serve --data-dir $dir --auth tokens=a --auth tokens=b`, status: 2, stderr: "daybook: --auth tokens=... is given twice\n.*"},
		{args: `serve --data-dir $dir --auth oidc=https://login.example.com`, status: 2, stderr: "daybook: --auth oidc=ISSUER needs --auth-audience: .*\n.*"},
		{args: `serve --data-dir $dir --auth-audience x`, status: 2, stderr: "daybook: --auth-audience, .* need --auth oidc=ISSUER\n.*"},
		{args: `serve --data-dir $dir --limit-runs=-1`, status: 2, stderr: "daybook: --limit-runs is -1: the range is 0 to 1000000000, 0 is unlimited; for example --limit-runs 10000\n.*"},
		{args: `serve --data-dir $dir --memory-budget 8796093022208`, status: 2, stderr: "daybook: --memory-budget is 8796093022208: the range is 64 to 1048576 MiB; for example --memory-budget 512\n.*"},
		{args: `serve --data-dir $dir --disk-reserve 17592186044416`, status: 2, stderr: "daybook: --disk-reserve is 17592186044416: the range is 0 to 1073741824 MiB, 0 keeps nothing free; for example --disk-reserve 256\n.*"},
		{args: `serve --data-dir $dir --http-addr 127.0.0.1:0 --nats-addr off --auth tokens=$dir/none`, status: 2, stderr: "daybook: set up the authentication: --auth tokens: there is no token file .*\n"},
		{args: `serve --data-dir $dir --http-addr 127.0.0.1:0 --nats-addr off --auth oidc=http://login.example.com --auth-audience x`, status: 2, stderr: "daybook: set up the authentication: --auth oidc: OIDC issuer .* must be an https URL.*\n"},
	})
}

// TestTokenIsSent sends requests to a server that requires a token.
func TestTokenIsSent(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens")
	known := map[string]string{"file": file, "two": written(t, "two", "a\nb\n"), "gone": filepath.Join(t.TempDir(), "gone")}
	play(t, known, []step{
		{args: `token create --file $file --principal ada`, stdout: "(?P<token>" + tokenForm + ")\n", stderr: "token (?P<id>\\S+) .*"},
		{args: `token create --file $file --principal eve --scope read`, stdout: "(?P<reader>" + tokenForm + ")\n", stderr: "token .*"},
		{args: `token create --file $file --principal ops --scope admin`, stdout: "(?P<admin>" + tokenForm + ")\n", stderr: "token .*"},
	})
	known["held"] = written(t, "held", known["token"]+"\n")
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	book, err := embed.Start(ctx, embed.Options{DataDir: t.TempDir(), HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}, NATS: embed.NATSOptions{NoSync: true}, Runs: embed.RunOptions{DrainWait: -1}, Access: embed.AccessOptions{TokenFile: file}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := book.Close(); err != nil {
			t.Error(err)
		}
	})
	known["url"], known["begin"] = book.URL(), known["id"][:6]
	known["fresh"], known["part"] = filepath.Join(t.TempDir(), "root"), filepath.Join(t.TempDir(), "part")
	known["key"], known["seen"] = book.AuditKey(), filepath.Join(t.TempDir(), "seen")
	play(t, known, []step{
		{args: `run -e 1+1` + at, status: 2, stderr: "daybook: this needs a token: name its file with --token-file, or set DAYBOOK_TOKEN\n"},
		{args: `run -e 1+1 --token $token` + at, stdout: "2\n", stderr: "status: completed.*"},
		{args: `run -e 1+1 --token-file $held` + at, stdout: "2\n", stderr: "status: completed.*"},
		{args: `exec list --token $reader` + at, stdout: "EXECUTION .*\n.* completed .*\n.* completed .*\n"},
		{args: `run -e 1+1 --token $reader` + at, status: 2, stderr: "daybook: this needs the scope \"run\"; the token has \"read\": .*\n"},
		{args: `status --token $admin` + at, status: 2, stderr: "daybook: this needs the scope \"read\"; the token has \"admin\": .*\n"},
		{args: `status --token $reader` + at, stdout: "No damage found in the ledger.\n.*"},
		{args: `run -e 1+1 --token-file $two` + at, status: 2, stderr: "daybook: --token-file $two: the file must hold one token and nothing else\n"},
		{args: `run -e 1+1 --token-file $gone` + at, status: 2, stderr: "daybook: --token-file: open $gone: .*\n"},
		{args: `run -e 1+1 --token a --token-file $held` + at, status: 2, stderr: "daybook: give --token or --token-file, not both\n"},
		{args: `run -e 1+1 --token $token --server http://192.0.2.1:1`, status: 2, stderr: "daybook: --server http://192.0.2.1:1: refusing to send a token over plain HTTP.*https.*--insecure.*\n"},
		{args: `verify --key $key --token $reader` + at, status: 2, stderr: "daybook: --tenant: .* verify this part with --tenant default; no token reads all tenants, so verify the whole ledger .*--data-dir\\)\n"},
		{args: `monitor --key $key --log $seen --once --token $reader` + at, status: 2, stderr: "daybook: --tenant: .* verify this part with --tenant default; .*\n"},
		{args: `monitor --key $key --log $seen --once --tenant default --token $reader` + at, stdout: `\S+ INTACT \d+ events signed, \d+ sampled\n`},
		{args: `monitor --key $key --log $seen --once --tenant acme --token $reader` + at, status: 2, stderr: "daybook: --tenant: .*\n"},
		{args: `key root $fresh --token $reader` + at, status: 2, stderr: "daybook: this needs the scope \"admin\"; .*\n"},
		{args: `volume seal --token $admin` + at, stdout: "Sealed volume 1, .*\n"},
		{args: `volume export 1 $part --token $reader` + at, stdout: "Exported .*"},
		{args: `volume remove 1 --export $part --token $admin` + at, status: 2, stderr: "daybook: .* has only the events of tenant \"default\": stop the server and export those of all tenants with \"daybook events export OUT --data-dir DIR --from FIRST --to LAST\" .*\n"},
		{args: `token revoke --file $file 0`, status: 2, stderr: "daybook: there is no token \"0\" in .*\n"},
		{args: `token revoke --file $file $begin`, stderr: "token .* is revoked .*"},
		{eventually: true, args: `exec list --token $token` + at, status: 2, stderr: "daybook: the token $id was revoked on .*\n"},
	})
	if _, err := os.Stat(known["fresh"]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a refused root key leaves its file: %v", err)
	}
}

// A flag takes precedence over a token from the environment.
func TestTokenFromTheEnvironment(t *testing.T) {
	t.Setenv("DAYBOOK_TOKEN", "from-the-environment")
	known := map[string]string{"held": written(t, "held", "from-the-file\n")}
	asked := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Daybook-Api", "1")
		asked <- r.Header.Get("Authorization")
		_, _ = w.Write([]byte(`{"sessions":[],"items":[]}`))
	}))
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	known["url"] = server.URL
	for args, want := range map[string]string{
		`session list` + at:                     "Bearer from-the-environment",
		`session list --token-file $held` + at:  "Bearer from-the-file",
		`session list --token from-a-flag` + at: "Bearer from-a-flag",
	} {
		play(t, known, []step{{args: args, stdout: ".*"}})
		if got := <-asked; got != want {
			t.Errorf("daybook %s sent %q, want %q", args, got, want)
		}
	}
}
