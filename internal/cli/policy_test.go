package cli_test

import (
	"os"
	"path/filepath"
	"testing"
)

func TestPolicyTest(t *testing.T) {
	t.Parallel()
	const text = `package mcp.fetch
default allow := false
allow if {
	input.method == "GET"
	input.url_parsed.host == "api.example.com"
	not input.headers["x-bad"]
}
allow if input.tenant == "acme"
`
	policy := written(t, "fetch.rego", text)
	dir := t.TempDir()
	for name, text := range map[string]string{"a.rego": "package mcp.fetch\nallow if data.lib.good", "b.rego": "package lib\ngood if input.url_parsed.path == \"/a\""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	chains := t.TempDir()
	for name, text := range map[string]string{
		"get.rego": "package mcp.fetch\ndefault allow := false\nallow if input.method == \"GET\"", "host.rego": "package mcp.fetch\ndefault allow := false\nallow if input.url_parsed.host == \"h\"",
		"all.json": `{"fetch":{"mode":"all","policies":[{"url":"file://get.rego"},{"url":"file://host.rego"}]}}`, "any.json": `{"fetch":{"mode":"any","policies":[{"url":"file://get.rego"},{"url":"file://host.rego"}]}}`,
		"none.json": `{"fetch":{"policies":[]}}`, "tools.json": `{"mcp_tools":{"policies":[]}}`,
	} {
		if err := os.WriteFile(filepath.Join(chains, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	known := map[string]string{
		"chains": chains,
		"policy": policy, "dir": dir, "other": written(t, "other.rego", "package other\nallow := true"), "send": written(t, "send.rego", "package mcp.fetch\nallow if http.send({}).x"),
		"old": written(t, "old.rego", "package mcp.fetch\nallow {\n\tinput.x\n}"), "text": written(t, "text.rego", `package mcp.fetch`+"\n"+`allow := "yes"`), "input": written(t, "input.json", `{"tenant":"acme"}`), "bad": written(t, "bad.json", `[]`),
	}
	const by = " by rule data\\.mcp\\.fetch\\.allow of policy [0-9a-f]{64}\n"
	play(t, known, []step{
		{args: `policy test $policy https://api.example.com/x`, stdout: "allowed" + by + "  fetch\\.rego:3: rule allow is true\n"},
		{args: `policy test $policy HTTPS://API.example.com:443/`, stdout: "allowed" + by + ".*\n"},
		{args: `policy test $policy https://api.example.com/ --method post`, status: 1, stdout: "denied" + by + "  fetch\\.rego:4: not true: input\\.method == \"GET\"\n  fetch\\.rego:8: not true: input\\.tenant == \"acme\"\n"},
		{args: `policy test $policy https://api.example.com/ --header X-Bad:1`, status: 1, stdout: "denied" + by + "(?s:.*)fetch\\.rego:6: not true: not input\\.headers(?s:.*)"},
		{args: `policy test $policy https://evil.example/ --tenant acme`, stdout: "allowed" + by + "  fetch\\.rego:8: rule allow is true\n"},
		{args: `policy test $policy --input $input`, stdout: "allowed" + by + ".*\n"},
		{args: `policy test $policy https://api.example.com/ --json`, stdout: `\{"allowed":true,"input":\{"actor":"anonymous".*"url":"https://api\.example\.com/".*\},"policy_sha256":"[0-9a-f]{64}","problem":"","rule":"data\.mcp\.fetch\.allow","why":\["fetch\.rego:3: rule allow is true"\]\}` + "\n"},
		{args: `policy test $dir http://h/a`, stdout: "allowed" + by + "(?s:.*)"},
		{args: `policy test $dir http://h/b`, status: 1, stdout: "denied" + by + "  data\\.mcp\\.fetch\\.allow is undefined for this input\n(?s:.*)"},
		{args: `policy test $text http://h/`, status: 1, stdout: "denied" + by + "  data\\.mcp\\.fetch\\.allow is of type string and not a boolean\n(?s:.*)"},
		{args: `policy test $other http://h/`, status: 2, stderr: "daybook: the policy has no rule data\\.mcp\\.fetch\\.allow: its files have package other, and the rule belongs to package mcp\\.fetch\n"},
		{args: `policy test $other http://h/ --rule data.other.allow`, stdout: "allowed by rule data\\.other\\.allow .*\n(?s:.*)"},
		{args: `policy test $send http://h/`, status: 2, stderr: "daybook: compile policy: send\\.rego:2: built-in function http\\.send is refused in policies: it uses the network\n"},
		{args: `policy test $old http://h/`, status: 2, stderr: "daybook: parse policy: old\\.rego:2: .*opa fmt(?s:.*)"},
		{args: `policy test $policy ftp://h/`, status: 2, stderr: "daybook: the URL must begin with http:// or https://\n"},
		{args: `policy test $policy http://h/ --header nocolon`, status: 2, stderr: "daybook: --header \"nocolon\": the form is NAME:VALUE\n"},
		{args: `policy test $policy`, status: 2, stderr: "daybook: give either a URL or --input\n"},
		{args: `policy test $policy --input $bad`, status: 2, stderr: "daybook: --input .*: it must be a JSON object.*\n"},
		{args: `policy test $chains/all.json http://h/`, stdout: "allowed" + by + "  get\\.rego: allowed" + by + "    get\\.rego:3: rule allow is true\n  host\\.rego: allowed" + by + "    host\\.rego:3: rule allow is true\n"},
		{args: `policy test $chains/all.json http://h/ --method POST`, status: 1, stdout: "denied" + by + "  get\\.rego: denied" + by + "    get\\.rego:3: not true: input\\.method == \"GET\"\n"},
		{args: `policy test $chains/any.json http://h/ --method POST`, stdout: "allowed" + by + "  get\\.rego: denied" + by + "    get\\.rego:3: .*\n  host\\.rego: allowed" + by + "    host\\.rego:3: rule allow is true\n"},
		{args: `policy test $chains/any.json http://i/ --method POST`, status: 1, stdout: "denied" + by + "  get\\.rego: denied" + by + ".*\n  host\\.rego: denied" + by + ".*\n"},
		{args: `policy test $chains/any.json http://h/ --json`, stdout: `.*"policy_sha256":"[0-9a-f]{64}","problem":"","rule":"data\.mcp\.fetch\.allow","why":\["get\.rego: allowed by .*","  get\.rego:3: rule allow is true"\]\}` + "\n"},
		{args: `policy test $chains/none.json http://h/`, status: 1, stdout: "denied by rule none of policy [0-9a-f]{64}\n  there is no policy\n"},
		{args: `policy test $chains/tools.json http://h/`, status: 2, stderr: "daybook: read policies .*tools\\.json: member \"mcp_tools\": policies decide about fetch only; remove the member\n"},
		{args: `policy test $dir.none http://h/`, status: 2, stderr: "daybook: read policy: .*no such file or directory\n"},
	})
}
