package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const tokenForm = `dbk_[a-z2-7]{10}_[a-z2-7]{52}`

func TestToken(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	known := map[string]string{"dir": dir, "file": filepath.Join(t.TempDir(), "tokens"), "open": written(t, "open", "")}
	if err := os.Chmod(known["open"], 0o644); err != nil {
		t.Fatal(err)
	}
	play(t, known, []step{
		{args: `token list --file $file`, status: 1, stderr: "daybook: there is no token file $file: make one with \"daybook token create --file $file\"\n"},
		{args: `token create --file $file --principal ada --tenant acme`, stdout: "(?P<ada>" + tokenForm + ")\n", stderr: "token (?P<id>[a-z2-7]{10}) for ada of tenant acme, which may: read run; never expires\n"},
		{args: `token create --file $file --principal ops --scope admin --scope read --expires 720h`, stdout: tokenForm + "\n", stderr: "token .* of tenant default, which may: read admin; expires 20.*Z\n"},
		{args: `token list --file $file`, stdout: "ID +TENANT +PRINCIPAL +SCOPES +CREATED +STATE\n$id +acme +ada +read,run +20\\S+Z +never expires\n\\S+ +default +ops +read,admin +20\\S+Z +expires 20\\S+Z\n"},
		{args: `token revoke --file $file $id`, stderr: "token $id of ada, tenant acme, is revoked 20.*Z\n"},
		{args: `token revoke --file $file $id`, stderr: "token $id of ada, tenant acme, is revoked 20.*Z\n"},
		{args: `token revoke --file $file aaaaaaaaaa`, status: 1, stderr: "daybook: there is no token \"aaaaaaaaaa\" in $file; daybook token list shows the ids\n"},
		{args: `token list --file $file --json`, stdout: `\{\n  "tokens": \[\n    \{\n      "id": "$id",\n      "tenant": "acme".*"revoked": "20.*`},
		{args: `token create --file $file`, status: 2, stderr: "daybook: missing flags: --principal=NAME\n.*"},
		{args: `token create --file $file --principal a --scope all`, status: 2, stderr: "daybook: --scope: unknown scope \"all\"; the scopes are read, run and admin\n"},
		{args: `token create --file $file --principal a --tenant A.B`, status: 1, stderr: "daybook: tenant \"A.B\" is not 1 to 64 characters.*\n"},
		{args: `token create --file $file --principal a --expires=-1h`, status: 1, stderr: "daybook: expires .* is not in the future\n"},
		{args: `token list --file $open`, status: 1, stderr: "daybook: token file $open can be used by others than its owner \\(mode 0644\\): run chmod 600 .*\n"},
		{args: `token create --data-dir $dir --principal ada`, stdout: tokenForm + "\n", stderr: "token .*"},
		{args: `token list --data-dir $dir`, stdout: "ID .*\n.* ada .*\n"},
	})
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
		{args: `serve --data-dir $dir --auth yes`, status: 2, stderr: "daybook: --auth \"yes\": give tokens=FILE or oidc=ISSUER\n"},
		{args: `serve --data-dir $dir --auth tokens=`, status: 2, stderr: "daybook: --auth \"tokens=\": give .*\n"},
		{args: `serve --data-dir $dir --auth basic=x`, status: 2, stderr: "daybook: --auth \"basic=x\": give .*\n"},
		{args: `serve --data-dir $dir --auth tokens=a --auth tokens=b`, status: 2, stderr: "daybook: --auth tokens=... is given twice\n"},
		{args: `serve --data-dir $dir --auth oidc=https://login.example.com`, status: 2, stderr: "daybook: --auth oidc=ISSUER needs --auth-audience: .*\n"},
		{args: `serve --data-dir $dir --auth-audience x`, status: 2, stderr: "daybook: --auth-audience, .* need --auth oidc=ISSUER\n"},
		{args: `serve --data-dir $dir --limit-runs=-1`, status: 2, stderr: "daybook: a --limit-... is negative: 0 is unlimited\n"},
		{args: `serve --data-dir $dir --http-addr 127.0.0.1:0 --nats-addr off --auth tokens=$dir/none`, status: 1, stderr: "daybook: read who may come in: there is no token file .*\n"},
		{args: `serve --data-dir $dir --http-addr 127.0.0.1:0 --nats-addr off --auth oidc=http://login.example.com --auth-audience x`, status: 1, stderr: "daybook: read who may come in: OIDC issuer .* must be an https URL.*\n"},
	})
}
