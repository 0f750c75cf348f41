// A program that embeds workers. It has a main and flags of its own, and its code does not deal with
// worker processes.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"daybook/events"
	"daybook/internal/exec/worker"
	"daybook/runner"
)

func main() {
	code := flag.String("code", "", "script to run")
	plain := flag.Bool("plain", false, "run it in a plain isolate")
	flag.Parse()
	pool := worker.New(worker.Options{Idle: -1})
	task := runner.Task{Tenant: "t", Code: []byte(*code), Stateful: !*plain, HeapLimitBytes: 64 << 20, Timeout: time.Minute, Start: time.Now()}
	o, err := pool.Run(context.Background(), task, func(_ context.Context, lines []events.Line) error {
		for _, l := range lines {
			fmt.Println(l.Text)
		}
		return nil
	})
	if err != nil || o.Result == nil {
		fmt.Fprintln(os.Stderr, o.Error, err)
		os.Exit(1)
	}
	fmt.Println(*o.Result)
	if err := pool.Close(); err != nil {
		os.Exit(1)
	}
}
