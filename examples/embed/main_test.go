package main

import (
	"bytes"
	"testing"
)

func TestExample(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	const want = `first run: completed 1
second run: completed tea and biscuits
recorded: daybook.execution.requested.v1
recorded: daybook.execution.started.v1
recorded: daybook.execution.completed.v1
`
	if out.String() != want {
		t.Errorf("printed:\n%s\nwant:\n%s", out.String(), want)
	}
}
