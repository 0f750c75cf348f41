// Docgen writes the reference under docs/reference from the code that it
// describes. CI runs it and fails when a file changes.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"daybook/httpapi"
	"daybook/internal/cli"
)

func main() {
	if err := run(filepath.Join("docs", "reference")); err != nil {
		fmt.Fprintln(os.Stderr, "docgen:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	commands, err := cli.Reference()
	if err != nil {
		return fmt.Errorf("describe the command line: %w", err)
	}
	api, err := httpapi.OpenAPI()
	if err != nil {
		return fmt.Errorf("describe the HTTP interface: %w", err)
	}
	for name, content := range map[string][]byte{"cli.md": commands, "openapi.json": api} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
