// Embed starts a Daybook inside a Go program. It runs a script, starts a second run from
// the heap of the first, and prints the recorded events.
//
//	go run ./examples/embed
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"daybook/embed"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer) error {
	dir, err := os.MkdirTemp("", "daybook-example-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	book, err := embed.Start(ctx, embed.Options{DataDir: dir})
	if err != nil {
		return err
	}
	defer book.Close()

	first, err := book.Run(ctx, embed.Script{Code: `const orders: string[] = ["tea"]; orders.length`})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "first run:", first.Status, *first.Result)

	second, err := book.Run(ctx, embed.Script{Code: `orders.push("biscuits"); orders.join(" and ")`, Heap: *first.Heap})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "second run:", second.Status, *second.Result)

	history, err := book.History(ctx, second.ExecutionID)
	if err != nil {
		return err
	}
	for _, e := range history {
		fmt.Fprintln(out, "recorded:", e.Type)
	}
	return nil
}
