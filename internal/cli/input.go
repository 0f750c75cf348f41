package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"daybook/embed"
)

// inputFailures are the system errors that the user can resolve by naming another file,
// directory or address.
var inputFailures = []syscall.Errno{
	syscall.ENOENT, syscall.EEXIST, syscall.EACCES, syscall.EPERM, syscall.ENOTDIR, syscall.EISDIR,
	syscall.ENAMETOOLONG, syscall.ELOOP, syscall.EROFS, syscall.EADDRNOTAVAIL,
}

// inputError returns an error as a usageError, unless it is an error of the system that is
// not in inputFailures, such as a full disk. It is for commands that fail only because of
// their arguments and files.
func inputError(err error) error {
	if err == nil {
		return nil
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok && !slices.Contains(inputFailures, errno) {
		return err
	}
	return usageError{err}
}

// optionError is inputError for errors of package embed about an option or about the
// directory of an export. The message names the flag instead of the option.
func optionError(err error) error {
	if _, ok := errors.AsType[*embed.ExportDirError](err); ok {
		return inputError(err)
	}
	if _, ok := errors.AsType[*embed.OptionError](err); ok {
		return inputError(flagError{error: err})
	}
	return err
}

// dataDirError returns an error about a file in a data directory that this user cannot write, or
// about the directory, as a usageError with advice. It returns other errors unchanged.
func dataDirError(err error, dir string) error {
	file, isFile := errors.AsType[*fs.PathError](err)
	if !isFile || !slices.ContainsFunc([]error{syscall.EACCES, syscall.EPERM, syscall.EROFS}, func(refused error) bool { return errors.Is(err, refused) }) {
		return err
	}
	if abs, failed := filepath.Abs(dir); failed == nil {
		dir = abs
	}
	path, failed := filepath.Abs(file.Path)
	if failed != nil || path != dir && !strings.HasPrefix(path, dir+string(filepath.Separator)) {
		return err
	}
	return usageError{fmt.Errorf("%w; a server must write to its data directory: give this user the right to write there, or name another directory with --data-dir", flagError{error: err})}
}

// checkExportDir returns an error unless dir is a directory.
func checkExportDir(flag, dir string) error {
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return usageError{fmt.Errorf("%s: %w; name the directory that \"daybook events export\" created", flag, err)}
	case err != nil:
		return inputError(fmt.Errorf("%s: %w", flag, err))
	case !info.IsDir():
		return usageError{fmt.Errorf("%s %s: an export is a directory; name the one that \"daybook events export\" created", flag, dir)}
	}
	return nil
}

// checkLedgerIn returns an error unless dir is the data directory of a server: a server
// creates jetstream and projections.db in it before it is ready. In another directory a
// command would report success, although no server reads what the command wrote. other
// names a flag that makes the directory unnecessary; it may be empty.
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
