package acp_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	sdk "github.com/coder/acp-go-sdk"
	"github.com/google/go-cmp/cmp"
)

// describeContent describes the content of a tool call.
func describeContent(t testing.TB, list []sdk.ToolCallContent) (all []string) {
	t.Helper()
	data := func(s string) string {
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			t.Error(err)
		}
		return fmt.Sprintf("%x", b)
	}
	// uri returns an address without the id of the execution.
	uri := func(s string) string {
		_, name, ok := strings.Cut(s, "/artifacts/")
		if !strings.HasPrefix(s, "execution://") || !ok {
			t.Errorf("the address is %q", s)
		}
		return name
	}
	for _, c := range list {
		switch b := c.Content.Content; {
		case b.Image != nil:
			all = append(all, fmt.Sprintf("image %s %s %s", uri(*b.Image.Uri), b.Image.MimeType, data(b.Image.Data)))
		case b.Audio != nil:
			all = append(all, fmt.Sprintf("audio %s %s", b.Audio.MimeType, data(b.Audio.Data)))
		case b.ResourceLink != nil:
			all = append(all, fmt.Sprintf("link %s %s %s %d", b.ResourceLink.Name, uri(b.ResourceLink.Uri), *b.ResourceLink.MimeType, *b.ResourceLink.Size))
		case b.Resource != nil && b.Resource.Resource.TextResourceContents != nil:
			r := b.Resource.Resource.TextResourceContents
			all = append(all, fmt.Sprintf("text %s %s %s", uri(r.Uri), *r.MimeType, r.Text))
		case b.Resource != nil:
			r := b.Resource.Resource.BlobResourceContents
			all = append(all, fmt.Sprintf("blob %s %s %s", uri(r.Uri), *r.MimeType, data(r.Blob)))
		default:
			all = append(all, b.Text.Text)
		}
	}
	return all
}

// endOf returns the update about the end of the run among updates.
func endOf(t testing.TB, list []sdk.SessionUpdate) *sdk.SessionToolCallUpdate {
	t.Helper()
	at := slices.IndexFunc(list, func(u sdk.SessionUpdate) bool { return u.ToolCallUpdate != nil })
	if at < 0 {
		t.Fatal("the run has no end")
	}
	return list[at].ToolCallUpdate
}

// TestArtifacts: the update about the end of a run has its artifacts, live and when the session
// is loaded. Artifacts of a run that fails are shown too.
func TestArtifacts(t *testing.T) {
	t.Parallel()
	p := shared(t)
	id := p.newSession()
	mark := p.mark()
	p.prompt(id, `
		artifact("a.png", "image/png", "replaced");
		artifact("a.png", "image/png", new Uint8Array([1, 2]));
		artifact("s", "audio/wav", new Uint8Array([3]));
		artifact("data.json", "application/json", "{}");
		artifact("../p q.svg", "image/svg+xml", "<svg/>");
		artifact("not utf8", "text/plain", new Uint8Array([255]));
		artifact("huge.png", "image/png", new Uint8Array(5 << 20));
		throw new Error("after all")`)
	live := updates(t, p.messagesSince(mark), id)
	end := endOf(t, live)
	got := describeContent(t, end.Content)
	want := []string{
		"image a.png image/png 0102", "audio audio/wav 03", "text data.json application/json {}", fmt.Sprintf("blob ..%%2Fp%%20q.svg image/svg+xml %x", "<svg/>"),
		"blob not%20utf8 text/plain ff", "link huge.png huge.png image/png 5242880",
		fmt.Sprintf("1 artifact is not in this answer, which has the bytes of at most 50 artifacts and 4 MiB. `daybook exec artifacts %s --save DIR` writes all artifacts of the run to files.", end.ToolCallId),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	raw, err := json.Marshal(end.RawOutput)
	if err != nil {
		t.Fatal(err)
	}
	var output struct {
		Artifacts []struct {
			Name, URI string
			MIME      string `json:"mime_type"`
			Size      int64  `json:"size_bytes"`
			Inline    bool
		}
	}
	if err := json.Unmarshal(raw, &output); err != nil || len(output.Artifacts) != 6 {
		t.Fatalf("%s, %v", raw, err)
	}
	if a := output.Artifacts[5]; a.Name != "huge.png" || a.MIME != "image/png" || a.Size != 5<<20 || a.Inline || a.URI != "execution://"+string(end.ToolCallId)+"/artifacts/huge.png" || !output.Artifacts[4].Inline {
		t.Errorf("%+v", output.Artifacts)
	}

	next := p.mark()
	p.prompt(id, "1")
	if end := endOf(t, updates(t, p.messagesSince(next), id)); end.Content != nil || strings.Contains(fmt.Sprint(end.RawOutput), "artifacts") {
		t.Errorf("a run without artifacts ends with %+v", end)
	}
	if texts := p.promptTexts(id, "/history"); len(texts) != 1 || !strings.Contains(texts[0], "failed, run "+string(end.ToolCallId)+", artifacts: 7\n") || strings.Count(texts[0], "artifacts: ") != 1 {
		t.Errorf("the history is %q", texts)
	}
	live = updates(t, p.messagesSince(mark), id)

	again := shared(t)
	again.mustCall("session/load", obj{"sessionId": id, "cwd": os.TempDir(), "mcpServers": []any{}}, nil)
	loaded := slices.DeleteFunc(updates(t, again.messagesSince(0), id), func(u sdk.SessionUpdate) bool { return u.UserMessageChunk != nil })
	if diff := cmp.Diff(asJSON(t, live), asJSON(t, loaded)); diff != "" {
		t.Errorf("the replay differs from the live updates:\n%.4000s", diff)
	}
}

// TestArtifactsFitMessage: the message with the most and longest artifacts stays within 10 MiB,
// the longest message that clients with the library accept. JSON writes each of these characters
// with six.
func TestArtifactsFitMessage(t *testing.T) {
	t.Parallel()
	p := shared(t)
	id := p.newSession()
	mark := p.mark()
	p.prompt(id, `
		for (let i = 0; i < 49; i++) artifact("é".repeat(126) + i, "text/plain", "\x01".repeat(16 << 10));
		artifact("a", "audio/x", new Uint8Array((4 << 20) - 49 * (16 << 10)));
		for (let i = 0; i < 2; i++) artifact("more " + i, "x/y", "z")`)
	longest := 0
	for _, m := range p.messagesSince(mark) {
		longest = max(longest, len(m.line))
	}
	t.Logf("the longest message has %d bytes", longest)
	if longest < 9<<20 || longest >= 10<<20 {
		t.Errorf("the longest message has %d bytes", longest)
	}
	content := describeContent(t, endOf(t, updates(t, p.messagesSince(mark), id)).Content)
	if n := len(content); n != 51 || !strings.HasPrefix(content[50], "2 artifacts are not in this answer") {
		t.Errorf("%d blocks, the last one is %.200s", n, content[n-1])
	}
}
