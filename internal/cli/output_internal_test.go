package cli

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"daybook/internal/web/client"
)

// fullOutput is an output on a full disk.
type fullOutput struct{}

var errFull = errors.New("the disk is full")

func (fullOutput) Write([]byte) (int, error) { return 0, errFull }

// A command whose output cannot be written fails, also if it ignores the error.
func TestOutputThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"--version", "--help", "version"} {
		var stderr strings.Builder
		if status := Main(strings.Fields(args), strings.NewReader(""), fullOutput{}, &stderr); status != exitFailed || !strings.Contains(stderr.String(), "write the output: the disk is full") {
			t.Errorf("%s: status %d, %s", args, status, stderr.String())
		}
	}
}

// Every error of a request after a run was accepted names the run.
func TestRunHint(t *testing.T) {
	t.Parallel()
	for err, hint := range map[error]bool{
		&client.Error{Status: http.StatusTooManyRequests, Message: "over the limit"}: true,
		client.ErrNoServer: true,
		exitError(3):       false,
		errFull:            false,
	} {
		if got := withRunHint(err, "x"); !errors.Is(got, err) || strings.Contains(got.Error(), "exec watch x") != hint {
			t.Errorf("%v", got)
		}
	}
}
