package worker_test

import (
	"testing"

	"daybook/events"
	"daybook/internal/exec/worker"
)

// A task says whether its script has the globals of Node, also in a worker that ran others.
func TestNodeGlobals(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	for _, has := range []bool{false, true, false} {
		task := patient("typeof Buffer + typeof process")
		task.NodeGlobals = has
		var lines []events.Line
		o, err := pool.Run(t.Context(), task, collect(&lines))
		if err != nil || o.Result == nil {
			t.Fatalf("%v, %v", err, o)
		}
		want := map[bool]string{false: "undefinedundefined", true: "functionobject"}[has]
		if *o.Result != want {
			t.Errorf("with globals %t: %s", has, *o.Result)
		}
	}
}
