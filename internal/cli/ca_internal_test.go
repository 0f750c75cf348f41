package cli

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"daybook/embed"
	"daybook/internal/web/client"
)

// TestCA sends a request to a server whose certificate the system does not trust.
func TestCA(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(embed.APIHeader, "1")
		_, _ = io.WriteString(w, `{"executions":[]}`)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // the refused handshakes
	server.StartTLS()
	t.Cleanup(server.Close)
	trusted, empty := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "empty.pem")
	raw := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for name, content := range map[string][]byte{trusted: raw, empty: nil} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		ca, want string
		status   int
	}{
		{"", "name the certificate of the server, or of its authority, with --ca FILE or DAYBOOK_CA", exitUnavailable},
		{trusted, "", exitOK},
		{empty, "holds no certificate in PEM", exitUsage},
		{empty + ".none", "no such file", exitUsage},
	} {
		_, err := clientFlags{Server: server.URL, CA: c.ca}.api().Executions(t.Context(), client.ExecutionFilter{})
		var said strings.Builder
		if status := exitStatus(err, &said); status != c.status || !strings.Contains(said.String(), c.want) {
			t.Errorf("--ca %q: status %d, %s", c.ca, status, said.String())
		}
	}
}
