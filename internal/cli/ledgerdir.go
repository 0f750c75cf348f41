package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// checkLedgerIn returns an error unless dir is the data directory of a server. A server
// creates both files before it is ready. In another directory a command would report
// success, although no server reads what it wrote. other names a flag that makes the
// directory unnecessary; it may be empty.
func checkLedgerIn(dir, other string) error {
	for _, name := range []string{"jetstream", "projections.db"} { // with an outside NATS server only the second one exists
		_, err := os.Stat(filepath.Join(dir, name))
		if err == nil {
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("look for a ledger in %s: %w", dir, err)
		}
	}
	if other != "" {
		other = ", or " + other
	}
	return fmt.Errorf("there is no ledger in %s: name the data directory of the server with --data-dir%s; \"daybook serve\" prints it when it starts", dir, other)
}
