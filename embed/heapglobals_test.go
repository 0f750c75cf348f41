package embed_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"daybook/embed"
	"daybook/internal/globals"
	"daybook/internal/web/access"
)

// A tenant lists the globals of its heaps, and no other tenant learns that they exist. Nothing is
// recorded, the heap stays as it is, and no code in it runs.
func TestHeapGlobalsOfTenants(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, embed.Options{DataDir: t.TempDir()})
	onlyRead, err := access.NewScopes(access.Read)
	if err != nil {
		t.Fatal(err)
	}
	acme, other, reader := g.token("acme", "ada", access.AllScopes), g.token("other", "bob", access.AllScopes), g.token("acme", "eve", onlyRead)
	g.await(reader)
	heap := g.runFor(acme, "let secret = 'canary'; globalThis.trap = new Proxy({ n: 1 }, { get() { console.log('ran'); throw 1 } }); 1")
	g.runFor(other, "let mine = 1; mine")
	_, before := g.ask(reader, http.MethodGet, "/api/ledger/blobs/heaps/"+heap, "")
	// Events of the whole ledger, such as checkpoints, may be recorded at any time.
	eventsOfAcme := func() []string {
		_, text := g.ask(acme, http.MethodGet, "/api/events", "", "Accept", "application/x-ndjson")
		return slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return !strings.Contains(line, `"tenant":"acme"`) })
	}
	eventsBefore := eventsOfAcme()
	path := "/api/heaps/" + heap + "/globals"
	status, text := g.ask(reader, http.MethodGet, path, "")
	var list globals.List
	if err := json.Unmarshal([]byte(text), &list); err != nil || status != http.StatusOK || len(list.Globals) != 2 || list.Globals[0].Preview != "'canary'" || list.Globals[1].Preview != "{ n: 1 }" || list.Globals[1].Class != "Proxy" {
		t.Errorf("%d %s, %v", status, text, err)
	}
	if _, after := g.ask(reader, http.MethodGet, "/api/ledger/blobs/heaps/"+heap, ""); after != before || len(after) < 1000 {
		t.Errorf("the heap of %d bytes has %d now", len(before), len(after))
	}
	if after := eventsOfAcme(); len(after) != 3 || !slices.Equal(after, eventsBefore) {
		t.Errorf("%d events before, afterwards %s", len(eventsBefore), strings.Join(after, "\n"))
	}
	unknown := strings.Repeat("de", 32)
	status, text = g.ask(other, http.MethodGet, path, "")
	wantStatus, want := g.ask(other, http.MethodGet, "/api/heaps/"+unknown+"/globals", "")
	if status != http.StatusNotFound || wantStatus != status || strings.ReplaceAll(text, heap, unknown) != want || strings.Contains(text, "canary") {
		t.Errorf("another tenant reads %d %s, and of no heap %d %s", status, text, wantStatus, want)
	}
	if status, text := g.ask("", http.MethodGet, path, ""); status != http.StatusUnauthorized {
		t.Errorf("without a token: %d %s", status, text)
	}
}
