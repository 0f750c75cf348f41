package toolserver

import (
	"strings"
	"testing"
)

// Secrets are hidden wherever a configuration has them. Other values stay readable.
func TestScrub(t *testing.T) {
	t.Parallel()
	const secret = "s3cret-17"
	text := "run /usr/bin/npx -y files --port 8080 --max-tokens 4000 at http://localhost:3000/mcp, POST /api, " + secret
	for name, c := range map[string]Config{
		"an environment variable":        {Command: "npx", Env: map[string]string{"KEY": secret}},
		"a header":                       {URL: "http://localhost:3000/mcp", Headers: map[string]string{"Authorization": "Bearer " + secret}},
		"a flag with a value":            {Command: "npx", Args: []string{"-y", "files", "--port", "8080", "--max-tokens", "4000", "--api-key=" + secret}},
		"a flag before its value":        {Command: "npx", Args: []string{"--token", secret, "--port=8080"}},
		"an assignment":                  {Command: "npx", Args: []string{"-e", "DB_PASSWORD=" + secret}},
		"a header in an argument":        {Command: "npx", Args: []string{"--header", "Authorization: Bearer " + secret}},
		"a header of a flag":             {Command: "npx", Args: []string{"--header=Authorization: Bearer " + secret}},
		"an assignment of a flag":        {Command: "npx", Args: []string{"--env=DB_PASSWORD=" + secret}},
		"a URL of a header":              {Command: "npx", Args: []string{"-H", "X-Base: http://files:" + secret + "@localhost:3000/mcp"}},
		"another header":                 {Command: "npx", Args: []string{"-H", "X-Api-Key:" + secret}},
		"a URL in an argument":           {Command: "npx", Args: []string{"npx://files:" + secret + "@localhost:3000/mcp"}},
		"a URL of a flag":                {Command: "npx", Args: []string{"--url=http://localhost:3000/mcp?k=" + secret}},
		"a path in an argument":          {Command: "npx", Args: []string{"http://localhost:3000/mcp/" + secret}},
		"a query":                        {URL: "http://localhost:3000/mcp?k=" + secret},
		"a short path":                   {URL: "http://localhost:3000/" + secret},
		"a part of a path":               {URL: "http://localhost:3000/mcp/of/tenant/" + secret},
		"a part in the middle of a path": {URL: "http://localhost:3000/mcp/" + secret + "/sse"},
	} {
		got := newScrubber(c).scrubLine(text)
		if want := strings.TrimSuffix(text, secret) + redacted; got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	for name, args := range map[string][]string{
		"JSON":                           {`--config={"headers":{"Authorization":"Bearer ` + secret + `"},"port":"8080"}`},
		"JSON of an argument":            {"--config", `{"servers":[{"apiKeys":["` + secret + `"]}]}`},
		"an assignment in JSON":          {`["--env", "DB_PASSWORD=` + secret + `"]`},
		"a flag in JSON":                 {`["--token", "` + secret + `"]`},
		"a script of a shell":            {"-c", "export API_KEY=" + secret + "; exec files --port 8080"},
		"a quoted word of a shell":       {"-c", `curl -H "Authorization: Bearer ` + secret + `" http://localhost:3000/mcp`},
		"a flag of a shell":              {"-c", "exec npx -y files --token '" + secret + "' --port 8080 && true"},
		"a shell in a shell":             {"-c", `bash -c "npx files --api-key=` + secret + `"`},
		"a name in the plural":           {"--passwords=" + secret},
		"an acronym":                     {"-DDBPassword=" + secret},
		"a flag that turns another off":  {"--no-token", "files", "--token", secret},
		"a flag before the name of file": {"--token-file", "/api", "--password", secret},
	} {
		got := newScrubber(Config{Command: "sh", Args: args}).scrubLine(text)
		if want := strings.TrimSuffix(text, secret) + redacted; got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	// A secret of digits may be a number in JSON.
	for _, argument := range []string{`{"db":{"password":90210447}}`, `--config={"pins":{"passcodes":[1, 90210447]}}`} {
		if got := newScrubber(Config{Command: "npx", Args: []string{argument}}).scrubLine("login with 90210447 failed"); strings.Contains(got, "90210447") {
			t.Errorf("%s: %s", argument, got)
		}
	}
	// Values that look random are secrets under any name, and without one.
	for _, random := range []string{"ghp_16C7e42F292c6912E7710c838347Ae178B4a", "sk-proj-4f9aLq0ZxT", "q7Zk2Rw9Vb4Nf6Lp8Xc1", "4f9d2c1e-7a3b-4c5d-9e8f-0a1b2c3d4e5f", "eyJhbGciOiJIUzI1NiJ9.e30.x1y2z3"} {
		for _, args := range [][]string{{random}, {"-k", random}, {"--foo=" + random}, {"FOO=" + random}, {"-c", "FOO=" + random + " npx files"}, {`{"foo":"` + random + `"}`}} {
			if got := newScrubber(Config{Command: "npx", Args: args}).scrubLine("run with " + random); got != "run with "+redacted {
				t.Errorf("%q: %s", args, got)
			}
		}
	}
	// Other arguments stay readable.
	for _, args := range [][]string{
		{"--no-token", "files"}, {"--token-file", "/run/files"}, {"--token-file=/run/files"}, {"--token-type", "files"}, {"--tokenizer", "files"}, {"--max-tokens", "4000"}, {"--without-password", "files"}, {"--keyboard", "files"},
		{"@modelcontextprotocol/server-filesystem@2025.11.18"}, {"/usr/lib/python3.11/site-packages/files"}, {"--port", "8080"}, {"mcp-server-files-1.2.3"}, {"python3.11-files-2025.1.2"}, {"-c", "exec files --no-token --port 8080"},
		{`{"tokenizer":"files","max_tokens":4000}`},
	} {
		text := "run " + strings.Join(args, " ") + " files"
		if got := newScrubber(Config{Command: "npx", Args: args}).scrubLine(text); got != text {
			t.Errorf("%q: %s", args, got)
		}
	}
	// A short path of letters alone.
	if got := newScrubber(Config{URL: "http://localhost:3000/hunter"}).scrubLine("POST http://localhost:3000/hunter"); strings.Contains(got, "hunter") {
		t.Errorf("a short word: %s", got)
	}
}
