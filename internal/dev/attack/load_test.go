package attack_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
)

// loads are the kinds of clients that a process of the test binary can run instead of
// tests, by the variable that holds their number. Each gets the URL of the server, the
// token and the paths. It prints loadReady when it has started and a line for each wrong
// answer, and ends with the process.
var loads = map[string]func(clients int, base, token string, paths []string){
	followVariable: follow,
	readVariable:   readInLoop,
	batchVariable:  sendBatches,
}

// loadReady is the line that a load prints when it has started.
const loadReady = "ready"

// runLoad runs the load that this process was started for, if there is one.
func runLoad() {
	for variable, run := range loads {
		count := os.Getenv(variable)
		if count == "" {
			continue
		}
		n, err := strconv.Atoi(count)
		if err != nil {
			panic(err)
		}
		run(n, os.Args[1], os.Args[2], os.Args[3:])
		os.Exit(0)
	}
}

// load starts a process with a number of clients, returns when it is ready, and fails the
// test for each line that it prints. The process has a low priority, because clients on
// other machines would not use the server's processors. stop or the end of the test ends it.
func (s *server) load(variable, token string, clients int, paths ...string) (stop func()) {
	s.t.Helper()
	cmd := exec.Command("nice", append([]string{"-n", "19", os.Args[0], s.url(), token}, paths...)...)
	cmd.Env = append(os.Environ(), variable+"="+strconv.Itoa(clients))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = s.t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	printed := bufio.NewScanner(out)
	var wrong []string
	ready := false
	for !ready && printed.Scan() {
		if ready = printed.Text() == loadReady; !ready {
			wrong = append(wrong, printed.Text())
		}
	}
	t, more := s.t, make(chan []string, 1)
	go func() {
		var lines []string
		for printed.Scan() {
			if len(lines) < 5 {
				lines = append(lines, printed.Text())
			}
		}
		more <- lines
	}()
	stop = sync.OnceFunc(func() {
		cmd.Process.Kill()
		wrong = append(wrong, <-more...)
		cmd.Wait()
		if !ready {
			t.Errorf("the load of %s did not start", variable)
		}
		for _, line := range wrong {
			t.Errorf("the load received a wrong answer: %s", line)
		}
	})
	t.Cleanup(stop)
	if !ready {
		stop()
		t.FailNow()
	}
	return stop
}

// getAs requests a path with a token. It is called in the process of a load.
func getAs(client *http.Client, base, token, path, accept string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, base+path, nil)
	if err != nil {
		panic(err)
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("Authorization", "Bearer "+token)
	return client.Do(req)
}

// discard reads an answer to its end.
func discard(resp *http.Response) {
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
}
