package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"daybook/embed"
)

// inputFailures are the errors of the system that the user resolves by naming
// something else.
var inputFailures = []syscall.Errno{
	syscall.ENOENT, syscall.EEXIST, syscall.EACCES, syscall.EPERM, syscall.ENOTDIR, syscall.EISDIR,
	syscall.ENAMETOOLONG, syscall.ELOOP, syscall.EROFS, syscall.EADDRNOTAVAIL,
}

// inputError marks an error of a command that only reads its arguments and files as a
// mistake of the user. An error of the system, such as a full disk, stays what it is.
func inputError(err error) error {
	if err == nil {
		return nil
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok && !slices.Contains(inputFailures, errno) {
		return err
	}
	return usageError{err}
}

// optionError is inputError for the errors of package embed that are about an option, which
// name the flag instead of the option, or about the directory of an export.
func optionError(err error) error {
	if _, ok := errors.AsType[*embed.ExportDirError](err); ok {
		return inputError(err)
	}
	if _, ok := errors.AsType[*embed.OptionError](err); ok {
		return inputError(flagError{err})
	}
	return err
}

// checkExportDir refuses a directory of an export that does not exist.
func checkExportDir(dir string) error {
	switch info, err := os.Stat(dir); {
	case err != nil:
		return inputError(fmt.Errorf("--export: %w", err))
	case !info.IsDir():
		return usageError{fmt.Errorf("--export %s: an export is a directory; name the one that \"daybook events export\" made", dir)}
	}
	return nil
}
