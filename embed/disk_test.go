package embed_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"daybook/embed"
	"daybook/events"
)

// A server that starts with less free space than its reserve answers reads, reports why it
// records nothing, and has all recorded events when there is space again.
func TestDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	book := start(t, embed.Options{DataDir: dir})
	if err := book.Unwritable(); err != nil {
		t.Skipf("the disk of this machine is full: %v", err)
	}
	if info, err := os.Stat(filepath.Join(dir, "ballast")); err != nil || info.Size() < 1<<20 {
		t.Errorf("no space is kept for a start on a full disk: %v", err)
	}
	first, err := book.Submit(within(t), embed.Script{Code: "6*7"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := book.Wait(within(t), first); err != nil {
		t.Fatal(err)
	}
	if err := book.Close(); err != nil {
		t.Fatal(err)
	}

	book = start(t, embed.Options{DataDir: dir, Resources: embed.ResourceOptions{DiskReserve: 1 << 50}})
	if _, err := os.Stat(filepath.Join(dir, "ballast")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the ballast still exists: %v", err)
	}
	if e, err := book.Wait(within(t), first); err != nil || e.Result == nil || *e.Result != "42" {
		t.Errorf("the recorded run is %+v, %v", e, err)
	}
	_, err = book.Submit(within(t), embed.Script{Code: "1"})
	var unwritable *events.UnwritableError
	if !errors.As(err, &unwritable) || !unwritable.Passes || !strings.Contains(err.Error(), "too little of the disk is free: ") {
		t.Errorf("a run on a full disk: %v", err)
	}
	for what, err := range map[string]error{"Ready": book.Ready(t.Context()), "Unwritable": book.Unwritable()} {
		if err == nil || !strings.Contains(err.Error(), "start the server with a smaller --disk-reserve") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := book.Close(); err != nil {
		t.Errorf("Close on a full disk: %v", err)
	}
	book = start(t, embed.Options{DataDir: dir, Resources: embed.ResourceOptions{DiskReserve: -1}})
	if result, _ := completes(t, book, embed.Script{Code: "2+2"}); result != "4" {
		t.Errorf("with space again 2+2 is %s", result)
	}
}

// A new data directory can be started on a full disk too: the server answers reads and
// reports why it records nothing.
func TestNewDirectoryOnAFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	book := start(t, embed.Options{DataDir: dir, Resources: embed.ResourceOptions{DiskReserve: 1 << 50}, HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}})
	_, err := book.Submit(within(t), embed.Script{Code: "1"})
	if err == nil || !strings.Contains(err.Error(), "too little of the disk is free: ") || !strings.Contains(err.Error(), "smaller --disk-reserve") {
		t.Errorf("a run on a full disk: %v", err)
	}
	if status, body := get(t, book.URL()+"/api/executions"); status != http.StatusOK || !strings.Contains(body, `"executions":[]`) {
		t.Errorf("the list of runs is answered %d: %s", status, body)
	}
	if err := book.Close(); err != nil {
		t.Errorf("Close on a full disk: %v", err)
	}
	book = start(t, embed.Options{DataDir: dir, Resources: embed.ResourceOptions{DiskReserve: -1}})
	if result, _ := completes(t, book, embed.Script{Code: "2+2"}); result != "4" {
		t.Errorf("with space again 2+2 is %s", result)
	}
}
