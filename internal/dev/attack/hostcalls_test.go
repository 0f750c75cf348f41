package attack_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"
)

// largeTools is an MCP server whose tools return many bytes. It generates an answer while
// it sends it.
func largeTools(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Name            string `json:"name"`
			ProtocolVersion string `json:"protocolVersion"`
			Arguments       struct {
				Bytes int `json:"bytes"`
			} `json:"arguments"`
		} `json:"params"`
	}
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil || m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	size := m.Params.Arguments.Bytes
	var start, piece, end string
	switch m.Method + " " + m.Params.Name {
	case "initialize ":
		start = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"large","version":"1"}}`
	case "tools/list ":
		start = `{"tools":[`
		for i, name := range []string{"text", "lists", "events", "trickle"} {
			if i > 0 {
				start += ","
			}
			start += fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name)
		}
		start += `]}`
	case "tools/call text", "tools/call events", "tools/call trickle":
		start, piece, end = `{"content":[{"type":"text","text":"`, "abcdefgh", `"}]}`
	case "tools/call lists": // many values of few bytes
		start, piece, end = `{"content":[],"structuredContent":{"a":[[]`, ",[]", `]}}`
	default:
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
		return
	}
	head := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":`, m.ID)
	if m.Params.Name == "events" {
		w.Header().Set("Content-Type", "text/event-stream")
		head, end = "event: message\ndata: "+head, end+"}\n\n"
	} else {
		end += "}"
	}
	io.WriteString(w, head+start)
	fill := bytes.Repeat([]byte(piece), 8<<10)
	for sent := 0; sent < size && r.Context().Err() == nil; sent += len(fill) {
		if _, err := w.Write(fill[:min(len(fill), (size-sent)/len(piece)*len(piece))]); err != nil || len(fill) > size-sent {
			break
		}
		if m.Params.Name == "trickle" {
			w.(http.Flusher).Flush()
			time.Sleep(20 * time.Millisecond)
		}
	}
	io.WriteString(w, end)
}

// The memory of the server stays within its limit while tools return many large answers
// at once. Another tenant is answered meanwhile.
func TestHostCalls(t *testing.T) {
	attack(t, "TestLargeAnswersTakeMemory in internal/tools/toolserver")
	runInParallel(t)
	s := startServer(t, "--mcp-server=large="+serveLocal(t, http.HandlerFunc(largeTools))+"/mcp")
	tokens := []string{s.token("attacker0", "read,run"), s.token("attacker1", "read,run")}[:choose(1, 2)]
	quiet := s.token("quiet", "read,run")
	s.probe(quiet, 3)
	idle := s.memory()
	const mib = 1 << 20
	for _, kind := range []struct {
		tool     string
		size     int
		answered bool // an answer may have 4 MiB
	}{{"lists", 3 * mib, true}, {"text", 15 * mib, false}, {"text", 3 * mib, true}, {"lists", 15 * mib, false}, {"events", 15 * mib, false}, {"trickle", 15 * mib, false}}[:choose(2, 6)] {
		name := fmt.Sprintf("%s of %d MiB", kind.tool, kind.size>>20)
		stop := s.peak()
		rounds := choose(1, 4)
		code := fmt.Sprintf(`let n = 0, failed = 0, other = "";
const call = () => mcp.large.%s({ bytes: %d }).then(() => { n++ }, (e) => { /at most 4194304|no answer within/.test(e) ? failed++ : other = String(e).slice(0, 300) });
for (let i = 0; i < %d; i++) await Promise.all(Array.from({ length: 16 }, call));
[n, failed, other]`, kind.tool, kind.size, rounds)
		ids := make([]string, len(tokens))
		for i, token := range tokens {
			ids[i] = s.submit(token, code, map[string]any{"heap_memory_max_mb": 256, "execution_timeout_secs": 300})
		}
		s.probe(quiet, 3)
		want := fmt.Sprintf(`[0,%d,""]`, 16*rounds)
		if kind.answered {
			want = fmt.Sprintf(`[%d,0,""]`, 16*rounds)
		}
		for i, token := range tokens {
			if e := s.wait(token, ids[i]); e["result"] != want {
				t.Errorf("%s: the run is %v with %.500v %.500v, want %s", name, e["status"], e["result"], e["error"], want)
			}
		}
		s.checkGrowth(name, idle, stop())
	}
	s.probe(quiet, 1)
}
