// Docgen generates docs/events.md and the reference under docs/reference from the code:
// eventdoc describes the events, internal/cli/reference.go the commands, and httpapi the
// operations. docs/compatibility.md has the verdicts of the conformance tests of the web platform.
// CI runs it and fails if a file changes.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"daybook/httpapi"
	"daybook/internal/cli"
	"daybook/internal/dev/docgen/eventdoc"
	"daybook/internal/dev/wpt"
)

func main() {
	if err := run("docs", "events", "internal/exec/v8/testdata/wpt"); err != nil {
		fmt.Fprintln(os.Stderr, "docgen:", err)
		os.Exit(1)
	}
}

func run(docs, catalog, conformance string) error {
	files, err := eventdoc.Files(catalog)
	if err != nil {
		return fmt.Errorf("describe the events: %w", err)
	}
	commands, err := cli.Reference()
	if err != nil {
		return fmt.Errorf("describe the command line: %w", err)
	}
	api, err := httpapi.OpenAPI()
	if err != nil {
		return fmt.Errorf("describe the HTTP interface: %w", err)
	}
	tests, err := wpt.Read(conformance)
	if err != nil {
		return fmt.Errorf("read the conformance tests: %w", err)
	}
	files["compatibility.md"] = wpt.Page(tests)
	files["reference/cli.md"], files["reference/openapi.json"] = commands, api
	// The schemas of removed types must not stay.
	schemas := filepath.Join(docs, "reference", "events")
	if err := os.RemoveAll(schemas); err != nil {
		return err
	}
	if err := os.MkdirAll(schemas, 0o755); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(docs, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
