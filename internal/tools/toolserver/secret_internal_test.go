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
	// A short path of letters alone.
	if got := newScrubber(Config{URL: "http://localhost:3000/hunter"}).scrubLine("POST http://localhost:3000/hunter"); strings.Contains(got, "hunter") {
		t.Errorf("a short word: %s", got)
	}
}
