// Forecast lets a script fetch a table from a server, read it with a package of npm, keep it in
// an object of a class, and draw it as an artifact. The next day the script continues from its
// heap. In the end both runs are replayed from an export, without the server and without the
// registry.
//
//	go run ./examples/forecast
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"daybook/embed"
	"daybook/events"
)

func main() {
	if err := run(context.Background(), os.Stdout, "https://registry.npmjs.org"); err != nil {
		log.Fatal(err)
	}
}

// policy allows scripts to read the tables of the site, and nothing else.
const policy = `package mcp.fetch
default allow := false
allow if {
	input.method == "GET"
	input.url_parsed.host == "127.0.0.1"
	startswith(input.url_parsed.path, "/tables/")
}
`

// tables are what the site serves, by day.
var tables = map[string]string{
	"/tables/monday":  "day,degrees\nmonday,4\ntuesday,7\n",
	"/tables/tuesday": "day,degrees\nwednesday,9\n",
}

const firstDay = `
import Papa from "npm:papaparse@5";

class Forecast {
	#days = [];
	async read(table) {
		const response = await fetch("SITE/tables/" + table);
		const { data } = Papa.parse(await response.text(), { header: true, dynamicTyping: true, skipEmptyLines: true });
		this.#days.push(...data);
		return this.#days.length;
	}
	draw() {
		const bars = this.#days.map(({ day, degrees }, i) =>
			'<rect x="' + 20 * i + '" y="' + (100 - 10 * degrees) + '" width="16" height="' + 10 * degrees + '"><title>' + day + '</title></rect>');
		artifact("forecast.svg", "image/svg+xml", '<svg xmlns="http://www.w3.org/2000/svg">' + bars.join("") + '</svg>');
	}
}
const forecast = new Forecast();
console.log("days:", await forecast.read("monday"));
forecast.draw();
await fetch("SITE/secrets").catch(error => console.log(error.message.split(":")[0]));`

const nextDay = `
console.log("days:", await forecast.read("tuesday"));
forecast.draw();`

func run(ctx context.Context, out io.Writer, registry string) (err error) {
	dir, err := os.MkdirTemp("", "daybook-example-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	site, stop, err := serve()
	if err != nil {
		return err
	}
	defer stop()
	policyFile := filepath.Join(dir, "fetch.rego")
	if err := os.WriteFile(policyFile, []byte(policy), 0o600); err != nil {
		return err
	}
	opts := embed.Options{
		DataDir: filepath.Join(dir, "data"),
		Runs:    embed.RunOptions{Registry: registry},
		// The site is on this machine. Without AllowNetworks, scripts reach public addresses only.
		Fetch: embed.FetchOptions{Policy: policyFile, AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}},
	}

	book, err := embed.Start(ctx, opts)
	if err != nil {
		return err
	}
	if _, err := book.AdmitPackage(ctx, "papaparse@^5"); err != nil {
		return errors.Join(err, book.Close())
	}
	heap, err := runDay(ctx, out, book, embed.Script{Code: strings.ReplaceAll(firstDay, "SITE", site)})
	if err = errors.Join(err, book.Close()); err != nil {
		return err
	}

	// The next day: another process, the same data.
	if book, err = embed.Start(ctx, opts); err != nil {
		return err
	}
	_, err = runDay(ctx, out, book, embed.Script{Code: nextDay, Heap: heap})
	key := book.AuditKey()
	if err = errors.Join(err, book.Close()); err != nil {
		return err
	}
	stop()

	export := filepath.Join(dir, "export")
	if _, err := embed.Export(ctx, embed.ExportOptions{DataDir: opts.DataDir, Dir: export, Blobs: true}); err != nil {
		return err
	}
	return embed.ReplayExport(ctx, embed.ReplayExportOptions{Dir: export, Keys: []string{key}}, func(r embed.Replayed) error {
		fmt.Fprintln(out, "replay:", r.Verdict)
		return nil
	})
}

// runDay runs a script, prints its output and its artifacts, and returns its heap.
func runDay(ctx context.Context, out io.Writer, book *embed.Daybook, s embed.Script) (heap string, err error) {
	e, err := book.Run(ctx, s)
	if err != nil {
		return "", err
	}
	if e.Status != events.StatusCompleted {
		return "", fmt.Errorf("the script %s: %s", e.Status, *e.Error)
	}
	history, err := book.History(ctx, e.ExecutionID)
	if err != nil {
		return "", err
	}
	for _, event := range history {
		switch d := event.Data.(type) {
		case *events.ExecutionOutput:
			for _, line := range d.Content.Value().Lines {
				fmt.Fprintln(out, line.Text)
			}
		case *events.ExecutionArtifactCreated:
			a := d.Content.Value()
			fmt.Fprintf(out, "artifact: %s, %s, %d bytes\n", a.Name, a.MIME, d.Size)
		}
	}
	return *e.Heap, nil
}

// serve starts the site and returns its address. stop ends it, and may be called twice.
func serve() (address string, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	site := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		table, ok := tables[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/csv")
		_, _ = io.WriteString(w, table)
	})}
	go func() { _ = site.Serve(listener) }()
	return "http://" + listener.Addr().String(), func() { _ = site.Close() }, nil
}
