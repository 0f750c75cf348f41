package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// checkLedgerIn returns an error unless dir is the data directory of a server, of
// which a server makes both files before it is ready. A command that writes into another
// directory reports success, and no server sees what it wrote. other names a flag that
// does without the directory; it may be empty.
func checkLedgerIn(dir, other string) error {
	for _, name := range []string{"jetstream", "projections.db"} { // the second alone with an outside NATS server
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
