// Docgen generates docs/events.md and the reference under docs/reference from the code:
// eventdoc describes the events, internal/cli/reference.go the commands, and httpapi the
// operations.
// CI runs it and fails if a file changes.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"daybook/httpapi"
	"daybook/internal/cli"
	"daybook/internal/dev/docgen/eventdoc"
)

func main() {
	if err := run("docs", "events"); err != nil {
		fmt.Fprintln(os.Stderr, "docgen:", err)
		os.Exit(1)
	}
}

func run(docs, catalog string) error {
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
