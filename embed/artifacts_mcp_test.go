package embed_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/embed"
)

// contentOf describes the content of an answer after its first block.
func contentOf(list []sdk.Content) (all []string) {
	for _, c := range list[1:] {
		switch c := c.(type) {
		case *sdk.ImageContent:
			all = append(all, fmt.Sprintf("image %s %x", c.MIMEType, c.Data))
		case *sdk.AudioContent:
			all = append(all, fmt.Sprintf("audio %s %x", c.MIMEType, c.Data))
		case *sdk.EmbeddedResource:
			all = append(all, fmt.Sprintf("resource %s %s %q %x", strings.TrimPrefix(c.Resource.URI, "execution://"), c.Resource.MIMEType, c.Resource.Text, c.Resource.Blob))
		case *sdk.ResourceLink:
			all = append(all, fmt.Sprintf("link %s %s %d", strings.TrimPrefix(c.URI, "execution://"), c.MIMEType, *c.Size))
		default:
			all = append(all, fmt.Sprintf("%T", c))
		}
	}
	return all
}

const artifactsForClients = `
	artifact("a.png", "image/png", "replaced");
	artifact("a.png", "image/png", new Uint8Array([1, 2]));
	artifact("s", "audio/wav", new Uint8Array([3]));
	artifact("data:1.json", "application/json", "{}");
	artifact("../p q.svg", "image/svg+xml", "<svg/>");
	artifact("not utf8", "text/plain", new Uint8Array([255]));
	artifact("long", "text/plain", "x".repeat(16385));
	artifact("huge.png", "image/png", new Uint8Array(5 << 20));
	1`

// MCP clients get images, audio and short texts in the answer about a run, and addresses of
// the other artifacts.
func TestArtifactsOverMCP(t *testing.T) {
	t.Parallel()
	for _, stateless := range []bool{false, true} {
		book := start(t, embed.Options{Runs: embed.RunOptions{Stateless: stateless}, HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}})
		ss, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(within(t), &sdk.StreamableClientTransport{Endpoint: book.URL() + "/mcp"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer ss.Close()
		arguments := map[string]any{"code": artifactsForClients}
		if !stateless {
			arguments["wait_secs"] = 60
		}
		res, err := ss.CallTool(within(t), &sdk.CallToolParams{Name: "run_js", Arguments: arguments})
		if err != nil || res.IsError {
			t.Fatalf("%v, %+v", err, res)
		}
		raw, _ := json.Marshal(res.StructuredContent)
		var answer struct {
			ID        string `json:"execution_id"`
			Artifacts []struct {
				Name, URI string
				Size      int64 `json:"size_bytes"`
				Inline    bool
			}
		}
		if err := json.Unmarshal(raw, &answer); err != nil || len(answer.Artifacts) != 7 || answer.Artifacts[0].Size != 2 || !answer.Artifacts[0].Inline || answer.Artifacts[6].Inline {
			t.Errorf("stateless %t: %s, %v", stateless, raw, err)
		}
		want := []string{
			"image image/png 0102", "audio audio/wav 03", `resource ID/artifacts/data%3A1.json application/json "{}" `, "link ID/artifacts/..%2Fp%20q.svg image/svg+xml 6",
			`resource ID/artifacts/not%20utf8 text/plain "" ff`, "link ID/artifacts/long text/plain 16385", "link ID/artifacts/huge.png image/png 5242880",
		}
		if stateless { // nothing can be read later
			want[3] = `resource ID/artifacts/..%2Fp%20q.svg image/svg+xml "" ` + fmt.Sprintf("%x", "<svg/>")
			want[5] = `resource ID/artifacts/long text/plain "` + strings.Repeat("x", 16385) + `" `
			want = want[:6]
		}
		list := contentOf(res.Content)
		for i := range list {
			_, rest, _ := strings.Cut(list[i], "/artifacts/")
			if kind, at, found := strings.Cut(strings.Split(list[i], "/artifacts/")[0], " "); found && rest != "" && len(at) == 36 {
				list[i] = kind + " ID/artifacts/" + rest
			}
		}
		if got := strings.Join(list, "\n"); got != strings.Join(want, "\n") {
			t.Errorf("stateless %t: %.3000s\nwant\n%.3000s", stateless, got, strings.Join(want, "\n"))
		}
		if stateless {
			continue
		}
		again, err := ss.CallTool(within(t), &sdk.CallToolParams{Name: "get_execution", Arguments: map[string]any{"execution_id": answer.ID}})
		if err != nil || len(again.Content) != 8 {
			t.Errorf("%d blocks of get_execution, %v", len(again.Content), err)
		}
		for _, a := range answer.Artifacts {
			read, err := ss.ReadResource(within(t), &sdk.ReadResourceParams{URI: a.URI})
			if err != nil || len(read.Contents) != 1 || int64(len(read.Contents[0].Blob)+len(read.Contents[0].Text)) != a.Size {
				t.Errorf("%s: %v", a.URI, err)
			}
		}
		if _, err := ss.ReadResource(within(t), &sdk.ReadResourceParams{URI: "execution://" + answer.ID + "/artifacts/none"}); err == nil {
			t.Error("an artifact that does not exist is read")
		}
	}
}
